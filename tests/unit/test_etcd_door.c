/* The door between a network and a service that are both made for the test: what happens when
 * answers come late, clients go away, or nobody reads. */
#include "etcd_door_fakes.h"

#include "doors/etcd/etcd_backup.h"
#include "doors/etcd/etcd_door.h"

/* --- Unary calls. --- */

static void a_put_is_answered_when_it_was_carried_out(void **state) {
    struct fixture *fixture = *state;
    struct grpc_call *call = begin_put(fixture, "k", "v", 0);
    assert_false(call->is_finished);
    fake_service_run(&fixture->service);
    assert_true(call->is_finished);
    assert_int_equal(call->code, GRPC_OK);
    struct bytes answer = fake_call_take(call);
    Etcdserverpb__PutResponse *response =
        etcdserverpb__put_response__unpack(NULL, answer.size, answer.data);
    assert_int_equal(response->header->revision, 2);
    assert_int_equal(response->header->cluster_id, 7);
    assert_int_equal(response->header->member_id, 9);
    assert_int_equal(response->header->raft_term, 1);
    etcdserverpb__put_response__free_unpacked(response, NULL);
    fake_call_close(call);
}

static void an_error_while_carrying_out_is_told(void **state) {
    struct fixture *fixture = *state;
    struct grpc_call *call = begin_put(fixture, "k", "v", 123);
    fake_service_run(&fixture->service);
    assert_int_equal(call->code, GRPC_NOT_FOUND);
    assert_string_equal(call->text, "etcdserver: requested lease not found");
    assert_int_equal(call->n_sent, 0);
    fake_call_close(call);
}

static void a_client_that_left_is_not_answered_and_its_write_stands(void **state) {
    struct fixture *fixture = *state;
    struct etcd_door_stats stats;
    fake_call_close(begin_put(fixture, "k", "v", 0));
    etcd_door_stats(fixture->door, &stats);
    assert_int_equal(stats.requests, 1);
    fake_service_run(&fixture->service);
    etcd_door_stats(fixture->door, &stats);
    assert_int_equal(stats.requests, 0);
    assert_non_null(key_store_find(state_machine_keys(fixture->service.machine), KEY_SPACE_ETCD,
                                   bytes_from_text("k")));
}

static struct grpc_call *begin_range(struct fixture *fixture, const char *key, bool serializable) {
    struct grpc_call *call = fake_call_open(fixture->door, "/etcdserverpb.KV/Range");
    Etcdserverpb__RangeRequest range = ETCDSERVERPB__RANGE_REQUEST__INIT;
    range.key = binary(key);
    range.serializable = serializable;
    send_packed(call, &range.base);
    return call;
}

static void a_read_waits_until_it_is_safe_unless_told_not_to(void **state) {
    struct fixture *fixture = *state;
    fixture->service.reads_wait = true;
    struct grpc_call *at_once = begin_range(fixture, "k", true);
    assert_true(at_once->is_finished);
    fake_call_close(at_once);

    struct grpc_call *call = begin_range(fixture, "k", false);
    assert_false(call->is_finished);
    put(fixture, "k", "v");
    fake_service_read(&fixture->service, STATUS_OK);
    assert_int_equal(call->code, GRPC_OK);
    struct bytes answer = fake_call_take(call);
    Etcdserverpb__RangeResponse *response =
        etcdserverpb__range_response__unpack(NULL, answer.size, answer.data);
    assert_int_equal(response->count, 1);
    etcdserverpb__range_response__free_unpacked(response, NULL);
    fake_call_close(call);

    struct grpc_call *refused = begin_range(fixture, "k", false);
    fake_service_read(&fixture->service, STATUS_NO_LEADER);
    assert_int_equal(refused->code, GRPC_UNAVAILABLE);
    fake_call_close(refused);

    fake_call_close(begin_range(fixture, "k", false));
    fake_service_read(&fixture->service, STATUS_OK);
}

/* One client may let many large reads wait. */
static void a_large_request_that_waits_counts_as_held(void **state) {
    struct fixture *fixture = *state;
    enum { SIZE = 100 * 1000 };
    char *key = malloc(SIZE + 1);
    assert_non_null(key);
    memset(key, 'k', SIZE);
    key[SIZE] = '\0';
    fixture->service.reads_wait = true;
    struct grpc_call *call = begin_range(fixture, key, false);
    assert_false(call->is_finished);
    assert_in_range(call->held_bytes, SIZE, 2 * SIZE);
    fake_call_close(call);
    fake_service_read(&fixture->service, STATUS_OK);
    call = begin_range(fixture, "k", false);
    assert_int_equal(call->held_bytes, 0);
    fake_call_close(call);
    fake_service_read(&fixture->service, STATUS_OK);
    free(key);
}

static void large_reads_are_refused_while_too_much_waits_to_be_read(void **state) {
    struct fixture *fixture = *state;
    enum { SIZE = 100 * 1000 };
    char *large = malloc(SIZE + 1);
    assert_non_null(large);
    memset(large, 'v', SIZE);
    large[SIZE] = '\0';
    put(fixture, "large", large);
    put(fixture, "small", "v");
    free(large);
    Etcdserverpb__RangeRequest range = ETCDSERVERPB__RANGE_REQUEST__INIT;
    range.key = binary("large");
    struct grpc_call *refused = fake_call_open(fixture->door, "/etcdserverpb.KV/Range");
    refused->is_crowded = true;
    send_packed(refused, &range.base);
    assert_true(refused->is_finished);
    assert_int_equal(refused->code, GRPC_RESOURCE_EXHAUSTED);
    assert_int_equal(refused->n_sent, 0);
    fake_call_close(refused);

    range.key = binary("small");
    struct grpc_call *answered = fake_call_open(fixture->door, "/etcdserverpb.KV/Range");
    answered->is_crowded = true;
    send_packed(answered, &range.base);
    assert_int_equal(answered->code, GRPC_OK);
    fake_call_take(answered);
    fake_call_close(answered);
}

static void put_large(struct fixture *fixture, const char *key, size_t size) {
    char *large = malloc(size + 1);
    assert_non_null(large);
    memset(large, 'v', size);
    large[size] = '\0';
    put(fixture, key, large);
    free(large);
}

static struct grpc_call *begin_range_of_all(struct fixture *fixture, bool is_blocked) {
    Etcdserverpb__RangeRequest range = ETCDSERVERPB__RANGE_REQUEST__INIT;
    range.key = binary("k");
    range.range_end = binary("l");
    struct grpc_call *call = fake_call_open(fixture->door, "/etcdserverpb.KV/Range");
    call->is_blocked = is_blocked;
    send_packed(call, &range.base);
    return call;
}

static void a_large_answer_is_made_as_it_is_taken_from_the_state_it_began_with(void **state) {
    struct fixture *fixture = *state;
    enum { SIZE = 200 * 1000, KEYS = 5 };
    for (int i = 0; i < KEYS; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%d", i);
        put_large(fixture, key, SIZE);
    }
    struct grpc_call *call = begin_range_of_all(fixture, true);
    assert_false(call->is_finished);
    assert_int_equal(call->n_sent, 0);
    size_t first_part = call->sent[0].size;
    assert_in_range(first_part, SIZE, 3 * SIZE);
    put(fixture, "k0", "changed");
    put(fixture, "k9", "too late");
    call->method->on_writable(call);
    assert_true(call->sent[0].size > first_part);
    assert_false(call->is_finished);
    call->is_blocked = false;
    call->method->on_writable(call);
    assert_true(call->is_finished);
    assert_int_equal(call->code, GRPC_OK);
    struct bytes answer = fake_call_take(call);
    assert_int_equal(answer.size, call->announced_size);
    Etcdserverpb__RangeResponse *response =
        etcdserverpb__range_response__unpack(NULL, answer.size, answer.data);
    assert_non_null(response);
    assert_int_equal(response->count, KEYS);
    assert_int_equal(response->n_kvs, KEYS);
    assert_int_equal(response->kvs[0]->value.len, SIZE);
    assert_int_equal(response->header->revision, KEYS + 1);
    etcdserverpb__range_response__free_unpacked(response, NULL);
    fake_call_close(call);
}

static void a_large_answer_ends_when_its_client_leaves_or_its_view_is_needed(void **state) {
    struct fixture *fixture = *state;
    put_large(fixture, "k1", 300 * 1000);
    put_large(fixture, "k2", 300 * 1000);
    fake_call_close(begin_range_of_all(fixture, true));

    fixture->service.scans_wait = true;
    struct grpc_call *waiting = begin_range_of_all(fixture, true);
    struct service_scan *scan = fixture->service.scan;
    assert_int_equal(scan->private.state, SCAN_WAITING);
    fake_scan_run(scan);
    assert_false(waiting->is_finished);
    scan->revoked(scan, STATUS_TOO_MANY_REQUESTS);
    assert_int_equal(waiting->code, GRPC_RESOURCE_EXHAUSTED);
    fake_call_close(waiting);

    fake_call_close(begin_range_of_all(fixture, true));
}

static struct grpc_call *begin_txn_of_all(struct fixture *fixture, bool serializable) {
    Etcdserverpb__RangeRequest range = ETCDSERVERPB__RANGE_REQUEST__INIT;
    range.key = binary("k");
    range.range_end = binary("l");
    range.keys_only = true;
    range.serializable = serializable;
    Etcdserverpb__RequestOp operation = ETCDSERVERPB__REQUEST_OP__INIT;
    operation.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE;
    operation.request_range = &range;
    Etcdserverpb__RequestOp *operations[] = {&operation, &operation};
    Etcdserverpb__TxnRequest txn = ETCDSERVERPB__TXN_REQUEST__INIT;
    txn.success = operations;
    txn.n_success = 2;
    struct grpc_call *call = fake_call_open(fixture->door, "/etcdserverpb.KV/Txn");
    send_packed(call, &txn.base);
    return call;
}

static Etcdserverpb__TxnResponse *read_txn_of_all(struct fixture *fixture, bool serializable) {
    struct grpc_call *call = begin_txn_of_all(fixture, serializable);
    assert_true(call->is_finished);
    assert_int_equal(call->code, GRPC_OK);
    struct bytes answer = fake_call_take(call);
    Etcdserverpb__TxnResponse *response =
        etcdserverpb__txn_response__unpack(NULL, answer.size, answer.data);
    assert_non_null(response);
    fake_call_close(call);
    return response;
}

static void a_transaction_that_reads_many_keys_leaves_the_loop(void **state) {
    struct fixture *fixture = *state;
    enum { KEYS = 300 };
    for (int i = 0; i < KEYS; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%d", i);
        put(fixture, key, "value");
    }
    for (int serializable = 0; serializable < 2; serializable++) {
        fixture->service.n_scans = 0;
        Etcdserverpb__TxnResponse *response = read_txn_of_all(fixture, serializable == 1);
        assert_int_equal(fixture->service.n_scans, 1);
        assert_int_equal(response->header->revision, KEYS + 1);
        assert_int_equal(response->n_responses, 2);
        for (size_t i = 0; i < 2; i++) {
            assert_int_equal(response->responses[i]->response_range->n_kvs, KEYS);
            assert_int_equal(response->responses[i]->response_range->kvs[0]->value.len, 0);
        }
        etcdserverpb__txn_response__free_unpacked(response, NULL);
    }
}

/* The sanitizer would tell. */
static void a_worker_may_still_read_a_transaction_whose_client_has_left(void **state) {
    struct fixture *fixture = *state;
    for (int i = 0; i < 300; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%d", i);
        put(fixture, key, "value");
    }
    fixture->service.scans_wait = true;
    struct grpc_call *call = begin_txn_of_all(fixture, true);
    struct service_scan *scan = fixture->service.scan;
    scan->private.state = SCAN_RUNNING;
    fake_call_close(call);
    fake_scan_run(scan);
}

static void a_client_that_insists_on_a_leader_is_refused_without_one(void **state) {
    struct fixture *fixture = *state;
    fixture->service.leader_id = 0;
    fixture->service.now_ms++;
    static const char *const paths[] = {
        "/etcdserverpb.KV/Range",           "/etcdserverpb.Lease/LeaseLeases",
        "/etcdserverpb.Maintenance/Status", "/etcdserverpb.Maintenance/Alarm",
        "/etcdserverpb.Maintenance/Hash",   "/etcdserverpb.Maintenance/Snapshot",
        "/etcdserverpb.Cluster/MemberList", "/etcdserverpb.Cluster/MemberPromote",
        "/etcdserverpb.Auth/AuthStatus",    "/v3electionpb.Election/Leader",
    };
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        struct grpc_call *call = fake_call_open_with(fixture->door, paths[i], "hasleader", "true");
        fake_call_message(call, bytes_of("", 0));
        assert_int_equal(call->code, GRPC_UNAVAILABLE);
        assert_string_equal(call->text, "etcdserver: no leader");
        fake_call_close(call);
    }
}

/* As in etcd 3.5: a client that had logged in goes on when authentication is switched off. */
static void a_token_is_not_looked_at_while_authentication_is_off(void **state) {
    struct fixture *fixture = *state;
    struct grpc_call *call =
        fake_call_open_with(fixture->door, "/etcdserverpb.KV/Range", "token", "x");
    fake_call_message(call, bytes_of("\x0a\x01k", 3));
    assert_int_equal(call->code, GRPC_OK);
    fake_call_close(call);
}

/* --- KeepAlive. --- */

static void grant(struct fixture *fixture, int64_t id, int64_t seconds) {
    struct grpc_call *call = fake_call_open(fixture->door, "/etcdserverpb.Lease/LeaseGrant");
    Etcdserverpb__LeaseGrantRequest request = ETCDSERVERPB__LEASE_GRANT_REQUEST__INIT;
    request.id = id;
    request.ttl = seconds;
    send_packed(call, &request.base);
    fake_service_run(&fixture->service);
    assert_int_equal(call->code, GRPC_OK);
    fake_call_close(call);
}

static void keep_alive(struct grpc_call *stream, int64_t id) {
    Etcdserverpb__LeaseKeepAliveRequest request = ETCDSERVERPB__LEASE_KEEP_ALIVE_REQUEST__INIT;
    request.id = id;
    send_packed(stream, &request.base);
}

static void assert_kept(struct grpc_call *stream, int64_t id, int64_t ttl) {
    struct bytes answer = fake_call_take(stream);
    Etcdserverpb__LeaseKeepAliveResponse *response =
        etcdserverpb__lease_keep_alive_response__unpack(NULL, answer.size, answer.data);
    assert_non_null(response);
    assert_int_equal(response->id, id);
    assert_int_equal(response->ttl, ttl);
    etcdserverpb__lease_keep_alive_response__free_unpacked(response, NULL);
}

static void renewals_are_answered_and_missing_leases_have_no_time_left(void **state) {
    struct fixture *fixture = *state;
    grant(fixture, 5, 10);
    struct grpc_call *stream = fake_call_open(fixture->door, "/etcdserverpb.Lease/LeaseKeepAlive");
    keep_alive(stream, 5);
    keep_alive(stream, 6);
    assert_kept(stream, 5, 10);
    assert_kept(stream, 6, 0);
    assert_false(stream->is_finished);
    fake_call_half_close(stream);
    assert_true(stream->is_finished);
    assert_int_equal(stream->code, GRPC_OK);
    fake_call_close(stream);
}

static void renewals_keep_their_order_when_some_wait(void **state) {
    struct fixture *fixture = *state;
    grant(fixture, 7, 30);
    struct grpc_call *stream = fake_call_open(fixture->door, "/etcdserverpb.Lease/LeaseKeepAlive");
    fixture->service.renewals_wait = true;
    keep_alive(stream, 5);
    keep_alive(stream, 6);
    fixture->service.renewals_wait = false;
    keep_alive(stream, 7);
    fake_call_half_close(stream);
    assert_int_equal(stream->n_sent, 0);
    struct service_renewal *second = fake_service_renewal(&fixture->service, 1);
    second->done(second, STATUS_LEASE_NOT_FOUND, 0);
    assert_int_equal(stream->n_sent, 0);
    struct service_renewal *first = fake_service_renewal(&fixture->service, 0);
    first->done(first, STATUS_OK, 20000);
    assert_kept(stream, 5, 20);
    assert_kept(stream, 6, 0);
    assert_kept(stream, 7, 30);
    assert_true(stream->is_finished);
    fake_call_close(stream);
}

/* What is more than the service is asked for waits in the stream, and keeps its place. */
static void renewals_beyond_those_that_are_asked_for_take_turns(void **state) {
    struct fixture *fixture = *state;
    struct grpc_call *stream = fake_call_open(fixture->door, "/etcdserverpb.Lease/LeaseKeepAlive");
    fixture->service.renewals_wait = true;
    for (size_t i = 0; i < options.renewals_per_stream_max; i++) {
        keep_alive(stream, (int64_t)i);
    }
    fake_call_half_close(stream);
    assert_int_equal(fixture->service.n_renewals, options.renewals_asked_max);
    assert_true(stream->held_bytes > 0);
    for (size_t i = 0; i < options.renewals_per_stream_max; i++) {
        assert_false(stream->is_finished);
        struct service_renewal *first = fake_service_renewal(&fixture->service, 0);
        assert_int_equal(first->id, i);
        first->done(first, STATUS_OK, 20000);
        assert_kept(stream, (int64_t)i, 20);
        uv_run(&fixture->loop, UV_RUN_NOWAIT);
    }
    assert_true(stream->is_finished);
    assert_int_equal(stream->code, GRPC_OK);
    assert_int_equal(stream->held_bytes, 0);
    fake_call_close(stream);
}

static void a_stream_may_go_while_its_renewals_wait_for_turns(void **state) {
    struct fixture *fixture = *state;
    struct grpc_call *stream = fake_call_open(fixture->door, "/etcdserverpb.Lease/LeaseKeepAlive");
    fixture->service.renewals_wait = true;
    for (size_t i = 0; i < options.renewals_per_stream_max; i++) {
        keep_alive(stream, (int64_t)i);
    }
    struct service_renewal *second = fake_service_renewal(&fixture->service, 1);
    second->done(second, STATUS_OK, 1000);
    fake_call_close(stream);
    uv_run(&fixture->loop, UV_RUN_NOWAIT);
    assert_int_equal(fixture->service.n_renewals, options.renewals_asked_max);
    for (size_t i = 1; i < options.renewals_asked_max; i++) {
        struct service_renewal *first = fake_service_renewal(&fixture->service, 0);
        first->done(first, STATUS_OK, 1000);
    }
}

static void a_stream_may_go_while_its_renewals_wait(void **state) {
    struct fixture *fixture = *state;
    struct grpc_call *stream = fake_call_open(fixture->door, "/etcdserverpb.Lease/LeaseKeepAlive");
    fixture->service.renewals_wait = true;
    keep_alive(stream, 5);
    keep_alive(stream, 6);
    struct service_renewal *second = fake_service_renewal(&fixture->service, 1);
    second->done(second, STATUS_OK, 1000);
    fake_call_close(stream);
    struct service_renewal *first = fake_service_renewal(&fixture->service, 0);
    first->done(first, STATUS_OK, 1000);
}

static void too_many_waiting_renewals_end_the_stream(void **state) {
    struct fixture *fixture = *state;
    struct grpc_call *stream = fake_call_open(fixture->door, "/etcdserverpb.Lease/LeaseKeepAlive");
    fixture->service.renewals_wait = true;
    for (size_t i = 0; i < options.renewals_per_stream_max; i++) {
        keep_alive(stream, 5);
        assert_false(stream->is_finished);
    }
    keep_alive(stream, 5);
    assert_int_equal(stream->code, GRPC_RESOURCE_EXHAUSTED);
    fake_call_close(stream);
    while (!list_is_empty(&fixture->service.renewals)) {
        struct service_renewal *renewal = fake_service_renewal(&fixture->service, 0);
        renewal->done(renewal, STATUS_STOPPED, 0);
    }
}

static void a_stream_ends_when_the_leader_is_lost_that_it_insists_on(void **state) {
    struct fixture *fixture = *state;
    struct grpc_call *stream = fake_call_open_with(
        fixture->door, "/etcdserverpb.Lease/LeaseKeepAlive", "hasleader", "true");
    tick(fixture);
    assert_false(stream->is_finished);
    fixture->service.leader_id = 0;
    tick(fixture);
    assert_int_equal(stream->code, GRPC_UNAVAILABLE);
    fake_call_close(stream);
}

static void a_malformed_renewal_ends_the_stream(void **state) {
    struct fixture *fixture = *state;
    struct grpc_call *stream = fake_call_open(fixture->door, "/etcdserverpb.Lease/LeaseKeepAlive");
    fake_call_message(stream, bytes_of("\x08", 1));
    assert_int_equal(stream->code, GRPC_INTERNAL);
    fake_call_close(stream);
}

/* --- Snapshot. --- */

/* The parts of a snapshot, put together; the hash is left out. */
static struct buffer take_snapshot(struct grpc_call *call) {
    struct buffer whole;
    buffer_init(&whole);
    uint64_t remaining = UINT64_MAX;
    while (call->n_taken < call->n_sent) {
        struct bytes message = fake_call_take(call);
        Etcdserverpb__SnapshotResponse *response =
            etcdserverpb__snapshot_response__unpack(NULL, message.size, message.data);
        assert_true(response->remaining_bytes <= remaining);
        remaining = response->remaining_bytes;
        if (call->n_taken == call->n_sent) {
            assert_int_equal(response->blob.len, 32);
        } else {
            buffer_append(&whole, response->blob.data, response->blob.len);
        }
        etcdserverpb__snapshot_response__free_unpacked(response, NULL);
    }
    assert_int_equal(remaining, 0);
    return whole;
}

static void a_snapshot_comes_in_blobs_as_the_client_reads_and_ends_with_its_hash(void **state) {
    struct fixture *fixture = *state;
    enum { SIZE = 300 * 1000, KEYS = 4 };
    for (int i = 0; i < KEYS; i++) {
        char key[8];
        snprintf(key, sizeof key, "k%d", i);
        put_large(fixture, key, SIZE);
    }
    struct buffer expected;
    buffer_init(&expected);
    struct snapshot_view *view = snapshot_view_open(fixture->service.machine);
    struct etcd_backup *backup = etcd_backup_create(view);
    while (etcd_backup_next(backup, &expected)) {
    }
    etcd_backup_destroy(backup);
    snapshot_view_close(view);

    struct grpc_call *call = fake_call_open(fixture->door, "/etcdserverpb.Maintenance/Snapshot");
    call->is_blocked = true;
    fake_call_message(call, bytes_of("", 0));
    assert_false(call->is_finished);
    assert_in_range(call->n_sent, 1, 2 * SIZE / (64 * 1024));
    put(fixture, "k0", "later");
    fake_call_unblock(call);
    assert_int_equal(call->code, GRPC_OK);
    struct buffer whole = take_snapshot(call);
    assert_int_equal(whole.size % 512, 0);
    assert_int_equal(whole.size, expected.size);
    assert_memory_equal(whole.data, expected.data, expected.size);
    buffer_clear(&whole);
    buffer_clear(&expected);
    fake_call_close(call);
}

static void a_snapshot_whose_client_left_is_let_go(void **state) {
    struct fixture *fixture = *state;
    put_large(fixture, "k1", 300 * 1000);
    put_large(fixture, "k2", 300 * 1000);
    struct grpc_call *call = fake_call_open(fixture->door, "/etcdserverpb.Maintenance/Snapshot");
    call->is_blocked = true;
    fake_call_message(call, bytes_of("", 0));
    assert_false(call->is_finished);
    fake_call_close(call);

    fixture->service.scans_wait = true;
    call = fake_call_open(fixture->door, "/etcdserverpb.Maintenance/Snapshot");
    fake_call_message(call, bytes_of("", 0));
    struct service_scan *scan = fixture->service.scan;
    assert_true(scan->is_whole);
    scan->revoked(scan, STATUS_TOO_MANY_REQUESTS);
    assert_int_equal(call->code, GRPC_RESOURCE_EXHAUSTED);
    fake_call_close(call);
}

/* The test of rights goes through the list: a method that is missing there would not be tested. */
static void every_method_is_listed_with_the_right_it_needs(void **state) {
    for (size_t i = 0; i < n_registered; i++) {
        size_t n_found = 0;
        for (const struct door_request *at = etcd_door.requests; at->name != NULL; at++) {
            n_found += strcmp(registered[i]->path, at->name) == 0;
        }
        if (n_found != 1) {
            fail_msg("%s is listed %zu times in etcd_requests.c", registered[i]->path, n_found);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(every_method_is_listed_with_the_right_it_needs),
        TEST(a_put_is_answered_when_it_was_carried_out),
        TEST(an_error_while_carrying_out_is_told),
        TEST(a_client_that_left_is_not_answered_and_its_write_stands),
        TEST(a_read_waits_until_it_is_safe_unless_told_not_to),
        TEST(a_large_request_that_waits_counts_as_held),
        TEST(large_reads_are_refused_while_too_much_waits_to_be_read),
        TEST(a_large_answer_is_made_as_it_is_taken_from_the_state_it_began_with),
        TEST(a_large_answer_ends_when_its_client_leaves_or_its_view_is_needed),
        TEST(a_client_that_insists_on_a_leader_is_refused_without_one),
        TEST(a_transaction_that_reads_many_keys_leaves_the_loop),
        TEST(a_worker_may_still_read_a_transaction_whose_client_has_left),
        TEST(a_token_is_not_looked_at_while_authentication_is_off),
        TEST(renewals_are_answered_and_missing_leases_have_no_time_left),
        TEST(renewals_keep_their_order_when_some_wait),
        TEST(renewals_beyond_those_that_are_asked_for_take_turns),
        TEST(a_stream_may_go_while_its_renewals_wait_for_turns),
        TEST(a_stream_may_go_while_its_renewals_wait),
        TEST(too_many_waiting_renewals_end_the_stream),
        TEST(a_stream_ends_when_the_leader_is_lost_that_it_insists_on),
        TEST(a_malformed_renewal_ends_the_stream),
        TEST(a_snapshot_comes_in_blobs_as_the_client_reads_and_ends_with_its_hash),
        TEST(a_snapshot_whose_client_left_is_let_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
