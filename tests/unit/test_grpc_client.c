/*
 * The client against our own server in the same loop, and against servers that misbehave. The loop
 * is run until what is awaited has happened; the test runner's time limit ends a wait in vain.
 */
#include "client/grpc_client.h"
#include "net/net_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MANY = 5000 };

struct fixture {
    uv_loop_t loop;
    struct net_server *server;
    struct grpc_client *client;
    uint16_t port;
    bool ready;
    bool closed;
    bool server_closed;
    char reason[512];
};

/* What one call brought; its address lies in the call's room. */
struct outcome {
    int ends;
    enum grpc_code code;
    char text[GRPC_CLIENT_TEXT_SIZE_MAX];
    size_t messages;
    size_t bytes;
    uint8_t first;
    struct fixture *fixture;
    bool destroy_client;
    bool cancel;
};

/* ---- the server's methods ---- */

static void echo(struct grpc_call *call, struct bytes message) {
    grpc_call_reply(call, message);
}

static void refuse(struct grpc_call *call, struct bytes message) {
    (void)message;
    grpc_call_finish(call, GRPC_NOT_FOUND, "no such th\xc3\xafng, 100% sure");
}

static void say_nothing(struct grpc_call *call, struct bytes message) {
    (void)call;
    (void)message;
}

static void echo_stream(struct grpc_call *call, struct bytes message) {
    grpc_call_send(call, message);
}

static void end_stream(struct grpc_call *call) {
    grpc_call_finish(call, GRPC_OK, NULL);
}

static const struct grpc_method server_methods[] = {
    {.path = "/test.T/Echo", .kind = GRPC_UNARY, .on_message = echo},
    {.path = "/test.T/Refuse", .kind = GRPC_UNARY, .on_message = refuse},
    {.path = "/test.T/Silent", .kind = GRPC_UNARY, .on_message = say_nothing},
    {.path = "/test.T/Stream",
     .kind = GRPC_BIDIRECTIONAL,
     .on_message = echo_stream,
     .on_half_close = end_stream},
};

/* ---- the client's side ---- */

static struct outcome *outcome_of(struct grpc_client_call *call) {
    return *(struct outcome **)grpc_client_call_room(call);
}

static void on_message(struct grpc_client_call *call, struct bytes message) {
    struct outcome *outcome = outcome_of(call);
    if (outcome->messages == 0 && message.size > 0) {
        outcome->first = message.data[0];
    }
    outcome->messages++;
    outcome->bytes += message.size;
    if (outcome->cancel) {
        grpc_client_call_cancel(call);
    }
    if (outcome->destroy_client) {
        grpc_client_destroy(outcome->fixture->client);
        outcome->fixture->client = NULL;
    }
}

static void on_end(struct grpc_client_call *call, enum grpc_code code, const char *text,
                   struct bytes message) {
    struct outcome *outcome = outcome_of(call);
    outcome->ends++;
    uv_stop(&outcome->fixture->loop); /* after a deadline nothing else may wake the loop */
    outcome->code = code;
    strcpy(outcome->text, text);
    if (message.data != NULL) {
        on_message(call, message);
    } else if (outcome->destroy_client) {
        grpc_client_destroy(outcome->fixture->client);
        outcome->fixture->client = NULL;
    }
}

#define METHOD(method_path, is_unary)                                                              \
    { .path = method_path, .unary = is_unary, .on_message = on_message, .on_end = on_end }
static const struct grpc_client_method method_echo = METHOD("/test.T/Echo", true);
static const struct grpc_client_method method_refuse = METHOD("/test.T/Refuse", true);
static const struct grpc_client_method method_silent = METHOD("/test.T/Silent", true);
static const struct grpc_client_method method_unknown = METHOD("/test.T/Unknown", true);
static const struct grpc_client_method method_stream = METHOD("/test.T/Stream", false);

static void on_ready(void *context) {
    struct fixture *fixture = context;
    fixture->ready = true;
}

static void on_closed(void *context, const char *reason) {
    struct fixture *fixture = context;
    fixture->closed = true;
    uv_stop(&fixture->loop);
    snprintf(fixture->reason, sizeof fixture->reason, "%s", reason);
}

static void connect_to(struct fixture *fixture, uint16_t port) {
    const struct grpc_client_options options = {
        .host = "127.0.0.1",
        .port = port,
        .connect_timeout_ms = 20000,
        .context = fixture,
        .on_ready = on_ready,
        .on_closed = on_closed,
    };
    assert_int_equal(grpc_client_create(&fixture->loop, &options, &fixture->client), STATUS_OK);
}

static struct grpc_client_call *start(struct fixture *fixture, struct outcome *outcome,
                                      const struct grpc_client_method *method,
                                      uint32_t timeout_ms) {
    struct grpc_client_call *call = grpc_client_open(fixture->client, method, timeout_ms);
    assert_non_null(call);
    outcome->fixture = fixture;
    *(struct outcome **)grpc_client_call_room(call) = outcome;
    return call;
}

static void send_bytes(struct grpc_client_call *call, const void *data, size_t size) {
    uint8_t *room = grpc_client_call_reserve(call, size);
    if (size > 0) {
        memcpy(room, data, size);
    }
    grpc_client_call_commit(call, size);
}

static void call_unary(struct fixture *fixture, struct outcome *outcome,
                       const struct grpc_client_method *method, const char *message) {
    struct grpc_client_call *call = start(fixture, outcome, method, 20000);
    send_bytes(call, message, strlen(message));
    grpc_client_call_half_close(call);
}

static void run_until(struct fixture *fixture, const int *value, int wanted) {
    while (*value < wanted) {
        uv_run(&fixture->loop, UV_RUN_ONCE);
    }
}

static void run_until_closed(struct fixture *fixture) {
    while (!fixture->closed) {
        uv_run(&fixture->loop, UV_RUN_ONCE);
    }
}

static void on_server_closed(void *data) {
    struct fixture *fixture = data;
    fixture->server_closed = true;
    uv_stop(&fixture->loop);
}

static void set_up(struct fixture *fixture) {
    char error[256];
    *fixture = (struct fixture){0};
    assert_int_equal(uv_loop_init(&fixture->loop), 0);
    fixture->server = net_server_create(&fixture->loop, &net_limits_default);
    net_server_add_methods(fixture->server, server_methods,
                           sizeof server_methods / sizeof server_methods[0], NULL);
    assert_int_equal(net_server_listen(fixture->server,
                                       &(struct net_listen_options){.host = "127.0.0.1"},
                                       &fixture->port, error, sizeof error),
                     STATUS_OK);
    connect_to(fixture, fixture->port);
}

static void shut_server(struct fixture *fixture) {
    net_server_shutdown(fixture->server, 0, on_server_closed, fixture);
    while (!fixture->server_closed) {
        uv_run(&fixture->loop, UV_RUN_ONCE);
    }
}

static void tear_down(struct fixture *fixture) {
    grpc_client_destroy(fixture->client);
    if (!fixture->server_closed) {
        shut_server(fixture);
    }
    net_server_destroy(fixture->server);
    uv_run(&fixture->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&fixture->loop), 0);
}

/* ---- against our own server ---- */

static void a_unary_call_is_answered(void **state) {
    struct fixture fixture;
    struct outcome outcome = {0};
    set_up(&fixture);
    call_unary(&fixture, &outcome, &method_echo, "hello");
    run_until(&fixture, &outcome.ends, 1);
    assert_int_equal(outcome.code, GRPC_OK);
    assert_int_equal(outcome.bytes, 5);
    assert_int_equal(outcome.first, 'h');
    assert_true(fixture.ready);
    assert_int_equal(grpc_client_calls_open(fixture.client), 0);
    tear_down(&fixture);
}

static void an_empty_message_is_an_answer(void **state) {
    struct fixture fixture;
    struct outcome outcome = {0};
    set_up(&fixture);
    call_unary(&fixture, &outcome, &method_echo, "");
    run_until(&fixture, &outcome.ends, 1);
    assert_int_equal(outcome.code, GRPC_OK);
    assert_int_equal(outcome.messages, 1);
    assert_int_equal(outcome.bytes, 0);
    tear_down(&fixture);
}

static void a_status_comes_with_its_text_decoded(void **state) {
    struct fixture fixture;
    struct outcome outcome = {0};
    set_up(&fixture);
    call_unary(&fixture, &outcome, &method_refuse, "x");
    run_until(&fixture, &outcome.ends, 1);
    assert_int_equal(outcome.code, GRPC_NOT_FOUND);
    assert_string_equal(outcome.text, "no such th\xc3\xafng, 100% sure");
    assert_int_equal(outcome.messages, 0);
    tear_down(&fixture);
}

static void an_unknown_method_is_unimplemented(void **state) {
    struct fixture fixture;
    struct outcome outcome = {0};
    set_up(&fixture);
    call_unary(&fixture, &outcome, &method_unknown, "x");
    run_until(&fixture, &outcome.ends, 1);
    assert_int_equal(outcome.code, GRPC_UNIMPLEMENTED);
    tear_down(&fixture);
}

static void many_calls_in_flight_are_all_answered(void **state) {
    struct fixture fixture;
    struct outcome *outcomes = calloc(MANY, sizeof *outcomes);
    assert_non_null(outcomes);
    set_up(&fixture);
    for (size_t i = 0; i < MANY; i++) {
        char text[16];
        snprintf(text, sizeof text, "%zu", i);
        call_unary(&fixture, &outcomes[i], &method_echo, text);
    }
    for (size_t i = 0; i < MANY; i++) {
        char text[16];
        run_until(&fixture, &outcomes[i].ends, 1);
        assert_int_equal(outcomes[i].code, GRPC_OK);
        assert_int_equal(outcomes[i].bytes, snprintf(text, sizeof text, "%zu", i));
        assert_int_equal(outcomes[i].first, text[0]);
    }
    tear_down(&fixture);
    free(outcomes);
}

static void a_call_that_is_not_answered_ends_at_its_deadline(void **state) {
    struct fixture fixture;
    struct outcome late = {0};
    struct outcome later = {0};
    struct outcome good = {0};
    set_up(&fixture);
    struct grpc_client_call *second = start(&fixture, &later, &method_silent, 500);
    struct grpc_client_call *first = start(&fixture, &late, &method_silent, 30);
    send_bytes(first, "x", 1);
    send_bytes(second, "x", 1);
    grpc_client_call_half_close(first);
    grpc_client_call_half_close(second);
    run_until(&fixture, &late.ends, 1);
    assert_int_equal(late.code, GRPC_DEADLINE_EXCEEDED);
    assert_int_equal(later.ends, 0); /* the shorter one ends first though it was opened last */
    run_until(&fixture, &later.ends, 1);
    assert_int_equal(later.code, GRPC_DEADLINE_EXCEEDED);
    call_unary(&fixture, &good, &method_echo, "still here");
    run_until(&fixture, &good.ends, 1);
    assert_int_equal(good.code, GRPC_OK);
    assert_int_equal(late.ends, 1);
    tear_down(&fixture);
}

static void a_stream_carries_messages_of_any_size(void **state) {
    struct fixture fixture;
    struct outcome outcome = {0};
    static const size_t sizes[] = {0, 1, 4, 5, 16379, 16384, 70000, 1000000};
    uint8_t *data = calloc(1, 1000000);
    assert_non_null(data);
    size_t total = 0;
    set_up(&fixture);
    struct grpc_client_call *call = start(&fixture, &outcome, &method_stream, 0);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        send_bytes(call, data, sizes[i]);
        total += sizes[i];
    }
    while (outcome.messages < sizeof sizes / sizeof sizes[0]) {
        uv_run(&fixture.loop, UV_RUN_ONCE);
    }
    assert_int_equal(outcome.bytes, total);
    assert_int_equal(outcome.ends, 0);
    send_bytes(call, "again", 5); /* after a pause */
    grpc_client_call_half_close(call);
    run_until(&fixture, &outcome.ends, 1);
    assert_int_equal(outcome.code, GRPC_OK);
    assert_int_equal(outcome.bytes, total + 5);
    tear_down(&fixture);
    free(data);
}

static void a_cancelled_stream_is_not_heard_of_again(void **state) {
    struct fixture fixture;
    struct outcome outcome = {.cancel = true};
    struct outcome good = {0};
    set_up(&fixture);
    struct grpc_client_call *call = start(&fixture, &outcome, &method_stream, 0);
    send_bytes(call, "one", 3);
    send_bytes(call, "two", 3);
    while (outcome.messages == 0) {
        uv_run(&fixture.loop, UV_RUN_ONCE);
    }
    call_unary(&fixture, &good, &method_echo, "x");
    run_until(&fixture, &good.ends, 1);
    assert_int_equal(outcome.messages, 1);
    assert_int_equal(outcome.ends, 0);
    tear_down(&fixture);
}

static void a_call_cancelled_before_it_was_sent_is_no_harm(void **state) {
    struct fixture fixture;
    struct outcome outcome = {0};
    struct outcome good = {0};
    set_up(&fixture);
    grpc_client_call_cancel(start(&fixture, &outcome, &method_stream, 1000));
    call_unary(&fixture, &good, &method_echo, "x");
    run_until(&fixture, &good.ends, 1);
    assert_int_equal(good.code, GRPC_OK);
    assert_int_equal(outcome.ends, 0);
    tear_down(&fixture);
}

static void the_client_can_be_destroyed_inside_its_callbacks(void **state) {
    static const struct grpc_client_method *const methods[] = {&method_echo, &method_refuse,
                                                               &method_stream};
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        struct fixture fixture;
        struct outcome outcome = {.destroy_client = true};
        struct outcome other = {0};
        set_up(&fixture);
        struct grpc_client_call *call = start(&fixture, &outcome, methods[i], 5000);
        send_bytes(call, "x", 1);
        send_bytes(start(&fixture, &other, &method_stream, 5000), "y", 1);
        if (methods[i]->unary) {
            grpc_client_call_half_close(call);
        }
        while (fixture.client != NULL) {
            uv_run(&fixture.loop, UV_RUN_ONCE);
        }
        tear_down(&fixture);
        assert_int_equal(other.ends, 0);
        assert_false(fixture.closed);
    }
}

static void a_server_that_goes_ends_every_call(void **state) {
    struct fixture fixture;
    struct outcome stream = {0};
    struct outcome unary = {0};
    struct outcome good = {0};
    set_up(&fixture);
    call_unary(&fixture, &good, &method_echo, "x");
    run_until(&fixture, &good.ends, 1);
    call_unary(&fixture, &unary, &method_silent, "x");
    send_bytes(start(&fixture, &stream, &method_stream, 0), "x", 1);
    while (stream.messages == 0) {
        uv_run(&fixture.loop, UV_RUN_ONCE);
    }
    shut_server(&fixture);
    run_until_closed(&fixture);
    assert_int_equal(stream.ends, 1);
    assert_int_equal(stream.code, GRPC_UNAVAILABLE);
    assert_int_equal(unary.ends, 1);
    assert_int_not_equal(unary.code, GRPC_OK);
    assert_true(grpc_client_is_closed(fixture.client));
    assert_null(grpc_client_open(fixture.client, &method_echo, 0));
    tear_down(&fixture);
}

/* ---- against others ---- */

struct odd_server {
    struct fixture fixture;
    uv_tcp_t listener;
    uv_tcp_t peer;
    const char *answer;
    size_t answer_size;
    bool has_peer;
};

static void on_odd_allocate(uv_handle_t *handle, size_t suggested, uv_buf_t *out_buffer) {
    static char room[65536];
    (void)handle;
    (void)suggested;
    *out_buffer = uv_buf_init(room, sizeof room);
}

static void on_odd_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer) {
    (void)buffer;
    if (size < 0) {
        uv_read_stop(stream);
    }
}

static void on_odd_connection(uv_stream_t *listener, int status) {
    struct odd_server *odd = listener->data;
    assert_int_equal(status, 0);
    uv_tcp_init(&odd->fixture.loop, &odd->peer);
    assert_int_equal(uv_accept(listener, (uv_stream_t *)&odd->peer), 0);
    odd->has_peer = true;
    uv_read_start((uv_stream_t *)&odd->peer, on_odd_allocate, on_odd_read);
    uv_buf_t buffer = uv_buf_init((char *)odd->answer, (unsigned)odd->answer_size);
    if (odd->answer_size == 0) {
        uv_close((uv_handle_t *)&odd->peer, NULL);
        odd->has_peer = false;
    } else {
        assert_int_equal(uv_try_write((uv_stream_t *)&odd->peer, &buffer, 1), odd->answer_size);
    }
}

/* A call to a server that says this and nothing else; gives why the connection closed. */
static void expect_end(const char *answer, size_t answer_size, enum grpc_code code,
                       const char *text) {
    struct odd_server odd = {.answer = answer, .answer_size = answer_size};
    struct outcome outcome = {0};
    struct sockaddr_in address;
    int address_size = sizeof address;
    assert_int_equal(uv_loop_init(&odd.fixture.loop), 0);
    uv_tcp_init(&odd.fixture.loop, &odd.listener);
    odd.listener.data = &odd;
    uv_ip4_addr("127.0.0.1", 0, &address);
    assert_int_equal(uv_tcp_bind(&odd.listener, (struct sockaddr *)&address, 0), 0);
    assert_int_equal(uv_listen((uv_stream_t *)&odd.listener, 1, on_odd_connection), 0);
    uv_tcp_getsockname(&odd.listener, (struct sockaddr *)&address, &address_size);
    connect_to(&odd.fixture, ntohs(address.sin_port));
    call_unary(&odd.fixture, &outcome, &method_echo, "x");
    run_until(&odd.fixture, &outcome.ends, 1);
    assert_int_equal(outcome.code, code);
    if (strstr(outcome.text, text) == NULL) {
        fail_msg("\"%s\" does not say \"%s\"", outcome.text, text);
    }
    grpc_client_destroy(odd.fixture.client);
    uv_close((uv_handle_t *)&odd.listener, NULL);
    if (odd.has_peer) {
        uv_close((uv_handle_t *)&odd.peer, NULL);
    }
    uv_run(&odd.fixture.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&odd.fixture.loop), 0);
}

#define SETTINGS "\0\0\0\x4\0\0\0\0\0"
/* :status 200 (indexed 8), content-type: application/grpc (name indexed 31, 16 bytes). */
#define GRPC_HEADERS                                                                               \
    "\0\0\x14\x1\x4\0\0\0\x1\x88\x0f\x10\x10"                                                      \
    "application/grpc"
#define EXPECT_END(answer, code, text) expect_end(answer, sizeof(answer) - 1, code, text)

static void a_server_of_another_protocol_is_told(void **state) {
    EXPECT_END("HTTP/1.1 400 Bad Request\r\n\r\n", GRPC_UNAVAILABLE, "HTTP/1");
    EXPECT_END("-ERR unknown command 'PRI'\r\n", GRPC_UNAVAILABLE, "does not speak HTTP/2");
    EXPECT_END("", GRPC_UNAVAILABLE, "");
}

static void a_reset_a_page_and_a_bad_answer_have_their_codes(void **state) {
    /* RST_STREAM with REFUSED_STREAM, then with CANCEL. */
    EXPECT_END(SETTINGS "\0\0\x4\x3\0\0\0\0\x1\0\0\0\x7", GRPC_UNAVAILABLE, "REFUSED_STREAM");
    EXPECT_END(SETTINGS "\0\0\x4\x3\0\0\0\0\x1\0\0\0\x8", GRPC_CANCELLED, "CANCEL");
    /* HEADERS with :status 404 (indexed 13) and END_STREAM. */
    EXPECT_END(SETTINGS "\0\0\x1\x1\x5\0\0\0\x1\x8d", GRPC_UNIMPLEMENTED, "404");
    /* gRPC headers, then: nothing more; a compressed message; one that is too large; two. */
    EXPECT_END(SETTINGS GRPC_HEADERS "\0\0\0\0\x1\0\0\0\x1", GRPC_UNKNOWN, "without a status");
    EXPECT_END(SETTINGS GRPC_HEADERS "\0\0\x6\0\0\0\0\0\x1\x1\0\0\0\x1x", GRPC_INTERNAL,
               "compressed");
    EXPECT_END(SETTINGS GRPC_HEADERS "\0\0\x5\0\0\0\0\0\x1\0\xff\xff\xff\xff", GRPC_INTERNAL,
               "too large");
    EXPECT_END(SETTINGS GRPC_HEADERS "\0\0\xc\0\0\0\0\0\x1\0\0\0\0\x1x\0\0\0\0\x1y", GRPC_INTERNAL,
               "second answer");
}

/* A message of one byte, and trailers with grpc-status 0. */
#define GRPC_TRAILERS                                                                              \
    "\0\0\xf\x1\x5\0\0\0\x1\0\xb"                                                                  \
    "grpc-status\x1"                                                                               \
    "0"

static void frames_of_every_shape_are_taken(void **state) {
    /* Headers in two frames, data with padding in two frames, frames of no known type, PRIORITY,
     * and a PING in between. */
    EXPECT_END(SETTINGS "\0\0\x1\x1\0\0\0\0\x1\x88"
                        "\0\0\x13\x9\x4\0\0\0\x1\x0f\x10\x10"
                        "application/grpc"
                        "\0\0\x6\0\x8\0\0\0\x1\x2\0\0\0\0\0"
                        "\0\0\x1\x77\0\0\0\0\x1z"
                        "\0\0\x5\x2\0\0\0\0\x1\0\0\0\0\x1"
                        "\0\0\x8\x6\0\0\0\0\0pingpong"
                        "\0\0\x3\0\0\0\0\0\x1\0\x1x" GRPC_TRAILERS,
               GRPC_OK, "");
    /* HEADERS with a priority, which nobody sends any more. */
    EXPECT_END(SETTINGS "\0\0\x6\x1\x25\0\0\0\x1\0\0\0\0\x1\x8d", GRPC_UNIMPLEMENTED, "404");
    /* Frames of a stream that was given up or never was are not ours to judge. */
    EXPECT_END(SETTINGS "\0\0\x1\0\0\0\0\0\x9x"
                        "\0\0\x4\x3\0\0\0\0\x9\0\0\0\x7"
                        "\0\0\x4\x8\0\0\0\0\x9\0\0\0\x7" GRPC_HEADERS
                        "\0\0\x6\0\0\0\0\0\x1\0\0\0\0\x1x" GRPC_TRAILERS,
               GRPC_OK, "");
}

static void a_server_that_breaks_the_protocol_is_told(void **state) {
    EXPECT_END(SETTINGS "\0\x40\x1\0\0\0\0\0\x1", GRPC_UNAVAILABLE, "too large");
    EXPECT_END(SETTINGS "\0\0\x1\x9\x4\0\0\0\x1\x88", GRPC_UNAVAILABLE, "out of order");
    EXPECT_END(SETTINGS "\0\0\x1\x1\0\0\0\0\x1\x88"
                        "\0\0\x1\0\0\0\0\0\x1x",
               GRPC_UNAVAILABLE, "out of order");
    EXPECT_END(SETTINGS "\0\0\x4\x5\x4\0\0\0\x1\0\0\0\x2", GRPC_UNAVAILABLE, "a push");
    EXPECT_END(SETTINGS "\0\0\x1\x1\x4\0\0\0\xb\x88", GRPC_UNAVAILABLE, "never opened");
    EXPECT_END(SETTINGS "\0\0\x1\x1\x4\0\0\0\0\x88", GRPC_UNAVAILABLE, "never opened");
    EXPECT_END(SETTINGS "\0\0\x1\x1\x4\0\0\0\x1\x80", GRPC_UNAVAILABLE, "cannot be decoded");
    EXPECT_END(SETTINGS "\0\0\x1\x1\xc\0\0\0\x1\x5", GRPC_UNAVAILABLE, "padding");
    EXPECT_END(SETTINGS "\0\0\x1\x1\x24\0\0\0\x1\x5", GRPC_UNAVAILABLE, "too short");
    EXPECT_END(SETTINGS GRPC_HEADERS "\0\0\x1\0\x8\0\0\0\x1\x5", GRPC_UNAVAILABLE, "padding");
    EXPECT_END(SETTINGS "\0\0\x4\x8\0\0\0\0\0\0\0\0\0", GRPC_UNAVAILABLE, "window");
    EXPECT_END(SETTINGS "\0\0\x4\x8\0\0\0\0\0\x7f\xff\xff\xff", GRPC_UNAVAILABLE, "window");
    EXPECT_END(SETTINGS "\0\0\x3\x8\0\0\0\0\0\0\0\x1", GRPC_UNAVAILABLE, "wrong size");
    EXPECT_END(SETTINGS "\0\0\x5\x4\0\0\0\0\0\0\x3\0\0\0", GRPC_UNAVAILABLE, "wrong size");
    EXPECT_END(SETTINGS "\0\0\x6\x4\0\0\0\0\0\0\x4\xff\0\0\0", GRPC_UNAVAILABLE, "window");
    EXPECT_END(SETTINGS "\0\0\x6\x4\0\0\0\0\0\0\x5\0\0\0\x1", GRPC_UNAVAILABLE, "frame size");
    EXPECT_END(SETTINGS "\0\0\x7\x6\0\0\0\0\0pingpon", GRPC_UNAVAILABLE, "wrong size");
    EXPECT_END(SETTINGS "\0\0\x3\x3\0\0\0\0\x1\0\0\0", GRPC_UNAVAILABLE, "wrong size");
    EXPECT_END(SETTINGS "\0\0\x4\x7\0\0\0\0\0\0\0\0\0", GRPC_UNAVAILABLE, "wrong size");
    EXPECT_END("\0\0\x8\x6\0\0\0\0\0pingpong", GRPC_UNAVAILABLE, "does not speak HTTP/2");
}

static void a_server_that_takes_no_more_calls_is_told(void **state) {
    /* GOAWAY, last stream 0. */
    EXPECT_END(SETTINGS "\0\0\x8\x7\0\0\0\0\0\0\0\0\0\0\0\0\0", GRPC_UNAVAILABLE,
               "takes no more calls");
    /* The stream that it still answers is heard to its end. */
    EXPECT_END(SETTINGS "\0\0\x8\x7\0\0\0\0\0\0\0\0\x1\0\0\0\0" GRPC_HEADERS
                        "\0\0\x6\0\0\0\0\0\x1\0\0\0\0\x1x" GRPC_TRAILERS,
               GRPC_OK, "");
}

static void windows_are_opened_again(void **state) {
    enum { SIZE = 1000000, COUNT = 80 }; /* more than the connection's window */
    struct fixture fixture;
    struct outcome outcome = {0};
    uint8_t *data = calloc(1, SIZE);
    assert_non_null(data);
    set_up(&fixture);
    struct grpc_client_call *call = start(&fixture, &outcome, &method_stream, 0);
    for (size_t sent = 0; outcome.messages < COUNT;) {
        if (sent < COUNT && sent - outcome.messages < 4) {
            send_bytes(call, data, SIZE);
            sent++;
        }
        uv_run(&fixture.loop, UV_RUN_ONCE);
    }
    assert_int_equal(outcome.bytes, (size_t)SIZE * COUNT);
    tear_down(&fixture);
    free(data);
}

static void a_refused_connection_is_told(void **state) {
    struct fixture fixture;
    struct outcome outcome = {0};
    set_up(&fixture);
    grpc_client_destroy(fixture.client);
    shut_server(&fixture);
    connect_to(&fixture, fixture.port);
    call_unary(&fixture, &outcome, &method_echo, "x");
    run_until_closed(&fixture);
    assert_int_equal(outcome.ends, 1);
    assert_int_equal(outcome.code, GRPC_UNAVAILABLE);
    assert_non_null(strstr(fixture.reason, "connection refused"));
    tear_down(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_unary_call_is_answered),
        cmocka_unit_test(an_empty_message_is_an_answer),
        cmocka_unit_test(a_status_comes_with_its_text_decoded),
        cmocka_unit_test(an_unknown_method_is_unimplemented),
        cmocka_unit_test(many_calls_in_flight_are_all_answered),
        cmocka_unit_test(a_call_that_is_not_answered_ends_at_its_deadline),
        cmocka_unit_test(a_stream_carries_messages_of_any_size),
        cmocka_unit_test(a_cancelled_stream_is_not_heard_of_again),
        cmocka_unit_test(a_call_cancelled_before_it_was_sent_is_no_harm),
        cmocka_unit_test(the_client_can_be_destroyed_inside_its_callbacks),
        cmocka_unit_test(a_server_that_goes_ends_every_call),
        cmocka_unit_test(a_server_of_another_protocol_is_told),
        cmocka_unit_test(a_reset_a_page_and_a_bad_answer_have_their_codes),
        cmocka_unit_test(frames_of_every_shape_are_taken),
        cmocka_unit_test(a_server_that_breaks_the_protocol_is_told),
        cmocka_unit_test(a_server_that_takes_no_more_calls_is_told),
        cmocka_unit_test(windows_are_opened_again),
        cmocka_unit_test(a_refused_connection_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
