#include "raft/log_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void append(struct log_cache *cache, uint64_t index, size_t size) {
    struct log_item *item = log_item_create(LOG_COMMAND, index, 1, calloc(1, size + 1), size);
    log_cache_append(cache, item);
    log_item_release(item);
}

static void items_are_found_by_index(void **state) {
    struct log_cache cache;
    log_cache_init(&cache, 5);
    assert_int_equal(log_cache_last(&cache), 4);
    for (uint64_t i = 5; i < 500; i++) {
        append(&cache, i, 0);
    }
    assert_null(log_cache_get(&cache, 4));
    assert_null(log_cache_get(&cache, 500));
    assert_null(log_cache_get(&cache, 0));
    for (uint64_t i = 5; i < 500; i++) {
        assert_int_equal(log_cache_get(&cache, i)->index, i);
    }
    assert_int_equal(log_cache_last(&cache), 499);
    log_cache_clear(&cache);
    assert_int_equal(cache.bytes, 0);
}

static void a_truncated_log_goes_on_where_it_was_cut(void **state) {
    struct log_cache cache;
    log_cache_init(&cache, 1);
    for (uint64_t i = 1; i <= 10; i++) {
        append(&cache, i, 8);
    }
    log_cache_truncate(&cache, 4);
    assert_int_equal(log_cache_last(&cache), 3);
    assert_null(log_cache_get(&cache, 4));
    append(&cache, 4, 8);
    assert_int_equal(log_cache_last(&cache), 4);
    log_cache_truncate(&cache, 1);
    assert_int_equal(log_cache_last(&cache), 0);
    assert_int_equal(cache.bytes, 0);
    append(&cache, 1, 0);
    log_cache_clear(&cache);
}

static void dropped_items_leave_the_rest_in_place(void **state) {
    struct log_cache cache;
    log_cache_init(&cache, 1);
    /* Round the ring, many times. */
    for (uint64_t i = 1; i <= 1000; i++) {
        append(&cache, i, 8);
        log_cache_drop(&cache, i > 10 ? i - 10 : 0);
    }
    assert_int_equal(cache.capacity, 64);
    assert_null(log_cache_get(&cache, 990));
    assert_int_equal(log_cache_get(&cache, 991)->index, 991);
    log_cache_drop(&cache, 5000);
    assert_int_equal(cache.n, 0);
    assert_int_equal(log_cache_last(&cache), 1000);
    append(&cache, 1001, 0);
    log_cache_clear(&cache);
}

static void bytes_beyond_the_bound_leave_but_not_what_is_needed(void **state) {
    struct log_cache cache;
    log_cache_init(&cache, 1);
    size_t each = sizeof(struct log_item) + 100;
    for (uint64_t i = 1; i <= 10; i++) {
        append(&cache, i, 100);
    }
    assert_int_equal(cache.bytes, 10 * each);
    log_cache_shrink(&cache, 10 * each, 10);
    assert_int_equal(cache.n, 10);
    log_cache_shrink(&cache, 4 * each, 3);
    assert_int_equal(cache.first, 4); /* 4 is not applied or not written */
    log_cache_shrink(&cache, 4 * each, 10);
    assert_int_equal(cache.n, 4);
    assert_int_equal(cache.first, 7);
    log_cache_shrink(&cache, 0, 10);
    assert_int_equal(cache.n, 0);
    assert_int_equal(log_cache_last(&cache), 10);
    log_cache_clear(&cache);
}

static void a_reset_log_begins_behind_a_snapshot(void **state) {
    struct log_cache cache;
    log_cache_init(&cache, 1);
    append(&cache, 1, 8);
    log_cache_reset(&cache, 41);
    assert_int_equal(log_cache_last(&cache), 40);
    append(&cache, 41, 8);
    assert_int_equal(log_cache_get(&cache, 41)->index, 41);
    log_cache_clear(&cache);
}

static void an_item_outlives_the_log_while_it_is_referenced(void **state) {
    struct log_cache cache;
    log_cache_init(&cache, 1);
    struct log_item *item = log_item_create(LOG_COMMAND, 1, 1, NULL, 0);
    log_cache_append(&cache, item);
    assert_int_equal(item->n_references, 2);
    log_cache_clear(&cache);
    assert_int_equal(item->n_references, 1);
    log_item_release(item);
    log_item_release(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_are_found_by_index),
        cmocka_unit_test(a_truncated_log_goes_on_where_it_was_cut),
        cmocka_unit_test(dropped_items_leave_the_rest_in_place),
        cmocka_unit_test(bytes_beyond_the_bound_leave_but_not_what_is_needed),
        cmocka_unit_test(a_reset_log_begins_behind_a_snapshot),
        cmocka_unit_test(an_item_outlives_the_log_while_it_is_referenced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
