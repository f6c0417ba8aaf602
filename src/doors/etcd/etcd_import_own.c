/* The part of a file that only leased writes. Its stamp tells whether it belongs to the rest: etcd
 * may have taken the file and gone on. */
#include "doors/etcd/etcd_import_internal.h"
#include "doors/etcd/etcd_stamp.h"
#include "doors/etcd/etcd_stored.h"

#include <string.h>

/* --- The stamp. --- */

static enum status stamp_bucket(const struct bolt_file *file, const char *name,
                                struct etcd_stamp *stamp) {
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
    while (bolt_cursor_next(&cursor, &key, &value, &is_bucket)) {
        etcd_stamp_add(stamp, key, value);
    }
    return cursor.status;
}

/* In the order of the file, as the backup makes it. */
static enum status stamp_file(const struct etcd_import *import, struct etcd_stamp *stamp) {
    static const char *const before[] = {ETCD_BUCKET_AUTH, ETCD_BUCKET_ROLES, ETCD_BUCKET_USERS};
    etcd_stamp_init(stamp);
    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) {
        enum status status = stamp_bucket(&import->file, before[i], stamp);
        if (status != STATUS_OK) {
            return status;
        }
    }
    etcd_stamp_add(stamp, import->last_key, bytes_of(NULL, 0));
    return stamp_bucket(&import->file, ETCD_BUCKET_LEASE, stamp);
}

/* --- What is ours. --- */

/* Puts the parts together. */
static enum status collect_parts(struct etcd_import *import, const struct bolt_bucket *bucket,
                                 struct buffer *out_snapshot, struct bytes *out_stamp) {
    struct bolt_cursor cursor;
    struct bytes key;
    struct bytes value;
    bool is_bucket = false;
    struct bytes prefix = bytes_from_text(ETCD_LEASED_PART);
    *out_stamp = bytes_of(NULL, 0);
    bolt_cursor_init(&cursor, &import->file, bucket);
    while (bolt_cursor_next(&cursor, &key, &value, &is_bucket)) {
        if (bytes_equal(key, bytes_from_text(ETCD_LEASED_STAMP))) {
            *out_stamp = value;
        } else if (key.size > prefix.size && memcmp(key.data, prefix.data, prefix.size) == 0) {
            buffer_append(out_snapshot, value.data, value.size);
        }
    }
    return cursor.status;
}

/* How many keys are in a part that does not fit any more. */
static size_t count_keys(struct bytes snapshot) {
    struct snapshot_target target = {.keys = key_store_create(),
                                     .leases = lease_table_create(NULL),
                                     .members = member_table_create(),
                                     .auth = auth_create()};
    size_t n = 0;
    if (snapshot_decode(snapshot, &target) == STATUS_OK) {
        struct key_view *view = key_view_open(target.keys);
        n = key_view_key_count(view);
        key_view_close(view);
    }
    auth_destroy(target.auth);
    member_table_destroy(target.members);
    lease_table_destroy(target.leases);
    key_store_destroy(target.keys);
    return n;
}

enum status etcd_import_find_own_part(struct etcd_import *import, struct buffer *out_snapshot) {
    struct bolt_bucket bucket;
    enum status status = bolt_bucket_open(&import->file, ETCD_BUCKET_LEASED, &bucket);
    if (status != STATUS_OK) {
        return status;
    }
    struct bytes written;
    struct etcd_stamp stamp;
    uint8_t now[ETCD_STAMP_SIZE];
    status = collect_parts(import, &bucket, out_snapshot, &written);
    if (status == STATUS_OK) {
        status = stamp_file(import, &stamp);
    }
    if (status != STATUS_OK) {
        return status;
    }
    etcd_stamp_write(&stamp, now);
    if (!bytes_equal(written, bytes_of(now, sizeof now))) {
        import->report->n_left_out = count_keys(bytes_of(out_snapshot->data, out_snapshot->size));
        return STATUS_KEY_NOT_FOUND;
    }
    import->report->is_of_leased = true;
    return STATUS_OK;
}

enum status etcd_import_take_own_part(struct etcd_import *import, struct bytes snapshot) {
    struct snapshot_target *target = import->target;
    struct member_table *members = target->members;
    enum status status = etcd_import_add_keys(import, false);
    if (status != STATUS_OK) {
        return status;
    }
    target->members = member_table_create();
    status = snapshot_decode(snapshot, target);
    member_table_destroy(target->members);
    target->members = members;
    target->n_alarms = 0;
    if (status == STATUS_OK && auth_revision(target->auth) > AUTH_REVISION_IMPORTED_MAX) {
        status = STATUS_CORRUPT;
    }
    if (status != STATUS_OK) {
        return etcd_import_fail(
            import, status,
            status == STATUS_UNSUPPORTED
                ? "it was written by a newer release of leased; restore it with that one"
                : "the part that only leased keeps is damaged");
    }
    auth_renew(target->auth, 0, import->options->token_key);
    status = etcd_import_attach_leases(import);
    import->report->revision = key_store_revision(target->keys);
    import->report->compacted_revision = key_store_compacted_revision(target->keys);
    return status;
}
