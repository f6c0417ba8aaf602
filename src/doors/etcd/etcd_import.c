#include "doors/etcd/etcd_import.h"

#include "base/pb_reader.h"
#include "bolt/bolt_reader.h"
#include "core/cluster_version.h"
#include "doors/etcd/etcd_import_auth.h"
#include "doors/etcd/etcd_stamp.h"
#include "doors/etcd/etcd_stored.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    ENTRIES_CAPACITY_MIN = 1024,
    PROGRESS_STEP = 4096,
    TTL_MS_PER_SECOND = 1000,
    REVISION_FIRST = 1 /* of an empty store, in etcd as here */
};

/* One version of a key, as it is in the file. */
struct entry {
    struct bytes key;
    struct bytes message;
    int64_t main;
    uint32_t sub;
    bool is_tombstone;
};

struct import {
    const struct etcd_import_options *options;
    struct bolt_file file;
    struct snapshot_target *target;
    struct etcd_import_report *report;
    struct entry *entries;
    size_t n_entries;
    size_t capacity;
    struct bytes last_key;  /* of the bucket "key": the last revision */
    struct record **leased; /* the newest versions that have a lease */
    size_t n_leased;
    char *error;
    size_t error_size;
};

__attribute__((format(printf, 3, 4))) static enum status
fail(struct import *import, enum status status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(import->error, import->error_size, format, arguments);
    va_end(arguments);
    return status;
}

static void tell(const struct import *import, const char *what, size_t done, size_t total) {
    if (import->options->progress != NULL && done % PROGRESS_STEP == 0) {
        import->options->progress(import->options->progress_data, what, done, total);
    }
}

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
static enum status stamp_file(const struct import *import, struct etcd_stamp *stamp) {
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

/* --- Keys, as the file has them. --- */

static void add_entry(struct import *import, const struct entry *entry) {
    if (import->n_entries == import->capacity) {
        import->capacity = import->capacity == 0 ? ENTRIES_CAPACITY_MIN : 2 * import->capacity;
        import->entries = realloc(import->entries, import->capacity * sizeof import->entries[0]);
        if (import->entries == NULL) {
            abort();
        }
    }
    import->entries[import->n_entries++] = *entry;
}

/* The key alone; false: malformed. */
static bool key_of(struct bytes message, struct bytes *out_key) {
    struct pb_reader reader;
    *out_key = bytes_of(NULL, 0);
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        if (reader.field == 1) {
            *out_key = pb_reader_bytes(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    return !reader.failed;
}

static enum status collect_keys(struct import *import) {
    struct bolt_bucket bucket;
    enum status status = bolt_bucket_open(&import->file, ETCD_BUCKET_KEY, &bucket);
    if (status == STATUS_KEY_NOT_FOUND) {
        return fail(import, STATUS_MALFORMED, "it is not a database of etcd: no bucket \"key\"");
    }
    struct bolt_cursor cursor;
    struct bytes key;
    struct bytes value;
    bool is_bucket = false;
    bolt_cursor_init(&cursor, &import->file, &bucket);
    while (status == STATUS_OK && bolt_cursor_next(&cursor, &key, &value, &is_bucket)) {
        struct etcd_revision revision;
        struct entry entry = {.message = value};
        if (is_bucket || !etcd_revision_read(key, &revision) || revision.sub > UINT32_MAX ||
            revision.main > INT64_MAX / 2 || !key_of(value, &entry.key)) {
            status = STATUS_CORRUPT;
            break;
        }
        entry.main = revision.main;
        entry.sub = (uint32_t)revision.sub;
        entry.is_tombstone = revision.is_tombstone;
        import->last_key = key;
        if (revision.main > import->report->revision) {
            import->report->revision = revision.main;
        }
        /* etcdutl raises the revision by an entry without a key. */
        if (entry.key.size > 0) {
            add_entry(import, &entry);
        }
        tell(import, "reading keys", import->n_entries, 0);
    }
    if (status == STATUS_OK) {
        status = cursor.status;
    }
    return status == STATUS_OK ? STATUS_OK
                               : fail(import, STATUS_CORRUPT,
                                      "its keys are damaged, near entry %zu", import->n_entries);
}

static enum status read_compaction(struct import *import, const char *name) {
    struct bolt_bucket bucket;
    struct bytes value;
    struct etcd_revision revision;
    enum status status = bolt_bucket_open(&import->file, ETCD_BUCKET_META, &bucket);
    if (status == STATUS_OK) {
        status = bolt_bucket_get(&import->file, &bucket, bytes_from_text(name), &value);
    }
    if (status == STATUS_KEY_NOT_FOUND) {
        return STATUS_OK;
    }
    if (status != STATUS_OK || !etcd_revision_read(value, &revision) ||
        revision.main > INT64_MAX / 2) {
        return fail(import, STATUS_CORRUPT, "%s is damaged", name);
    }
    if (revision.main > import->report->compacted_revision) {
        import->report->compacted_revision = revision.main;
    }
    return STATUS_OK;
}

static enum status read_revisions(struct import *import) {
    struct etcd_import_report *report = import->report;
    enum status status = read_compaction(import, ETCD_META_FINISHED_COMPACTION);
    if (status == STATUS_OK) {
        /* One that had begun is carried out here. */
        status = read_compaction(import, ETCD_META_SCHEDULED_COMPACTION);
    }
    /* All keys up to the compaction may be gone. */
    if (report->revision < report->compacted_revision) {
        report->revision = report->compacted_revision;
    }
    if (report->revision < REVISION_FIRST) {
        report->revision = REVISION_FIRST;
    }
    return status;
}

/* --- Keys, in their own order. --- */

static int compare_entries(const void *a, const void *b) {
    const struct entry *left = a;
    const struct entry *right = b;
    int order = bytes_compare(left->key, right->key);
    if (order != 0) {
        return order;
    }
    if (left->main != right->main) {
        return left->main < right->main ? -1 : 1;
    }
    return (left->sub > right->sub) - (left->sub < right->sub);
}

/* What the compaction leaves: all from it on, and of each key what is read at it. */
static bool is_held(const struct import *import, size_t i) {
    int64_t compacted = import->report->compacted_revision;
    const struct entry *entry = &import->entries[i];
    if (entry->main >= compacted) {
        return true;
    }
    bool is_newest = i + 1 == import->n_entries ||
                     !bytes_equal(entry->key, import->entries[i + 1].key) ||
                     import->entries[i + 1].main > compacted;
    return !entry->is_tombstone && is_newest;
}

static bool is_newest(const struct import *import, size_t i) {
    return i + 1 == import->n_entries ||
           !bytes_equal(import->entries[i].key, import->entries[i + 1].key);
}

static bool read_message(const struct entry *entry, struct record *out_template,
                         struct bytes *out_value) {
    struct pb_reader reader;
    struct record *template = out_template;
    int64_t mod_revision = 0;
    *template = (struct record){.mod_revision = entry->main, .sub_revision = entry->sub};
    *out_value = bytes_of(NULL, 0);
    if (entry->is_tombstone) {
        return true;
    }
    pb_reader_init(&reader, entry->message);
    while (pb_reader_next(&reader)) {
        switch (reader.field) {
        case 2:
            template->create_revision = pb_reader_int64(&reader);
            break;
        case 3:
            mod_revision = pb_reader_int64(&reader);
            break;
        case 4:
            template->version = pb_reader_int64(&reader);
            break;
        case 5:
            *out_value = pb_reader_bytes(&reader);
            break;
        case 6:
            template->lease_id = pb_reader_int64(&reader);
            break;
        default:
            pb_reader_skip(&reader);
        }
    }
    return !reader.failed && mod_revision == entry->main && template->version > 0;
}

/* `has_leases`: they are in the table already. etcd keeps keys whose lease it has lost; here they
 * would make the state unsound, and have none from now on. */
static enum status add_keys(struct import *import, bool has_leases) {
    if (import->n_entries > 1) {
        qsort(import->entries, import->n_entries, sizeof import->entries[0], compare_entries);
    }
    import->leased = malloc((import->n_entries + 1) * sizeof import->leased[0]);
    if (import->leased == NULL) {
        abort();
    }
    for (size_t i = 0; i < import->n_entries; i++) {
        tell(import, "restoring keys", i, import->n_entries);
        if (!is_held(import, i)) {
            continue;
        }
        const struct entry *entry = &import->entries[i];
        struct record template;
        struct bytes value;
        struct record *record = NULL;
        struct lease_facts ignored;
        bool is_sound = read_message(entry, &template, &value);
        if (is_sound && has_leases && is_newest(import, i) && template.lease_id != 0 &&
            !lease_table_find(import->target->leases, template.lease_id, &ignored)) {
            template.lease_id = 0;
            import->report->n_detached++;
        }
        if (!is_sound || key_store_restore(import->target->keys, &template, KEY_SPACE_ETCD,
                                           entry->key, value, &record) != STATUS_OK) {
            return fail(import, STATUS_CORRUPT, "the entry of revision %lld is damaged",
                        (long long)entry->main);
        }
        import->report->n_records++;
        import->report->n_keys += is_newest(import, i) && !entry->is_tombstone;
        if (is_newest(import, i) && template.lease_id != 0) {
            import->leased[import->n_leased++] = record;
        }
    }
    return STATUS_OK;
}

static enum status attach_leases(struct import *import) {
    for (size_t i = 0; i < import->n_leased; i++) {
        if (lease_table_attach(import->target->leases, import->leased[i]) != STATUS_OK) {
            return fail(import, STATUS_CORRUPT, "a key names a lease that is not in the file");
        }
    }
    return STATUS_OK;
}

/* --- Leases. --- */

static bool read_lease(struct bytes key, struct bytes message, struct lease_facts *out_facts) {
    struct pb_reader reader;
    int64_t ttl = 0;
    int64_t id = 0;
    pb_reader_init(&reader, message);
    while (pb_reader_next(&reader)) {
        switch (reader.field) {
        case 1:
            id = pb_reader_int64(&reader);
            break;
        case 2:
            ttl = pb_reader_int64(&reader);
            break;
        default:
            pb_reader_skip(&reader);
        }
    }
    if (reader.failed || key.size != ETCD_LEASE_KEY_SIZE || id != (int64_t)etcd_get_u64(key.data) ||
        ttl < 1 || ttl > LEASE_TTL_MS_MAX / TTL_MS_PER_SECOND) {
        return false;
    }
    out_facts->id = id;
    out_facts->ttl_ms = ttl * TTL_MS_PER_SECOND;
    out_facts->owner = KEY_SPACE_ETCD;
    return true;
}

/* They run their whole time again, as after etcd's own restore. */
static enum status add_leases(struct import *import) {
    struct bolt_bucket bucket;
    struct lease_table *leases = import->target->leases;
    uint32_t epoch = 0;
    enum status status = bolt_bucket_open(&import->file, ETCD_BUCKET_LEASE, &bucket);
    if (status == STATUS_OK) {
        struct bolt_cursor cursor;
        struct bytes key;
        struct bytes value;
        bool is_bucket = false;
        bolt_cursor_init(&cursor, &import->file, &bucket);
        while (status == STATUS_OK && bolt_cursor_next(&cursor, &key, &value, &is_bucket)) {
            struct lease_facts facts = {.epoch = ++epoch};
            status = !is_bucket && read_lease(key, value, &facts)
                         ? lease_table_restore(leases, &facts)
                         : STATUS_CORRUPT;
        }
        status = status == STATUS_OK ? cursor.status : status;
    } else if (status == STATUS_KEY_NOT_FOUND) {
        status = STATUS_OK;
    }
    if (status == STATUS_OK) {
        status = lease_table_restore_end(leases, epoch);
    }
    return status == STATUS_OK ? STATUS_OK : fail(import, STATUS_CORRUPT, "its leases are damaged");
}

/* --- What is ours. --- */

/* Puts the parts together. */
static enum status collect_parts(struct import *import, const struct bolt_bucket *bucket,
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

/* STATUS_KEY_NOT_FOUND: there is none, or it belongs to other data. */
static enum status find_own_part(struct import *import, struct buffer *out_snapshot) {
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

/* Leases, users, and the keys of all other spaces. Members are of the cluster that was. */
static enum status take_own_part(struct import *import, struct bytes snapshot) {
    struct snapshot_target *target = import->target;
    struct member_table *members = target->members;
    enum status status = add_keys(import, false);
    if (status != STATUS_OK) {
        return status;
    }
    target->members = member_table_create();
    status = snapshot_decode(snapshot, target);
    member_table_destroy(target->members);
    target->members = members;
    target->n_alarms = 0;
    if (status != STATUS_OK) {
        return fail(import, status,
                    status == STATUS_UNSUPPORTED
                        ? "it was written by a newer release of leased; restore it with that one"
                        : "the part that only leased keeps is damaged");
    }
    auth_renew(target->auth, 0, import->options->token_key);
    status = attach_leases(import);
    import->report->revision = key_store_revision(target->keys);
    import->report->compacted_revision = key_store_compacted_revision(target->keys);
    return status;
}

static enum status take_etcds_part(struct import *import) {
    struct snapshot_target *target = import->target;
    const struct etcd_import_report *report = import->report;
    enum status status = add_leases(import);
    if (status == STATUS_OK) {
        status = add_keys(import, true);
    }
    if (status == STATUS_OK && key_store_restore_end(target->keys, report->revision,
                                                     report->compacted_revision) != STATUS_OK) {
        status = fail(import, STATUS_CORRUPT, "its keys contradict each other");
    }
    if (status == STATUS_OK) {
        status = attach_leases(import);
    }
    if (status != STATUS_OK) {
        return status;
    }
    status = etcd_import_auth(&import->file, import->options->token_key, target->auth);
    target->cluster_version = CLUSTER_VERSION_KNOWN;
    target->n_alarms = 0;
    return status == STATUS_OK ? STATUS_OK
                               : fail(import, STATUS_CORRUPT,
                                      status == STATUS_TOO_MANY_REQUESTS
                                          ? "it has more users, roles or permissions than fit"
                                          : "its users and roles are damaged");
}

/* --- The whole. --- */

static enum status bump(struct import *import) {
    const struct etcd_import_options *options = import->options;
    struct etcd_import_report *report = import->report;
    struct key_store *keys = import->target->keys;
    if (options->bump_revision > INT64_MAX / 2 - report->revision) {
        return fail(import, STATUS_INVALID, "the revision cannot be raised by so much");
    }
    report->revision += options->bump_revision;
    key_store_raise_revision(keys, report->revision);
    if (options->is_marked_compacted) {
        enum status status = key_store_compact(keys, report->revision);
        assert(status == STATUS_OK);
        report->compacted_revision = report->revision;
    }
    return STATUS_OK;
}

static enum status run(struct import *import) {
    enum status status = collect_keys(import);
    if (status == STATUS_OK) {
        status = read_revisions(import);
    }
    if (status != STATUS_OK) {
        return status;
    }
    struct buffer snapshot;
    buffer_init(&snapshot);
    status = find_own_part(import, &snapshot);
    if (status == STATUS_OK) {
        status = take_own_part(import, bytes_of(snapshot.data, snapshot.size));
    } else if (status == STATUS_KEY_NOT_FOUND) {
        status = take_etcds_part(import);
    } else {
        status = fail(import, STATUS_CORRUPT, "the part that only leased keeps is damaged");
    }
    buffer_clear(&snapshot);
    if (status == STATUS_OK && import->options->bump_revision > 0) {
        status = bump(import);
    }
    return status;
}

enum status etcd_import(struct bytes file, const struct etcd_import_options *options,
                        struct snapshot_target *target, struct etcd_import_report *out_report,
                        char *out_error, size_t error_size) {
    struct etcd_import_report report = {0};
    struct import import = {.options = options,
                            .target = target,
                            .report = &report,
                            .error = out_error,
                            .error_size = error_size};
    enum status status = bolt_file_open(&import.file, file);
    if (status == STATUS_OK) {
        status = run(&import);
    } else {
        fail(&import, status, "it is not a bbolt file, or its first pages are damaged");
    }
    free(import.entries);
    free(import.leased);
    if (status != STATUS_OK) {
        return status;
    }
    report.n_leases = lease_table_count(target->leases);
    report.n_users = auth_user_count(target->auth);
    report.n_roles = auth_role_count(target->auth);
    report.is_auth_enabled = auth_is_enabled(target->auth);
    *out_report = report;
    return STATUS_OK;
}
