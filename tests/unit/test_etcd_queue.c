/* Calls that wait in the queue of a lock or an election, between a network and a service that are
 * both made for the test. */
#include "etcd_door_fakes.h"

#include "core/cluster_version.h"
#include "doors/etcd/etcd_queue_rules.h"
#include "proto/etcd_election.pb-c.h"
#include "proto/etcd_lock.pb-c.h"

enum { SESSION_TTL_MS = 60 * 1000 };

static void apply(struct fixture *fixture, const struct command *command) {
    struct apply_context context = {.term = 1, .now_ms = fixture->service.now_ms};
    struct arena arena;
    struct outcome outcome;
    arena_init(&arena);
    state_machine_apply(fixture->service.machine, command, &context, &arena, &outcome);
    assert_int_equal(outcome.status, STATUS_OK);
    watch_hub_publish(state_machine_watches(fixture->service.machine));
    arena_clear(&arena);
}

/* The door's machine with its rules, which the cluster may use. */
static int setup_queue(void **state) {
    static const struct rule *const rules[] = {&etcd_rule_join, &etcd_rule_withdraw,
                                               &etcd_rule_release, &etcd_rule_proclaim};
    static const struct rule_set rule_set = {rules, sizeof rules / sizeof rules[0]};
    int result = setup(state);
    struct fixture *fixture = *state;
    struct service *service = &fixture->service;
    state_machine_destroy(service->machine);
    service->machine = state_machine_create(&(struct state_machine_options){.rules = &rule_set});
    lease_table_lead(state_machine_leases(service->machine), service->now_ms);
    apply(fixture, &(struct command){.type = COMMAND_CLUSTER_VERSION,
                                     .cluster_version = {.version = CLUSTER_VERSION_RULES}});
    return result;
}

static void delete_key(struct fixture *fixture, const char *key) {
    apply(fixture,
          &(struct command){.type = COMMAND_DELETE, .delete = {.key = bytes_from_text(key)}});
}

/* Lets whoever was woken run. */
static void settle(struct fixture *fixture) {
    for (int i = 0; i < 5; i++) {
        uv_run(&fixture->loop, UV_RUN_NOWAIT);
    }
}

static struct grpc_call *begin_lock(struct fixture *fixture, int64_t lease_id) {
    struct grpc_call *call = fake_call_open(fixture->door, "/v3lockpb.Lock/Lock");
    V3lockpb__LockRequest lock = V3LOCKPB__LOCK_REQUEST__INIT;
    lock.name = binary("n");
    lock.lease = lease_id;
    send_packed(call, &lock.base);
    fake_service_run(&fixture->service);
    settle(fixture);
    return call;
}

static const struct record *key_of_seven(struct fixture *fixture) {
    return key_store_find(state_machine_keys(fixture->service.machine), KEY_SPACE_ETCD,
                          bytes_from_text("n/7"));
}

static size_t n_keys(struct fixture *fixture) {
    return key_store_count(state_machine_keys(fixture->service.machine), KEY_SPACE_ETCD,
                           bytes_from_text("n/"), bytes_from_text("n0"));
}

static void grant(struct fixture *fixture, int64_t id) {
    apply(fixture, &(struct command){.type = COMMAND_LEASE_GRANT,
                                     .grant = {.id = id, .ttl_ms = SESSION_TTL_MS}});
}

/* Closes a call whose key is still there. */
static void close_and_withdraw(struct fixture *fixture, struct grpc_call *call) {
    fake_call_close(call);
    fake_service_run(&fixture->service);
    settle(fixture);
}

static void a_tick_renews_each_session_once(void **state) {
    struct fixture *fixture = *state;
    put(fixture, "n/holder", "");
    struct grpc_call *call = begin_lock(fixture, 0);
    struct grpc_call *other = begin_lock(fixture, 0);
    fixture->service.now_ms += SESSION_TTL_MS / 3;
    fixture->service.now_step_ms = 1;
    tick(fixture);
    assert_int_equal(fixture->service.n_renewals, 2);
    tick(fixture);
    assert_int_equal(fixture->service.n_renewals, 2);
    fixture->service.now_ms += SESSION_TTL_MS / 3;
    tick(fixture);
    assert_int_equal(fixture->service.n_renewals, 4);
    assert_false(call->is_finished);
    close_and_withdraw(fixture, call);
    close_and_withdraw(fixture, other);
    assert_int_equal(n_keys(fixture), 1);
}

static void delete_all(struct fixture *fixture) {
    apply(fixture, &(struct command){.type = COMMAND_DELETE,
                                     .delete = {.key = bytes_from_text("n/"),
                                                .range_end = bytes_from_text("n0")}});
}

static void a_key_that_goes_during_the_last_renewal_is_not_answered(void **state) {
    struct fixture *fixture = *state;
    put(fixture, "n/holder", "");
    struct grpc_call *call = begin_lock(fixture, 0);
    fixture->service.renewals_wait = true;
    delete_key(fixture, "n/holder");
    settle(fixture);
    struct service_renewal *renewal = fake_service_renewal(&fixture->service, 0);
    assert_false(call->is_finished);
    delete_all(fixture);
    settle(fixture);
    renewal->done(renewal, STATUS_OK, SESSION_TTL_MS);
    settle(fixture);
    assert_true(call->is_finished);
    assert_int_not_equal(call->code, GRPC_OK);
    assert_int_equal(call->n_sent, 0);
    fake_service_run(&fixture->service);
    fake_call_close(call);
}

static void whoever_is_first_is_told_after_its_renewal(void **state) {
    struct fixture *fixture = *state;
    put(fixture, "n/holder", "");
    struct grpc_call *call = begin_lock(fixture, 0);
    fixture->service.renewals_wait = true;
    fixture->service.reads_wait = true;
    delete_key(fixture, "n/holder");
    settle(fixture);
    struct service_renewal *renewal = fake_service_renewal(&fixture->service, 0);
    renewal->done(renewal, STATUS_NO_LEADER, 0);
    tick(fixture);
    settle(fixture);
    renewal = fake_service_renewal(&fixture->service, 0);
    renewal->done(renewal, STATUS_OK, SESSION_TTL_MS);
    settle(fixture);
    assert_false(call->is_finished);
    fake_service_read(&fixture->service, STATUS_OK);
    assert_int_equal(call->code, GRPC_OK);
    assert_int_equal(call->n_sent, 1);
    assert_int_equal(n_keys(fixture), 1);
    fake_call_close(call);
}

static void a_call_that_is_over_is_not_told_and_leaves(void **state) {
    struct fixture *fixture = *state;
    struct grpc_call *call = fake_call_open(fixture->door, "/v3lockpb.Lock/Lock");
    V3lockpb__LockRequest lock = V3LOCKPB__LOCK_REQUEST__INIT;
    lock.name = binary("n");
    send_packed(call, &lock.base);
    call->is_gone = true;
    fake_service_run(&fixture->service);
    assert_int_equal(n_keys(fixture), 1);
    fake_service_run(&fixture->service);
    assert_int_equal(n_keys(fixture), 0);
    assert_int_equal(call->n_sent, 0);
    fake_call_close(call);
}

static void a_holder_that_asks_again_is_answered_at_once(void **state) {
    struct fixture *fixture = *state;
    grant(fixture, 7);
    int64_t revision = 0;
    for (int i = 0; i < 2; i++) {
        struct grpc_call *call = begin_lock(fixture, 7);
        assert_true(call->is_finished);
        assert_int_equal(call->code, GRPC_OK);
        assert_int_equal(call->n_sent, 1);
        fake_call_close(call);
        revision = i == 0 ? key_of_seven(fixture)->mod_revision : revision;
    }
    assert_int_equal(key_of_seven(fixture)->version, 1);
    assert_int_equal(key_of_seven(fixture)->mod_revision, revision);
}

static struct grpc_call *ask_election(struct fixture *fixture, const char *path) {
    struct grpc_call *call = fake_call_open(fixture->door, path);
    V3electionpb__LeaderRequest leader = V3ELECTIONPB__LEADER_REQUEST__INIT;
    leader.name = binary("n");
    send_packed(call, &leader.base);
    return call;
}

static void a_leader_is_not_looked_for_while_there_is_too_much_to_do(void **state) {
    struct fixture *fixture = *state;
    put(fixture, "n/1", "");
    fixture->service.refuses_work = true;
    struct grpc_call *refused = ask_election(fixture, "/v3electionpb.Election/Leader");
    assert_int_equal(refused->code, GRPC_RESOURCE_EXHAUSTED);
    struct grpc_call *observe = ask_election(fixture, "/v3electionpb.Election/Observe");
    tick(fixture);
    assert_int_equal(observe->n_sent, 0);
    fixture->service.refuses_work = false;
    struct grpc_call *asked = ask_election(fixture, "/v3electionpb.Election/Leader");
    assert_int_equal(asked->code, GRPC_OK);
    tick(fixture);
    assert_int_equal(observe->n_sent, 1);
    tick(fixture);
    put(fixture, "n/1", "proclaimed");
    assert_int_equal(observe->n_sent, 2);
    assert_false(observe->is_finished);
    fake_call_close(refused);
    fake_call_close(asked);
    fake_call_close(observe);
}

#define QUEUE_TEST(function) cmocka_unit_test_setup_teardown(function, setup_queue, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        QUEUE_TEST(a_tick_renews_each_session_once),
        QUEUE_TEST(a_key_that_goes_during_the_last_renewal_is_not_answered),
        QUEUE_TEST(whoever_is_first_is_told_after_its_renewal),
        QUEUE_TEST(a_call_that_is_over_is_not_told_and_leaves),
        QUEUE_TEST(a_holder_that_asks_again_is_answered_at_once),
        QUEUE_TEST(a_leader_is_not_looked_for_while_there_is_too_much_to_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
