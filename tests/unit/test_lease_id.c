#include "cli/lease_id.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void expect_id(const char *text, int64_t expected) {
    int64_t id = 0;
    assert_int_equal(lease_id_parse(text, &id), STATUS_OK);
    assert_int_equal(id, expected);
}

static void expect_refusal(const char *text) {
    int64_t id = 42;
    assert_int_equal(lease_id_parse(text, &id), STATUS_MALFORMED);
    assert_int_equal(id, 42);
}

static void hex_of_any_case_is_read(void **state) {
    expect_id("7f", 0x7f);
    expect_id("0x7F", 0x7f);
    expect_id("694d71ddacfda227", 0x694d71ddacfda227);
    expect_id("ffffffffffffffff", -1);
    expect_id("0", 0);
}

static void anything_else_is_refused(void **state) {
    expect_refusal("");
    expect_refusal("0x");
    expect_refusal("xyz");
    expect_refusal("-1");
    expect_refusal("1g");
    expect_refusal(" 1");
    expect_refusal("10000000000000000"); /* seventeen digits */
}

static void ids_are_shown_as_etcdctl_shows_them(void **state) {
    char room[LEASE_ID_TEXT_SIZE_MAX];
    assert_string_equal(lease_id_format(0x7f, room), "7f");
    assert_string_equal(lease_id_format(-1, room), "ffffffffffffffff");
    assert_string_equal(lease_id_format(INT64_MIN, room), "8000000000000000");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hex_of_any_case_is_read),
        cmocka_unit_test(anything_else_is_refused),
        cmocka_unit_test(ids_are_shown_as_etcdctl_shows_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
