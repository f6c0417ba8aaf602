#include "doors/etcd/etcd_backup_auth.h"

#include "base/pb_writer.h"
#include "doors/etcd/etcd_stored.h"

static void put(struct etcd_backup_auth *backup, struct bytes key, struct bytes value) {
    bolt_writer_put(backup->writer, key, value);
    etcd_stamp_add(backup->stamp, key, value);
}

static struct pb_writer begin_message(struct etcd_backup_auth *backup, size_t size) {
    struct pb_writer writer;
    backup->message->size = 0;
    pb_writer_init(&writer, buffer_reserve(backup->message, size), size);
    backup->message->size = size;
    return writer;
}

static struct bytes message_of(const struct etcd_backup_auth *backup) {
    return bytes_of(backup->message->data, backup->message->size);
}

/* --- Roles. --- */

/* authpb.Permission.Type: READ 0, WRITE 1, READWRITE 2. */
static uint64_t type_of(enum right right) {
    return right == RIGHT_READ ? 0 : right == RIGHT_WRITE ? 1 : 2;
}

static size_t permission_size(const struct permission *permission) {
    return pb_uint64_size(1, type_of(permission->right)) + pb_bytes_size(2, permission->range.key) +
           pb_bytes_size(3, permission->range.range_end);
}

static void write_role(struct etcd_backup_auth *backup, const struct auth_role *role) {
    size_t size = pb_bytes_size(1, role->name);
    for (size_t i = 0; i < role->n_permissions; i++) {
        if (key_space_equal(role->permissions[i].range.space, KEY_SPACE_ETCD)) {
            size += pb_message_size(2, permission_size(&role->permissions[i]));
        }
    }
    struct pb_writer writer = begin_message(backup, size);
    pb_write_bytes(&writer, 1, role->name);
    for (size_t i = 0; i < role->n_permissions; i++) {
        const struct permission *permission = &role->permissions[i];
        if (!key_space_equal(permission->range.space, KEY_SPACE_ETCD)) {
            continue;
        }
        pb_write_message(&writer, 2, permission_size(permission));
        pb_write_uint64(&writer, 1, type_of(permission->right));
        pb_write_bytes(&writer, 2, permission->range.key);
        pb_write_bytes(&writer, 3, permission->range.range_end);
    }
    put(backup, role->name, message_of(backup));
}

/* --- Users. --- */

static void write_user(struct etcd_backup_auth *backup, const struct auth_user *user) {
    bool has_password = user->password_hash.size > 0;
    size_t options_size = pb_bool_size(1, !has_password);
    size_t size = pb_bytes_size(1, user->name) + pb_bytes_size(2, user->password_hash) +
                  pb_message_size(4, options_size);
    for (size_t i = 0; i < user->n_roles; i++) {
        size += pb_message_size(3, user->roles[i].size);
    }
    struct pb_writer writer = begin_message(backup, size);
    pb_write_bytes(&writer, 1, user->name);
    pb_write_bytes(&writer, 2, user->password_hash);
    for (size_t i = 0; i < user->n_roles; i++) {
        pb_write_element(&writer, 3, user->roles[i]);
    }
    pb_write_message(&writer, 4, options_size);
    pb_write_bool(&writer, 1, !has_password);
    put(backup, user->name, message_of(backup));
}

/* --- The buckets. --- */

void etcd_backup_write_auth(struct etcd_backup_auth *backup) {
    const struct auth *auth = backup->auth;
    uint8_t enabled = auth_is_enabled(auth);
    uint8_t revision[8];
    etcd_put_u64(revision, auth_revision(auth));
    bolt_writer_begin_bucket(backup->writer, ETCD_BUCKET_AUTH);
    put(backup, bytes_from_text(ETCD_AUTH_ENABLED), bytes_of(&enabled, 1));
    put(backup, bytes_from_text(ETCD_AUTH_REVISION), bytes_of(revision, sizeof revision));
    bolt_writer_end_bucket(backup->writer);
    bolt_writer_begin_bucket(backup->writer, ETCD_BUCKET_ROLES);
    for (size_t i = 0; i < auth_role_count(auth); i++) {
        struct auth_role role;
        auth_role_at(auth, i, &role);
        write_role(backup, &role);
    }
    bolt_writer_end_bucket(backup->writer);
    bolt_writer_begin_bucket(backup->writer, ETCD_BUCKET_USERS);
    for (size_t i = 0; i < auth_user_count(auth); i++) {
        struct auth_user user;
        auth_user_at(auth, i, &user);
        write_user(backup, &user);
    }
    bolt_writer_end_bucket(backup->writer);
}
