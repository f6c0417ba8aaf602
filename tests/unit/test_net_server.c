/* gRPC calls over real sockets: what clients and doors see of each other. */
#include "net_doors.h"

static const struct bytes hello = {(const uint8_t *)"hello", 5};

static void unary_call_echoes_its_message(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct client client;
    client_open(&client, fixture);
    for (unsigned i = 1; i <= 3; i++) {
        struct answer *answer = client_call(&client, "/test.Echo/Unary", hello, NULL, false);
        client_wait(&client, answer->is_closed);
        assert_int_equal(answer->http_status, 200);
        assert_string_equal(answer->content_type, "application/grpc");
        assert_int_equal(answer->grpc_status, GRPC_OK);
        assert_int_equal(answer->error_code, NGHTTP2_NO_ERROR);
        assert_body_is(answer, hello, 1);
        client_wait(&client, fixture->n_closed == i);
    }
    assert_int_equal(fixture_stats(fixture).calls, 0);
    assert_int_equal(fixture_stats(fixture).calls_total, 3);
    client_close(&client);
    doors_stop(fixture);
}

static void calls_of_many_clients_do_not_mix(void **state) {
    struct fixture *fixture = doors_start(NULL);
    static struct client clients[20];
    struct answer *answers[20][3];
    for (size_t i = 0; i < 20; i++) {
        client_open(&clients[i], fixture);
        for (size_t k = 0; k < 3; k++) {
            uint8_t message[2] = {(uint8_t)i, (uint8_t)k};
            answers[i][k] = client_call(&clients[i], "/test.Echo/Unary",
                                        bytes_of(message, sizeof message), NULL, false);
        }
    }
    for (size_t i = 0; i < 20; i++) {
        for (size_t k = 0; k < 3; k++) {
            uint8_t message[2] = {(uint8_t)i, (uint8_t)k};
            client_wait(&clients[i], answers[i][k]->is_closed);
            assert_body_is(answers[i][k], bytes_of(message, sizeof message), 1);
        }
    }
    for (size_t i = 0; i < 20; i++) {
        client_close(&clients[i]);
    }
    doors_stop(fixture);
}

static void message_split_over_many_frames_arrives_whole(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct client client;
    client_open(&client, fixture);
    struct buffer framed;
    buffer_init(&framed);
    framed_append(&framed, bytes_from_text("a message in pieces"));
    struct answer *answer = client_request(&client, "POST", "/test.Echo/Unary", "application/grpc",
                                           NULL, bytes_of(NULL, 0), true);
    for (size_t i = 0; i < framed.size; i++) {
        client_wait(&client, answer->is_deferred);
        client_send(&client, answer, bytes_of(framed.data + i, 1), i + 1 < framed.size);
    }
    client_wait(&client, answer->is_closed);
    assert_int_equal(answer->grpc_status, GRPC_OK);
    assert_body_is(answer, bytes_from_text("a message in pieces"), 1);
    buffer_clear(&framed);
    client_close(&client);
    doors_stop(fixture);
}

static void server_stream_sends_all_then_its_status(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct client client;
    client_open(&client, fixture);
    struct answer *answer = client_call(&client, "/test.Echo/Stream", hello, NULL, false);
    client_wait(&client, answer->is_closed);
    assert_int_equal(answer->grpc_status, GRPC_OK);
    assert_body_is(answer, hello, STREAM_MESSAGES);
    client_close(&client);
    doors_stop(fixture);
}

static void bidirectional_stream_echoes_until_half_close(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct client client;
    client_open(&client, fixture);
    struct answer *answer = client_call(&client, "/test.Echo/Bidi", hello, NULL, true);
    client_wait(&client, answer->body.size == 10);
    struct buffer framed;
    buffer_init(&framed);
    for (size_t i = 0; i < 5000; i++) {
        framed_append(&framed, hello);
    }
    client_send(&client, answer, bytes_of(framed.data, framed.size), true);
    client_wait(&client, answer->body.size == 10 + framed.size);
    assert_int_equal(fixture->n_half_closed, 0);
    /* All but the first, and those that were cut by the end of a frame. */
    assert_in_range(fixture->n_near, 4000, 5000);
    assert_in_range(fixture->n_prefetched, fixture->n_near, 5000);
    client_send(&client, answer, bytes_of(NULL, 0), false);
    client_wait(&client, answer->is_closed);
    assert_int_equal(answer->grpc_status, GRPC_OK);
    assert_int_equal(fixture->n_half_closed, 1);
    assert_body_is(answer, hello, 5001);
    buffer_clear(&framed);
    client_close(&client);
    doors_stop(fixture);
}

static void big_message_passes_through_small_windows(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct client client;
    client_open(&client, fixture);
    size_t size = 1536 * 1024;
    uint8_t *big = malloc(size);
    assert_non_null(big);
    for (size_t i = 0; i < size; i++) {
        big[i] = (uint8_t)(i * 7 + i / 251);
    }
    struct answer *answer =
        client_call(&client, "/test.Echo/Unary", bytes_of(big, size), NULL, false);
    client_wait(&client, answer->is_closed);
    assert_int_equal(answer->grpc_status, GRPC_OK);
    assert_body_is(answer, bytes_of(big, size), 1);
    free(big);
    client_close(&client);
    doors_stop(fixture);
}

static void deadline_ends_the_call_and_tells_the_door(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct client client;
    client_open(&client, fixture);
    uint64_t start_ms = clock_boottime_ms();
    nghttp2_nv timeout = NV("grpc-timeout", "80m");
    struct answer *answer = client_call(&client, "/test.Echo/Hold", hello, &timeout, false);
    client_wait(&client, fixture->held != NULL);
    client_wait(&client, answer->is_closed);
    assert_true(clock_boottime_ms() - start_ms >= 80);
    assert_int_equal(answer->grpc_status, GRPC_DEADLINE_EXCEEDED);
    assert_string_equal(answer->grpc_message, "context deadline exceeded");
    assert_int_equal(fixture->n_closed, 1);
    client_close(&client);
    doors_stop(fixture);
}

static void answer_in_time_stops_the_deadline(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct client client;
    client_open(&client, fixture);
    nghttp2_nv timeout = NV("grpc-timeout", "50m");
    struct answer *answer = client_call(&client, "/test.Echo/Unary", hello, &timeout, false);
    client_wait(&client, answer->is_closed);
    assert_int_equal(answer->grpc_status, GRPC_OK);
    client_close(&client);
    doors_stop(fixture);
}

static void malformed_timeout_is_refused(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct client client;
    client_open(&client, fixture);
    nghttp2_nv timeout = NV("grpc-timeout", "soon");
    struct answer *answer = client_call(&client, "/test.Echo/Unary", hello, &timeout, false);
    client_wait(&client, answer->is_closed);
    assert_int_equal(answer->grpc_status, GRPC_INTERNAL);
    assert_string_equal(answer->grpc_message, "malformed grpc-timeout: \"soon\"");
    assert_int_equal(fixture->n_messages, 0);
    client_close(&client);
    doors_stop(fixture);
}

static void reset_by_the_client_tells_the_door(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct client client;
    client_open(&client, fixture);
    struct answer *answer = client_call(&client, "/test.Echo/Hold", hello, NULL, false);
    client_wait(&client, fixture->held != NULL);
    nghttp2_submit_rst_stream(client.session, NGHTTP2_FLAG_NONE, answer->stream_id, NGHTTP2_CANCEL);
    client_wait(&client, fixture->n_closed == 1);
    assert_null(fixture->held);
    struct answer *next = client_call(&client, "/test.Echo/Unary", hello, NULL, false);
    client_wait(&client, next->is_closed);
    assert_int_equal(next->grpc_status, GRPC_OK);
    client_close(&client);
    doors_stop(fixture);
}

static void lost_connection_tells_the_door(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct client client;
    client_open(&client, fixture);
    client_call(&client, "/test.Echo/HoldStream", hello, NULL, true);
    client_call(&client, "/test.Echo/Hold", hello, NULL, false);
    client_wait(&client, fixture->n_messages == 2);
    client_close(&client);
    uint64_t start_ms = clock_boottime_ms();
    while (fixture->n_closed < 2) {
        assert_true(clock_boottime_ms() - start_ms < WAIT_MS_MAX);
        fixture_turn(fixture);
    }
    assert_int_equal(fixture_stats(fixture).connections, 0);
    doors_stop(fixture);
}

static void held_call_is_answered_later(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct client client;
    client_open(&client, fixture);
    struct answer *answer = client_call(&client, "/test.Echo/Hold", hello, NULL, false);
    client_wait(&client, fixture->held != NULL);
    unsigned n_closed = fixture->n_closed;
    grpc_call_reply(fixture->held, hello);
    assert_int_equal(fixture->n_closed, n_closed);
    client_wait(&client, answer->is_closed);
    assert_body_is(answer, hello, 1);
    client_close(&client);
    doors_stop(fixture);
}

static void error_before_any_message_is_trailers_only(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct client client;
    client_open(&client, fixture);
    struct answer *answer = client_call(&client, "/test.Echo/Error", hello, NULL, false);
    client_wait(&client, answer->is_closed);
    assert_int_equal(answer->http_status, 200);
    assert_int_equal(answer->grpc_status, GRPC_FAILED_PRECONDITION);
    assert_string_equal(answer->grpc_message, "100%25 n%C3%B6");
    assert_int_equal(answer->body.size, 0);
    client_close(&client);
    doors_stop(fixture);
}

static void error_after_a_message_follows_it(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct client client;
    client_open(&client, fixture);
    struct answer *answer = client_call(&client, "/test.Echo/LateError", hello, NULL, false);
    client_wait(&client, answer->is_closed);
    assert_body_is(answer, hello, 1);
    assert_int_equal(answer->grpc_status, GRPC_ABORTED);
    assert_string_equal(answer->grpc_message, "after a message");
    client_close(&client);
    doors_stop(fixture);
}

static void answer_before_the_request_ended_closes_the_stream(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct client client;
    client_open(&client, fixture);
    struct answer *answer = client_call(&client, "/test.Echo/Unary", hello, NULL, true);
    client_wait(&client, answer->is_closed);
    assert_int_equal(answer->grpc_status, GRPC_OK);
    assert_int_equal(answer->error_code, NGHTTP2_NO_ERROR);
    client_close(&client);
    doors_stop(fixture);
}

static void unknown_paths_are_unimplemented(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct client client;
    client_open(&client, fixture);
    const char *const paths[][2] = {
        {"/test.Echo/Nothing", "unknown method Nothing for service test.Echo"},
        {"/test.Other/Unary", "unknown service test.Other"},
        {"/nothing", "malformed method name: \"/nothing\""},
    };
    for (size_t i = 0; i < 3; i++) {
        struct answer *answer = client_call(&client, paths[i][0], hello, NULL, false);
        client_wait(&client, answer->is_closed);
        assert_int_equal(answer->http_status, 200);
        assert_int_equal(answer->grpc_status, GRPC_UNIMPLEMENTED);
        assert_string_equal(answer->grpc_message, paths[i][1]);
    }
    client_close(&client);
    doors_stop(fixture);
}

static void metadata_reaches_the_door(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct client client;
    client_open(&client, fixture);
    nghttp2_nv header = NV("hasleader", "true");
    struct answer *with = client_call(&client, "/test.Echo/Metadata", hello, &header, false);
    struct answer *without = client_call(&client, "/test.Echo/Metadata", hello, NULL, false);
    client_wait(&client, with->is_closed && without->is_closed);
    assert_body_is(with, bytes_from_text("true"), 1);
    assert_int_equal(without->grpc_status, GRPC_NOT_FOUND);
    client_close(&client);
    doors_stop(fixture);
}

static void wrong_messages_are_refused(void **state) {
    struct net_limits limits = net_limits_default;
    limits.message_size_max = 1000;
    struct fixture *fixture = doors_start(&limits);
    struct client client;
    client_open(&client, fixture);
    static const struct {
        uint8_t bytes[16];
        size_t size;
        int code;
        const char *text;
    } cases[] = {
        {{0, 0, 0, 3, 0xe9},
         5,
         GRPC_RESOURCE_EXHAUSTED,
         "grpc: received message larger than max (1001 vs. 1000)"},
        {{0, 0xff, 0xff, 0xff, 0xff},
         5,
         GRPC_RESOURCE_EXHAUSTED,
         "grpc: received message larger than max (4294967295 vs. 1000)"},
        {{0, 0, 0, 0, 9, 'h', 'a', 'l', 'f'},
         9,
         GRPC_INTERNAL,
         "grpc: the stream ended inside a message"},
        {{0, 0}, 2, GRPC_INTERNAL, "grpc: the stream ended inside a message"},
        {{0}, 0, GRPC_INTERNAL, "grpc: the stream ended without a request message"},
        {{1, 0, 0, 0, 1, 'x'},
         6,
         GRPC_INTERNAL,
         "grpc: compressed flag set with identity or empty encoding"},
        {{7, 0, 0, 0, 1, 'x'}, 6, GRPC_INTERNAL, "grpc: received unexpected payload format 7"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct answer *answer =
            client_request(&client, "POST", "/test.Echo/Unary", "application/grpc", NULL,
                           bytes_of(cases[i].bytes, cases[i].size), false);
        client_wait(&client, answer->is_closed);
        assert_int_equal(answer->grpc_status, cases[i].code);
        assert_string_equal(answer->grpc_message, cases[i].text);
    }
    assert_int_equal(fixture->n_messages, 0);
    client_close(&client);
    doors_stop(fixture);
}

static void second_message_of_a_unary_call_is_refused(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct client client;
    client_open(&client, fixture);
    const uint8_t two[] = {0, 0, 0, 0, 1, 'a', 0, 0, 0, 0, 1, 'b'};
    struct answer *answer = client_request(&client, "POST", "/test.Echo/Hold", "application/grpc",
                                           NULL, bytes_of(two, sizeof two), false);
    client_wait(&client, answer->is_closed);
    assert_int_equal(answer->grpc_status, GRPC_INTERNAL);
    assert_int_equal(fixture->n_messages, 1);
    client_close(&client);
    doors_stop(fixture);
}

static void compression_is_refused_and_says_what_is_taken(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct client client;
    client_open(&client, fixture);
    const uint8_t compressed[] = {1, 0, 0, 0, 1, 'x'};
    nghttp2_nv encoding = NV("grpc-encoding", "deflate");
    struct answer *answer =
        client_request(&client, "POST", "/test.Echo/Unary", "application/grpc", &encoding,
                       bytes_of(compressed, sizeof compressed), false);
    /* The header alone does no harm: this message is not compressed. */
    struct answer *plain = client_call(&client, "/test.Echo/Unary", hello, &encoding, false);
    client_wait(&client, answer->is_closed && plain->is_closed);
    assert_int_equal(answer->grpc_status, GRPC_UNIMPLEMENTED);
    assert_string_equal(answer->grpc_message,
                        "grpc: Decompressor is not installed for grpc-encoding \"deflate\"");
    assert_string_equal(answer->accept_encoding, "identity,gzip");
    assert_int_equal(plain->grpc_status, GRPC_OK);
    client_close(&client);
    doors_stop(fixture);
}

/* hello, as gzip makes it, and what is wrong with it. */
static void gzip_is_taken_apart(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct client client;
    client_open(&client, fixture);
    static const uint8_t packed[] = {1,    0,    0,    0,    25,   0x1f, 0x8b, 0x08, 0x00, 0x00,
                                     0x00, 0x00, 0x00, 0x00, 0x03, 0xcb, 0x48, 0xcd, 0xc9, 0xc9,
                                     0x07, 0x00, 0x86, 0xa6, 0x10, 0x36, 0x05, 0x00, 0x00, 0x00};
    uint8_t broken[sizeof packed];
    memcpy(broken, packed, sizeof packed);
    broken[sizeof broken - 5] ^= 1;
    nghttp2_nv encoding = NV("grpc-encoding", "gzip");
    struct answer *good = client_request(&client, "POST", "/test.Echo/Unary", "application/grpc",
                                         &encoding, bytes_of(packed, sizeof packed), false);
    struct answer *bad = client_request(&client, "POST", "/test.Echo/Unary", "application/grpc",
                                        &encoding, bytes_of(broken, sizeof broken), false);
    /* Without a word about it. */
    struct answer *unsaid = client_request(&client, "POST", "/test.Echo/Unary", "application/grpc",
                                           NULL, bytes_of(packed, sizeof packed), false);
    client_wait(&client, good->is_closed && bad->is_closed && unsaid->is_closed);
    assert_int_equal(good->grpc_status, GRPC_OK);
    assert_body_is(good, hello, 1);
    assert_int_equal(bad->grpc_status, GRPC_INTERNAL);
    assert_int_equal(unsaid->grpc_status, GRPC_INTERNAL);
    client_close(&client);
    doors_stop(fixture);
}

static void other_content_type_is_415(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct client client;
    client_open(&client, fixture);
    struct answer *answer = client_request(&client, "POST", "/test.Echo/Unary", "application/json",
                                           NULL, bytes_from_text("{}"), false);
    client_wait(&client, answer->is_closed);
    assert_int_equal(answer->http_status, 415);
    assert_int_equal(fixture->n_opened, 0);
    client_close(&client);
    doors_stop(fixture);
}

/* --- the end ------------------------------------------------------------------------------- */

static void shutdown_lets_unary_calls_finish_and_ends_streams(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct client client;
    client_open(&client, fixture);
    struct answer *stream = client_call(&client, "/test.Echo/Bidi", hello, NULL, true);
    struct answer *unary = client_call(&client, "/test.Echo/Hold", hello, NULL, false);
    client_wait(&client, fixture->held != NULL);
    fixture_shutdown(fixture, WAIT_MS_MAX);
    client_wait(&client, stream->is_closed);
    assert_int_equal(stream->grpc_status, GRPC_UNAVAILABLE);
    assert_string_equal(stream->grpc_message, "server shutting down");
    assert_true(client.got_goaway);
    assert_int_equal(client.goaway_code, NGHTTP2_NO_ERROR);
    assert_false(unary->is_closed);
    assert_false(fixture->is_closed);
    grpc_call_reply(fixture->held, hello);
    client_wait(&client, fixture->is_closed && unary->is_closed);
    assert_int_equal(unary->grpc_status, GRPC_OK);
    client_close(&client);
    doors_stop(fixture);
}

static void shutdown_ends_what_outlives_its_grace(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct client client;
    client_open(&client, fixture);
    client_call(&client, "/test.Echo/Hold", hello, NULL, false);
    client_wait(&client, fixture->held != NULL);
    fixture_shutdown(fixture, 30);
    client_wait(&client, fixture->is_closed);
    assert_int_equal(fixture->n_closed, 1);
    client_close(&client);
    doors_stop(fixture);
}

static void shutdown_without_connections_is_quick(void **state) {
    struct fixture *fixture = doors_start(NULL);
    uint64_t start_ms = clock_boottime_ms();
    fixture_shutdown(fixture, WAIT_MS_MAX);
    doors_stop(fixture);
    assert_true(clock_boottime_ms() - start_ms < WAIT_MS_MAX / 2);
}

static void port_in_use_gives_a_reason(void **state) {
    struct fixture *fixture = doors_start(NULL);
    char error[128] = "";
    uint16_t port = 0;
    const struct net_listen_options taken = {.host = "127.0.0.1", .port = fixture->port};
    const struct net_listen_options nowhere = {.host = "no.such.host.invalid"};
    assert_int_equal(net_server_listen(fixture->server, &taken, &port, error, sizeof error),
                     STATUS_IO);
    assert_non_null(strstr(error, "in use"));
    assert_int_equal(net_server_listen(fixture->server, &nowhere, &port, error, sizeof error),
                     STATUS_IO);
    doors_stop(fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unary_call_echoes_its_message),
        cmocka_unit_test(calls_of_many_clients_do_not_mix),
        cmocka_unit_test(message_split_over_many_frames_arrives_whole),
        cmocka_unit_test(server_stream_sends_all_then_its_status),
        cmocka_unit_test(bidirectional_stream_echoes_until_half_close),
        cmocka_unit_test(big_message_passes_through_small_windows),
        cmocka_unit_test(deadline_ends_the_call_and_tells_the_door),
        cmocka_unit_test(answer_in_time_stops_the_deadline),
        cmocka_unit_test(malformed_timeout_is_refused),
        cmocka_unit_test(reset_by_the_client_tells_the_door),
        cmocka_unit_test(lost_connection_tells_the_door),
        cmocka_unit_test(held_call_is_answered_later),
        cmocka_unit_test(error_before_any_message_is_trailers_only),
        cmocka_unit_test(error_after_a_message_follows_it),
        cmocka_unit_test(answer_before_the_request_ended_closes_the_stream),
        cmocka_unit_test(unknown_paths_are_unimplemented),
        cmocka_unit_test(metadata_reaches_the_door),
        cmocka_unit_test(wrong_messages_are_refused),
        cmocka_unit_test(second_message_of_a_unary_call_is_refused),
        cmocka_unit_test(compression_is_refused_and_says_what_is_taken),
        cmocka_unit_test(gzip_is_taken_apart),
        cmocka_unit_test(other_content_type_is_415),
        cmocka_unit_test(shutdown_lets_unary_calls_finish_and_ends_streams),
        cmocka_unit_test(shutdown_ends_what_outlives_its_grace),
        cmocka_unit_test(shutdown_without_connections_is_quick),
        cmocka_unit_test(port_in_use_gives_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
