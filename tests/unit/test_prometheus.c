#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above before itself. */
#include <cmocka.h>

#include "base/prometheus.h"

static struct buffer buffer;

static int set_up(void **state) {
    buffer_init(&buffer);
    return 0;
}

static int tear_down(void **state) {
    buffer_clear(&buffer);
    return 0;
}

static void assert_text(const char *expected) {
    buffer_put_u8(&buffer, '\0');
    assert_string_equal((const char *)buffer.data, expected);
}

static void a_family_opens_with_help_and_type(void **state) {
    prometheus_gauge(&buffer, "leases", "Leases there are.", 3);
    prometheus_counter(&buffer, "renewals_total", "Renewals.", UINT64_MAX);
    assert_text("# HELP leases Leases there are.\n"
                "# TYPE leases gauge\n"
                "leases 3\n"
                "# HELP renewals_total Renewals.\n"
                "# TYPE renewals_total counter\n"
                "renewals_total 18446744073709551615\n");
}

static void help_escapes_backslash_and_line_end(void **state) {
    prometheus_family(&buffer, "a", PROMETHEUS_GAUGE, "one \\ two\nthree \"four\"");
    assert_text("# HELP a one \\\\ two\\nthree \"four\"\n# TYPE a gauge\n");
}

static void label_values_escape_quotes_too(void **state) {
    const struct prometheus_label labels[] = {
        {.name = "name", .value = "a\"b\\c\nd"},
        {.name = "id", .value = ""},
    };
    prometheus_sample(&buffer, "info", "", labels, 2, 1);
    assert_text("info{name=\"a\\\"b\\\\c\\nd\",id=\"\"} 1\n");
}

static void numbers_are_written_without_loss(void **state) {
    prometheus_sample(&buffer, "a", "", NULL, 0, 0.25);
    prometheus_sample(&buffer, "a", "", NULL, 0, 1765000000.5);
    prometheus_sample_u64(&buffer, "a", "_sum", NULL, 0, UINT64_C(9007199254740993));
    assert_text("a 0.25\na 1765000000.5\na_sum 9007199254740993\n");
}

static void histogram_buckets_add_up_in_seconds(void **state) {
    static const uint32_t bounds_ms[] = {1, 10, 2500};
    static const uint64_t counts[] = {5, 0, 2, 1};
    prometheus_histogram_ms(&buffer, "late", "How late.", bounds_ms, 3, counts, 12345);
    assert_text("# HELP late How late.\n"
                "# TYPE late histogram\n"
                "late_bucket{le=\"0.001\"} 5\n"
                "late_bucket{le=\"0.01\"} 5\n"
                "late_bucket{le=\"2.5\"} 7\n"
                "late_bucket{le=\"+Inf\"} 8\n"
                "late_sum 12.345\n"
                "late_count 8\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_family_opens_with_help_and_type, set_up, tear_down),
        cmocka_unit_test_setup_teardown(help_escapes_backslash_and_line_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(label_values_escape_quotes_too, set_up, tear_down),
        cmocka_unit_test_setup_teardown(numbers_are_written_without_loss, set_up, tear_down),
        cmocka_unit_test_setup_teardown(histogram_buckets_add_up_in_seconds, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
