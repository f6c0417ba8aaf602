#include "core/key_store_parts.h"

#include "core/stored_key.h"

#include <stdlib.h>

struct key_store *key_store_create(void) {
    struct key_store *store = calloc(1, sizeof *store);
    if (store == NULL) {
        abort();
    }
    key_tree_init(&store->tree);
    key_history_init(&store->history);
    store->revision = KEY_STORE_REVISION_FIRST;
    list_init(&store->views);
    return store;
}

void key_store_destroy(struct key_store *store) {
    if (store == NULL) {
        return;
    }
    assert(list_is_empty(&store->views));
    struct key_tree_cursor cursor;
    key_tree_seek(store->tree.root, bytes_of(NULL, 0), false, &cursor);
    struct record *head;
    while ((head = key_tree_cursor_record(&cursor)) != NULL) {
        key_tree_cursor_next(&cursor);
        while (head != NULL) {
            struct record *older = head->older;
            key_store_record_free(store, head);
            head = older;
        }
    }
    assert(store->records == 0);
    assert(store->record_bytes == 0);
    key_tree_clear(&store->tree);
    key_history_clear(&store->history);
    free(store);
}

int64_t key_store_revision(const struct key_store *store) {
    return store->revision;
}

int64_t key_store_compacted_revision(const struct key_store *store) {
    return store->compacted_revision;
}

size_t key_store_bytes(const struct key_store *store) {
    return store->record_bytes + store->tree.bytes + store->history.bytes;
}

size_t key_store_long_keys(const struct key_store *store) {
    return store->long_keys_live;
}

void key_store_stats(const struct key_store *store, struct key_store_stats *out_stats) {
    out_stats->keys = key_tree_live(store->tree.root);
    out_stats->records = store->records;
    out_stats->bytes = key_store_bytes(store);
    out_stats->bytes_live = store->record_bytes_live;
    out_stats->history_bytes =
        store->record_bytes - store->record_bytes_live + store->history.bytes;
}

/* --- Records. --- */

static void copy_bytes(uint8_t *to, struct bytes from) {
    if (from.size > 0) {
        memcpy(to, from.data, from.size);
    }
}

struct record *key_store_record_create(struct key_store *store, struct key_space_id space,
                                       struct bytes key, struct bytes value) {
    assert(key_space_is_valid(space));
    assert(key.size > 0);
    assert(key.size < UINT32_MAX);
    assert(value.size <= UINT32_MAX);
    size_t size = offsetof(struct record, bytes) + 1 + key.size + value.size;
    struct record *record = malloc(size < sizeof *record ? sizeof *record : size);
    if (record == NULL) {
        abort();
    }
    *record =
        (struct record){.key_size = (uint32_t)key.size + 1, .value_size = (uint32_t)value.size};
    record->bytes[0] = space.value;
    copy_bytes(record->bytes + 1, key);
    copy_bytes(record->bytes + 1 + key.size, value);
    store->records++;
    store->record_bytes += key_store_record_bytes(record);
    return record;
}

void key_store_record_free(struct key_store *store, struct record *record) {
    store->records--;
    store->record_bytes -= key_store_record_bytes(record);
    free(record);
}

/* --- Writing. --- */

void key_store_begin(struct key_store *store) {
    assert(!store->is_writing);
    assert(!store->is_restoring);
    assert(store->revision < INT64_MAX);
    store->is_writing = true;
}

bool key_store_is_changed(const struct key_store *store) {
    return store->n_changes > 0;
}

int64_t key_store_end(struct key_store *store) {
    assert(store->is_writing);
    store->revision = key_store_revision_seen(store);
    store->is_writing = false;
    store->n_changes = 0;
    return store->revision;
}

/* Makes a record the newest of its key. Several changes of one key in one revision are several
 * records, told apart by sub_revision: watchers get each, reads see the last. */
static void store_link(struct key_store *store, struct record *record) {
    assert(store->is_writing);
    assert(store->n_changes < UINT32_MAX);
    record->mod_revision = store->revision + 1;
    record->sub_revision = store->n_changes;
    store->n_changes++;
    record->older = key_tree_set(&store->tree, record);
    key_history_append(&store->history, record);
}

struct record *key_store_put(struct key_store *store, struct key_space_id space, struct bytes key,
                             struct bytes value, int64_t lease_id, struct record **out_previous) {
    struct record *record = key_store_record_create(store, space, key, value);
    record->version = 1;
    record->lease_id = lease_id;
    store_link(store, record);
    struct record *previous = record->older;
    if (previous != NULL && record_is_tombstone(previous)) {
        previous = NULL;
    }
    record->create_revision = record->mod_revision;
    if (previous != NULL) {
        record->create_revision = previous->create_revision;
        record->version = previous->version + 1;
        key_store_remove_live(store, previous);
    }
    key_store_add_live(store, record);
    if (out_previous != NULL) {
        *out_previous = previous;
    }
    return record;
}

struct record *key_store_delete(struct key_store *store, struct record *live) {
    assert(!record_is_tombstone(live));
    struct record *tombstone =
        key_store_record_create(store, record_space(live), record_key(live), bytes_of(NULL, 0));
    store_link(store, tombstone);
    assert(tombstone->older == live);
    key_store_remove_live(store, live);
    return tombstone;
}

struct record *key_store_find(const struct key_store *store, struct key_space_id space,
                              struct bytes key) {
    assert(key_space_is_valid(space));
    struct stored_key stored;
    stored_key_init(&stored, space, key);
    struct record *head = key_tree_find(store->tree.root, stored.bytes);
    stored_key_clear(&stored);
    return head == NULL || record_is_tombstone(head) ? NULL : head;
}

/* --- History. --- */

uint64_t key_store_history_seek(const struct key_store *store, int64_t revision) {
    /* What is older than the compaction may be there still, but only by chance. */
    return key_history_seek(&store->history, revision < store->compacted_revision
                                                 ? store->compacted_revision
                                                 : revision);
}

uint64_t key_store_history_end(const struct key_store *store) {
    return store->history.end;
}

const struct record *key_store_history_at(const struct key_store *store, uint64_t position) {
    const struct record *record = key_history_at(&store->history, position);
    return record == NULL || record->mod_revision < store->compacted_revision ? NULL : record;
}

const struct record *key_store_previous(const struct key_store *store,
                                        const struct record *record) {
    /* A record of the compacted revision or before: what it replaced was read at lower revisions
     * only, and may be gone. */
    if (record->mod_revision <= store->compacted_revision) {
        return NULL;
    }
    const struct record *older = record->older;
    return older == NULL || record_is_tombstone(older) ? NULL : older;
}

/* --- Compaction. --- */

enum status key_store_compact(struct key_store *store, int64_t revision) {
    assert(!store->is_writing);
    if (revision == 0 && store->compacted_revision == 0) {
        return STATUS_OK; /* as in etcd, whose first compaction may be to any revision */
    }
    if (revision <= store->compacted_revision) {
        return STATUS_REVISION_COMPACTED;
    }
    if (revision > store->revision) {
        return STATUS_REVISION_FUTURE;
    }
    store->compacted_revision = revision;
    return STATUS_OK;
}

/* Frees the version below a record, unless that one is in the history itself. Deeper ones are gone
 * already: they were cut together with this older one. */
static void cut_older(struct key_store *store, struct record *record) {
    struct record *older = record->older;
    if (older != NULL && older->mod_revision < store->compacted_revision) {
        assert(older->older == NULL);
        record->older = NULL;
        key_store_record_free(store, older);
    }
}

/* The oldest record of the history is older than the compaction. It stays in its key's chain as
 * long as it is what is read at C; only a tombstone that nothing follows takes its key along. */
static void pop_history(struct key_store *store) {
    struct record *record = key_history_at(&store->history, store->history.first);
    key_history_pop(&store->history);
    cut_older(store, record);
    if (record_is_tombstone(record) &&
        key_tree_find(store->tree.root, record_stored_key(record)) == record) {
        assert(record->older == NULL);
        key_tree_remove(&store->tree, record_stored_key(record));
        key_store_record_free(store, record);
    }
}

static bool has_to_pop(const struct key_store *store) {
    const struct record *record = key_history_at(&store->history, store->history.first);
    return record != NULL && record->mod_revision < store->compacted_revision;
}

/* Records of revision C stay in the history, but what they replaced cannot be read any more. */
static bool has_to_cut(const struct key_store *store) {
    const struct record *record = key_history_at(&store->history, store->history_cut);
    return record != NULL && record->mod_revision == store->compacted_revision;
}

bool key_store_reclaim(struct key_store *store, size_t budget) {
    assert(!store->is_writing);
    if (!list_is_empty(&store->views)) {
        return false;
    }
    for (; budget > 0 && has_to_pop(store); budget--) {
        pop_history(store);
    }
    if (has_to_pop(store)) {
        return true;
    }
    if (store->history_cut < store->history.first) {
        store->history_cut = store->history.first;
    }
    for (; budget > 0 && has_to_cut(store); budget--) {
        cut_older(store, key_history_at(&store->history, store->history_cut));
        store->history_cut++;
    }
    return has_to_cut(store);
}
