#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above before itself. */
#include <cmocka.h>

#include "server/descriptors.h"

#include <string.h>

static size_t plan(uint64_t limit, size_t wanted, bool has_metrics_listener) {
    size_t connections_max = 0;
    char error[512] = "";
    enum status status = descriptors_plan(limit, wanted, has_metrics_listener, &connections_max,
                                          error, sizeof error);
    assert_int_equal(status, STATUS_OK);
    assert_string_equal(error, "");
    return connections_max;
}

static void clients_get_what_the_reserve_leaves(void **state) {
    (void)state;
    assert_int_equal(plan(DESCRIPTORS_RESERVE + 100, 65536, false), 100);
    assert_int_equal(plan(DESCRIPTORS_RESERVE + 100, 65536, true), 100 - DESCRIPTORS_METRICS);
}

static void fewer_are_wanted_than_there_is_room_for(void **state) {
    (void)state;
    assert_int_equal(plan(1024 * 1024, 65536, false), 65536);
    assert_int_equal(plan(DESCRIPTORS_RESERVE + 100, 20, false), 20);
    assert_int_equal(plan(UINT64_MAX, 1000000, true), 1000000);
}

static void a_limit_that_leaves_too_few_clients_is_refused_with_a_sentence(void **state) {
    (void)state;
    size_t connections_max = 7;
    char error[512] = "";
    uint64_t least = DESCRIPTORS_RESERVE + CLIENT_CONNECTIONS_MIN;
    assert_int_equal(plan(least, 65536, false), CLIENT_CONNECTIONS_MIN);
    enum status status =
        descriptors_plan(least - 1, 65536, false, &connections_max, error, sizeof error);
    assert_int_equal(status, STATUS_INVALID);
    assert_int_equal(connections_max, 7);
    assert_non_null(strstr(error, "limit of open files is 223"));
    assert_non_null(strstr(error, "LimitNOFILE"));
    assert_int_equal(descriptors_plan(0, 1, true, &connections_max, error, sizeof error),
                     STATUS_INVALID);
}

static void checks_have_a_share_that_clients_cannot_take(void **state) {
    (void)state;
    assert_int_equal(descriptors_checks(0), DESCRIPTORS_CHECKS_MIN);
    assert_int_equal(descriptors_checks(DESCRIPTORS_RESERVE + 100), DESCRIPTORS_CHECKS_MIN);
    uint64_t limit = DESCRIPTORS_RESERVE + 1600;
    assert_int_equal(descriptors_checks(limit), DESCRIPTORS_CHECKS_MIN + 100);
    assert_int_equal(plan(limit, 65536, false), 1500);
    assert_int_equal(descriptors_checks(UINT64_MAX),
                     DESCRIPTORS_CHECKS_MIN + DESCRIPTORS_CHECKS_MAX);
}

static void one_address_gets_half_and_never_too_few(void **state) {
    (void)state;
    assert_int_equal(descriptors_client_share(65536, 0), 49152);
    assert_int_equal(descriptors_client_share(1200, 0), CLIENT_SHARE_MIN);
    assert_int_equal(descriptors_client_share(16, 0), 16);
    assert_int_equal(descriptors_client_share(65536, 7), 7);
    assert_int_equal(descriptors_client_share(100, 200), 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clients_get_what_the_reserve_leaves),
        cmocka_unit_test(checks_have_a_share_that_clients_cannot_take),
        cmocka_unit_test(one_address_gets_half_and_never_too_few),
        cmocka_unit_test(fewer_are_wanted_than_there_is_room_for),
        cmocka_unit_test(a_limit_that_leaves_too_few_clients_is_refused_with_a_sentence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
