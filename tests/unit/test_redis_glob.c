/* Patterns of the Redis protocol: what they take, and that every step of a comparison is counted.
 */
#include "doors/redis/redis_glob_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { MANY = 100000 };

static bool matches(const char *pattern, const char *text) {
    size_t steps_left = MANY;
    return redis_glob_match(bytes_from_text(pattern), bytes_from_text(text), &steps_left);
}

static void patterns_take_what_redis_takes(void **state) {
    (void)state;
    assert_true(matches("*", ""));
    assert_true(matches("lock:*", "lock:1"));
    assert_true(matches("l?ck:[0-9]", "lock:7"));
    assert_true(matches("a**b*", "axxbyy"));
    assert_true(matches("\\*", "*"));
    assert_false(matches("\\*", "x"));
    assert_false(matches("lock:[^0-9]", "lock:7"));
    assert_false(matches("a*b", "abc"));
}

/* A pattern may be as long as a request. */
static void stars_are_counted(void **state) {
    (void)state;
    static char stars[MANY / 2];
    memset(stars, '*', sizeof stars);
    struct bytes pattern = bytes_of(stars, sizeof stars);
    size_t steps_left = MANY;
    assert_true(redis_glob_match(pattern, bytes_from_text("a"), &steps_left));
    assert_in_range(steps_left, 0, MANY - sizeof stars);
    steps_left = sizeof stars / 2;
    assert_false(redis_glob_match(pattern, bytes_from_text("a"), &steps_left));
    assert_int_equal(steps_left, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_take_what_redis_takes),
        cmocka_unit_test(stars_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
