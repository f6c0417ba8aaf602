/* Watch streams between a network and a service that are both made for the test. */
#include "etcd_door_fakes.h"

/* --- Watch. --- */

struct watch_options {
    const char *key;
    const char *range_end;
    int64_t start;
    int64_t id;
    bool fragment;
    bool prev_kv;
    bool progress;
};

static void watch(struct grpc_call *stream, const struct watch_options *watch_options) {
    Etcdserverpb__WatchCreateRequest create = ETCDSERVERPB__WATCH_CREATE_REQUEST__INIT;
    create.key = binary(watch_options->key);
    if (watch_options->range_end != NULL) {
        create.range_end = binary(watch_options->range_end);
    }
    create.start_revision = watch_options->start;
    create.watch_id = watch_options->id;
    create.fragment = watch_options->fragment;
    create.prev_kv = watch_options->prev_kv;
    create.progress_notify = watch_options->progress;
    Etcdserverpb__WatchRequest request = ETCDSERVERPB__WATCH_REQUEST__INIT;
    request.request_union_case = ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST;
    request.create_request = &create;
    send_packed(stream, &request.base);
}

static void ask_progress(struct grpc_call *stream) {
    Etcdserverpb__WatchProgressRequest progress = ETCDSERVERPB__WATCH_PROGRESS_REQUEST__INIT;
    Etcdserverpb__WatchRequest request = ETCDSERVERPB__WATCH_REQUEST__INIT;
    request.request_union_case = ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_PROGRESS_REQUEST;
    request.progress_request = &progress;
    send_packed(stream, &request.base);
}

static Etcdserverpb__WatchResponse *take_watch(struct grpc_call *stream) {
    struct bytes answer = fake_call_take(stream);
    Etcdserverpb__WatchResponse *response =
        etcdserverpb__watch_response__unpack(NULL, answer.size, answer.data);
    assert_non_null(response);
    return response;
}

static void free_watch(Etcdserverpb__WatchResponse *response) {
    etcdserverpb__watch_response__free_unpacked(response, NULL);
}

static void assert_created(struct grpc_call *stream, int64_t id) {
    Etcdserverpb__WatchResponse *response = take_watch(stream);
    assert_true(response->created);
    assert_false(response->canceled);
    assert_int_equal(response->watch_id, id);
    free_watch(response);
}

static void assert_refused(struct grpc_call *stream, const char *reason) {
    Etcdserverpb__WatchResponse *response = take_watch(stream);
    assert_true(response->created);
    assert_true(response->canceled);
    assert_int_equal(response->watch_id, -1);
    assert_string_equal(response->cancel_reason, reason);
    free_watch(response);
}

static void assert_put_event(struct grpc_call *stream, int64_t revision) {
    Etcdserverpb__WatchResponse *response = take_watch(stream);
    assert_int_equal(response->n_events, 1);
    assert_int_equal(response->events[0]->type, MVCCPB__EVENT__EVENT_TYPE__PUT);
    assert_int_equal(response->events[0]->kv->mod_revision, revision);
    assert_int_equal(response->header->revision, revision);
    free_watch(response);
}

static void work(struct fixture *fixture) {
    while (watch_hub_work(state_machine_watches(fixture->service.machine), 1000)) {
    }
}

static struct grpc_call *open_watch(struct fixture *fixture) {
    return fake_call_open(fixture->door, "/etcdserverpb.Watch/Watch");
}

static void events_reach_the_watches_of_a_stream(void **state) {
    struct fixture *fixture = *state;
    struct grpc_call *stream = open_watch(fixture);
    watch(stream, &(struct watch_options){.key = "k", .prev_kv = true});
    assert_created(stream, 0);
    put(fixture, "k", "1");
    put(fixture, "other", "1");
    put(fixture, "k", "2");
    assert_put_event(stream, 2);
    Etcdserverpb__WatchResponse *response = take_watch(stream);
    assert_int_equal(response->events[0]->kv->mod_revision, 4);
    assert_non_null(response->events[0]->prev_kv);
    assert_int_equal(response->events[0]->prev_kv->mod_revision, 2);
    free_watch(response);
    assert_int_equal(stream->n_taken, stream->n_sent);
    fake_call_close(stream);
}

static void ids_are_chosen_or_given_but_never_twice(void **state) {
    struct fixture *fixture = *state;
    struct grpc_call *stream = open_watch(fixture);
    watch(stream, &(struct watch_options){.key = "k", .id = 1});
    assert_created(stream, 1);
    watch(stream, &(struct watch_options){.key = "k"});
    assert_created(stream, 0);
    watch(stream, &(struct watch_options){.key = "k", .id = 1});
    assert_refused(stream, "mvcc: duplicate watch ID provided on the WatchStream");
    watch(stream, &(struct watch_options){.key = "k"});
    assert_created(stream, 2);
    watch(stream, &(struct watch_options){.key = "k"});
    assert_refused(stream, "etcdserver: too many watches");
    fake_call_close(stream);
}

static void an_empty_range_is_refused(void **state) {
    struct fixture *fixture = *state;
    struct grpc_call *stream = open_watch(fixture);
    watch(stream, &(struct watch_options){.key = "b", .range_end = "a"});
    assert_refused(stream, "mvcc: watcher range is empty");
    fake_call_close(stream);
}

static void keys_of_watches_are_bounded_in_bytes(void **state) {
    struct fixture *fixture = *state;
    char key[700];
    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = '\0';
    struct grpc_call *stream = open_watch(fixture);
    watch(stream, &(struct watch_options){.key = key});
    assert_created(stream, 0);
    watch(stream, &(struct watch_options){.key = key});
    assert_refused(stream, "etcdserver: too many watches");
    fake_call_close(stream);
}

static void cancel(struct grpc_call *stream, char id) {
    const char request[] = {0x12, 0x02, 0x08, id};
    fake_call_message(stream, bytes_of(request, sizeof request));
}

static void watches_count_as_what_their_connection_holds(void **state) {
    struct fixture *fixture = *state;
    struct grpc_call *stream = open_watch(fixture);
    stream->held_bytes_max = 600;
    watch(stream, &(struct watch_options){.key = "k"});
    assert_created(stream, 0);
    watch(stream, &(struct watch_options){.key = "k"});
    assert_created(stream, 1);
    watch(stream, &(struct watch_options){.key = "k"});
    assert_refused(stream, "etcdserver: too many watches");
    assert_in_range(stream->held_bytes, 1, 600);
    cancel(stream, 0);
    free_watch(take_watch(stream));
    watch(stream, &(struct watch_options){.key = "k"});
    assert_created(stream, 2);
    cancel(stream, 1);
    cancel(stream, 2);
    assert_int_equal(stream->held_bytes, 0);
    fake_call_close(stream);
}

static void a_cancelled_watch_is_told_so_and_gets_nothing_more(void **state) {
    struct fixture *fixture = *state;
    struct grpc_call *stream = open_watch(fixture);
    watch(stream, &(struct watch_options){.key = "k", .id = 4});
    assert_created(stream, 4);
    fake_call_message(stream, bytes_of("\x12\x02\x08\x09", 4)); /* of 9, which is none */
    fake_call_message(stream, bytes_of("\x12\x02\x08\x04", 4));
    Etcdserverpb__WatchResponse *response = take_watch(stream);
    assert_true(response->canceled);
    assert_int_equal(response->watch_id, 4);
    free_watch(response);
    put(fixture, "k", "1");
    assert_int_equal(stream->n_taken, stream->n_sent);
    fake_call_close(stream);
}

static void a_compacted_start_is_created_then_cancelled(void **state) {
    struct fixture *fixture = *state;
    put(fixture, "k", "1");
    put(fixture, "k", "2");
    put(fixture, "k", "3");
    assert_int_equal(key_store_compact(state_machine_keys(fixture->service.machine), 3), STATUS_OK);
    struct grpc_call *stream = open_watch(fixture);
    watch(stream, &(struct watch_options){.key = "k", .start = 2, .progress = true});
    assert_created(stream, 0);
    Etcdserverpb__WatchResponse *response = take_watch(stream);
    assert_true(response->canceled);
    assert_int_equal(response->compact_revision, 3);
    assert_int_equal(response->header->revision, 0);
    free_watch(response);
    watch(stream, &(struct watch_options){.key = "k", .start = 3});
    assert_created(stream, 1);
    work(fixture);
    response = take_watch(stream);
    assert_int_equal(response->n_events, 2);
    free_watch(response);
    fake_call_close(stream);
}

static void a_stream_that_does_not_read_is_caught_up_later(void **state) {
    struct fixture *fixture = *state;
    struct grpc_call *stream = open_watch(fixture);
    watch(stream, &(struct watch_options){.key = "k"});
    assert_created(stream, 0);
    stream->is_blocked = true;
    put(fixture, "k", "1");
    put(fixture, "k", "2");
    work(fixture);
    assert_int_equal(stream->n_taken, stream->n_sent);
    fake_call_unblock(stream);
    work(fixture);
    Etcdserverpb__WatchResponse *response = take_watch(stream);
    assert_int_equal(response->n_events, 2);
    free_watch(response);
    put(fixture, "k", "3");
    assert_put_event(stream, 4);
    fake_call_close(stream);
}

static void a_blocked_stream_may_go_away(void **state) {
    struct fixture *fixture = *state;
    struct grpc_call *stream = open_watch(fixture);
    watch(stream, &(struct watch_options){.key = "k"});
    stream->is_blocked = true;
    put(fixture, "k", "1");
    ask_progress(stream);
    fake_call_close(stream);
    put(fixture, "k", "2");
    work(fixture);
    struct etcd_door_stats stats;
    etcd_door_stats(fixture->door, &stats);
    assert_int_equal(stats.watches, 0);
    assert_int_equal(stats.watch_streams, 0);
}

static void progress_is_told_only_when_nothing_is_owed(void **state) {
    struct fixture *fixture = *state;
    struct grpc_call *stream = open_watch(fixture);
    watch(stream, &(struct watch_options){.key = "k"});
    assert_created(stream, 0);
    ask_progress(stream);
    Etcdserverpb__WatchResponse *response = take_watch(stream);
    assert_int_equal(response->watch_id, -1);
    assert_int_equal(response->header->revision, 1);
    free_watch(response);

    stream->is_blocked = true;
    put(fixture, "k", "1");
    ask_progress(stream);
    tick(fixture);
    assert_int_equal(stream->n_taken, stream->n_sent);
    fake_call_unblock(stream);
    work(fixture);
    tick(fixture);
    assert_put_event(stream, 2);
    response = take_watch(stream);
    assert_int_equal(response->watch_id, -1);
    assert_int_equal(response->header->revision, 2);
    free_watch(response);
    fake_call_close(stream);
}

static void many_questions_for_the_progress_of_many_watches_get_one_answer(void **state) {
    enum { WATCHES = 3, QUESTIONS = 10 };
    struct fixture *fixture = *state;
    struct grpc_call *stream = open_watch(fixture);
    for (int i = 0; i < WATCHES; i++) {
        watch(stream, &(struct watch_options){.key = "k"});
        assert_created(stream, i);
    }
    for (int i = 0; i < QUESTIONS; i++) {
        ask_progress(stream);
    }
    assert_int_equal(stream->n_taken, stream->n_sent);
    tick(fixture);
    Etcdserverpb__WatchResponse *response = take_watch(stream);
    assert_int_equal(response->watch_id, -1);
    assert_int_equal(response->header->revision, 1);
    free_watch(response);
    assert_int_equal(stream->n_taken, stream->n_sent);
    fake_call_close(stream);
}

static void quiet_watches_are_told_of_progress_in_time(void **state) {
    struct fixture *fixture = *state;
    struct grpc_call *stream = open_watch(fixture);
    watch(stream, &(struct watch_options){.key = "k", .progress = true});
    watch(stream, &(struct watch_options){.key = "l"});
    assert_created(stream, 0);
    assert_created(stream, 1);
    put(fixture, "other", "1");
    tick(fixture);
    Etcdserverpb__WatchResponse *response = take_watch(stream);
    assert_int_equal(response->watch_id, 0);
    assert_int_equal(response->n_events, 0);
    assert_int_equal(response->header->revision, 2);
    free_watch(response);
    put(fixture, "k", "1");
    assert_put_event(stream, 3);
    tick(fixture);
    assert_int_equal(stream->n_taken, stream->n_sent);
    fake_call_close(stream);
}

static void put_many(struct fixture *fixture, size_t n, const char *value) {
    struct grpc_call *call = fake_call_open(fixture->door, "/etcdserverpb.KV/Txn");
    Etcdserverpb__PutRequest puts[16];
    Etcdserverpb__RequestOp ops[16];
    Etcdserverpb__RequestOp *success[16];
    char keys[16][8];
    assert_true(n <= 16);
    for (size_t i = 0; i < n; i++) {
        snprintf(keys[i], sizeof keys[i], "k%zu", i);
        puts[i] = (Etcdserverpb__PutRequest)ETCDSERVERPB__PUT_REQUEST__INIT;
        puts[i].key = binary(keys[i]);
        puts[i].value = binary(value);
        ops[i] = (Etcdserverpb__RequestOp)ETCDSERVERPB__REQUEST_OP__INIT;
        ops[i].request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT;
        ops[i].request_put = &puts[i];
        success[i] = &ops[i];
    }
    Etcdserverpb__TxnRequest txn = ETCDSERVERPB__TXN_REQUEST__INIT;
    txn.n_success = n;
    txn.success = success;
    send_packed(call, &txn.base);
    fake_service_run(&fixture->service);
    assert_int_equal(call->code, GRPC_OK);
    fake_call_close(call);
}

static void large_answers_come_in_parts_for_those_who_agreed(void **state) {
    struct fixture *fixture = *state;
    char value[101];
    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    struct grpc_call *whole = open_watch(fixture);
    struct grpc_call *parts = open_watch(fixture);
    watch(whole, &(struct watch_options){.key = "k", .range_end = "l"});
    watch(parts, &(struct watch_options){.key = "k", .range_end = "l", .fragment = true});
    assert_created(whole, 0);
    assert_created(parts, 0);
    put_many(fixture, 16, value);

    Etcdserverpb__WatchResponse *response = take_watch(whole);
    assert_int_equal(response->n_events, 16);
    assert_false(response->fragment);
    free_watch(response);

    size_t n_events = 0;
    bool more = true;
    while (more) {
        response = take_watch(parts);
        assert_int_equal(response->header->revision, 2);
        assert_true(parts->sent[parts->n_taken - 1].size <= options.fragment_size);
        n_events += response->n_events;
        more = response->fragment;
        free_watch(response);
    }
    assert_int_equal(n_events, 16);
    assert_true(parts->n_taken > 3);
    assert_int_equal(parts->n_taken, parts->n_sent);
    fake_call_close(whole);
    fake_call_close(parts);
}

static void previous_values_of_one_answer_are_bounded(void **state) {
    enum { FIT = 10 }; /* of 100 bytes and a key of two */
    struct fixture *fixture = *state;
    char value[101];
    memset(value, 'v', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    put_many(fixture, 16, value);
    struct grpc_call *stream = open_watch(fixture);
    watch(stream, &(struct watch_options){.key = "k", .range_end = "l", .prev_kv = true});
    assert_created(stream, 0);
    put_many(fixture, 16, "w");
    put(fixture, "k9", "x");
    Etcdserverpb__WatchResponse *response = take_watch(stream);
    assert_int_equal(response->n_events, 16);
    for (size_t i = 0; i < 16; i++) {
        assert_int_equal(response->events[i]->kv->mod_revision, 3);
        assert_int_equal(response->events[i]->prev_kv != NULL, i < FIT);
    }
    free_watch(response);
    response = take_watch(stream);
    assert_int_equal(response->n_events, 1);
    assert_non_null(response->events[0]->prev_kv);
    free_watch(response);
    fake_call_close(stream);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(events_reach_the_watches_of_a_stream),
        TEST(ids_are_chosen_or_given_but_never_twice),
        TEST(an_empty_range_is_refused),
        TEST(keys_of_watches_are_bounded_in_bytes),
        TEST(watches_count_as_what_their_connection_holds),
        TEST(a_cancelled_watch_is_told_so_and_gets_nothing_more),
        TEST(a_compacted_start_is_created_then_cancelled),
        TEST(a_stream_that_does_not_read_is_caught_up_later),
        TEST(a_blocked_stream_may_go_away),
        TEST(progress_is_told_only_when_nothing_is_owed),
        TEST(many_questions_for_the_progress_of_many_watches_get_one_answer),
        TEST(quiet_watches_are_told_of_progress_in_time),
        TEST(large_answers_come_in_parts_for_those_who_agreed),
        TEST(previous_values_of_one_answer_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
