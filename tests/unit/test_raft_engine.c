#include "raft_engine_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static uint64_t last(void) {
    return raft_engine_last_index(fixture.engine);
}

static uint64_t term(void) {
    return raft_engine_term(fixture.engine);
}

static enum raft_engine_role role(void) {
    return raft_engine_role(fixture.engine);
}

static int teardown(void **state) {
    assert_false(fixture.has_failed);
    fixture_close();
    return 0;
}

/* --- Starting. --- */

static void the_library_is_the_one_we_know(void **state) {
    char error[256] = "";
    assert_int_equal(raft_engine_probe(error, sizeof error), STATUS_OK);
}

static void a_joiner_takes_what_a_leader_it_does_not_know_sends(void **state) {
    fixture_create(4);
    struct raft_engine_loaded loaded = {.first_index = 1};
    assert_int_equal(fixture_start(&loaded), STATUS_OK);
    assert_int_equal(raft_engine_configuration(fixture.engine)->n, 0);
    struct log_item *items[] = {fixture_change(1, 1, "VVV"), fixture_command(2, 3),
                                fixture_change(3, 3, "VVVb")};
    fixture_receive_append(2, 3, 0, 0, 2, items, 3);
    assert_int_equal(last(), 3);
    assert_int_equal(term(), 3);
    assert_int_equal(raft_engine_leader_id(fixture.engine), 2);
    assert_int_equal(raft_engine_configuration(fixture.engine)->n, 4);
    assert_true(raft_engine_has_uncommitted_change(fixture.engine));
    fixture_written();
    assert_int_equal(fixture.applied_index, 2);
    fixture_receive_commands(2, 3, 3, 3, 3, 0);
    assert_false(raft_engine_has_uncommitted_change(fixture.engine));
    assert_int_equal(fixture_last_sent(MESSAGE_APPEND_RESULT, 0)->view.append_result.last_index, 3);
}

static void a_restarted_node_knows_its_log_and_snapshot(void **state) {
    struct snapshot_meta meta = fixture_meta(40, 3, 20, "VVV");
    struct log_item *items[] = {fixture_command(39, 3), fixture_command(40, 3),
                                fixture_change(41, 4, "VVVb"), fixture_command(42, 4)};
    fixture_create(1);
    struct raft_engine_loaded loaded = {
        .term = 5, .vote = 2, .snapshot = &meta, .first_index = 39, .items = items, .n_items = 4};
    assert_int_equal(fixture_start(&loaded), STATUS_OK);
    for (size_t i = 0; i < 4; i++) {
        log_item_release(items[i]);
    }
    assert_int_equal(last(), 42);
    assert_int_equal(term(), 5);
    assert_int_equal(raft_engine_applied_index(fixture.engine), 40);
    assert_int_equal(raft_engine_configuration(fixture.engine)->n, 4);
    assert_true(raft_engine_has_uncommitted_change(fixture.engine));
    /* It has voted in this term. */
    fixture_receive_vote(3, (struct message_vote){.term = 5, .last_index = 99, .last_term = 4});
    assert_false(fixture_last_sent(MESSAGE_VOTE_RESULT, 0)->view.vote_result.is_granted);
    /* A leader without the change cuts it off. */
    fixture_receive_commands(2, 6, 40, 3, 40, 1);
    assert_int_equal(raft_engine_configuration(fixture.engine)->n, 3);
    assert_int_equal(last(), 41);
}

static void what_cannot_be_is_refused(void **state) {
    struct snapshot_meta meta = fixture_meta(40, 3, 20, "VVV");
    struct snapshot_meta unreadable = meta;
    unreadable.configuration[0] = 9;
    struct log_item *change = fixture_change(1, 1, "VVV");
    struct log_item *command = fixture_command(1, 1);
    struct log_item *next = fixture_command(2, 1);
    struct log_item *later = fixture_command(2, 9);
    struct log_item *far = fixture_command(42, 3);
    struct log_item *other = fixture_command(40, 2);
    struct log_item *torn = fixture_change(1, 1, "VVV");
    torn->size -= 8;
    struct {
        uint64_t term;
        uint64_t vote;
        const struct snapshot_meta *snapshot;
        uint64_t first_index;
        struct log_item *items[2];
        size_t n;
    } cases[] = {
        {0, 1, NULL, 1, {0}, 0},                 /* a vote without a term */
        {0, 0, NULL, 1, {change}, 1},            /* a log without a term */
        {UINT64_C(1) << 62, 0, NULL, 1, {0}, 0}, /* a forged term */
        {2, 0, &meta, 41, {0}, 0},               /* a snapshot of a later term */
        {5, 0, &unreadable, 41, {0}, 0},
        {5, 0, NULL, 1, {command}, 1},        /* no configuration first */
        {5, 0, NULL, 1, {change, later}, 2},  /* an entry of a later term */
        {5, 0, NULL, 1, {change, change}, 2}, /* one index twice */
        {5, 0, NULL, 2, {next}, 1},           /* entries are missing */
        {5, 0, &meta, 42, {far}, 1},          /* entries are missing behind the snapshot */
        {5, 0, &meta, 40, {other}, 1},        /* another entry than the snapshot's */
        {5, 0, &meta, 40, {0}, 0},            /* the log ends before the snapshot */
        {5, 0, NULL, 1, {torn}, 1},           /* a configuration that cannot be read */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture_create(1);
        struct raft_engine_loaded loaded = {.term = cases[i].term,
                                            .vote = cases[i].vote,
                                            .snapshot = cases[i].snapshot,
                                            .first_index = cases[i].first_index,
                                            .items = cases[i].items,
                                            .n_items = cases[i].n};
        assert_int_equal(fixture_start(&loaded), STATUS_CORRUPT);
        assert_int_equal(fixture.n_sent, 0);
        fixture_close();
    }
    struct log_item *items[] = {change, command, next, later, far, other, torn};
    for (size_t i = 0; i < sizeof items / sizeof items[0]; i++) {
        log_item_release(items[i]);
    }
}

/* --- Leading. --- */

static void a_leader_is_elected_by_a_pre_vote_and_a_vote(void **state) {
    fixture_boot(1, "VVV", 1, 0);
    fixture_poll_at_deadline();
    assert_int_equal(role(), ENGINE_CANDIDATE);
    assert_int_equal(fixture_count_sent(MESSAGE_VOTE, 0), 2);
    assert_true(fixture_last_sent(MESSAGE_VOTE, 0)->view.vote.is_pre_vote);
    assert_int_equal(fixture.n_votes_stored, 0);
    fixture_receive_vote_result(3, 2, true, true);
    assert_int_equal(fixture.term, 2);
    assert_int_equal(fixture.vote, 1);
    assert_false(fixture_last_sent(MESSAGE_VOTE, 0)->view.vote.is_pre_vote);
    size_t from = fixture.n_sent;
    fixture_receive_vote_result(2, 2, false, true);
    assert_int_equal(role(), ENGINE_LEADER);
    assert_int_equal(raft_engine_leader_id(fixture.engine), 1);
    /* The role was told before any message of a leader left. */
    assert_int_equal(fixture.n_sent_at_role_change, from);
    assert_int_equal(fixture_count_sent(MESSAGE_APPEND, from), 2);
}

/* A candidate waits long; a leader must not go on waiting as one. */
static void a_new_leader_sends_heartbeats_at_once(void **state) {
    fixture_boot(1, "VVV", 1, 0);
    fixture_lead();
    assert_true(raft_engine_deadline_ms(fixture.engine, fixture.now_ms) <=
                fixture.now_ms + FIXTURE_HEARTBEAT_MS);
    size_t from = fixture.n_sent;
    fixture.now_ms += FIXTURE_HEARTBEAT_MS;
    fixture_poll();
    assert_true(fixture_count_sent(MESSAGE_APPEND, from) >= 2);
}

static void every_leader_adds_an_entry_of_its_own_term(void **state) {
    fixture_boot(1, "VVV", 1, 0);
    fixture_lead();
    fixture_poll();
    assert_int_equal(last(), 2);
    assert_int_equal(raft_engine_item(fixture.engine, 2)->type, LOG_BARRIER);
    assert_int_equal(raft_engine_item(fixture.engine, 2)->term, term());
    fixture_poll();
    assert_int_equal(last(), 2);
}

static void an_entry_is_applied_when_a_majority_has_it(void **state) {
    fixture_boot(1, "VVV", 1, 0);
    fixture_lead_committed();
    uint64_t index = last() + 1;
    fixture_propose(1);
    assert_int_equal(last(), index);
    assert_int_equal(fixture.written_last, index);
    assert_int_equal(raft_engine_item(fixture.engine, index)->term, term());
    /* It leaves before it is on this node's own disk. */
    const struct fixture_sent *sent = fixture_last_sent(MESSAGE_APPEND, 0);
    assert_int_equal(sent->view.append.prev_index, index - 1);
    assert_int_equal(sent->view.append.n_entries, 1);
    fixture_receive_result(2, term(), 0, index);
    assert_int_equal(raft_engine_match_index(fixture.engine, 2), index);
    assert_int_not_equal(fixture.applied_index, index);
    fixture_written();
    assert_int_equal(fixture.applied_index, index);
    fixture_receive_result(3, term(), 0, index);
    assert_int_equal(raft_engine_commit_index(fixture.engine), index);
}

static void a_follower_refuses_proposals(void **state) {
    fixture_boot(1, "VVV", 1, 0);
    uint8_t bytes[1];
    assert_int_equal(raft_engine_propose(fixture.engine, bytes, 1, fixture.now_ms),
                     STATUS_NO_LEADER);
    assert_int_equal(last(), 1);
}

static void apply_may_propose(void **state) {
    fixture_boot(1, "V", 1, 0);
    fixture_propose(1);
    uint64_t index = last();
    fixture.proposes_in_apply = true;
    fixture_written();
    assert_int_equal(last(), index + 1);
    assert_int_equal(fixture.applied_index, index + 1);
}

static void results_of_strangers_are_dropped(void **state) {
    fixture_boot(1, "VVV", 1, 0);
    fixture_lead_committed();
    uint64_t before = term();
    fixture_receive_result(9, before + 5, 1, 0);
    fixture_receive_vote_result(9, before + 5, false, false);
    fixture_receive_result(1, before + 5, 1, 0);
    assert_int_equal(term(), before);
    assert_int_equal(role(), ENGINE_LEADER);
    /* A member's do count. */
    fixture_receive_result(3, before + 5, 1, 0);
    assert_int_equal(term(), before + 5);
    assert_int_equal(role(), ENGINE_FOLLOWER);
    assert_int_equal(raft_engine_leader_id(fixture.engine), 0);
}

static void a_follower_is_told_of_a_commit_at_once(void **state) {
    fixture_boot(1, "VVV", 1, 0);
    fixture_lead_committed();
    size_t from = fixture.n_sent;
    raft_engine_announce_commit(fixture.engine, 2);
    const struct fixture_sent *sent = fixture_last_sent(MESSAGE_APPEND, from);
    assert_int_equal(sent->to_id, 2);
    assert_int_equal(sent->view.append.commit, last());
    assert_int_equal(sent->view.append.prev_index, last());
    from = fixture.n_sent;
    raft_engine_announce_commit(fixture.engine, 3); /* does not have it */
    assert_int_equal(fixture.n_sent, from);
}

/* --- Following. --- */

static void an_entry_is_acknowledged_when_it_is_on_disk(void **state) {
    fixture_boot(2, "VVV", 1, 0);
    fixture_receive_commands(1, 2, 1, 1, 1, 3);
    fixture_receive_commands(1, 2, 4, 2, 1, 2);
    assert_int_equal(fixture_count_sent(MESSAGE_APPEND_RESULT, 0), 0);
    assert_int_equal(fixture.n_writes, 2);
    raft_engine_written(fixture.engine, fixture.now_ms);
    assert_int_equal(fixture_last_sent(MESSAGE_APPEND_RESULT, 0)->view.append_result.last_index, 4);
    raft_engine_written(fixture.engine, fixture.now_ms);
    assert_int_equal(fixture_last_sent(MESSAGE_APPEND_RESULT, 0)->view.append_result.last_index, 6);
    fixture.n_writes = 0;
    assert_int_equal(raft_engine_heard_ms(fixture.engine), fixture.now_ms);
}

static void a_truncated_write_is_not_acknowledged(void **state) {
    fixture_boot(2, "VVV", 1, 0);
    fixture_receive_commands(1, 2, 1, 1, 1, 3);
    fixture_receive_commands(3, 3, 2, 2, 1, 1);
    assert_int_equal(last(), 3);
    raft_engine_written(fixture.engine, fixture.now_ms); /* 2 to 4; 3 and 4 are gone */
    const struct fixture_sent *sent = fixture_last_sent(MESSAGE_APPEND_RESULT, 0);
    assert_int_equal(sent->to_id, 3);
    assert_int_equal(sent->view.append_result.last_index, 2);
    raft_engine_written(fixture.engine, fixture.now_ms);
    sent = fixture_last_sent(MESSAGE_APPEND_RESULT, 0);
    assert_int_equal(sent->view.append_result.last_index, 3);
}

static void what_replaces_a_loaded_entry_was_not_loaded(void **state) {
    fixture_boot(2, "VVV", 1, 3);
    assert_int_equal(raft_engine_loaded_index(fixture.engine), 4);
    fixture_receive_commands(1, 2, 4, 1, 1, 2);
    assert_int_equal(raft_engine_loaded_index(fixture.engine), 4);
    fixture_receive_commands(3, 3, 2, 1, 1, 2); /* 3 and 4 are others now */
    assert_int_equal(last(), 4);
    assert_int_equal(raft_engine_loaded_index(fixture.engine), 2);
    while (fixture.n_writes > 0) {
        fixture_written();
    }
}

static void items_leave_memory_when_nobody_needs_them(void **state) {
    fixture_boot(2, "VVV", 1, 0);
    fixture.engine->options.recent_bytes_max = 0;
    fixture_receive_commands(1, 2, 1, 1, 3, 4);
    assert_int_equal(fixture.applied_index, 3);
    /* Applied but not written. */
    assert_non_null(raft_engine_item(fixture.engine, 2));
    fixture_written();
    assert_null(raft_engine_item(fixture.engine, 3));
    /* Written but not applied. */
    assert_non_null(raft_engine_item(fixture.engine, 4));
    assert_true(raft_engine_memory_bytes(fixture.engine) > 0);
    fixture_receive_commands(1, 2, 5, 2, 5, 0);
    assert_int_equal(fixture.applied_index, 5);
    assert_int_equal(raft_engine_memory_bytes(fixture.engine), 0);
    assert_int_equal(last(), 5);
    fixture_receive_commands(1, 2, 5, 2, 6, 1);
    assert_int_equal(fixture.applied_index, 6);
    fixture_written();
}

static void entries_that_no_leader_sends_are_dropped(void **state) {
    fixture_boot(2, "VVV", 3, 2);
    struct log_item *decreasing[] = {fixture_command(4, 4), fixture_command(5, 3)};
    fixture_receive_append(1, 4, 3, 3, 1, decreasing, 2);
    struct log_item *future[] = {fixture_command(4, 9)};
    fixture_receive_append(1, 4, 3, 3, 1, future, 1);
    struct log_item *gap[] = {fixture_command(5, 4)};
    fixture_receive_append(1, 4, 3, 3, 1, gap, 1);
    struct log_item *unreadable[] = {fixture_change(4, 4, "VVV")};
    unreadable[0]->size = 3;
    fixture_receive_append(1, 4, 3, 3, 1, unreadable, 1);
    struct log_item *first[] = {fixture_change(1, 2, "V--")};
    fixture_receive_append(1, 4, 0, 0, 1, first, 1);
    fixture_receive_commands(1, 4, 0, 5, 1, 0);
    assert_int_equal(last(), 3);
    assert_int_equal(term(), 3);
    assert_int_equal(fixture.n_sent, 0);
}

/* --- Votes. --- */

static const struct message_vote good_vote = {.term = 7, .last_index = 9, .last_term = 6};

static void a_vote_waits_for_the_end_of_a_promise(void **state) {
    fixture_boot(2, "VVV", 1, 0);
    fixture.is_holding = true;
    fixture_receive_vote(1, good_vote);
    fixture.now_ms += FIXTURE_ELECTION_MS / 2;
    fixture_poll();
    assert_int_equal(fixture.n_sent, 0);
    assert_int_equal(raft_engine_deadline_ms(fixture.engine, fixture.now_ms), fixture.now_ms + 1);
    fixture.is_holding = false;
    fixture_poll();
    assert_true(fixture_last_sent(MESSAGE_VOTE_RESULT, 0)->view.vote_result.is_granted);
    assert_int_equal(fixture.term, 7);
    assert_int_equal(fixture.vote, 1);
}

static void a_vote_that_waited_too_long_is_dropped(void **state) {
    fixture_boot(2, "VVV", 1, 0);
    fixture.is_holding = true;
    fixture_receive_vote(1, good_vote);
    fixture.now_ms += FIXTURE_ELECTION_MS;
    fixture.is_holding = false;
    fixture_poll();
    assert_int_equal(fixture_count_sent(MESSAGE_VOTE_RESULT, 0), 0);
    assert_int_equal(term(), 1);
}

static void a_candidate_does_not_ask_while_its_promise_stands(void **state) {
    fixture_boot(2, "VVV", 1, 0);
    fixture.is_holding = true;
    fixture.now_ms += 2 * FIXTURE_ELECTION_MS;
    fixture_poll();
    assert_int_equal(role(), ENGINE_CANDIDATE);
    assert_int_equal(fixture.n_sent, 0);
    fixture.is_holding = false;
    fixture_poll();
    assert_int_equal(fixture_count_sent(MESSAGE_VOTE, 0), 2);
}

static void who_has_heard_of_no_leader_for_long_votes(void **state) {
    fixture_boot(2, "VVV", 1, 0);
    fixture_receive_commands(1, 2, 1, 1, 1, 0);
    size_t from = fixture.n_sent;
    fixture_receive_vote(3, good_vote);
    assert_false(fixture_last_sent(MESSAGE_VOTE_RESULT, from)->view.vote_result.is_granted);
    fixture.is_leaderless = true;
    fixture_receive_vote(3, good_vote);
    assert_true(fixture_last_sent(MESSAGE_VOTE_RESULT, from)->view.vote_result.is_granted);
    /* Its leader is that of another term now. */
    assert_int_equal(raft_engine_leader_id(fixture.engine), 0);
}

static void followers_ask_in_turn(void **state) {
    fixture_boot(3, "VVV", 1, 0);
    fixture_receive_commands(1, 2, 1, 1, 1, 0);
    assert_int_equal(raft_engine_deadline_ms(fixture.engine, fixture.now_ms),
                     fixture.now_ms + FIXTURE_ELECTION_MS + FIXTURE_HEARTBEAT_MS / 5 +
                         FIXTURE_HEARTBEAT_MS);
    fixture_receive_commands(2, 3, 1, 1, 1, 0);
    fixture.now_ms += 50;
    fixture_receive_commands(2, 3, 1, 1, 1, 0);
    assert_int_equal(raft_engine_deadline_ms(fixture.engine, fixture.now_ms),
                     fixture.now_ms + FIXTURE_ELECTION_MS + FIXTURE_HEARTBEAT_MS / 5 +
                         FIXTURE_HEARTBEAT_MS);
}

static void a_standby_votes_once_in_a_term(void **state) {
    fixture_boot(3, "VVb", 2, 0);
    fixture_receive_vote(1, good_vote);
    assert_true(fixture_last_sent(MESSAGE_VOTE_RESULT, 0)->view.vote_result.is_granted);
    fixture_receive_vote(2, good_vote);
    assert_false(fixture_last_sent(MESSAGE_VOTE_RESULT, 0)->view.vote_result.is_granted);
    assert_int_equal(fixture.vote, 1);
    fixture_receive_vote(1, good_vote);
    assert_true(fixture_last_sent(MESSAGE_VOTE_RESULT, 0)->view.vote_result.is_granted);
    /* Made a voter in this term, it still remembers. */
    struct log_item *items[] = {fixture_change(2, 7, "VVV")};
    fixture_receive_append(1, 7, 1, 1, 1, items, 1);
    fixture_written();
    fixture.is_leaderless = true;
    fixture_receive_vote(2, good_vote);
    assert_false(fixture_last_sent(MESSAGE_VOTE_RESULT, 0)->view.vote_result.is_granted);
    assert_int_equal(fixture.vote, 1);
    /* Not for one with an older log. */
    fixture_receive_vote(2, (struct message_vote){.term = 8, .last_index = 1, .last_term = 1});
    assert_false(fixture_last_sent(MESSAGE_VOTE_RESULT, 0)->view.vote_result.is_granted);
}

/* It may be a voter whose disk was replaced. */
static void a_node_without_a_log_gives_no_vote(void **state) {
    fixture_create(3);
    struct raft_engine_loaded loaded = {.first_index = 1};
    assert_int_equal(fixture_start(&loaded), STATUS_OK);
    fixture_receive_vote(1, good_vote);
    assert_false(fixture_last_sent(MESSAGE_VOTE_RESULT, 0)->view.vote_result.is_granted);
}

/* --- Members. --- */

static void acknowledge_all(uint64_t id) {
    fixture_written();
    fixture_receive_result(id, term(), 0, last());
}

static void a_member_is_added_promoted_and_removed(void **state) {
    fixture_boot(1, "VV", 1, 0);
    fixture_lead_committed();
    assert_int_equal(raft_engine_change(fixture.engine, ENGINE_ADD, 3, "n3", fixture.now_ms),
                     STATUS_OK);
    assert_true(raft_engine_is_changing(fixture.engine));
    assert_int_equal(raft_engine_change(fixture.engine, ENGINE_ADD, 4, "n4", fixture.now_ms),
                     STATUS_TOO_MANY_REQUESTS);
    acknowledge_all(2);
    assert_false(raft_engine_is_changing(fixture.engine));
    assert_int_equal(raft_config_find(raft_engine_configuration(fixture.engine), 3)->role,
                     CONFIG_STANDBY);
    /* It lacks everything: the promotion waits. */
    assert_int_equal(raft_engine_change(fixture.engine, ENGINE_PROMOTE, 3, NULL, fixture.now_ms),
                     STATUS_OK);
    assert_true(raft_engine_is_changing(fixture.engine));
    assert_false(raft_engine_has_uncommitted_change(fixture.engine));
    acknowledge_all(3);
    assert_true(raft_engine_has_uncommitted_change(fixture.engine));
    acknowledge_all(2);
    acknowledge_all(3);
    assert_int_equal(raft_config_count_voters(raft_engine_configuration(fixture.engine)), 3);
    assert_int_equal(raft_engine_change(fixture.engine, ENGINE_REMOVE, 2, NULL, fixture.now_ms),
                     STATUS_OK);
    acknowledge_all(3);
    assert_int_equal(raft_engine_configuration(fixture.engine)->n, 2);
    assert_int_equal(fixture.n_configuration_changes, 4);
}

static void what_cannot_be_changed_is_refused(void **state) {
    fixture_boot(1, "VVVb", 1, 0);
    assert_int_equal(raft_engine_change(fixture.engine, ENGINE_REMOVE, 2, NULL, fixture.now_ms),
                     STATUS_NO_LEADER);
    fixture_lead_committed();
    static const struct {
        enum raft_engine_change change;
        uint64_t id;
        const char *address;
    } cases[] = {
        {ENGINE_ADD, 2, "n9"}, /* there already */
        {ENGINE_ADD, 9, "n2"}, /* its address is */
        {ENGINE_ADD, 9, NULL},     {ENGINE_ADD, 0, "n9"},    {ENGINE_PROMOTE, 9, NULL},
        {ENGINE_PROMOTE, 2, NULL}, {ENGINE_REMOVE, 9, NULL}, {ENGINE_REMOVE, 1, NULL}, /* itself */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(raft_engine_change(fixture.engine, cases[i].change, cases[i].id,
                                            cases[i].address, fixture.now_ms),
                         STATUS_INVALID);
    }
}

/* It is silent, and this leader has never heard of it. */
static void a_dead_voter_can_be_removed(void **state) {
    fixture_boot(1, "VVV", 1, 0);
    fixture_lead_committed();
    assert_int_equal(raft_engine_match_index(fixture.engine, 3), 0);
    assert_int_equal(raft_engine_change(fixture.engine, ENGINE_ADD, 4, "n4", fixture.now_ms),
                     STATUS_OK);
    acknowledge_all(2);
    assert_int_equal(raft_engine_change(fixture.engine, ENGINE_REMOVE, 3, NULL, fixture.now_ms),
                     STATUS_OK);
    acknowledge_all(2);
    assert_false(raft_engine_is_changing(fixture.engine));
}

static void a_promotion_does_not_wait_for_ever(void **state) {
    fixture_boot(1, "VVb", 1, 0);
    fixture_lead_committed();
    fixture_propose(3);
    acknowledge_all(2);
    assert_int_equal(raft_engine_change(fixture.engine, ENGINE_PROMOTE, 3, NULL, fixture.now_ms),
                     STATUS_OK);
    for (int i = 0; i < 400 && raft_engine_is_changing(fixture.engine); i++) {
        fixture.now_ms += FIXTURE_HEARTBEAT_MS;
        fixture_receive_result(2, term(), 0, last());
        fixture_poll();
    }
    assert_false(raft_engine_is_changing(fixture.engine));
    assert_int_equal(raft_config_count_voters(raft_engine_configuration(fixture.engine)), 2);
}

/* --- Transfer. --- */

static void proposals_stop_while_leadership_is_handed_over(void **state) {
    fixture_boot(1, "VVV", 1, 0);
    fixture_lead_committed();
    assert_int_equal(raft_engine_transfer(fixture.engine, 9, fixture.now_ms), STATUS_INVALID);
    assert_int_equal(raft_engine_transfer(fixture.engine, 1, fixture.now_ms), STATUS_INVALID);
    assert_int_equal(raft_engine_transfer(fixture.engine, 0, fixture.now_ms), STATUS_OK);
    assert_true(raft_engine_is_transferring(fixture.engine));
    assert_int_equal(fixture_last_sent(MESSAGE_TIMEOUT_NOW, 0)->to_id, 2); /* has most */
    uint8_t bytes[1];
    assert_int_equal(raft_engine_propose(fixture.engine, bytes, 1, fixture.now_ms),
                     STATUS_NO_LEADER);
    fixture_receive_commands(2, term() + 1, last(), term(), last(), 0);
    fixture_poll();
    assert_false(raft_engine_is_transferring(fixture.engine));
    assert_int_equal(raft_engine_leader_id(fixture.engine), 2);
}

static void a_transfer_that_fails_ends(void **state) {
    fixture_boot(1, "VVV", 1, 0);
    fixture_lead_committed();
    /* Server 3 lacks everything, and says nothing. Server 2 is there. */
    assert_int_equal(raft_engine_transfer(fixture.engine, 3, fixture.now_ms), STATUS_OK);
    for (int i = 0; i < 10; i++) {
        assert_true(raft_engine_is_transferring(fixture.engine));
        fixture.now_ms += FIXTURE_HEARTBEAT_MS;
        fixture_receive_result(2, term(), 0, last());
        fixture_poll();
    }
    assert_false(raft_engine_is_transferring(fixture.engine));
    assert_int_equal(fixture_count_sent(MESSAGE_TIMEOUT_NOW, 0), 0);
    /* One that was asked, and does nothing. */
    assert_int_equal(raft_engine_transfer(fixture.engine, 2, fixture.now_ms), STATUS_OK);
    assert_int_equal(fixture_count_sent(MESSAGE_TIMEOUT_NOW, 0), 1);
    for (int i = 0; i < 12; i++) {
        fixture.now_ms += FIXTURE_HEARTBEAT_MS;
        fixture_receive_result(2, term(), 0, last());
        fixture_poll();
    }
    assert_false(raft_engine_is_transferring(fixture.engine));
    assert_int_equal(role(), ENGINE_LEADER);
    fixture_propose(1);
}

/* --- Snapshots. --- */

static void a_snapshot_shortens_the_log(void **state) {
    fixture_boot(1, "V", 1, 0);
    fixture_poll();
    fixture_propose(20);
    struct snapshot_meta meta;
    assert_int_equal(fixture.applied_index, 1);
    fixture_written();
    assert_true(raft_engine_snapshot_begin(fixture.engine, &meta));
    assert_int_equal(meta.index, last());
    assert_int_equal(meta.term, term());
    assert_int_equal(meta.configuration_index, 1);
    assert_false(raft_engine_snapshot_begin(fixture.engine, &meta)); /* one is being taken */
    fixture_propose(1);
    raft_engine_snapshot_taken(fixture.engine, 1000, 5, fixture.now_ms);
    assert_int_equal(fixture.trimmed_upto, meta.index - 5);
    assert_null(raft_engine_item(fixture.engine, meta.index - 5));
    assert_non_null(raft_engine_item(fixture.engine, meta.index - 4));
    assert_false(raft_engine_snapshot_begin(fixture.engine, &meta)); /* nothing new */
    fixture_written();
    assert_true(raft_engine_snapshot_begin(fixture.engine, &meta));
    raft_engine_snapshot_abandoned(fixture.engine);
    assert_true(raft_engine_snapshot_begin(fixture.engine, &meta));
}

static void an_installed_snapshot_replaces_the_log(void **state) {
    fixture_boot(3, "VVV", 1, 0);
    fixture_receive_commands(2, 2, 1, 1, 3, 4);
    struct snapshot_meta taking;
    raft_engine_written(fixture.engine, fixture.now_ms);
    assert_true(raft_engine_snapshot_begin(fixture.engine, &taking));
    fixture_receive_commands(2, 2, 5, 2, 3, 2); /* being written */
    struct snapshot_meta meta = fixture_meta(40, 2, 30, "VVVb");
    assert_true(fixture_receive_snapshot(2, 2, &meta));
    assert_int_equal(fixture.installing_index, 40);
    assert_true(raft_engine_is_installing(fixture.engine));
    assert_true(raft_engine_snapshot_is_stale(fixture.engine));
    raft_engine_snapshot_abandoned(fixture.engine);
    assert_int_equal(last(), 40);
    size_t from = fixture.n_sent;
    raft_engine_written(fixture.engine, fixture.now_ms); /* from before: not acknowledged */
    fixture_receive_commands(2, 2, 40, 2, 40, 3);        /* heard, not taken */
    assert_int_equal(last(), 40);
    assert_int_equal(fixture.applied_index, 3);
    for (size_t i = from; i < fixture.n_sent; i++) {
        assert_true(fixture.sent[i].view.append_result.last_index == 0);
    }
    raft_engine_installed(fixture.engine, fixture.now_ms);
    assert_int_equal(fixture.restored_index, 40);
    assert_int_equal(raft_engine_applied_index(fixture.engine), 40);
    assert_int_equal(raft_engine_configuration(fixture.engine)->n, 4);
    assert_int_equal(fixture_last_sent(MESSAGE_APPEND_RESULT, 0)->view.append_result.last_index,
                     40);
    fixture_receive_commands(2, 2, 40, 2, 43, 3);
    assert_int_equal(fixture.applied_index, 43);
    /* It is there already. */
    assert_false(fixture_receive_snapshot(2, 2, &meta));
    assert_int_equal(fixture.n_installs, 1);
}

static void a_snapshot_that_cannot_be_is_not_wanted(void **state) {
    fixture_boot(3, "VVV", 1, 0);
    struct snapshot_meta good = fixture_meta(40, 2, 30, "VVV");
    struct snapshot_meta meta = good;
    meta.term = 3; /* later than the leader's */
    assert_false(fixture_receive_snapshot(2, 2, &meta));
    meta = good;
    meta.configuration_index = 41;
    assert_false(fixture_receive_snapshot(2, 2, &meta));
    meta = good;
    meta.configuration_size = 7;
    assert_false(fixture_receive_snapshot(2, 2, &meta));
    meta = good;
    meta.configuration_size = sizeof meta.configuration + 1;
    assert_false(fixture_receive_snapshot(2, 2, &meta));
    assert_false(fixture_receive_snapshot(2, UINT64_C(1) << 61, &good));
    assert_int_equal(fixture.n_installs, 0);
}

/* The snapshot was lost on its way, and the leader has taken another since: libraft looks for
 * rejections of the first. */
static void a_lost_snapshot_is_sent_again(void **state) {
    fixture_boot(1, "VVV", 1, 0);
    fixture_lead_committed();
    struct snapshot_meta meta;
    for (int i = 0; i < 2; i++) {
        fixture_propose(5);
        acknowledge_all(2);
        assert_true(raft_engine_snapshot_begin(fixture.engine, &meta));
        raft_engine_snapshot_taken(fixture.engine, 100, 1, fixture.now_ms);
        if (i == 0) {
            /* A heartbeat was refused: server 3 has nothing. */
            fixture_receive_result(3, term(), 1, 0);
            assert_int_equal(fixture_count_sent(MESSAGE_SNAPSHOT, 0), 1);
        }
    }
    for (int i = 0; i < 15; i++) {
        fixture.now_ms += FIXTURE_HEARTBEAT_MS;
        fixture_receive_result(2, term(), 0, last());
        fixture_receive_result(3, term(), meta.index, 0);
        fixture_poll();
    }
    assert_true(fixture_count_sent(MESSAGE_SNAPSHOT, 0) > 1);
}

/* All it can say is that it lacks the snapshot; but it is there, and a leader needs a majority. */
static void a_member_that_waits_for_a_snapshot_is_heard(void **state) {
    fixture_boot(1, "VV", 1, 0);
    fixture_lead_committed();
    fixture_propose(5);
    acknowledge_all(2);
    struct snapshot_meta meta;
    assert_true(raft_engine_snapshot_begin(fixture.engine, &meta));
    raft_engine_snapshot_taken(fixture.engine, 100, 1, fixture.now_ms);
    fixture_lead_again();
    fixture_receive_result(2, term(), last() - 1, 0);
    for (int i = 0; i < 30; i++) {
        fixture.now_ms += FIXTURE_HEARTBEAT_MS;
        fixture_receive_result(2, term(), meta.index, 0);
        fixture_poll();
        assert_int_equal(role(), ENGINE_LEADER);
    }
    assert_in_range(fixture_count_sent(MESSAGE_SNAPSHOT, 0), 1, 5);
}

/* --- Failure. --- */

static void a_vote_that_cannot_be_stored_is_not_given(void **state) {
    fixture_boot(2, "VVV", 1, 0);
    fixture.fails_to_store = true;
    fixture_receive_vote(1, good_vote);
    assert_true(fixture.has_failed);
    assert_int_equal(fixture.n_sent, 0);
    /* Nothing more is done. */
    fixture.has_failed = false;
    fixture.fails_to_store = false;
    fixture_receive_commands(1, 7, 1, 1, 1, 3);
    fixture.now_ms += 10 * FIXTURE_ELECTION_MS;
    fixture_poll();
    assert_int_equal(raft_engine_deadline_ms(fixture.engine, fixture.now_ms), UINT64_MAX);
    assert_int_equal(fixture.n_sent, 0);
    assert_int_equal(fixture.n_writes, 0);
    assert_false(fixture.has_failed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_library_is_the_one_we_know),
        cmocka_unit_test_teardown(a_joiner_takes_what_a_leader_it_does_not_know_sends, teardown),
        cmocka_unit_test_teardown(a_restarted_node_knows_its_log_and_snapshot, teardown),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test_teardown(a_leader_is_elected_by_a_pre_vote_and_a_vote, teardown),
        cmocka_unit_test_teardown(a_new_leader_sends_heartbeats_at_once, teardown),
        cmocka_unit_test_teardown(every_leader_adds_an_entry_of_its_own_term, teardown),
        cmocka_unit_test_teardown(an_entry_is_applied_when_a_majority_has_it, teardown),
        cmocka_unit_test_teardown(a_follower_refuses_proposals, teardown),
        cmocka_unit_test_teardown(apply_may_propose, teardown),
        cmocka_unit_test_teardown(results_of_strangers_are_dropped, teardown),
        cmocka_unit_test_teardown(a_follower_is_told_of_a_commit_at_once, teardown),
        cmocka_unit_test_teardown(an_entry_is_acknowledged_when_it_is_on_disk, teardown),
        cmocka_unit_test_teardown(a_truncated_write_is_not_acknowledged, teardown),
        cmocka_unit_test_teardown(what_replaces_a_loaded_entry_was_not_loaded, teardown),
        cmocka_unit_test_teardown(items_leave_memory_when_nobody_needs_them, teardown),
        cmocka_unit_test_teardown(entries_that_no_leader_sends_are_dropped, teardown),
        cmocka_unit_test_teardown(a_vote_waits_for_the_end_of_a_promise, teardown),
        cmocka_unit_test_teardown(a_vote_that_waited_too_long_is_dropped, teardown),
        cmocka_unit_test_teardown(a_candidate_does_not_ask_while_its_promise_stands, teardown),
        cmocka_unit_test_teardown(who_has_heard_of_no_leader_for_long_votes, teardown),
        cmocka_unit_test_teardown(followers_ask_in_turn, teardown),
        cmocka_unit_test_teardown(a_standby_votes_once_in_a_term, teardown),
        cmocka_unit_test_teardown(a_node_without_a_log_gives_no_vote, teardown),
        cmocka_unit_test_teardown(a_member_is_added_promoted_and_removed, teardown),
        cmocka_unit_test_teardown(what_cannot_be_changed_is_refused, teardown),
        cmocka_unit_test_teardown(a_dead_voter_can_be_removed, teardown),
        cmocka_unit_test_teardown(a_promotion_does_not_wait_for_ever, teardown),
        cmocka_unit_test_teardown(proposals_stop_while_leadership_is_handed_over, teardown),
        cmocka_unit_test_teardown(a_transfer_that_fails_ends, teardown),
        cmocka_unit_test_teardown(a_snapshot_shortens_the_log, teardown),
        cmocka_unit_test_teardown(an_installed_snapshot_replaces_the_log, teardown),
        cmocka_unit_test_teardown(a_snapshot_that_cannot_be_is_not_wanted, teardown),
        cmocka_unit_test_teardown(a_lost_snapshot_is_sent_again, teardown),
        cmocka_unit_test_teardown(a_member_that_waits_for_a_snapshot_is_heard, teardown),
        cmocka_unit_test_teardown(a_vote_that_cannot_be_stored_is_not_given, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
