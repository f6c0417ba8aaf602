#include "core/key_store.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static struct arena arena;

static struct record *put(struct key_store *store, const char *key, const char *value) {
    key_store_begin(store);
    struct record *record =
        key_store_put(store, KEY_SPACE_ETCD, bytes_from_text(key), bytes_from_text(value), 0, NULL);
    key_store_end(store);
    return record;
}

static void delete_key(struct key_store *store, const char *key) {
    key_store_begin(store);
    key_store_delete(store, key_store_find(store, KEY_SPACE_ETCD, bytes_from_text(key)));
    key_store_end(store);
}

/* Answers as text: "a=1 b=2", then "+" when more is said to come. */
static const char *range_text(const struct key_store *store, const struct range_request *request) {
    static char text[256];
    struct range_outcome outcome;
    size_t size = 0;
    arena_reset(&arena);
    assert_int_equal(key_store_range(store, KEY_SPACE_ETCD, request,
                                     &(struct key_work){.left = SIZE_MAX}, &arena, &outcome),
                     STATUS_OK);
    text[0] = '\0';
    for (size_t i = 0; i < outcome.n_records; i++) {
        struct bytes key = record_key(outcome.records[i]);
        struct bytes value = record_value(outcome.records[i]);
        size += (size_t)snprintf(text + size, sizeof text - size, "%s%.*s=%.*s", i > 0 ? " " : "",
                                 (int)key.size, (const char *)key.data, (int)value.size,
                                 (const char *)value.data);
    }
    snprintf(text + size, sizeof text - size, "%s /%lld", outcome.more ? "+" : "",
             (long long)outcome.count);
    return text;
}

static struct range_request all(void) {
    return (struct range_request){.key = bytes_from_text("a"), .range_end = bytes_from_text("z")};
}

static const char *at(const struct key_store *store, int64_t revision) {
    struct range_request request = all();
    request.revision = revision;
    return range_text(store, &request);
}

static enum status range_status(const struct key_store *store, int64_t revision) {
    struct range_request request = all();
    struct range_outcome outcome;
    request.revision = revision;
    return key_store_range(store, KEY_SPACE_ETCD, &request, &(struct key_work){.left = SIZE_MAX},
                           &arena, &outcome);
}

static void reclaim_all(struct key_store *store) {
    while (key_store_reclaim(store, 1)) {
    }
    key_store_validate(store);
}

static size_t record_count(const struct key_store *store) {
    struct key_store_stats stats;
    key_store_stats(store, &stats);
    return stats.records;
}

static void the_first_change_makes_revision_two(void **state) {
    struct key_store *store = key_store_create();
    assert_int_equal(key_store_revision(store), 1);
    struct record *record = put(store, "a", "1");
    assert_int_equal(key_store_revision(store), 2);
    assert_int_equal(record->create_revision, 2);
    assert_int_equal(record->mod_revision, 2);
    assert_int_equal(record->version, 1);
    key_store_destroy(store);
}

static void a_revision_without_change_is_none(void **state) {
    struct key_store *store = key_store_create();
    key_store_begin(store);
    assert_false(key_store_is_changed(store));
    assert_int_equal(key_store_end(store), 1);
    key_store_destroy(store);
}

static void a_key_counts_its_versions_until_it_is_deleted(void **state) {
    struct key_store *store = key_store_create();
    put(store, "a", "1");
    struct record *second = put(store, "a", "2");
    assert_int_equal(second->create_revision, 2);
    assert_int_equal(second->version, 2);
    delete_key(store, "a");
    assert_null(key_store_find(store, KEY_SPACE_ETCD, bytes_from_text("a")));
    struct record *reborn = put(store, "a", "3");
    assert_int_equal(reborn->create_revision, 5);
    assert_int_equal(reborn->version, 1);
    key_store_validate(store);
    key_store_destroy(store);
}

static void old_revisions_are_read_as_they_were(void **state) {
    struct key_store *store = key_store_create();
    put(store, "a", "1");
    put(store, "b", "1");
    put(store, "a", "2");
    delete_key(store, "b");
    assert_string_equal(at(store, 1), " /0");
    assert_string_equal(at(store, 2), "a=1 /1");
    assert_string_equal(at(store, 3), "a=1 b=1 /2");
    assert_string_equal(at(store, 4), "a=2 b=1 /2");
    assert_string_equal(at(store, 0), "a=2 /1");
    assert_int_equal(range_status(store, 6), STATUS_REVISION_FUTURE);
    key_store_destroy(store);
}

static void several_changes_of_a_key_in_one_revision_are_several_records(void **state) {
    struct key_store *store = key_store_create();
    struct record *previous;
    key_store_begin(store);
    struct record *first = key_store_put(store, KEY_SPACE_ETCD, bytes_from_text("a"),
                                         bytes_from_text("1"), 0, &previous);
    assert_null(previous);
    struct record *tombstone = key_store_delete(store, first);
    struct record *last = key_store_put(store, KEY_SPACE_ETCD, bytes_from_text("a"),
                                        bytes_from_text("2"), 0, &previous);
    assert_null(previous);
    /* The revision under way is what a read of the newest sees. */
    assert_string_equal(at(store, 2), "a=2 /1");
    assert_int_equal(key_store_end(store), 2);
    assert_string_equal(at(store, 2), "a=2 /1");
    assert_int_equal(last->version, 1);
    assert_int_equal(last->sub_revision, 2);
    assert_ptr_equal(key_store_history_at(store, 0), first);
    assert_ptr_equal(key_store_history_at(store, 1), tombstone);
    assert_ptr_equal(key_store_history_at(store, 2), last);
    assert_null(key_store_history_at(store, 3));
    assert_ptr_equal(key_store_previous(store, tombstone), first);
    assert_null(key_store_previous(store, last));
    put(store, "b", "1");
    key_store_compact(store, 3);
    reclaim_all(store);
    assert_int_equal(record_count(store), 2);
    assert_string_equal(at(store, 0), "a=2 b=1 /2");
    key_store_destroy(store);
}

/* Answers as etcd 3.4.23 gave them to the same requests. */
static void ranges_answer_as_etcd_does(void **state) {
    struct key_store *store = key_store_create();
    put(store, "d", "v");
    put(store, "c", "v");
    put(store, "b", "v");
    put(store, "a", "v");
    put(store, "a", "w");
    struct range_request request = all();
    request.limit = 2;
    request.target = SORT_BY_MOD;
    assert_string_equal(range_text(store, &request), "c=v b=v+ /4");
    request.limit = 1;
    request.target = SORT_BY_CREATE;
    assert_string_equal(range_text(store, &request), "b=v+ /4");
    request.order = SORT_ASCENDING;
    assert_string_equal(range_text(store, &request), "d=v+ /4");
    request = all();
    request.limit = 2;
    request.order = SORT_DESCENDING;
    assert_string_equal(range_text(store, &request), "d=v c=v+ /4");
    request = all();
    request.limit = 4;
    assert_string_equal(range_text(store, &request), "a=w b=v c=v d=v /4");
    request.limit = -1;
    assert_string_equal(range_text(store, &request), "a=w b=v c=v d=v /4");
    request.limit = 2;
    request.count_only = true;
    assert_string_equal(range_text(store, &request), " /4");
    request = all();
    request.limit = 1;
    request.mod_revision_min = 4;
    assert_string_equal(range_text(store, &request), "a=w+ /4");
    request.limit = 2;
    assert_string_equal(range_text(store, &request), "a=w b=v /4");
    request = all();
    request.mod_revision_max = -1;
    assert_string_equal(range_text(store, &request), " /4");
    key_store_destroy(store);
}

static void range_ends_mean_what_etcd_means(void **state) {
    struct key_store *store = key_store_create();
    put(store, "a", "1");
    put(store, "b", "2");
    put(store, "c", "3");
    struct range_request request = {.key = bytes_from_text("b")};
    assert_string_equal(range_text(store, &request), "b=2 /1");
    request.range_end = bytes_of("\0", 1);
    assert_string_equal(range_text(store, &request), "b=2 c=3 /2");
    request.range_end = bytes_from_text("b");
    assert_string_equal(range_text(store, &request), " /0");
    request.range_end = bytes_from_text("a");
    assert_string_equal(range_text(store, &request), " /0");
    request.range_end = bytes_of("b\0", 2);
    assert_string_equal(range_text(store, &request), "b=2 /1");
    request.key = bytes_of("\0", 1);
    request.range_end = bytes_of("\0", 1);
    assert_string_equal(range_text(store, &request), "a=1 b=2 c=3 /3");
    key_store_destroy(store);
}

static void sorting_ties_keep_key_order(void **state) {
    struct key_store *store = key_store_create();
    put(store, "c", "1");
    put(store, "a", "1");
    put(store, "b", "2");
    struct range_request request = all();
    request.target = SORT_BY_VALUE;
    request.order = SORT_DESCENDING;
    assert_string_equal(range_text(store, &request), "b=2 a=1 c=1 /3");
    request.order = SORT_ASCENDING;
    assert_string_equal(range_text(store, &request), "a=1 c=1 b=2 /3");
    key_store_destroy(store);
}

static void compaction_refuses_at_once_and_frees_later(void **state) {
    struct key_store *store = key_store_create();
    put(store, "a", "1");
    put(store, "a", "2");
    put(store, "b", "1");
    delete_key(store, "b");
    put(store, "a", "3");
    assert_int_equal(key_store_compact(store, 7), STATUS_REVISION_FUTURE);
    /* Nothing was compacted yet: 0 is fine, as in etcd, and changes nothing. */
    assert_int_equal(key_store_compact(store, 0), STATUS_OK);
    assert_int_equal(key_store_compacted_revision(store), 0);
    assert_int_equal(key_store_compact(store, -1), STATUS_REVISION_COMPACTED);
    assert_int_equal(key_store_compact(store, 4), STATUS_OK);
    assert_int_equal(key_store_compact(store, 4), STATUS_REVISION_COMPACTED);
    assert_int_equal(key_store_compacted_revision(store), 4);
    assert_int_equal(range_status(store, 3), STATUS_REVISION_COMPACTED);
    assert_int_equal(record_count(store), 5);
    uint32_t before;
    uint32_t after;
    assert_int_equal(key_store_hash(store, KEY_SPACE_ETCD, 0, &before), STATUS_OK);
    reclaim_all(store);
    assert_int_equal(key_store_hash(store, KEY_SPACE_ETCD, 0, &after), STATUS_OK);
    assert_int_equal(before, after);
    assert_int_equal(record_count(store), 4);
    assert_string_equal(at(store, 4), "a=2 b=1 /2");
    assert_string_equal(at(store, 6), "a=3 /1");
    assert_int_equal(key_store_compact(store, 6), STATUS_OK);
    reclaim_all(store);
    assert_int_equal(record_count(store), 1);
    assert_string_equal(at(store, 6), "a=3 /1");
    key_store_destroy(store);
}

static void what_was_written_at_the_compacted_revision_is_still_told(void **state) {
    struct key_store *store = key_store_create();
    put(store, "a", "1");
    delete_key(store, "a");
    assert_int_equal(key_store_compact(store, 3), STATUS_OK);
    reclaim_all(store);
    /* The tombstone is an event that a watcher from revision 3 is owed; the version before it is
     * not needed for anything. */
    uint64_t position = key_store_history_seek(store, 3);
    const struct record *tombstone = key_store_history_at(store, position);
    assert_non_null(tombstone);
    assert_true(record_is_tombstone(tombstone));
    assert_null(key_store_previous(store, tombstone));
    assert_int_equal(record_count(store), 1);
    assert_int_equal(key_store_history_seek(store, 1), position);
    assert_null(key_store_history_at(store, position - 1));
    put(store, "b", "1");
    assert_int_equal(key_store_compact(store, 4), STATUS_OK);
    reclaim_all(store);
    assert_int_equal(record_count(store), 1);
    key_store_destroy(store);
}

static void positions_of_history_never_restart(void **state) {
    struct key_store *store = key_store_create();
    enum { CHANGES = 5000 };
    for (int i = 0; i < CHANGES; i++) {
        put(store, "a", "1");
        if (i % 700 == 0) {
            key_store_compact(store, key_store_revision(store) - 3);
            reclaim_all(store);
        }
    }
    assert_int_equal(key_store_history_end(store), CHANGES);
    uint64_t position = key_store_history_seek(store, CHANGES);
    assert_int_equal(position, CHANGES - 2);
    assert_int_equal(key_store_history_at(store, position)->mod_revision, CHANGES);
    key_store_destroy(store);
}

static void nothing_is_reclaimed_while_a_view_is_open(void **state) {
    struct key_store *store = key_store_create();
    put(store, "a", "1");
    put(store, "a", "2");
    struct key_view *view = key_view_open(store);
    key_store_compact(store, 3);
    assert_false(key_store_reclaim(store, 100));
    assert_int_equal(record_count(store), 2);
    key_view_close(view);
    reclaim_all(store);
    assert_int_equal(record_count(store), 1);
    key_store_destroy(store);
}

static bool count_records(void *context, const struct record *record) {
    (void)record;
    (*(size_t *)context)++;
    return true;
}

static void a_view_is_read_as_a_store(void **state) {
    struct key_store *store = key_store_create();
    put(store, "a", "1");
    put(store, "b", "1");
    struct key_view *view = key_view_open(store);
    const struct key_store *seen = key_view_store(view);
    put(store, "a", "2");
    put(store, "c", "1");
    const struct record *found = key_store_find(seen, KEY_SPACE_ETCD, bytes_from_text("a"));
    assert_true(bytes_equal(record_value(found), bytes_from_text("1")));
    assert_null(key_store_find(seen, KEY_SPACE_ETCD, bytes_from_text("c")));
    assert_int_equal(key_store_revision(seen), 3);
    struct bytes from = bytes_from_text("a");
    struct bytes end = bytes_from_text("z");
    size_t n = 0;
    assert_int_equal(key_store_count(seen, KEY_SPACE_ETCD, from, end), 2);
    assert_int_equal(key_store_visit(seen, KEY_SPACE_ETCD, from, end, count_records, &n), 2);
    assert_int_equal(n, 2);
    assert_int_equal(key_store_count(store, KEY_SPACE_ETCD, from, end), 3);
    key_view_close(view);
    key_store_destroy(store);
}

static bool refuse(void *context, const struct record *record) {
    (void)record;
    (*(int *)context)++;
    return false;
}

static void a_visit_stops_when_told(void **state) {
    struct key_store *store = key_store_create();
    put(store, "a", "1");
    put(store, "b", "1");
    struct key_view *view = key_view_open(store);
    int visits = 0;
    assert_false(key_view_visit(view, refuse, &visits));
    assert_int_equal(visits, 1);
    key_view_close(view);
    key_store_destroy(store);
}

static void restoring_refuses_what_cannot_be(void **state) {
    struct bytes a = bytes_from_text("a");
    struct bytes b = bytes_from_text("b");
    struct bytes none = bytes_of(NULL, 0);
    const struct record live = {.create_revision = 3, .mod_revision = 5, .version = 2};
    const struct record next = {.create_revision = 3, .mod_revision = 6, .version = 3};
    const struct record leap = {.create_revision = 3, .mod_revision = 6, .version = 4};
    const struct record gone = {.mod_revision = 6};
    const struct record early = {.create_revision = 3, .mod_revision = 2, .version = 1};
    const struct record unborn = {.create_revision = 3, .mod_revision = 4, .version = 1};
    struct key_store *store = key_store_create();
    assert_int_equal(key_store_restore(store, &live, KEY_SPACE_ETCD, none, none, NULL),
                     STATUS_CORRUPT);
    assert_int_equal(key_store_restore(store, &early, KEY_SPACE_ETCD, b, none, NULL),
                     STATUS_CORRUPT);
    assert_int_equal(key_store_restore(store, &unborn, KEY_SPACE_ETCD, b, none, NULL),
                     STATUS_CORRUPT);
    assert_int_equal(key_store_restore(store, &gone, KEY_SPACE_ETCD, b, b, NULL), STATUS_CORRUPT);
    assert_int_equal(key_store_restore(store, &live, KEY_SPACE_ETCD, b, none, NULL), STATUS_OK);
    assert_int_equal(key_store_restore(store, &live, KEY_SPACE_ETCD, a, none, NULL),
                     STATUS_CORRUPT);
    assert_int_equal(key_store_restore(store, &live, KEY_SPACE_ETCD, b, none, NULL),
                     STATUS_CORRUPT);
    assert_int_equal(key_store_restore(store, &leap, KEY_SPACE_ETCD, b, none, NULL),
                     STATUS_CORRUPT);
    assert_int_equal(key_store_restore(store, &next, KEY_SPACE_ETCD, b, none, NULL), STATUS_OK);
    assert_int_equal(key_store_restore_end(store, 5, 0), STATUS_CORRUPT);
    assert_int_equal(key_store_restore_end(store, 6, 7), STATUS_CORRUPT);
    /* Compacted at 6, the version of revision 5 would not be there. */
    assert_int_equal(key_store_restore_end(store, 6, 6), STATUS_CORRUPT);
    assert_int_equal(key_store_restore_end(store, 6, 5), STATUS_OK);
    key_store_validate(store);
    assert_string_equal(at(store, 0), "b= /1");
    key_store_destroy(store);

    /* Two changes cannot have one place in time. */
    store = key_store_create();
    assert_int_equal(key_store_restore(store, &live, KEY_SPACE_ETCD, a, none, NULL), STATUS_OK);
    assert_int_equal(key_store_restore(store, &live, KEY_SPACE_ETCD, b, none, NULL), STATUS_OK);
    assert_int_equal(key_store_restore_end(store, 6, 0), STATUS_CORRUPT);
    key_store_destroy(store);
}

static void statistics_follow_the_live_keys(void **state) {
    struct key_store *store = key_store_create();
    struct key_store_stats stats;
    put(store, "a", "1");
    put(store, "b", "a longer value than before");
    put(store, "b", "1");
    delete_key(store, "a");
    key_store_stats(store, &stats);
    assert_int_equal(stats.keys, 1);
    assert_int_equal(stats.records, 4);
    assert_int_equal(stats.bytes_live, 80);
    assert_true(stats.bytes > stats.bytes_live);
    key_store_destroy(store);
}

/* --- A view is read by another thread while the store goes on. --- */

struct reading {
    const struct key_view *view;
    size_t records;
    uint64_t sum;
    atomic_bool is_done;
};

static bool add_up(void *context, const struct record *record) {
    struct reading *reading = context;
    reading->records++;
    for (size_t i = 0; i < record->key_size + (size_t)record->value_size; i++) {
        reading->sum = reading->sum * 31 + record->bytes[i];
    }
    reading->sum += (uint64_t)record->mod_revision;
    return true;
}

static void *read_view(void *context) {
    struct reading *reading = context;
    key_view_visit(reading->view, add_up, reading);
    atomic_store(&reading->is_done, true);
    return NULL;
}

static void write_something(struct key_store *store, unsigned i) {
    char key[32];
    snprintf(key, sizeof key, "/keys/%u", i * 7919 % 10000);
    struct record *live = key_store_find(store, KEY_SPACE_ETCD, bytes_from_text(key));
    key_store_begin(store);
    if (live != NULL && i % 3 == 0) {
        key_store_delete(store, live);
    } else {
        struct record *record = key_store_put(store, KEY_SPACE_ETCD, bytes_from_text(key),
                                              bytes_from_text("value"), 0, NULL);
        record->lease_next = live; /* as the lease table would, under the reader's eyes */
        if (live != NULL) {
            live->lease_before = record;
        }
    }
    key_store_end(store);
}

static void a_view_is_read_by_a_thread_while_writes_go_on(void **state) {
    struct key_store *store = key_store_create();
    unsigned i = 0;
    for (int round = 0; round < 5; round++) {
        for (unsigned n = 0; n < 20000; n++, i++) {
            write_something(store, i);
        }
        struct reading before = {.view = key_view_open(store)};
        struct reading during = {.view = before.view};
        struct key_view *view = (struct key_view *)(uintptr_t)before.view;
        key_view_visit(view, add_up, &before);
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, read_view, &during), 0);
        do {
            write_something(store, i++);
            key_store_compact(store, key_store_revision(store) - 1000);
            key_store_reclaim(store, 10);
            /* Views that come and go meanwhile must not free what this one sees. */
            if (i % 512 == 0) {
                key_view_close(key_view_open(store));
            }
        } while (!atomic_load(&during.is_done));
        pthread_join(thread, NULL);
        assert_int_equal(before.records, during.records);
        assert_int_equal(before.sum, during.sum);
        key_view_close(view);
        while (key_store_reclaim(store, 1000)) {
        }
        key_store_validate(store);
    }
    key_store_destroy(store);
}

static int clear_arena(void **state) {
    arena_clear(&arena);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_change_makes_revision_two),
        cmocka_unit_test(a_revision_without_change_is_none),
        cmocka_unit_test(a_key_counts_its_versions_until_it_is_deleted),
        cmocka_unit_test(old_revisions_are_read_as_they_were),
        cmocka_unit_test(several_changes_of_a_key_in_one_revision_are_several_records),
        cmocka_unit_test(ranges_answer_as_etcd_does),
        cmocka_unit_test(range_ends_mean_what_etcd_means),
        cmocka_unit_test(sorting_ties_keep_key_order),
        cmocka_unit_test(compaction_refuses_at_once_and_frees_later),
        cmocka_unit_test(what_was_written_at_the_compacted_revision_is_still_told),
        cmocka_unit_test(positions_of_history_never_restart),
        cmocka_unit_test(nothing_is_reclaimed_while_a_view_is_open),
        cmocka_unit_test(a_visit_stops_when_told),
        cmocka_unit_test(restoring_refuses_what_cannot_be),
        cmocka_unit_test(statistics_follow_the_live_keys),
        cmocka_unit_test(a_view_is_read_as_a_store),
        cmocka_unit_test(a_view_is_read_by_a_thread_while_writes_go_on),
    };
    return cmocka_run_group_tests(tests, NULL, clear_arena);
}
