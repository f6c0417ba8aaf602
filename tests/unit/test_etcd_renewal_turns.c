#include "doors/etcd/etcd_renewal_turns.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { STREAMS = 3, TAKEN_MAX = 64 * 1024 };

/* A stream that has so many renewals left. */
struct stream {
    struct etcd_renewal_turn turn;
    size_t n_left;
    char name;
    bool is_answered_at_once;
};

static uv_loop_t loop;
static struct etcd_renewal_turns *turns;
static struct stream streams[STREAMS];
static size_t n_asked;
static char taken[TAKEN_MAX + 1]; /* the names of the streams whose turn it was */
static size_t n_taken;

static bool take(struct etcd_renewal_turn *turn) {
    struct stream *stream = list_entry(turn, struct stream, turn);
    assert_true(stream->n_left > 0);
    assert_in_range(n_taken, 0, TAKEN_MAX - 1);
    taken[n_taken++] = stream->name;
    taken[n_taken] = 0;
    if (!stream->is_answered_at_once) {
        etcd_renewal_turns_asked(turns);
        n_asked++;
    }
    return --stream->n_left > 0;
}

static int set_up(void **state) {
    (void)state;
    uv_loop_init(&loop);
    turns = etcd_renewal_turns_create(&loop);
    for (size_t i = 0; i < STREAMS; i++) {
        streams[i] = (struct stream){.name = (char)('a' + i)};
        etcd_renewal_turn_init(&streams[i].turn, take);
    }
    n_asked = 0;
    n_taken = 0;
    taken[0] = 0;
    /* Everything that may be asked for at a time is. */
    while (etcd_renewal_turns_has_room(turns)) {
        etcd_renewal_turns_asked(turns);
        n_asked++;
    }
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    etcd_renewal_turns_destroy(turns);
    uv_run(&loop, UV_RUN_DEFAULT);
    return uv_loop_close(&loop);
}

static void answer(size_t n) {
    for (size_t i = 0; i < n; i++) {
        etcd_renewal_turns_answered(turns);
        n_asked--;
    }
    uv_run(&loop, UV_RUN_NOWAIT);
}

static void await(size_t stream, size_t n) {
    streams[stream].n_left = n;
    etcd_renewal_turn_await(turns, &streams[stream].turn);
}

static void streams_take_turns_one_renewal_each(void **state) {
    (void)state;
    await(0, 4);
    await(1, 1);
    await(2, 2);
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_string_equal(taken, "");
    answer(2);
    assert_string_equal(taken, "ab");
    answer(3);
    assert_string_equal(taken, "abcac");
    answer(7);
    assert_string_equal(taken, "abcacaa");
}

static void who_has_left_gets_no_turn(void **state) {
    (void)state;
    await(0, 1);
    await(1, 1);
    etcd_renewal_turn_leave(&streams[0].turn);
    answer(2);
    assert_string_equal(taken, "b");
}

/* This node has come to lead: whatever is asked for is answered, and nobody comes back. */
static void answers_that_come_at_once_do_not_fill_an_iteration(void **state) {
    (void)state;
    const size_t left = TAKEN_MAX / 2;
    streams[0].is_answered_at_once = true;
    await(0, left);
    answer(n_asked);
    assert_in_range(n_taken, 1, left / 4);
    for (size_t before = 0; n_taken < left && n_taken > before;) {
        before = n_taken;
        uv_run(&loop, UV_RUN_ONCE);
    }
    assert_int_equal(n_taken, left);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(streams_take_turns_one_renewal_each, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_has_left_gets_no_turn, set_up, tear_down),
        cmocka_unit_test_setup_teardown(answers_that_come_at_once_do_not_fill_an_iteration, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
