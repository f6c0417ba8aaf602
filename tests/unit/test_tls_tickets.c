/* Resumed sessions: which are, and which begin anew. */
#include "tls/tls_internal.h"
#include "tls_pair_fixture.h"

enum { HOUR_MS = 60 * 60 * 1000 };

static const struct tls_terms alice = {.common_name = "alice"};

static SSL_CTX *client_of(const struct tls_files *files, int version) {
    SSL_CTX *client = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_max_proto_version(client, version);
    SSL_CTX_use_certificate_file(client, files->cert, SSL_FILETYPE_PEM);
    SSL_CTX_use_PrivateKey_file(client, files->key, SSL_FILETYPE_PEM);
    return client;
}

static void use_tickets(void) {
    struct tls_options options = sides[ACCEPTING].files.options;
    options.session_tickets = true;
    make_side(CONNECTING, &ours, &ours, &alice);
    use_options(&sides[ACCEPTING], &options);
}

static SSL_SESSION *first_session(SSL_CTX *client) {
    SSL_SESSION *session = NULL;
    assert_int_equal(meet_client_with(client, NULL, &session), TLS_OPEN);
    assert_false(tls_stream_is_resumed(sides[ACCEPTING].stream));
    return session;
}

static bool is_resumed(SSL_CTX *client, SSL_SESSION *session) {
    assert_int_equal(meet_client_with(client, session, NULL), TLS_OPEN);
    return tls_stream_is_resumed(sides[ACCEPTING].stream);
}

static void a_session_is_resumed_with_its_identity(void **state) {
    static const int versions[] = {TLS1_2_VERSION, TLS1_3_VERSION};
    use_tickets();
    for (size_t i = 0; i < 2; i++) {
        struct tls_identity identity;
        SSL_CTX *client = client_of(&sides[CONNECTING].files, versions[i]);
        SSL_SESSION *session = first_session(client);
        assert_true(SSL_SESSION_is_resumable(session));
        assert_true(is_resumed(client, session));
        assert_true(tls_stream_peer_identity(sides[ACCEPTING].stream, &identity));
        assert_string_equal(tls_identity_name(&identity, TLS_NAME_COMMON, 0), "alice");
        SSL_SESSION_free(session);
        SSL_CTX_free(client);
    }
}

static void without_the_option_no_session_is_resumed(void **state) {
    SSL_CTX *client = client_of(&sides[CONNECTING].files, TLS1_3_VERSION);
    SSL_SESSION *session = first_session(client);
    assert_false(SSL_SESSION_is_resumable(session));
    assert_false(is_resumed(client, session));
    SSL_SESSION_free(session);
    SSL_CTX_free(client);
}

static void a_ticket_outlives_one_rotation_of_keys(void **state) {
    use_tickets();
    SSL_CTX *client = client_of(&sides[CONNECTING].files, TLS1_2_VERSION);
    SSL_SESSION *session = first_session(client);
    SSL_CTX *tls = tls_context_view(sides[ACCEPTING].context);
    uint64_t now_ms = clock_boottime_ms();
    tls_tickets_rotate(tls, now_ms + HOUR_MS);
    assert_true(is_resumed(client, session));
    tls_tickets_rotate(tls, now_ms + 2 * HOUR_MS - 1); /* not due yet */
    assert_true(is_resumed(client, session));
    tls_tickets_rotate(tls, now_ms + 2 * HOUR_MS);
    assert_false(is_resumed(client, session));
    SSL_SESSION_free(session);
    SSL_CTX_free(client);
}

static void after_a_long_silence_no_old_ticket_counts(void **state) {
    use_tickets();
    SSL_CTX *client = client_of(&sides[CONNECTING].files, TLS1_2_VERSION);
    SSL_SESSION *session = first_session(client);
    tls_tickets_rotate(tls_context_view(sides[ACCEPTING].context),
                       clock_boottime_ms() + 3 * HOUR_MS);
    assert_false(is_resumed(client, session));
    SSL_SESSION_free(session);
    SSL_CTX_free(client);
}

/* A list of revoked certificates, or another authority, concerns also those who were here. */
static void a_reload_ends_all_sessions(void **state) {
    use_tickets();
    SSL_CTX *client = client_of(&sides[CONNECTING].files, TLS1_3_VERSION);
    SSL_SESSION *session = first_session(client);
    tls_write_certificate(sides[ACCEPTING].files.ca, theirs.certificate);
    assert_true(look_again(ACCEPTING));
    assert_int_equal(meet_client_with(client, session, NULL), TLS_FAILED);
    assert_int_equal(tls_stream_failure(sides[ACCEPTING].stream), TLS_FAILURE_UNKNOWN_AUTHORITY);
    SSL_SESSION_free(session);
    SSL_CTX_free(client);
}

/* Nobody verifies a session again that is resumed. */
static void an_expired_certificate_resumes_no_session(void **state) {
    SSL_CTX *client = NULL;
    SSL_SESSION *session = NULL;
    enum tls_state first = TLS_FAILED;
    use_tickets();
    /* A second is enough, unless the machine is busy. */
    for (int seconds = 1; first != TLS_OPEN; seconds *= 2) {
        assert_true(seconds < 60);
        SSL_SESSION_free(session);
        SSL_CTX_free(client);
        make_side(CONNECTING, &ours, &ours, &(struct tls_terms){.expires_in_seconds = seconds});
        client = client_of(&sides[CONNECTING].files, TLS1_3_VERSION);
        first = meet_client_with(client, NULL, &session);
    }
    const X509 *certificate = SSL_CTX_get0_certificate(client);
    while (X509_cmp_current_time(X509_get0_notAfter(certificate)) > 0) {
        usleep(20 * 1000);
    }
    assert_int_equal(meet_client_with(client, session, NULL), TLS_FAILED);
    assert_int_equal(tls_stream_failure(sides[ACCEPTING].stream), TLS_FAILURE_EXPIRED);
    SSL_SESSION_free(session);
    SSL_CTX_free(client);
}

static void a_foreign_ticket_is_ignored(void **state) {
    use_tickets();
    SSL_CTX *client = client_of(&sides[CONNECTING].files, TLS1_3_VERSION);
    SSL_SESSION *session = first_session(client);
    use_tickets(); /* another process, as it were */
    assert_false(is_resumed(client, session));
    SSL_SESSION_free(session);
    SSL_CTX_free(client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TLS_TEST(a_session_is_resumed_with_its_identity),
        TLS_TEST(without_the_option_no_session_is_resumed),
        TLS_TEST(a_ticket_outlives_one_rotation_of_keys),
        TLS_TEST(after_a_long_silence_no_old_ticket_counts),
        TLS_TEST(a_reload_ends_all_sessions),
        TLS_TEST(an_expired_certificate_resumes_no_session),
        TLS_TEST(a_foreign_ticket_is_ignored),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
