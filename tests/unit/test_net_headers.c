/* Requests over HTTP/2 whose headers are malformed (RFC 9113, section 8): each ends its own stream,
 * and others on the same connection go on. */
#include "net_doors.h"

static const struct bytes hello = {(const uint8_t *)"hello", 5};

#define NV_SIZED(header_name, header_value, value_size)                                            \
    ((nghttp2_nv){.name = (uint8_t *)(header_name),                                                \
                  .value = (uint8_t *)(header_value),                                              \
                  .namelen = strlen(header_name),                                                  \
                  .valuelen = (value_size)})

/* A request of exactly these headers, with one message. */
static struct answer *request(struct client *client, const nghttp2_nv *headers, size_t n) {
    assert_true(client->n_answers < ANSWERS_MAX);
    struct answer *answer = &client->answers[client->n_answers++];
    *answer = (struct answer){.grpc_status = -1};
    framed_append(&answer->request, hello);
    nghttp2_data_provider body = {.read_callback = client_read_request};
    answer->stream_id = nghttp2_submit_request(client->session, NULL, headers, n, &body, NULL);
    assert_true(answer->stream_id > 0);
    client_wait(client, answer->is_closed || client->is_closed);
    return answer;
}

static void assert_still_served(struct client *client) {
    struct answer *answer = client_call(client, "/test.Echo/Unary", hello, NULL, false);
    client_wait(client, answer->is_closed);
    assert_int_equal(answer->grpc_status, GRPC_OK);
}

static void the_authority_may_be_a_url(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct client client;
    client_open(&client, fixture);
    /* What etcdctl 3.4 sends for --endpoints=http://127.0.0.1:2379. */
    const nghttp2_nv headers[] = {
        NV(":method", "POST"), NV(":scheme", "http"), NV(":path", "/test.Echo/Unary"),
        NV(":authority", "http://127.0.0.1:2379"), NV("content-type", "application/grpc")};
    struct answer *answer = request(&client, headers, 5);
    assert_int_equal(answer->grpc_status, GRPC_OK);
    client_close(&client);
    doors_stop(fixture);
}

/* RFC 9113, section 8: these streams are reset, and nothing of them reaches a door. */
static void a_malformed_request_is_reset(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct client client;
    client_open(&client, fixture);
    static const struct {
        const char *headers[8][2];
    } requests[] = {
        {{{":scheme", "http"}, {":path", "/test.Echo/Unary"}, {":authority", "x"}}},
        {{{":method", "POST"}, {":path", "/test.Echo/Unary"}, {":authority", "x"}}},
        {{{":method", "POST"}, {":scheme", "http"}, {":authority", "x"}}},
        {{{":method", "POST"}, {":scheme", "http"}, {":path", "/test.Echo/Unary"}}},
        {{{":method", "GET"}, {":scheme", "http"}, {":path", ""}, {":authority", "x"}}},
        {{{":method", "GET"}, {":scheme", "http"}, {":path", "x"}, {":authority", "x"}}},
        {{{":method", "GET"}, {":scheme", "http"}, {":path", "/a b"}, {":authority", "x"}}},
        {{{":method", "GET"}, {":scheme", "ftp"}, {":path", "/"}, {":authority", "x"}}},
        {{{":method", "G T"}, {":scheme", "http"}, {":path", "/"}, {":authority", "x"}}},
        {{{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {":authority", "a b"}}},
        {{{":method", "GET"}, {":method", "GET"}, {":scheme", "http"}, {":path", "/"}}},
        {{{":method", "GET"}, {":scheme", "http"}, {":scheme", "http"}, {":path", "/"}}},
        {{{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {":path", "/"}, {"host", "x"}}},
        {{{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {"host", "x"}, {"host", "x"}}},
        {{{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {":other", "x"}, {"host", "x"}}},
        {{{":method", "GET"}, {":scheme", "http"}, {"host", "x"}, {":path", "/"}}},
        {{{":method", "GET"}, {":scheme", "http"}, {":path", "/"}, {":status", "200"}}},
    };
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        nghttp2_nv headers[9];
        size_t n = 0;
        while (requests[i].headers[n][0] != NULL) {
            headers[n] = NV(requests[i].headers[n][0], requests[i].headers[n][1]);
            n++;
        }
        headers[n++] = NV("content-type", "application/grpc");
        struct answer *answer = request(&client, headers, n);
        if (answer->error_code != NGHTTP2_PROTOCOL_ERROR || answer->http_status != 0) {
            fail_msg("request %zu: %u, answered %u", i, answer->error_code, answer->http_status);
        }
    }
    assert_int_equal(fixture->n_opened, 0);
    assert_still_served(&client);
    client_close(&client);
    doors_stop(fixture);
}

/* One more header on an otherwise good call. */
static struct answer *request_with(struct client *client, nghttp2_nv header) {
    const nghttp2_nv headers[] = {NV(":method", "POST"),
                                  NV(":scheme", "http"),
                                  NV(":path", "/test.Echo/Unary"),
                                  NV(":authority", "test"),
                                  NV("content-type", "application/grpc"),
                                  header};
    return request(client, headers, 6);
}

static void headers_of_http1_connections_are_malformed(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct client client;
    client_open(&client, fixture);
    const nghttp2_nv wrong[] = {NV("connection", "close"),
                                NV("keep-alive", "1"),
                                NV("proxy-connection", "close"),
                                NV("transfer-encoding", "chunked"),
                                NV("upgrade", "h2c"),
                                NV("te", "gzip"),
                                NV("name", " x"),
                                NV("name", "x ")};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(request_with(&client, wrong[i])->error_code, NGHTTP2_PROTOCOL_ERROR);
    }
    assert_int_equal(request_with(&client, NV("te", "trailers"))->grpc_status, GRPC_OK);
    client_close(&client);
    doors_stop(fixture);
}

/* Each request has a body of ten bytes: a prefix and "hello". */
static void the_length_of_a_body_is_what_was_said(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct client client;
    client_open(&client, fixture);
    const char *const wrong[] = {"9", "11", "0", "x", "-1", "99999999999999999999", ""};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct answer *answer = request_with(&client, NV("content-length", wrong[i]));
        assert_int_equal(answer->error_code, NGHTTP2_PROTOCOL_ERROR);
    }
    assert_int_equal(request_with(&client, NV("content-length", "10"))->grpc_status, GRPC_OK);
    client_close(&client);
    doors_stop(fixture);
}

static void too_large_headers_are_431(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct client client;
    client_open(&client, fixture);
    char *value = malloc(20001);
    assert_non_null(value);
    memset(value, 'x', 20000);
    value[20000] = 0;
    assert_int_equal(request_with(&client, NV("large", value))->http_status, 431);
    assert_still_served(&client);
    free(value);
    client_close(&client);
    doors_stop(fixture);
}

static void what_is_not_fit_to_be_a_header_ends_the_stream_only(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct client client;
    client_open(&client, fixture);
    const nghttp2_nv unfit[] = {NV("bad name", "x"), NV("na\nme", "x"), NV("", "x"),
                                NV("name", "two\r\nlines"), NV_SIZED("name", "a\0b", 3)};
    for (size_t i = 0; i < sizeof unfit / sizeof unfit[0]; i++) {
        const nghttp2_nv headers[] = {NV(":method", "POST"),
                                      NV(":scheme", "http"),
                                      NV(":path", "/test.Echo/Unary"),
                                      NV(":authority", "test"),
                                      NV("content-type", "application/grpc"),
                                      unfit[i]};
        struct answer *answer = request(&client, headers, 6);
        assert_int_not_equal(answer->error_code, NGHTTP2_NO_ERROR);
        assert_int_equal(answer->grpc_status, -1);
        assert_still_served(&client);
    }
    client_close(&client);
    doors_stop(fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_authority_may_be_a_url),
        cmocka_unit_test(a_malformed_request_is_reset),
        cmocka_unit_test(headers_of_http1_connections_are_malformed),
        cmocka_unit_test(the_length_of_a_body_is_what_was_said),
        cmocka_unit_test(too_large_headers_are_431),
        cmocka_unit_test(what_is_not_fit_to_be_a_header_ends_the_stream_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
