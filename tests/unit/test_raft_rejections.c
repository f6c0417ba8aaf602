/* A real libraft that leads three, behind the guard: what a late rejection may do to it. */
#include "replication/raft_guard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { SELF = 1, OTHER = 2, THIRD = 3, HEARTBEAT_MS = 50, ELECTION_MS = 500 };

static struct {
    struct raft_guard guard;
    struct raft raft;
    struct raft_fsm fsm;
    raft_time now_ms;
    raft_io_tick_cb tick;
    raft_io_recv_cb recv;
} node;

static int io_init(struct raft_io *io, raft_id id, const char *address) {
    return 0;
}

static void io_close(struct raft_io *io, raft_io_close_cb closed) {
    closed(io);
}

/* A log with the configuration alone. */
static int io_load(struct raft_io *io, raft_term *term, raft_id *vote,
                   struct raft_snapshot **snapshot, raft_index *start_index,
                   struct raft_entry **entries, size_t *n_entries) {
    struct raft_configuration configuration;
    raft_configuration_init(&configuration);
    assert_int_equal(raft_configuration_add(&configuration, SELF, "1", RAFT_VOTER), 0);
    assert_int_equal(raft_configuration_add(&configuration, OTHER, "2", RAFT_VOTER), 0);
    assert_int_equal(raft_configuration_add(&configuration, THIRD, "3", RAFT_VOTER), 0);
    *entries = raft_calloc(1, sizeof **entries);
    assert_non_null(*entries);
    (*entries)[0].term = 1;
    (*entries)[0].type = RAFT_CHANGE;
    assert_int_equal(raft_configuration_encode(&configuration, &(*entries)[0].buf), 0);
    (*entries)[0].batch = (*entries)[0].buf.base;
    raft_configuration_close(&configuration);
    *term = 1;
    *vote = 0;
    *snapshot = NULL;
    *start_index = 1;
    *n_entries = 1;
    return 0;
}

static int io_start(struct raft_io *io, unsigned tick_ms, raft_io_tick_cb tick,
                    raft_io_recv_cb recv) {
    node.tick = tick;
    node.recv = recv;
    return 0;
}

static int io_set_term(struct raft_io *io, raft_term term) {
    return 0;
}

static int io_set_vote(struct raft_io *io, raft_id id) {
    return 0;
}

static int io_send(struct raft_io *io, struct raft_io_send *request,
                   const struct raft_message *message, raft_io_send_cb done) {
    done(request, 0);
    return 0;
}

static raft_time io_time(struct raft_io *io) {
    return node.now_ms;
}

static int io_random(struct raft_io *io, int min, int max) {
    return min;
}

static void failed(void *data, const char *what, int status) {
    fail_msg("%s", what);
}

static const struct raft_guard_callbacks callbacks = {.failed = failed};

/* Elected in term 2 by OTHER, which then says that it has the first entry. */
static int become_leader(void **state) {
    node.guard = (struct raft_guard){.io = {.version = 2,
                                            .init = io_init,
                                            .close = io_close,
                                            .load = io_load,
                                            .start = io_start,
                                            .set_term = io_set_term,
                                            .set_vote = io_set_vote,
                                            .send = io_send,
                                            .time = io_time,
                                            .random = io_random}};
    node.fsm = (struct raft_fsm){.version = 1};
    node.now_ms = 1000;
    raft_guard_install(&node.guard, NULL, SELF, &callbacks, NULL);
    assert_int_equal(raft_init(&node.raft, &node.guard.io, &node.fsm, SELF, "1"), 0);
    raft_set_election_timeout(&node.raft, ELECTION_MS);
    raft_set_heartbeat_timeout(&node.raft, HEARTBEAT_MS);
    assert_int_equal(raft_start(&node.raft), 0);

    node.now_ms += 2 * ELECTION_MS + 1;
    node.tick(&node.guard.io);
    assert_int_equal(raft_state(&node.raft), RAFT_CANDIDATE);
    struct raft_message vote = {
        .type = RAFT_REQUEST_VOTE_RESULT, .server_id = OTHER, .server_address = "2"};
    vote.request_vote_result.version = 2;
    vote.request_vote_result.term = 2;
    vote.request_vote_result.vote_granted = true;
    node.recv(&node.guard.io, &vote);
    assert_int_equal(raft_state(&node.raft), RAFT_LEADER);

    struct raft_message has = {
        .type = RAFT_APPEND_ENTRIES_RESULT, .server_id = OTHER, .server_address = "2"};
    has.append_entries_result.term = 2;
    has.append_entries_result.last_log_index = 1;
    node.recv(&node.guard.io, &has);
    raft_index match = 0;
    assert_int_equal(raft_match_index(&node.raft, OTHER, &match), 0);
    assert_int_equal(match, 1);
    return 0;
}

static int end(void **state) {
    raft_close(&node.raft, NULL);
    return 0;
}

static struct raft_message rejection(raft_id from, raft_term term, raft_index rejected,
                                     raft_index last) {
    struct raft_message message = {.type = RAFT_APPEND_ENTRIES_RESULT, .server_id = from};
    message.append_entries_result.term = term;
    message.append_entries_result.rejected = rejected;
    message.append_entries_result.last_log_index = last;
    return message;
}

static void what_a_follower_has_it_cannot_have_rejected(void **state) {
    struct raft_message late = rejection(OTHER, 2, 1, 0);
    assert_false(raft_guard_admit(&node.guard, &late));
    assert_int_equal(node.guard.results_dropped, 1);
}

static void a_rejection_leads_nobody_back_behind_what_is_there(void **state) {
    struct raft_message behind = rejection(OTHER, 2, 5, 0);
    assert_true(raft_guard_admit(&node.guard, &behind));
    assert_int_equal(behind.append_entries_result.last_log_index, 1);
}

static void a_follower_of_which_nothing_is_known_may_reject_anything(void **state) {
    struct raft_message probe = rejection(THIRD, 2, 1, 0);
    assert_true(raft_guard_admit(&node.guard, &probe));
    assert_int_equal(probe.append_entries_result.last_log_index, 0);
}

/* It is how a leader learns that it is none any more. */
static void a_newer_term_always_gets_through(void **state) {
    struct raft_message newer = rejection(OTHER, 3, 1, 0);
    assert_true(raft_guard_admit(&node.guard, &newer));
    newer.server_address = "2";
    node.recv(&node.guard.io, &newer);
    assert_int_equal(raft_state(&node.raft), RAFT_FOLLOWER);
}

#define LEADER_TEST(name) cmocka_unit_test_setup_teardown(name, become_leader, end)

int main(void) {
    const struct CMUnitTest tests[] = {
        LEADER_TEST(what_a_follower_has_it_cannot_have_rejected),
        LEADER_TEST(a_rejection_leads_nobody_back_behind_what_is_there),
        LEADER_TEST(a_follower_of_which_nothing_is_known_may_reject_anything),
        LEADER_TEST(a_newer_term_always_gets_through),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
