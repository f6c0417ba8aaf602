/*
 * Users, roles and permissions: replicated state, changed only by COMMAND_AUTH, equal on every
 * replica. Names, errors and meanings are etcd's: a user has roles, a role has permissions on
 * ranges of keys, the role "root" may do everything, and authentication can be enabled only while
 * a user "root" has it.
 *
 * Passwords arrive hashed; nothing here hashes, and nothing here compares a secret.
 */
#ifndef LEASED_CORE_AUTH_H
#define LEASED_CORE_AUTH_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"
#include "core/caller.h"
#include "core/permission.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    AUTH_NAME_SIZE_MAX = 256,
    AUTH_PASSWORD_HASH_SIZE_MAX = 384, /* libxcrypt's CRYPT_OUTPUT_SIZE */
    AUTH_TOKEN_KEY_SIZE = 32,
    AUTH_PERMISSION_KEY_SIZE_MAX = 16 * 1024,
    AUTH_USERS_MAX = 10 * 1000,
    AUTH_ROLES_MAX = 10 * 1000,
    AUTH_ROLES_PER_USER_MAX = 256,
    AUTH_PERMISSIONS_PER_ROLE_MAX = 1024,
    /* Of all names, hashes and permissions: a snapshot copies them on the loop. */
    AUTH_BYTES_MAX = 8 * 1024 * 1024
};

enum auth_action {
    AUTH_ENABLE = 1,
    AUTH_DISABLE = 2,
    AUTH_USER_ADD = 3,
    AUTH_USER_DELETE = 4,
    AUTH_USER_SET_PASSWORD = 5,
    AUTH_USER_GRANT_ROLE = 6,
    AUTH_USER_REVOKE_ROLE = 7,
    AUTH_ROLE_ADD = 8,
    AUTH_ROLE_DELETE = 9,
    AUTH_ROLE_GRANT_PERMISSION = 10,
    AUTH_ROLE_REVOKE_PERMISSION = 11,
    /* Proposed by the server alone: */
    AUTH_TOKEN_EPOCH = 12, /* tokens grow older by one */
    AUTH_TOKEN_KEY = 13    /* tokens of before end */
};

/* A change, of which the action takes what it needs. */
struct auth_change {
    enum auth_action action;
    struct bytes user;
    struct bytes role;
    struct bytes password_hash; /* empty: the user has none, and needs a certificate */
    /* To revoke a permission only its range counts. */
    struct permission permission;
    struct bytes token_key; /* of AUTH_ENABLE, AUTH_TOKEN_KEY: random, AUTH_TOKEN_KEY_SIZE */
};

/* Refuses what must never reach the log. STATUS_USER_EMPTY, _ROLE_EMPTY, _PERMISSION_NOT_GIVEN,
 * _AUTH_MANAGEMENT_INVALID (a range without keys), _REQUEST_TOO_LARGE, _INVALID. */
enum status auth_change_check(const struct auth_change *change);
void auth_change_encode(struct buffer *buffer, const struct auth_change *change);
/* Sets reader->failed when it is malformed. Views point into the reader's bytes. */
void auth_change_decode(struct reader *reader, struct auth_change *out_change);

struct auth;

struct auth *auth_create(void);
void auth_destroy(struct auth *auth);

/* STATUS_USER_EXISTS, _USER_NOT_FOUND, _ROLE_EXISTS, _ROLE_NOT_FOUND, _ROLE_NOT_GRANTED,
 * _PERMISSION_NOT_GRANTED, _ROOT_USER_MISSING, _ROOT_ROLE_MISSING, _AUTH_MANAGEMENT_INVALID (what
 * would lock all users out), _TOO_MANY_REQUESTS (a limit of this header). Nothing is changed
 * then. */
enum status auth_apply(struct auth *auth, const struct auth_change *change);
/* What the change would be in work (key_work.h); 0 for what is little. */
size_t auth_change_work(const struct auth *auth, const struct auth_change *change);

/* --- Reading. --- */

bool auth_is_enabled(const struct auth *auth);
/* Grows with every change of users and roles; 1 in the beginning. */
uint64_t auth_revision(const struct auth *auth);
/* Grows with everything that a right may depend on: a check made at another generation is to be
 * made again. Local, not replicated. */
uint64_t auth_generation(const struct auth *auth);
/* Of tokens: AUTH_TOKEN_KEY_SIZE bytes, or empty while authentication has never been enabled. */
struct bytes auth_token_key(const struct auth *auth);
uint64_t auth_token_epoch(const struct auth *auth);

/* Borrowed until the next change. */
struct auth_user {
    uint64_t id;      /* never used again */
    uint64_t version; /* of its credentials: grows when the password is changed */
    struct bytes name;
    struct bytes password_hash; /* empty: none */
    size_t n_roles;
    const struct bytes *roles; /* names, in order */
};
struct auth_role {
    struct bytes name;
    size_t n_permissions;
    const struct permission *permissions; /* by space, key and range end */
};
/* By name. */
size_t auth_user_count(const struct auth *auth);
void auth_user_at(const struct auth *auth, size_t i, struct auth_user *out_user);
size_t auth_role_count(const struct auth *auth);
void auth_role_at(const struct auth *auth, size_t i, struct auth_role *out_role);
bool auth_find_user(const struct auth *auth, struct bytes name, struct auth_user *out_user);
bool auth_find_user_id(const struct auth *auth, uint64_t id, struct auth_user *out_user);
bool auth_find_role(const struct auth *auth, struct bytes name, struct auth_role *out_role);

/* --- Checking. While authentication is off, and for members and the server itself, everything is
 * allowed. --- */

/* STATUS_USER_EMPTY: an anonymous caller. STATUS_AUTH_TOKEN_INVALID: the user is gone, or its
 * password was changed since. */
enum status auth_check_user(const struct auth *auth, const struct caller *caller);
/* Also STATUS_PERMISSION_DENIED: the user does not have the role "root". */
enum status auth_check_admin(const struct auth *auth, const struct caller *caller);
/* Also STATUS_PERMISSION_DENIED: its roles together do not cover the range. */
enum status auth_check_range(const struct auth *auth, const struct caller *caller, enum right right,
                             const struct key_range *range);

/* To check many ranges for one caller: what its roles together cover (auth_ranges.h), borrowed
 * until the next change. NULL: it needs no right, or it is not known. */
struct auth_ranges;
const struct auth_ranges *auth_ranges_of(const struct auth *auth, const struct caller *caller);

/* --- Snapshots. --- */

void auth_encode(const struct auth *auth, struct buffer *buffer);
/* Into a new one. STATUS_CORRUPT: it is then good for nothing but auth_destroy(). */
enum status auth_decode(struct auth *auth, struct reader *reader);

/* The highest revision of a backup: changes count on from there, and what they come to must be read
 * again. */
#define AUTH_REVISION_IMPORTED_MAX ((uint64_t)INT64_MAX / 4 * 3)
/* A backup begins a new cluster: the revision is at least this one, and if there is a key of
 * tokens, it is this one, so that tokens of the old cluster are worth nothing. */
void auth_renew(struct auth *auth, uint64_t revision, struct bytes token_key);

/* One takes another one's place: its generation goes on from there. The other one is gone. */
void auth_succeed(struct auth *auth, struct auth *before);

/* Asserts every invariant; for tests. */
void auth_validate(const struct auth *auth);

#endif
