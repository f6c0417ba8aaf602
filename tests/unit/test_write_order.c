#include "raft/write_order.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static struct write_order order;

static int setup(void **state) {
    write_order_init(&order, 0);
    return 0;
}

static int teardown(void **state) {
    write_order_clear(&order);
    return 0;
}

static void writes_are_reported_in_order(void **state) {
    write_order_begin(&order, 1, 3);
    write_order_begin(&order, 4, 4);
    assert_true(write_order_end(&order));
    assert_int_equal(order.stored, 3);
    assert_true(write_order_end(&order));
    assert_int_equal(order.stored, 4);
    assert_false(write_order_end(&order));
}

static void a_truncated_part_is_not_reported(void **state) {
    write_order_begin(&order, 1, 5);
    write_order_begin(&order, 6, 8);
    write_order_truncate(&order, 4);
    write_order_begin(&order, 4, 6);
    assert_true(write_order_end(&order));
    assert_int_equal(order.stored, 3);
    assert_false(write_order_end(&order)); /* 6 to 8 are gone */
    assert_true(write_order_end(&order));
    assert_int_equal(order.stored, 6);
}

/* Entry 4 is the same again after a truncation; the write before the truncation does not count,
 * since what lies between would take it away again. */
static void a_rewritten_entry_counts_when_its_own_write_ends(void **state) {
    write_order_begin(&order, 1, 4);
    write_order_truncate(&order, 4);
    write_order_begin(&order, 4, 4);
    write_order_truncate(&order, 4);
    write_order_begin(&order, 4, 4);
    assert_true(write_order_end(&order));
    assert_int_equal(order.stored, 3);
    assert_false(write_order_end(&order));
    assert_true(write_order_end(&order));
    assert_int_equal(order.stored, 4);
}

static void what_was_reported_is_taken_back_by_truncation(void **state) {
    write_order_begin(&order, 1, 9);
    assert_true(write_order_end(&order));
    write_order_truncate(&order, 5);
    assert_int_equal(order.stored, 4);
    write_order_begin(&order, 5, 5);
    assert_true(write_order_end(&order));
    assert_int_equal(order.stored, 5);
}

static void nothing_from_before_an_install_is_reported(void **state) {
    write_order_begin(&order, 1, 9);
    write_order_begin(&order, 10, 19);
    write_order_void(&order);
    assert_false(write_order_end(&order));
    order.stored = 40; /* the snapshot is installed */
    write_order_begin(&order, 41, 42);
    assert_false(write_order_end(&order));
    assert_true(write_order_end(&order));
    assert_int_equal(order.stored, 42);
}

static void many_writes_are_remembered(void **state) {
    for (uint64_t i = 1; i <= 1000; i++) {
        write_order_begin(&order, i, i);
        if (i > 100) {
            assert_true(write_order_end(&order));
            assert_int_equal(order.stored, i - 100);
        }
    }
    assert_true(order.capacity <= 512);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(writes_are_reported_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(a_truncated_part_is_not_reported, setup, teardown),
        cmocka_unit_test_setup_teardown(a_rewritten_entry_counts_when_its_own_write_ends, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(what_was_reported_is_taken_back_by_truncation, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(nothing_from_before_an_install_is_reported, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(many_writes_are_remembered, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
