#include "core/key_store_parts.h"

#include <stdlib.h>

/* Whether a record can be what it says, whatever is around it. */
static bool is_plausible(const struct record *record, struct key_space_id space, struct bytes key,
                         struct bytes value) {
    if (!key_space_is_valid(space) || key.size == 0 || key.size >= UINT32_MAX ||
        value.size > UINT32_MAX || record->mod_revision <= KEY_STORE_REVISION_FIRST) {
        return false;
    }
    if (record_is_tombstone(record)) {
        return record->create_revision == 0 && record->lease_id == 0 && value.size == 0;
    }
    return record->version > 0 && record->version <= KEY_STORE_RESTORED_MAX &&
           record->create_revision > KEY_STORE_REVISION_FIRST &&
           record->create_revision <= record->mod_revision &&
           (record->version > 1 || record->create_revision == record->mod_revision);
}

static bool is_written_after(const struct record *record, const struct record *older) {
    return record->mod_revision > older->mod_revision ||
           (record->mod_revision == older->mod_revision &&
            record->sub_revision > older->sub_revision);
}

/* Whether a record can follow another of the same key. */
static bool can_follow(const struct record *older, const struct record *record) {
    if (!is_written_after(record, older)) {
        return false;
    }
    if (record_is_tombstone(record)) {
        return !record_is_tombstone(older);
    }
    if (record_is_tombstone(older)) {
        return record->version == 1;
    }
    return record->version - 1 == older->version &&
           record->create_revision == older->create_revision;
}

/* Where a record's key stands in the order of the tree. */
static int compare_place(const struct record *record, struct key_space_id space, struct bytes key) {
    int order = (int)record_space(record).value - (int)space.value;
    return order != 0 ? order : bytes_compare(record_key(record), key);
}

enum status key_store_restore(struct key_store *store, const struct record *template,
                              struct key_space_id space, struct bytes key, struct bytes value,
                              struct record **out_record) {
    assert(!store->is_writing);
    assert(store->history.end == 0);
    store->is_restoring = true;
    if (!is_plausible(template, space, key, value)) {
        return STATUS_CORRUPT;
    }
    struct record *last = store->restored;
    int order = last == NULL ? -1 : compare_place(last, space, key);
    if (order > 0 || (order == 0 && !can_follow(last, template))) {
        return STATUS_CORRUPT;
    }
    struct record *record = key_store_record_create(store, space, key, value);
    record->create_revision = template->create_revision;
    record->mod_revision = template->mod_revision;
    record->version = template->version;
    record->lease_id = template->lease_id;
    record->sub_revision = template->sub_revision;
    record->older = key_tree_set(&store->tree, record);
    if (record->older != NULL && !record_is_tombstone(record->older)) {
        key_store_remove_live(store, record->older);
    }
    if (!record_is_tombstone(record)) {
        key_store_add_live(store, record);
    }
    store->restored = record;
    if (out_record != NULL) {
        *out_record = record;
    }
    return STATUS_OK;
}

static int compare_written(const void *a, const void *b) {
    const struct record *record_a = *(struct record *const *)a;
    const struct record *record_b = *(struct record *const *)b;
    return is_written_after(record_a, record_b) - is_written_after(record_b, record_a);
}

/* Collects what belongs in the history, unordered. False when a record cannot be in a store of
 * these revisions. */
static bool collect_history(const struct key_store *store, int64_t revision,
                            int64_t compacted_revision, struct record **records, size_t *out_n) {
    size_t n = 0;
    struct key_tree_cursor cursor;
    key_tree_seek(store->tree.root, bytes_of(NULL, 0), false, &cursor);
    struct record *record;
    for (; (record = key_tree_cursor_record(&cursor)) != NULL; key_tree_cursor_next(&cursor)) {
        const struct record *newer = NULL;
        for (; record != NULL; newer = record, record = record->older) {
            if (record->mod_revision > revision ||
                !key_store_is_held(newer, record, compacted_revision)) {
                return false;
            }
            if (record->mod_revision >= compacted_revision) {
                records[n] = record;
                n++;
            }
        }
    }
    *out_n = n;
    return true;
}

enum status key_store_restore_end(struct key_store *store, int64_t revision,
                                  int64_t compacted_revision) {
    assert(!store->is_writing);
    assert(store->history.end == 0);
    store->is_restoring = true;
    if (revision < KEY_STORE_REVISION_FIRST || revision > KEY_STORE_RESTORED_MAX ||
        compacted_revision < 0 || compacted_revision > revision) {
        return STATUS_CORRUPT;
    }
    /* One more, as an allocation of nothing may be NULL. */
    struct record **records = malloc((store->records + 1) * sizeof(records[0]));
    if (records == NULL) {
        abort();
    }
    size_t n = 0;
    bool is_sound = collect_history(store, revision, compacted_revision, records, &n);
    if (is_sound) {
        qsort(records, n, sizeof(records[0]), compare_written);
        for (size_t i = 1; i < n; i++) {
            is_sound = is_sound && is_written_after(records[i], records[i - 1]);
        }
    }
    for (size_t i = 0; is_sound && i < n; i++) {
        key_history_append(&store->history, records[i]);
    }
    free(records);
    if (!is_sound) {
        return STATUS_CORRUPT;
    }
    store->revision = revision;
    store->compacted_revision = compacted_revision;
    store->is_restoring = false;
    store->restored = NULL;
    return STATUS_OK;
}

void key_store_raise_revision(struct key_store *store, int64_t revision) {
    assert(!store->is_writing);
    assert(!store->is_restoring);
    assert(revision >= store->revision);
    store->revision = revision;
}

/* --- Validating. --- */

static void validate_record(const struct key_store *store, const struct record *record) {
    assert(is_plausible(record, record_space(record), record_key(record), record_value(record)));
    assert(record->mod_revision <= key_store_revision_seen(store));
    if (record->older != NULL) {
        assert(bytes_equal(record_stored_key(record), record_stored_key(record->older)));
        assert(can_follow(record->older, record));
    }
}

/* What compaction cannot have touched yet must be in the history, at the place of its time. */
static bool is_in_history(const struct key_store *store, const struct record *record) {
    uint64_t low = store->history.first;
    uint64_t high = store->history.end;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        const struct record *found = key_history_at(&store->history, middle);
        if (found == record) {
            return true;
        }
        if (is_written_after(record, found)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return false;
}

void key_store_validate(const struct key_store *store) {
    key_tree_validate(&store->tree);
    size_t records = 0;
    size_t bytes = 0;
    size_t bytes_live = 0;
    size_t long_keys = 0;
    uint64_t in_history = 0;
    struct key_tree_cursor cursor;
    key_tree_seek(store->tree.root, bytes_of(NULL, 0), false, &cursor);
    const struct record *record;
    for (; (record = key_tree_cursor_record(&cursor)) != NULL; key_tree_cursor_next(&cursor)) {
        if (!record_is_tombstone(record)) {
            bytes_live += key_store_record_bytes(record);
            long_keys += record->key_size >= KEY_WORK_LONG_KEY ? record->key_size : 0;
        }
        for (; record != NULL; record = record->older) {
            validate_record(store, record);
            records++;
            bytes += key_store_record_bytes(record);
            bool is_found = is_in_history(store, record);
            in_history += is_found;
            assert(is_found || record->mod_revision < store->compacted_revision);
        }
    }
    assert(records == store->records);
    assert(bytes == store->record_bytes);
    assert(bytes_live == store->record_bytes_live);
    assert(long_keys == store->long_keys_live);
    /* Every record of the history was met in some chain: none is dangling. */
    assert(in_history == store->history.end - store->history.first);
    for (uint64_t i = store->history.first + 1; i < store->history.end; i++) {
        assert(is_written_after(key_history_at(&store->history, i),
                                key_history_at(&store->history, i - 1)));
    }
    assert(store->compacted_revision <= store->revision);
    assert(store->is_writing || store->n_changes == 0);
}
