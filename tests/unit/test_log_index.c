#include "raft/log_index.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void append(struct log_index *index, size_t n, uint64_t term, uint32_t generation) {
    for (size_t i = 0; i < n; i++) {
        struct log_place place = {
            .term = term, .generation = generation, .offset = (uint32_t)(8 * i)};
        log_index_append(index, &place);
    }
}

static void a_place_is_small(void **state) {
    assert_true(sizeof(struct log_place) <= 32);
}

static void entries_follow_base(void **state) {
    struct log_index index;
    log_index_init(&index, 10, 2);
    assert_int_equal(log_index_last(&index), 10);
    assert_int_equal(log_index_term(&index, 10), 2);
    append(&index, 5000, 3, 1);
    assert_int_equal(log_index_last(&index), 5010);
    assert_int_equal(log_index_term(&index, 11), 3);
    assert_int_equal(log_index_at(&index, 5010)->offset, 8 * 4999);
    log_index_truncate(&index, 20);
    assert_int_equal(log_index_last(&index), 20);
    append(&index, 1, 4, 2);
    assert_int_equal(log_index_term(&index, 21), 4);
    log_index_truncate(&index, 10);
    assert_int_equal(log_index_last(&index), 10);
    log_index_reset(&index, 100, 9);
    assert_int_equal(log_index_last(&index), 100);
    assert_int_equal(log_index_term(&index, 100), 9);
    log_index_clear(&index);
}

static void segments_are_forgotten_and_memory_given_back(void **state) {
    struct log_index index;
    log_index_init(&index, 0, 0);
    for (uint32_t generation = 1; generation <= 100; generation++) {
        append(&index, 1000, generation, generation);
    }
    size_t capacity = index.capacity;
    log_index_forget_before(&index, 1);
    assert_int_equal(index.base, 0);
    for (uint32_t generation = 2; generation <= 100; generation++) {
        log_index_forget_before(&index, generation);
        assert_int_equal(index.base, 1000 * (generation - 1));
        assert_int_equal(index.base_term, generation - 1);
        assert_int_equal(log_index_at(&index, index.base + 1)->generation, generation);
        assert_int_equal(log_index_last(&index), 100000);
    }
    assert_true(index.capacity <= capacity / 8);
    log_index_forget_before(&index, 101);
    assert_int_equal(index.base, 100000);
    assert_int_equal(index.n, 0);
    append(&index, 3000, 101, 101);
    assert_int_equal(log_index_at(&index, 103000)->offset, 8 * 2999);
    log_index_clear(&index);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_place_is_small),
        cmocka_unit_test(entries_follow_base),
        cmocka_unit_test(segments_are_forgotten_and_memory_given_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
