#include "core/watch_hub.h"

#include "core/key_store.h"
#include "core/stored_key.h"
#include "core/watch_hub_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What one watcher was given, as text: "+key@revision" for a put, "-key@revision" for a delete, and
 * "|" after each batch. */
struct inbox {
    char *text;
    size_t size;
    size_t capacity;
    size_t n_events;
    size_t n_batches;
    size_t n_events_max;   /* of one batch */
    int64_t last_revision; /* of the last batch */
    bool is_full;
    int64_t compacted_revision;
    struct watch_hub *hub; /* for removing another watcher when compacted */
    struct watcher *victim;
};

static void inbox_write(struct inbox *inbox, const char *piece) {
    size_t size = strlen(piece);
    if (inbox->size + size + 1 > inbox->capacity) {
        inbox->capacity = inbox->capacity * 2 + size + 1;
        inbox->text = realloc(inbox->text, inbox->capacity);
        assert_non_null(inbox->text);
    }
    memcpy(inbox->text + inbox->size, piece, size + 1);
    inbox->size += size;
}

static bool inbox_deliver(void *data, const struct watch_batch *batch) {
    struct inbox *inbox = data;
    if (inbox->is_full) {
        return false;
    }
    assert_true(batch->n_events > 0);
    assert_true(batch->events[0]->mod_revision > inbox->last_revision);
    for (size_t i = 0; i < batch->n_events; i++) {
        const struct record *record = batch->events[i];
        char piece[64];
        snprintf(piece, sizeof piece, "%c%.*s@%lld", record_is_tombstone(record) ? '-' : '+',
                 (int)record_key(record).size, (const char *)record_key(record).data,
                 (long long)record->mod_revision);
        inbox_write(inbox, piece);
        assert_true(record->mod_revision <= batch->revision);
    }
    inbox_write(inbox, "|");
    inbox->n_events += batch->n_events;
    inbox->n_batches++;
    inbox->last_revision = batch->revision;
    if (batch->n_events > inbox->n_events_max) {
        inbox->n_events_max = batch->n_events;
    }
    return true;
}

static void inbox_compacted(void *data, int64_t compacted_revision) {
    struct inbox *inbox = data;
    inbox->compacted_revision = compacted_revision;
    if (inbox->victim != NULL) {
        watch_hub_remove(inbox->hub, inbox->victim);
        inbox->victim = NULL;
    }
}

static const struct watcher_callbacks inbox_callbacks = {
    .deliver = inbox_deliver,
    .compacted = inbox_compacted,
};

static void expect(struct inbox *inbox, const char *text) {
    assert_string_equal(inbox->text == NULL ? "" : inbox->text, text);
}

static void inbox_clear(struct inbox *inbox) {
    free(inbox->text);
    *inbox = (struct inbox){0};
}

struct fixture {
    struct key_store *store;
    struct watch_hub *hub;
    struct inbox a;
    struct inbox b;
};

static int set_up(void **state) {
    struct fixture *f = calloc(1, sizeof *f);
    f->store = key_store_create();
    f->hub = watch_hub_create(f->store, NULL);
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *f = *state;
    watch_hub_validate(f->hub);
    watch_hub_destroy(f->hub);
    key_store_destroy(f->store);
    inbox_clear(&f->a);
    inbox_clear(&f->b);
    free(f);
    return 0;
}

static int64_t put(struct fixture *f, const char *key) {
    key_store_begin(f->store);
    key_store_put(f->store, KEY_SPACE_ETCD, bytes_from_text(key), bytes_from_text("v"), 0, NULL);
    return key_store_end(f->store);
}

static int64_t put_many(struct fixture *f, const char *prefix, unsigned n) {
    key_store_begin(f->store);
    for (unsigned i = 0; i < n; i++) {
        char key[32];
        snprintf(key, sizeof key, "%s%06u", prefix, i);
        key_store_put(f->store, KEY_SPACE_ETCD, bytes_from_text(key), bytes_from_text("v"), 0,
                      NULL);
    }
    return key_store_end(f->store);
}

static void delete (struct fixture *f, const char *key) {
    key_store_begin(f->store);
    key_store_delete(f->store, key_store_find(f->store, KEY_SPACE_ETCD, bytes_from_text(key)));
    key_store_end(f->store);
}

static struct watcher *watch(struct fixture *f, struct inbox *inbox, const char *key,
                             const char *range_end, int64_t start_revision) {
    struct watcher_options options = {
        .space = KEY_SPACE_ETCD,
        .key = bytes_from_text(key),
        .range_end = bytes_from_text(range_end),
        .start_revision = start_revision,
        .callbacks = &inbox_callbacks,
        .data = inbox,
    };
    return watch_hub_add(f->hub, &options);
}

static void work_to_the_end(struct fixture *f) {
    unsigned turns = 0;
    while (watch_hub_work(f->hub, 100)) {
        watch_hub_validate(f->hub);
        assert_true(++turns < 100000);
    }
}

static void a_watcher_of_one_key_gets_that_key_only(void **state) {
    struct fixture *f = *state;
    struct watcher *w = watch(f, &f->a, "k", "", 0);
    put(f, "k");
    put(f, "ka");
    put(f, "j");
    delete (f, "k");
    expect(&f->a, "");
    watch_hub_publish(f->hub);
    expect(&f->a, "+k@2-k@5|");
    assert_int_equal(f->a.last_revision, 5);
    assert_int_equal(watcher_revision(w), 5);
    watch_hub_publish(f->hub);
    assert_int_equal(f->a.n_batches, 1);
}

static void a_range_is_half_open_and_zero_means_to_the_end(void **state) {
    struct fixture *f = *state;
    watch(f, &f->a, "b", "d", 0);
    struct watcher_options options = {
        .space = KEY_SPACE_ETCD,
        .key = bytes_from_text("c"),
        .range_end = bytes_of("\0", 1),
        .callbacks = &inbox_callbacks,
        .data = &f->b,
    };
    watch_hub_add(f->hub, &options);
    put(f, "a");
    put(f, "b");
    put(f, "c");
    put(f, "d");
    put(f, "\xff\xff");
    watch_hub_publish(f->hub);
    expect(&f->a, "+b@3+c@4|");
    expect(&f->b, "+c@4+d@5+\xff\xff@6|");
}

static void all_keys_are_watched_from_the_empty_key(void **state) {
    struct fixture *f = *state;
    struct watcher_options options = {.space = KEY_SPACE_ETCD,
                                      .range_end = bytes_of("\0", 1),
                                      .callbacks = &inbox_callbacks,
                                      .data = &f->a};
    watch_hub_add(f->hub, &options);
    put(f, "\x01");
    put(f, "z");
    watch_hub_publish(f->hub);
    expect(&f->a, "+\x01@2+z@3|");
}

static void an_empty_range_gets_nothing(void **state) {
    struct fixture *f = *state;
    watch(f, &f->a, "d", "b", 0);
    watch(f, &f->a, "c", "c", 0);
    put(f, "b");
    put(f, "c");
    put(f, "d");
    watch_hub_publish(f->hub);
    expect(&f->a, "");
}

static void from_now_on_leaves_out_what_was_written_but_not_published(void **state) {
    struct fixture *f = *state;
    put(f, "k");
    struct watcher *w = watch(f, &f->a, "k", "", 0);
    assert_int_equal(watcher_revision(w), 2);
    put(f, "k");
    assert_false(watcher_is_current(f->hub, w));
    watch_hub_publish(f->hub);
    assert_true(watcher_is_current(f->hub, w));
    expect(&f->a, "+k@3|");
}

static void a_past_start_is_caught_up_by_work_and_then_follows(void **state) {
    struct fixture *f = *state;
    for (int i = 0; i < 5; i++) {
        put(f, "k");
        put(f, "other");
    }
    watch_hub_publish(f->hub);
    struct watcher *w = watch(f, &f->a, "k", "", 6);
    assert_int_equal(watch_hub_lagging_count(f->hub), 1);
    assert_true(watch_hub_has_work(f->hub));
    assert_int_equal(watcher_revision(w), 5);
    put(f, "k"); /* not yet published: must come once, not twice */
    assert_false(watch_hub_work(f->hub, 1000));
    expect(&f->a, "+k@6+k@8+k@10+k@12|");
    assert_int_equal(watch_hub_lagging_count(f->hub), 0);
    assert_int_equal(watcher_revision(w), 12);
    assert_true(watcher_is_current(f->hub, w));
    watch_hub_publish(f->hub);
    put(f, "k");
    watch_hub_publish(f->hub);
    expect(&f->a, "+k@6+k@8+k@10+k@12|+k@13|");
}

static void a_watcher_without_matches_does_not_lag_forever(void **state) {
    struct fixture *f = *state;
    for (int i = 0; i < 5000; i++) {
        put(f, "other");
    }
    struct watcher *w = watch(f, &f->a, "k", "", 2);
    assert_true(watch_hub_work(f->hub, 10)); /* about the budget, not all at once */
    work_to_the_end(f);
    assert_int_equal(watch_hub_lagging_count(f->hub), 0);
    watch_hub_publish(f->hub);
    assert_true(watcher_is_current(f->hub, w));
    assert_int_equal(watcher_revision(w), 5001);
    expect(&f->a, "");
}

static void a_future_start_waits_for_its_revision(void **state) {
    struct fixture *f = *state;
    put(f, "k");
    struct watcher *w = watch(f, &f->a, "k", "", 5);
    assert_int_equal(watch_hub_lagging_count(f->hub), 0);
    assert_int_equal(watcher_revision(w), 0);
    put(f, "k");
    watch_hub_publish(f->hub);
    assert_int_equal(watcher_revision(w), 0);
    put(f, "k");
    put(f, "k");
    put(f, "k");
    watch_hub_publish(f->hub);
    expect(&f->a, "+k@5+k@6|");
    assert_int_equal(watcher_revision(w), 6);
}

static void filters_leave_events_out_and_the_watcher_moves_on(void **state) {
    struct fixture *f = *state;
    struct watcher_options options = {.space = KEY_SPACE_ETCD,
                                      .key = bytes_from_text("k"),
                                      .callbacks = &inbox_callbacks,
                                      .data = &f->a};
    options.without_puts = true;
    struct watcher *a = watch_hub_add(f->hub, &options);
    options.without_puts = false;
    options.without_deletes = true;
    options.data = &f->b;
    watch_hub_add(f->hub, &options);
    put(f, "k");
    watch_hub_publish(f->hub);
    assert_int_equal(watcher_revision(a), 2);
    delete (f, "k");
    put(f, "k");
    watch_hub_publish(f->hub);
    expect(&f->a, "-k@3|");
    expect(&f->b, "+k@2|+k@4|");
    /* The same when caught up. */
    options.start_revision = 2;
    struct watcher *late = watch_hub_add(f->hub, &options);
    inbox_clear(&f->b);
    work_to_the_end(f);
    expect(&f->b, "+k@2+k@4|");
    watch_hub_remove(f->hub, late);
}

static void a_refused_batch_comes_again_after_resume_without_gap_or_duplicate(void **state) {
    struct fixture *f = *state;
    struct watcher *w = watch(f, &f->a, "k", "", 0);
    watch(f, &f->b, "k", "", 0);
    put(f, "k");
    watch_hub_publish(f->hub);
    f->a.is_full = true;
    put(f, "k");
    watch_hub_publish(f->hub);
    put(f, "k");
    watch_hub_publish(f->hub);
    assert_int_equal(watch_hub_lagging_count(f->hub), 1);
    assert_false(watch_hub_has_work(f->hub));
    assert_false(watch_hub_work(f->hub, 1000));
    assert_int_equal(watcher_revision(w), 2);
    assert_false(watcher_is_current(f->hub, w));
    expect(&f->b, "+k@2|+k@3|+k@4|"); /* nobody is held back */
    watch_hub_resume(f->hub, w);
    assert_false(watch_hub_work(f->hub, 1000)); /* refused once more */
    assert_int_equal(watch_hub_lagging_count(f->hub), 1);
    f->a.is_full = false;
    watch_hub_resume(f->hub, w);
    watch_hub_resume(f->hub, w);
    work_to_the_end(f);
    expect(&f->a, "+k@2|+k@3+k@4|");
    put(f, "k");
    watch_hub_publish(f->hub);
    watch_hub_resume(f->hub, w); /* harmless when nothing is owed */
    assert_false(watch_hub_has_work(f->hub));
    expect(&f->a, "+k@2|+k@3+k@4|+k@5|");
}

static void put_large(struct fixture *f, const char *key, size_t size) {
    uint8_t *value = calloc(1, size);
    assert_non_null(value);
    key_store_begin(f->store);
    key_store_put(f->store, KEY_SPACE_ETCD, bytes_from_text(key), bytes_of(value, size), 0, NULL);
    key_store_end(f->store);
    free(value);
}

/* One batch is one message of a door: a thousand large values in it would be a gigabyte. */
static void batches_of_large_values_are_bounded_by_their_bytes(void **state) {
    enum { SIZE = 256 * 1024, N = 40, FIT = 4 };
    struct fixture *f = *state;
    watch(f, &f->a, "p", "q", 0);
    for (int i = 0; i < N; i++) {
        char key[16];
        snprintf(key, sizeof key, "p%02d", i);
        put_large(f, key, SIZE);
    }
    watch_hub_publish(f->hub);
    assert_int_equal(f->a.n_events, N);
    assert_true(f->a.n_events_max <= FIT);
    watch(f, &f->b, "p", "q", 1);
    assert_true(watch_hub_work(f->hub, 2000));
    assert_true(f->b.n_batches <= 2);
    work_to_the_end(f);
    assert_int_equal(f->b.n_events, N);
    assert_true(f->b.n_events_max <= FIT);
    /* What a deletion took away may have to be told along with it. */
    for (int i = 0; i < N; i++) {
        char key[16];
        snprintf(key, sizeof key, "p%02d", i);
        delete (f, key);
    }
    watch_hub_publish(f->hub);
    assert_int_equal(f->a.n_events, 2 * N);
    assert_true(f->a.n_events_max <= FIT);
}

static void batches_are_bounded_but_a_revision_is_never_split(void **state) {
    struct fixture *f = *state;
    watch(f, &f->a, "p", "q", 0);
    for (int i = 0; i < 2500; i++) {
        put(f, "p");
    }
    watch_hub_publish(f->hub);
    assert_int_equal(f->a.n_events, 2500);
    assert_true(f->a.n_events_max <= 1000);
    put_many(f, "p", 3000);
    put(f, "p");
    watch_hub_publish(f->hub);
    assert_int_equal(f->a.n_events, 5501);
    assert_int_equal(f->a.n_events_max, 3000);
    /* The same when caught up: order and wholeness are checked on delivery. */
    watch(f, &f->b, "p", "q", 2);
    work_to_the_end(f);
    assert_int_equal(f->b.n_events, 5501);
    assert_true(f->b.n_events_max >= 3000);
    assert_true(f->b.n_events_max < 4000);
}

static void a_watcher_compacted_away_is_told_and_dropped(void **state) {
    struct fixture *f = *state;
    for (int i = 0; i < 10; i++) {
        put(f, "k");
    }
    watch_hub_publish(f->hub);
    watch(f, &f->a, "k", "", 3);
    watch(f, &f->b, "k", "", 8);
    assert_int_equal(key_store_compact(f->store, 8), STATUS_OK);
    while (key_store_reclaim(f->store, 100)) {
    }
    work_to_the_end(f);
    assert_int_equal(f->a.compacted_revision, 8);
    expect(&f->a, "");
    assert_int_equal(f->b.compacted_revision, 0);
    expect(&f->b, "+k@8+k@9+k@10+k@11|");
    assert_int_equal(watch_hub_count(f->hub), 1);
}

static void another_watcher_may_be_removed_when_one_is_told_of_compaction(void **state) {
    struct fixture *f = *state;
    for (int i = 0; i < 10; i++) {
        put(f, "k");
    }
    watch(f, &f->a, "k", "", 3);
    f->a.hub = f->hub;
    f->a.victim = watch(f, &f->b, "k", "", 3);
    key_store_compact(f->store, 8);
    work_to_the_end(f);
    assert_int_equal(f->a.compacted_revision, 8);
    assert_int_equal(f->b.compacted_revision, 0);
    assert_int_equal(watch_hub_count(f->hub), 0);
}

static void compaction_before_publication_loses_nothing_silently(void **state) {
    struct fixture *f = *state;
    watch(f, &f->a, "k", "", 0);
    put(f, "k");
    put(f, "k");
    put(f, "k");
    key_store_compact(f->store, 4);
    while (key_store_reclaim(f->store, 100)) {
    }
    watch_hub_publish(f->hub);
    work_to_the_end(f);
    /* Either it was given everything, or it was told. */
    if (f->a.compacted_revision == 0) {
        assert_int_equal(f->a.n_events, 3);
    } else {
        assert_int_equal(watch_hub_count(f->hub), 0);
        expect(&f->a, "");
    }
}

static void removed_watchers_get_nothing(void **state) {
    struct fixture *f = *state;
    struct watcher *current = watch(f, &f->a, "k", "", 0);
    struct watcher *range = watch(f, &f->a, "a", "z", 0);
    put(f, "k");
    struct watcher *behind = watch(f, &f->a, "k", "", 1);
    struct watcher *waiting = watch(f, &f->b, "k", "", 1);
    f->b.is_full = true;
    watch_hub_remove(f->hub, behind);
    watch_hub_remove(f->hub, current);
    watch_hub_remove(f->hub, range);
    work_to_the_end(f);
    watch_hub_remove(f->hub, waiting);
    watch_hub_validate(f->hub);
    watch_hub_publish(f->hub);
    put(f, "k");
    watch_hub_publish(f->hub);
    assert_int_equal(watch_hub_count(f->hub), 0);
    expect(&f->a, "");
}

static void a_replaced_store_is_caught_up_from_each_watchers_revision(void **state) {
    struct fixture *f = *state;
    watch(f, &f->a, "k", "", 0);
    struct watcher *future = watch(f, &f->b, "k", "", 7);
    put(f, "k");
    watch_hub_publish(f->hub);
    put(f, "other");
    watch_hub_publish(f->hub);
    struct key_store *old = f->store;
    f->store = key_store_create();
    put(f, "k");
    put(f, "other");
    put(f, "k");
    put(f, "k");
    watch_hub_set_store(f->hub, f->store);
    key_store_destroy(old);
    watch_hub_validate(f->hub);
    assert_int_equal(watch_hub_lagging_count(f->hub), 1);
    watch_hub_publish(f->hub);
    work_to_the_end(f);
    expect(&f->a, "+k@2|+k@4+k@5|");
    assert_int_equal(watcher_revision(future), 0);
    put(f, "k");
    put(f, "k");
    watch_hub_publish(f->hub);
    expect(&f->b, "+k@7|");
}

static void slow_watchers_take_turns(void **state) {
    struct fixture *f = *state;
    for (int i = 0; i < 3000; i++) {
        put(f, "k");
    }
    watch(f, &f->a, "k", "", 2);
    watch(f, &f->b, "k", "", 2);
    watch_hub_work(f->hub, 1500);
    assert_true(f->a.n_events > 0);
    assert_true(f->b.n_events > 0);
    assert_true(f->a.n_events < 3000);
    work_to_the_end(f);
    assert_int_equal(f->a.n_events, 3000);
    assert_int_equal(f->b.n_events, 3000);
}

static void many_overlapping_ranges_and_one_huge_revision_stay_bounded(void **state) {
    struct fixture *f = *state;
    enum { RANGES = 300, KEYS = 5000 };
    static struct inbox inboxes[RANGES];
    for (unsigned i = 0; i < RANGES; i++) {
        char end[16];
        snprintf(end, sizeof end, "q%03u", i);
        watch(f, &inboxes[i], "p", end, 0);
    }
    put(f, "p");
    put_many(f, "p", KEYS); /* 1,500,000 matches in one revision */
    put(f, "p");
    watch_hub_publish(f->hub);
    watch_hub_validate(f->hub);
    assert_true(watch_hub_lagging_count(f->hub) > 0);
    put(f, "p");
    watch_hub_publish(f->hub);
    work_to_the_end(f);
    assert_int_equal(watch_hub_lagging_count(f->hub), 0);
    for (unsigned i = 0; i < RANGES; i++) {
        assert_int_equal(inboxes[i].n_events, KEYS + 3);
        inbox_clear(&inboxes[i]);
    }
}

static void count_visit(void *context, struct watch_topic *topic) {
    (void)topic;
    ++*(size_t *)context;
}

static size_t visits_of(const struct fixture *f, const char *key) {
    size_t n = 0;
    struct stored_key stored;
    stored_key_init(&stored, KEY_SPACE_ETCD, bytes_from_text(key));
    watch_topics_visit(&f->hub->topics, stored.bytes, count_visit, &n);
    stored_key_clear(&stored);
    return n;
}

/* Visiting every range for every key of a revision would be 4,000,000 visits, while all wait. */
static void ranges_beyond_the_bound_of_a_window_are_not_visited_again(void **state) {
    enum { RANGES = 2000, KEYS = 2000 };
    struct fixture *f = *state;
    struct inbox *inboxes = calloc(RANGES, sizeof *inboxes);
    assert_non_null(inboxes);
    for (unsigned i = 0; i < RANGES; i++) {
        char end[16];
        snprintf(end, sizeof end, "q%04u", i);
        watch(f, &inboxes[i], "p", end, 0);
    }
    struct watcher *future = watch(f, &f->b, "o", "r", 1000);
    watch(f, &f->a, "x", "y", 0);
    put(f, "p");
    put_many(f, "p", KEYS);
    put(f, "p");
    put(f, "x");
    watch_hub_publish(f->hub);
    watch_hub_begin_iteration(f->hub);
    watch_hub_publish(f->hub);
    assert_in_range(f->hub->n_matches, 0, WATCH_WINDOW_MATCHES_MAX);
    watch_hub_validate(f->hub);
    assert_int_equal(visits_of(f, "p"), 0);
    assert_int_equal(watch_hub_lagging_count(f->hub), RANGES + 1);
    expect(&f->a, "+x@5|"); /* another range does not wait */
    put(f, "p");
    watch_hub_publish(f->hub);
    while (watch_hub_work(f->hub, 2000)) {
    }
    watch_hub_validate(f->hub);
    assert_int_equal(watch_hub_lagging_count(f->hub), 0);
    assert_int_equal(visits_of(f, "p"), RANGES + 1);
    assert_int_equal(watcher_revision(future), 0);
    expect(&f->b, "");
    put(f, "p");
    watch_hub_publish(f->hub);
    for (unsigned i = 0; i < RANGES; i++) {
        assert_int_equal(inboxes[i].n_events, KEYS + 4);
        inbox_clear(&inboxes[i]);
    }
    free(inboxes);
}

/* Its owner takes nothing: no write is to pay for finding that out again. */
static void a_range_without_current_watchers_is_not_visited(void **state) {
    struct fixture *f = *state;
    struct watcher *w = watch(f, &f->a, "p", "q", 0);
    f->a.is_full = true;
    assert_int_equal(visits_of(f, "p"), 1);
    put(f, "p");
    watch_hub_publish(f->hub);
    assert_int_equal(visits_of(f, "p"), 0);
    watch(f, &f->b, "p", "q", 0);
    assert_int_equal(visits_of(f, "p"), 1);
    put(f, "p");
    watch_hub_publish(f->hub);
    f->a.is_full = false;
    watch_hub_resume(f->hub, w);
    work_to_the_end(f);
    expect(&f->a, "+p@2+p@3|");
    expect(&f->b, "+p@3|");
    assert_int_equal(visits_of(f, "p"), 1);
}

static bool count_only(void *data, const struct watch_batch *batch) {
    *(size_t *)data += batch->n_events;
    return true;
}

static void a_hundred_thousand_ranges_are_searched_not_walked(void **state) {
    struct fixture *f = *state;
    enum { RANGES = 100000 };
    static const struct watcher_callbacks counting = {.deliver = count_only};
    size_t *counts = calloc(RANGES, sizeof *counts);
    struct watcher **watchers = calloc(RANGES, sizeof(struct watcher *));
    for (unsigned i = 0; i < RANGES; i++) {
        char key[16];
        char end[16];
        snprintf(key, sizeof key, "%06u", i * 7919u % RANGES);
        snprintf(end, sizeof end, "%06u~", i * 7919u % RANGES);
        struct watcher_options options = {.space = KEY_SPACE_ETCD,
                                          .key = bytes_from_text(key),
                                          .range_end = bytes_from_text(end),
                                          .callbacks = &counting,
                                          .data = &counts[i * 7919u % RANGES]};
        watchers[i] = watch_hub_add(f->hub, &options);
    }
    watch_hub_validate(f->hub);
    for (unsigned i = 0; i < RANGES; i++) {
        char key[16];
        snprintf(key, sizeof key, "%06u/", i);
        put(f, key);
    }
    watch_hub_publish(f->hub);
    while (watch_hub_work(f->hub, 2000)) {
    }
    for (unsigned i = 0; i < RANGES; i++) {
        assert_int_equal(counts[i], 1);
        watch_hub_remove(f->hub, watchers[i]);
    }
    watch_hub_validate(f->hub);
    free(watchers);
    free(counts);
}

/* Everybody waits for a compaction: what was not published yet must not be published to the end. */
static void before_a_compaction_what_is_too_much_is_left_behind(void **state) {
    enum { RANGES = 1000, REVISIONS = 1000, AT_ONCE_MAX = 100000 };
    static const struct watcher_callbacks counting = {.deliver = count_only};
    struct fixture *f = *state;
    size_t *counts = calloc(RANGES, sizeof *counts);
    assert_non_null(counts);
    for (unsigned i = 0; i < RANGES; i++) {
        char end[16];
        snprintf(end, sizeof end, "q%04u", i);
        struct watcher_options options = {.space = KEY_SPACE_ETCD,
                                          .key = bytes_from_text("p"),
                                          .range_end = bytes_from_text(end),
                                          .callbacks = &counting,
                                          .data = &counts[i]};
        watch_hub_add(f->hub, &options);
    }
    struct watcher *one = watch(f, &f->a, "k", "", 0);
    struct watcher *other = watch(f, &f->b, "o", "", 0);
    for (unsigned i = 0; i < REVISIONS; i++) {
        put(f, "p");
    }
    put(f, "k");
    watch_hub_publish_all(f->hub);
    watch_hub_validate(f->hub);
    assert_int_equal(watch_hub_lagging_count(f->hub), RANGES + 1);
    assert_true(watcher_is_current(f->hub, other));
    assert_false(watcher_is_current(f->hub, one));
    assert_int_equal(key_store_compact(f->store, 2), STATUS_OK);
    size_t n_delivered = 0;
    for (unsigned i = 0; i < RANGES; i++) {
        n_delivered += counts[i];
    }
    assert_in_range(n_delivered, 1, AT_ONCE_MAX);
    work_to_the_end(f);
    for (unsigned i = 0; i < RANGES; i++) {
        assert_int_equal(counts[i], REVISIONS);
    }
    expect(&f->a, "+k@1002|");
    free(counts);
}

static bool count_event(void *data, const struct watch_batch *batch) {
    *(unsigned *)data += (unsigned)batch->n_events;
    return true;
}

/* All on one key: whoever put it would wait for all of them. */
static void a_publication_delivers_a_bounded_amount_and_the_rest_follows(void **state) {
    enum { WATCHERS = 150000, AT_ONCE_MAX = 70000 };
    static const struct watcher_callbacks counting = {.deliver = count_event};
    struct fixture *f = *state;
    unsigned *counts = calloc(WATCHERS, sizeof *counts);
    assert_non_null(counts);
    for (unsigned i = 0; i < WATCHERS; i++) {
        struct watcher_options options = {.space = KEY_SPACE_ETCD,
                                          .key = bytes_from_text("k"),
                                          .callbacks = &counting,
                                          .data = &counts[i]};
        watch_hub_add(f->hub, &options);
    }
    put(f, "k");
    watch_hub_publish(f->hub);
    put(f, "k");
    watch_hub_publish(f->hub);
    size_t n_delivered = 0;
    for (unsigned i = 0; i < WATCHERS; i++) {
        n_delivered += counts[i];
    }
    assert_in_range(n_delivered, 1, AT_ONCE_MAX);
    watch_hub_begin_iteration(f->hub);
    put(f, "k");
    watch_hub_publish(f->hub);
    while (watch_hub_work(f->hub, 2000)) {
    }
    for (unsigned i = 0; i < WATCHERS; i++) {
        assert_int_equal(counts[i], 3);
    }
    assert_int_equal(watch_hub_lagging_count(f->hub), 0);
    free(counts);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_watcher_of_one_key_gets_that_key_only),
        TEST(a_range_is_half_open_and_zero_means_to_the_end),
        TEST(all_keys_are_watched_from_the_empty_key),
        TEST(an_empty_range_gets_nothing),
        TEST(from_now_on_leaves_out_what_was_written_but_not_published),
        TEST(a_past_start_is_caught_up_by_work_and_then_follows),
        TEST(a_watcher_without_matches_does_not_lag_forever),
        TEST(a_future_start_waits_for_its_revision),
        TEST(filters_leave_events_out_and_the_watcher_moves_on),
        TEST(a_refused_batch_comes_again_after_resume_without_gap_or_duplicate),
        TEST(batches_of_large_values_are_bounded_by_their_bytes),
        TEST(batches_are_bounded_but_a_revision_is_never_split),
        TEST(a_watcher_compacted_away_is_told_and_dropped),
        TEST(another_watcher_may_be_removed_when_one_is_told_of_compaction),
        TEST(compaction_before_publication_loses_nothing_silently),
        TEST(removed_watchers_get_nothing),
        TEST(a_replaced_store_is_caught_up_from_each_watchers_revision),
        TEST(slow_watchers_take_turns),
        TEST(many_overlapping_ranges_and_one_huge_revision_stay_bounded),
        TEST(ranges_beyond_the_bound_of_a_window_are_not_visited_again),
        TEST(a_range_without_current_watchers_is_not_visited),
        TEST(a_hundred_thousand_ranges_are_searched_not_walked),
        TEST(before_a_compaction_what_is_too_much_is_left_behind),
        TEST(a_publication_delivers_a_bounded_amount_and_the_rest_follows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
