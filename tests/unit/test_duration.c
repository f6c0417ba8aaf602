#include "base/duration.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void expect_ms(const char *text, int64_t expected_ms) {
    int64_t ms = -7;
    assert_int_equal(duration_parse(text, DURATION_BARE_REFUSED, &ms), STATUS_OK);
    assert_int_equal(ms, expected_ms);
}

static void expect_bare_ms(const char *text, enum duration_bare bare, int64_t expected_ms) {
    int64_t ms = -7;
    assert_int_equal(duration_parse(text, bare, &ms), STATUS_OK);
    assert_int_equal(ms, expected_ms);
}

static void expect_refusal(const char *text, enum duration_bare bare, enum status expected) {
    int64_t ms = 42;
    assert_int_equal(duration_parse(text, bare, &ms), expected);
    assert_int_equal(ms, 42); /* outputs are written only on success */
}

static void expect_text(int64_t ms, const char *expected) {
    char room[DURATION_TEXT_SIZE_MAX];
    assert_string_equal(duration_format(ms, room), expected);
}

static void numbers_with_units_add_up(void **state) {
    expect_ms("0s", 0);
    expect_ms("500ms", 500);
    expect_ms("5s", 5000);
    expect_ms("10m", 600000);
    expect_ms("2h", 7200000);
    expect_ms("1d", 86400000);
    expect_ms("2h0m0s", 7200000);
    expect_ms("1d2h3m4s5ms", 93784005);
    expect_ms("30m1h", 5400000);
    expect_ms("2000000ns", 2);
    expect_ms("1500us", 1);
    expect_ms("1500\xc2\xb5s", 1);
}

static void a_bare_number_has_the_unit_of_the_caller(void **state) {
    expect_bare_ms("10", DURATION_BARE_SECONDS, 10000);
    expect_bare_ms("1.5", DURATION_BARE_SECONDS, 1500);
    expect_bare_ms("2", DURATION_BARE_HOURS, 7200000);
    expect_bare_ms("0", DURATION_BARE_SECONDS, 0);
    expect_ms("0", 0);
    expect_refusal("5", DURATION_BARE_REFUSED, STATUS_MALFORMED);
    expect_refusal("1m30", DURATION_BARE_SECONDS, STATUS_MALFORMED);
    expect_refusal("1m0", DURATION_BARE_SECONDS, STATUS_MALFORMED);
}

static void fractions_are_exact(void **state) {
    expect_ms("1.5h", 5400000);
    expect_ms("0.1s", 100);
    expect_ms(".5s", 500);
    expect_ms("0.001s", 1);
    expect_ms("2.675s", 2675);
    expect_ms("0.25h", 900000);
}

static void parts_of_a_millisecond_are_dropped_from_the_sum(void **state) {
    expect_ms("0.5ms", 0);
    expect_ms("0.5ms0.5ms", 1);
    expect_ms("1.0000000009999s", 1000);
}

static void what_is_no_duration_is_refused(void **state) {
    static const char *const texts[] = {"",    " ",    "s",   "-1",    "+1",  "1 s",  "5s ", "1x",
                                        "1.",  "1.s",  ".s",  "1S",    "1e3", "0x1",  "1sm", "1ss",
                                        "1,5", "10\n", "1mm", "1.2.3", "ms",  "1..5s"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        expect_refusal(texts[i], DURATION_BARE_SECONDS, STATUS_MALFORMED);
    }
}

static void too_long_is_told_apart_from_wrong(void **state) {
    expect_ms("1000000000000s", DURATION_MS_MAX);
    expect_refusal("1000000000001s", DURATION_BARE_SECONDS, STATUS_INVALID);
    expect_refusal("9999999999999999999", DURATION_BARE_SECONDS, STATUS_INVALID);
    expect_refusal("99999999999999999999999999", DURATION_BARE_SECONDS, STATUS_INVALID);
    expect_refusal("1000000000000s1ms", DURATION_BARE_SECONDS, STATUS_INVALID);
    expect_refusal("999999999999999999d", DURATION_BARE_SECONDS, STATUS_INVALID);
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
    for (int64_t ms = 0; ms < DURATION_MS_MAX; ms = ms * 3 + 7) {
        char room[DURATION_TEXT_SIZE_MAX];
        expect_ms(duration_format(ms, room), ms);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_with_units_add_up),
        cmocka_unit_test(a_bare_number_has_the_unit_of_the_caller),
        cmocka_unit_test(fractions_are_exact),
        cmocka_unit_test(parts_of_a_millisecond_are_dropped_from_the_sum),
        cmocka_unit_test(what_is_no_duration_is_refused),
        cmocka_unit_test(too_long_is_told_apart_from_wrong),
        cmocka_unit_test(formatting_is_short),
        cmocka_unit_test(what_is_formatted_is_parsed_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
