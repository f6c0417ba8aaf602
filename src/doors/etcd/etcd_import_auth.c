#include "doors/etcd/etcd_import_auth.h"

#include "base/pb_reader.h"
#include "doors/etcd/etcd_stored.h"

/* authpb.Permission.Type */
enum { PERMISSION_READ = 0, PERMISSION_WRITE = 1, PERMISSION_READ_WRITE = 2 };

/* What would never have reached the log is not taken either. */
static enum status change(struct auth *auth, const struct auth_change *wanted) {
    enum status status = auth_change_check(wanted);
    return status == STATUS_OK ? auth_apply(auth, wanted) : status;
}

static enum status corrupt_unless_full(enum status status) {
    return status == STATUS_OK || status == STATUS_TOO_MANY_REQUESTS ? status : STATUS_CORRUPT;
}

/* --- Roles. --- */

static bool right_of(int32_t type, enum right *out_right) {
    switch (type) {
    case PERMISSION_READ:
        *out_right = RIGHT_READ;
        return true;
    case PERMISSION_WRITE:
        *out_right = RIGHT_WRITE;
        return true;
    case PERMISSION_READ_WRITE:
        *out_right = RIGHT_READ_WRITE;
        return true;
    default:
        return false;
    }
}

static enum status add_permission(struct auth *auth, struct bytes role, struct bytes message) {
    struct pb_reader reader;
    int32_t type = PERMISSION_READ;
    struct auth_change wanted = {.action = AUTH_ROLE_GRANT_PERMISSION,
                                 .role = role,
                                 .permission.range.space = KEY_SPACE_ETCD};
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        switch (reader.field) {
        case 1:
            type = pb_reader_enum(&reader);
            break;
        case 2:
            wanted.permission.range.key = pb_reader_bytes(&reader);
            break;
        case 3:
            wanted.permission.range.range_end = pb_reader_bytes(&reader);
            break;
        default:
            pb_reader_skip(&reader);
        }
    }
    if (reader.failed || !right_of(type, &wanted.permission.right)) {
        return STATUS_CORRUPT;
    }
    enum status status = change(auth, &wanted);
    /* Earlier releases of etcd took ranges without keys, which grant nothing. */
    return status == STATUS_AUTH_MANAGEMENT_INVALID ? STATUS_OK : corrupt_unless_full(status);
}

static enum status add_role(struct auth *auth, struct bytes name, struct bytes message) {
    const struct auth_change wanted = {.action = AUTH_ROLE_ADD, .role = name};
    enum status status = corrupt_unless_full(change(auth, &wanted));
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (status == STATUS_OK && pb_reader_next(&reader)) {
        if (reader.field != 2) {
            pb_reader_skip(&reader);
            continue;
        }
        struct bytes permission = pb_reader_bytes(&reader);
        if (!reader.failed) {
            status = add_permission(auth, name, permission);
        }
    }
    return reader.failed ? STATUS_CORRUPT : status;
}

/* --- Users. --- */

static enum status grant_roles(struct auth *auth, struct bytes name, struct bytes message) {
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field != 3) {
            pb_reader_skip(&reader);
            continue;
        }
        const struct auth_change wanted = {
            .action = AUTH_USER_GRANT_ROLE, .user = name, .role = pb_reader_bytes(&reader)};
        enum status status = reader.failed ? STATUS_CORRUPT : change(auth, &wanted);
        /* A role that is not there grants nothing. */
        if (status != STATUS_OK && status != STATUS_ROLE_NOT_FOUND) {
            return corrupt_unless_full(status);
        }
    }
    return reader.failed ? STATUS_CORRUPT : STATUS_OK;
}

static enum status add_user(struct auth *auth, struct bytes name, struct bytes message) {
    struct auth_change wanted = {.action = AUTH_USER_ADD, .user = name};
    struct pb_reader reader;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == 2) {
            wanted.password_hash = pb_reader_bytes(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    if (reader.failed) {
        return STATUS_CORRUPT;
    }
    enum status status = corrupt_unless_full(change(auth, &wanted));
    return status == STATUS_OK ? grant_roles(auth, name, message) : status;
}

/* --- The buckets. --- */

static enum status visit(const struct bolt_file *file, const char *name, struct auth *auth,
                         enum status (*add)(struct auth *auth, struct bytes name,
                                            struct bytes message)) {
    struct bolt_bucket bucket;
    enum status status = bolt_bucket_open(file, name, &bucket);
    if (status != STATUS_OK) {
        return status == STATUS_KEY_NOT_FOUND ? STATUS_OK : status;
    }
    struct bolt_cursor cursor;
    struct bytes key;
    struct bytes value;
    bool is_bucket = false;
    bolt_cursor_init(&cursor, file, &bucket);
    while (status == STATUS_OK && bolt_cursor_next(&cursor, &key, &value, &is_bucket)) {
        status = is_bucket ? STATUS_CORRUPT : add(auth, key, value);
    }
    return status == STATUS_OK ? cursor.status : status;
}

enum status etcd_import_auth(const struct bolt_file *file, struct bytes token_key,
                             struct auth *auth) {
    struct bolt_bucket bucket;
    enum status status = bolt_bucket_open(file, ETCD_BUCKET_AUTH, &bucket);
    if (status != STATUS_OK) {
        return status == STATUS_KEY_NOT_FOUND ? STATUS_OK : status;
    }
    status = visit(file, ETCD_BUCKET_ROLES, auth, add_role);
    if (status == STATUS_OK) {
        status = visit(file, ETCD_BUCKET_USERS, auth, add_user);
    }
    if (status != STATUS_OK) {
        return status;
    }
    struct bytes value;
    status = bolt_bucket_get(file, &bucket, bytes_from_text(ETCD_AUTH_ENABLED), &value);
    if (status == STATUS_OK && value.size == 1 && value.data[0] == 1) {
        const struct auth_change enable = {.action = AUTH_ENABLE, .token_key = token_key};
        status = corrupt_unless_full(change(auth, &enable));
    }
    if (status != STATUS_OK && status != STATUS_KEY_NOT_FOUND) {
        return status;
    }
    uint64_t revision = 0;
    status = bolt_bucket_get(file, &bucket, bytes_from_text(ETCD_AUTH_REVISION), &value);
    if (status == STATUS_OK && value.size == sizeof revision) {
        revision = etcd_get_u64(value.data);
    }
    if (status == STATUS_CORRUPT || revision > AUTH_REVISION_IMPORTED_MAX) {
        return STATUS_CORRUPT;
    }
    auth_renew(auth, revision, token_key);
    return STATUS_OK;
}
