#include "core/key_store_parts.h"

#include "base/crc32.h"

#include <endian.h>
#include <stdlib.h>

struct key_view *key_view_open(struct key_store *store) {
    assert(!store->is_writing);
    assert(!store->is_restoring);
    struct key_view *view = malloc(sizeof *view);
    if (view == NULL) {
        abort();
    }
    view->store = store;
    view->root = store->tree.root;
    view->epoch = key_tree_share(&store->tree);
    view->revision = store->revision;
    view->compacted_revision = store->compacted_revision;
    view->seen = (struct key_store){.tree = {.root = store->tree.root},
                                    .revision = store->revision,
                                    .compacted_revision = store->compacted_revision};
    list_append(&store->views, &view->link);
    return view;
}

const struct key_store *key_view_store(const struct key_view *view) {
    return &view->seen;
}

static uint64_t view_epoch(const struct list *link) {
    return list_entry(link, struct key_view, link)->epoch;
}

void key_view_close(struct key_view *view) {
    if (view == NULL) {
        return;
    }
    struct key_store *store = view->store;
    list_remove(&view->link);
    free(view);
    if (list_is_empty(&store->views)) {
        key_tree_unshare(&store->tree, 0, 0);
        return;
    }
    key_tree_unshare(&store->tree, view_epoch(store->views.next),
                     view_epoch(store->views.previous));
}

int64_t key_view_revision(const struct key_view *view) {
    return view->revision;
}

int64_t key_view_compacted_revision(const struct key_view *view) {
    return view->compacted_revision;
}

size_t key_view_key_count(const struct key_view *view) {
    return key_tree_live(view->root);
}

/* The versions of one key that the store holds, newest first. */
struct chain {
    const struct record **records;
    size_t n;
    size_t capacity;
};

enum { CHAIN_CAPACITY_MIN = 64 };

static void chain_add(struct chain *chain, const struct record *record) {
    if (chain->n == chain->capacity) {
        size_t capacity = chain->capacity == 0 ? CHAIN_CAPACITY_MIN : chain->capacity * 2;
        chain->records = realloc(chain->records, capacity * sizeof(chain->records[0]));
        if (chain->records == NULL) {
            abort();
        }
        chain->capacity = capacity;
    }
    chain->records[chain->n] = record;
    chain->n++;
}

/* What is visited of a tree: one space, or with KEY_SPACE_NONE all of them. */
struct extent {
    const struct key_tree_node *root;
    struct key_space_id space;
    int64_t compacted_revision;
    int64_t revision;
};

static bool extent_contains(const struct extent *extent, const struct record *record) {
    return extent->space.value == 0 || key_space_equal(record_space(record), extent->space);
}

/* Goes through an extent. Touches nothing but nodes, records and their `older`, none of which
 * changes under a view. */
struct key_view_walk {
    struct extent extent;
    struct key_tree_cursor cursor;
    struct chain chain; /* of the key where the cursor stands, what is left of it */
    bool is_begun;
    bool is_over;
};

static void gather_chain(struct key_view_walk *walk, const struct record *record) {
    const struct record *newer = NULL;
    while (record != NULL && key_store_is_held(newer, record, walk->extent.compacted_revision)) {
        if (record->mod_revision <= walk->extent.revision) {
            chain_add(&walk->chain, record);
        }
        newer = record;
        record = record->older;
    }
}

static const struct record *walk_next(struct key_view_walk *walk) {
    while (walk->chain.n == 0) {
        if (walk->is_over) {
            return NULL;
        }
        if (walk->is_begun) {
            key_tree_cursor_next(&walk->cursor);
        } else {
            walk->is_begun = true;
            key_tree_seek(walk->extent.root, bytes_of(&walk->extent.space.value, 1), false,
                          &walk->cursor);
        }
        const struct record *record = key_tree_cursor_record(&walk->cursor);
        walk->is_over = record == NULL || !extent_contains(&walk->extent, record);
        if (!walk->is_over) {
            gather_chain(walk, record);
        }
    }
    walk->chain.n--;
    return walk->chain.records[walk->chain.n];
}

static bool visit_all(const struct extent *extent,
                      bool (*visit)(void *context, const struct record *record), void *context) {
    struct key_view_walk walk = {.extent = *extent};
    bool go_on = true;
    const struct record *record = NULL;
    while (go_on && (record = walk_next(&walk)) != NULL) {
        go_on = visit(context, record);
    }
    free(walk.chain.records);
    return go_on;
}

struct key_view_walk *key_view_walk_open(const struct key_view *view, struct key_space_id space) {
    struct key_view_walk *walk = calloc(1, sizeof *walk);
    if (walk == NULL) {
        abort();
    }
    walk->extent = (struct extent){.root = view->root,
                                   .space = space,
                                   .compacted_revision = view->compacted_revision,
                                   .revision = view->revision};
    return walk;
}

const struct record *key_view_walk_next(struct key_view_walk *walk) {
    return walk_next(walk);
}

void key_view_walk_close(struct key_view_walk *walk) {
    if (walk != NULL) {
        free(walk->chain.records);
        free(walk);
    }
}

bool key_view_visit(const struct key_view *view,
                    bool (*visit)(void *context, const struct record *record), void *context) {
    const struct extent everything = {.root = view->root,
                                      .compacted_revision = view->compacted_revision,
                                      .revision = view->revision};
    return visit_all(&everything, visit, context);
}

/* Over the key without its space: members of release 0.2 hash the same. */
static bool hash_record(void *context, const struct record *record) {
    uint32_t *crc = context;
    struct bytes key = record_key(record);
    uint64_t numbers[] = {
        htole64((uint64_t)record->create_revision), htole64((uint64_t)record->mod_revision),
        htole64((uint64_t)record->version),         htole64((uint64_t)record->lease_id),
        htole64((uint64_t)record->sub_revision),    htole64((uint64_t)key.size),
        htole64((uint64_t)record->value_size)};
    *crc = crc32c(*crc, numbers, sizeof numbers);
    *crc = crc32c(*crc, key.data, key.size + record->value_size);
    return true;
}

static enum status hash_source(const struct key_source *source, struct key_space_id space,
                               int64_t revision, uint32_t *out_hash) {
    assert(key_space_is_valid(space));
    if (revision > source->revision) {
        return STATUS_REVISION_FUTURE;
    }
    if (revision <= 0) {
        revision = source->revision;
    }
    if (revision < source->compacted_revision) {
        return STATUS_REVISION_COMPACTED;
    }
    uint32_t crc = 0;
    const struct extent extent = {.root = source->root,
                                  .space = space,
                                  .compacted_revision = source->compacted_revision,
                                  .revision = revision};
    visit_all(&extent, hash_record, &crc);
    *out_hash = crc;
    return STATUS_OK;
}

enum status key_store_hash(const struct key_store *store, struct key_space_id space,
                           int64_t revision, uint32_t *out_hash) {
    assert(!store->is_writing);
    struct key_source source = key_store_source(store);
    return hash_source(&source, space, revision, out_hash);
}

bool key_view_visit_live(const struct key_view *view, struct key_space_id space,
                         bool (*visit)(void *context, const struct record *record), void *context) {
    assert(key_space_is_valid(space));
    struct key_tree_cursor cursor;
    key_tree_seek(view->root, bytes_of(&space.value, 1), true, &cursor);
    const struct record *record = NULL;
    while ((record = key_tree_cursor_record(&cursor)) != NULL &&
           key_space_equal(record_space(record), space)) {
        if (!visit(context, record)) {
            return false;
        }
        key_tree_cursor_next(&cursor);
    }
    return true;
}
