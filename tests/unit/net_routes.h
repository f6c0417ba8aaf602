/* Routes that tests of HTTP ask for, and one way to ask for them over HTTP/1.1 and HTTP/2. */
#ifndef LEASED_TESTS_NET_ROUTES_H
#define LEASED_TESTS_NET_ROUTES_H

#include "net/http.h"
#include "net_doors.h"

#include <stdio.h>

enum { STREAM_PIECE = 10000, BODY_MAX = 100, UPLOAD_MAX = 1024 * 1024 };

#define TEXT "text/plain; charset=utf-8"

/* What the routes saw; the tests reset it. */
struct routes_seen {
    unsigned n_requests;
    unsigned n_closed;
    unsigned n_bodies;
    unsigned n_writable;
    unsigned n_refused;
    size_t body_bytes;
    struct http_exchange *held;
};
static struct routes_seen seen;

static inline void route_on_close(struct http_exchange *exchange) {
    seen.n_closed++;
    if (seen.held == exchange) {
        seen.held = NULL;
    }
    /* A door may forget that the exchange is over. */
    http_reply(exchange, 200, TEXT, bytes_from_text("late"));
    http_set_timer(exchange, 1, NULL);
}

static inline void reply_text(struct http_exchange *exchange, const char *text) {
    http_reply(exchange, 200, TEXT, bytes_from_text(text));
}

static inline void plain_on_request(struct http_exchange *exchange) {
    seen.n_requests++;
    reply_text(exchange, "plain");
    reply_text(exchange, "ignored");
}

/* "app=…&id=…&path=…" of whatever there is. */
static inline void parameters_on_request(struct http_exchange *exchange) {
    static const char *const names[] = {"app", "id", "path"};
    seen.n_requests++;
    struct buffer body;
    buffer_init(&body);
    struct bytes value;
    for (size_t i = 0; i < 3; i++) {
        if (http_parameter(exchange, names[i], &value)) {
            buffer_append(&body, names[i], strlen(names[i]));
            buffer_append(&body, "=", 1);
            buffer_append(&body, value.data, value.size);
            buffer_append(&body, ";", 1);
        }
    }
    http_reply(exchange, 200, TEXT, bytes_of(body.data, body.size));
    buffer_clear(&body);
}

static inline void query_on_request(struct http_exchange *exchange) {
    seen.n_requests++;
    struct bytes value;
    if (http_query(exchange, "a b", &value)) {
        http_reply(exchange, 200, TEXT, value);
    } else {
        http_reply(exchange, 404, TEXT, bytes_from_text("no such name"));
    }
}

static inline void header_on_request(struct http_exchange *exchange) {
    seen.n_requests++;
    struct bytes value = bytes_from_text("none");
    struct bytes host;
    assert_true(http_header(exchange, "host", &host));
    assert_true(host.size > 0);
    http_header(exchange, "x-name", &value);
    const struct http_field fields[] = {HTTP_FIELD("content-type", TEXT),
                                        {.name = bytes_from_text("x-answer"), .value = value}};
    http_reply_fields(exchange, 200, fields, 2, value);
}

static inline void echo_on_body(struct http_exchange *exchange, struct bytes bytes, bool is_last) {
    assert_true(is_last);
    seen.n_bodies++;
    http_reply(exchange, 200, TEXT, bytes);
}

static inline void upload_on_body(struct http_exchange *exchange, struct bytes bytes,
                                  bool is_last) {
    seen.n_bodies++;
    seen.body_bytes += bytes.size;
    if (is_last) {
        char text[32];
        snprintf(text, sizeof text, "%zu", seen.body_bytes);
        reply_text(exchange, text);
    }
}

static inline void on_poll_over(struct http_exchange *exchange) {
    reply_text(exchange, "nothing new");
}

/* Waits as many milliseconds as the query says. */
static inline void poll_on_request(struct http_exchange *exchange) {
    seen.n_requests++;
    seen.held = exchange;
    struct bytes value;
    assert_true(http_query(exchange, "ms", &value));
    char text[16] = "";
    memcpy(text, value.data, value.size < 15 ? value.size : 15);
    http_set_timer(exchange, (uint64_t)atoi(text), on_poll_over);
}

static inline void hold_on_request(struct http_exchange *exchange) {
    seen.n_requests++;
    seen.held = exchange;
}

/* As many pieces as the query says, as fast as they may go. */
static inline void send_pieces(struct http_exchange *exchange) {
    static const uint8_t piece[STREAM_PIECE];
    uintptr_t left = (uintptr_t)http_data(exchange);
    while (left > 0 && http_is_writable(exchange)) {
        http_send(exchange, bytes_of(piece, sizeof piece));
        left--;
    }
    http_set_data(exchange, (void *)left);
    if (left == 0) {
        http_finish(exchange);
    }
}

static inline void stream_on_request(struct http_exchange *exchange) {
    seen.n_requests++;
    struct bytes value;
    assert_true(http_query(exchange, "pieces", &value));
    char text[16] = "";
    memcpy(text, value.data, value.size < 15 ? value.size : 15);
    http_set_data(exchange, (void *)(uintptr_t)atoi(text));
    const struct http_field type = HTTP_FIELD("content-type", TEXT);
    http_start(exchange, 200, &type, 1);
    send_pieces(exchange);
}

static inline void stream_on_writable(struct http_exchange *exchange) {
    seen.n_writable++;
    send_pieces(exchange);
}

static inline void empty_on_request(struct http_exchange *exchange) {
    http_reply_fields(exchange, 204, NULL, 0, bytes_of(NULL, 0));
}

static inline void abort_on_request(struct http_exchange *exchange) {
    http_start(exchange, 200, NULL, 0);
    http_send(exchange, bytes_from_text("half of"));
    http_abort(exchange);
}

static inline void inject_on_request(struct http_exchange *exchange) {
    const struct http_field field = {.name = bytes_from_text("x-answer"),
                                     .value = bytes_of("a\r\nx-evil: b", 12)};
    http_reply_fields(exchange, 200, &field, 1, bytes_from_text("ok"));
}

static inline void refused_on_refused(struct http_exchange *exchange) {
    seen.n_refused++;
    http_reply(exchange, 403, TEXT, bytes_from_text("in our own words"));
}

static const struct http_route test_routes[] = {
    {.method = "GET",
     .pattern = "/plain",
     .is_public = true,
     .on_request = plain_on_request,
     .on_close = route_on_close},
    {.method = "GET", .pattern = "/apps/{app}/{id}", .on_request = parameters_on_request},
    {.method = "GET", .pattern = "/apps/{app}/all", .on_request = plain_on_request},
    {.method = "GET", .pattern = "/kv/{path...}", .on_request = parameters_on_request},
    {.method = "GET", .pattern = "/query", .on_request = query_on_request},
    {.method = "GET", .pattern = "/header", .on_request = header_on_request},
    {.method = "PUT", .pattern = "/whole", .body_max = BODY_MAX, .on_body = echo_on_body},
    {.method = "POST",
     .pattern = "/whole",
     .body_max = BODY_MAX,
     .body_type = "application/json",
     .on_body = echo_on_body,
     .on_refused = refused_on_refused},
    {.method = "POST",
     .pattern = "/upload",
     .body_max = UPLOAD_MAX,
     .is_streaming_body = true,
     .on_body = upload_on_body,
     .on_close = route_on_close},
    {.method = "GET",
     .pattern = "/poll",
     .time_max_ms = 10 * 60 * 1000,
     .on_request = poll_on_request,
     .on_close = route_on_close},
    {.method = "GET",
     .pattern = "/hold",
     .time_max_ms = 100,
     .on_request = hold_on_request,
     .on_close = route_on_close},
    {.method = "GET",
     .pattern = "/stream",
     .time_max_ms = HTTP_NO_TIME_LIMIT,
     .on_request = stream_on_request,
     .on_writable = stream_on_writable,
     .on_close = route_on_close},
    {.method = "DELETE", .pattern = "/empty", .on_request = empty_on_request},
    {.method = "GET", .pattern = "/abort", .on_request = abort_on_request},
    {.method = "GET", .pattern = "/inject", .on_request = inject_on_request},
    {.pattern = "/any", .body_max = BODY_MAX, .on_body = echo_on_body},
};
enum { TEST_ROUTES = sizeof test_routes / sizeof test_routes[0] };

static inline struct fixture *routes_start(const struct net_limits *limits) {
    seen = (struct routes_seen){0};
    struct fixture *fixture = doors_start(limits);
    net_server_add_routes(fixture->server, test_routes, TEST_ROUTES, fixture);
    return fixture;
}

/* --- one question, in either protocol ------------------------------------------------------ */

enum version { HTTP1, HTTP2, VERSIONS };

struct question {
    const char *method;
    const char *target;
    const char *name; /* of a header; NULL: none */
    const char *value;
    const char *body; /* NULL: none */
};

struct reply {
    unsigned status;
    char body[1024]; /* the beginning, as a text */
    size_t body_size;
    char x_answer[64];
    char allow[64];
    bool was_cut_off;
};

static inline void reply_keep(struct reply *reply, const void *data, size_t size) {
    size_t room = sizeof reply->body - 1 - (reply->body_size < 1023 ? reply->body_size : 1023);
    if (size > 0) {
        memcpy(reply->body + (sizeof reply->body - 1 - room), data, size < room ? size : room);
    }
    reply->body_size += size;
}

/* The value of a header in the text of an HTTP/1 answer. */
static inline void find_header(const char *head, const char *name, char *out, size_t size) {
    char line[64];
    snprintf(line, sizeof line, "\r\n%s: ", name);
    const char *at = strstr(head, line);
    if (at != NULL) {
        at += strlen(line);
        size_t n = strcspn(at, "\r");
        assert_true(n < size);
        memcpy(out, at, n);
        out[n] = 0;
    }
}

/* False: the text ends before the answer does. Moves `*at` behind it. */
static inline bool read_answer(const struct buffer *text, size_t *at, bool is_head,
                               struct reply *out) {
    *out = (struct reply){0};
    const char *start = (const char *)text->data + *at;
    const char *end = strstr(start, "\r\n\r\n");
    if (end == NULL || sscanf(start, "HTTP/1.1 %u", &out->status) != 1) {
        return false;
    }
    size_t head_size = (size_t)(end - start) + 4;
    if (out->status == 100) {
        *at += head_size;
        return read_answer(text, at, is_head, out);
    }
    char *head = strndup(start, head_size);
    assert_non_null(head);
    char length[32] = "";
    char encoding[32] = "";
    find_header(head, "Content-Length", length, sizeof length);
    find_header(head, "Transfer-Encoding", encoding, sizeof encoding);
    find_header(head, "X-Answer", out->x_answer, sizeof out->x_answer);
    find_header(head, "Allow", out->allow, sizeof out->allow);
    assert_null(strstr(head, "X-Evil"));
    assert_null(strstr(head, "x-evil: b\r\n") == head ? head : NULL);
    free(head);
    *at += head_size;
    if (is_head || out->status == 204) {
        return true;
    }
    if (encoding[0] == 0) {
        size_t size = (size_t)atoi(length);
        if (text->size - 1 - *at < size) {
            return false;
        }
        reply_keep(out, text->data + *at, size);
        *at += size;
        return true;
    }
    for (;;) {
        const char *line = (const char *)text->data + *at;
        const char *line_end = strstr(line, "\r\n");
        if (line_end == NULL) {
            return false;
        }
        size_t size = strtoul(line, NULL, 16);
        *at += (size_t)(line_end - line) + 2;
        if (text->size - 1 - *at < size + 2) {
            return false;
        }
        reply_keep(out, text->data + *at, size);
        *at += size;
        assert_memory_equal(text->data + *at, "\r\n", 2);
        *at += 2;
        if (size == 0) {
            return true;
        }
    }
}

static inline void append_request(struct buffer *out, const struct question *question,
                                  const char *connection) {
    char text[1024];
    snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: test\r\nConnection: %s\r\n",
             question->method, question->target, connection);
    buffer_append(out, text, strlen(text));
    if (question->name != NULL) {
        snprintf(text, sizeof text, "%s: %s\r\n", question->name, question->value);
        buffer_append(out, text, strlen(text));
    }
    if (question->body != NULL) {
        snprintf(text, sizeof text, "Content-Length: %zu\r\n", strlen(question->body));
        buffer_append(out, text, strlen(text));
    }
    buffer_append(out, "\r\n", 2);
    if (question->body != NULL) {
        buffer_append(out, question->body, strlen(question->body));
    }
}

static inline struct reply ask_http1(struct fixture *fixture, const struct question *question) {
    struct buffer request;
    buffer_init(&request);
    append_request(&request, question, "close");
    int fd = raw_connect(fixture);
    raw_send(fd, request.data, request.size);
    struct buffer text = raw_read_all(fixture, fd);
    struct reply reply;
    size_t at = 0;
    bool is_whole = read_answer(&text, &at, strcmp(question->method, "HEAD") == 0, &reply);
    reply.was_cut_off = !is_whole;
    assert_true(!is_whole || at == text.size - 1);
    close(fd);
    buffer_clear(&text);
    buffer_clear(&request);
    return reply;
}

static inline struct reply reply_of(const struct answer *answer) {
    struct reply reply = {.status = answer->http_status,
                          .was_cut_off = answer->error_code != NGHTTP2_NO_ERROR};
    reply_keep(&reply, answer->body.data, answer->body.size);
    memcpy(reply.x_answer, answer->x_answer, sizeof reply.x_answer);
    memcpy(reply.allow, answer->allow, sizeof reply.allow);
    return reply;
}

static inline struct answer *begin_http2(struct client *client, const struct question *question) {
    char lower[64] = "";
    nghttp2_nv extra;
    if (question->name != NULL) {
        for (size_t i = 0; question->name[i] != 0; i++) {
            lower[i] = (char)(question->name[i] | 0x20);
        }
        extra = NV(lower, question->value);
    }
    struct bytes body = question->body != NULL ? bytes_from_text(question->body) : bytes_of("", 0);
    return client_request(client, question->method, question->target, NULL,
                          question->name != NULL ? &extra : NULL, body, false);
}

static inline struct reply ask_http2(struct fixture *fixture, const struct question *question) {
    struct client *client = malloc(sizeof *client);
    assert_non_null(client);
    client_open(client, fixture);
    struct answer *answer = begin_http2(client, question);
    client_wait(client, answer->is_closed);
    struct reply reply = reply_of(answer);
    client_close(client);
    free(client);
    return reply;
}

static inline struct reply ask(struct fixture *fixture, enum version version,
                               const struct question *question) {
    return version == HTTP1 ? ask_http1(fixture, question) : ask_http2(fixture, question);
}

#endif
