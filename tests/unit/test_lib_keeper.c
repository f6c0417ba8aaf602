/* The time rules of liblease with a clock that the test turns. */
#include "lease/lib_keeper.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

enum { BEGIN_MS = 1000000, TTL_MS = 10000 };

static struct lib_keeper started(enum lease_strategy strategy) {
    struct lib_keeper keeper;
    lib_keeper_start(&keeper, strategy, TTL_MS, BEGIN_MS);
    return keeper;
}

static void validity_counts_from_the_sending_less_a_tenth(void **state) {
    struct lib_keeper keeper = started(LEASE_STRATEGY_HALF);
    assert_true(lib_keeper_valid_until_ms(&keeper) == BEGIN_MS + 8999);
    assert_true(lib_keeper_valid_for_ms(&keeper, BEGIN_MS) == 8999);
    assert_true(lib_keeper_valid_for_ms(&keeper, BEGIN_MS + 8998) == 1);
    assert_true(lib_keeper_valid_for_ms(&keeper, BEGIN_MS + 8999) == 0);
    assert_true(lib_keeper_valid_for_ms(&keeper, BEGIN_MS + 3600000) == 0);
}

static void a_renewal_counts_from_when_it_was_sent_not_answered(void **state) {
    struct lib_keeper keeper = started(LEASE_STRATEGY_HALF);
    lib_keeper_asked(&keeper, BEGIN_MS + 5000);
    assert_int_equal(lib_keeper_renewed(&keeper, TTL_MS, BEGIN_MS + 8000), 0);
    assert_true(lib_keeper_valid_until_ms(&keeper) == BEGIN_MS + 5000 + 8999);
}

static void it_is_renewed_at_half_of_its_time(void **state) {
    struct lib_keeper keeper = started(LEASE_STRATEGY_HALF);
    assert_true(lib_keeper_wake_ms(&keeper) == BEGIN_MS + 5000);
    assert_int_equal(lib_keeper_poll(&keeper, BEGIN_MS + 4999), 0);
    assert_int_equal(lib_keeper_poll(&keeper, BEGIN_MS + 5000), LIB_KEEPER_RENEW);
    lib_keeper_asked(&keeper, BEGIN_MS + 5000);
    assert_int_equal(lib_keeper_poll(&keeper, BEGIN_MS + 5001), 0);
}

static void a_renewal_that_is_late_is_given_up(void **state) {
    struct lib_keeper keeper = started(LEASE_STRATEGY_HALF);
    lib_keeper_asked(&keeper, BEGIN_MS + 5000);
    uint64_t late_ms = lib_keeper_wake_ms(&keeper);
    assert_true(late_ms > BEGIN_MS + 5000);
    assert_true(late_ms < lib_keeper_valid_until_ms(&keeper));
    assert_int_equal(lib_keeper_poll(&keeper, late_ms), LIB_KEEPER_LATE);
}

static void a_failure_is_jeopardy_once_then_restored(void **state) {
    struct lib_keeper keeper = started(LEASE_STRATEGY_HALF);
    lib_keeper_asked(&keeper, BEGIN_MS + 5000);
    assert_int_equal(lib_keeper_failed(&keeper, BEGIN_MS + 5100), LIB_KEEPER_JEOPARDY);
    assert_int_equal(keeper.state, LEASE_SESSION_JEOPARDY);
    /* Still valid, and asked for again soon. */
    assert_true(lib_keeper_valid_for_ms(&keeper, BEGIN_MS + 5100) > 0);
    uint64_t again_ms = lib_keeper_wake_ms(&keeper);
    assert_true(again_ms > BEGIN_MS + 5100 && again_ms < BEGIN_MS + 6200);
    assert_int_equal(lib_keeper_poll(&keeper, again_ms), LIB_KEEPER_RENEW);
    lib_keeper_asked(&keeper, again_ms);
    assert_int_equal(lib_keeper_failed(&keeper, again_ms + 10), 0);
    lib_keeper_asked(&keeper, again_ms + 1000);
    assert_int_equal(lib_keeper_renewed(&keeper, TTL_MS, again_ms + 1010), LIB_KEEPER_RESTORED);
    assert_int_equal(keeper.state, LEASE_SESSION_VALID);
}

static void a_loss_is_told_once_and_is_for_good(void **state) {
    struct lib_keeper keeper = started(LEASE_STRATEGY_HALF);
    lib_keeper_asked(&keeper, BEGIN_MS + 5000);
    assert_int_equal(lib_keeper_poll(&keeper, BEGIN_MS + 8999), LIB_KEEPER_LOST);
    assert_int_equal(lib_keeper_poll(&keeper, BEGIN_MS + 9000), 0);
    assert_int_equal(lib_keeper_renewed(&keeper, TTL_MS, BEGIN_MS + 9001), 0);
    assert_true(lib_keeper_valid_for_ms(&keeper, BEGIN_MS + 9001) == 0);
    assert_int_equal(keeper.state, LEASE_SESSION_LOST);
    assert_true(lib_keeper_wake_ms(&keeper) == LIB_KEEPER_NEVER);
}

static void an_answer_that_comes_after_the_end_does_not_bring_it_back(void **state) {
    /* A process that was stopped: nobody polled, and the answer lies in its socket. */
    struct lib_keeper keeper = started(LEASE_STRATEGY_HALF);
    lib_keeper_asked(&keeper, BEGIN_MS + 8000);
    assert_int_equal(lib_keeper_renewed(&keeper, TTL_MS, BEGIN_MS + 9000), LIB_KEEPER_LOST);
    assert_true(lib_keeper_valid_for_ms(&keeper, BEGIN_MS + 9000) == 0);
}

static void the_end_at_the_server_is_a_loss(void **state) {
    struct lib_keeper keeper = started(LEASE_STRATEGY_HALF);
    lib_keeper_asked(&keeper, BEGIN_MS + 5000);
    assert_int_equal(lib_keeper_renewed(&keeper, 0, BEGIN_MS + 5001), LIB_KEEPER_LOST);
    keeper = started(LEASE_STRATEGY_HALF);
    assert_int_equal(lib_keeper_ended(&keeper), LIB_KEEPER_LOST);
    assert_int_equal(lib_keeper_ended(&keeper), 0);
}

static void strategies_renew_when_they_should(void **state) {
    struct lib_keeper keeper = started(LEASE_STRATEGY_CONTINUOUS);
    assert_true(lib_keeper_wake_ms(&keeper) == BEGIN_MS + TTL_MS / 8);
    keeper = started(LEASE_STRATEGY_ACTIVITY);
    assert_int_equal(lib_keeper_poll(&keeper, BEGIN_MS + 6000), 0);
    lib_keeper_touch(&keeper);
    assert_int_equal(lib_keeper_poll(&keeper, BEGIN_MS + 4000), 0);
    assert_int_equal(lib_keeper_poll(&keeper, BEGIN_MS + 6000), LIB_KEEPER_RENEW);
    lib_keeper_asked(&keeper, BEGIN_MS + 6000);
    (void)lib_keeper_renewed(&keeper, TTL_MS, BEGIN_MS + 6001);
    assert_int_equal(lib_keeper_poll(&keeper, BEGIN_MS + 12000), 0);
    for (enum lease_strategy each = LEASE_STRATEGY_EXPLICIT; each <= LEASE_STRATEGY_NEVER; each++) {
        keeper = started(each);
        assert_int_equal(lib_keeper_poll(&keeper, BEGIN_MS + 8000), 0);
        assert_true(lib_keeper_wake_ms(&keeper) == lib_keeper_valid_until_ms(&keeper));
    }
    keeper = started(LEASE_STRATEGY_EXPLICIT);
    lib_keeper_want(&keeper);
    assert_int_equal(lib_keeper_poll(&keeper, BEGIN_MS + 1), LIB_KEEPER_RENEW);
}

static void a_shorter_ttl_counts_before_the_server_answers(void **state) {
    struct lib_keeper keeper = started(LEASE_STRATEGY_HALF);
    lib_keeper_asked(&keeper, BEGIN_MS + 100);
    lib_keeper_change(&keeper, 2000, BEGIN_MS + 150);
    assert_true(lib_keeper_valid_until_ms(&keeper) <= BEGIN_MS + 2000);
    /* The renewal was answered before the change, or after: nobody knows. */
    (void)lib_keeper_renewed(&keeper, TTL_MS, BEGIN_MS + 200);
    assert_true(lib_keeper_valid_until_ms(&keeper) <= BEGIN_MS + 100 + 2000);
    (void)lib_keeper_changed(&keeper, 2000, BEGIN_MS + 150, BEGIN_MS + 300);
    assert_true(lib_keeper_valid_until_ms(&keeper) == BEGIN_MS + 150 + 1799);
}

/* The server counts it anew: the last renewal may be longer ago than the new TTL is. */
static void a_shorter_ttl_counts_from_when_it_was_asked_for(void **state) {
    struct lib_keeper keeper = started(LEASE_STRATEGY_HALF);
    lib_keeper_change(&keeper, 2000, BEGIN_MS + 4000);
    assert_int_equal(lib_keeper_poll(&keeper, BEGIN_MS + 4000), 0);
    assert_true(lib_keeper_valid_until_ms(&keeper) == BEGIN_MS + 4000 + 1799);
    assert_int_equal(lib_keeper_changed(&keeper, 2000, BEGIN_MS + 4000, BEGIN_MS + 4100), 0);
    assert_true(lib_keeper_valid_until_ms(&keeper) == BEGIN_MS + 4000 + 1799);
    /* Until the server has taken it, the old one counts. */
    keeper = started(LEASE_STRATEGY_HALF);
    lib_keeper_change(&keeper, 5000, BEGIN_MS + 8000);
    assert_true(lib_keeper_valid_until_ms(&keeper) == BEGIN_MS + 8999);
}

static void a_longer_ttl_counts_from_the_answer_on(void **state) {
    struct lib_keeper keeper = started(LEASE_STRATEGY_HALF);
    lib_keeper_change(&keeper, 60000, BEGIN_MS + 100);
    assert_true(lib_keeper_valid_until_ms(&keeper) == BEGIN_MS + 8999);
    (void)lib_keeper_changed(&keeper, 60000, BEGIN_MS + 100, BEGIN_MS + 200);
    assert_true(lib_keeper_valid_until_ms(&keeper) == BEGIN_MS + 100 + 53999);
}

/* ---- a server beside it ---- */

struct world {
    uint64_t now_ms;
    uint64_t server_ends_ms; /* by the server's clock, in the holder's milliseconds */
    uint64_t random;
};

static uint64_t draw(struct world *world, uint64_t below) {
    world->random = world->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (world->random >> 33) % below;
}

/* Requests and answers take any time or are lost, the server's clock runs up to 5 % fast, the
 * process stalls: while it says that it is valid, it is valid at the server. */
static void never_valid_longer_than_at_the_server(void **state) {
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct world world = {.now_ms = BEGIN_MS, .random = seed};
        struct lib_keeper keeper;
        uint64_t ttl_ms = 100 + draw(&world, 20000);
        uint64_t server_ttl_ms = ttl_ms - ttl_ms * draw(&world, 6) / 100;
        lib_keeper_start(&keeper, LEASE_STRATEGY_HALF, (int64_t)ttl_ms, world.now_ms);
        world.now_ms += draw(&world, ttl_ms / 4);
        world.server_ends_ms = BEGIN_MS + draw(&world, world.now_ms - BEGIN_MS + 1) + server_ttl_ms;
        for (unsigned i = 0; i < 200 && keeper.state < LEASE_SESSION_LOST; i++) {
            if (lib_keeper_valid_for_ms(&keeper, world.now_ms) > 0) {
                assert_true(world.now_ms < world.server_ends_ms);
            }
            unsigned acts = lib_keeper_poll(&keeper, world.now_ms);
            if ((acts & LIB_KEEPER_RENEW) == 0) {
                world.now_ms += 1 + draw(&world, ttl_ms / 10);
                continue;
            }
            uint64_t sent_ms = world.now_ms;
            lib_keeper_asked(&keeper, sent_ms);
            uint64_t arrived_ms = sent_ms + draw(&world, ttl_ms / 3);
            bool is_renewed = arrived_ms < world.server_ends_ms && draw(&world, 4) != 0;
            if (is_renewed) {
                world.server_ends_ms = arrived_ms + server_ttl_ms;
            }
            world.now_ms = arrived_ms + draw(&world, ttl_ms / 3);
            if (is_renewed && draw(&world, 4) != 0) {
                (void)lib_keeper_renewed(&keeper, (int64_t)ttl_ms, world.now_ms);
            } else {
                (void)lib_keeper_failed(&keeper, world.now_ms);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(validity_counts_from_the_sending_less_a_tenth),
        cmocka_unit_test(a_renewal_counts_from_when_it_was_sent_not_answered),
        cmocka_unit_test(it_is_renewed_at_half_of_its_time),
        cmocka_unit_test(a_renewal_that_is_late_is_given_up),
        cmocka_unit_test(a_failure_is_jeopardy_once_then_restored),
        cmocka_unit_test(a_loss_is_told_once_and_is_for_good),
        cmocka_unit_test(an_answer_that_comes_after_the_end_does_not_bring_it_back),
        cmocka_unit_test(the_end_at_the_server_is_a_loss),
        cmocka_unit_test(strategies_renew_when_they_should),
        cmocka_unit_test(a_shorter_ttl_counts_before_the_server_answers),
        cmocka_unit_test(a_shorter_ttl_counts_from_when_it_was_asked_for),
        cmocka_unit_test(a_longer_ttl_counts_from_the_answer_on),
        cmocka_unit_test(never_valid_longer_than_at_the_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
