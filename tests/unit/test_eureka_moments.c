#include "doors/eureka/eureka_internal.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define SECOND UINT64_C(1000)

static void the_earliest_is_known_until_it_is_old(void **state) {
    struct eureka_moments moments = {0};
    assert_int_equal(eureka_moments_since(&moments, 5 * SECOND), 0);
    eureka_moments_note(&moments, 100 * SECOND, 7);
    eureka_moments_note(&moments, 200 * SECOND, 9);
    assert_int_equal(eureka_moments_since(&moments, 200 * SECOND), 7);
    assert_int_equal(eureka_moments_since(&moments, 379 * SECOND), 7);
    assert_int_equal(eureka_moments_since(&moments, 380 * SECOND), 9);
    assert_int_equal(eureka_moments_since(&moments, 9999 * SECOND), 9);
}

static void a_busy_door_knows_three_minutes(void **state) {
    struct eureka_moments moments = {0};
    uint64_t now_ms = 0;
    int64_t revision = 1;
    while (now_ms < 3600 * SECOND) {
        eureka_moments_note(&moments, now_ms, revision);
        /* One revision a second, noted ten times a second. */
        now_ms += SECOND / 10;
        revision = 1 + (int64_t)(now_ms / SECOND);
        int64_t since = eureka_moments_since(&moments, now_ms);
        int64_t wanted = revision > 180 ? revision - 180 : 1;
        assert_true(since <= wanted);
        assert_true(since + 10 >= wanted);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_earliest_is_known_until_it_is_old),
        cmocka_unit_test(a_busy_door_knows_three_minutes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
