#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above before itself. */
#include <cmocka.h>

#include "server/duration.h"

static void assert_is(const char *text, int64_t expected_ms) {
    int64_t ms = -7;
    assert_int_equal(duration_parse(text, &ms), STATUS_OK);
    assert_int_equal(ms, expected_ms);
}

static void assert_refused(const char *text) {
    int64_t ms = -7;
    assert_int_equal(duration_parse(text, &ms), STATUS_INVALID);
    assert_int_equal(ms, -7);
}

static void numbers_with_units_add_up(void **state) {
    assert_is("0", 0);
    assert_is("0s", 0);
    assert_is("500ms", 500);
    assert_is("5s", 5000);
    assert_is("10m", 600000);
    assert_is("2h0m0s", 7200000);
    assert_is("1h2m3s4ms", 3723004);
    assert_is("1500us", 1);
    assert_is("2000000ns", 2);
}

static void fractions_are_exact_to_the_millisecond(void **state) {
    assert_is("1.5h", 5400000);
    assert_is("0.1s", 100);
    assert_is(".5s", 500);
    assert_is("0.001s", 1);
    assert_is("2.675s", 2675);
}

static void what_is_no_duration_is_refused(void **state) {
    assert_refused("");
    assert_refused("5");
    assert_refused("s");
    assert_refused("-5s");
    assert_refused("5 s");
    assert_refused("5s ");
    assert_refused("5d");
    assert_refused(".s");
    assert_refused("1..5s");
    assert_refused("99999999999999999999999999h");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_with_units_add_up),
        cmocka_unit_test(fractions_are_exact_to_the_millisecond),
        cmocka_unit_test(what_is_no_duration_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
