#include "cli/histogram.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static struct histogram histogram;

static int empty(void **state) {
    histogram = (struct histogram){0};
    return 0;
}

static void an_empty_one_gives_zero(void **state) {
    assert_int_equal(histogram_quantile(&histogram, 500000), 0);
    assert_int_equal(histogram_quantile(&histogram, 1000000), 0);
}

static void one_number_is_every_percentile(void **state) {
    histogram_add(&histogram, 123456789);
    assert_int_equal(histogram_quantile(&histogram, 0), 123456789);
    assert_int_equal(histogram_quantile(&histogram, 500000), 123456789);
    assert_int_equal(histogram_quantile(&histogram, 1000000), 123456789);
    assert_int_equal(histogram.min, 123456789);
}

static void quantiles_are_within_one_percent(void **state) {
    for (uint64_t i = 1; i <= 100000; i++) {
        histogram_add(&histogram, i * 10);
    }
    for (unsigned per_mille = 1; per_mille <= 1000; per_mille++) {
        uint64_t exact = (uint64_t)per_mille * 1000;
        uint64_t found = histogram_quantile(&histogram, per_mille * 1000);
        assert_true(found >= exact);
        assert_true(found - exact <= exact / 128);
    }
}

static void the_largest_numbers_have_a_bucket(void **state) {
    histogram_add(&histogram, 0);
    histogram_add(&histogram, UINT64_MAX);
    assert_int_equal(histogram_quantile(&histogram, 500000), 0);
    assert_true(histogram_quantile(&histogram, 1000000) == UINT64_MAX);
}

static void sums_are_as_if_added_one_by_one(void **state) {
    struct histogram *other = calloc(1, sizeof *other);
    assert_non_null(other);
    histogram_add(&histogram, 50);
    histogram_add(other, 10);
    histogram_add(other, 90);
    histogram_add_all(&histogram, other);
    assert_int_equal(histogram.count, 3);
    assert_int_equal(histogram.min, 10);
    assert_int_equal(histogram.max, 90);
    assert_int_equal(histogram_quantile(&histogram, 500000), 50);
    free(other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_empty_one_gives_zero, empty),
        cmocka_unit_test_setup(one_number_is_every_percentile, empty),
        cmocka_unit_test_setup(quantiles_are_within_one_percent, empty),
        cmocka_unit_test_setup(the_largest_numbers_have_a_bucket, empty),
        cmocka_unit_test_setup(sums_are_as_if_added_one_by_one, empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
