/* Changes of users and roles. The rules are etcd's, so that its clients see the errors they know.
 */
#include "core/auth_parts.h"

/* A user whose roles are looked through, in records looked at (key_work.h): memory that nothing
 * else has brought close. */
enum { WORK_A_USER = 16 };

static bool is_full(const struct auth *auth, size_t extra) {
    return auth->bytes + AUTH_ENTRY_OVERHEAD + extra > AUTH_BYTES_MAX;
}

static void set_token_key(struct auth *auth, const struct auth_change *change) {
    memcpy(auth->token_key, change->token_key.data, AUTH_TOKEN_KEY_SIZE);
    auth->token_key_size = AUTH_TOKEN_KEY_SIZE;
}

static enum status enable(struct auth *auth, const struct auth_change *change) {
    size_t index;
    size_t ignored;
    if (auth->is_enabled) {
        return STATUS_OK;
    }
    if (!auth_user_index(auth, auth_root, &index)) {
        return STATUS_ROOT_USER_MISSING;
    }
    const struct user *root = auth->users[index];
    if (!auth_names_index(root->roles, root->n_roles, auth_root, &ignored)) {
        return STATUS_ROOT_ROLE_MISSING;
    }
    /* Another key each time: tokens of before are not good any more. */
    set_token_key(auth, change);
    auth->is_enabled = true;
    return STATUS_OK;
}

static enum status disable(struct auth *auth) {
    if (auth->is_enabled) {
        auth->is_enabled = false;
        auth->revision++;
    }
    return STATUS_OK;
}

static enum status user_add(struct auth *auth, const struct auth_change *change) {
    size_t index;
    if (auth_user_index(auth, change->user, &index)) {
        return STATUS_USER_EXISTS;
    }
    if (auth->n_users == AUTH_USERS_MAX ||
        is_full(auth, change->user.size + change->password_hash.size)) {
        return STATUS_TOO_MANY_REQUESTS;
    }
    auth->revision++;
    const struct auth_user facts = {.id = auth->revision,
                                    .version = auth->revision,
                                    .name = change->user,
                                    .password_hash = change->password_hash};
    (void)auth_add_user(auth, &facts);
    return STATUS_OK;
}

static enum status user_delete(struct auth *auth, const struct auth_change *change) {
    size_t index;
    if (auth->is_enabled && bytes_equal(change->user, auth_root)) {
        return STATUS_AUTH_MANAGEMENT_INVALID;
    }
    if (!auth_user_index(auth, change->user, &index)) {
        return STATUS_USER_NOT_FOUND;
    }
    auth_remove_user(auth, index);
    auth->revision++;
    return STATUS_OK;
}

static enum status user_set_password(struct auth *auth, const struct auth_change *change) {
    size_t index;
    if (!auth_user_index(auth, change->user, &index)) {
        return STATUS_USER_NOT_FOUND;
    }
    if (is_full(auth, change->password_hash.size)) {
        return STATUS_TOO_MANY_REQUESTS;
    }
    auth_set_password(auth, auth->users[index], change->password_hash);
    auth->users[index]->version = ++auth->revision;
    return STATUS_OK;
}

static enum status user_grant_role(struct auth *auth, const struct auth_change *change) {
    size_t index;
    size_t ignored;
    if (!auth_user_index(auth, change->user, &index)) {
        return STATUS_USER_NOT_FOUND;
    }
    /* As in etcd, "root" can be granted before it is added. */
    if (!bytes_equal(change->role, auth_root) && !auth_role_index(auth, change->role, &ignored)) {
        return STATUS_ROLE_NOT_FOUND;
    }
    struct user *user = auth->users[index];
    if (auth_names_index(user->roles, user->n_roles, change->role, &ignored)) {
        return STATUS_OK;
    }
    if (user->n_roles == AUTH_ROLES_PER_USER_MAX || is_full(auth, change->role.size)) {
        return STATUS_TOO_MANY_REQUESTS;
    }
    auth_add_role_of_user(auth, user, change->role);
    auth->revision++;
    return STATUS_OK;
}

static enum status user_revoke_role(struct auth *auth, const struct auth_change *change) {
    size_t index;
    size_t role;
    if (auth->is_enabled && bytes_equal(change->user, auth_root) &&
        bytes_equal(change->role, auth_root)) {
        return STATUS_AUTH_MANAGEMENT_INVALID;
    }
    if (!auth_user_index(auth, change->user, &index)) {
        return STATUS_USER_NOT_FOUND;
    }
    struct user *user = auth->users[index];
    if (!auth_names_index(user->roles, user->n_roles, change->role, &role)) {
        return STATUS_ROLE_NOT_GRANTED;
    }
    auth_remove_role_of_user(auth, user, role);
    auth->revision++;
    return STATUS_OK;
}

static enum status role_add(struct auth *auth, const struct auth_change *change) {
    size_t index;
    if (auth_role_index(auth, change->role, &index)) {
        return STATUS_ROLE_EXISTS;
    }
    if (auth->n_roles == AUTH_ROLES_MAX || is_full(auth, change->role.size)) {
        return STATUS_TOO_MANY_REQUESTS;
    }
    (void)auth_add_role(auth, change->role);
    auth->revision++;
    return STATUS_OK;
}

static enum status role_delete(struct auth *auth, const struct auth_change *change) {
    size_t index;
    if (auth->is_enabled && bytes_equal(change->role, auth_root)) {
        return STATUS_AUTH_MANAGEMENT_INVALID;
    }
    if (!auth_role_index(auth, change->role, &index)) {
        return STATUS_ROLE_NOT_FOUND;
    }
    auth_remove_role(auth, index);
    auth->revision++;
    return STATUS_OK;
}

static enum status role_grant(struct auth *auth, const struct auth_change *change) {
    size_t index;
    size_t at;
    if (!auth_role_index(auth, change->role, &index)) {
        return STATUS_ROLE_NOT_FOUND;
    }
    struct role *role = auth->roles[index];
    if (auth_permission_index(role, &change->permission, &at)) {
        role->permissions[at].right = change->permission.right;
    } else if (role->n_permissions == AUTH_PERMISSIONS_PER_ROLE_MAX ||
               is_full(auth, auth_permission_bytes(&change->permission))) {
        return STATUS_TOO_MANY_REQUESTS;
    } else {
        auth_add_permission(auth, role, &change->permission);
    }
    auth->revision++;
    return STATUS_OK;
}

static enum status role_revoke(struct auth *auth, const struct auth_change *change) {
    size_t index;
    size_t at;
    if (!auth_role_index(auth, change->role, &index)) {
        return STATUS_ROLE_NOT_FOUND;
    }
    struct role *role = auth->roles[index];
    if (!auth_permission_index(role, &change->permission, &at)) {
        return STATUS_PERMISSION_NOT_GRANTED;
    }
    auth_remove_permission(auth, role, at);
    auth->revision++;
    return STATUS_OK;
}

static enum status apply(struct auth *auth, const struct auth_change *change) {
    switch (change->action) {
    case AUTH_ENABLE:
        return enable(auth, change);
    case AUTH_DISABLE:
        return disable(auth);
    case AUTH_USER_ADD:
        return user_add(auth, change);
    case AUTH_USER_DELETE:
        return user_delete(auth, change);
    case AUTH_USER_SET_PASSWORD:
        return user_set_password(auth, change);
    case AUTH_USER_GRANT_ROLE:
        return user_grant_role(auth, change);
    case AUTH_USER_REVOKE_ROLE:
        return user_revoke_role(auth, change);
    case AUTH_ROLE_ADD:
        return role_add(auth, change);
    case AUTH_ROLE_DELETE:
        return role_delete(auth, change);
    case AUTH_ROLE_GRANT_PERMISSION:
        return role_grant(auth, change);
    case AUTH_ROLE_REVOKE_PERMISSION:
        return role_revoke(auth, change);
    case AUTH_TOKEN_EPOCH:
        auth->token_epoch++;
        return STATUS_OK;
    case AUTH_TOKEN_KEY:
        set_token_key(auth, change);
        return STATUS_OK;
    }
    return STATUS_INVALID;
}

size_t auth_change_work(const struct auth *auth, const struct auth_change *change) {
    /* The role is looked for among those of every user. */
    return change->action == AUTH_ROLE_DELETE ? auth->n_users * WORK_A_USER : 0;
}

enum status auth_apply(struct auth *auth, const struct auth_change *change) {
    enum status status = apply(auth, change);
    /* No right depends on the age of tokens. */
    if (status == STATUS_OK && change->action != AUTH_TOKEN_EPOCH) {
        auth->generation++;
    }
    return status;
}
