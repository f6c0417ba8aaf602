#include "raft/election_stagger.h"

#include <raft.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { HEARTBEAT_MS = 100, ELECTION_MS = 1000 };

static struct raft_config config_of(size_t n_voters) {
    struct raft_config config = {0};
    for (uint64_t id = 1; id <= n_voters; id++) {
        char address[16];
        snprintf(address, sizeof address, "n%u", (unsigned)id);
        assert_true(raft_config_add(&config, id, address, CONFIG_VOTER));
    }
    assert_true(raft_config_add(&config, 100, "standby", CONFIG_STANDBY));
    return config;
}

static void followers_wait_in_the_order_of_their_ids(void **state) {
    struct election_stagger stagger;
    election_stagger_init(&stagger, HEARTBEAT_MS, ELECTION_MS, 1);
    struct raft_config config = config_of(5);
    assert_int_equal(election_stagger_wait_ms(&stagger, &config, 1, 3), 20);
    assert_int_equal(election_stagger_wait_ms(&stagger, &config, 2, 3), 120);
    assert_int_equal(election_stagger_wait_ms(&stagger, &config, 4, 3), 220);
    assert_int_equal(election_stagger_wait_ms(&stagger, &config, 5, 3), 320);
    config = config_of(RAFT_CONFIG_SERVERS_MAX - 1);
    assert_int_equal(election_stagger_wait_ms(&stagger, &config, RAFT_CONFIG_SERVERS_MAX - 1, 1),
                     ELECTION_MS);
}

/* What raft waits for from time 0 on. */
static unsigned long long wait_of(struct raft *raft) {
    return raft_timeout(raft);
}

static void raft_waits_exactly_as_long(void **state) {
    static const struct {
        uint32_t heartbeat_ms;
        uint32_t election_ms;
    } cases[] = {{100, 1000}, {15, 150}, {20, 300}, {1, 10}, {500, 5000}, {6000, 60000}};
    struct raft_config config = config_of(3);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct raft raft;
        memset(&raft, 0, sizeof raft);
        assert_int_equal(raft_init(&raft, NULL, NULL, 2, "n2"), 0);
        raft.tracer = NULL;
        struct election_stagger stagger;
        election_stagger_init(&stagger, cases[i].heartbeat_ms, cases[i].election_ms, 9);
        election_stagger_apply(&stagger, &raft, &config, 2, 3);
        uint32_t wait_ms = cases[i].heartbeat_ms / 5 + cases[i].heartbeat_ms;
        assert_int_equal(wait_of(&raft), cases[i].election_ms + wait_ms);
        /* Another leader: this one is first now. */
        election_stagger_apply(&stagger, &raft, &config, 2, 1);
        assert_int_equal(wait_of(&raft), cases[i].election_ms + cases[i].heartbeat_ms / 5);
        /* Raft drew anew. */
        raft_set_election_timeout(&raft, cases[i].election_ms);
        election_stagger_forget(&stagger);
        election_stagger_apply(&stagger, &raft, &config, 2, 1);
        assert_int_equal(wait_of(&raft), cases[i].election_ms + cases[i].heartbeat_ms / 5);
        raft_close(&raft, NULL);
    }
}

/* Candidates that lost together must not go on together. */
static void later_draws_differ_between_members(void **state) {
    struct raft_config config = config_of(3);
    unsigned long long waits[2];
    for (unsigned i = 0; i < 2; i++) {
        struct raft raft;
        memset(&raft, 0, sizeof raft);
        assert_int_equal(raft_init(&raft, NULL, NULL, 2, "n2"), 0);
        raft.tracer = NULL;
        struct election_stagger stagger;
        election_stagger_init(&stagger, HEARTBEAT_MS, ELECTION_MS, 1 + i);
        election_stagger_apply(&stagger, &raft, &config, 2, 3);
        raft_set_election_timeout(&raft, ELECTION_MS);
        waits[i] = wait_of(&raft);
        raft_close(&raft, NULL);
    }
    assert_int_not_equal(waits[0], waits[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(followers_wait_in_the_order_of_their_ids),
        cmocka_unit_test(raft_waits_exactly_as_long),
        cmocka_unit_test(later_draws_differ_between_members),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
