#include "tls_pair_fixture.h"

static void write_text(size_t which, const char *text) {
    tls_stream_write(sides[which].stream, bytes_from_text(text));
}

static void assert_received(size_t which, const char *text) {
    assert_int_equal(sides[which].received.size, strlen(text));
    assert_memory_equal(sides[which].received.data, text, strlen(text));
    sides[which].received.size = 0;
}

static void bytes_go_both_ways_in_their_order(void **state) {
    enum { SIZE = 300 * 1000 };
    uint8_t *bytes = malloc(SIZE);
    assert_non_null(bytes);
    connect_both("127.0.0.1");
    for (size_t i = 0; i < SIZE; i++) {
        bytes[i] = (uint8_t)(i * 31 + i / 256);
    }
    for (size_t at = 0; at < SIZE; at += SIZE / 3) {
        tls_stream_write(sides[CONNECTING].stream, bytes_of(bytes + at, SIZE / 3));
        tls_stream_write(sides[ACCEPTING].stream, bytes_of(bytes + at, SIZE / 3));
        carry_all(at == 0 ? SIZE_MAX : 1000);
    }
    for (size_t i = 0; i < SIDES; i++) {
        assert_int_equal(sides[i].received.size, SIZE);
        assert_memory_equal(sides[i].received.data, bytes, SIZE);
    }
    free(bytes);
}

static void it_works_byte_by_byte(void **state) {
    begin("127.0.0.1");
    carry_all(1);
    assert_int_equal(state_of(CONNECTING), TLS_OPEN);
    assert_int_equal(state_of(ACCEPTING), TLS_OPEN);
    write_text(CONNECTING, "there");
    write_text(ACCEPTING, "and back");
    carry_all(1);
    assert_received(ACCEPTING, "there");
    assert_received(CONNECTING, "and back");
}

static void nothing_is_open_before_the_handshake_is_over(void **state) {
    begin("127.0.0.1");
    assert_int_equal(state_of(CONNECTING), TLS_HANDSHAKE);
    assert_int_equal(state_of(ACCEPTING), TLS_HANDSHAKE);
    assert_true(tls_stream_output(sides[CONNECTING].stream)->size > 0);
    assert_int_equal(tls_stream_output(sides[ACCEPTING].stream)->size, 0);
    /* The goodbye of a stream that never was open is silence. */
    tls_stream_end(sides[ACCEPTING].stream);
    assert_int_equal(tls_stream_output(sides[ACCEPTING].stream)->size, 0);
}

static void a_goodbye_ends_a_stream_after_what_was_written(void **state) {
    connect_both("127.0.0.1");
    write_text(CONNECTING, "last words");
    tls_stream_end(sides[CONNECTING].stream);
    tls_stream_end(sides[CONNECTING].stream);
    carry_all(SIZE_MAX);
    assert_received(ACCEPTING, "last words");
    assert_int_equal(state_of(ACCEPTING), TLS_ENDED);
    assert_string_equal(tls_stream_error(sides[ACCEPTING].stream), "the peer hung up");
    /* The other way is still open. */
    write_text(ACCEPTING, "farewell");
    carry_all(SIZE_MAX);
    assert_received(CONNECTING, "farewell");
    tls_stream_end(sides[ACCEPTING].stream);
    carry_all(SIZE_MAX);
    assert_int_equal(state_of(CONNECTING), TLS_ENDED);
    assert_int_equal(tls_stream_feed_end(sides[CONNECTING].stream), TLS_ENDED);
}

/* Whoever can cut a connection could otherwise cut what was said. */
static void an_end_without_a_goodbye_is_a_failure(void **state) {
    connect_both("127.0.0.1");
    assert_int_equal(tls_stream_feed_end(sides[ACCEPTING].stream), TLS_FAILED);
    assert_string_equal(tls_stream_error(sides[ACCEPTING].stream), "the peer hung up");
    begin("127.0.0.1");
    assert_int_equal(tls_stream_feed_end(sides[CONNECTING].stream), TLS_FAILED);
    assert_string_equal(tls_stream_error(sides[CONNECTING].stream),
                        "the peer hung up before TLS was agreed on; does it speak TLS?");
}

static void a_changed_byte_is_noticed(void **state) {
    for (size_t at = 0; at < 200; at += 13) {
        char text[150];
        memset(text, 'x', sizeof text);
        connect_both("127.0.0.1");
        tls_stream_write(sides[CONNECTING].stream, bytes_of(text, sizeof text));
        struct buffer *output = tls_stream_output(sides[CONNECTING].stream);
        /* Of a size that grew, more is waited for; so the first record's size is left alone. */
        size_t changed = at % output->size;
        output->data[changed == 3 || changed == 4 ? 5 : changed] ^= 1;
        carry_all(SIZE_MAX);
        assert_int_equal(state_of(ACCEPTING), TLS_FAILED);
        assert_int_equal(sides[ACCEPTING].received.size, 0);
    }
}

static void plain_text_is_told_from_tls(void **state) {
    static const char *const texts[] = {"leasedpr\1 and so on and so on", "GET / HTTP/1.1\r\n\r\n"};
    for (size_t i = 0; i < 2; i++) {
        begin("127.0.0.1");
        assert_int_equal(tls_stream_feed(sides[ACCEPTING].stream, bytes_from_text(texts[i]),
                                         &sides[ACCEPTING].received),
                         TLS_FAILED);
        assert_string_equal(tls_stream_error(sides[ACCEPTING].stream),
                            "the peer does not speak TLS, and this node does");
        /* More of it changes nothing. */
        assert_int_equal(tls_stream_feed(sides[ACCEPTING].stream, bytes_from_text(texts[i]),
                                         &sides[ACCEPTING].received),
                         TLS_FAILED);
        assert_int_equal(sides[ACCEPTING].received.size, 0);
    }
}

static void an_alert_tells_the_other_side_why(void **state) {
    make_side(CONNECTING, &theirs, &ours, &usual_terms);
    begin("127.0.0.1");
    carry_all(SIZE_MAX);
    assert_int_equal(state_of(ACCEPTING), TLS_FAILED);
    assert_int_equal(state_of(CONNECTING), TLS_FAILED);
    assert_string_equal(tls_stream_error(sides[CONNECTING].stream),
                        "the peer refuses our certificate");
}

static void an_application_protocol_is_agreed_on(void **state) {
    struct tls_options client = sides[CONNECTING].files.options;
    struct tls_options server = sides[ACCEPTING].files.options;
    client.alpn = "http/1.1,h2";
    server.alpn = "h2,http/1.1";
    use_options(&sides[CONNECTING], &client);
    use_options(&sides[ACCEPTING], &server);
    connect_both("127.0.0.1");
    assert_string_equal(tls_stream_alpn(sides[CONNECTING].stream), "h2");
    assert_string_equal(tls_stream_alpn(sides[ACCEPTING].stream), "h2");
    /* One that does not know any goes without. */
    client.alpn = "other";
    use_options(&sides[CONNECTING], &client);
    connect_both("127.0.0.1");
    assert_string_equal(tls_stream_alpn(sides[ACCEPTING].stream), "");
    client.alpn = NULL;
    use_options(&sides[CONNECTING], &client);
    connect_both("127.0.0.1");
    assert_string_equal(tls_stream_alpn(sides[CONNECTING].stream), "");
}

static enum tls_state meet_client(SSL_CTX *client) {
    enum tls_state state = meet_client_with(client, NULL, NULL);
    SSL_CTX_free(client);
    return state;
}

static void who_has_no_certificate_is_refused_where_one_is_required(void **state) {
    assert_int_equal(meet_client(SSL_CTX_new(TLS_client_method())), TLS_FAILED);
    assert_string_equal(tls_stream_error(sides[ACCEPTING].stream), "the peer has no certificate");
    struct tls_options options = sides[ACCEPTING].files.options;
    options.verify = TLS_VERIFY_OPTIONAL;
    use_options(&sides[ACCEPTING], &options);
    assert_int_equal(meet_client(SSL_CTX_new(TLS_client_method())), TLS_OPEN);
    /* A wrong one is worse than none. */
    make_side(CONNECTING, &theirs, &ours, &usual_terms);
    assert_refused("127.0.0.1", "the peer refuses our certificate",
                   "the peer's certificate is signed by an unknown authority");
    options.verify = TLS_VERIFY_SERVER;
    options.ca_file = NULL;
    use_options(&sides[ACCEPTING], &options);
    connect_both("127.0.0.1");
    struct tls_identity identity;
    assert_false(tls_stream_peer_identity(sides[ACCEPTING].stream, &identity));
}

static void what_is_older_than_tls_1_2_is_refused(void **state) {
    SSL_CTX *old = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_security_level(old, 0);
    SSL_CTX_set_min_proto_version(old, TLS1_VERSION);
    SSL_CTX_set_max_proto_version(old, TLS1_1_VERSION);
    assert_int_equal(meet_client(old), TLS_FAILED);
}

/* ---- what only the two ends of a connection know ---- */

static void use_no_verification(const char *version) {
    for (size_t i = 0; i < SIDES; i++) {
        struct tls_options options = sides[i].files.options;
        options.verify = TLS_VERIFY_NONE;
        options.max_version = version;
        use_options(&sides[i], &options);
    }
}

static void unverified_ends_share_a_secret_of_the_connection(void **state) {
    static const char *const versions[] = {"TLS1.2", "TLS1.3"};
    uint8_t bindings[SIDES][TLS_BINDING_SIZE];
    uint8_t before[TLS_BINDING_SIZE] = {0};
    for (size_t i = 0; i < 2; i++) {
        use_no_verification(versions[i]);
        connect_both("127.0.0.1");
        for (size_t side = 0; side < SIDES; side++) {
            assert_true(tls_stream_binding(sides[side].stream, bindings[side]));
        }
        assert_memory_equal(bindings[CONNECTING], bindings[ACCEPTING], TLS_BINDING_SIZE);
        assert_memory_not_equal(bindings[CONNECTING], before, TLS_BINDING_SIZE);
        memcpy(before, bindings[CONNECTING], sizeof before);
    }
}

/* Without RFC 7627 two connections could share a secret; then no proof may fit. */
static void a_secret_that_may_be_shared_is_not_given(void **state) {
    uint8_t first[TLS_BINDING_SIZE];
    uint8_t second[TLS_BINDING_SIZE];
    SSL_CTX *client = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_options(client, SSL_OP_NO_EXTENDED_MASTER_SECRET);
    use_no_verification("TLS1.2");
    assert_int_equal(meet_client(client), TLS_OPEN);
    assert_true(tls_stream_binding(sides[ACCEPTING].stream, first));
    assert_true(tls_stream_binding(sides[ACCEPTING].stream, second));
    assert_memory_not_equal(first, second, TLS_BINDING_SIZE);
}

static void verified_ends_need_no_such_secret(void **state) {
    uint8_t binding[TLS_BINDING_SIZE];
    begin("127.0.0.1");
    assert_false(tls_stream_binding(sides[CONNECTING].stream, binding));
    connect_both("127.0.0.1");
    assert_false(tls_stream_binding(sides[CONNECTING].stream, binding));
    assert_false(tls_stream_binding(sides[ACCEPTING].stream, binding));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TLS_TEST(bytes_go_both_ways_in_their_order),
        TLS_TEST(it_works_byte_by_byte),
        TLS_TEST(nothing_is_open_before_the_handshake_is_over),
        TLS_TEST(a_goodbye_ends_a_stream_after_what_was_written),
        TLS_TEST(an_end_without_a_goodbye_is_a_failure),
        TLS_TEST(a_changed_byte_is_noticed),
        TLS_TEST(plain_text_is_told_from_tls),
        TLS_TEST(an_alert_tells_the_other_side_why),
        TLS_TEST(an_application_protocol_is_agreed_on),
        TLS_TEST(who_has_no_certificate_is_refused_where_one_is_required),
        TLS_TEST(what_is_older_than_tls_1_2_is_refused),
        TLS_TEST(unverified_ends_share_a_secret_of_the_connection),
        TLS_TEST(a_secret_that_may_be_shared_is_not_given),
        TLS_TEST(verified_ends_need_no_such_secret),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
