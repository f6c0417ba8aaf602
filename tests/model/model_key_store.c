/*
 * Random changes, ranges, compactions, views and restores, compared with a naive reference.
 * `model_key_store [seed [steps]]` replays a run.
 */
#include "../storage/thorough.h"
#include "key_store_reference.h"

#include <time.h>

uint64_t model_seed;
uint64_t model_step;

static uint64_t random_state;

static uint64_t random_number(void) {
    random_state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = random_state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t random_below(uint64_t n) {
    return random_number() % n;
}

enum { VIEWS_MAX = 4, KEY_STYLES = 5 };

struct view {
    struct key_view *view;
    int64_t revision;
    int64_t compacted;
};

struct model {
    struct key_store *store;
    struct ref_store ref;
    struct arena arena;
    uint64_t key_space;
    unsigned key_style;
    uint64_t next_key; /* of the growing style */
    struct view views[VIEWS_MAX];
};

static struct bytes text_key(const uint8_t *buffer, int size) {
    return bytes_of(buffer, (size_t)size);
}

/* Keys of different make: numbers under a shared prefix, raw bytes with zeros, keys that are
 * prefixes of others, and keys that only grow. */
static struct bytes random_key(struct model *model, uint8_t buffer[KEY_MAX]) {
    uint64_t number = random_below(model->key_space);
    unsigned style =
        model->key_style == KEY_STYLES ? (unsigned)(number % KEY_STYLES) : model->key_style;
    switch (style) {
    case 0:
        return text_key(buffer, snprintf((char *)buffer, KEY_MAX, "/lock/%u/%u",
                                         (unsigned)number % 7, (unsigned)number));
    case 1:
        memcpy(buffer, &number, 3);
        return bytes_of(buffer, 1 + number % 3);
    case 2:
        memset(buffer, (int)(number % 3), 20);
        buffer[number % 20] = (uint8_t)(number >> 5);
        return bytes_of(buffer, 1 + number % 20);
    case 3:
        if (random_below(2) == 0) {
            number = model->next_key++;
        } else if (model->next_key > 0) {
            number = random_below(model->next_key);
        }
        return bytes_of(buffer,
                        (size_t)sprintf((char *)buffer, "key-%010llu", (unsigned long long)number));
    default:
        number *= UINT64_C(0x9e3779b97f4a7c15);
        memcpy(buffer, &number, 8);
        memcpy(buffer + 8, &number, 8);
        return bytes_of(buffer, 16);
    }
}

/* Neighbours among them, so that the end of one is the beginning of the next. */
static struct key_space_id random_space(void) {
    static const struct key_space_id spaces[] = {{1}, {2}, {16}, {250}, {KEY_SPACE_MAX}};
    return spaces[random_below(sizeof spaces / sizeof spaces[0])];
}

static struct bytes random_end(struct model *model, uint8_t buffer[KEY_MAX]) {
    switch (random_below(4)) {
    case 0:
        return bytes_of(NULL, 0);
    case 1:
        return bytes_of("", 1);
    default:
        return random_key(model, buffer);
    }
}

/* --- Changes. --- */

static void put_one(struct model *model) {
    uint8_t key_buffer[KEY_MAX];
    uint8_t value[24];
    struct key_space_id space = random_space();
    struct bytes key = random_key(model, key_buffer);
    size_t value_size = random_below(sizeof value + 1);
    memset(value, (int)random_below(256), sizeof value);
    int64_t lease = (int64_t)random_below(3);
    struct record *live = key_store_find(model->store, space, key);
    struct record *previous;
    struct record *record =
        key_store_put(model->store, space, key, bytes_of(value, value_size), lease, &previous);
    CHECK(previous == live);
    CHECK(key_store_find(model->store, space, key) == record);
    ref_write(&model->ref, space, key, false, bytes_of(value, value_size), lease);
}

static void delete_one(struct model *model) {
    uint8_t buffer[KEY_MAX];
    struct key_space_id space = random_space();
    struct bytes key = random_key(model, buffer);
    struct record *live = key_store_find(model->store, space, key);
    const struct ref_version *expected = ref_at(ref_key(&model->ref, space, key), INT64_MAX);
    CHECK((live == NULL) == (expected == NULL));
    if (live != NULL) {
        key_store_delete(model->store, live);
        ref_write(&model->ref, space, key, true, bytes_of("", 0), 0);
        CHECK(key_store_find(model->store, space, key) == NULL);
    }
}

/* Deletes up to `max` keys of a range. */
static void delete_many(struct model *model, size_t max) {
    uint8_t from[KEY_MAX];
    uint8_t end[KEY_MAX];
    struct key_space_id space = random_space();
    struct record **records;
    size_t n;
    key_store_collect(model->store, space, random_key(model, from), random_end(model, end),
                      &model->arena, &records, &n);
    for (size_t i = 0; i < n && i < max; i++) {
        struct bytes key = record_key(records[i]);
        CHECK(key_space_equal(record_space(records[i]), space));
        key_store_delete(model->store, records[i]);
        ref_write(&model->ref, space, key, true, bytes_of("", 0), 0);
    }
}

static void check_range(struct model *model);

static void change(struct model *model, bool is_shrinking) {
    key_store_begin(model->store);
    for (uint64_t n = random_below(4); n > 0; n--) {
        uint64_t kind = random_below(20);
        if (kind == 0) {
            delete_many(model, is_shrinking ? 2000 : 20);
        } else if (kind < (is_shrinking ? 15 : 6)) {
            delete_one(model);
        } else {
            put_one(model);
        }
        if (kind == 1) {
            check_range(model); /* sees what this revision has done so far */
        }
    }
    CHECK(key_store_is_changed(model->store) == (model->ref.n_changes > 0));
    model->ref.revision += model->ref.n_changes > 0;
    model->ref.n_changes = 0;
    CHECK(key_store_end(model->store) == model->ref.revision);
    CHECK(key_store_revision(model->store) == model->ref.revision);
}

/* --- Ranges. --- */

struct expected {
    const struct ref_key *key;
    const struct ref_version *version;
};

static struct range_request sorting; /* for the comparison below */

static int64_t expected_number(const struct expected *expected) {
    switch (sorting.target) {
    case SORT_BY_VERSION:
        return expected->version->version;
    case SORT_BY_CREATE:
        return expected->version->create;
    default:
        return expected->version->mod;
    }
}

static int compare_expected(const void *a, const void *b) {
    const struct expected *left = a;
    const struct expected *right = b;
    int keys = bytes_compare(ref_key_bytes(left->key), ref_key_bytes(right->key));
    int order;
    if (sorting.target == SORT_BY_KEY) {
        order = keys;
    } else if (sorting.target == SORT_BY_VALUE) {
        order = bytes_compare(bytes_of(left->version->value, left->version->value_size),
                              bytes_of(right->version->value, right->version->value_size));
    } else {
        int64_t x = expected_number(left);
        int64_t y = expected_number(right);
        order = (x > y) - (x < y);
    }
    if (order == 0) {
        return keys;
    }
    return sorting.order == SORT_DESCENDING ? -order : order;
}

static int64_t random_bound(struct model *model) {
    return random_below(4) == 0 ? (int64_t)random_below((uint64_t)model->ref.revision + 2) : 0;
}

static struct range_request random_request(struct model *model, uint8_t from[KEY_MAX],
                                           uint8_t end[KEY_MAX]) {
    struct range_request request = {
        .key = random_key(model, from),
        .range_end = random_end(model, end),
        .limit = random_below(2) ? (int64_t)random_below(12) : 0,
        .count_only = random_below(10) == 0,
    };
    if (random_below(2) == 0) {
        request.revision = (int64_t)random_below((uint64_t)model->ref.revision + 3) - 1;
    }
    if (random_below(2) == 0) {
        request.order = (enum sort_order)random_below(3);
        request.target = (enum sort_target)random_below(5);
    }
    if (random_below(3) == 0) {
        request.mod_revision_min = random_bound(model);
        request.mod_revision_max = random_bound(model);
        request.create_revision_min = random_bound(model);
        request.create_revision_max = random_bound(model);
    }
    return request;
}

static bool is_in_bounds(const struct range_request *request, const struct ref_version *version) {
    return (request->mod_revision_min == 0 || version->mod >= request->mod_revision_min) &&
           (request->mod_revision_max == 0 || version->mod <= request->mod_revision_max) &&
           (request->create_revision_min == 0 || version->create >= request->create_revision_min) &&
           (request->create_revision_max == 0 || version->create <= request->create_revision_max);
}

static void check_range(struct model *model) {
    uint8_t from[KEY_MAX];
    uint8_t end[KEY_MAX];
    struct key_space_id space = random_space();
    struct range_request request = random_request(model, from, end);
    struct range_outcome outcome;
    enum status status =
        key_store_range(model->store, space, &request, &(struct key_work){.left = SIZE_MAX},
                        &model->arena, &outcome);
    int64_t newest = model->ref.revision + (model->ref.n_changes > 0);
    int64_t revision = request.revision <= 0 ? newest : request.revision;
    if (revision > newest) {
        CHECK(status == STATUS_REVISION_FUTURE);
        return;
    }
    if (revision < model->ref.compacted) {
        CHECK(status == STATUS_REVISION_COMPACTED);
        return;
    }
    CHECK(status == STATUS_OK);
    struct expected *expected = malloc((model->ref.n + 1) * sizeof expected[0]);
    CHECK(expected != NULL);
    bool has_bounds = request.mod_revision_min != 0 || request.mod_revision_max != 0 ||
                      request.create_revision_min != 0 || request.create_revision_max != 0;
    bool is_cut_first = request.order == SORT_NONE && !has_bounds && request.limit > 0;
    size_t count = 0;
    size_t n = 0;
    for (size_t i = 0; i < model->ref.n; i++) {
        const struct ref_key *key = &model->ref.keys[i];
        const struct ref_version *version = ref_at(key, revision);
        if (version == NULL || !key_space_equal(key->space, space) ||
            !ref_in_range(ref_key_bytes(key), request.key, request.range_end)) {
            continue;
        }
        count++;
        if (is_in_bounds(&request, version) && !(is_cut_first && n == (size_t)request.limit + 1) &&
            !request.count_only) {
            expected[n++] = (struct expected){key, version};
        }
    }
    sorting = request;
    qsort(expected, n, sizeof expected[0], compare_expected);
    bool more = request.limit > 0 && n > (size_t)request.limit;
    n = more ? (size_t)request.limit : n;
    CHECK(outcome.count == (int64_t)count);
    CHECK(outcome.more == more);
    CHECK(outcome.n_records == n);
    for (size_t i = 0; i < n; i++) {
        ref_check_record(expected[i].key, expected[i].version, outcome.records[i]);
    }
    free(expected);
}

/* --- Views, history, compaction, restoring. --- */

struct visit {
    struct model *model;
    const struct view *view;
    struct key_store *copy; /* or NULL */
    size_t key;
    size_t version;
};

/* Moves to the next version that a view of its revisions shows. */
static const struct ref_version *next_held(struct visit *visit) {
    const struct ref_store *ref = &visit->model->ref;
    for (; visit->key < ref->n; visit->key++, visit->version = 0) {
        const struct ref_key *key = &ref->keys[visit->key];
        for (; visit->version < key->n; visit->version++) {
            if (key->versions[visit->version].mod <= visit->view->revision &&
                ref_is_held(key, visit->version, visit->view->compacted)) {
                return &key->versions[visit->version];
            }
        }
    }
    return NULL;
}

static bool visit_one(void *context, const struct record *record) {
    struct visit *visit = context;
    const struct ref_version *expected = next_held(visit);
    CHECK(expected != NULL);
    ref_check_record(&visit->model->ref.keys[visit->key], expected, record);
    visit->version++;
    if (visit->copy != NULL) {
        struct record *restored;
        CHECK(key_store_restore(visit->copy, record, record_space(record), record_key(record),
                                record_value(record), &restored) == STATUS_OK);
        CHECK(restored->lease_id == record->lease_id);
    }
    return true;
}

static void check_view(struct model *model, const struct view *view, struct key_store *copy) {
    struct visit visit = {.model = model, .view = view, .copy = copy};
    CHECK(key_view_revision(view->view) == view->revision);
    CHECK(key_view_compacted_revision(view->view) == view->compacted);
    CHECK(key_view_visit(view->view, visit_one, &visit));
    CHECK(next_held(&visit) == NULL);
    size_t live = 0;
    for (size_t i = 0; i < model->ref.n; i++) {
        live += ref_at(&model->ref.keys[i], view->revision) != NULL;
    }
    CHECK(key_view_key_count(view->view) == live);
}

static void open_or_close_view(struct model *model) {
    struct view *view = &model->views[random_below(VIEWS_MAX)];
    if (view->view != NULL) {
        check_view(model, view, NULL);
        key_view_close(view->view);
        view->view = NULL;
        return;
    }
    view->view = key_view_open(model->store);
    view->revision = model->ref.revision;
    view->compacted = model->ref.compacted;
}

static void close_all_views(struct model *model) {
    for (size_t i = 0; i < VIEWS_MAX; i++) {
        if (model->views[i].view != NULL) {
            check_view(model, &model->views[i], NULL);
            key_view_close(model->views[i].view);
            model->views[i].view = NULL;
        }
    }
}

static int compare_times(const void *a, const void *b) {
    const struct ref_version *left = ((const struct expected *)a)->version;
    const struct ref_version *right = ((const struct expected *)b)->version;
    if (left->mod != right->mod) {
        return left->mod < right->mod ? -1 : 1;
    }
    return left->sub < right->sub ? -1 : left->sub > right->sub;
}

static void check_history(const struct model *model, const struct key_store *store) {
    int64_t start = (int64_t)random_below((uint64_t)model->ref.revision + 2);
    int64_t from = start > model->ref.compacted ? start : model->ref.compacted;
    size_t n = 0;
    size_t capacity = 16;
    struct expected *expected = malloc(capacity * sizeof expected[0]);
    for (size_t i = 0; i < model->ref.n; i++) {
        for (size_t j = 0; j < model->ref.keys[i].n; j++) {
            if (model->ref.keys[i].versions[j].mod >= from) {
                if (n == capacity) {
                    expected = realloc(expected, (capacity *= 2) * sizeof expected[0]);
                }
                CHECK(expected != NULL);
                expected[n++] =
                    (struct expected){&model->ref.keys[i], &model->ref.keys[i].versions[j]};
            }
        }
    }
    qsort(expected, n, sizeof expected[0], compare_times);
    uint64_t position = key_store_history_seek(store, start);
    CHECK(key_store_history_end(store) - position == n);
    CHECK(key_store_history_at(store, key_store_history_end(store)) == NULL);
    CHECK(position == 0 || start > model->ref.compacted ||
          key_store_history_at(store, position - 1) == NULL);
    for (size_t i = 0; i < n; i++, position++) {
        const struct record *record = key_store_history_at(store, position);
        CHECK(record != NULL);
        ref_check_record(expected[i].key, expected[i].version, record);
        const struct record *previous = key_store_previous(store, record);
        const struct ref_version *before = expected[i].version - 1;
        bool has_previous = record->mod_revision > model->ref.compacted &&
                            expected[i].version > expected[i].key->versions && before->version > 0;
        CHECK((previous != NULL) == has_previous);
        if (has_previous) {
            ref_check_record(expected[i].key, before, previous);
        }
    }
    free(expected);
}

static void compact(struct model *model) {
    int64_t revision = (int64_t)random_below((uint64_t)model->ref.revision + 2);
    if (random_below(3) == 0) {
        revision = model->ref.revision;
    }
    enum status status = key_store_compact(model->store, revision);
    if (revision <= model->ref.compacted && (revision != 0 || model->ref.compacted != 0)) {
        CHECK(status == STATUS_REVISION_COMPACTED);
    } else if (revision > model->ref.revision) {
        CHECK(status == STATUS_REVISION_FUTURE);
    } else {
        CHECK(status == STATUS_OK);
        model->ref.compacted = revision;
    }
    CHECK(key_store_compacted_revision(model->store) == model->ref.compacted);
}

/* Whatever each has reclaimed, two replicas count the same work, and refuse the same requests. */
static void check_work(struct model *model, const struct key_store *copy) {
    for (unsigned i = 0; i < 20; i++) {
        uint8_t from[KEY_MAX];
        uint8_t end[KEY_MAX];
        struct key_space_id space = random_space();
        struct range_request request = random_request(model, from, end);
        struct range_outcome outcome;
        struct key_work work = {.left = random_below(2) ? random_below(500) : 1000000};
        struct key_work work_copy = work;
        enum status status =
            key_store_range(model->store, space, &request, &work, &model->arena, &outcome);
        CHECK(key_store_range(copy, space, &request, &work_copy, &model->arena, &outcome) ==
              status);
        CHECK(work.left == work_copy.left);
        CHECK(work.is_exceeded == (status == STATUS_REQUEST_TOO_LARGE));
    }
}

/* Sometimes goes on with the restored store, as a replica that was sent a snapshot does. */
static void restore(struct model *model) {
    struct view view = {key_view_open(model->store), model->ref.revision, model->ref.compacted};
    struct key_store *copy = key_store_create();
    check_view(model, &view, copy);
    CHECK(key_store_restore_end(copy, view.revision, view.compacted) == STATUS_OK);
    key_view_close(view.view);
    key_store_validate(copy);
    int64_t revision = (int64_t)random_below((uint64_t)model->ref.revision + 2);
    uint32_t hash = 0;
    uint32_t hash_copy = 1;
    struct key_space_id space = random_space();
    enum status status = key_store_hash(model->store, space, revision, &hash);
    CHECK(key_store_hash(copy, space, revision, &hash_copy) == status);
    CHECK(status != STATUS_OK || hash == hash_copy);
    check_history(model, copy);
    check_work(model, copy);
    if (random_below(2) == 0) {
        close_all_views(model);
        key_store_destroy(model->store);
        model->store = copy;
    } else {
        key_store_destroy(copy);
    }
}

static void check_reclaim_is_invisible(struct model *model) {
    uint32_t before;
    uint32_t after;
    struct key_space_id space = random_space();
    CHECK(key_store_hash(model->store, space, 0, &before) == STATUS_OK);
    key_store_reclaim(model->store, random_below(2) ? random_below(50) : 100000);
    CHECK(key_store_hash(model->store, space, 0, &after) == STATUS_OK);
    CHECK(before == after);
}

static void run(uint64_t seed, uint64_t steps) {
    struct model model = {.store = key_store_create(), .ref = {.revision = 1}};
    model_seed = seed;
    random_state = seed;
    arena_init(&model.arena);
    model.key_style = (unsigned)random_below(KEY_STYLES + 1);
    model.key_space = random_below(2) ? 40 : 20000;
    bool is_large = model.key_space > 40;
    for (model_step = 0; model_step < steps; model_step++) {
        /* A large store grows for most of the time, then shrinks, so that the tree does too. */
        bool is_shrinking = is_large ? model_step % steps > steps * 3 / 4 : random_below(2) == 0;
        change(&model, is_shrinking);
        uint64_t kind = random_below(is_large ? 600 : 60);
        if (kind < 15) {
            check_range(&model);
        } else if (kind < 19) {
            open_or_close_view(&model);
        } else if (kind < 21) {
            compact(&model);
        } else if (kind < 25) {
            check_reclaim_is_invisible(&model);
        } else if (kind == 25) {
            check_history(&model, model.store);
        } else if (kind == 26) {
            restore(&model);
        } else if (kind == 27) {
            key_store_validate(model.store);
        }
        arena_reset(&model.arena);
    }
    close_all_views(&model);
    while (key_store_reclaim(model.store, 1000)) {
    }
    key_store_validate(model.store);
    key_store_destroy(model.store);
    ref_clear(&model.ref);
    arena_clear(&model.arena);
}

int main(int argc, char **argv) {
    enum { RUNS = THOROUGH(40), STEPS = 4000 };
    if (argc > 1) {
        run(strtoull(argv[1], NULL, 10), argc > 2 ? strtoull(argv[2], NULL, 10) : STEPS);
        return 0;
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t base = (uint64_t)now.tv_sec * 1000;
    for (uint64_t i = 0; i < RUNS; i++) {
        printf("seed %llu\n", (unsigned long long)(base + i));
        fflush(stdout);
        run(base + i, STEPS);
    }
    return 0;
}
