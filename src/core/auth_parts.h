/*
 * Users and roles from inside: shared by auth.c (the tables), auth_changes.c, auth_check.c
 * (rights) and auth_codec.c (bytes).
 */
#ifndef LEASED_CORE_AUTH_PARTS_H
#define LEASED_CORE_AUTH_PARTS_H

#include "core/auth.h"
#include "core/auth_ranges.h"

/* Names, hashes and keys are owned. */
struct user {
    uint64_t id;
    uint64_t version;
    struct bytes name;
    struct bytes password_hash;
    size_t n_roles;
    struct bytes *roles;
    /* What its roles grant, worked out when it is first asked for. */
    struct auth_ranges *ranges;
    uint64_t ranges_generation;
};

struct role {
    struct bytes name;
    size_t n_permissions;
    struct permission *permissions;
};

struct auth {
    bool is_enabled;
    uint64_t revision;
    uint64_t generation;
    uint64_t token_epoch;
    size_t token_key_size; /* 0 or AUTH_TOKEN_KEY_SIZE */
    uint8_t token_key[AUTH_TOKEN_KEY_SIZE];
    size_t n_users;
    struct user **users; /* by name */
    struct user **by_id; /* the same */
    size_t n_roles;
    struct role **roles; /* by name */
    size_t bytes;        /* counted against AUTH_BYTES_MAX */
};

extern const struct bytes auth_root; /* the name of both */

/* The index of a name, or where it would be. */
bool auth_user_index(const struct auth *auth, struct bytes name, size_t *out_index);
bool auth_role_index(const struct auth *auth, struct bytes name, size_t *out_index);
bool auth_names_index(const struct bytes *names, size_t n, struct bytes name, size_t *out_index);
struct user *auth_user_of_id(const struct auth *auth, uint64_t id);
/* By space, key, range end. */
int auth_permission_compare(const struct permission *a, const struct permission *b);
bool auth_permission_index(const struct role *role, const struct permission *wanted,
                           size_t *out_index);

/* What a user, a role or a permission costs beside its bytes. */
enum { AUTH_ENTRY_OVERHEAD = 64 };
size_t auth_permission_bytes(const struct permission *permission);

/* Adds what is not there, whatever the limits say; copies what it is given. */
struct user *auth_add_user(struct auth *auth, const struct auth_user *facts);
struct role *auth_add_role(struct auth *auth, struct bytes name);
void auth_add_permission(struct auth *auth, struct role *role, const struct permission *permission);
void auth_add_role_of_user(struct auth *auth, struct user *user, struct bytes name);
void auth_set_password(struct auth *auth, struct user *user, struct bytes password_hash);

void auth_remove_user(struct auth *auth, size_t index);
/* From its users, too. */
void auth_remove_role(struct auth *auth, size_t index);
void auth_remove_permission(struct auth *auth, struct role *role, size_t index);
void auth_remove_role_of_user(struct auth *auth, struct user *user, size_t index);

#endif
