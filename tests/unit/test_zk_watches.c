#include "doors/zookeeper/zk_watches.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

enum { PATH_SIZE = 60000, WATCHERS = 8 };

static struct bytes long_path(uint8_t memory[PATH_SIZE], unsigned number) {
    memset(memory, 'w', PATH_SIZE);
    char begin[16];
    int size = snprintf(begin, sizeof begin, "/%08u", number);
    memcpy(memory, begin, (size_t)size);
    return bytes_of(memory, PATH_SIZE);
}

static size_t fill(struct zk_watches *table, struct zk_watcher *watcher, unsigned first) {
    uint8_t memory[PATH_SIZE];
    size_t n = 0;
    while (zk_watches_add(table, watcher, long_path(memory, first + (unsigned)n), ZK_WATCH_DATA)) {
        n++;
    }
    return n;
}

static void bytes_are_bounded_for_each_watcher_and_for_all(void **state) {
    struct zk_watches table;
    struct zk_watcher watchers[WATCHERS];
    uint8_t memory[PATH_SIZE];
    zk_watches_init(&table);
    for (unsigned i = 0; i < WATCHERS; i++) {
        zk_watcher_init(&watchers[i]);
    }
    size_t n = fill(&table, &watchers[0], 0);
    assert_in_range(n, 1000, ZK_WATCH_BYTES_OF_CONNECTION_MAX / PATH_SIZE);
    /* What it watches already may get other kinds. */
    assert_true(zk_watches_add(&table, &watchers[0], long_path(memory, 0), ZK_WATCH_CHILD));
    /* The paths of another cost no more than the watches. */
    size_t before = table.bytes;
    assert_int_equal(fill(&table, &watchers[1], 0), n);
    assert_int_equal(table.bytes - before, n * ZK_WATCH_BYTES);
    for (unsigned i = 2; i < WATCHERS; i++) {
        (void)fill(&table, &watchers[i], i * 100000);
    }
    assert_in_range(table.bytes, ZK_WATCH_BYTES_MAX / 2, ZK_WATCH_BYTES_MAX);
    for (unsigned i = 2; i < WATCHERS; i++) {
        zk_watcher_clear(&table, &watchers[i]);
    }
    zk_watches_remove(&table, &watchers[0], long_path(memory, 0), ZK_WATCH_ALL);
    zk_watches_remove(&table, &watchers[1], long_path(memory, 0), ZK_WATCH_ALL);
    assert_true(zk_watches_add(&table, &watchers[0], long_path(memory, 7777777), ZK_WATCH_DATA));
    for (unsigned i = 0; i < WATCHERS; i++) {
        zk_watcher_clear(&table, &watchers[i]);
        assert_int_equal(watchers[i].bytes, 0);
    }
    assert_int_equal(table.bytes, 0);
    zk_watches_clear(&table);
}

static void watchers_that_take_all_leave_room_for_others(void **state) {
    enum { GREEDY = 20, SMALL = 100 };
    static struct zk_watcher watchers[GREEDY + SMALL];
    struct zk_watches table;
    char path[32];
    size_t before = SIZE_MAX;
    zk_watches_init(&table);
    for (unsigned i = 0; i < GREEDY + SMALL; i++) {
        zk_watcher_init(&watchers[i]);
    }
    for (unsigned i = 0; i < GREEDY; i++) {
        size_t n = fill(&table, &watchers[i], i * 100000);
        assert_true(n > 0 && n <= before);
        before = n;
    }
    for (unsigned i = GREEDY; i < GREEDY + SMALL; i++) {
        for (unsigned n = 0; n < 200; n++) {
            (void)snprintf(path, sizeof path, "/%u/%u", i, n);
            assert_true(zk_watches_add(&table, &watchers[i], bytes_from_text(path), ZK_WATCH_DATA));
        }
    }
    assert_in_range(table.bytes, 0, ZK_WATCH_BYTES_MAX);
    for (unsigned i = 0; i < GREEDY + SMALL; i++) {
        zk_watcher_clear(&table, &watchers[i]);
    }
    assert_int_equal(table.bytes, 0);
    zk_watches_clear(&table);
}

struct told {
    struct zk_watcher *watchers;
    unsigned counts[WATCHERS];
};

static void count(void *context, struct zk_watcher *watcher, struct bytes path,
                  enum zk_event_type type) {
    struct told *told = context;
    told->counts[watcher - told->watchers]++;
}

static struct bytes text(const char *path) {
    return bytes_from_text(path);
}

static void recursive_watches_are_told_of_what_is_below_them(void **state) {
    struct zk_watches table;
    struct zk_watcher watchers[WATCHERS];
    struct told told = {.watchers = watchers};
    static const char *const paths[WATCHERS] = {"/",  "/ab",     "/ab/cd", "/ab/cd/efghijklm",
                                                "/a", "/ab/cde", "/ab/c",  "/ab/cd/efghijklm/n"};
    zk_watches_init(&table);
    for (unsigned i = 0; i < WATCHERS; i++) {
        zk_watcher_init(&watchers[i]);
        assert_true(zk_watches_add(&table, &watchers[i], text(paths[i]), ZK_WATCH_RECURSIVE));
    }
    /* Once, however many watches of it are above. */
    assert_true(zk_watches_add(&table, &watchers[0], text("/ab"), ZK_WATCH_RECURSIVE));
    assert_true(zk_watches_add(&table, &watchers[1], text("/ab/cd/efghijklm"), ZK_WATCH_DATA));
    /* Not recursive. */
    assert_true(zk_watches_add(&table, &watchers[4], text("/ab"), ZK_WATCH_PERSISTENT));
    zk_watches_fire(&table, text("/ab/cd/efghijklm"), ZK_EVENT_DATA_CHANGED, count, &told);
    const unsigned expected[WATCHERS] = {1, 1, 1, 1, 0, 0, 0, 0};
    assert_memory_equal(told.counts, expected, sizeof expected);
    assert_int_equal(table.n_watchers, WATCHERS);
    for (unsigned i = 0; i < WATCHERS; i++) {
        zk_watcher_clear(&table, &watchers[i]);
    }
    assert_int_equal(table.n_watchers, 0);
    assert_int_equal(table.n_recursive, 0);
    zk_watches_clear(&table);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recursive_watches_are_told_of_what_is_below_them),
        cmocka_unit_test(bytes_are_bounded_for_each_watcher_and_for_all),
        cmocka_unit_test(watchers_that_take_all_leave_room_for_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
