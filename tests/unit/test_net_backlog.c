/* Peers that ask for answers and do not take them: HTTP/2 windows that stay closed. */
#include "net_doors.h"

enum { ANSWER_SIZE = 60 * 1000, SIP_SIZE = 100, NEVER_MS = 3600 * 1000 };

static const struct bytes hello = {(const uint8_t *)"hello", 5};
static const uint8_t large[ANSWER_SIZE];

/* Its answers wait: the windows of its streams are closed, that of the connection is not. */
static void hoarder_open(struct client *client, struct fixture *fixture, unsigned n_answers) {
    client_open_with_window(client, fixture, 0);
    nghttp2_session_set_local_window_size(client->session, NGHTTP2_FLAG_NONE, 0, INT32_MAX);
    size_t before = fixture_stats(fixture).queued_bytes;
    for (unsigned i = 0; i < n_answers; i++) {
        client_call(client, "/test.Echo/Unary", bytes_of(large, sizeof large), NULL, false);
    }
    client_wait(client, fixture_stats(fixture).queued_bytes >= before + n_answers * ANSWER_SIZE);
}

/* Takes a little of its first answer. */
static void sip(struct client *client) {
    assert_int_equal(nghttp2_submit_window_update(client->session, NGHTTP2_FLAG_NONE,
                                                  client->answers[0].stream_id, SIP_SIZE),
                     0);
}

static void pause_a_moment(void) {
    poll(NULL, 0, 1);
}

static void who_takes_nothing_is_closed_after_a_while(void **state) {
    struct net_limits limits = net_limits_default;
    limits.hoard_size = 50 * 1000;
    limits.hoard_timeout_ms = 200;
    limits.evict_after_ms = NEVER_MS;
    struct fixture *fixture = doors_start(&limits);
    struct client client;
    uint64_t start_ms = clock_boottime_ms();
    hoarder_open(&client, fixture, 2);
    /* Signs of life do not help. */
    while (!client.is_closed) {
        nghttp2_submit_ping(client.session, NGHTTP2_FLAG_NONE, NULL);
        client_turn(&client);
        pause_a_moment();
        assert_true(clock_boottime_ms() - start_ms < WAIT_MS_MAX);
    }
    assert_true(clock_boottime_ms() - start_ms >= 190);
    assert_int_equal(fixture_stats(fixture).connections_evicted, 1);
    assert_int_equal(fixture_stats(fixture).queued_bytes, 0);
    client_close(&client);
    doors_stop(fixture);
}

static void who_takes_a_little_stays_as_long_as_it_does(void **state) {
    struct net_limits limits = net_limits_default;
    limits.hoard_size = 50 * 1000;
    limits.hoard_timeout_ms = 200;
    struct fixture *fixture = doors_start(&limits);
    struct client client;
    hoarder_open(&client, fixture, 3);
    uint64_t start_ms = clock_boottime_ms();
    for (unsigned i = 0; i < 500 || clock_boottime_ms() - start_ms < 600; i++) {
        if (client.answers[0].body.size < ANSWER_SIZE - 2 * SIP_SIZE) {
            sip(&client);
        }
        client_turn(&client);
        pause_a_moment();
        assert_false(client.is_closed);
    }
    assert_true(client.answers[0].body.size > 0);
    assert_int_equal(fixture_stats(fixture).connections_evicted, 0);
    client_wait(&client, client.is_closed);
    assert_int_equal(fixture_stats(fixture).connections_evicted, 1);
    client_close(&client);
    doors_stop(fixture);
}

/* A watcher whose process is stopped for a minute finds everything as it was. */
static void small_backlogs_are_left_alone(void **state) {
    struct net_limits limits = net_limits_default;
    limits.hoard_size = 2 * ANSWER_SIZE;
    limits.hoard_timeout_ms = 20;
    limits.evict_after_ms = 20;
    limits.queue_total_soft = ANSWER_SIZE / 2;
    struct fixture *fixture = doors_start(&limits);
    struct client client;
    hoarder_open(&client, fixture, 1);
    uint64_t start_ms = clock_boottime_ms();
    while (clock_boottime_ms() - start_ms < 300) {
        client_turn(&client);
        pause_a_moment();
    }
    assert_false(client.is_closed);
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 2 * ANSWER_SIZE}};
    nghttp2_submit_settings(client.session, NGHTTP2_FLAG_NONE, settings, 1);
    client_wait(&client, client.answers[0].is_closed);
    assert_int_equal(client.answers[0].grpc_status, GRPC_OK);
    assert_body_is(&client.answers[0], bytes_of(large, sizeof large), 1);
    assert_int_equal(fixture_stats(fixture).connections_evicted, 0);
    client_close(&client);
    doors_stop(fixture);
}

static void when_all_hold_too_much_the_worst_that_takes_nothing_goes(void **state) {
    struct net_limits limits = net_limits_default;
    limits.hoard_size = 50 * 1000;
    limits.hoard_timeout_ms = NEVER_MS;
    limits.evict_after_ms = 300;
    /* Nine answers are too much, six are not. */
    limits.queue_total_soft = 7 * ANSWER_SIZE;
    struct fixture *fixture = doors_start(&limits);
    struct client worst;
    struct client lesser;
    struct client taking;
    /* In this order: the worst is the first that could go, and who takes begins before that. */
    hoarder_open(&worst, fixture, 3);
    hoarder_open(&lesser, fixture, 2);
    hoarder_open(&taking, fixture, 4);
    uint64_t start_ms = clock_boottime_ms();
    uint64_t closed_ms = 0;
    while (closed_ms == 0 || clock_boottime_ms() - closed_ms < 900) {
        assert_true(clock_boottime_ms() - start_ms < WAIT_MS_MAX);
        if (taking.answers[0].body.size < ANSWER_SIZE - 2 * SIP_SIZE) {
            sip(&taking);
        }
        client_turn(&taking);
        client_turn(&lesser);
        if (!worst.is_closed) {
            client_turn(&worst);
        } else if (closed_ms == 0) {
            closed_ms = clock_boottime_ms();
        }
        pause_a_moment();
        assert_false(taking.is_closed);
        assert_false(lesser.is_closed);
    }
    assert_int_equal(fixture_stats(fixture).connections_evicted, 1);
    client_close(&worst);
    client_close(&lesser);
    client_close(&taking);
    doors_stop(fixture);
}

/* Its windows are open and its socket is full: it reads far less at a time than the kernel buffers.
 */
static void a_slow_reader_is_not_taken_for_one_that_takes_nothing(void **state) {
    struct net_limits limits = net_limits_default;
    limits.stream_queue_high = 32 * 1024 * 1024;
    limits.connection_queue_max = 32 * 1024 * 1024;
    limits.queue_total_soft = 1024 * 1024;
    limits.hoard_timeout_ms = 400;
    limits.evict_after_ms = 400;
    struct fixture *fixture = doors_start(&limits);
    struct client client;
    client_open_with_window(&client, fixture, INT32_MAX);
    int receive_size = 64 * 1024;
    assert_int_equal(
        setsockopt(client.fd, SOL_SOCKET, SO_RCVBUF, &receive_size, sizeof receive_size), 0);
    nghttp2_session_set_local_window_size(client.session, NGHTTP2_FLAG_NONE, 0, INT32_MAX);
    client_call(&client, "/test.Echo/Flood", hello, NULL, true);
    client.is_deaf = true;
    client_wait(&client, fixture->flooded_bytes > 0);
    uint8_t taken[4096];
    uint64_t start_ms = clock_boottime_ms();
    while (clock_boottime_ms() - start_ms < 2000) {
        client_turn(&client);
        assert_int_not_equal(recv(client.fd, taken, sizeof taken, 0), 0);
        pause_a_moment();
    }
    assert_true(fixture_stats(fixture).queued_bytes > limits.queue_total_soft);
    assert_int_equal(fixture_stats(fixture).connections_evicted, 0);
    /* It stops, and others need the room. */
    client_wait(&client, fixture_stats(fixture).connections == 0);
    assert_int_equal(fixture_stats(fixture).connections_evicted, 1);
    client_close(&client);
    doors_stop(fixture);
}

static void many_small_backlogs_go_before_readers_are_refused_for_ever(void **state) {
    struct net_limits limits = net_limits_default;
    limits.evict_after_ms = 100;
    limits.queue_total_soft = 2 * ANSWER_SIZE;
    limits.queue_total_max = 3 * ANSWER_SIZE;
    struct fixture *fixture = doors_start(&limits);
    struct client reader;
    client_open(&reader, fixture);
    client_call(&reader, "/test.Echo/Hold", hello, NULL, false);
    client_wait(&reader, fixture->held != NULL);
    struct client hoarders[4];
    for (size_t i = 0; i < 4; i++) {
        hoarder_open(&hoarders[i], fixture, 1);
    }
    assert_false(grpc_call_has_room(fixture->held));
    client_wait(&reader, grpc_call_has_room(fixture->held));
    /* No more than it takes. */
    assert_true(fixture_stats(fixture).connections_evicted >= 2);
    assert_true(fixture_stats(fixture).connections_evicted <= 3);
    for (size_t i = 0; i < 4; i++) {
        client_close(&hoarders[i]);
    }
    client_close(&reader);
    doors_stop(fixture);
}

static void who_hoards_is_refused_and_others_are_not(void **state) {
    struct net_limits limits = net_limits_default;
    limits.hoard_size = 50 * 1000;
    limits.queue_total_soft = 2 * ANSWER_SIZE;
    struct fixture *fixture = doors_start(&limits);
    struct client reader;
    client_open(&reader, fixture);
    client_call(&reader, "/test.Echo/Hold", hello, NULL, false);
    client_wait(&reader, fixture->held != NULL);
    struct grpc_call *of_reader = fixture->held;
    fixture->held = NULL;
    struct client hoarder;
    hoarder_open(&hoarder, fixture, 3);
    client_call(&hoarder, "/test.Echo/Hold", hello, NULL, false);
    client_wait(&hoarder, hoarder.answers[3].is_closed);
    assert_null(fixture->held);
    assert_true(grpc_call_has_room(of_reader));
    client_call(&reader, "/test.Echo/Unary", hello, NULL, false);
    client_wait(&reader, reader.answers[1].is_closed);
    assert_int_equal(reader.answers[1].grpc_status, GRPC_OK);
    client_close(&hoarder);
    client_close(&reader);
    doors_stop(fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_takes_nothing_is_closed_after_a_while),
        cmocka_unit_test(who_takes_a_little_stays_as_long_as_it_does),
        cmocka_unit_test(small_backlogs_are_left_alone),
        cmocka_unit_test(when_all_hold_too_much_the_worst_that_takes_nothing_goes),
        cmocka_unit_test(a_slow_reader_is_not_taken_for_one_that_takes_nothing),
        cmocka_unit_test(many_small_backlogs_go_before_readers_are_refused_for_ever),
        cmocka_unit_test(who_hoards_is_refused_and_others_are_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
