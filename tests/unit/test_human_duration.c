#include "cli/human_duration.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void expect_ms(const char *text, int64_t expected_ms) {
    int64_t ms = -1;
    assert_int_equal(human_duration_parse(text, &ms), STATUS_OK);
    assert_int_equal(ms, expected_ms);
}

static void expect_refusal(const char *text, enum status expected) {
    int64_t ms = 42;
    assert_int_equal(human_duration_parse(text, &ms), expected);
    assert_int_equal(ms, 42); /* outputs are written only on success */
}

static void expect_text(int64_t ms, const char *expected) {
    char room[HUMAN_DURATION_TEXT_SIZE_MAX];
    assert_string_equal(human_duration_format(ms, room), expected);
}

static void a_bare_number_is_seconds(void **state) {
    expect_ms("10", 10000);
    expect_ms("0", 0);
    expect_ms("1.5", 1500);
}

static void units_are_understood(void **state) {
    expect_ms("10s", 10000);
    expect_ms("1500ms", 1500);
    expect_ms("5m", 300000);
    expect_ms("2h", 7200000);
    expect_ms("1d", 86400000);
    expect_ms("1.5s", 1500);
    expect_ms("0.001s", 1);
    expect_ms("0.25h", 900000);
}

static void units_follow_each_other_from_large_to_small(void **state) {
    expect_ms("1h30m", 5400000);
    expect_ms("1d2h3m4s5ms", 93784005);
    expect_ms("1m500ms", 60500);
    expect_refusal("30m1h", STATUS_MALFORMED);
    expect_refusal("1s1s", STATUS_MALFORMED);
    expect_refusal("1m30", STATUS_MALFORMED);
}

static void what_is_no_duration_is_refused(void **state) {
    static const char *const texts[] = {"",    " ",   "s",    "-1",  "+1",    "1 s", "1x",
                                        "1.",  ".5",  "1.s",  "1S",  "1e3",   "0x1", "1sm",
                                        "1ss", "1,5", "10\n", "1mm", "1.2.3", "ms"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        expect_refusal(texts[i], STATUS_MALFORMED);
    }
}

static void parts_of_a_millisecond_are_refused(void **state) {
    expect_refusal("0.5ms", STATUS_MALFORMED);
    expect_refusal("0.0001s", STATUS_MALFORMED);
}

static void too_long_is_told_apart_from_wrong(void **state) {
    expect_ms("1000000000000s", HUMAN_DURATION_MS_MAX);
    expect_refusal("1000000000001s", STATUS_INVALID);
    expect_refusal("99999999999999999999999999", STATUS_INVALID);
    expect_refusal("1000000000000s1ms", STATUS_INVALID);
    expect_refusal("100000000d", STATUS_INVALID);
}

static void formatting_is_short(void **state) {
    expect_text(0, "0s");
    expect_text(10000, "10s");
    expect_text(1500, "1s500ms");
    expect_text(5400000, "1h30m");
    expect_text(86400000, "1d");
    expect_text(-2000, "-2s");
    expect_text(INT64_MIN, "-106751991167d7h12m55s808ms");
}

static void what_is_formatted_is_parsed_back(void **state) {
    for (int64_t ms = 0; ms < HUMAN_DURATION_MS_MAX; ms = ms * 3 + 7) {
        char room[HUMAN_DURATION_TEXT_SIZE_MAX];
        expect_ms(human_duration_format(ms, room), ms);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bare_number_is_seconds),
        cmocka_unit_test(units_are_understood),
        cmocka_unit_test(units_follow_each_other_from_large_to_small),
        cmocka_unit_test(what_is_no_duration_is_refused),
        cmocka_unit_test(parts_of_a_millisecond_are_refused),
        cmocka_unit_test(too_long_is_told_apart_from_wrong),
        cmocka_unit_test(formatting_is_short),
        cmocka_unit_test(what_is_formatted_is_parsed_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
