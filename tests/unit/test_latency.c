#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above before itself. */
#include <cmocka.h>

#include "base/latency.h"
#include "base/prometheus.h"

#include <string.h>

static void buckets_end_at_their_bounds(void **state) {
    (void)state;
    assert_int_equal(latency_bucket_of(0), 0);
    for (size_t i = 0; i < LATENCY_BOUNDS; i++) {
        assert_int_equal(latency_bucket_of(latency_bound_us(i)), i);
        assert_int_equal(latency_bucket_of(latency_bound_us(i) + 1), i + 1);
    }
    assert_int_equal(latency_bucket_of(UINT64_MAX), LATENCY_BOUNDS);
}

static void what_is_added_is_counted_and_summed(void **state) {
    (void)state;
    struct latency latency = {0};
    struct latency copy;
    latency_add(&latency, 10);
    latency_add(&latency, 1000);
    latency_add(&latency, 1000);
    latency_copy(&latency, &copy);
    assert_int_equal(latency_count(&copy), 3);
    assert_int_equal(copy.sum_us, 2010);
    assert_int_equal(copy.buckets[0], 1);
    assert_int_equal(copy.buckets[latency_bucket_of(1000)], 2);
}

static void it_is_written_as_a_histogram_in_seconds(void **state) {
    (void)state;
    struct latency latency = {0};
    struct buffer buffer;
    buffer_init(&buffer);
    latency_add(&latency, 64);
    latency_add(&latency, UINT64_C(20000000));
    const struct prometheus_label label = {.name = "member", .value = "a1"};
    prometheus_latency(&buffer, "trip", &label, 1, &latency);
    buffer_put_u8(&buffer, 0);
    const char *text = (const char *)buffer.data;
    assert_non_null(strstr(text, "trip_bucket{member=\"a1\",le=\"6.4e-05\"} 1\n"));
    assert_non_null(strstr(text, "trip_bucket{member=\"a1\",le=\"16.777216\"} 1\n"));
    assert_non_null(strstr(text, "trip_bucket{member=\"a1\",le=\"+Inf\"} 2\n"));
    assert_non_null(strstr(text, "trip_sum{member=\"a1\"} 20.000064\n"));
    assert_non_null(strstr(text, "trip_count{member=\"a1\"} 2\n"));
    buffer_clear(&buffer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_end_at_their_bounds),
        cmocka_unit_test(what_is_added_is_counted_and_summed),
        cmocka_unit_test(it_is_written_as_a_histogram_in_seconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
