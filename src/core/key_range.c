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

/* Takes at most `n_max` keys in key order, then leaves out those out of bounds. Counts all keys.
 * False: too much work. */
static bool gather_newest(const struct key_tree_node *root, const struct range_request *request,
                          const struct span *span, size_t n_max, struct key_work *work,
                          struct arena *arena, struct gathered *gathered, size_t *out_count) {
    if (span->is_one) {
        struct record *record = span_find_one(root, span);
        gathered_init(gathered, arena, 1);
        if (record != NULL && n_max > 0 && is_wanted(request, record)) {
            gathered_add(gathered, record);
        }
        *out_count = record != NULL;
        return key_work_spend(work, 1);
    }
    size_t count = span_count_live(root, span);
    size_t left = least(count, n_max);
    *out_count = count;
    if (!key_work_spend(work, left + 1)) {
        return false;
    }
    gathered_init(gathered, arena, has_bounds(request) ? 0 : left);
    if (left == 0) {
        return true;
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
    return true;
}

/* The version of a key that is read at a revision, or NULL. Only what every replica holds is
 * counted: not a tombstone that one has reclaimed and another has not. False: too much work. */
static bool read_version(const struct key_source *source, struct record *head, int64_t revision,
                         struct key_work *work, struct record **out_record) {
    size_t cost = key_store_is_held(NULL, head, source->compacted_revision) ? 1 : 0;
    struct record *record = head;
    while (record != NULL && record->mod_revision > revision) {
        record = record->older;
        cost += KEY_WORK_A_VERSION;
        if (cost > work->left) {
            break;
        }
    }
    *out_record = record == NULL || record_is_tombstone(record) ? NULL : record;
    return key_work_spend(work, cost);
}

/* How many records were written after a revision; UINT64_MAX: not known. */
static uint64_t count_written(const struct key_source *source, int64_t revision) {
    const struct key_history *history = source->history;
    return history == NULL ? UINT64_MAX : history->end - key_history_seek(history, revision + 1);
}

/* How many keys a span had at an older revision: those it has now, corrected by the keys that were
 * written since. False: too much work. */
static bool count_by_history(const struct key_source *source, const struct span *span,
                             int64_t revision, struct key_work *work, size_t *out_count) {
    const struct key_history *history = source->history;
    size_t count = span_count_live(source->root, span);
    uint64_t position = key_history_seek(history, revision + 1);
    for (; position < history->end; position++) {
        const struct record *record = key_history_at(history, position);
        const struct record *older = record->older;
        /* The first write of its key since then tells what was there before. */
        bool is_first = older == NULL || older->mod_revision <= revision;
        if (!key_work_spend(work, is_first ? KEY_WORK_A_VERSION : 1)) {
            return false;
        }
        if (is_first && bytes_compare(record_stored_key(record), span->from.bytes) >= 0 &&
            span_contains(span, record)) {
            const struct record *head = key_tree_find(source->root, record_stored_key(record));
            count -= !record_is_tombstone(head);
            count += older != NULL && !record_is_tombstone(older);
        }
    }
    *out_count = count;
    return true;
}

/* The same at an older revision, for which the tree has no counts. False: too much work. */
static bool gather_at(const struct key_source *source, const struct range_request *request,
                      const struct span *span, size_t n_max, int64_t revision,
                      struct key_work *work, struct arena *arena, struct gathered *gathered,
                      size_t *out_count) {
    bool is_counted_apart = !span->is_one && n_max != SIZE_MAX &&
                            count_written(source, revision) <= span_count_live(source->root, span);
    size_t count = 0;
    struct key_tree_cursor cursor;
    gathered_init(gathered, arena, 0);
    key_tree_seek(source->root, span->from.bytes, false, &cursor);
    struct record *head;
    for (; (head = key_tree_cursor_record(&cursor)) != NULL; key_tree_cursor_next(&cursor)) {
        if (!span_contains(span, head) || (is_counted_apart && count >= n_max)) {
            break;
        }
        struct record *record;
        if (!read_version(source, head, revision, work, &record)) {
            return false;
        }
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
    *out_count = count;
    return !is_counted_apart || count_by_history(source, span, revision, work, out_count);
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

/* Locks and elections ask for the first by creation among many waiters: finding one needs no
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

/* How often a record is compared when so many are sorted. */
static size_t compared_times(size_t n) {
    size_t times = 1;
    while (n > 2) {
        n = (n + 1) / 2;
        times++;
    }
    return times;
}

/* The bytes that may be compared, whatever they are and however the C library sorts. Those that are
 * equal are told apart by their keys. */
static bool spend_sorting(const struct gathered *gathered, const struct range_request *request,
                          struct key_work *work) {
    size_t units = 0;
    for (size_t i = 0; i < gathered->n; i++) {
        const struct record *record = gathered->records[i];
        size_t size = record->key_size;
        size += request->target == SORT_BY_VALUE ? record->value_size : 0;
        units += size / KEY_WORK_COMPARED_BYTES;
    }
    return key_work_spend(work, request->limit == 1 ? units : units * compared_times(gathered->n));
}

/* False: too much work. */
static bool sort(struct gathered *gathered, const struct range_request *request,
                 struct key_work *work) {
    struct sorting sorting = {.target = request->target,
                              .is_descending = request->order == SORT_DESCENDING};
    if (gathered->n <= 1 || (sorting.target == SORT_BY_KEY && !sorting.is_descending)) {
        return true;
    }
    if (!spend_sorting(gathered, request, work)) {
        return false;
    }
    if (request->limit == 1) {
        move_least_first(gathered, &sorting);
    } else {
        qsort_r(gathered->records, gathered->n, sizeof(gathered->records[0]), compare_records,
                &sorting);
    }
    return true;
}

/* What is answered of it. */
static bool spend_answer(const struct range_outcome *outcome, const struct range_request *request,
                         struct key_work *work) {
    size_t units = 0;
    for (size_t i = 0; i < outcome->n_records; i++) {
        units += key_work_of_copy(outcome->records[i], request->keys_only);
    }
    return key_work_spend(work, units);
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
                                   const struct range_request *request, struct key_work *work,
                                   struct arena *arena, struct range_outcome *out_outcome) {
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
    bool is_done = true;
    if (!span.is_empty) {
        size_t n_max = fetch_max(request);
        is_done = revision == source->revision ? gather_newest(source->root, request, &span, n_max,
                                                               work, arena, &gathered, &count)
                                               : gather_at(source, request, &span, n_max, revision,
                                                           work, arena, &gathered, &count);
    }
    span_clear(&span);
    if (!is_done || !sort(&gathered, request, work)) {
        return STATUS_REQUEST_TOO_LARGE;
    }
    bool more = request->limit > 0 && gathered.n > (uint64_t)request->limit;
    const struct range_outcome outcome = {.count = (int64_t)count,
                                          .more = more,
                                          .n_records = more ? (size_t)request->limit : gathered.n,
                                          .records = (const struct record **)gathered.records};
    if (!spend_answer(&outcome, request, work)) {
        return STATUS_REQUEST_TOO_LARGE;
    }
    *out_outcome = outcome;
    return STATUS_OK;
}

enum status key_store_range(const struct key_store *store, struct key_space_id space,
                            const struct range_request *request, struct key_work *work,
                            struct arena *arena, struct range_outcome *out_outcome) {
    struct key_source source = key_store_source(store);
    return range_in_source(&source, space, request, work, arena, out_outcome);
}

enum status key_view_range(const struct key_view *view, struct key_space_id space,
                           const struct range_request *request, struct key_work *work,
                           struct arena *arena, struct range_outcome *out_outcome) {
    struct key_source source = key_view_source(view);
    return range_in_source(&source, space, request, work, arena, out_outcome);
}

size_t key_store_range_work(const struct key_store *store, struct key_space_id space,
                            const struct range_request *request) {
    if (request->range_end.size == 0) {
        return 1;
    }
    size_t n_max = fetch_max(request);
    if (request->revision > 0 && request->revision < store->revision) {
        /* How many keys there were, or how many are gone since, is not known; but a few may be
         * taken, and counted by what was written since. */
        struct key_source source = key_store_source(store);
        uint64_t written = count_written(&source, request->revision);
        return n_max < store->records ? least(store->records, n_max + (size_t)written)
                                      : store->records;
    }
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

static size_t visit_in(const struct key_tree_node *root, struct key_space_id space,
                       struct bytes key, struct bytes range_end,
                       bool (*visit)(void *context, const struct record *record), void *context) {
    struct span span;
    span_init(&span, space, key, range_end);
    size_t n = span_count_live(root, &span);
    struct key_tree_cursor cursor;
    if (n > 0) {
        key_tree_seek(root, span.from.bytes, true, &cursor);
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

size_t key_store_visit(const struct key_store *store, struct key_space_id space, struct bytes key,
                       struct bytes range_end,
                       bool (*visit)(void *context, const struct record *record), void *context) {
    return visit_in(store->tree.root, space, key, range_end, visit, context);
}

size_t key_view_visit_range(const struct key_view *view, struct key_space_id space,
                            struct bytes key, struct bytes range_end,
                            bool (*visit)(void *context, const struct record *record),
                            void *context) {
    return visit_in(view->root, space, key, range_end, visit, context);
}

void key_store_collect(const struct key_store *store, struct key_space_id space, struct bytes key,
                       struct bytes range_end, struct arena *arena, struct record ***out_records,
                       size_t *out_n) {
    struct range_request everything = {.key = key, .range_end = range_end};
    struct span span;
    span_init(&span, space, key, range_end);
    struct gathered gathered = {0};
    if (!span.is_empty) {
        struct key_work work = {.left = SIZE_MAX};
        size_t count;
        (void)gather_newest(store->tree.root, &everything, &span, SIZE_MAX, &work, arena, &gathered,
                            &count);
    }
    span_clear(&span);
    *out_records = gathered.records;
    *out_n = gathered.n;
}
