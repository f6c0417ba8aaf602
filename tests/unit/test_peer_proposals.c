/* What other members ask a leader to propose: a whole service on a real disk, its two fellow
 * members played by the test. */
#include "replication/log_entry.h"
#include "scripted_service.h"

enum {
    GONE_ID = 100,
    MEBIBYTE = 1024 * 1024,
    CHANGES_MAX = 64 /* as in member_changes.c */
};

static uint64_t sequence;
static uint64_t refused_sequence; /* of the last proposal that was refused */
static enum status refused_status;
static unsigned n_changes[STATUS_COUNT]; /* answers to changes of the members */

static void on_sent(uint64_t to_id, uint8_t type, struct bytes body) {
    struct arena arena;
    struct peer_frame frame;
    (void)to_id;
    arena_init(&arena);
    if (type == PEER_PROPOSE_REFUSED &&
        peer_frame_decode(type, body, &arena, &frame) == STATUS_OK) {
        refused_sequence = frame.propose_refused.sequence;
        refused_status = frame.propose_refused.status;
    }
    if (type == PEER_CHANGE_RESULT && peer_frame_decode(type, body, &arena, &frame) == STATUS_OK) {
        n_changes[frame.change_result.status]++;
    }
    arena_clear(&arena);
}

static int open_leader(void **state) {
    (void)state;
    script_service_open(on_sent);
    return 0;
}

static int close_leader(void **state) {
    (void)state;
    script_service_close();
    return 0;
}

/* With nothing on its way; a slow disk may have cost the leadership meanwhile. */
static int lead_again(void **state) {
    (void)state;
    script.acknowledges = true;
    service->options.request_size_max = 0;
    run_until(serves);
    run_until(all_is_committed);
    sequence++; /* the members know */
    return 0;
}

static uint64_t incarnation = 99; /* of the members */

/* A proposal of n puts with values of this size. STATUS_OK: it was not refused. */
static enum status propose(uint64_t from_id, size_t n, size_t value_size) {
    uint8_t *value = calloc(1, value_size);
    assert_non_null(value);
    struct command put = {.type = COMMAND_PUT};
    put.put.key = bytes_from_text("key");
    put.put.value = bytes_of(value, value_size);
    struct buffer commands;
    buffer_init(&commands);
    for (size_t i = 0; i < n; i++) {
        command_encode(&commands, &put);
    }
    struct peer_frame frame = {.type = PEER_PROPOSE};
    frame.propose.incarnation = incarnation;
    frame.propose.sequence = ++sequence;
    frame.propose.n_commands = n;
    frame.propose.commands = bytes_of(commands.data, commands.size);
    peer_frame_encode(script_frame_to_node(from_id, PEER_PROPOSE), &frame);
    uint64_t last = raft_engine_last_index(service->engine);
    script_deliver();
    bool is_refused = refused_sequence == sequence;
    assert_int_equal(raft_engine_last_index(service->engine), is_refused ? last : last + 1);
    buffer_clear(&commands);
    free(value);
    return is_refused ? refused_status : STATUS_OK;
}

static void larger_requests_than_the_leader_allows_are_refused(void **state) {
    (void)state;
    service->options.request_size_max = 1024; /* less than the default counts for clients alone */
    assert_int_equal(propose(OTHER_ID, 1, COMMAND_SIZE_DEFAULT), STATUS_OK);
    assert_int_equal(propose(OTHER_ID, 1, 2000 * 1000), STATUS_REQUEST_TOO_LARGE);
    service->options.request_size_max = 2000 * 1000;
    assert_int_equal(propose(OTHER_ID, 1, 2000 * 1000), STATUS_OK);
    assert_int_equal(propose(OTHER_ID, 1, 2100 * 1000), STATUS_REQUEST_TOO_LARGE);
}

static void what_no_member_would_gather_is_refused(void **state) {
    (void)state;
    assert_int_equal(propose(OTHER_ID, 2, LOG_ENTRY_COMMANDS_SIZE_MAX), STATUS_OK);
    assert_int_equal(propose(OTHER_ID, 3, 1000 * 1000), STATUS_REQUEST_TOO_LARGE);
}

static void bytes_of_a_member_on_their_way_are_bounded(void **state) {
    (void)state;
    service->options.request_size_max = COMMAND_SIZE_MAX;
    script.acknowledges = false;
    assert_int_equal(propose(OTHER_ID, 1, PROPOSALS_IN_FLIGHT_BYTES_MAX - 100), STATUS_OK);
    assert_int_equal(propose(OTHER_ID, 1, 100), STATUS_OK);
    assert_int_equal(propose(OTHER_ID, 1, 100), STATUS_TOO_MANY_REQUESTS);
    sequence++;
    assert_int_equal(propose(THIRD_ID, 1, 100), STATUS_OK);
    script.acknowledges = true;
    run_until(all_is_committed);
    assert_int_equal(propose(OTHER_ID, 1, 100), STATUS_OK);
    assert_int_equal(service->peer_proposals.n, 1);
}

static void bytes_of_all_members_on_their_way_are_bounded(void **state) {
    (void)state;
    script.acknowledges = false;
    assert_int_equal(propose(OTHER_ID, 1, 100), STATUS_OK);
    service->peer_proposals.bytes += PEER_PROPOSALS_BYTES_MAX - MEBIBYTE;
    assert_int_equal(propose(THIRD_ID, 1, MEBIBYTE), STATUS_TOO_MANY_REQUESTS);
    sequence++;
    assert_int_equal(propose(THIRD_ID, 1, MEBIBYTE / 2), STATUS_OK);
    service->peer_proposals.bytes -= PEER_PROPOSALS_BYTES_MAX - MEBIBYTE;
    assert_int_equal(propose(THIRD_ID, 1, MEBIBYTE), STATUS_OK);
}

/* What a member sent before it heard of the refusal belongs to the same clients. */
static void what_follows_a_refused_proposal_is_refused(void **state) {
    (void)state;
    service->transfer.is_under_way = true;
    assert_int_equal(propose(OTHER_ID, 1, 100), STATUS_NO_LEADER);
    service->transfer.is_under_way = false;
    assert_int_equal(propose(OTHER_ID, 1, 100), STATUS_NO_LEADER);
    sequence++; /* it has heard */
    assert_int_equal(propose(OTHER_ID, 1, 100), STATUS_OK);
    assert_int_equal(propose(OTHER_ID, 1, 100), STATUS_OK);
}

static void what_follows_another_members_refused_proposal_is_taken(void **state) {
    (void)state;
    service->transfer.is_under_way = true;
    assert_int_equal(propose(OTHER_ID, 1, 100), STATUS_NO_LEADER);
    service->transfer.is_under_way = false;
    assert_int_equal(propose(THIRD_ID, 1, 100), STATUS_OK);
}

/* A member that does not hear of it waits for seconds, and sends what must not be done without it.
 */
static void a_refusal_is_told_although_the_link_is_full(void **state) {
    (void)state;
    service->transfer.is_under_way = true;
    script.is_full = true;
    assert_int_equal(propose(OTHER_ID, 1, 100), STATUS_NO_LEADER);
    script.is_full = false;
    service->transfer.is_under_way = false;
}

/* Its link may still be there, and what it was refused is forgotten with its place. */
static void a_member_that_was_removed_proposes_nothing(void **state) {
    (void)state;
    struct peer_order orders[MEMBERS_MAX];
    memcpy(orders, service->peer_proposals.orders, sizeof orders);
    assert_int_equal(propose(GONE_ID, 1, 100), STATUS_NO_LEADER);
    sequence++;
    assert_int_equal(propose(GONE_ID, 1, 100), STATUS_NO_LEADER);
    assert_memory_equal(orders, service->peer_proposals.orders, sizeof orders);
}

/* Members come and go while one leads. */
static void the_order_is_known_of_members_that_come_after_many_others(void **state) {
    (void)state;
    for (uint64_t i = 0; i < MEMBERS_MAX; i++) {
        service->peer_proposals.orders[i] = (struct peer_order){.from_id = GONE_ID + i};
    }
    service->transfer.is_under_way = true;
    assert_int_equal(propose(OTHER_ID, 1, 100), STATUS_NO_LEADER);
    service->transfer.is_under_way = false;
    uint64_t next = sequence;
    assert_int_equal(propose(THIRD_ID, 1, 100), STATUS_OK);
    sequence = next;
    assert_int_equal(propose(OTHER_ID, 1, 100), STATUS_NO_LEADER);
}

static void on_done(struct service_request *request, const struct outcome *outcome) {
    (void)request;
    assert_int_equal(outcome->status, STATUS_OK);
}

/* Its outcomes would be given to requests of this node's clients. */
static void a_proposal_in_the_name_of_the_leader_is_refused(void **state) {
    (void)state;
    static struct service_request request = {.done = on_done};
    struct command put = {.type = COMMAND_PUT};
    put.put.key = bytes_from_text("key");
    script.acknowledges = false;
    service_submit(service, &caller_anonymous, &request, &put);
    proposals_flush(service);
    uint64_t next = sequence;
    sequence = service->proposals.sequence - 1;
    incarnation = service->proposals.incarnation;
    assert_int_equal(propose(OTHER_ID, 2, 10), STATUS_NO_LEADER);
    incarnation = 99;
    sequence = next;
    script.acknowledges = true;
    run_until(all_is_committed);
}

/* What was proposed in an earlier term counts no longer; its entries may be gone. */
static void a_new_term_begins_with_nothing_on_its_way(void **state) {
    (void)state;
    script.acknowledges = false;
    assert_int_equal(propose(OTHER_ID, 1, MEBIBYTE), STATUS_OK);
    service->peer_proposals.term--;
    assert_int_equal(propose(THIRD_ID, 1, 100), STATUS_OK);
    assert_int_equal(service->peer_proposals.n, 1);
    assert_in_range(service->peer_proposals.bytes, 100, 200);
}

static bool follows(void) {
    return raft_engine_role(service->engine) != ENGINE_LEADER;
}

/* Another may have led in between and cut off the log what the proposal follows. */
static void what_follows_a_proposal_of_an_earlier_term_is_refused(void **state) {
    assert_int_equal(propose(OTHER_ID, 1, 100), STATUS_OK);
    struct raft_message_view vote = {
        .kind = MESSAGE_VOTE,
        .vote = {.term = raft_engine_term(service->engine) + 1,
                 .last_index = raft_engine_last_index(service->engine) + 1,
                 .last_term = raft_engine_term(service->engine),
                 .disrupt_leader = true}};
    script_message(THIRD_ID, &vote);
    run_until(follows);
    uint64_t next = sequence;
    (void)lead_again(state);
    sequence = next;
    assert_int_equal(propose(OTHER_ID, 1, 100), STATUS_NO_LEADER);
    sequence++; /* it has heard */
    assert_int_equal(propose(OTHER_ID, 1, 100), STATUS_OK);
    assert_int_equal(propose(OTHER_ID, 1, 100), STATUS_OK);
}

static void ask_to_update(uint64_t from_id) {
    struct member_facts facts = {
        .id = OTHER_ID, .n_peer_urls = 1, .peer_urls = {bytes_from_text("http://127.0.0.1:22")}};
    struct peer_frame frame = {
        .type = PEER_CHANGE, .change = {.request_id = 1, .action = MEMBER_UPDATE, .facts = &facts}};
    struct buffer body;
    buffer_init(&body);
    peer_frame_encode(&body, &frame);
    assert_true(
        script.callbacks->frame(script.data, from_id, PEER_CHANGE, bytes_of(body.data, body.size)));
    buffer_clear(&body);
}

static bool changes_are_answered(void) {
    return n_changes[STATUS_OK] == CHANGES_MAX;
}

static void changes_of_the_members_on_their_way_are_bounded(void **state) {
    (void)state;
    memset(n_changes, 0, sizeof n_changes);
    for (unsigned i = 0; i < 2 * CHANGES_MAX; i++) {
        ask_to_update(i % 2 == 0 ? OTHER_ID : THIRD_ID);
    }
    assert_int_equal(n_changes[STATUS_PENDING], CHANGES_MAX);
    assert_int_equal(n_changes[STATUS_TOO_MANY_REQUESTS], CHANGES_MAX);
    run_until(changes_are_answered);
    ask_to_update(OTHER_ID);
    assert_int_equal(n_changes[STATUS_PENDING], CHANGES_MAX + 1);
}

static bool leads(void) {
    return service->leadership.term != 0;
}

/* Which version the cluster has is known when an entry of the term has been applied. */
static void a_leader_that_does_not_serve_yet_keeps_the_order(void **state) {
    (void)state;
    script.acknowledges = false;
    run_until(leads);
    service->transfer.is_under_way = true;
    assert_int_equal(propose(OTHER_ID, 1, 100), STATUS_NO_LEADER);
    service->transfer.is_under_way = false;
    assert_int_equal(propose(OTHER_ID, 1, 100), STATUS_NO_LEADER);
    sequence++; /* it has heard */
    assert_int_equal(propose(OTHER_ID, 1, 100), STATUS_OK);
    script.acknowledges = true;
}

int main(void) {
    const struct CMUnitTest first[] = {
        cmocka_unit_test(a_leader_that_does_not_serve_yet_keeps_the_order),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(larger_requests_than_the_leader_allows_are_refused, lead_again),
        cmocka_unit_test_setup(what_no_member_would_gather_is_refused, lead_again),
        cmocka_unit_test_setup(bytes_of_a_member_on_their_way_are_bounded, lead_again),
        cmocka_unit_test_setup(bytes_of_all_members_on_their_way_are_bounded, lead_again),
        cmocka_unit_test_setup(what_follows_a_refused_proposal_is_refused, lead_again),
        cmocka_unit_test_setup(what_follows_another_members_refused_proposal_is_taken, lead_again),
        cmocka_unit_test_setup(a_refusal_is_told_although_the_link_is_full, lead_again),
        cmocka_unit_test_setup(a_member_that_was_removed_proposes_nothing, lead_again),
        cmocka_unit_test_setup(the_order_is_known_of_members_that_come_after_many_others,
                               lead_again),
        cmocka_unit_test_setup(a_proposal_in_the_name_of_the_leader_is_refused, lead_again),
        cmocka_unit_test_setup(changes_of_the_members_on_their_way_are_bounded, lead_again),
        cmocka_unit_test_setup(a_new_term_begins_with_nothing_on_its_way, lead_again),
        cmocka_unit_test_setup(what_follows_a_proposal_of_an_earlier_term_is_refused, lead_again),
    };
    int failed = cmocka_run_group_tests(first, open_leader, close_leader);
    return failed + cmocka_run_group_tests(tests, open_leader, close_leader);
}
