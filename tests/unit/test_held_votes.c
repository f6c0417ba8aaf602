#include "raft/held_votes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static bool add(struct held_votes *held, uint64_t peer_id, bool is_outgoing, uint64_t since_ms,
                uint64_t term) {
    struct held_vote vote = {.peer_id = peer_id,
                             .is_outgoing = is_outgoing,
                             .since_ms = since_ms,
                             .vote = {.term = term}};
    return held_votes_add(held, &vote);
}

static void only_the_newest_of_a_candidate_counts(void **state) {
    struct held_votes held = {0};
    assert_true(add(&held, 2, false, 100, 5));
    assert_true(add(&held, 3, false, 101, 5));
    assert_true(add(&held, 2, false, 102, 6));
    assert_true(add(&held, 2, true, 103, 7));
    assert_int_equal(held.n, 3);
    struct held_vote vote;
    assert_true(held_votes_take(&held, 1, &vote));
    assert_int_equal(vote.peer_id, 2);
    assert_int_equal(vote.vote.term, 6);
    assert_true(held_votes_take(&held, 1, &vote));
    assert_true(vote.is_outgoing);
    assert_false(held_votes_take(&held, 1, &vote));
}

static void what_waits_too_long_is_dropped(void **state) {
    struct held_votes held = {0};
    assert_true(add(&held, 2, false, 100, 5));
    assert_true(add(&held, 3, false, 600, 5));
    held_votes_expire(&held, 1099, 1000);
    assert_int_equal(held.n, 2);
    held_votes_expire(&held, 1100, 1000);
    assert_int_equal(held.n, 1);
    assert_int_equal(held.votes[0].peer_id, 3);
}

static void no_more_than_a_bound_wait(void **state) {
    struct held_votes held = {0};
    for (uint64_t id = 1; id <= HELD_VOTES_MAX; id++) {
        assert_true(add(&held, id, false, id, 5));
    }
    assert_false(add(&held, 1000, false, 1000, 5));
    assert_true(add(&held, 1, false, 1000, 6)); /* in the place of its older one */
    assert_int_equal(held.n, HELD_VOTES_MAX);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_newest_of_a_candidate_counts),
        cmocka_unit_test(what_waits_too_long_is_dropped),
        cmocka_unit_test(no_more_than_a_bound_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
