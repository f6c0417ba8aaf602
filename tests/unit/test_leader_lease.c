#include "../model/model_random.h"
#include "replication/leader_lease.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { ELECTION_MS = 1000, TRUSTED_MS = 900, TERM = 7, SELF = 1, SENT_MS = 50000 };

static const uint64_t others[] = {2, 3, 4, 5};

/* Leads among this node and `n_others` more. */
static struct leader_lease lead(size_t n_others) {
    struct leader_lease lease;
    leader_lease_begin(&lease, TERM, ELECTION_MS, 0, true, others, n_others);
    return lease;
}

static void answer(struct leader_lease *lease, size_t n, uint64_t sent_ms) {
    for (size_t i = 0; i < n; i++) {
        leader_lease_answered(lease, others[i], TERM, sent_ms);
    }
}

/* --- The leader. --- */

static void a_voter_by_itself_needs_nobody(void **state) {
    struct leader_lease lease = lead(0);
    assert_true(leader_lease_is_valid(&lease, 0));
    assert_true(leader_lease_is_valid(&lease, UINT64_MAX));
    assert_true(leader_lease_confirmed_ms(&lease) == UINT64_MAX);
}

static void a_lease_needs_answers_of_a_majority(void **state) {
    static const struct {
        size_t n_others;
        size_t n_needed;
    } cases[] = {{1, 1}, {2, 1}, {3, 2}, {4, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (size_t n = 0; n <= cases[i].n_others; n++) {
            struct leader_lease lease = lead(cases[i].n_others);
            answer(&lease, n, SENT_MS);
            bool is_enough = n >= cases[i].n_needed;
            assert_int_equal(leader_lease_is_valid(&lease, SENT_MS), is_enough);
            assert_int_equal(leader_lease_confirmed_ms(&lease), is_enough ? SENT_MS : 0);
        }
    }
}

static void one_voter_that_answers_often_is_no_majority(void **state) {
    struct leader_lease lease = lead(4);
    for (uint64_t i = 0; i < 10; i++) {
        leader_lease_answered(&lease, 2, TERM, SENT_MS + i);
    }
    assert_false(leader_lease_is_valid(&lease, SENT_MS + 10));
    leader_lease_answered(&lease, 3, TERM, SENT_MS);
    assert_true(leader_lease_is_valid(&lease, SENT_MS + 10));
}

/* A transfer that fails at once: the voters were released, the leader goes on in its term. */
static void answers_from_before_it_was_given_up_do_not_count(void **state) {
    struct leader_lease lease = lead(2);
    leader_lease_end(&lease);
    leader_lease_begin(&lease, TERM, ELECTION_MS, SENT_MS + 10, true, others, 2);
    answer(&lease, 2, SENT_MS);
    assert_false(leader_lease_is_valid(&lease, SENT_MS + 10));
    answer(&lease, 1, SENT_MS + 10);
    assert_true(leader_lease_is_valid(&lease, SENT_MS + 10));
}

static void a_leader_that_does_not_vote_counts_the_others_only(void **state) {
    struct leader_lease lease;
    leader_lease_begin(&lease, TERM, ELECTION_MS, 0, false, others, 3);
    answer(&lease, 1, SENT_MS);
    assert_false(leader_lease_is_valid(&lease, SENT_MS));
    answer(&lease, 2, SENT_MS);
    assert_true(leader_lease_is_valid(&lease, SENT_MS));
    leader_lease_begin(&lease, TERM, ELECTION_MS, 0, false, others, 1);
    assert_false(leader_lease_is_valid(&lease, SENT_MS));
    answer(&lease, 1, SENT_MS);
    assert_true(leader_lease_is_valid(&lease, SENT_MS));
    leader_lease_begin(&lease, TERM, ELECTION_MS, 0, false, NULL, 0);
    assert_false(leader_lease_is_valid(&lease, 0));
}

static void answers_of_other_terms_do_not_count(void **state) {
    struct leader_lease lease = lead(2);
    leader_lease_answered(&lease, 2, TERM - 1, SENT_MS);
    leader_lease_answered(&lease, 3, TERM + 1, SENT_MS);
    leader_lease_answered(&lease, 3, 0, SENT_MS);
    assert_false(leader_lease_is_valid(&lease, SENT_MS));
    assert_int_equal(leader_lease_confirmed_ms(&lease), 0);
}

static void answers_of_strangers_do_not_count(void **state) {
    struct leader_lease lease = lead(2);
    leader_lease_answered(&lease, 99, TERM, SENT_MS);
    leader_lease_answered(&lease, 0, TERM, SENT_MS);
    leader_lease_answered(&lease, SELF, TERM, SENT_MS);
    assert_false(leader_lease_is_valid(&lease, SENT_MS));
}

static void an_answer_to_an_older_ping_takes_nothing_back(void **state) {
    struct leader_lease lease = lead(1);
    leader_lease_answered(&lease, 2, TERM, SENT_MS + 100);
    leader_lease_answered(&lease, 2, TERM, SENT_MS);
    assert_int_equal(leader_lease_confirmed_ms(&lease), SENT_MS + 100);
    leader_lease_answered(&lease, 2, TERM, SENT_MS + 101);
    assert_int_equal(leader_lease_confirmed_ms(&lease), SENT_MS + 101);
}

static void a_late_answer_counts_from_when_the_ping_was_sent(void **state) {
    struct leader_lease lease = lead(2);
    leader_lease_answered(&lease, 2, TERM, SENT_MS);
    /* It came so late that the lease had run out already. */
    assert_false(leader_lease_is_valid(&lease, SENT_MS + TRUSTED_MS));
    assert_false(leader_lease_is_valid(&lease, SENT_MS + 10 * ELECTION_MS));
}

static void a_lease_ends_a_margin_before_the_election_timeout(void **state) {
    struct leader_lease lease = lead(2);
    leader_lease_answered(&lease, 3, TERM, SENT_MS);
    /* SENT_MS may have been 999 us earlier than it is now, so the last whole millisecond is not
     * to be trusted. */
    for (uint64_t ms = 0; ms < 2 * ELECTION_MS; ms++) {
        assert_int_equal(leader_lease_is_valid(&lease, SENT_MS + ms), ms + 1 < TRUSTED_MS);
    }
}

static void the_margin_is_never_less_than_a_tenth(void **state) {
    for (uint32_t election_ms = 10; election_ms < 3000; election_ms += 10) {
        struct leader_lease lease;
        leader_lease_begin(&lease, TERM, election_ms, 0, true, others, 2);
        leader_lease_answered(&lease, 2, TERM, SENT_MS);
        uint64_t last_ms = (uint64_t)election_ms * 9 / 10 - 1;
        assert_false(leader_lease_is_valid(&lease, SENT_MS + last_ms));
        if (last_ms > 0) {
            assert_true(leader_lease_is_valid(&lease, SENT_MS + last_ms - 1));
        }
    }
}

static void an_election_timeout_that_has_no_tenth_gives_no_longer_lease(void **state) {
    /* Nine tenths of 5 ms would be 4.5: a lease that lasts for 5 would be too long. */
    for (uint32_t election_ms = 1; election_ms < 200; election_ms++) {
        struct leader_lease lease;
        leader_lease_begin(&lease, TERM, election_ms, 0, true, others, 2);
        leader_lease_answered(&lease, 2, TERM, SENT_MS);
        for (uint64_t ms = 0; ms <= election_ms; ms++) {
            if (leader_lease_is_valid(&lease, SENT_MS + ms)) {
                /* True time may be a millisecond ahead of what was read. */
                assert_true((ms + 1) * 10 <= (uint64_t)election_ms * 9);
            }
        }
    }
}

static void a_majority_is_confirmed_up_to_its_slowest_member(void **state) {
    struct leader_lease lease = lead(4);
    leader_lease_answered(&lease, 5, TERM, 400);
    assert_int_equal(leader_lease_confirmed_ms(&lease), 0);
    leader_lease_answered(&lease, 2, TERM, 100);
    assert_int_equal(leader_lease_confirmed_ms(&lease), 100);
    leader_lease_answered(&lease, 4, TERM, 300);
    assert_int_equal(leader_lease_confirmed_ms(&lease), 300);
    leader_lease_answered(&lease, 3, TERM, 200);
    assert_int_equal(leader_lease_confirmed_ms(&lease), 300);
    leader_lease_answered(&lease, 2, TERM, 500);
    assert_int_equal(leader_lease_confirmed_ms(&lease), 400);
}

static void answers_of_voters_that_stay_are_kept(void **state) {
    struct leader_lease lease = lead(2);
    leader_lease_answered(&lease, 3, TERM, SENT_MS);
    /* In another order, with new ones: one answer of four others is no majority. */
    leader_lease_set_voters(&lease, true, (const uint64_t[]){9, 8, 3, 2}, 4);
    assert_false(leader_lease_is_valid(&lease, SENT_MS));
    leader_lease_answered(&lease, 8, TERM, SENT_MS + 1);
    assert_int_equal(leader_lease_confirmed_ms(&lease), SENT_MS);
    /* Whoever goes takes his answer along. */
    leader_lease_set_voters(&lease, true, (const uint64_t[]){2, 8}, 2);
    assert_int_equal(leader_lease_confirmed_ms(&lease), SENT_MS + 1);
    leader_lease_set_voters(&lease, true, (const uint64_t[]){2, 3}, 2);
    assert_int_equal(leader_lease_confirmed_ms(&lease), 0);
    leader_lease_set_voters(&lease, true, NULL, 0);
    assert_true(leader_lease_is_valid(&lease, SENT_MS));
}

static void what_was_given_up_stays_given_up(void **state) {
    struct leader_lease lease = lead(2);
    answer(&lease, 2, SENT_MS);
    leader_lease_end(&lease);
    assert_false(leader_lease_is_valid(&lease, SENT_MS));
    answer(&lease, 2, SENT_MS + 1);
    leader_lease_answered(&lease, 2, 0, SENT_MS + 1);
    assert_false(leader_lease_is_valid(&lease, SENT_MS + 1));
    assert_int_equal(leader_lease_confirmed_ms(&lease), 0);
    lease = lead(0);
    leader_lease_end(&lease);
    assert_false(leader_lease_is_valid(&lease, 0));
}

static void a_new_term_begins_without_answers(void **state) {
    struct leader_lease lease = lead(2);
    answer(&lease, 2, SENT_MS);
    leader_lease_begin(&lease, TERM + 1, ELECTION_MS, 0, true, others, 2);
    assert_false(leader_lease_is_valid(&lease, SENT_MS));
    answer(&lease, 2, SENT_MS); /* late ones of the old term */
    assert_false(leader_lease_is_valid(&lease, SENT_MS));
    leader_lease_answered(&lease, 2, TERM + 1, SENT_MS);
    assert_true(leader_lease_is_valid(&lease, SENT_MS));
}

/* --- The voter. --- */

static void a_voter_that_starts_has_promised(void **state) {
    struct voter_promise promise;
    voter_promise_init(&promise, ELECTION_MS, SENT_MS);
    for (uint64_t candidate = 0; candidate < 4; candidate++) {
        assert_false(voter_promise_allows(&promise, candidate, SENT_MS));
        assert_false(voter_promise_allows(&promise, candidate, SENT_MS + ELECTION_MS));
        assert_true(voter_promise_allows(&promise, candidate, SENT_MS + ELECTION_MS + 1));
    }
}

/* The leader's own timeout may be ten times ours, or a tenth of it. */
static void a_ping_binds_for_as_long_as_it_says(void **state) {
    struct voter_promise promise;
    voter_promise_init(&promise, ELECTION_MS, 0);
    uint64_t now_ms = 10 * ELECTION_MS;
    const struct leader_word ping = {2, TERM, SENT_MS};
    voter_promise_make(&promise, &ping, 10 * ELECTION_MS, now_ms);
    assert_false(voter_promise_allows(&promise, 3, now_ms + 10 * ELECTION_MS));
    assert_true(voter_promise_allows(&promise, 3, now_ms + 10 * ELECTION_MS + 1));
    /* A shorter one does not cut it short. */
    voter_promise_make(&promise, &ping, ELECTION_MS / 10, now_ms + 1);
    assert_false(voter_promise_allows(&promise, 3, now_ms + 10 * ELECTION_MS));
    now_ms += 20 * ELECTION_MS;
    voter_promise_make(&promise, &ping, ELECTION_MS / 10, now_ms);
    assert_false(voter_promise_allows(&promise, 3, now_ms + ELECTION_MS / 10));
    assert_true(voter_promise_allows(&promise, 3, now_ms + ELECTION_MS / 10 + 1));
}

static void a_ping_binds_for_an_election_timeout(void **state) {
    struct voter_promise promise;
    voter_promise_init(&promise, ELECTION_MS, 0);
    voter_promise_make(&promise, &(struct leader_word){2, TERM, SENT_MS}, ELECTION_MS, SENT_MS);
    assert_false(voter_promise_allows(&promise, 3, SENT_MS));
    /* It may have come 999 us after what the clock told. */
    assert_false(voter_promise_allows(&promise, 3, SENT_MS + ELECTION_MS));
    assert_true(voter_promise_allows(&promise, 3, SENT_MS + ELECTION_MS + 1));
    voter_promise_make(&promise, &(struct leader_word){2, TERM, SENT_MS + 500}, ELECTION_MS,
                       SENT_MS + 500);
    assert_false(voter_promise_allows(&promise, 3, SENT_MS + 500 + ELECTION_MS));
    assert_true(voter_promise_allows(&promise, 3, SENT_MS + 500 + ELECTION_MS + 1));
}

static void who_was_promised_to_may_stand_again(void **state) {
    struct voter_promise promise;
    voter_promise_init(&promise, ELECTION_MS, 0);
    voter_promise_make(&promise, &(struct leader_word){2, TERM, SENT_MS}, ELECTION_MS, SENT_MS);
    assert_true(voter_promise_allows(&promise, 2, SENT_MS));
    voter_promise_make(&promise, &(struct leader_word){3, TERM, SENT_MS + 1}, ELECTION_MS,
                       SENT_MS + 1);
    assert_false(voter_promise_allows(&promise, 2, SENT_MS + 1));
    assert_true(voter_promise_allows(&promise, 3, SENT_MS + 1));
}

static void a_release_frees_until_the_next_ping(void **state) {
    struct voter_promise promise;
    const struct leader_word ping = {2, TERM, SENT_MS};
    voter_promise_init(&promise, ELECTION_MS, 0);
    voter_promise_make(&promise, &ping, ELECTION_MS, SENT_MS);
    voter_promise_release(&promise, &ping);
    assert_true(voter_promise_allows(&promise, 3, SENT_MS));
    voter_promise_make(&promise, &ping, ELECTION_MS, SENT_MS);
    assert_false(voter_promise_allows(&promise, 3, SENT_MS));
}

static void only_the_leaders_newest_word_releases(void **state) {
    const struct leader_word words[] = {
        {3, TERM, SENT_MS},     /* somebody else's */
        {2, TERM - 1, SENT_MS}, /* of another term */
        {2, TERM + 1, SENT_MS},
        {2, TERM, SENT_MS - 1}, /* older than the ping it promised for */
    };
    struct voter_promise promise;
    voter_promise_init(&promise, ELECTION_MS, SENT_MS);
    voter_promise_release(&promise, &words[0]); /* a start-up promise is nobody's to release */
    assert_false(voter_promise_allows(&promise, 3, SENT_MS));
    voter_promise_make(&promise, &(struct leader_word){2, TERM, SENT_MS}, ELECTION_MS, SENT_MS);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        voter_promise_release(&promise, &words[i]);
        assert_false(voter_promise_allows(&promise, 4, SENT_MS));
    }
}

/* --- Both, with clocks that differ and messages that take their time. --- */

enum {
    MODEL_RUNS = 200,
    MODEL_STEPS = 4000,
    MODEL_VOTERS_MAX = 5,
    MODEL_MESSAGES_MAX = 256,
    MODEL_DRIFT_PER_MILLE = 50,
    MODEL_CANDIDATE = 77 /* whoever it is, it is not the leader */
};

struct model_message {
    bool is_pong;
    size_t voter;
    uint64_t sent_ms; /* on the leader's clock */
    uint64_t at_us;
};

struct model {
    uint64_t now_us; /* true time, which nobody knows */
    size_t n_voters; /* the first one leads */
    struct {
        uint64_t offset_us;
        uint64_t rate_per_mille;
    } clocks[MODEL_VOTERS_MAX];
    struct leader_lease lease;
    struct voter_promise promises[MODEL_VOTERS_MAX];
    struct model_message messages[MODEL_MESSAGES_MAX];
    size_t n_messages;
    uint64_t n_valid;
    uint64_t n_invalid;
    uint64_t n_free_while_valid;
};

static uint64_t model_clock_ms(const struct model *model, size_t node) {
    return (model->clocks[node].offset_us +
            model->now_us * model->clocks[node].rate_per_mille / 1000) /
           1000;
}

static void model_send(struct model *model, struct model_message message) {
    /* Most are quick, since only those bring the lease close to the promise. */
    uint64_t delay_us = random_below(3) != 0 ? random_below(500) : random_below(ELECTION_MS * 1500);
    if (model->n_messages == MODEL_MESSAGES_MAX || random_below(8) == 0) {
        return; /* lost */
    }
    message.at_us = model->now_us + delay_us;
    model->messages[model->n_messages++] = message;
}

static void model_deliver(struct model *model) {
    for (size_t i = 0; i < model->n_messages;) {
        struct model_message message = model->messages[i];
        if (message.at_us > model->now_us) {
            i++;
            continue;
        }
        model->messages[i] = model->messages[--model->n_messages];
        if (message.is_pong) {
            leader_lease_answered(&model->lease, message.voter, TERM, message.sent_ms);
        } else {
            voter_promise_make(&model->promises[message.voter],
                               &(struct leader_word){SELF, TERM, message.sent_ms}, ELECTION_MS,
                               model_clock_ms(model, message.voter));
            message.is_pong = true;
            model_send(model, message);
        }
    }
}

static void model_init(struct model *model, size_t n_voters) {
    *model = (struct model){.n_voters = n_voters};
    uint64_t ids[MODEL_VOTERS_MAX];
    for (size_t i = 0; i < n_voters; i++) {
        ids[i] = i;
        model->clocks[i].offset_us = random_below(UINT64_C(1) << 40);
        /* The ends of what is allowed are where it hurts. */
        uint64_t spread = 2 * MODEL_DRIFT_PER_MILLE;
        uint64_t at = random_below(2) != 0 ? random_below(2) * spread : random_below(spread + 1);
        model->clocks[i].rate_per_mille = 1000 - MODEL_DRIFT_PER_MILLE + at;
        voter_promise_init(&model->promises[i], ELECTION_MS, model_clock_ms(model, i));
    }
    leader_lease_begin(&model->lease, TERM, ELECTION_MS, 0, true, ids + 1, n_voters - 1);
}

/* Raft lets a leader vote for nobody else while it leads, so only the others could elect another.
 */
static bool model_is_safe(struct model *model) {
    if (!leader_lease_is_valid(&model->lease, model_clock_ms(model, 0))) {
        model->n_invalid++;
        return true;
    }
    size_t n_free = 0;
    for (size_t i = 1; i < model->n_voters; i++) {
        n_free +=
            voter_promise_allows(&model->promises[i], MODEL_CANDIDATE, model_clock_ms(model, i));
    }
    model->n_valid++;
    model->n_free_while_valid += n_free > 0;
    return n_free < model->n_voters / 2 + 1;
}

static void model_run(struct model *model) {
    uint64_t ping_us = 0;
    for (size_t step = 0; step < MODEL_STEPS; step++) {
        model->now_us += 1 + random_below(3000);
        if (model->now_us >= ping_us) {
            for (size_t i = 1; i < model->n_voters; i++) {
                model_send(model,
                           (struct model_message){.voter = i, .sent_ms = model_clock_ms(model, 0)});
            }
            ping_us = model->now_us + random_below(2 * ELECTION_MS) * 1000;
        }
        if (random_below(1000) == 0) {
            size_t voter = 1 + random_below(model->n_voters - 1);
            voter_promise_init(&model->promises[voter], ELECTION_MS, model_clock_ms(model, voter));
        }
        model_deliver(model);
        assert_true(model_is_safe(model));
    }
}

/* The seed that was printed, given as the first argument, replays it. */
static void while_a_lease_is_valid_nobody_else_can_be_elected(void **state) {
    struct model model;
    uint64_t n_valid = 0;
    uint64_t n_invalid = 0;
    uint64_t n_free_while_valid = 0;
    for (size_t run = 0; run < MODEL_RUNS; run++) {
        model_init(&model, run % 2 == 0 ? 3 : 5);
        model_run(&model);
        n_valid += model.n_valid;
        n_invalid += model.n_invalid;
        n_free_while_valid += model.n_free_while_valid;
    }
    /* Or nothing was tested. */
    assert_true(n_valid > MODEL_RUNS * MODEL_STEPS / 10);
    assert_true(n_invalid > MODEL_RUNS * MODEL_STEPS / 10);
    assert_true(n_free_while_valid > MODEL_RUNS);
}

int main(int argc, char **argv) {
    random_seed(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_voter_by_itself_needs_nobody),
        cmocka_unit_test(a_lease_needs_answers_of_a_majority),
        cmocka_unit_test(one_voter_that_answers_often_is_no_majority),
        cmocka_unit_test(answers_from_before_it_was_given_up_do_not_count),
        cmocka_unit_test(a_leader_that_does_not_vote_counts_the_others_only),
        cmocka_unit_test(answers_of_other_terms_do_not_count),
        cmocka_unit_test(answers_of_strangers_do_not_count),
        cmocka_unit_test(an_answer_to_an_older_ping_takes_nothing_back),
        cmocka_unit_test(a_late_answer_counts_from_when_the_ping_was_sent),
        cmocka_unit_test(a_lease_ends_a_margin_before_the_election_timeout),
        cmocka_unit_test(the_margin_is_never_less_than_a_tenth),
        cmocka_unit_test(an_election_timeout_that_has_no_tenth_gives_no_longer_lease),
        cmocka_unit_test(a_majority_is_confirmed_up_to_its_slowest_member),
        cmocka_unit_test(answers_of_voters_that_stay_are_kept),
        cmocka_unit_test(what_was_given_up_stays_given_up),
        cmocka_unit_test(a_new_term_begins_without_answers),
        cmocka_unit_test(a_voter_that_starts_has_promised),
        cmocka_unit_test(a_ping_binds_for_an_election_timeout),
        cmocka_unit_test(a_ping_binds_for_as_long_as_it_says),
        cmocka_unit_test(who_was_promised_to_may_stand_again),
        cmocka_unit_test(a_release_frees_until_the_next_ping),
        cmocka_unit_test(only_the_leaders_newest_word_releases),
        cmocka_unit_test(while_a_lease_is_valid_nobody_else_can_be_elected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
