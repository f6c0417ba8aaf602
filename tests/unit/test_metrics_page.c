#include "cli/metrics_page.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const char page[] = "HTTP/1.1 200 OK\r\n\r\n"
                           "# HELP leased_leases Leases.\n"
                           "leased_leases_max 9\n"
                           "leased_leases 42\n"
                           "late_bucket{le=\"0.001\"} 50\n"
                           "late_bucket{le=\"0.01\"} 99\n"
                           "late_bucket{le=\"+Inf\"} 100\n"
                           "late_count 100\n"
                           "none_bucket{le=\"1\"} 0\n"
                           "none_count 0\n";

static void a_value_is_found_by_its_whole_name(void **state) {
    assert_true(metrics_page_value(page, "leased_leases", -1) == 42);
    assert_true(metrics_page_value(page, "leased", -1) == -1);
    assert_true(metrics_page_value(page, "leases", -1) == -1);
    assert_true(metrics_page_value("", "leases", 7) == 7);
}

static void a_quantile_is_the_bound_that_holds_it(void **state) {
    assert_true(metrics_page_quantile(page, "late", 0.5) == 0.001);
    assert_true(metrics_page_quantile(page, "late", 0.99) == 0.01);
    assert_true(metrics_page_quantile(page, "none", 0.5) == -1);
    assert_true(metrics_page_quantile(page, "absent", 0.5) == -1);
    assert_true(metrics_page_quantile("x\ncut_bucket{le=\"1\"\ncut_count 3\n", "cut", 0.5) == 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_is_found_by_its_whole_name),
        cmocka_unit_test(a_quantile_is_the_bound_that_holds_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
