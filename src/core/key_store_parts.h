/*
 * The inside of the key store, for the files that make it up: key_store.c (writing, compaction),
 * key_range.c (ranges), key_view.c (views, hash), key_restore.c (restoring, validating).
 *
 * What a store logically holds depends on nothing but its changes and its compacted revision C:
 * every record written at C or later (a watcher may start at C), and of each key the one record
 * that is read at C. What reclaiming has not got to yet is there in memory, but none of the
 * functions in key_store.h shows it.
 */
#ifndef LEASED_CORE_KEY_STORE_PARTS_H
#define LEASED_CORE_KEY_STORE_PARTS_H

#include "base/list.h"
#include "core/key_history.h"
#include "core/key_store.h"
#include "core/key_tree.h"
#include "core/key_work.h"

#include <assert.h>

struct key_store {
    struct key_tree tree;
    struct key_history history;
    int64_t revision;
    int64_t compacted_revision;
    /* Up to this position, records of revision C have lost the versions below them. */
    uint64_t history_cut;
    bool is_writing;
    uint32_t n_changes; /* since key_store_begin() */
    size_t records;
    size_t record_bytes;
    size_t record_bytes_live;
    size_t long_keys_live; /* bytes of live keys that are long (KEY_WORK_LONG_KEY) */
    struct list views;     /* oldest first */
    bool is_restoring;
    struct record *restored; /* the last one */
};

struct key_view {
    struct list link; /* in the store's views */
    struct key_store *store;
    const struct key_tree_node *root;
    uint64_t epoch;
    int64_t revision;
    int64_t compacted_revision;
    struct key_store seen; /* see key_view_store() */
};

/* What a read needs of a store or of a view. */
struct key_source {
    const struct key_tree_node *root;
    int64_t revision; /* the newest that is seen */
    int64_t compacted_revision;
    const struct key_history *history; /* NULL: of a view, which another thread may read */
};

/* A store's first revision, that of nothing. */
enum { KEY_STORE_REVISION_FIRST = 1 };
/* Of what is restored: writes count on from there, and must not come to the end of the numbers. */
#define KEY_STORE_RESTORED_MAX (INT64_MAX / 4 * 3)

/* Memory of a record as malloc deals it out: a word on top, in steps of two words. */
static inline size_t key_store_record_bytes(const struct record *record) {
    size_t size = offsetof(struct record, bytes) + record->key_size + (size_t)record->value_size;
    size = size < sizeof *record ? sizeof *record : size;
    return (size + sizeof(size_t) + 15) & ~(size_t)15;
}

/* A record is the newest of its key, and no tombstone. */
static inline void key_store_add_live(struct key_store *store, const struct record *record) {
    store->record_bytes_live += key_store_record_bytes(record);
    store->long_keys_live += record->key_size >= KEY_WORK_LONG_KEY ? record->key_size : 0;
}

/* It is no longer. */
static inline void key_store_remove_live(struct key_store *store, const struct record *record) {
    store->record_bytes_live -= key_store_record_bytes(record);
    store->long_keys_live -= record->key_size >= KEY_WORK_LONG_KEY ? record->key_size : 0;
}

/* A record with nothing but its bytes, counted by the store. */
struct record *key_store_record_create(struct key_store *store, struct key_space_id space,
                                       struct bytes key, struct bytes value);
void key_store_record_free(struct key_store *store, struct record *record);

/* The revision that reads see: with changes under way, the one they will have. */
static inline int64_t key_store_revision_seen(const struct key_store *store) {
    return store->revision + (store->n_changes > 0);
}

static inline struct key_source key_store_source(const struct key_store *store) {
    return (struct key_source){store->tree.root, key_store_revision_seen(store),
                               store->compacted_revision, &store->history};
}

static inline struct key_source key_view_source(const struct key_view *view) {
    return (struct key_source){view->root, view->revision, view->compacted_revision, NULL};
}

/* Whether the store still holds `older`, given that `newer` (NULL: nothing) came after it. */
static inline bool key_store_is_held(const struct record *newer, const struct record *older,
                                     int64_t compacted_revision) {
    if (older->mod_revision >= compacted_revision) {
        return true;
    }
    return !record_is_tombstone(older) &&
           (newer == NULL || newer->mod_revision > compacted_revision);
}

#endif
