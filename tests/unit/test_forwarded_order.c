/* The numbers under which a member that does not lead forwards proposals: a number is left out when
 * the leader must know that a refusal was heard, and never else (docs/decisions/0055). A whole
 * service on a real disk, its two fellow members played by the test. */
#include "base/clock.h"
#include "replication/log_entry.h"
#include "replication/service_internal.h"
#include "scripted_peers.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h> /* after what it needs */

enum {
    SELF_ID = 1,
    OTHER_ID = 2,
    THIRD_ID = 3,
    HEARTBEAT_MS = 20,
    ELECTION_MS = 10000, /* this node never stands */
    WAITERS_MAX = 64
};

struct waiter {
    struct service_request request;
    size_t n_done;
    enum status status;
};

static char dir[64];
static uv_loop_t loop;
static struct service *service;
static bool is_closed;
static uint64_t term;
static uint64_t sent_to;
static uint64_t sent_sequence; /* of the newest proposal that was forwarded */
static struct waiter waiters[WAITERS_MAX];
static size_t n_waiters;

static void on_failed(void *data, enum status status, const char *reason) {
    (void)data;
    (void)status;
    fail_msg("%s", reason);
}

static void on_closed(void *data) {
    (void)data;
    is_closed = true;
}

static void on_sent(uint64_t to_id, uint8_t type, struct bytes body) {
    struct arena arena;
    struct peer_frame frame;
    arena_init(&arena);
    if (type == PEER_PROPOSE && peer_frame_decode(type, body, &arena, &frame) == STATUS_OK) {
        sent_to = to_id;
        sent_sequence = frame.propose.sequence;
    }
    arena_clear(&arena);
}

static int open_member(void **state) {
    static const char *const urls[] = {"http://127.0.0.1:1", NULL};
    static const struct replication_member members[] = {
        {.id = SELF_ID, .name = "n1", .address = "127.0.0.1:1", .peer_urls = urls},
        {.id = OTHER_ID, .name = "n2", .address = "127.0.0.1:2", .peer_urls = urls},
        {.id = THIRD_ID, .name = "n3", .address = "127.0.0.1:3", .peer_urls = urls}};
    (void)state;
    is_closed = false;
    n_waiters = 0;
    script = (struct script){.sent = on_sent};
    snprintf(dir, sizeof dir, "/tmp/test-forwarded-order-XXXXXX");
    assert_non_null(mkdtemp(dir));
    struct replication_options options = {.data_dir = dir,
                                          .name = "n1",
                                          .cluster_id = 7,
                                          .member_id = SELF_ID,
                                          .client_urls = urls,
                                          .peer_urls = urls,
                                          .peer_address = "127.0.0.1:1",
                                          .members = members,
                                          .n_members = 3,
                                          .heartbeat_ms = HEARTBEAT_MS,
                                          .election_ms = ELECTION_MS,
                                          .failed = on_failed};
    char error[512] = "";
    uv_loop_init(&loop);
    if (replication_open(&loop, &options, &service, error, sizeof error) != STATUS_OK) {
        fail_msg("%s", error);
    }
    term = raft_engine_term(service->engine);
    return 0;
}

static int close_member(void **state) {
    (void)state;
    replication_close(service, on_closed, NULL);
    while (!is_closed) {
        uv_run(&loop, UV_RUN_ONCE);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    DIR *directory = opendir(dir);
    for (struct dirent *file; (file = readdir(directory)) != NULL;) {
        unlinkat(dirfd(directory), file->d_name, 0);
    }
    closedir(directory);
    assert_int_equal(rmdir(dir), 0);
    return 0;
}

/* This member leads in the next term, and has nothing that this node has not. */
static void follow(uint64_t leader_id) {
    struct raft_message_view message = {
        .kind = MESSAGE_APPEND,
        .append = {
            .term = ++term, .prev_index = raft_engine_last_index(service->engine), .prev_term = 1}};
    script_message(leader_id, &message);
    script_deliver();
    assert_int_equal(raft_engine_leader_id(service->engine), leader_id);
}

static void on_done(struct service_request *request, const struct outcome *outcome) {
    struct waiter *waiter = list_entry(request, struct waiter, request);
    waiter->n_done++;
    waiter->status = outcome->status;
}

static void submit(void) {
    struct command command = {.type = COMMAND_PUT};
    command.put.key = bytes_from_text("key");
    assert_in_range(n_waiters, 0, WAITERS_MAX - 1);
    waiters[n_waiters] = (struct waiter){.request.done = on_done};
    service_submit(service, &caller_anonymous, &waiters[n_waiters++].request, &command);
}

/* Forwards one proposal. Returns its number. */
static uint64_t forward(void) {
    submit();
    uint64_t before = sent_sequence;
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_not_equal(sent_sequence, before);
    assert_int_equal(sent_to, raft_engine_leader_id(service->engine));
    return sent_sequence;
}

static void refuse(uint64_t from_id, uint64_t sequence, enum status status) {
    struct peer_frame frame = {.type = PEER_PROPOSE_REFUSED};
    frame.propose_refused.sequence = sequence;
    frame.propose_refused.status = status;
    peer_frame_encode(script_frame_to_node(from_id, PEER_PROPOSE_REFUSED), &frame);
    script_deliver();
}

static void a_number_is_left_out_when_a_refusal_is_heard(void **state) {
    (void)state;
    follow(OTHER_ID);
    uint64_t first = forward();
    assert_int_equal(forward(), first + 1);
    refuse(OTHER_ID, first, STATUS_NO_LEADER);
    assert_int_equal(forward(), first + 3);
    assert_int_equal(waiters[0].status, STATUS_LEADER_CHANGED);
    assert_int_equal(waiters[0].n_done, 1);
}

/* The leader refuses it too. Were it told of that alone, its clients' next requests would be on
 * their way by then, behind the number that is left out. */
static void what_went_behind_a_refused_proposal_fails_with_it(void **state) {
    (void)state;
    follow(OTHER_ID);
    uint64_t first = forward();
    assert_int_equal(forward(), first + 1);
    assert_int_equal(forward(), first + 2);
    refuse(OTHER_ID, first + 1, STATUS_TOO_MANY_REQUESTS);
    assert_int_equal(waiters[0].n_done, 0);
    assert_int_equal(waiters[1].status, STATUS_TOO_MANY_REQUESTS);
    assert_int_equal(waiters[2].n_done, 1);
    assert_int_equal(waiters[2].status, STATUS_LEADER_CHANGED);
    refuse(OTHER_ID, first + 2, STATUS_NO_LEADER);
    assert_int_equal(waiters[2].n_done, 1);
}

/* The leader may have refused it as well, and lost its link to this node before that was told. Its
 * clients' next requests are not sent before they know. */
static void nothing_is_sent_while_the_fate_of_an_earlier_one_is_unknown(void **state) {
    (void)state;
    follow(OTHER_ID);
    uint64_t first = forward();
    assert_int_equal(forward(), first + 1);
    refuse(OTHER_ID, first + 1, STATUS_NO_LEADER);
    submit();
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(sent_sequence, first + 1);
    assert_int_equal(waiters[0].n_done, 0);
    refuse(OTHER_ID, first, STATUS_NO_LEADER);
    assert_int_equal(waiters[0].n_done, 1);
    uv_run(&loop, UV_RUN_NOWAIT);
    assert_int_equal(sent_sequence, first + 3);
}

/* The second of two that were refused together is heard of when the next is on its way already,
 * which the leader may have refused for a reason of its own. */
static void a_refusal_from_before_the_number_left_out_leaves_out_no_other(void **state) {
    (void)state;
    follow(OTHER_ID);
    uint64_t first = forward();
    assert_int_equal(forward(), first + 1);
    refuse(OTHER_ID, first, STATUS_NO_LEADER);
    assert_int_equal(forward(), first + 3);
    refuse(OTHER_ID, first + 1, STATUS_NO_LEADER);
    assert_int_equal(forward(), first + 4);
    refuse(OTHER_ID, first + 3, STATUS_TOO_MANY_REQUESTS);
    assert_int_equal(forward(), first + 6);
}

/* The leader goes on after it: what follows may be refused for another reason. */
static void a_command_that_is_too_large_leaves_no_number_out(void **state) {
    (void)state;
    follow(OTHER_ID);
    uint64_t first = forward();
    refuse(OTHER_ID, first, STATUS_REQUEST_TOO_LARGE);
    assert_int_equal(waiters[0].status, STATUS_REQUEST_TOO_LARGE);
    assert_int_equal(forward(), first + 1);
}

static void only_the_link_to_the_leader_leaves_a_number_out(void **state) {
    (void)state;
    follow(OTHER_ID);
    uint64_t first = forward();
    script.callbacks->link_lost(script.data, THIRD_ID);
    assert_int_equal(forward(), first + 1);
    assert_int_equal(waiters[0].n_done, 0);
    script.callbacks->link_lost(script.data, OTHER_ID);
    assert_int_equal(waiters[0].status, STATUS_LEADER_CHANGED);
    assert_int_equal(forward(), first + 3);
}

static void a_refusal_of_an_earlier_leader_says_nothing_of_the_next(void **state) {
    (void)state;
    follow(OTHER_ID);
    uint64_t first = forward();
    follow(THIRD_ID);
    uint64_t second = forward();
    refuse(OTHER_ID, first, STATUS_NO_LEADER);
    assert_int_equal(forward(), second + 1);
    follow(OTHER_ID);
    uint64_t third = forward();
    refuse(OTHER_ID, first, STATUS_NO_LEADER);
    assert_int_equal(forward(), third + 1);
}

/* In between another may have led, whom this member did not hear, and cut it off the log. */
static void what_was_forwarded_in_an_earlier_term_has_an_unknown_fate(void **state) {
    (void)state;
    follow(OTHER_ID);
    (void)forward();
    follow(OTHER_ID);
    (void)forward();
    assert_int_equal(waiters[0].n_done, 1);
    assert_int_equal(waiters[0].status, STATUS_LEADER_CHANGED);
    assert_int_equal(waiters[1].n_done, 0);
}

/* What was forwarded before was applied or has failed by now: the leader need not refuse what
 * follows because it does not know that. */
static void a_number_is_left_out_when_the_leader_is_elected_again(void **state) {
    (void)state;
    follow(OTHER_ID);
    uint64_t first = forward();
    follow(OTHER_ID);
    assert_int_equal(forward(), first + 2);
    assert_int_equal(forward(), first + 3);
}

/* Its entry may be one that the snapshot stands for, and is never applied here. */
static void what_a_snapshot_may_hold_has_an_unknown_fate(void **state) {
    (void)state;
    follow(OTHER_ID);
    uint64_t first = forward();
    proposals_state_replaced(service);
    assert_int_equal(forward(), first + 1);
    assert_int_equal(waiters[0].n_done, 1);
    assert_int_equal(waiters[0].status, STATUS_LEADER_CHANGED);
    assert_int_equal(waiters[1].n_done, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_number_is_left_out_when_a_refusal_is_heard, open_member,
                                        close_member),
        cmocka_unit_test_setup_teardown(what_went_behind_a_refused_proposal_fails_with_it,
                                        open_member, close_member),
        cmocka_unit_test_setup_teardown(nothing_is_sent_while_the_fate_of_an_earlier_one_is_unknown,
                                        open_member, close_member),
        cmocka_unit_test_setup_teardown(
            a_refusal_from_before_the_number_left_out_leaves_out_no_other, open_member,
            close_member),
        cmocka_unit_test_setup_teardown(a_command_that_is_too_large_leaves_no_number_out,
                                        open_member, close_member),
        cmocka_unit_test_setup_teardown(only_the_link_to_the_leader_leaves_a_number_out,
                                        open_member, close_member),
        cmocka_unit_test_setup_teardown(a_refusal_of_an_earlier_leader_says_nothing_of_the_next,
                                        open_member, close_member),
        cmocka_unit_test_setup_teardown(what_was_forwarded_in_an_earlier_term_has_an_unknown_fate,
                                        open_member, close_member),
        cmocka_unit_test_setup_teardown(a_number_is_left_out_when_the_leader_is_elected_again,
                                        open_member, close_member),
        cmocka_unit_test_setup_teardown(what_a_snapshot_may_hold_has_an_unknown_fate, open_member,
                                        close_member),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
