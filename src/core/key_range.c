#include "core/key_store_parts.h"
#include "core/stored_key.h"

#include <stdlib.h>

/* Which keys a request means: never any outside its space. */
struct span {
    bool is_one; /* `to` is not set */
    bool is_empty;
    struct stored_key from;
    struct stored_key to; /* exclusive */
};

static void span_init(struct span *span, struct key_space_id space, struct bytes key,
                      struct bytes range_end) {
    assert(key_space_is_valid(space));
    span->is_one = range_end.size == 0;
    span->is_empty = false;
    stored_key_init(&span->from, space, key);
    if (!span->is_one) {
        stored_key_init_end(&span->to, space, range_end);
        span->is_empty = bytes_compare(span->to.bytes, span->from.bytes) <= 0;
    }
}

static void span_clear(struct span *span) {
    stored_key_clear(&span->from);
    if (!span->is_one) {
        stored_key_clear(&span->to);
    }
}

static bool span_contains(const struct span *span, const struct record *record) {
    struct bytes key = record_stored_key(record);
    return span->is_one ? bytes_equal(key, span->from.bytes)
                        : bytes_compare(key, span->to.bytes) < 0;
}

static struct record *span_find_one(const struct key_tree_node *root, const struct span *span) {
    struct record *head = key_tree_find(root, span->from.bytes);
    return head == NULL || record_is_tombstone(head) ? NULL : head;
}

static size_t span_count_live(const struct key_tree_node *root, const struct span *span) {
    if (span->is_one) {
        return span_find_one(root, span) != NULL;
    }
    if (span->is_empty) {
        return 0;
    }
    return key_tree_live_below(root, span->to.bytes) - key_tree_live_below(root, span->from.bytes);
}

/* Records that grow in arena memory. */
struct gathered {
    struct arena *arena;
    struct record **records;
    size_t n;
    size_t capacity;
};

enum {
    GATHERED_CAPACITY_MIN = 16,
    /* A store of fewer keys has no range worth counting before it is read. */
    KEY_STORE_SMALL = 64
};

static void gathered_init(struct gathered *gathered, struct arena *arena, size_t capacity) {
    gathered->arena = arena;
    gathered->n = 0;
    gathered->capacity = capacity;
    gathered->records = arena_alloc(arena, capacity * sizeof(gathered->records[0]));
}

static void gathered_add(struct gathered *gathered, struct record *record) {
    if (gathered->n == gathered->capacity) {
        struct gathered larger;
        gathered_init(&larger, gathered->arena, gathered->capacity * 2 + GATHERED_CAPACITY_MIN);
        if (gathered->n > 0) {
            memcpy(larger.records, gathered->records, gathered->n * sizeof(larger.records[0]));
        }
        larger.n = gathered->n;
        *gathered = larger;
    }
    gathered->records[gathered->n] = record;
    gathered->n++;
}

static bool has_bounds(const struct range_request *request) {
    return request->mod_revision_min != 0 || request->mod_revision_max != 0 ||
           request->create_revision_min != 0 || request->create_revision_max != 0;
}

static bool is_within(int64_t number, int64_t min, int64_t max) {
    return (min == 0 || number >= min) && (max == 0 || number <= max);
}

static bool is_wanted(const struct range_request *request, const struct record *record) {
    return is_within(record->mod_revision, request->mod_revision_min, request->mod_revision_max) &&
           is_within(record->create_revision, request->create_revision_min,
                     request->create_revision_max);
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Takes at most `n_max` keys in key order, then leaves out those out of bounds. Returns the count
 * of all keys. */
static size_t gather_newest(const struct key_tree_node *root, const struct range_request *request,
                            const struct span *span, size_t n_max, struct arena *arena,
                            struct gathered *gathered) {
    if (span->is_one) {
        struct record *record = span_find_one(root, span);
        gathered_init(gathered, arena, 1);
        if (record != NULL && n_max > 0 && is_wanted(request, record)) {
            gathered_add(gathered, record);
        }
        return record != NULL;
    }
    size_t count = span_count_live(root, span);
    size_t left = least(count, n_max);
    gathered_init(gathered, arena, has_bounds(request) ? 0 : left);
    if (left == 0) {
        return count;
    }
    struct key_tree_cursor cursor;
    key_tree_seek(root, span->from.bytes, true, &cursor);
    for (; left > 0; left--) {
        struct record *record = key_tree_cursor_record(&cursor);
        if (is_wanted(request, record)) {
            gathered_add(gathered, record);
        }
        key_tree_cursor_next(&cursor);
    }
    return count;
}

/* The same at an older revision: every key of the range has to be looked at to be counted. */
static size_t gather_at(const struct key_tree_node *root, const struct range_request *request,
                        const struct span *span, size_t n_max, int64_t revision,
                        struct arena *arena, struct gathered *gathered) {
    size_t count = 0;
    struct key_tree_cursor cursor;
    gathered_init(gathered, arena, 0);
    key_tree_seek(root, span->from.bytes, false, &cursor);
    struct record *head;
    for (; (head = key_tree_cursor_record(&cursor)) != NULL; key_tree_cursor_next(&cursor)) {
        if (!span_contains(span, head)) {
            break;
        }
        struct record *record = key_store_version_at(head, revision);
        if (record != NULL) {
            if (count < n_max && is_wanted(request, record)) {
                gathered_add(gathered, record);
            }
            count++;
        }
        if (span->is_one) {
            break;
        }
    }
    return count;
}

static int compare_numbers(int64_t a, int64_t b) {
    return (a > b) - (a < b);
}

static int compare_targets(const struct record *a, const struct record *b,
                           enum sort_target target) {
    switch (target) {
    case SORT_BY_KEY:
        return bytes_compare(record_key(a), record_key(b));
    case SORT_BY_VERSION:
        return compare_numbers(a->version, b->version);
    case SORT_BY_CREATE:
        return compare_numbers(a->create_revision, b->create_revision);
    case SORT_BY_MOD:
        return compare_numbers(a->mod_revision, b->mod_revision);
    case SORT_BY_VALUE:
        return bytes_compare(record_value(a), record_value(b));
    }
    abort();
}

struct sorting {
    enum sort_target target;
    bool is_descending;
};

static int compare_records(const void *a, const void *b, void *context) {
    const struct sorting *sorting = context;
    const struct record *record_a = *(struct record *const *)a;
    const struct record *record_b = *(struct record *const *)b;
    int order = compare_targets(record_a, record_b, sorting->target);
    if (order != 0) {
        return sorting->is_descending ? -order : order;
    }
    return bytes_compare(record_key(record_a), record_key(record_b));
}

/* Locks and elections ask for the first by creation among many who wait: finding one needs no
 * sorting. */
static void move_least_first(struct gathered *gathered, struct sorting *sorting) {
    for (size_t i = 1; i < gathered->n; i++) {
        if (compare_records(&gathered->records[i], &gathered->records[0], sorting) < 0) {
            struct record *least_record = gathered->records[i];
            gathered->records[i] = gathered->records[0];
            gathered->records[0] = least_record;
        }
    }
}

static void sort(struct gathered *gathered, const struct range_request *request) {
    struct sorting sorting = {.target = request->target,
                              .is_descending = request->order == SORT_DESCENDING};
    if (sorting.target == SORT_BY_KEY && !sorting.is_descending) {
        return;
    }
    if (request->limit == 1) {
        move_least_first(gathered, &sorting);
    } else if (gathered->n > 1) {
        qsort_r(gathered->records, gathered->n, sizeof(gathered->records[0]), compare_records,
                &sorting);
    }
}

/* How many keys to take in key order before bounds, sorting and limit. As in etcd, a request
 * without order but with a target other than the key sorts only what the limit let through, and
 * one key more. */
static size_t fetch_max(const struct range_request *request) {
    if (request->count_only) {
        return 0;
    }
    if (request->limit <= 0 || request->order != SORT_NONE || has_bounds(request)) {
        return SIZE_MAX;
    }
    return (size_t)request->limit + 1;
}

static enum status range_in_source(const struct key_source *source, struct key_space_id space,
                                   const struct range_request *request, struct arena *arena,
                                   struct range_outcome *out_outcome) {
    int64_t revision = request->revision <= 0 ? source->revision : request->revision;
    if (revision > source->revision) {
        return STATUS_REVISION_FUTURE;
    }
    if (revision < source->compacted_revision) {
        return STATUS_REVISION_COMPACTED;
    }
    struct span span;
    span_init(&span, space, request->key, request->range_end);
    struct gathered gathered = {0};
    size_t count = 0;
    if (!span.is_empty) {
        size_t n_max = fetch_max(request);
        count = revision == source->revision
                    ? gather_newest(source->root, request, &span, n_max, arena, &gathered)
                    : gather_at(source->root, request, &span, n_max, revision, arena, &gathered);
        sort(&gathered, request);
    }
    span_clear(&span);
    bool more = request->limit > 0 && gathered.n > (uint64_t)request->limit;
    out_outcome->count = (int64_t)count;
    out_outcome->more = more;
    out_outcome->n_records = more ? (size_t)request->limit : gathered.n;
    out_outcome->records = (const struct record **)gathered.records;
    return STATUS_OK;
}

enum status key_store_range(const struct key_store *store, struct key_space_id space,
                            const struct range_request *request, struct arena *arena,
                            struct range_outcome *out_outcome) {
    struct key_source source = key_store_source(store);
    return range_in_source(&source, space, request, arena, out_outcome);
}

enum status key_view_range(const struct key_view *view, struct key_space_id space,
                           const struct range_request *request, struct arena *arena,
                           struct range_outcome *out_outcome) {
    struct key_source source = key_view_source(view);
    return range_in_source(&source, space, request, arena, out_outcome);
}

size_t key_store_range_work(const struct key_store *store, struct key_space_id space,
                            const struct range_request *request) {
    if (request->range_end.size == 0) {
        return 1;
    }
    if (request->revision > 0 && request->revision < store->revision) {
        /* How many keys there were, or how many are gone since, is not known. */
        return store->records;
    }
    size_t n_max = fetch_max(request);
    size_t n_keys = key_tree_live(store->tree.root);
    if (n_max == 0 || n_keys <= KEY_STORE_SMALL) {
        return least(n_max, n_keys);
    }
    return least(n_max, key_store_count(store, space, request->key, request->range_end));
}

size_t key_store_count(const struct key_store *store, struct key_space_id space, struct bytes key,
                       struct bytes range_end) {
    struct span span;
    span_init(&span, space, key, range_end);
    size_t count = span_count_live(store->tree.root, &span);
    span_clear(&span);
    return count;
}

size_t key_store_visit(const struct key_store *store, struct key_space_id space, struct bytes key,
                       struct bytes range_end,
                       bool (*visit)(void *context, const struct record *record), void *context) {
    struct span span;
    span_init(&span, space, key, range_end);
    size_t n = span_count_live(store->tree.root, &span);
    struct key_tree_cursor cursor;
    if (n > 0) {
        key_tree_seek(store->tree.root, span.from.bytes, true, &cursor);
    }
    span_clear(&span);
    size_t n_visited = 0;
    while (n_visited < n) {
        n_visited++;
        if (!visit(context, key_tree_cursor_record(&cursor))) {
            break;
        }
        key_tree_cursor_next(&cursor);
    }
    return n_visited;
}

void key_store_collect(const struct key_store *store, struct key_space_id space, struct bytes key,
                       struct bytes range_end, struct arena *arena, struct record ***out_records,
                       size_t *out_n) {
    struct range_request everything = {.key = key, .range_end = range_end};
    struct span span;
    span_init(&span, space, key, range_end);
    struct gathered gathered = {0};
    if (!span.is_empty) {
        gather_newest(store->tree.root, &everything, &span, SIZE_MAX, arena, &gathered);
    }
    span_clear(&span);
    *out_records = gathered.records;
    *out_n = gathered.n;
}
