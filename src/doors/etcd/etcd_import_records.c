/* The keys of etcd's file: collected in the order of revisions, added in the order of keys. */
#include "base/pb_reader.h"
#include "doors/etcd/etcd_import_internal.h"
#include "doors/etcd/etcd_stored.h"

#include <stdlib.h>

enum { ENTRIES_CAPACITY_MIN = 1024 };

/* --- Keys, as the file has them. --- */

static void add_entry(struct etcd_import *import, const struct etcd_import_entry *entry) {
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

enum status etcd_import_collect_keys(struct etcd_import *import) {
    struct bolt_bucket bucket;
    enum status status = bolt_bucket_open(&import->file, ETCD_BUCKET_KEY, &bucket);
    if (status == STATUS_KEY_NOT_FOUND) {
        return etcd_import_fail(import, STATUS_MALFORMED,
                                "it is not a database of etcd: no bucket \"key\"");
    }
    struct bolt_cursor cursor;
    struct bytes key;
    struct bytes value;
    bool is_bucket = false;
    bolt_cursor_init(&cursor, &import->file, &bucket);
    while (status == STATUS_OK && bolt_cursor_next(&cursor, &key, &value, &is_bucket)) {
        struct etcd_revision revision;
        struct etcd_import_entry entry = {.message = value};
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
        etcd_import_tell(import, "reading keys", import->n_entries, 0);
    }
    if (status == STATUS_OK) {
        status = cursor.status;
    }
    return status == STATUS_OK
               ? STATUS_OK
               : etcd_import_fail(import, STATUS_CORRUPT, "its keys are damaged, near entry %zu",
                                  import->n_entries);
}

/* --- Keys, in their own order. --- */

static int compare_entries(const void *a, const void *b) {
    const struct etcd_import_entry *left = a;
    const struct etcd_import_entry *right = b;
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
static bool is_held(const struct etcd_import *import, size_t i) {
    int64_t compacted = import->report->compacted_revision;
    const struct etcd_import_entry *entry = &import->entries[i];
    if (entry->main >= compacted) {
        return true;
    }
    bool is_newest = i + 1 == import->n_entries ||
                     !bytes_equal(entry->key, import->entries[i + 1].key) ||
                     import->entries[i + 1].main > compacted;
    return !entry->is_tombstone && is_newest;
}

static bool is_newest(const struct etcd_import *import, size_t i) {
    return i + 1 == import->n_entries ||
           !bytes_equal(import->entries[i].key, import->entries[i + 1].key);
}

static bool read_message(const struct etcd_import_entry *entry, struct record *out_template,
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

/* etcd keeps keys whose lease it has lost; here they would make the state unsound, and have none
 * from now on. */
enum status etcd_import_add_keys(struct etcd_import *import, bool has_leases) {
    if (import->n_entries > 1) {
        qsort(import->entries, import->n_entries, sizeof import->entries[0], compare_entries);
    }
    import->leased = malloc((import->n_entries + 1) * sizeof import->leased[0]);
    if (import->leased == NULL) {
        abort();
    }
    for (size_t i = 0; i < import->n_entries; i++) {
        etcd_import_tell(import, "restoring keys", i, import->n_entries);
        if (!is_held(import, i)) {
            continue;
        }
        const struct etcd_import_entry *entry = &import->entries[i];
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
            return etcd_import_fail(import, STATUS_CORRUPT, "the entry of revision %lld is damaged",
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

enum status etcd_import_attach_leases(struct etcd_import *import) {
    for (size_t i = 0; i < import->n_leased; i++) {
        if (lease_table_attach(import->target->leases, import->leased[i]) != STATUS_OK) {
            return etcd_import_fail(import, STATUS_CORRUPT,
                                    "a key names a lease that is not in the file");
        }
    }
    return STATUS_OK;
}
