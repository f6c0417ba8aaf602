#include "core/auth.h"

#include "core/auth_parts.h"

#include <assert.h>
#include <stdlib.h>

const struct bytes auth_root = {.data = (const uint8_t *)"root", .size = 4};

/* --- Memory. --- */

static void *allocate(size_t size) {
    void *memory = calloc(1, size > 0 ? size : 1);
    if (memory == NULL) {
        abort();
    }
    return memory;
}

static struct bytes keep(struct bytes bytes) {
    uint8_t *data = allocate(bytes.size);
    if (bytes.size > 0) {
        memcpy(data, bytes.data, bytes.size);
    }
    return bytes_of(data, bytes.size);
}

static void give_back(struct bytes bytes) {
    free((void *)(uintptr_t)bytes.data);
}

/* Makes room for one more element at `index` and returns the array. */
static void *array_open(void *array, size_t n, size_t size, size_t index) {
    uint8_t *grown = realloc(array, (n + 1) * size);
    if (grown == NULL) {
        abort();
    }
    memmove(grown + (index + 1) * size, grown + index * size, (n - index) * size);
    return grown;
}

static void array_close(void *array, size_t n, size_t size, size_t index) {
    uint8_t *bytes = array;
    memmove(bytes + index * size, bytes + (index + 1) * size, (n - index - 1) * size);
}

struct auth *auth_create(void) {
    struct auth *auth = allocate(sizeof *auth);
    auth->revision = 1;
    return auth;
}

static void user_destroy(struct user *user) {
    give_back(user->name);
    give_back(user->password_hash);
    for (size_t i = 0; i < user->n_roles; i++) {
        give_back(user->roles[i]);
    }
    free(user->roles);
    auth_ranges_destroy(user->ranges);
    free(user);
}

static void permission_clear(struct permission *permission) {
    give_back(permission->range.key);
    give_back(permission->range.range_end);
}

static void role_destroy(struct role *role) {
    give_back(role->name);
    for (size_t i = 0; i < role->n_permissions; i++) {
        permission_clear(&role->permissions[i]);
    }
    free(role->permissions);
    free(role);
}

void auth_destroy(struct auth *auth) {
    if (auth == NULL) {
        return;
    }
    for (size_t i = 0; i < auth->n_users; i++) {
        user_destroy(auth->users[i]);
    }
    for (size_t i = 0; i < auth->n_roles; i++) {
        role_destroy(auth->roles[i]);
    }
    free(auth->users);
    free(auth->by_id);
    free(auth->roles);
    free(auth);
}

void auth_succeed(struct auth *auth, struct auth *before) {
    auth->generation = before->generation + 1;
    auth_destroy(before);
}

void auth_renew(struct auth *auth, uint64_t revision, struct bytes token_key) {
    assert(token_key.size == AUTH_TOKEN_KEY_SIZE);
    if (revision > auth->revision) {
        auth->revision = revision;
    }
    if (auth->token_key_size > 0) {
        memcpy(auth->token_key, token_key.data, token_key.size);
    }
    auth->generation++;
}

/* --- Finding. --- */

bool auth_names_index(const struct bytes *names, size_t n, struct bytes name, size_t *out_index) {
    size_t low = 0;
    size_t high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (bytes_compare(names[middle], name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *out_index = low;
    return low < n && bytes_equal(names[low], name);
}

bool auth_user_index(const struct auth *auth, struct bytes name, size_t *out_index) {
    size_t low = 0;
    size_t high = auth->n_users;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (bytes_compare(auth->users[middle]->name, name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *out_index = low;
    return low < auth->n_users && bytes_equal(auth->users[low]->name, name);
}

bool auth_role_index(const struct auth *auth, struct bytes name, size_t *out_index) {
    size_t low = 0;
    size_t high = auth->n_roles;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (bytes_compare(auth->roles[middle]->name, name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *out_index = low;
    return low < auth->n_roles && bytes_equal(auth->roles[low]->name, name);
}

static size_t id_index(const struct auth *auth, uint64_t id) {
    size_t low = 0;
    size_t high = auth->n_users;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (auth->by_id[middle]->id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct user *auth_user_of_id(const struct auth *auth, uint64_t id) {
    size_t i = id_index(auth, id);
    return i < auth->n_users && auth->by_id[i]->id == id ? auth->by_id[i] : NULL;
}

int auth_permission_compare(const struct permission *a, const struct permission *b) {
    if (a->range.space.value != b->range.space.value) {
        return a->range.space.value < b->range.space.value ? -1 : 1;
    }
    int order = bytes_compare(a->range.key, b->range.key);
    return order != 0 ? order : bytes_compare(a->range.range_end, b->range.range_end);
}

bool auth_permission_index(const struct role *role, const struct permission *wanted,
                           size_t *out_index) {
    size_t i = 0;
    while (i < role->n_permissions && auth_permission_compare(&role->permissions[i], wanted) < 0) {
        i++;
    }
    *out_index = i;
    return i < role->n_permissions && auth_permission_compare(&role->permissions[i], wanted) == 0;
}

/* --- Parts. --- */

static size_t user_bytes(const struct user *user) {
    return AUTH_ENTRY_OVERHEAD + user->name.size + user->password_hash.size;
}

size_t auth_permission_bytes(const struct permission *permission) {
    return AUTH_ENTRY_OVERHEAD + permission->range.key.size + permission->range.range_end.size;
}

struct user *auth_add_user(struct auth *auth, const struct auth_user *facts) {
    size_t index;
    bool is_there = auth_user_index(auth, facts->name, &index);
    assert(!is_there);
    struct user *user = allocate(sizeof *user);
    user->id = facts->id;
    user->version = facts->version;
    user->name = keep(facts->name);
    user->password_hash = keep(facts->password_hash);
    auth->users = array_open(auth->users, auth->n_users, sizeof *auth->users, index);
    auth->users[index] = user;
    size_t by_id = id_index(auth, user->id);
    auth->by_id = array_open(auth->by_id, auth->n_users, sizeof *auth->by_id, by_id);
    auth->by_id[by_id] = user;
    auth->n_users++;
    auth->bytes += user_bytes(user);
    return user;
}

struct role *auth_add_role(struct auth *auth, struct bytes name) {
    size_t index;
    bool is_there = auth_role_index(auth, name, &index);
    assert(!is_there);
    struct role *role = allocate(sizeof *role);
    role->name = keep(name);
    auth->roles = array_open(auth->roles, auth->n_roles, sizeof *auth->roles, index);
    auth->roles[index] = role;
    auth->n_roles++;
    auth->bytes += AUTH_ENTRY_OVERHEAD + name.size;
    return role;
}

void auth_add_permission(struct auth *auth, struct role *role,
                         const struct permission *permission) {
    size_t index;
    bool is_there = auth_permission_index(role, permission, &index);
    assert(!is_there);
    role->permissions =
        array_open(role->permissions, role->n_permissions, sizeof *role->permissions, index);
    role->permissions[index] = *permission;
    role->permissions[index].range.key = keep(permission->range.key);
    role->permissions[index].range.range_end = keep(permission->range.range_end);
    role->n_permissions++;
    auth->bytes += auth_permission_bytes(permission);
}

void auth_add_role_of_user(struct auth *auth, struct user *user, struct bytes name) {
    size_t index;
    bool is_there = auth_names_index(user->roles, user->n_roles, name, &index);
    assert(!is_there);
    user->roles = array_open(user->roles, user->n_roles, sizeof *user->roles, index);
    user->roles[index] = keep(name);
    user->n_roles++;
    auth->bytes += AUTH_ENTRY_OVERHEAD + name.size;
}

void auth_remove_role_of_user(struct auth *auth, struct user *user, size_t index) {
    auth->bytes -= AUTH_ENTRY_OVERHEAD + user->roles[index].size;
    give_back(user->roles[index]);
    array_close(user->roles, user->n_roles, sizeof *user->roles, index);
    user->n_roles--;
}

void auth_remove_user(struct auth *auth, size_t index) {
    struct user *user = auth->users[index];
    while (user->n_roles > 0) {
        auth_remove_role_of_user(auth, user, user->n_roles - 1);
    }
    array_close(auth->by_id, auth->n_users, sizeof *auth->by_id, id_index(auth, user->id));
    array_close(auth->users, auth->n_users, sizeof *auth->users, index);
    auth->n_users--;
    auth->bytes -= user_bytes(user);
    user_destroy(user);
}

void auth_remove_permission(struct auth *auth, struct role *role, size_t index) {
    auth->bytes -= auth_permission_bytes(&role->permissions[index]);
    permission_clear(&role->permissions[index]);
    array_close(role->permissions, role->n_permissions, sizeof *role->permissions, index);
    role->n_permissions--;
}

void auth_remove_role(struct auth *auth, size_t index) {
    struct role *role = auth->roles[index];
    for (size_t i = 0; i < auth->n_users; i++) {
        size_t at;
        if (auth_names_index(auth->users[i]->roles, auth->users[i]->n_roles, role->name, &at)) {
            auth_remove_role_of_user(auth, auth->users[i], at);
        }
    }
    while (role->n_permissions > 0) {
        auth_remove_permission(auth, role, role->n_permissions - 1);
    }
    auth->bytes -= AUTH_ENTRY_OVERHEAD + role->name.size;
    array_close(auth->roles, auth->n_roles, sizeof *auth->roles, index);
    auth->n_roles--;
    role_destroy(role);
}

void auth_set_password(struct auth *auth, struct user *user, struct bytes password_hash) {
    auth->bytes -= user->password_hash.size;
    auth->bytes += password_hash.size;
    give_back(user->password_hash);
    user->password_hash = keep(password_hash);
}

/* --- Validating. --- */

static size_t validate_user(const struct auth *auth, const struct user *user) {
    size_t bytes = user_bytes(user);
    assert(user->id > 0);
    assert(user->version >= user->id);
    assert(user->version <= auth->revision);
    assert(auth_user_of_id(auth, user->id) == user);
    for (size_t i = 0; i < user->n_roles; i++) {
        size_t ignored;
        assert(i == 0 || bytes_compare(user->roles[i - 1], user->roles[i]) < 0);
        bool is_known = auth_role_index(auth, user->roles[i], &ignored);
        assert(is_known || bytes_equal(user->roles[i], auth_root));
        bytes += AUTH_ENTRY_OVERHEAD + user->roles[i].size;
    }
    return bytes;
}

void auth_validate(const struct auth *auth) {
    size_t bytes = 0;
    for (size_t i = 0; i < auth->n_users; i++) {
        assert(i == 0 || bytes_compare(auth->users[i - 1]->name, auth->users[i]->name) < 0);
        assert(i == 0 || auth->by_id[i - 1]->id < auth->by_id[i]->id);
        bytes += validate_user(auth, auth->users[i]);
    }
    for (size_t i = 0; i < auth->n_roles; i++) {
        const struct role *role = auth->roles[i];
        assert(i == 0 || bytes_compare(auth->roles[i - 1]->name, role->name) < 0);
        bytes += AUTH_ENTRY_OVERHEAD + role->name.size;
        for (size_t j = 0; j < role->n_permissions; j++) {
            assert(j == 0 ||
                   auth_permission_compare(&role->permissions[j - 1], &role->permissions[j]) < 0);
            bytes += auth_permission_bytes(&role->permissions[j]);
        }
    }
    assert(bytes == auth->bytes);
    assert(bytes <= AUTH_BYTES_MAX);
    assert(!auth->is_enabled || auth->token_key_size == AUTH_TOKEN_KEY_SIZE);
}

/* --- Reading. --- */

bool auth_is_enabled(const struct auth *auth) {
    return auth->is_enabled;
}

uint64_t auth_revision(const struct auth *auth) {
    return auth->revision;
}

uint64_t auth_generation(const struct auth *auth) {
    return auth->generation;
}

struct bytes auth_token_key(const struct auth *auth) {
    return bytes_of(auth->token_key, auth->token_key_size);
}

uint64_t auth_token_epoch(const struct auth *auth) {
    return auth->token_epoch;
}

static void show_user(const struct user *user, struct auth_user *out_user) {
    *out_user = (struct auth_user){.id = user->id,
                                   .version = user->version,
                                   .name = user->name,
                                   .password_hash = user->password_hash,
                                   .n_roles = user->n_roles,
                                   .roles = user->roles};
}

static void show_role(const struct role *role, struct auth_role *out_role) {
    *out_role = (struct auth_role){
        .name = role->name, .n_permissions = role->n_permissions, .permissions = role->permissions};
}

size_t auth_user_count(const struct auth *auth) {
    return auth->n_users;
}

void auth_user_at(const struct auth *auth, size_t i, struct auth_user *out_user) {
    assert(i < auth->n_users);
    show_user(auth->users[i], out_user);
}

size_t auth_role_count(const struct auth *auth) {
    return auth->n_roles;
}

void auth_role_at(const struct auth *auth, size_t i, struct auth_role *out_role) {
    assert(i < auth->n_roles);
    show_role(auth->roles[i], out_role);
}

bool auth_find_user(const struct auth *auth, struct bytes name, struct auth_user *out_user) {
    size_t index;
    bool is_there = auth_user_index(auth, name, &index);
    if (is_there) {
        show_user(auth->users[index], out_user);
    }
    return is_there;
}

bool auth_find_user_id(const struct auth *auth, uint64_t id, struct auth_user *out_user) {
    const struct user *user = auth_user_of_id(auth, id);
    if (user != NULL) {
        show_user(user, out_user);
    }
    return user != NULL;
}

bool auth_find_role(const struct auth *auth, struct bytes name, struct auth_role *out_role) {
    size_t index;
    bool is_there = auth_role_index(auth, name, &index);
    if (is_there) {
        show_role(auth->roles[index], out_role);
    }
    return is_there;
}
