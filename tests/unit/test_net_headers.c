/* Requests whose headers are not what they should be: served where it does no harm, refused where
 * it could, and never at the cost of others on the same connection. */
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

static void a_request_that_lacks_something_leads_nowhere(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct client client;
    client_open(&client, fixture);
    const nghttp2_nv without_path[] = {NV(":method", "POST"), NV(":scheme", "http"),
                                       NV("content-type", "application/grpc")};
    assert_int_equal(request(&client, without_path, 3)->grpc_status, GRPC_UNIMPLEMENTED);
    const nghttp2_nv without_method[] = {NV(":path", "/test.Echo/Unary"),
                                         NV("content-type", "application/grpc")};
    assert_int_equal(request(&client, without_method, 2)->http_status, 405);
    const nghttp2_nv of_get[] = {NV(":method", "GET"), NV(":scheme", "http")};
    assert_int_equal(request(&client, of_get, 2)->http_status, 404);
    const nghttp2_nv nothing[] = {NV("x", "y")};
    assert_int_equal(request(&client, nothing, 1)->http_status, 405);
    assert_still_served(&client);
    client_close(&client);
    doors_stop(fixture);
}

static void of_two_paths_the_last_counts(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct client client;
    client_open(&client, fixture);
    const nghttp2_nv headers[] = {NV(":method", "POST"), NV("content-type", "application/grpc"),
                                  NV(":path", "/test.Echo/Unary"), NV(":path", "/nowhere")};
    assert_int_equal(request(&client, headers, 4)->grpc_status, GRPC_UNIMPLEMENTED);
    assert_still_served(&client);
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
        cmocka_unit_test(a_request_that_lacks_something_leads_nowhere),
        cmocka_unit_test(of_two_paths_the_last_counts),
        cmocka_unit_test(what_is_not_fit_to_be_a_header_ends_the_stream_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
