/* Leadership that is lost, and won again, while the service works: a whole service on a real disk,
 * its two fellow members played by the test. */
#include "base/clock.h"
#include "replication/log_entry.h"
#include "replication/service_internal.h"
#include "scripted_peers.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h> /* after what it needs */

enum {
    SELF_ID = 1,
    OTHER_ID = 2,
    THIRD_ID = 3,
    HEARTBEAT_MS = 20,
    ELECTION_MS = 100,
    PATIENCE_MS = 20000,
    /* Each is an entry of its own. More than are in flight at once. */
    BULK_SIZE = LOG_ENTRY_COMMANDS_SIZE_MAX,
    BULK_PUTS = PROPOSALS_IN_FLIGHT_MAX + 2,
    LEASE_ID = 7,
    LEASE_TTL_MS = 60000
};

struct node {
    char dir[64];
    uv_loop_t loop;
    struct service *service;
    bool is_closed;
};

static struct node node;

static void on_failed(void *data, enum status status, const char *reason) {
    fail_msg("%s", reason);
}

static void on_closed(void *data) {
    node.is_closed = true;
}

static int node_open(void **state) {
    static const char *const urls[] = {"http://127.0.0.1:1", NULL};
    static const struct replication_member members[] = {
        {.id = SELF_ID, .name = "n1", .address = "127.0.0.1:1", .peer_urls = urls},
        {.id = OTHER_ID, .name = "n2", .address = "127.0.0.1:2", .peer_urls = urls},
        {.id = THIRD_ID, .name = "n3", .address = "127.0.0.1:3", .peer_urls = urls}};
    node = (struct node){0};
    script = (struct script){0};
    snprintf(node.dir, sizeof node.dir, "/tmp/test-leadership-XXXXXX");
    assert_non_null(mkdtemp(node.dir));
    struct replication_options options = {.data_dir = node.dir,
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
    uv_loop_init(&node.loop);
    if (replication_open(&node.loop, &options, &node.service, error, sizeof error) != STATUS_OK) {
        fail_msg("%s", error);
    }
    return 0;
}

static int node_close(void **state) {
    replication_close(node.service, on_closed, NULL);
    while (!node.is_closed) {
        uv_run(&node.loop, UV_RUN_ONCE);
    }
    uv_run(&node.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&node.loop), 0);
    DIR *directory = opendir(node.dir);
    for (struct dirent *file; (file = readdir(directory)) != NULL;) {
        unlinkat(dirfd(directory), file->d_name, 0);
    }
    closedir(directory);
    assert_int_equal(rmdir(node.dir), 0);
    return 0;
}

/* --- Running it. --- */

static bool leads(void) {
    return node.service->leadership.term != 0;
}

static bool has_authority(void) {
    return cluster_is_authority(node.service, clock_boottime_ms());
}

static void run_until(bool (*condition)(void)) {
    uint64_t give_up_ms = clock_boottime_ms() + PATIENCE_MS;
    while (!condition()) {
        assert_true(clock_boottime_ms() < give_up_ms);
        uv_run(&node.loop, UV_RUN_ONCE);
        script_deliver();
    }
}

/* Another member asks for votes in the next term: this node steps down, and votes for it. */
static void ask_for_vote(void) {
    struct raft_engine *engine = node.service->engine;
    struct raft_message_view message = {.kind = MESSAGE_VOTE,
                                        .vote = {.term = raft_engine_term(engine) + 1,
                                                 .last_index = raft_engine_last_index(engine) + 1,
                                                 .last_term = raft_engine_term(engine),
                                                 .disrupt_leader = true}};
    script_message(OTHER_ID, &message);
    script_deliver();
    assert_int_not_equal(raft_engine_role(engine), ENGINE_LEADER);
}

struct waiter {
    struct service_request request;
    size_t n_done;
    enum status status;
};

static void waiter_done(struct service_request *request, const struct outcome *outcome) {
    struct waiter *waiter = list_entry(request, struct waiter, request);
    waiter->n_done++;
    waiter->status = outcome->status;
}

static void submit(struct waiter *waiter, const struct command *command) {
    *waiter = (struct waiter){.request.done = waiter_done};
    service_submit(node.service, &caller_anonymous, &waiter->request, command);
}

/* --- A term's first entry still waits when the next term is won. --- */

static struct waiter bulk[BULK_PUTS];

static bool all_are_done(void) {
    for (size_t i = 0; i < BULK_PUTS; i++) {
        if (bulk[i].n_done == 0) {
            return false;
        }
    }
    return true;
}

static void leadership_won_again_while_the_first_entry_waits(void **state) {
    static uint8_t value[BULK_SIZE];
    struct command command = {.type = COMMAND_PUT};
    command.put.key = bytes_from_text("key");
    command.put.value = bytes_of(value, sizeof value);
    for (size_t i = 0; i < BULK_PUTS; i++) {
        submit(&bulk[i], &command);
    }
    script.grants_votes = true;
    run_until(leads);
    uint64_t lost_term = node.service->leadership.term;
    /* Clients' writes fill all that may be in flight, and nobody acknowledges: the first entry has
     * no room. */
    assert_int_equal(node.service->proposals.n_in_flight, PROPOSALS_IN_FLIGHT_MAX);
    assert_non_null(node.service->proposals.open);
    ask_for_vote();
    assert_false(leads());
    run_until(leads);
    assert_true(node.service->leadership.term > lost_term);

    script.acknowledges = true;
    script.answers_pings = true;
    run_until(has_authority);
    run_until(all_are_done);
    size_t n_lost = 0;
    for (size_t i = 0; i < BULK_PUTS; i++) {
        assert_int_equal(bulk[i].n_done, 1);
        n_lost += bulk[i].status == STATUS_LEADER_CHANGED;
    }
    assert_int_equal(n_lost, PROPOSALS_IN_FLIGHT_MAX);
    struct waiter last;
    command.put.value = bytes_from_text("last");
    submit(&last, &command);
    bulk[0] = (struct waiter){.n_done = 1};
    for (uint64_t give_up_ms = clock_boottime_ms() + PATIENCE_MS; last.n_done == 0;) {
        assert_true(clock_boottime_ms() < give_up_ms);
        uv_run(&node.loop, UV_RUN_ONCE);
        script_deliver();
    }
    assert_int_equal(last.status, STATUS_OK);
}

/* --- A vote for another ends what this node may answer by itself, at once. --- */

static bool had_authority_when_voting;
static size_t n_votes_granted;

static void vote_granted(void) {
    n_votes_granted++;
    had_authority_when_voting = has_authority();
}

static struct waiter granted;
static size_t n_refused;

static bool is_granted(void) {
    return granted.n_done > 0;
}

static bool has_voted(void) {
    return n_votes_granted > 0;
}

static void read_ready(struct service_read *read, enum status status) {
    assert_int_not_equal(status, STATUS_OK);
    n_refused++;
}

static void renewal_done(struct service_renewal *renewal, enum status status, int64_t ttl_ms) {
    assert_int_not_equal(status, STATUS_OK);
    n_refused++;
}

static void leader_that_votes_for_another_answers_nothing_from_memory(void **state) {
    script = (struct script){.grants_votes = true,
                             .acknowledges = true,
                             .answers_pings = true,
                             .vote_granted = vote_granted,
                             .callbacks = script.callbacks,
                             .data = script.data};
    n_votes_granted = 0;
    n_refused = 0;
    run_until(has_authority);
    struct command command = {.type = COMMAND_LEASE_GRANT};
    command.grant.id = LEASE_ID;
    command.grant.ttl_ms = LEASE_TTL_MS;
    submit(&granted, &command);
    run_until(is_granted);
    assert_int_equal(granted.status, STATUS_OK);
    struct service_renewal renewal = {
        .id = LEASE_ID, .owner = KEY_SPACE_ETCD, .done = renewal_done};
    struct service_read read = {.ready = read_ready};
    int64_t ttl_ms = 0;
    run_until(has_authority);
    assert_int_equal(service_read(node.service, &caller_anonymous, &read, NULL, 0), STATUS_OK);
    assert_int_equal(service_renew(node.service, &caller_anonymous, &renewal, &ttl_ms), STATUS_OK);

    /* No iteration of the loop between the vote and what clients ask. */
    ask_for_vote();
    assert_false(has_authority());
    assert_int_equal(service_read(node.service, &caller_anonymous, &read, NULL, 0), STATUS_PENDING);
    assert_int_equal(service_renew(node.service, &caller_anonymous, &renewal, &ttl_ms),
                     STATUS_PENDING);
    script.grants_votes = false;
    run_until(has_voted);
    assert_false(had_authority_when_voting);
    assert_int_equal(n_refused, 0);
    node_close(state);
    assert_int_equal(n_refused, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(leadership_won_again_while_the_first_entry_waits, node_open,
                                        node_close),
        cmocka_unit_test_setup(leader_that_votes_for_another_answers_nothing_from_memory,
                               node_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
