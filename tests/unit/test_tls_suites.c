/* Versions and cipher suites: which are spoken, and which names are refused. */
#include "tls_pair_fixture.h"

static void use_suites(size_t which, const char *suites, const char *min, const char *max) {
    struct tls_options options = sides[which].files.options;
    options.cipher_suites = suites;
    options.min_version = min;
    options.max_version = max;
    use_options(&sides[which], &options);
}

static void assert_invalid(const char *suites, const char *min, const char *max,
                           const char *reason) {
    char error[1024] = "";
    struct tls_context *context = NULL;
    struct tls_options options = sides[ACCEPTING].files.options;
    options.cipher_suites = suites;
    options.min_version = min;
    options.max_version = max;
    assert_int_equal(tls_context_create(&options, &context, error, sizeof error), STATUS_INVALID);
    assert_null(context);
    assert_non_null(strstr(error, reason));
}

/* What OpenSSL's own client agrees on with us. */
static void assert_agreed(int version, const char *suite) {
    SSL_CTX *client = SSL_CTX_new(TLS_client_method());
    SSL_SESSION *session = NULL;
    SSL_CTX_use_certificate_file(client, sides[CONNECTING].files.cert, SSL_FILETYPE_PEM);
    SSL_CTX_use_PrivateKey_file(client, sides[CONNECTING].files.key, SSL_FILETYPE_PEM);
    assert_int_equal(meet_client_with(client, NULL, &session), TLS_OPEN);
    assert_int_equal(SSL_SESSION_get_protocol_version(session), version);
    assert_string_equal(SSL_CIPHER_standard_name(SSL_SESSION_get0_cipher(session)), suite);
    SSL_SESSION_free(session);
    SSL_CTX_free(client);
}

static void versions_are_limited(void **state) {
    use_suites(ACCEPTING, NULL, NULL, "TLS1.2");
    assert_agreed(TLS1_2_VERSION, "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384");
    use_suites(ACCEPTING, NULL, "TLS1.3", "");
    assert_agreed(TLS1_3_VERSION, "TLS_AES_256_GCM_SHA384");
    use_suites(CONNECTING, NULL, NULL, "TLS1.2");
    assert_refused("127.0.0.1", "the peer and this node allow no TLS version in common",
                   "the peer and this node allow no TLS version in common");
}

static void suites_are_limited(void **state) {
    /* Those of TLS 1.2 alone do not concern TLS 1.3, as in Go. */
    use_suites(ACCEPTING, "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", NULL, NULL);
    assert_agreed(TLS1_3_VERSION, "TLS_AES_256_GCM_SHA384");
    use_suites(ACCEPTING, "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", NULL, "TLS1.2");
    assert_agreed(TLS1_2_VERSION, "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256");
    use_suites(ACCEPTING, "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305,TLS_CHACHA20_POLY1305_SHA256",
               NULL, NULL);
    assert_agreed(TLS1_3_VERSION, "TLS_CHACHA20_POLY1305_SHA256");
    use_suites(ACCEPTING, "TLS_AES_128_GCM_SHA256", NULL, NULL);
    assert_agreed(TLS1_3_VERSION, "TLS_AES_128_GCM_SHA256");
    use_suites(CONNECTING, "TLS_AES_256_GCM_SHA384", NULL, NULL);
    begin("127.0.0.1");
    carry_all(SIZE_MAX);
    assert_int_equal(tls_stream_failure(sides[ACCEPTING].stream), TLS_FAILURE_NO_COMMON_SUITE);
}

/* A list made for etcd starts this server; what is not safe in it is left out. */
static void unsafe_suites_are_left_out(void **state) {
    use_suites(ACCEPTING,
               "TLS_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,"
               "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
               NULL, "TLS1.2");
    assert_agreed(TLS1_2_VERSION, "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256");
    assert_invalid("TLS_RSA_WITH_AES_128_GCM_SHA256", NULL, NULL, "none that can be used");
}

static void names_that_cannot_be_used_are_refused(void **state) {
    char many[4096] = "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384";
    assert_invalid("ECDHE-RSA-AES128-GCM-SHA256", NULL, NULL,
                   "\"ECDHE-RSA-AES128-GCM-SHA256\"; use TLS_AES_128_GCM_SHA256, ");
    assert_invalid(NULL, "TLS1.1", NULL, "\"TLS1.1\" is no TLS version; use TLS1.2 or TLS1.3");
    assert_invalid(NULL, NULL, "1.3", "\"1.3\"");
    assert_invalid(NULL, "TLS1.3", "TLS1.2", "newer than");
    assert_invalid("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS1.3", NULL, "all of TLS 1.2");
    assert_invalid("TLS_AES_128_GCM_SHA256", NULL, "TLS1.2", "all of TLS 1.3");
    assert_invalid(" , ", NULL, NULL, "none that can be used");
    while (strlen(many) + 50 < sizeof many) {
        strcat(many, ",TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384");
    }
    assert_invalid(many, NULL, NULL, "too long");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TLS_TEST(versions_are_limited),
        TLS_TEST(suites_are_limited),
        TLS_TEST(unsafe_suites_are_left_out),
        TLS_TEST(names_that_cannot_be_used_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
