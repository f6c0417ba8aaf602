#include "bench/histogram.h"

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

static void every_number_is_within_one_percent_of_its_bucket(void **state) {
    /* Around each power of two, where the width of the buckets changes. */
    for (unsigned shift = 0; shift < 63; shift++) {
        for (int64_t offset = -3; offset <= 3; offset++) {
            uint64_t number = (UINT64_C(1) << shift) + (uint64_t)offset;
            if (number > INT64_MAX) {
                continue; /* below zero */
            }
            histogram = (struct histogram){0};
            histogram_add(&histogram, number);
            histogram_add(&histogram, UINT64_MAX); /* so that the largest does not cap it */
            uint64_t found = histogram_quantile(&histogram, 500000);
            assert_true(found >= number);
            assert_true((double)(found - number) <= 0.01 * (double)number);
        }
    }
}

static void far_quantiles_are_told_apart(void **state) {
    for (uint64_t i = 1; i <= 1000000; i++) {
        histogram_add(&histogram, i <= 999000 ? 1 : i <= 999990 ? 1000 : 100000);
    }
    assert_int_equal(histogram_quantile(&histogram, 999000), 1);
    assert_in_range(histogram_quantile(&histogram, 999001), 1000, 1008);
    assert_in_range(histogram_quantile(&histogram, 999990), 1000, 1008);
    assert_int_equal(histogram_quantile(&histogram, 999991), 100000);
}

static void the_mean_is_exact(void **state) {
    assert_true(histogram_mean(&histogram) == 0.0);
    histogram_add(&histogram, 1000001);
    histogram_add(&histogram, 2000003);
    assert_true(histogram_mean(&histogram) == 1500002.0);
}

static void the_largest_numbers_have_a_bucket(void **state) {
    histogram_add(&histogram, 0);
    histogram_add(&histogram, UINT64_MAX);
    assert_int_equal(histogram_quantile(&histogram, 500000), 0);
    assert_true(histogram_quantile(&histogram, 1000000) == UINT64_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_empty_one_gives_zero, empty),
        cmocka_unit_test_setup(one_number_is_every_percentile, empty),
        cmocka_unit_test_setup(quantiles_are_within_one_percent, empty),
        cmocka_unit_test_setup(every_number_is_within_one_percent_of_its_bucket, empty),
        cmocka_unit_test_setup(far_quantiles_are_told_apart, empty),
        cmocka_unit_test_setup(the_mean_is_exact, empty),
        cmocka_unit_test_setup(the_largest_numbers_have_a_bucket, empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
