#include "peers/large_frames.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h> /* after what it needs */

static struct large_frames frames;
static struct large_frame of[LARGE_FRAMES_MAX + 2];

static int setup(void **state) {
    (void)state;
    large_frames_init(&frames);
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        of[i] = (struct large_frame){.since_ms = 0};
    }
    return 0;
}

static void fill(uint64_t now_ms) {
    for (size_t i = 0; i < LARGE_FRAMES_MAX; i++) {
        assert_true(large_frames_announce(&frames, &of[i], now_ms));
    }
}

static void few_arrive_at_a_time_and_others_follow_in_order(void **state) {
    (void)state;
    struct large_frame *first = &of[LARGE_FRAMES_MAX];
    struct large_frame *second = &of[LARGE_FRAMES_MAX + 1];
    fill(1);
    assert_false(large_frames_announce(&frames, first, 2));
    assert_false(large_frames_announce(&frames, second, 3));
    assert_null(large_frames_admit(&frames, 4));
    large_frames_end(&frames, &of[1]);
    assert_ptr_equal(large_frames_admit(&frames, 5), first);
    assert_null(large_frames_admit(&frames, 6));
    large_frames_end(&frames, &of[0]);
    assert_ptr_equal(large_frames_admit(&frames, 7), second);
    large_frames_end(&frames, second);
    assert_null(large_frames_admit(&frames, 8));
    assert_int_equal(frames.n_arriving, LARGE_FRAMES_MAX - 1);
}

static void a_frame_that_is_announced_again_counts_once(void **state) {
    (void)state;
    fill(1);
    assert_true(large_frames_announce(&frames, &of[0], 2));
    assert_int_equal(frames.n_arriving, LARGE_FRAMES_MAX);
    assert_false(large_frames_announce(&frames, &of[LARGE_FRAMES_MAX], 3));
    assert_false(large_frames_announce(&frames, &of[LARGE_FRAMES_MAX], 4));
    large_frames_end(&frames, &of[0]);
    large_frames_end(&frames, &of[0]);
    assert_int_equal(frames.n_arriving, LARGE_FRAMES_MAX - 1);
}

static void one_that_waits_may_leave(void **state) {
    (void)state;
    fill(1);
    assert_false(large_frames_announce(&frames, &of[LARGE_FRAMES_MAX], 2));
    large_frames_end(&frames, &of[LARGE_FRAMES_MAX]);
    large_frames_end(&frames, &of[0]);
    assert_null(large_frames_admit(&frames, 3));
}

static void the_time_of_a_frame_is_limited_from_when_it_may_arrive(void **state) {
    (void)state;
    struct large_frame *late = &of[LARGE_FRAMES_MAX];
    assert_null(large_frames_overdue(&frames, 1));
    fill(10);
    assert_false(large_frames_announce(&frames, late, 11));
    assert_null(large_frames_overdue(&frames, 10 + LARGE_FRAME_MS_MAX));
    for (size_t i = 0; i < LARGE_FRAMES_MAX; i++) {
        assert_ptr_equal(large_frames_overdue(&frames, 11 + LARGE_FRAME_MS_MAX), &of[i]);
        large_frames_end(&frames, &of[i]);
    }
    assert_ptr_equal(large_frames_admit(&frames, 50), late);
    assert_null(large_frames_overdue(&frames, 50 + LARGE_FRAME_MS_MAX));
    assert_ptr_equal(large_frames_overdue(&frames, 51 + LARGE_FRAME_MS_MAX), late);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(few_arrive_at_a_time_and_others_follow_in_order, setup),
        cmocka_unit_test_setup(a_frame_that_is_announced_again_counts_once, setup),
        cmocka_unit_test_setup(one_that_waits_may_leave, setup),
        cmocka_unit_test_setup(the_time_of_a_frame_is_limited_from_when_it_may_arrive, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
