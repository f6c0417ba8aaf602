/* Rights. Everything is allowed while authentication is off, and to members and the server. */
#include "core/auth_parts.h"

#include <stdlib.h>

static bool is_free(const struct auth *auth, const struct caller *caller) {
    return !auth->is_enabled || caller->kind != CALLER_CLIENT;
}

/* NULL, with the reason. */
static struct user *find(const struct auth *auth, const struct caller *caller,
                         enum status *out_status) {
    if (caller->user_id == 0) {
        *out_status = STATUS_USER_EMPTY;
        return NULL;
    }
    struct user *user = auth_user_of_id(auth, caller->user_id);
    if (user == NULL || user->version != caller->auth_version) {
        *out_status = STATUS_AUTH_TOKEN_INVALID;
        return NULL;
    }
    *out_status = STATUS_OK;
    return user;
}

static bool is_root(const struct user *user) {
    size_t ignored;
    return auth_names_index(user->roles, user->n_roles, auth_root, &ignored);
}

enum status auth_check_user(const struct auth *auth, const struct caller *caller) {
    enum status status = STATUS_OK;
    if (!is_free(auth, caller)) {
        (void)find(auth, caller, &status);
    }
    return status;
}

enum status auth_check_admin(const struct auth *auth, const struct caller *caller) {
    enum status status = STATUS_OK;
    if (is_free(auth, caller)) {
        return STATUS_OK;
    }
    const struct user *user = find(auth, caller, &status);
    return user != NULL && !is_root(user) ? STATUS_PERMISSION_DENIED : status;
}

static struct auth_ranges *build_ranges(const struct auth *auth, const struct user *user) {
    size_t n = 0;
    size_t index;
    for (size_t i = 0; i < user->n_roles; i++) {
        if (auth_role_index(auth, user->roles[i], &index)) {
            n += auth->roles[index]->n_permissions;
        }
    }
    const struct permission **permissions = calloc(n > 0 ? n : 1, sizeof *permissions);
    if (permissions == NULL) {
        abort();
    }
    n = 0;
    for (size_t i = 0; i < user->n_roles; i++) {
        if (auth_role_index(auth, user->roles[i], &index)) {
            const struct role *role = auth->roles[index];
            for (size_t j = 0; j < role->n_permissions; j++) {
                permissions[n++] = &role->permissions[j];
            }
        }
    }
    struct auth_ranges *ranges = auth_ranges_create(permissions, n);
    free(permissions);
    return ranges;
}

static const struct auth_ranges *ranges_of(const struct auth *auth, struct user *user) {
    if (user->ranges == NULL || user->ranges_generation != auth->generation) {
        auth_ranges_destroy(user->ranges);
        user->ranges = build_ranges(auth, user);
        user->ranges_generation = auth->generation;
    }
    return user->ranges;
}

const struct auth_ranges *auth_ranges_of(const struct auth *auth, const struct caller *caller) {
    enum status status = STATUS_OK;
    struct user *user = is_free(auth, caller) ? NULL : find(auth, caller, &status);
    return user == NULL || is_root(user) ? NULL : ranges_of(auth, user);
}

enum status auth_check_range(const struct auth *auth, const struct caller *caller, enum right right,
                             const struct key_range *range) {
    enum status status = STATUS_OK;
    if (is_free(auth, caller)) {
        return STATUS_OK;
    }
    struct user *user = find(auth, caller, &status);
    if (user == NULL || is_root(user) || key_space_is_of_records(range->space)) {
        return status;
    }
    return auth_ranges_cover(ranges_of(auth, user), right, range) ? STATUS_OK
                                                                  : STATUS_PERMISSION_DENIED;
}
