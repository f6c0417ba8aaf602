/* Everything that routes can do, asked over HTTP/1.1 and over HTTP/2. */
#include "net_routes.h"

struct expectation {
    struct question question;
    unsigned status;
    const char *body;
};

#define A "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA" /* 60 */

static const struct expectation expectations[] = {
    {{"GET", "/plain", NULL, NULL, NULL}, 200, "plain"},
    {{"GET", "/plain?x", NULL, NULL, NULL}, 200, "plain"},
    {{"HEAD", "/plain", NULL, NULL, NULL}, 200, ""},
    {{"GET", "/plain/", NULL, NULL, NULL}, 404, "404 page not found\n"},
    {{"GET", "/pl%61in", NULL, NULL, NULL}, 200, "plain"},
    {{"GET", "/", NULL, NULL, NULL}, 404, "404 page not found\n"},
    /* Parameters. */
    {{"GET", "/apps/web/1", NULL, NULL, NULL}, 200, "app=web;id=1;"},
    {{"GET", "/apps/w%65b/a%2Fb", NULL, NULL, NULL}, 200, "app=web;id=a/b;"},
    {{"GET", "/apps/web/all", NULL, NULL, NULL}, 200, "plain"},
    {{"GET", "/apps/web/", NULL, NULL, NULL}, 404, "404 page not found\n"},
    {{"GET", "/apps//1", NULL, NULL, NULL}, 404, "404 page not found\n"},
    {{"GET", "/apps/web/1/2", NULL, NULL, NULL}, 404, "404 page not found\n"},
    {{"GET", "/kv/", NULL, NULL, NULL}, 200, "path=;"},
    {{"GET", "/kv/a/b//c%2fd", NULL, NULL, NULL}, 200, "path=a/b//c/d;"},
    {{"GET",
      "/kv/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18/19/20/21/22/23/24/25/26/27/28/29/30"
      "/31/32/33/34/35",
      NULL, NULL, NULL},
     200,
     "path=1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17/18/19/20/21/22/23/24/25/26/27/28/29/30/31/32"
     "/33/34/35;"},
    {{"GET", "/kv", NULL, NULL, NULL}, 404, "404 page not found\n"},
    {{"GET", "/kv/%zz", NULL, NULL, NULL}, 400, NULL},
    {{"GET", "/kv/%4", NULL, NULL, NULL}, 400, NULL},
    /* Queries. */
    {{"GET", "/query?a+b=1%2B1&c", NULL, NULL, NULL}, 200, "1+1"},
    {{"GET", "/query?c&&a%20b", NULL, NULL, NULL}, 200, ""},
    {{"GET", "/query?A+b=1", NULL, NULL, NULL}, 404, "no such name"},
    {{"GET", "/query?a=%", NULL, NULL, NULL}, 400, NULL},
    /* Headers. */
    {{"GET", "/header", "X-Name", "some value", NULL}, 200, "some value"},
    {{"GET", "/header", NULL, NULL, NULL}, 200, "none"},
    /* Methods. */
    {{"POST", "/plain", NULL, NULL, "body"}, 405, "method not allowed\n"},
    {{"DELETE", "/whole", NULL, NULL, NULL}, 405, "method not allowed\n"},
    {{"DELETE", "/any", NULL, NULL, NULL}, 200, ""},
    {{"LIST", "/any", NULL, NULL, "x"}, 200, "x"},
    {{"HEAD", "/any", NULL, NULL, NULL}, 200, ""},
    {{"DELETE", "/empty", NULL, NULL, NULL}, 204, ""},
    /* Bodies. */
    {{"PUT", "/whole", NULL, NULL, "hello"}, 200, "hello"},
    {{"PUT", "/whole", NULL, NULL, NULL}, 200, ""},
    {{"PUT", "/whole", NULL, NULL, A A}, 413, NULL},
    {{"GET", "/plain", NULL, NULL, "x"}, 413, NULL},
    {{"POST", "/whole", "Content-Type", "application/json; charset=utf-8", "{}"}, 200, "{}"},
    {{"POST", "/whole", "Content-Type", "application/jsonp", "{}"}, 415, NULL},
    {{"POST", "/whole", NULL, NULL, "{}"}, 200, "{}"},
    {{"POST", "/upload", NULL, NULL, "12345"}, 200, "5"},
    {{"POST", "/nowhere", NULL, NULL, A A A A}, 404, NULL},
    {{"PUT", "/whole", "Expect", "100-continue", "hello"}, 200, "hello"},
    {{"PUT", "/whole", "Expect", "200-ok", "hello"}, 417, NULL},
    /* Time. */
    {{"GET", "/poll?ms=30", NULL, NULL, NULL}, 200, "nothing new"},
    {{"GET", "/hold", NULL, NULL, NULL}, 503, NULL},
    /* What a gRPC method is for everybody else. */
    {{"GET", "/test.Echo/Unary", NULL, NULL, NULL}, 405, NULL},
};

static void every_expectation_holds(void **state) {
    struct fixture *fixture = routes_start(NULL);
    for (size_t i = 0; i < sizeof expectations / sizeof expectations[0]; i++) {
        const struct expectation *expected = &expectations[i];
        for (enum version version = HTTP1; version < VERSIONS; version++) {
            /* HTTP/1 does not know gRPC's paths. */
            bool is_grpc_path = strncmp(expected->question.target, "/test", 5) == 0;
            unsigned status = version == HTTP1 && is_grpc_path ? 404 : expected->status;
            seen.body_bytes = 0;
            struct reply reply = ask(fixture, version, &expected->question);
            if (reply.status != status || reply.was_cut_off ||
                (expected->body != NULL && strcmp(reply.body, expected->body) != 0)) {
                fail_msg("%s %s over HTTP/%u: %u \"%s\", expected %u \"%s\"",
                         expected->question.method, expected->question.target,
                         version == HTTP1 ? 1 : 2, reply.status, reply.body, status,
                         expected->body != NULL ? expected->body : "");
            }
        }
    }
    doors_stop(fixture);
    assert_null(seen.held);
}

static void a_refused_method_names_those_that_are_allowed(void **state) {
    struct fixture *fixture = routes_start(NULL);
    for (enum version version = HTTP1; version < VERSIONS; version++) {
        struct reply reply =
            ask(fixture, version, &(struct question){.method = "PATCH", .target = "/plain"});
        assert_int_equal(reply.status, 405);
        assert_string_equal(reply.allow, "GET, HEAD");
        reply = ask(fixture, version, &(struct question){.method = "GET", .target = "/whole"});
        assert_string_equal(reply.allow, "PUT, POST");
    }
    doors_stop(fixture);
}

static void a_value_cannot_become_a_header(void **state) {
    struct fixture *fixture = routes_start(NULL);
    for (enum version version = HTTP1; version < VERSIONS; version++) {
        struct reply reply =
            ask(fixture, version, &(struct question){.method = "GET", .target = "/inject"});
        assert_int_equal(reply.status, 200);
        assert_string_equal(reply.x_answer, "a  x-evil: b");
    }
    doors_stop(fixture);
}

static void a_target_that_is_too_long_is_414(void **state) {
    struct fixture *fixture = routes_start(NULL);
    char *target = malloc(HTTP_TARGET_SIZE_MAX + 2);
    assert_non_null(target);
    memset(target, 'x', HTTP_TARGET_SIZE_MAX + 1);
    memcpy(target, "/kv/", 4);
    target[HTTP_TARGET_SIZE_MAX + 1] = 0;
    struct client client;
    client_open(&client, fixture);
    struct answer *answer =
        client_request(&client, "GET", target, NULL, NULL, bytes_of("", 0), false);
    client_wait(&client, answer->is_closed);
    assert_int_equal(answer->http_status, 414);
    client_close(&client);
    int fd = raw_connect(fixture);
    raw_send_text(fd, "GET ");
    raw_send_text(fd, target);
    raw_send_text(fd, " HTTP/1.1\r\nHost: x\r\n\r\n");
    struct buffer text = raw_read_all(fixture, fd);
    assert_memory_equal(text.data, "HTTP/1.1 414 ", 13);
    buffer_clear(&text);
    close(fd);
    free(target);
    doors_stop(fixture);
}

static void an_upload_arrives_in_pieces(void **state) {
    struct fixture *fixture = routes_start(NULL);
    for (enum version version = HTTP1; version < VERSIONS; version++) {
        seen = (struct routes_seen){0};
        size_t size = UPLOAD_MAX;
        char *body = malloc(size + 1);
        assert_non_null(body);
        memset(body, 'x', size);
        body[size] = 0;
        if (version == HTTP2) {
            struct reply reply = ask_http2(
                fixture, &(struct question){.method = "POST", .target = "/upload", .body = body});
            assert_string_equal(reply.body, "1048576");
        } else {
            int fd = raw_connect(fixture);
            raw_send_text(fd, "POST /upload HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                              "Transfer-Encoding: chunked\r\n\r\n");
            size_t sent = 0;
            while (sent < size) {
                raw_send_text(fd, "1000;extension=1\r\n");
                raw_send(fd, body, 0x1000);
                raw_send_text(fd, "\r\n");
                sent += 0x1000;
                fixture_turn(fixture);
            }
            raw_send_text(fd, "0\r\nTrailer: x\r\n\r\n");
            struct buffer text = raw_read_all(fixture, fd);
            assert_non_null(strstr((const char *)text.data, "\r\n\r\n1048576"));
            buffer_clear(&text);
            close(fd);
        }
        assert_true(seen.n_bodies > 10);
        assert_int_equal(seen.n_closed, 1);
        free(body);
    }
    doors_stop(fixture);
}

static void a_long_answer_waits_for_its_reader(void **state) {
    struct fixture *fixture = routes_start(NULL);
    for (enum version version = HTTP1; version < VERSIONS; version++) {
        seen = (struct routes_seen){0};
        struct reply reply = ask(
            fixture, version, &(struct question){.method = "GET", .target = "/stream?pieces=2000"});
        assert_int_equal(reply.status, 200);
        assert_int_equal(reply.body_size, 2000 * STREAM_PIECE);
        assert_true(seen.n_writable > 0);
        assert_int_equal(seen.n_closed, 1);
    }
    /* A client that does not read holds no more than the high-water mark. */
    int fd = raw_connect(fixture);
    int size = 4096;
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size), 0);
    raw_send_text(fd, "GET /stream?pieces=20000 HTTP/1.1\r\nHost: x\r\n\r\n");
    for (unsigned i = 0; i < 200; i++) {
        fixture_turn(fixture);
    }
    size_t high = net_limits_default.stream_queue_high;
    assert_true(fixture_stats(fixture).queued_bytes <= high + 2 * STREAM_PIECE);
    close(fd);
    doors_stop(fixture);
}

static void a_stream_can_be_empty_and_of_one_piece(void **state) {
    struct fixture *fixture = routes_start(NULL);
    for (enum version version = HTTP1; version < VERSIONS; version++) {
        struct reply reply = ask(fixture, version,
                                 &(struct question){.method = "GET", .target = "/stream?pieces=0"});
        assert_int_equal(reply.body_size, 0);
        assert_false(reply.was_cut_off);
        reply = ask(fixture, version,
                    &(struct question){.method = "GET", .target = "/stream?pieces=1"});
        assert_int_equal(reply.body_size, STREAM_PIECE);
        reply = ask(fixture, version,
                    &(struct question){.method = "HEAD", .target = "/stream?pieces=1"});
        assert_int_equal(reply.status, 200);
        assert_int_equal(reply.body_size, 0);
    }
    doors_stop(fixture);
}

static void an_aborted_answer_is_noticed(void **state) {
    struct fixture *fixture = routes_start(NULL);
    for (enum version version = HTTP1; version < VERSIONS; version++) {
        struct reply reply =
            ask(fixture, version, &(struct question){.method = "GET", .target = "/abort"});
        assert_true(reply.was_cut_off);
    }
    doors_stop(fixture);
}

static void a_client_that_goes_away_ends_its_exchange(void **state) {
    struct fixture *fixture = routes_start(NULL);
    struct client client;
    client_open(&client, fixture);
    struct answer *answer =
        begin_http2(&client, &(struct question){.method = "GET", .target = "/poll?ms=600000"});
    client_wait(&client, seen.held != NULL);
    nghttp2_submit_rst_stream(client.session, NGHTTP2_FLAG_NONE, answer->stream_id, NGHTTP2_CANCEL);
    client_wait(&client, seen.held == NULL);
    client_close(&client);
    /* HTTP/1: only a reset says so. */
    int fd = raw_connect(fixture);
    raw_send_text(fd, "GET /poll?ms=600000 HTTP/1.1\r\nHost: x\r\n\r\n");
    while (seen.held == NULL) {
        fixture_turn(fixture);
    }
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    close(fd);
    while (seen.held != NULL) {
        fixture_turn(fixture);
    }
    doors_stop(fixture);
}

/* --- a client that half-closes ------------------------------------------------------------- */

static void a_half_closed_client_gets_its_answer(void **state) {
    struct fixture *fixture = routes_start(NULL);
    int fd = raw_connect(fixture);
    raw_send_text(fd, "GET /poll?ms=100 HTTP/1.1\r\nHost: x\r\n\r\n"
                      "GET /plain HTTP/1.1\r\nHost: x\r\n\r\n"
                      "GET /pla");
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    struct buffer text = raw_read_all(fixture, fd);
    assert_non_null(strstr((const char *)text.data, "nothing new"));
    assert_non_null(strstr((const char *)text.data, "\r\n\r\nplain"));
    buffer_clear(&text);
    close(fd);
    struct client client;
    client_open(&client, fixture);
    struct answer *answer =
        begin_http2(&client, &(struct question){.method = "GET", .target = "/poll?ms=100"});
    client_wait(&client, seen.held != NULL);
    client_write(&client);
    assert_int_equal(shutdown(client.fd, SHUT_WR), 0);
    client_wait(&client, answer->is_closed);
    assert_int_equal(answer->http_status, 200);
    client_close(&client);
    doors_stop(fixture);
}

static void a_half_closed_client_that_is_gone_is_noticed(void **state) {
    struct fixture *fixture = routes_start(NULL);
    int fd = raw_connect(fixture);
    raw_send_text(fd, "GET /poll?ms=600000 HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    while (seen.held == NULL) {
        fixture_turn(fixture);
    }
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    close(fd);
    uint64_t start_ms = clock_boottime_ms();
    while (seen.held != NULL) {
        assert_true(clock_boottime_ms() - start_ms < WAIT_MS_MAX);
        uv_run(&fixture->loop, UV_RUN_ONCE);
    }
    doors_stop(fixture);
}

static void calls_of_a_half_closed_client_end_soon(void **state) {
    struct fixture *fixture = routes_start(NULL);
    struct client client;
    client_open(&client, fixture);
    client_call(&client, "/test.Echo/HoldStream", bytes_from_text("x"), NULL, true);
    client_call(&client, "/test.Echo/Hold", bytes_from_text("x"), NULL, false);
    client_wait(&client, fixture->n_messages == 2);
    uint64_t start_ms = clock_boottime_ms();
    assert_int_equal(shutdown(client.fd, SHUT_WR), 0);
    client_wait(&client, fixture->n_closed == 1);
    assert_true(clock_boottime_ms() - start_ms < 900);
    client_wait(&client, fixture->n_closed == 2);
    assert_true(clock_boottime_ms() - start_ms >= 900);
    client_wait(&client, client.is_closed);
    client_close(&client);
    doors_stop(fixture);
}

/* --- time ---------------------------------------------------------------------------------- */

static void silence_closes_only_what_serves_nothing(void **state) {
    struct net_limits limits = net_limits_default;
    limits.keepalive_interval_ms = 60;
    limits.handshake_timeout_ms = 60;
    struct fixture *fixture = routes_start(&limits);
    uint64_t start_ms = clock_boottime_ms();
    int fd = raw_connect(fixture);
    raw_send_text(fd, "GET /poll?ms=400 HTTP/1.1\r\nHost: x\r\n\r\n");
    struct buffer text = raw_read_all(fixture, fd);
    assert_non_null(strstr((const char *)text.data, "nothing new"));
    assert_true(clock_boottime_ms() - start_ms >= 399);
    buffer_clear(&text);
    close(fd);
    doors_stop(fixture);
}

/* Doors set timers from callbacks that are not of the network, which may have been silent for long.
 */
static void a_timer_counts_from_when_it_is_set(void **state) {
    struct fixture *fixture = routes_start(NULL);
    struct client client;
    client_open(&client, fixture);
    struct answer *answer =
        begin_http2(&client, &(struct question){.method = "GET", .target = "/poll?ms=600000"});
    client_wait(&client, seen.held != NULL);
    poll(NULL, 0, 150);
    uv_update_time(&fixture->loop);
    uint64_t start_ms = clock_boottime_ms();
    http_set_timer(seen.held, 100, on_poll_over);
    client_wait(&client, answer->is_closed);
    assert_true(clock_boottime_ms() - start_ms >= 98);
    client_close(&client);
    doors_stop(fixture);
}

static void headers_that_drip_are_408(void **state) {
    struct net_limits limits = net_limits_default;
    limits.handshake_timeout_ms = 80;
    struct fixture *fixture = routes_start(&limits);
    int fd = raw_connect(fixture);
    raw_send_text(fd, "GET /plain HTTP/1.1\r\nHost: x\r\n\r\nGET /plain HTTP/1.1\r\nA");
    struct buffer text = raw_read_all(fixture, fd);
    assert_non_null(strstr((const char *)text.data, "\r\n\r\nplainHTTP/1.1 408 "));
    buffer_clear(&text);
    close(fd);
    doors_stop(fixture);
}

static void a_body_that_drips_is_408(void **state) {
    struct fixture *fixture = routes_start(NULL);
    static const struct http_route route = {.method = "PUT",
                                            .pattern = "/quick",
                                            .body_max = 10,
                                            .time_max_ms = 60,
                                            .on_body = echo_on_body};
    net_server_add_routes(fixture->server, &route, 1, fixture);
    int fd = raw_connect(fixture);
    raw_send_text(fd, "PUT /quick HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nab");
    struct buffer text = raw_read_all(fixture, fd);
    assert_memory_equal(text.data, "HTTP/1.1 408 ", 13);
    buffer_clear(&text);
    close(fd);
    struct client client;
    client_open(&client, fixture);
    struct answer *answer =
        client_request(&client, "PUT", "/quick", NULL, NULL, bytes_from_text("ab"), true);
    client_wait(&client, answer->is_closed);
    assert_int_equal(answer->http_status, 408);
    client_close(&client);
    doors_stop(fixture);
}

static void a_stop_ends_long_polls_with_an_answer(void **state) {
    struct fixture *fixture = routes_start(NULL);
    struct client client;
    client_open(&client, fixture);
    struct answer *answer =
        begin_http2(&client, &(struct question){.method = "GET", .target = "/poll?ms=600000"});
    client_wait(&client, seen.n_requests == 1);
    int fd = raw_connect(fixture);
    raw_send_text(fd, "GET /poll?ms=600000 HTTP/1.1\r\nHost: x\r\n\r\n");
    client_wait(&client, seen.n_requests == 2);
    fixture_shutdown(fixture, WAIT_MS_MAX);
    client_wait(&client, answer->is_closed);
    assert_int_equal(answer->http_status, 200);
    struct buffer text = raw_read_all(fixture, fd);
    assert_non_null(strstr((const char *)text.data, "nothing new"));
    buffer_clear(&text);
    close(fd);
    client_close(&client);
    doors_stop(fixture);
}

/* --- callers ------------------------------------------------------------------------------- */

static struct http_exchange *pending;
static unsigned n_cancelled;

static enum net_authentication begin(void *context, struct http_exchange *exchange,
                                     void *out_caller) {
    struct bytes value;
    if (!http_header(exchange, "authorization", &value)) {
        return NET_REFUSED;
    }
    if (bytes_equal(value, bytes_from_text("slow"))) {
        pending = exchange;
        return NET_PENDING;
    }
    memcpy(out_caller, value.data, value.size < 8 ? value.size : 8);
    return NET_AUTHENTICATED;
}

static void cancel(void *context, struct http_exchange *exchange) {
    assert_ptr_equal(exchange, pending);
    pending = NULL;
    n_cancelled++;
}

static void caller_on_request(struct http_exchange *exchange) {
    http_reply(exchange, 200, TEXT, bytes_of(http_caller(exchange), 8));
}

static const struct net_authenticator authenticator = {.begin = begin, .cancel = cancel};
static const struct http_route caller_route = {
    .method = "GET", .pattern = "/caller", .on_request = caller_on_request};

static void a_door_learns_who_asks(void **state) {
    struct fixture *fixture = routes_start(NULL);
    net_server_add_routes(fixture->server, &caller_route, 1, fixture);
    net_server_set_authenticator(fixture->server, &authenticator, fixture);
    for (enum version version = HTTP1; version < VERSIONS; version++) {
        struct reply reply = ask(fixture, version,
                                 &(struct question){.method = "GET",
                                                    .target = "/caller",
                                                    .name = "Authorization",
                                                    .value = "somebody"});
        assert_string_equal(reply.body, "somebody");
        reply = ask(fixture, version, &(struct question){.method = "GET", .target = "/caller"});
        assert_int_equal(reply.status, 401);
        reply = ask(fixture, version, &(struct question){.method = "GET", .target = "/plain"});
        assert_int_equal(reply.status, 200);
        reply = ask(fixture, version,
                    &(struct question){.method = "POST", .target = "/whole", .body = "{}"});
        assert_int_equal(reply.status, 403);
        assert_string_equal(reply.body, "in our own words");
    }
    assert_int_equal(seen.n_refused, 2);
    /* gRPC. */
    struct client client;
    client_open(&client, fixture);
    nghttp2_nv header = NV("authorization", "somebody");
    nghttp2_nv slow = NV("authorization", "slow");
    struct answer *known =
        client_call(&client, "/test.Echo/Unary", bytes_from_text("x"), &header, false);
    struct answer *unknown =
        client_call(&client, "/test.Echo/Unary", bytes_from_text("x"), NULL, false);
    struct answer *waiting =
        client_call(&client, "/test.Echo/Unary", bytes_from_text("x"), &slow, false);
    client_wait(&client, known->is_closed && unknown->is_closed && waiting->is_closed);
    assert_int_equal(known->grpc_status, GRPC_OK);
    assert_int_equal(unknown->grpc_status, GRPC_UNAUTHENTICATED);
    assert_int_equal(waiting->grpc_status, GRPC_UNAUTHENTICATED);
    client_close(&client);
    doors_stop(fixture);
}

static void a_request_waits_for_its_authentication(void **state) {
    struct fixture *fixture = routes_start(NULL);
    net_server_set_authenticator(fixture->server, &authenticator, fixture);
    for (unsigned i = 0; i < 4; i++) {
        bool is_streaming = i % 2 == 1;
        bool is_authenticated = i < 2;
        struct client client;
        client_open(&client, fixture);
        pending = NULL;
        seen = (struct routes_seen){0};
        struct answer *answer =
            begin_http2(&client, &(struct question){is_streaming ? "POST" : "PUT",
                                                    is_streaming ? "/upload" : "/whole",
                                                    "Authorization", "slow", "hello"});
        client_wait(&client, pending != NULL);
        for (unsigned turn = 0; turn < 10; turn++) {
            client_turn(&client);
        }
        assert_int_equal(seen.n_bodies, 0);
        struct http_exchange *exchange = pending;
        pending = NULL;
        http_authenticated(exchange, is_authenticated, "caller", 6);
        client_wait(&client, answer->is_closed);
        assert_int_equal(answer->http_status, is_authenticated ? 200 : 401);
        if (is_authenticated) {
            assert_memory_equal(answer->body.data, is_streaming ? "5" : "hello", answer->body.size);
        }
        client_close(&client);
    }
    doors_stop(fixture);
}

static void an_authentication_is_cancelled_with_its_request(void **state) {
    struct fixture *fixture = routes_start(NULL);
    net_server_set_authenticator(fixture->server, &authenticator, fixture);
    n_cancelled = 0;
    int fd = raw_connect(fixture);
    raw_send_text(fd, "GET /query HTTP/1.1\r\nHost: x\r\nAuthorization: slow\r\n\r\n");
    while (pending == NULL) {
        fixture_turn(fixture);
    }
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    close(fd);
    while (n_cancelled == 0) {
        fixture_turn(fixture);
    }
    doors_stop(fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_expectation_holds),
        cmocka_unit_test(a_refused_method_names_those_that_are_allowed),
        cmocka_unit_test(a_value_cannot_become_a_header),
        cmocka_unit_test(a_target_that_is_too_long_is_414),
        cmocka_unit_test(an_upload_arrives_in_pieces),
        cmocka_unit_test(a_long_answer_waits_for_its_reader),
        cmocka_unit_test(a_stream_can_be_empty_and_of_one_piece),
        cmocka_unit_test(an_aborted_answer_is_noticed),
        cmocka_unit_test(a_client_that_goes_away_ends_its_exchange),
        cmocka_unit_test(a_half_closed_client_gets_its_answer),
        cmocka_unit_test(a_half_closed_client_that_is_gone_is_noticed),
        cmocka_unit_test(calls_of_a_half_closed_client_end_soon),
        cmocka_unit_test(silence_closes_only_what_serves_nothing),
        cmocka_unit_test(a_timer_counts_from_when_it_is_set),
        cmocka_unit_test(headers_that_drip_are_408),
        cmocka_unit_test(a_body_that_drips_is_408),
        cmocka_unit_test(a_stop_ends_long_polls_with_an_answer),
        cmocka_unit_test(a_door_learns_who_asks),
        cmocka_unit_test(a_request_waits_for_its_authentication),
        cmocka_unit_test(an_authentication_is_cancelled_with_its_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
