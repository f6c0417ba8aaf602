#include "cli/cron_schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static int64_t minute_of(const char *text) {
    struct tm tm = {.tm_isdst = -1};
    assert_non_null(strptime(text, "%Y-%m-%d %H:%M", &tm));
    return mktime(&tm) / 60;
}

static const char *next_text(const char *line, const char *after) {
    static char text[32];
    char error[CRON_ERROR_SIZE_MAX] = "";
    struct cron_schedule schedule;
    enum status status = cron_schedule_parse(line, &schedule, error);
    if (status != STATUS_OK) {
        fail_msg("%s: %s", line, error);
    }
    int64_t minute;
    if (!cron_schedule_next(&schedule, minute_of(after), &minute)) {
        return "never";
    }
    time_t seconds = (time_t)minute * 60;
    struct tm tm;
    localtime_r(&seconds, &tm);
    strftime(text, sizeof text, "%Y-%m-%d %H:%M", &tm);
    return text;
}

static void set_zone(const char *zone) {
    setenv("TZ", zone, 1);
    tzset();
}

static void a_step_divides_the_hour(void **state) {
    set_zone("UTC0");
    assert_string_equal(next_text("*/5 * * * *", "2026-11-16 17:44"), "2026-11-16 17:45");
    assert_string_equal(next_text("*/5 * * * *", "2026-11-16 17:45"), "2026-11-16 17:50");
    assert_string_equal(next_text("7/20 * * * *", "2026-11-16 17:45"), "2026-11-16 17:47");
    assert_string_equal(next_text("10-30/10 * * * *", "2026-11-16 17:30"), "2026-11-16 18:10");
}

static void lists_ranges_and_names_are_read(void **state) {
    set_zone("UTC0");
    assert_string_equal(next_text("0 9,17 * * mon-fri", "2026-11-13 17:00"), "2026-11-16 09:00");
    assert_string_equal(next_text("30 6 1 Jan,JUL *", "2026-11-16 00:00"), "2027-01-01 06:30");
    assert_string_equal(next_text("0 0 * * 7", "2026-11-16 00:00"), "2026-11-22 00:00");
    assert_string_equal(next_text("0 0 * * 5-7", "2026-11-21 12:00"), "2026-11-22 00:00");
    assert_string_equal(next_text("@daily", "2026-11-16 00:00"), "2026-11-17 00:00");
}

static void day_or_weekday_is_enough_when_both_are_given(void **state) {
    set_zone("UTC0");
    assert_string_equal(next_text("0 0 1 * wed", "2026-11-16 00:00"), "2026-11-18 00:00");
    assert_string_equal(next_text("0 0 1 * wed", "2026-11-25 00:00"), "2026-12-01 00:00");
}

static void a_day_that_is_rare_is_found_and_one_that_never_comes_is_not(void **state) {
    set_zone("UTC0");
    assert_string_equal(next_text("0 0 29 2 *", "2026-11-16 00:00"), "2028-02-29 00:00");
    assert_string_equal(next_text("0 0 30 2 *", "2026-11-16 00:00"), "never");
}

static void days_of_23_hours_lose_no_midnight(void **state) {
    set_zone("CET-1CEST,M3.5.0,M10.5.0/3");
    assert_string_equal(next_text("0 0 30 3 *", "2026-03-28 12:00"), "2026-03-30 00:00");
    assert_string_equal(next_text("30 2 * * *", "2026-03-28 12:00"), "2026-03-30 02:30");
    /* Clocks that skip midnight itself. */
    set_zone("<-03>3<-02>,M10.3.0/0,M2.3.0/0");
    assert_string_equal(next_text("0 3 20 * *", "2026-10-15 12:00"), "2026-10-20 03:00");
}

static void what_is_wrong_is_named(void **state) {
    static const struct {
        const char *line;
        const char *says;
    } wrong[] = {
        {"* * * *", "five fields"},
        {"* * * * * *", "five fields"},
        {"", "five fields"},
        {"60 * * * *", "minute 60: out of range"},
        {"* 24 * * *", "hour 24"},
        {"* * 0 * *", "day 0"},
        {"* * * 13 *", "month 13"},
        {"* * * * 8", "weekday 8"},
        {"*/0 * * * *", "a step"},
        {"5-1 * * * *", "from small to large"},
        {"1, * * * *", "comma"},
        {"1-  * * * *", "a range needs its end"},
        {"x * * * *", "is needed"},
        {"1x * * * *", "unexpected"},
        {"* * * * monday", "unexpected"},
        {"99999999999999 * * * *", "minute"},
        {"@often", "five fields"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct cron_schedule schedule;
        char error[CRON_ERROR_SIZE_MAX] = "";
        assert_int_equal(cron_schedule_parse(wrong[i].line, &schedule, error), STATUS_MALFORMED);
        if (strstr(error, wrong[i].says) == NULL) {
            fail_msg("%s: %s", wrong[i].line, error);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_step_divides_the_hour),
        cmocka_unit_test(lists_ranges_and_names_are_read),
        cmocka_unit_test(day_or_weekday_is_enough_when_both_are_given),
        cmocka_unit_test(a_day_that_is_rare_is_found_and_one_that_never_comes_is_not),
        cmocka_unit_test(days_of_23_hours_lose_no_midnight),
        cmocka_unit_test(what_is_wrong_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
