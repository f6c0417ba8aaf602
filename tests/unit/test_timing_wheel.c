#include "base/timing_wheel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { TIMERS = 64, MANY = 1000000 };

static struct timing_wheel_timer timers[TIMERS];

static struct timing_wheel_timer *resolve(void *owner, uint32_t handle) {
    struct timing_wheel_timer *array = owner;
    return &array[handle];
}

static struct timing_wheel *wheel_at(uint64_t now_ms) {
    for (size_t i = 0; i < TIMERS; i++) {
        timing_wheel_timer_init(&timers[i]);
    }
    return timing_wheel_create(now_ms, resolve, timers);
}

static int is_before(const void *a, const void *b) {
    uint32_t left = *(const uint32_t *)a;
    uint32_t right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

/* Advances and checks that exactly these handles came out, in any order. */
static void expect_due(struct timing_wheel *wheel, uint64_t now_ms, size_t n,
                       const uint32_t *handles) {
    uint32_t out[TIMERS];
    size_t got = timing_wheel_advance(wheel, now_ms, out, TIMERS);
    timing_wheel_validate(wheel);
    assert_int_equal(got, n);
    qsort(out, got, sizeof out[0], is_before);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(out[i], handles[i]);
        assert_false(timing_wheel_is_armed(&timers[out[i]]));
    }
}

#define EXPECT_DUE(wheel, now_ms, ...)                                                             \
    expect_due(wheel, now_ms, sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t),                \
               (uint32_t[]){__VA_ARGS__})
#define EXPECT_NONE_DUE(wheel, now_ms) expect_due(wheel, now_ms, 0, NULL)

static void an_empty_wheel_has_nothing_to_do(void **state) {
    struct timing_wheel *wheel = wheel_at(1000);
    assert_int_equal(timing_wheel_count(wheel), 0);
    assert_true(timing_wheel_next_ms(wheel) == UINT64_MAX);
    EXPECT_NONE_DUE(wheel, 1000);
    EXPECT_NONE_DUE(wheel, UINT64_MAX);
    timing_wheel_destroy(wheel);
}

static void a_timer_is_due_at_its_millisecond_and_not_before(void **state) {
    static const uint64_t starts[] = {0, 1, 255, 256, 65535, 1000000, UINT64_C(1) << 40};
    static const uint64_t distances[] = {1,       2,        255,      256,       257,
                                         65535,   65536,    65537,    16777215,  16777216,
                                         5000000, 86400000, 31536000, 1000000000};
    for (size_t s = 0; s < sizeof starts / sizeof starts[0]; s++) {
        for (size_t d = 0; d < sizeof distances / sizeof distances[0]; d++) {
            uint64_t due_ms = starts[s] + distances[d];
            struct timing_wheel *wheel = wheel_at(starts[s]);
            timing_wheel_arm(wheel, 7, due_ms);
            timing_wheel_validate(wheel);
            EXPECT_NONE_DUE(wheel, due_ms - 1);
            EXPECT_DUE(wheel, due_ms, 7);
            timing_wheel_destroy(wheel);
        }
    }
}

static void a_jump_far_ahead_takes_everything_out(void **state) {
    struct timing_wheel *wheel = wheel_at(123456789);
    for (uint32_t i = 0; i < 60; i++) {
        timing_wheel_arm(wheel, i, 123456789 + (UINT64_C(1) << i));
    }
    timing_wheel_validate(wheel);
    uint32_t out[TIMERS];
    assert_int_equal(timing_wheel_advance(wheel, UINT64_MAX, out, TIMERS), 60);
    assert_int_equal(timing_wheel_count(wheel), 0);
    timing_wheel_validate(wheel);
    timing_wheel_destroy(wheel);
}

static void the_last_millisecond_of_time_can_be_reached(void **state) {
    struct timing_wheel *wheel = wheel_at(0);
    timing_wheel_arm(wheel, 0, UINT64_MAX);
    timing_wheel_arm(wheel, 1, UINT64_MAX - 1);
    EXPECT_DUE(wheel, UINT64_MAX - 1, 1);
    EXPECT_DUE(wheel, UINT64_MAX, 0);
    timing_wheel_destroy(wheel);
}

static void a_time_that_has_passed_is_due_at_the_next_advance(void **state) {
    struct timing_wheel *wheel = wheel_at(5000);
    timing_wheel_arm(wheel, 1, 17);
    timing_wheel_arm(wheel, 2, 5000);
    assert_int_equal(timers[1].due_ms, 17);
    assert_true(timing_wheel_next_ms(wheel) <= 5000);
    EXPECT_DUE(wheel, 5000, 1, 2);
    timing_wheel_destroy(wheel);
}

static void a_timer_that_is_put_off_keeps_its_time(void **state) {
    struct timing_wheel *wheel = wheel_at(0);
    timing_wheel_arm(wheel, 1, 100);
    timing_wheel_arm(wheel, 2, 100);
    timing_wheel_arm(wheel, 3, 100);
    EXPECT_DUE(wheel, 100, 1, 2, 3);
    timing_wheel_put_off(wheel, 1, 700); /* it moves down on the way */
    timing_wheel_put_off(wheel, 2, 700);
    timing_wheel_put_off(wheel, 3, 700);
    assert_int_equal(timers[1].due_ms, 100);
    assert_int_equal(timing_wheel_count(wheel), 3);
    timing_wheel_arm(wheel, 2, 150); /* sooner than it would have come */
    timing_wheel_arm(wheel, 3, 800);
    EXPECT_NONE_DUE(wheel, 149);
    EXPECT_DUE(wheel, 150, 2);
    EXPECT_NONE_DUE(wheel, 699);
    EXPECT_DUE(wheel, 700, 1);
    assert_int_equal(timers[1].due_ms, 100);
    EXPECT_NONE_DUE(wheel, 799);
    EXPECT_DUE(wheel, 800, 3);
    timing_wheel_destroy(wheel);
}

static void arming_again_moves_the_timer(void **state) {
    struct timing_wheel *wheel = wheel_at(0);
    timing_wheel_arm(wheel, 3, 100);
    timing_wheel_arm(wheel, 3, 90000);
    assert_int_equal(timing_wheel_count(wheel), 1);
    EXPECT_NONE_DUE(wheel, 89999);
    timing_wheel_arm(wheel, 3, 90100);
    timing_wheel_arm(wheel, 3, 90050);
    EXPECT_NONE_DUE(wheel, 90049);
    EXPECT_DUE(wheel, 90050, 3);
    timing_wheel_destroy(wheel);
}

static void moving_within_one_slot_keeps_the_new_time(void **state) {
    struct timing_wheel *wheel = wheel_at(0);
    timing_wheel_arm(wheel, 3, 0x200);
    timing_wheel_arm(wheel, 3, 0x2ff);
    EXPECT_NONE_DUE(wheel, 0x2fe);
    EXPECT_DUE(wheel, 0x2ff, 3);
    timing_wheel_destroy(wheel);
}

static void a_timer_renewed_forever_never_comes_out(void **state) {
    struct timing_wheel *wheel = wheel_at(0);
    for (uint64_t now_ms = 0; now_ms < 1000000; now_ms += 1700) {
        timing_wheel_arm(wheel, 3, now_ms + 5000);
        timing_wheel_arm(wheel, 4, now_ms + 1701);
        EXPECT_NONE_DUE(wheel, now_ms + 1700);
    }
    EXPECT_DUE(wheel, 1000000 + 5000, 3, 4);
    timing_wheel_destroy(wheel);
}

static void next_ms_never_passes_a_timer_that_was_moved(void **state) {
    struct timing_wheel *wheel = wheel_at(0);
    timing_wheel_arm(wheel, 1, 50);
    timing_wheel_arm(wheel, 1, 60);
    timing_wheel_arm(wheel, 1, 55);
    assert_true(timing_wheel_next_ms(wheel) <= 55);
    EXPECT_NONE_DUE(wheel, 54);
    assert_int_equal(timing_wheel_next_ms(wheel), 55);
    EXPECT_DUE(wheel, 55, 1);
    timing_wheel_destroy(wheel);
}

static void a_disarmed_timer_never_comes_out(void **state) {
    struct timing_wheel *wheel = wheel_at(0);
    for (uint32_t i = 0; i < 5; i++) {
        timing_wheel_arm(wheel, i, 300);
    }
    /* First, middle and last of one slot's list. */
    timing_wheel_disarm(wheel, 4);
    timing_wheel_disarm(wheel, 2);
    timing_wheel_disarm(wheel, 0);
    timing_wheel_disarm(wheel, 0);
    timing_wheel_disarm(wheel, 30);
    timing_wheel_validate(wheel);
    assert_int_equal(timing_wheel_count(wheel), 2);
    EXPECT_DUE(wheel, 300, 1, 3);
    EXPECT_NONE_DUE(wheel, 100000);
    timing_wheel_destroy(wheel);
}

static void time_does_not_go_back(void **state) {
    struct timing_wheel *wheel = wheel_at(0);
    timing_wheel_arm(wheel, 1, 500);
    EXPECT_NONE_DUE(wheel, 400);
    EXPECT_NONE_DUE(wheel, 100);
    timing_wheel_arm(wheel, 2, 401);
    EXPECT_NONE_DUE(wheel, 399);
    EXPECT_DUE(wheel, 500, 1, 2);
    timing_wheel_destroy(wheel);
}

static void capacity_limits_a_batch_and_the_rest_follows(void **state) {
    struct timing_wheel *wheel = wheel_at(0);
    for (uint32_t i = 0; i < 10; i++) {
        timing_wheel_arm(wheel, i, 1000 + i / 5);
    }
    bool seen[10] = {false};
    uint32_t out[4];
    size_t total = 0;
    size_t n;
    do {
        n = timing_wheel_advance(wheel, 2000, out, 4);
        timing_wheel_validate(wheel);
        for (size_t i = 0; i < n; i++) {
            assert_false(seen[out[i]]);
            seen[out[i]] = true;
        }
        total += n;
    } while (n == 4);
    assert_int_equal(total, 10);
    assert_int_equal(timing_wheel_advance(wheel, 2000, out, 0), 0);
    timing_wheel_destroy(wheel);
}

static void next_ms_is_exact_within_the_current_256_ms(void **state) {
    struct timing_wheel *wheel = wheel_at(0x1000);
    for (uint64_t due_ms = 0x10ff; due_ms > 0x1000; due_ms--) {
        timing_wheel_disarm(wheel, 0);
        timing_wheel_arm(wheel, 0, due_ms);
        assert_int_equal(timing_wheel_next_ms(wheel), due_ms);
    }
    timing_wheel_destroy(wheel);
}

static void next_ms_leads_to_any_timer_in_few_steps(void **state) {
    for (unsigned bit = 0; bit < 63; bit++) {
        struct timing_wheel *wheel = wheel_at(99);
        uint64_t due_ms = 99 + (UINT64_C(1) << bit) + bit;
        timing_wheel_arm(wheel, 0, due_ms);
        unsigned steps = 0;
        uint64_t now_ms = 99;
        uint32_t out;
        while (timing_wheel_count(wheel) > 0) {
            uint64_t next_ms = timing_wheel_next_ms(wheel);
            assert_true(next_ms <= due_ms);
            assert_true(steps == 0 || next_ms > now_ms);
            now_ms = next_ms;
            timing_wheel_advance(wheel, now_ms, &out, 1);
            timing_wheel_validate(wheel);
            assert_true(++steps <= 8);
        }
        assert_true(now_ms == due_ms);
        timing_wheel_destroy(wheel);
    }
}

/* A million timers, in the handles' order or not, all due in one millisecond after `distance`. */
static void million_due_together(uint64_t distance_ms, uint32_t stride) {
    struct timing_wheel_timer *many = malloc(MANY * sizeof *many);
    uint32_t *out = malloc(1000 * sizeof *out);
    uint8_t *seen = calloc(1, MANY);
    assert_non_null(many);
    struct timing_wheel *wheel = timing_wheel_create(77, resolve, many);
    for (uint32_t i = 0; i < MANY; i++) {
        timing_wheel_timer_init(&many[i]);
    }
    uint32_t handle = 0;
    for (uint32_t i = 0; i < MANY; i++) {
        timing_wheel_arm(wheel, handle, 77 + distance_ms);
        handle = (handle + stride) % MANY;
    }
    assert_int_equal(timing_wheel_count(wheel), MANY);
    assert_int_equal(timing_wheel_advance(wheel, 76 + distance_ms, out, 1000), 0);
    size_t total = 0;
    size_t calls = 0;
    while (timing_wheel_next_ms(wheel) <= 77 + distance_ms) {
        size_t n = timing_wheel_advance(wheel, 77 + distance_ms, out, 1000);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(seen[out[i]]++, 0);
        }
        total += n;
        assert_true(++calls < 10000);
    }
    assert_int_equal(total, MANY);
    timing_wheel_validate(wheel);
    timing_wheel_destroy(wheel);
    free(seen);
    free(out);
    free(many);
}

static void a_million_due_in_one_millisecond_come_out_once_each(void **state) {
    million_due_together(60000, 1);
    million_due_together(3600000, 7919);
}

static void a_timer_moved_while_its_full_slot_moves_down_is_not_lost(void **state) {
    enum { SOME = 30000 };
    struct timing_wheel_timer *some = malloc(SOME * sizeof *some);
    assert_non_null(some);
    struct timing_wheel *wheel = timing_wheel_create(0, resolve, some);
    for (uint32_t i = 0; i < SOME; i++) {
        timing_wheel_timer_init(&some[i]);
        timing_wheel_arm(wheel, i, 0x20000 + i % 0x8000);
    }
    uint32_t out[16];
    /* One call cannot empty the slot; what it left must still be movable and removable. */
    assert_int_equal(timing_wheel_advance(wheel, 0x20000, out, 16), 0);
    assert_true(timing_wheel_next_ms(wheel) <= 0x20000);
    timing_wheel_validate(wheel);
    for (uint32_t i = 0; i < SOME; i += 2) {
        timing_wheel_arm(wheel, i, 0x20001);
    }
    for (uint32_t i = 1; i < SOME; i += 2) {
        timing_wheel_disarm(wheel, i);
    }
    timing_wheel_validate(wheel);
    size_t early = 0;
    for (unsigned call = 0; call < 100; call++) {
        early += timing_wheel_advance(wheel, 0x20000, out, 16);
    }
    assert_int_equal(early, 0);
    size_t total = 0;
    while (timing_wheel_next_ms(wheel) <= 0x20001) {
        total += timing_wheel_advance(wheel, 0x20001, out, 16);
    }
    assert_int_equal(total, SOME / 2);
    assert_true(timing_wheel_next_ms(wheel) == UINT64_MAX);
    timing_wheel_destroy(wheel);
    free(some);
}

static void emptying_a_half_moved_slot_leaves_nothing_to_do(void **state) {
    enum { SOME = 30000 };
    struct timing_wheel_timer *some = malloc(SOME * sizeof *some);
    assert_non_null(some);
    struct timing_wheel *wheel = timing_wheel_create(0, resolve, some);
    for (uint32_t i = 0; i < SOME; i++) {
        timing_wheel_timer_init(&some[i]);
        timing_wheel_arm(wheel, i, 0x20000 + i);
    }
    uint32_t out[1];
    timing_wheel_advance(wheel, 0x20000, out, 1);
    for (uint32_t i = 0; i < SOME; i++) {
        timing_wheel_disarm(wheel, i);
    }
    assert_true(timing_wheel_next_ms(wheel) == UINT64_MAX);
    timing_wheel_arm(wheel, 5, 0x20005);
    timing_wheel_validate(wheel);
    assert_int_equal(timing_wheel_advance(wheel, 0x20005, out, 1), 1);
    assert_int_equal(out[0], 5);
    timing_wheel_destroy(wheel);
    free(some);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_wheel_has_nothing_to_do),
        cmocka_unit_test(a_timer_is_due_at_its_millisecond_and_not_before),
        cmocka_unit_test(a_jump_far_ahead_takes_everything_out),
        cmocka_unit_test(the_last_millisecond_of_time_can_be_reached),
        cmocka_unit_test(a_time_that_has_passed_is_due_at_the_next_advance),
        cmocka_unit_test(a_timer_that_is_put_off_keeps_its_time),
        cmocka_unit_test(arming_again_moves_the_timer),
        cmocka_unit_test(moving_within_one_slot_keeps_the_new_time),
        cmocka_unit_test(a_timer_renewed_forever_never_comes_out),
        cmocka_unit_test(next_ms_never_passes_a_timer_that_was_moved),
        cmocka_unit_test(a_disarmed_timer_never_comes_out),
        cmocka_unit_test(time_does_not_go_back),
        cmocka_unit_test(capacity_limits_a_batch_and_the_rest_follows),
        cmocka_unit_test(next_ms_is_exact_within_the_current_256_ms),
        cmocka_unit_test(next_ms_leads_to_any_timer_in_few_steps),
        cmocka_unit_test(a_million_due_in_one_millisecond_come_out_once_each),
        cmocka_unit_test(a_timer_moved_while_its_full_slot_moves_down_is_not_lost),
        cmocka_unit_test(emptying_a_half_moved_slot_leaves_nothing_to_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
