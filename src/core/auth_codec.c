/* Users and roles as bytes: changes in the log, the whole in snapshots. */
#include "core/auth_parts.h"

#include <assert.h>

/* --- Changes. --- */

static enum status check_name(struct bytes name, enum status if_empty) {
    if (name.size == 0) {
        return if_empty;
    }
    return name.size > AUTH_NAME_SIZE_MAX ? STATUS_REQUEST_TOO_LARGE : STATUS_OK;
}

static enum status check_range(const struct key_range *range) {
    if (!key_space_is_valid(range->space)) {
        return STATUS_INVALID;
    }
    if (range->key.size > AUTH_PERMISSION_KEY_SIZE_MAX ||
        range->range_end.size > AUTH_PERMISSION_KEY_SIZE_MAX) {
        return STATUS_REQUEST_TOO_LARGE;
    }
    bool is_empty =
        range->range_end.size == 0
            ? range->key.size == 0
            : !key_range_is_open(range) && bytes_compare(range->key, range->range_end) >= 0;
    return is_empty ? STATUS_AUTH_MANAGEMENT_INVALID : STATUS_OK;
}

static enum status check_permission(const struct auth_change *change) {
    enum status status = check_name(change->role, STATUS_ROLE_EMPTY);
    if (status != STATUS_OK || change->action == AUTH_ROLE_REVOKE_PERMISSION) {
        return status;
    }
    if (change->permission.right < RIGHT_READ || change->permission.right > RIGHT_READ_WRITE) {
        return STATUS_PERMISSION_NOT_GIVEN;
    }
    return check_range(&change->permission.range);
}

enum status auth_change_check(const struct auth_change *change) {
    enum status status = STATUS_OK;
    switch (change->action) {
    case AUTH_ENABLE:
    case AUTH_TOKEN_KEY:
        return change->token_key.size == AUTH_TOKEN_KEY_SIZE ? STATUS_OK : STATUS_INVALID;
    case AUTH_DISABLE:
    case AUTH_TOKEN_EPOCH:
        return STATUS_OK;
    case AUTH_USER_ADD:
    case AUTH_USER_SET_PASSWORD:
    case AUTH_USER_DELETE:
        status = check_name(change->user, STATUS_USER_EMPTY);
        return status == STATUS_OK && change->password_hash.size > AUTH_PASSWORD_HASH_SIZE_MAX
                   ? STATUS_REQUEST_TOO_LARGE
                   : status;
    case AUTH_USER_GRANT_ROLE:
    case AUTH_USER_REVOKE_ROLE:
        status = check_name(change->user, STATUS_USER_EMPTY);
        return status != STATUS_OK ? status : check_name(change->role, STATUS_ROLE_EMPTY);
    case AUTH_ROLE_ADD:
    case AUTH_ROLE_DELETE:
        return check_name(change->role, STATUS_ROLE_EMPTY);
    case AUTH_ROLE_GRANT_PERMISSION:
    case AUTH_ROLE_REVOKE_PERMISSION:
        return check_permission(change);
    }
    return STATUS_INVALID;
}

static void encode_permission(struct buffer *buffer, const struct permission *permission) {
    buffer_put_u8(buffer, (uint8_t)permission->right);
    buffer_put_u8(buffer, permission->range.space.value);
    buffer_put_bytes(buffer, permission->range.key);
    buffer_put_bytes(buffer, permission->range.range_end);
}

static void decode_permission(struct reader *reader, struct permission *out_permission) {
    out_permission->right = (enum right)reader_get_u8(reader);
    out_permission->range.space.value = reader_get_u8(reader);
    out_permission->range.key = reader_get_bytes(reader);
    out_permission->range.range_end = reader_get_bytes(reader);
    if (out_permission->right > RIGHT_READ_WRITE) {
        reader->failed = true;
    }
}

void auth_change_encode(struct buffer *buffer, const struct auth_change *change) {
    buffer_put_u8(buffer, (uint8_t)change->action);
    switch (change->action) {
    case AUTH_ENABLE:
    case AUTH_TOKEN_KEY:
        buffer_put_bytes(buffer, change->token_key);
        return;
    case AUTH_DISABLE:
    case AUTH_TOKEN_EPOCH:
        return;
    case AUTH_USER_ADD:
    case AUTH_USER_SET_PASSWORD:
        buffer_put_bytes(buffer, change->user);
        buffer_put_bytes(buffer, change->password_hash);
        return;
    case AUTH_USER_DELETE:
        buffer_put_bytes(buffer, change->user);
        return;
    case AUTH_USER_GRANT_ROLE:
    case AUTH_USER_REVOKE_ROLE:
        buffer_put_bytes(buffer, change->user);
        buffer_put_bytes(buffer, change->role);
        return;
    case AUTH_ROLE_ADD:
    case AUTH_ROLE_DELETE:
        buffer_put_bytes(buffer, change->role);
        return;
    case AUTH_ROLE_GRANT_PERMISSION:
    case AUTH_ROLE_REVOKE_PERMISSION:
        buffer_put_bytes(buffer, change->role);
        encode_permission(buffer, &change->permission);
        return;
    }
    assert(!"auth action");
}

void auth_change_decode(struct reader *reader, struct auth_change *out_change) {
    struct auth_change change = {.action = (enum auth_action)reader_get_u8(reader)};
    switch (change.action) {
    case AUTH_ENABLE:
    case AUTH_TOKEN_KEY:
        change.token_key = reader_get_bytes(reader);
        break;
    case AUTH_DISABLE:
    case AUTH_TOKEN_EPOCH:
        break;
    case AUTH_USER_ADD:
    case AUTH_USER_SET_PASSWORD:
        change.user = reader_get_bytes(reader);
        change.password_hash = reader_get_bytes(reader);
        break;
    case AUTH_USER_DELETE:
        change.user = reader_get_bytes(reader);
        break;
    case AUTH_USER_GRANT_ROLE:
    case AUTH_USER_REVOKE_ROLE:
        change.user = reader_get_bytes(reader);
        change.role = reader_get_bytes(reader);
        break;
    case AUTH_ROLE_ADD:
    case AUTH_ROLE_DELETE:
        change.role = reader_get_bytes(reader);
        break;
    case AUTH_ROLE_GRANT_PERMISSION:
    case AUTH_ROLE_REVOKE_PERMISSION:
        change.role = reader_get_bytes(reader);
        decode_permission(reader, &change.permission);
        break;
    default:
        reader->failed = true;
    }
    *out_change = change;
}

/* --- The whole. --- */

void auth_encode(const struct auth *auth, struct buffer *buffer) {
    buffer_put_u8(buffer, auth->is_enabled);
    buffer_put_varint(buffer, auth->revision);
    buffer_put_varint(buffer, auth->token_epoch);
    buffer_put_bytes(buffer, auth_token_key(auth));
    buffer_put_varint(buffer, auth->n_roles);
    for (size_t i = 0; i < auth->n_roles; i++) {
        const struct role *role = auth->roles[i];
        buffer_put_bytes(buffer, role->name);
        buffer_put_varint(buffer, role->n_permissions);
        for (size_t j = 0; j < role->n_permissions; j++) {
            encode_permission(buffer, &role->permissions[j]);
        }
    }
    buffer_put_varint(buffer, auth->n_users);
    for (size_t i = 0; i < auth->n_users; i++) {
        const struct user *user = auth->users[i];
        buffer_put_bytes(buffer, user->name);
        buffer_put_varint(buffer, user->id);
        buffer_put_varint(buffer, user->version);
        buffer_put_bytes(buffer, user->password_hash);
        buffer_put_varint(buffer, user->n_roles);
        for (size_t j = 0; j < user->n_roles; j++) {
            buffer_put_bytes(buffer, user->roles[j]);
        }
    }
}

/* Names come in order, so none comes twice. */
static bool is_next(struct bytes name, struct bytes before, size_t i) {
    return name.size > 0 && name.size <= AUTH_NAME_SIZE_MAX &&
           (i == 0 || bytes_compare(before, name) < 0);
}

static bool decode_role(struct auth *auth, struct reader *reader, size_t i, struct bytes *before) {
    struct bytes name = reader_get_bytes(reader);
    uint64_t n = reader_get_varint(reader);
    if (reader->failed || !is_next(name, *before, i) || n > AUTH_PERMISSIONS_PER_ROLE_MAX) {
        return false;
    }
    *before = name;
    struct role *role = auth_add_role(auth, name);
    for (uint64_t j = 0; j < n; j++) {
        struct permission permission;
        decode_permission(reader, &permission);
        if (reader->failed || permission.right < RIGHT_READ ||
            check_range(&permission.range) != STATUS_OK ||
            (j > 0 && auth_permission_compare(&role->permissions[j - 1], &permission) >= 0)) {
            return false;
        }
        auth_add_permission(auth, role, &permission);
    }
    return true;
}

static bool decode_user(struct auth *auth, struct reader *reader, size_t i, struct bytes *before) {
    struct auth_user facts = {.name = reader_get_bytes(reader)};
    facts.id = reader_get_varint(reader);
    facts.version = reader_get_varint(reader);
    facts.password_hash = reader_get_bytes(reader);
    uint64_t n = reader_get_varint(reader);
    if (reader->failed || !is_next(facts.name, *before, i) || facts.id == 0 ||
        facts.version < facts.id || facts.version > auth->revision ||
        facts.password_hash.size > AUTH_PASSWORD_HASH_SIZE_MAX || n > AUTH_ROLES_PER_USER_MAX ||
        auth_user_of_id(auth, facts.id) != NULL) {
        return false;
    }
    *before = facts.name;
    struct user *user = auth_add_user(auth, &facts);
    for (uint64_t j = 0; j < n; j++) {
        struct bytes role = reader_get_bytes(reader);
        size_t ignored;
        if (reader->failed || !is_next(role, j > 0 ? user->roles[j - 1] : role, j) ||
            (!bytes_equal(role, auth_root) && !auth_role_index(auth, role, &ignored))) {
            return false;
        }
        auth_add_role_of_user(auth, user, role);
    }
    return true;
}

enum status auth_decode(struct auth *auth, struct reader *reader) {
    uint8_t is_enabled = reader_get_u8(reader);
    auth->is_enabled = is_enabled == 1;
    auth->revision = reader_get_varint(reader);
    auth->token_epoch = reader_get_varint(reader);
    struct bytes token_key = reader_get_bytes(reader);
    if (reader->failed || is_enabled > 1 || auth->revision == 0 || auth->revision > INT64_MAX ||
        (token_key.size != 0 && token_key.size != AUTH_TOKEN_KEY_SIZE) ||
        (token_key.size == 0 && auth->is_enabled)) {
        return STATUS_CORRUPT;
    }
    if (token_key.size > 0) {
        memcpy(auth->token_key, token_key.data, token_key.size);
    }
    auth->token_key_size = token_key.size;
    struct bytes before = {0};
    uint64_t n = reader_get_varint(reader);
    if (n > AUTH_ROLES_MAX) {
        return STATUS_CORRUPT;
    }
    for (uint64_t i = 0; i < n; i++) {
        if (!decode_role(auth, reader, i, &before)) {
            return STATUS_CORRUPT;
        }
    }
    n = reader_get_varint(reader);
    if (n > AUTH_USERS_MAX) {
        return STATUS_CORRUPT;
    }
    for (uint64_t i = 0; i < n; i++) {
        if (!decode_user(auth, reader, i, &before)) {
            return STATUS_CORRUPT;
        }
    }
    return reader->failed ? STATUS_CORRUPT : STATUS_OK;
}
