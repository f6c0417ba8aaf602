/* Pages over HTTP/1.1 and HTTP/2. */
#include "net_doors.h"

static unsigned health_page(void *context, struct buffer *body, const char **out_content_type) {
    *out_content_type = "application/json";
    buffer_append(body, "{\"health\":\"true\"}", 17);
    return 200;
}

static unsigned unhealthy_page(void *context, struct buffer *body, const char **out_content_type) {
    buffer_append(body, "no\n", 3);
    return 503;
}

static unsigned large_page(void *context, struct buffer *body, const char **out_content_type) {
    memset(buffer_reserve(body, 1000000), 'x', 1000000);
    body->size += 1000000;
    return 200;
}

static struct fixture *pages_start(const struct net_limits *limits) {
    struct fixture *fixture = doors_start(limits);
    net_server_add_page(fixture->server, "/health", health_page, NULL);
    net_server_add_page(fixture->server, "/unhealthy", unhealthy_page, NULL);
    net_server_add_page(fixture->server, "/large", large_page, NULL);
    return fixture;
}

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

static void page_is_served_and_the_connection_closed_when_asked(void **state) {
    struct fixture *fixture = pages_start(NULL);
    assert_talk(fixture, "GET /health?verbose HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 17\r\n"
                "Connection: close\r\n\r\n{\"health\":\"true\"}");
    assert_talk(fixture, "GET /unhealthy HTTP/1.0\r\n\r\n",
                "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain; charset=utf-8\r\n"
                "Content-Length: 3\r\nConnection: close\r\n\r\nno\n");
    doors_stop(fixture);
}

static void head_sends_no_body(void **state) {
    struct fixture *fixture = pages_start(NULL);
    assert_talk(fixture, "HEAD /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 17\r\n"
                "Connection: close\r\n\r\n");
    doors_stop(fixture);
}

static void kept_connection_serves_pipelined_requests(void **state) {
    struct fixture *fixture = pages_start(NULL);
    struct buffer answer = talk(fixture, "GET /health HTTP/1.1\r\n\r\n"
                                         "POST /nothing HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"
                                         "POST /health HTTP/1.1\r\nContent-Length: 0\r\n\r\n"
                                         "GET /health HTTP/1.1\r\nConnection: close\r\n\r\n");
    const char *at = (const char *)answer.data;
    const char *const in_order[] = {"HTTP/1.1 200 OK\r\n", "HTTP/1.1 404 Not Found\r\n",
                                    "HTTP/1.1 405 Method Not Allowed\r\n", "Allow: GET, HEAD\r\n",
                                    "HTTP/1.1 200 OK\r\n"};
    for (size_t i = 0; i < sizeof in_order / sizeof in_order[0]; i++) {
        at = strstr(at, in_order[i]);
        assert_non_null(at);
        at++;
    }
    buffer_clear(&answer);
    doors_stop(fixture);
}

static void pipelining_without_end_is_cut_off(void **state) {
    struct fixture *fixture = pages_start(NULL);
    struct buffer requests;
    buffer_init(&requests);
    for (size_t i = 0; i < 1000; i++) {
        buffer_append(&requests, "GET /large HTTP/1.1\r\n\r\n", 23);
    }
    buffer_put_u8(&requests, 0);
    struct buffer answer = talk(fixture, (const char *)requests.data);
    assert_true(answer.size > 1000000);
    assert_true(answer.size < 20 * 1000000);
    buffer_clear(&answer);
    buffer_clear(&requests);
    doors_stop(fixture);
}

static void what_is_not_http_is_400(void **state) {
    struct fixture *fixture = pages_start(NULL);
    struct buffer answer = talk(fixture, "GET \x01 nonsense\r\n\r\n");
    assert_non_null(strstr((const char *)answer.data, "HTTP/1.1 400 Bad Request\r\n"));
    buffer_clear(&answer);
    doors_stop(fixture);
}

static void too_large_requests_are_refused(void **state) {
    struct fixture *fixture = pages_start(NULL);
    struct buffer request;
    buffer_init(&request);
    const char *start = "GET /health HTTP/1.1\r\nX: ";
    buffer_append(&request, start, strlen(start));
    memset(buffer_reserve(&request, 20000), 'x', 20000);
    request.size += 20000;
    buffer_put_u8(&request, 0);
    struct buffer answer = talk(fixture, (const char *)request.data);
    assert_non_null(strstr((const char *)answer.data, "HTTP/1.1 431 "));
    buffer_clear(&answer);
    request.size = 0;
    start = "POST /health HTTP/1.1\r\nContent-Length: 100000\r\n\r\n";
    buffer_append(&request, start, strlen(start));
    memset(buffer_reserve(&request, 70000), 'x', 70000);
    request.size += 70000;
    buffer_put_u8(&request, 0);
    answer = talk(fixture, (const char *)request.data);
    assert_non_null(strstr((const char *)answer.data, "HTTP/1.1 413 "));
    buffer_clear(&answer);
    buffer_clear(&request);
    doors_stop(fixture);
}

static void answer_is_sent_although_the_peer_sends_no_more(void **state) {
    struct fixture *fixture = pages_start(NULL);
    int fd = raw_connect(fixture);
    raw_send_text(fd, "GET /health HTTP/1.1\r\n\r\n");
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    struct buffer answer = raw_read_all(fixture, fd);
    assert_non_null(strstr((const char *)answer.data, "{\"health\":\"true\"}"));
    buffer_clear(&answer);
    close(fd);
    /* More than one turn sends. */
    fd = raw_connect(fixture);
    for (unsigned i = 0; i < 5; i++) {
        raw_send_text(fd, "GET /large HTTP/1.1\r\n\r\n");
    }
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    answer = raw_read_all(fixture, fd);
    assert_true(answer.size > 5 * 1000000);
    buffer_clear(&answer);
    close(fd);
    doors_stop(fixture);
}

static void pages_are_served_over_http2(void **state) {
    struct fixture *fixture = pages_start(NULL);
    struct client client;
    client_open(&client, fixture);
    struct answer *health =
        client_request(&client, "GET", "/health", NULL, NULL, bytes_of(NULL, 0), false);
    struct answer *head =
        client_request(&client, "HEAD", "/health", NULL, NULL, bytes_of(NULL, 0), false);
    struct answer *large =
        client_request(&client, "GET", "/large", NULL, NULL, bytes_of(NULL, 0), false);
    struct answer *nothing =
        client_request(&client, "GET", "/nothing", NULL, NULL, bytes_of(NULL, 0), false);
    struct answer *other =
        client_request(&client, "DELETE", "/health", NULL, NULL, bytes_of(NULL, 0), false);
    client_wait(&client, health->is_closed && head->is_closed && large->is_closed &&
                             nothing->is_closed && other->is_closed);
    assert_int_equal(health->http_status, 200);
    assert_string_equal(health->content_type, "application/json");
    assert_int_equal(health->body.size, 17);
    assert_int_equal(head->http_status, 200);
    assert_int_equal(head->body.size, 0);
    assert_int_equal(large->body.size, 1000000);
    assert_int_equal(nothing->http_status, 404);
    assert_int_equal(other->http_status, 405);
    client_close(&client);
    doors_stop(fixture);
}

static void idle_http1_connection_ends_with_the_server(void **state) {
    struct fixture *fixture = pages_start(NULL);
    int fd = raw_connect(fixture);
    raw_send_text(fd, "GET /health HTTP/1.1\r\n\r\n");
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
        cmocka_unit_test(page_is_served_and_the_connection_closed_when_asked),
        cmocka_unit_test(head_sends_no_body),
        cmocka_unit_test(kept_connection_serves_pipelined_requests),
        cmocka_unit_test(pipelining_without_end_is_cut_off),
        cmocka_unit_test(what_is_not_http_is_400),
        cmocka_unit_test(too_large_requests_are_refused),
        cmocka_unit_test(answer_is_sent_although_the_peer_sends_no_more),
        cmocka_unit_test(pages_are_served_over_http2),
        cmocka_unit_test(idle_http1_connection_ends_with_the_server),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
