#include "net/grpc_timeout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void assert_timeout(const char *text, uint64_t expected_ms) {
    uint64_t timeout_ms = UINT64_MAX;
    assert_true(grpc_timeout_parse(bytes_from_text(text), &timeout_ms));
    assert_int_equal(timeout_ms, expected_ms);
}

static void assert_malformed(const char *text) {
    uint64_t timeout_ms = 77;
    assert_false(grpc_timeout_parse(bytes_from_text(text), &timeout_ms));
    assert_int_equal(timeout_ms, 77);
}

static void every_unit_becomes_milliseconds(void **state) {
    assert_timeout("2H", 2 * 3600 * 1000);
    assert_timeout("3M", 3 * 60 * 1000);
    assert_timeout("5S", 5000);
    assert_timeout("7m", 7);
    assert_timeout("9000u", 9);
    assert_timeout("4000000n", 4);
}

static void parts_of_a_millisecond_round_up(void **state) {
    assert_timeout("1n", 1);
    assert_timeout("1000000n", 1);
    assert_timeout("1000001n", 2);
    assert_timeout("1001u", 2);
    assert_timeout("0n", 0);
    assert_timeout("0H", 0);
}

static void eight_digits_of_hours_fit(void **state) {
    assert_timeout("99999999H", 99999999ULL * 3600 * 1000);
    assert_timeout("00000001S", 1000);
}

static void anything_else_is_malformed(void **state) {
    assert_malformed("");
    assert_malformed("S");
    assert_malformed("5");
    assert_malformed("123456789S");
    assert_malformed("5s");
    assert_malformed("-5S");
    assert_malformed("+5S");
    assert_malformed(" 5S");
    assert_malformed("5 S");
    assert_malformed("5SS");
    assert_malformed("0x1S");
    assert_malformed("1.5S");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_unit_becomes_milliseconds),
        cmocka_unit_test(parts_of_a_millisecond_round_up),
        cmocka_unit_test(eight_digits_of_hours_fit),
        cmocka_unit_test(anything_else_is_malformed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
