#include "bench/process_usage.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

static void a_process_knows_its_own_memory_and_time(void **state) {
    struct process_usage usage = {0};
    volatile uint64_t sum = 0;
    double before = process_usage_own_cpu_seconds();
    while (process_usage_own_cpu_seconds() < before + 0.05) {
        sum = sum + 1;
    }
    assert_true(process_usage_read(getpid(), &usage));
    assert_true(usage.rss_bytes > 100 * 1000);
    assert_true(usage.cpu_seconds >= 0.03);
}

static void a_process_that_is_not_there_gives_nothing(void **state) {
    struct process_usage usage = {.rss_bytes = 7};
    assert_false(process_usage_read(INT32_MAX, &usage));
    assert_int_equal(usage.rss_bytes, 7);
}

static void pids_come_with_commas(void **state) {
    pid_t pids[PROCESS_USAGE_PIDS_MAX];
    size_t n_pids = 0;
    assert_true(process_usage_parse_pids("12,345,6", pids, &n_pids));
    assert_int_equal(n_pids, 3);
    assert_int_equal(pids[0], 12);
    assert_int_equal(pids[1], 345);
    assert_int_equal(pids[2], 6);
}

static void what_is_no_pid_is_refused(void **state) {
    static const char *const wrong[] = {
        "",
        "x",
        "1,",
        ",1",
        "1,,2",
        "0",
        "-5",
        "1 2",
        "99999999999999999999",
        "4294967296",
        "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17",
    };
    pid_t pids[PROCESS_USAGE_PIDS_MAX];
    size_t n_pids = 77;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(process_usage_parse_pids(wrong[i], pids, &n_pids));
        assert_int_equal(n_pids, 77);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_process_knows_its_own_memory_and_time),
        cmocka_unit_test(a_process_that_is_not_there_gives_nothing),
        cmocka_unit_test(pids_come_with_commas),
        cmocka_unit_test(what_is_no_pid_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
