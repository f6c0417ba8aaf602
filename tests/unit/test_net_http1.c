/* HTTP/1.1 on the wire: exact answers, pipelining, keep-alive, and what is refused. */
#include "net_routes.h"

/* Sends this on a new connection and returns all that came until the server closed it. */
static struct buffer talk(struct fixture *fixture, const char *request) {
    int fd = raw_connect(fixture);
    raw_send_text(fd, request);
    struct buffer answer = raw_read_all(fixture, fd);
    close(fd);
    return answer;
}

static void assert_talk(struct fixture *fixture, const char *request, const char *expected) {
    struct buffer answer = talk(fixture, request);
    assert_string_equal((const char *)answer.data, expected);
    buffer_clear(&answer);
}

static void answers_are_as_short_as_they_can_be(void **state) {
    struct fixture *fixture = routes_start(NULL);
    assert_talk(fixture, "GET /plain?verbose HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n"
                "Content-Length: 5\r\nConnection: close\r\n\r\nplain");
    assert_talk(fixture, "HEAD /plain HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n"
                "Content-Length: 5\r\nConnection: close\r\n\r\n");
    assert_talk(fixture, "DELETE /empty HTTP/1.0\r\n\r\n",
                "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
    /* Without a length, HTTP/1.0 ends the body with the connection. */
    assert_talk(fixture, "GET /stream?pieces=0 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n"
                "Connection: close\r\n\r\n");
    assert_talk(fixture,
                "GET /plain HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n"
                "GET /stream?pieces=0 HTTP/1.1\r\nHost: x\r\nConnection: te, Close\r\n\r\n",
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n"
                "Content-Length: 5\r\nConnection: keep-alive\r\n\r\nplain"
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n"
                "Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n0\r\n\r\n");
    doors_stop(fixture);
}

static void the_absolute_form_names_the_host(void **state) {
    struct fixture *fixture = routes_start(NULL);
    struct buffer answer = talk(fixture, "GET http://other:80/header HTTP/1.1\r\nHost: x\r\n"
                                         "X-Name: y\r\nConnection: close\r\n\r\n");
    assert_memory_equal(answer.data, "HTTP/1.1 200 OK\r\n", 17);
    buffer_clear(&answer);
    answer = talk(fixture, "GET HTTP://other HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_memory_equal(answer.data, "HTTP/1.1 404 Not Found\r\n", 24);
    buffer_clear(&answer);
    doors_stop(fixture);
}

/* --- pipelining ---------------------------------------------------------------------------- */

static void pipelined_requests_are_answered_in_order(void **state) {
    struct fixture *fixture = routes_start(NULL);
    struct buffer answer = talk(fixture, "GET /poll?ms=50 HTTP/1.1\r\nHost: x\r\n\r\n"
                                         "\r\nPUT /whole HTTP/1.1\r\nHost: x\r\n"
                                         "Content-Length: 3\r\n\r\nabc"
                                         "POST /nowhere HTTP/1.1\r\nHost: x\r\n"
                                         "Content-Length: 3\r\n\r\nabc"
                                         "POST /plain HTTP/1.1\r\nHost: x\r\n"
                                         "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
                                         "GET /plain HTTP/1.1\r\nHost: x\r\n"
                                         "Connection: close\r\n\r\n"
                                         "GET /plain HTTP/1.1\r\nHost: x\r\n\r\n");
    static const unsigned statuses[] = {200, 200, 404, 405, 200};
    static const char *const bodies[] = {"nothing new", "abc", "404 page not found\n",
                                         "method not allowed\n", "plain"};
    size_t at = 0;
    for (size_t i = 0; i < 5; i++) {
        struct reply reply;
        assert_true(read_answer(&answer, &at, false, &reply));
        assert_int_equal(reply.status, statuses[i]);
        assert_string_equal(reply.body, bodies[i]);
    }
    assert_int_equal(at, answer.size - 1);
    buffer_clear(&answer);
    doors_stop(fixture);
}

static void pipelining_is_paced_by_the_reader(void **state) {
    struct fixture *fixture = routes_start(NULL);
    enum { REQUESTS = 300, PIECES = 10 };
    int fd = raw_connect(fixture);
    static const char request[] = "GET /stream?pieces=10 HTTP/1.1\r\nHost: x\r\n\r\n";
    struct buffer requests;
    buffer_init(&requests);
    for (size_t i = 0; i < REQUESTS; i++) {
        buffer_append(&requests, request, sizeof request - 1);
    }
    size_t sent = 0;
    for (unsigned i = 0; i < 200; i++) {
        ssize_t n = send(fd, requests.data + sent, requests.size - sent, MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
        fixture_turn(fixture);
    }
    /* It does not read: a few answers wait, and the rest of its requests is not looked at. */
    size_t high = net_limits_default.stream_queue_high;
    assert_true(fixture_stats(fixture).queued_bytes <= 2 * high + STREAM_PIECE);
    assert_true(seen.n_requests < REQUESTS / 2);
    /* It reads: everything is answered. */
    struct buffer got;
    buffer_init(&got);
    uint64_t start_ms = clock_boottime_ms();
    size_t body_bytes = 0;
    while (seen.n_closed < REQUESTS || body_bytes < (size_t)REQUESTS * PIECES * STREAM_PIECE) {
        assert_true(clock_boottime_ms() - start_ms < WAIT_MS_MAX);
        ssize_t n = sent < requests.size
                        ? send(fd, requests.data + sent, requests.size - sent, MSG_NOSIGNAL)
                        : 0;
        sent += n > 0 ? (size_t)n : 0;
        fixture_turn(fixture);
        got.size = 0;
        assert_true(raw_read(fd, &got));
        body_bytes += got.size;
    }
    buffer_clear(&got);
    buffer_clear(&requests);
    close(fd);
    doors_stop(fixture);
}

static void a_request_ahead_of_its_time_sees_what_the_one_before_did(void **state) {
    struct fixture *fixture = routes_start(NULL);
    int fd = raw_connect(fixture);
    raw_send_text(fd, "GET /poll?ms=600000 HTTP/1.1\r\nHost: x\r\n\r\n"
                      "GET /plain HTTP/1.1\r\nHost: x\r\n\r\n");
    for (unsigned i = 0; i < 50; i++) {
        fixture_turn(fixture);
    }
    assert_int_equal(seen.n_requests, 1);
    assert_non_null(seen.held);
    http_reply(seen.held, 200, TEXT, bytes_from_text("something new"));
    while (seen.n_requests < 2) {
        fixture_turn(fixture);
    }
    close(fd);
    doors_stop(fixture);
}

/* --- 100 Continue -------------------------------------------------------------------------- */

static void a_body_is_asked_for_only_if_it_is_wanted(void **state) {
    struct fixture *fixture = routes_start(NULL);
    int fd = raw_connect(fixture);
    raw_send_text(fd, "PUT /whole HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
                      "Expect: 100-Continue\r\n\r\n");
    struct buffer got;
    buffer_init(&got);
    while (got.size == 0) {
        fixture_turn(fixture);
        assert_true(raw_read(fd, &got));
    }
    assert_memory_equal(got.data, "HTTP/1.1 100 Continue\r\n\r\n", 25);
    assert_int_equal(got.size, 25);
    raw_send_text(fd, "hello");
    while (got.size == 25) {
        fixture_turn(fixture);
        assert_true(raw_read(fd, &got));
    }
    assert_memory_equal(got.data + 25, "HTTP/1.1 200 OK\r\n", 17);
    buffer_clear(&got);
    close(fd);
    /* The client may or may not send the body now: the connection cannot go on. */
    assert_talk(fixture,
                "PUT /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
                "Expect: 100-continue\r\n\r\n",
                "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain; charset=utf-8\r\n"
                "Content-Length: 19\r\nConnection: close\r\n\r\n404 page not found\n");
    doors_stop(fixture);
}

/* --- refusals ------------------------------------------------------------------------------ */

#define HOST "Host: x\r\n"

struct refused {
    const char *request;
    unsigned status;
};

static const struct refused refused[] = {
    {"GET \x01 nonsense\r\n\r\n", 400},
    {"GET /plain HTTP/1.1\r\n\r\n", 400},
    {"GET /plain HTTP/1.1\r\n" HOST HOST "\r\n", 400},
    {"GET /plain HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
    {"GET /plain HTTP/1.1\r\nHost: a/b\r\n\r\n", 400},
    {"GET /plain HTTP/1.1\n" HOST "\r\n", 400},
    {"GET /plain HTTP/1.1\r\n" HOST "A: b\n\r\n", 400},
    {"GET /plain HTTP/1.1\r\n" HOST "A: b\rC: d\r\n\r\n", 400},
    {"GET /plain HTTP/1.1\r\n" HOST "A : b\r\n\r\n", 400},
    {"GET /plain HTTP/1.1\r\n" HOST " A: b\r\n\r\n", 400},
    {"GET /plain HTTP/1.1\r\n" HOST "A: b\r\n\tc\r\n\r\n", 400},
    {"GET /plain HTTP/1.1\r\n" HOST "A\r\n\r\n", 400},
    {"GET /plain HTTP/1.1\r\n" HOST ": b\r\n\r\n", 400},
    {"GET /plain HTTP/1.1\r\n" HOST "A(: b\r\n\r\n", 400},
    {"GET /plain HTTP/1.1\r\n" HOST "A: b\x01\r\n\r\n", 400},
    {"GET  /plain HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET /pl ain HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET /plain#x HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET /pl\x80 HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET plain HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET ftp://x/plain HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET http:///plain HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET * HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n", 400},
    {"GET /plain HTTP/1.1 \r\n" HOST "\r\n", 400},
    {"GET /plain http/1.1\r\n" HOST "\r\n", 400},
    {"GET /plain HTTP/11\r\n" HOST "\r\n", 400},
    {"GET /plain HTTP/2.0\r\n" HOST "\r\n", 505},
    {"GET /plain\r\n\r\n", 400},
    {"CONNECT x:80 HTTP/1.1\r\n" HOST "\r\n", 501},
    {"POST /whole HTTP/1.1\r\n" HOST "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400},
    {"POST /whole HTTP/1.1\r\n" HOST "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400},
    {"POST /whole HTTP/1.1\r\n" HOST "Content-Length: 3, 3\r\n\r\nabc", 400},
    {"POST /whole HTTP/1.1\r\n" HOST "Content-Length: +3\r\n\r\nabc", 400},
    {"POST /whole HTTP/1.1\r\n" HOST "Content-Length: 0x3\r\n\r\nabc", 400},
    {"POST /whole HTTP/1.1\r\n" HOST "Content-Length: -1\r\n\r\nabc", 400},
    {"POST /whole HTTP/1.1\r\n" HOST "Content-Length:\r\n\r\nabc", 400},
    {"POST /whole HTTP/1.1\r\n" HOST "Content-Length: 18446744073709551617\r\n\r\nabc", 400},
    {"POST /whole HTTP/1.1\r\n" HOST "Content-Length: 99999999999\r\n\r\nabc", 413},
    {"POST /whole HTTP/1.1\r\n" HOST "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"
     "3\r\nabc\r\n0\r\n\r\n",
     400},
    {"POST /whole HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n",
     400},
    {"POST /whole HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", 400},
    {"POST /whole HTTP/1.1\r\n" HOST "Transfer-Encoding: identity\r\n\r\n0\r\n\r\n", 400},
    {"POST /whole HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400},
    {"POST /whole HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400},
    {"POST /whole HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"
     "\r\n0\r\n\r\n",
     400},
    {"POST /whole HTTP/1.1\r\n" HOST "Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n", 400},
    {"POST /whole HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
    {"POST /whole HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", 400},
    {"POST /whole HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n-1\r\n", 400},
    {"POST /whole HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n3 \r\nabc\r\n0\r\n\r\n",
     400},
    {"POST /whole HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n3\nabc\r\n0\r\n\r\n", 400},
    {"POST /whole HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
     400},
    {"POST /whole HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\n0\r\n\r\n", 400},
    {"POST /whole HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nabc",
     413},
    {"POST /whole HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\na b: c\r\n\r\n", 400},
    {"POST /whole HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\nA: b\r\n c\r\n\r\n",
     400},
    {"PUT /whole HTTP/1.1\r\n" HOST "Expect: something\r\nContent-Length: 1\r\n\r\nx", 417},
    {"POST /test.Echo/Unary HTTP/1.1\r\n" HOST "Content-Type: application/grpc\r\n"
     "Connection: close\r\nContent-Length: 5\r\n\r\nhello",
     505},
};

static void what_two_readers_could_read_differently_is_refused(void **state) {
    struct fixture *fixture = routes_start(NULL);
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        /* Whole, and in single bytes. */
        for (unsigned is_cut = 0; is_cut < 2; is_cut++) {
            int fd = raw_connect(fixture);
            size_t size = strlen(refused[i].request);
            for (size_t at = 0; at < size;) {
                size_t n = is_cut != 0 ? 1 : size;
                if (send(fd, refused[i].request + at, n, MSG_NOSIGNAL) < 0) {
                    break; /* it has heard enough */
                }
                at += n;
                if (is_cut != 0) {
                    fixture_turn(fixture);
                }
            }
            struct buffer got = raw_read_all(fixture, fd);
            unsigned status = 0;
            sscanf((const char *)got.data, "HTTP/1.1 %u", &status);
            const char *second = strstr((const char *)got.data + 1, "HTTP/1.1 ");
            if (status != refused[i].status || second != NULL ||
                strstr((const char *)got.data, "Connection: close\r\n") == NULL) {
                fail_msg("%s: %s", refused[i].request, (const char *)got.data);
            }
            buffer_clear(&got);
            close(fd);
        }
    }
    assert_int_equal(seen.n_requests + seen.n_bodies, 0);
    doors_stop(fixture);
}

static void a_zero_byte_is_refused_wherever_it_is(void **state) {
    struct fixture *fixture = routes_start(NULL);
    static const char request[] = "GET /plain HTTP/1.1\r\nHost: x\r\nAb: cd\r\n\r\n";
    for (size_t i = 4; i < sizeof request - 1 - 4; i++) {
        char text[sizeof request];
        memcpy(text, request, sizeof request);
        text[i] = 0;
        int fd = raw_connect(fixture);
        raw_send(fd, text, sizeof request - 1);
        struct buffer got = raw_read_all(fixture, fd);
        assert_memory_equal(got.data, "HTTP/1.1 400 ", 13);
        buffer_clear(&got);
        close(fd);
    }
    assert_int_equal(seen.n_requests, 0);
    doors_stop(fixture);
}

static struct buffer repeated(const char *start, const char *piece, size_t n, const char *end) {
    struct buffer out;
    buffer_init(&out);
    buffer_append(&out, start, strlen(start));
    for (size_t i = 0; i < n; i++) {
        buffer_append(&out, piece, strlen(piece));
    }
    buffer_append(&out, end, strlen(end) + 1);
    return out;
}

static void too_much_is_refused(void **state) {
    struct fixture *fixture = routes_start(NULL);
    const struct {
        struct buffer request;
        unsigned status;
    } cases[] = {
        {repeated("GET /plain HTTP/1.1\r\nHost: x\r\n", "A: b\r\n", 1000, "\r\n"), 431},
        {repeated("GET /plain HTTP/1.1\r\nHost: x\r\nA: ", "bbbbbbbbbb", 2000, ""), 431},
        {repeated("GET /plain HTTP/1.1\r\nHost: x\r\nA", "bbbbbbbbbb", 30, ": x\r\n\r\n"), 431},
        {repeated("GET /", "bbbbbbbbbb", 1000, ""), 414},
        {repeated("", "\r\n", 0, "GET /plain HTTP/1.1\r\n\r\n"), 400},
        {repeated("POST /plain HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n", "0123456789",
                  1000, ""),
         405},
        {repeated("PUT /whole HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
                  "1\r\nx\r\n", 200, ""),
         413},
        {repeated("PUT /whole HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                  "1;",
                  "extension=", 200, "\r\n"),
         400},
        {repeated("PUT /any HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                  "0\r\n",
                  "A: b\r\n", 1000, "\r\n"),
         431},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct buffer got = talk(fixture, (const char *)cases[i].request.data);
        unsigned status = 0;
        sscanf((const char *)got.data, "HTTP/1.1 %u", &status);
        assert_int_equal(status, cases[i].status);
        assert_non_null(strstr((const char *)got.data, "Connection: close\r\n"));
        buffer_clear(&got);
        struct buffer request = cases[i].request;
        buffer_clear(&request);
    }
    doors_stop(fixture);
}

/* --- the end ------------------------------------------------------------------------------- */

static void an_idle_connection_ends_with_the_server(void **state) {
    struct fixture *fixture = routes_start(NULL);
    int fd = raw_connect(fixture);
    raw_send_text(fd, "GET /plain HTTP/1.1\r\nHost: x\r\n\r\n");
    while (fixture_stats(fixture).bytes_sent == 0) {
        fixture_turn(fixture);
    }
    fixture_shutdown(fixture, WAIT_MS_MAX);
    uint64_t start_ms = clock_boottime_ms();
    doors_stop(fixture);
    assert_true(clock_boottime_ms() - start_ms < WAIT_MS_MAX / 2);
    close(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_as_short_as_they_can_be),
        cmocka_unit_test(the_absolute_form_names_the_host),
        cmocka_unit_test(pipelined_requests_are_answered_in_order),
        cmocka_unit_test(pipelining_is_paced_by_the_reader),
        cmocka_unit_test(a_request_ahead_of_its_time_sees_what_the_one_before_did),
        cmocka_unit_test(a_body_is_asked_for_only_if_it_is_wanted),
        cmocka_unit_test(what_two_readers_could_read_differently_is_refused),
        cmocka_unit_test(a_zero_byte_is_refused_wherever_it_is),
        cmocka_unit_test(too_much_is_refused),
        cmocka_unit_test(an_idle_connection_ends_with_the_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
