/* Peers that are hostile, slow, silent or deaf: they are bounded, and the others are served. */
#include "net_frames.h"

#include <sys/resource.h>
#include <sys/socket.h>

static const struct bytes hello = {(const uint8_t *)"hello", 5};

static void assert_served(struct fixture *fixture) {
    struct client client;
    client_open(&client, fixture);
    struct answer *answer = client_call(&client, "/test.Echo/Unary", hello, NULL, false);
    client_wait(&client, answer->is_closed);
    assert_int_equal(answer->grpc_status, GRPC_OK);
    client_close(&client);
}

static void garbage_is_closed_at_once(void **state) {
    struct fixture *fixture = doors_start(NULL);
    const char *const garbage[] = {"\x16\x02\x01\x02\x00\x01", "hello\r\n",
                                   "PRI * HTTP/2.0\r\n\r\nSM\r\n\rX", "PRX"};
    for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++) {
        int fd = raw_connect(fixture);
        raw_send_text(fd, garbage[i]);
        struct buffer got = raw_read_all(fixture, fd);
        assert_int_equal(got.size, 1);
        buffer_clear(&got);
        close(fd);
    }
    assert_int_equal(fixture_stats(fixture).protocol_errors, 4);
    assert_served(fixture);
    doors_stop(fixture);
}

static void slow_handshakes_end(void **state) {
    struct net_limits limits = net_limits_default;
    limits.handshake_timeout_ms = 60;
    struct fixture *fixture = doors_start(&limits);
    const char *const starts[] = {"", "PRI * HT", preface, "GET /hea",
                                  "GET /health HTTP/1.1\r\nA:"};
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        uint64_t start_ms = clock_boottime_ms();
        int fd = raw_connect(fixture);
        raw_send_text(fd, starts[i]);
        struct buffer got = raw_read_all(fixture, fd);
        assert_true(clock_boottime_ms() - start_ms >= 59);
        buffer_clear(&got);
        close(fd);
    }
    assert_served(fixture);
    doors_stop(fixture);
}

static void preface_in_single_bytes_is_served(void **state) {
    struct fixture *fixture = doors_start(NULL);
    int fd = raw_connect(fixture);
    struct buffer out;
    struct buffer got;
    buffer_init(&out);
    buffer_init(&got);
    preface_append(&out);
    call_append(&out, 1, "/test.Echo/Unary");
    frame_append(&out, NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, 1, bytes_of("\0\0\0\0\1x", 6));
    for (size_t i = 0; i < out.size; i++) {
        raw_send(fd, out.data + i, 1);
        fixture_turn(fixture);
    }
    uint64_t start_ms = clock_boottime_ms();
    while (fixture->n_closed == 0) {
        assert_true(clock_boottime_ms() - start_ms < WAIT_MS_MAX);
        fixture_turn(fixture);
    }
    assert_int_equal(fixture->n_messages, 1);
    buffer_clear(&out);
    buffer_clear(&got);
    close(fd);
    doors_stop(fixture);
}

static void rapid_resets_are_calmed(void **state) {
    struct fixture *fixture = doors_start(NULL);
    int fd = raw_connect(fixture);
    struct buffer out;
    struct buffer got;
    buffer_init(&out);
    buffer_init(&got);
    preface_append(&out);
    for (uint32_t i = 0; i < 50000; i++) {
        call_append(&out, 2 * i + 1, "/test.Echo/Hold");
        frame_append(&out, NGHTTP2_RST_STREAM, 0, 2 * i + 1, bytes_of("\0\0\0\x8", 4));
    }
    raw_send_all(fixture, fd, bytes_of(out.data, out.size), &got);
    raw_read_to_end(fixture, fd, &got);
    assert_int_equal(goaway_code(&got), NGHTTP2_ENHANCE_YOUR_CALM);
    assert_true(fixture->n_opened < 50000);
    buffer_clear(&out);
    buffer_clear(&got);
    close(fd);
    assert_served(fixture);
    doors_stop(fixture);
}

static void frames_that_do_nothing_are_calmed(void **state) {
    struct fixture *fixture = doors_start(NULL);
    for (unsigned kind = 0; kind < 3; kind++) {
        int fd = raw_connect(fixture);
        struct buffer out;
        struct buffer got;
        buffer_init(&out);
        buffer_init(&got);
        preface_append(&out);
        call_append(&out, 1, "/test.Echo/HoldStream");
        for (unsigned i = 0; i < 300000; i++) {
            if (kind == 0) {
                frame_append(&out, NGHTTP2_DATA, 0, 1, bytes_of(NULL, 0));
            } else if (kind == 1) {
                frame_append(&out, NGHTTP2_PING, 0, 0, bytes_of("12345678", 8));
            } else {
                frame_append(&out, NGHTTP2_SETTINGS, 0, 0, bytes_of(NULL, 0));
            }
        }
        raw_send_all(fixture, fd, bytes_of(out.data, out.size), &got);
        raw_read_to_end(fixture, fd, &got);
        if (kind == 0) {
            /* The others want answers, and nghttp2 gives up when too many are owed at once. */
            assert_int_equal(goaway_code(&got), NGHTTP2_ENHANCE_YOUR_CALM);
        }
        buffer_clear(&out);
        buffer_clear(&got);
        close(fd);
    }
    assert_served(fixture);
    doors_stop(fixture);
}

static void endless_continuation_is_closed(void **state) {
    struct fixture *fixture = doors_start(NULL);
    int fd = raw_connect(fixture);
    struct buffer out;
    struct buffer got;
    buffer_init(&out);
    buffer_init(&got);
    preface_append(&out);
    frame_append(&out, NGHTTP2_HEADERS, 0, 1, bytes_of("\0\1a\1b", 5));
    for (unsigned i = 0; i < 10000; i++) {
        frame_append(&out, NGHTTP2_CONTINUATION, 0, 1, bytes_of("\0\1a\1b", 5));
    }
    raw_send_all(fixture, fd, bytes_of(out.data, out.size), &got);
    raw_read_to_end(fixture, fd, &got);
    buffer_clear(&out);
    buffer_clear(&got);
    close(fd);
    assert_served(fixture);
    doors_stop(fixture);
}

static void stream_without_windows_holds_bounded_memory(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct client client;
    client_open_with_window(&client, fixture, 0);
    struct answer *answer = client_call(&client, "/test.Echo/Flood", hello, NULL, true);
    client_wait(&client, fixture->flooded_bytes > 0);
    for (unsigned i = 0; i < 100; i++) {
        client_turn(&client);
    }
    size_t high = net_limits_default.stream_queue_high;
    assert_true(fixture_stats(fixture).queued_bytes > high);
    assert_true(fixture_stats(fixture).queued_bytes <= high + 2 * FLOOD_MESSAGE_SIZE);
    assert_int_equal(fixture->n_writable, 0);
    assert_served(fixture);
    /* Windows open: the door goes on. */
    const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 60000}};
    nghttp2_submit_settings(client.session, NGHTTP2_FLAG_NONE, settings, 1);
    client_wait(&client, answer->body.size >= 60000);
    for (unsigned i = 0; i < 8; i++) {
        nghttp2_session_consume(client.session, answer->stream_id, 50000);
        size_t size = answer->body.size;
        client_wait(&client, answer->body.size > size);
    }
    client_wait(&client, fixture->n_writable > 0);
    client_close(&client);
    doors_stop(fixture);
}

static void deaf_peer_is_paused_then_closed(void **state) {
    struct net_limits limits = net_limits_default;
    limits.write_timeout_ms = 200;
    /* More than the sockets of both sides take. */
    limits.stream_queue_high = 32 * 1024 * 1024;
    limits.connection_queue_max = 32 * 1024 * 1024;
    struct fixture *fixture = doors_start(&limits);
    struct client client;
    client_open_with_window(&client, fixture, INT32_MAX);
    nghttp2_session_set_local_window_size(client.session, NGHTTP2_FLAG_NONE, 0, INT32_MAX);
    client_call(&client, "/test.Echo/Flood", hello, NULL, true);
    client_write(&client);
    client.is_deaf = true;
    client_wait(&client, fixture->flooded_bytes > 0);
    assert_served(fixture);
    client_wait(&client, fixture_stats(fixture).connections == 0);
    assert_int_equal(fixture->n_closed, 2);
    client_close(&client);
    doors_stop(fixture);
}

static void answers_nobody_reads_close_the_connection(void **state) {
    struct net_limits limits = net_limits_default;
    limits.stream_queue_high = 100 * 1000;
    limits.connection_queue_max = 200 * 1000;
    limits.connection_queue_abort = 1000 * 1000;
    struct fixture *fixture = doors_start(&limits);
    struct client client;
    /* No windows, so nothing of an answer can be sent, and the frames are still read. */
    client_open_with_window(&client, fixture, 0);
    uint8_t *big = calloc(1, 60 * 1000);
    assert_non_null(big);
    for (unsigned i = 0; i < 40; i++) {
        client_call(&client, "/test.Echo/Unary", bytes_of(big, 60 * 1000), NULL, false);
    }
    client_wait(&client, client.is_closed);
    assert_true(fixture_stats(fixture).protocol_errors > 0);
    free(big);
    client_close(&client);
    assert_served(fixture);
    doors_stop(fixture);
}

static void what_all_peers_have_not_read_leaves_no_room(void **state) {
    struct net_limits limits = net_limits_default;
    limits.queue_total_soft = 100 * 1000;
    limits.queue_total_max = 100 * 1000;
    struct fixture *fixture = doors_start(&limits);
    struct client reader;
    client_open(&reader, fixture);
    client_call(&reader, "/test.Echo/Hold", hello, NULL, false);
    client_wait(&reader, fixture->held != NULL);
    assert_true(grpc_call_has_room(fixture->held));
    struct client deaf;
    client_open_with_window(&deaf, fixture, 0);
    uint8_t *big = calloc(1, 60 * 1000);
    assert_non_null(big);
    for (unsigned i = 0; i < 2; i++) {
        client_call(&deaf, "/test.Echo/Unary", bytes_of(big, 60 * 1000), NULL, false);
    }
    client_wait(&deaf, fixture_stats(fixture).queued_bytes > 100 * 1000);
    assert_false(grpc_call_has_room(fixture->held));
    free(big);
    client_close(&deaf);
    client_wait(&reader, fixture_stats(fixture).connections == 1);
    assert_true(grpc_call_has_room(fixture->held));
    client_close(&reader);
    doors_stop(fixture);
}

/* A watch that owes its client one large revision could never get past it otherwise: each new
 * connection would end at the same place. */
static void one_answer_may_be_larger_than_what_closes_a_connection(void **state) {
    struct net_limits limits = net_limits_default;
    limits.stream_queue_high = 10 * 1000;
    limits.connection_queue_max = 20 * 1000;
    limits.connection_queue_abort = 40 * 1000;
    struct fixture *fixture = doors_start(&limits);
    struct client client;
    client_open(&client, fixture);
    enum { SIZE = 500 * 1000 };
    uint8_t *big = calloc(1, SIZE);
    assert_non_null(big);
    struct answer *answer =
        client_call(&client, "/test.Echo/Unary", bytes_of(big, SIZE), NULL, false);
    client_wait(&client, answer->is_closed || client.is_closed);
    assert_false(client.is_closed);
    assert_int_equal(answer->grpc_status, GRPC_OK);
    assert_true(answer->body.size >= SIZE);
    free(big);
    client_close(&client);
    doors_stop(fixture);
}

static void silent_peer_is_asked_and_then_dropped(void **state) {
    struct net_limits limits = net_limits_default;
    limits.keepalive_interval_ms = 50;
    limits.keepalive_timeout_ms = 50;
    limits.handshake_timeout_ms = 50;
    struct fixture *fixture = doors_start(&limits);
    struct client client;
    client_open(&client, fixture);
    /* While it answers, it stays. */
    client_wait(&client, client.n_pings >= 3);
    assert_int_equal(fixture_stats(fixture).connections, 1);
    client.is_deaf = true;
    client_wait(&client, fixture_stats(fixture).connections == 0);
    client_close(&client);
    doors_stop(fixture);
}

static void connections_over_the_limit_are_refused(void **state) {
    struct net_limits limits = net_limits_default;
    limits.connections_max = 3;
    struct fixture *fixture = doors_start(&limits);
    int fds[3];
    for (size_t i = 0; i < 3; i++) {
        fds[i] = raw_connect(fixture);
    }
    while (fixture_stats(fixture).connections < 3) {
        fixture_turn(fixture);
    }
    int fourth = raw_connect(fixture);
    struct buffer got = raw_read_all(fixture, fourth);
    buffer_clear(&got);
    close(fourth);
    assert_int_equal(fixture_stats(fixture).connections_refused, 1);
    for (size_t i = 0; i < 3; i++) {
        close(fds[i]);
    }
    while (fixture_stats(fixture).connections > 0) {
        fixture_turn(fixture);
    }
    assert_served(fixture);
    doors_stop(fixture);
}

static void streams_over_the_limit_are_refused(void **state) {
    struct net_limits limits = net_limits_default;
    limits.streams_max = 10;
    struct fixture *fixture = doors_start(&limits);
    int fd = raw_connect(fixture);
    struct buffer out;
    struct buffer got;
    buffer_init(&out);
    buffer_init(&got);
    preface_append(&out);
    /* The limit holds once the client has acknowledged our settings. */
    frame_append(&out, NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, bytes_of(NULL, 0));
    raw_send(fd, out.data, 24 + 9);
    while (fixture_stats(fixture).bytes_sent == 0) {
        fixture_turn(fixture);
    }
    raw_send(fd, out.data + 24 + 9, 9);
    out.size = 0;
    for (uint32_t i = 0; i < 100; i++) {
        call_append(&out, 2 * i + 1, "/test.Echo/HoldStream");
    }
    raw_send_all(fixture, fd, bytes_of(out.data, out.size), &got);
    for (unsigned i = 0; i < 20; i++) {
        fixture_turn(fixture);
    }
    assert_int_equal(fixture->n_opened, 10);
    buffer_clear(&out);
    buffer_clear(&got);
    close(fd);
    doors_stop(fixture);
}

static void running_out_of_descriptors_rests_instead_of_spinning(void **state) {
    struct fixture *fixture = doors_start(NULL);
    int fds[3];
    for (size_t i = 0; i < 3; i++) {
        fds[i] = raw_connect(fixture);
    }
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit none_left = {.rlim_cur = (rlim_t)fds[2] + 1, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none_left), 0);
    for (unsigned i = 0; i < 5; i++) {
        fixture_turn(fixture);
    }
    int timeout_ms = uv_backend_timeout(&fixture->loop);
    size_t n_connections = fixture_stats(fixture).connections;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(n_connections, 0);
    assert_true(timeout_ms > 0);
    while (fixture_stats(fixture).connections < 3) {
        uv_run(&fixture->loop, UV_RUN_ONCE);
    }
    assert_served(fixture);
    for (size_t i = 0; i < 3; i++) {
        close(fds[i]);
    }
    doors_stop(fixture);
}

/* --- after a stall ------------------------------------------------------------------------- */

static void bytes_and_connections_of_a_stall_are_caught_up(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct client client;
    client_open(&client, fixture);
    struct answer *first = client_call(&client, "/test.Echo/Unary", hello, NULL, false);
    client_wait(&client, first->is_closed);
    net_server_begin_catch_up(fixture->server);
    assert_true(net_server_is_caught_up(fixture->server));
    /* The server does not run while these arrive. */
    client_call(&client, "/test.Echo/Unary", hello, NULL, false);
    client_write(&client);
    struct client newcomer;
    client_open(&newcomer, fixture);
    client_call(&newcomer, "/test.Echo/Unary", hello, NULL, false);
    client_write(&newcomer);
    net_server_begin_catch_up(fixture->server);
    unsigned n_messages = fixture->n_messages;
    uint64_t start_ms = clock_boottime_ms();
    while (!net_server_is_caught_up(fixture->server)) {
        assert_true(clock_boottime_ms() - start_ms < WAIT_MS_MAX);
        fixture_turn(fixture);
    }
    assert_int_equal(fixture->n_messages, n_messages + 2);
    client_close(&client);
    client_close(&newcomer);
    doors_stop(fixture);
}

static void connection_lost_during_a_stall_does_not_hold_it_up(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct client client;
    client_open(&client, fixture);
    struct answer *first = client_call(&client, "/test.Echo/Unary", hello, NULL, false);
    client_wait(&client, first->is_closed);
    client_call(&client, "/test.Echo/Unary", hello, NULL, false);
    client_write(&client);
    net_server_begin_catch_up(fixture->server);
    assert_false(net_server_is_caught_up(fixture->server));
    /* A reset discards what waits in the socket. */
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    setsockopt(client.fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    client_close(&client);
    uint64_t start_ms = clock_boottime_ms();
    while (!net_server_is_caught_up(fixture->server)) {
        assert_true(clock_boottime_ms() - start_ms < WAIT_MS_MAX);
        fixture_turn(fixture);
    }
    doors_stop(fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(garbage_is_closed_at_once),
        cmocka_unit_test(slow_handshakes_end),
        cmocka_unit_test(preface_in_single_bytes_is_served),
        cmocka_unit_test(rapid_resets_are_calmed),
        cmocka_unit_test(frames_that_do_nothing_are_calmed),
        cmocka_unit_test(endless_continuation_is_closed),
        cmocka_unit_test(stream_without_windows_holds_bounded_memory),
        cmocka_unit_test(deaf_peer_is_paused_then_closed),
        cmocka_unit_test(answers_nobody_reads_close_the_connection),
        cmocka_unit_test(what_all_peers_have_not_read_leaves_no_room),
        cmocka_unit_test(one_answer_may_be_larger_than_what_closes_a_connection),
        cmocka_unit_test(silent_peer_is_asked_and_then_dropped),
        cmocka_unit_test(connections_over_the_limit_are_refused),
        cmocka_unit_test(streams_over_the_limit_are_refused),
        cmocka_unit_test(running_out_of_descriptors_rests_instead_of_spinning),
        cmocka_unit_test(bytes_and_connections_of_a_stall_are_caught_up),
        cmocka_unit_test(connection_lost_during_a_stall_does_not_hold_it_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
