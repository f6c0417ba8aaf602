#include "tls_pair_fixture.h"

/* --- Who is trusted. --- */

static void a_certificate_of_another_authority_is_refused(void **state) {
    make_side(CONNECTING, &theirs, &ours, &usual_terms);
    assert_refused("127.0.0.1", "the peer refuses our certificate",
                   "the peer's certificate is signed by an unknown authority");
    make_side(CONNECTING, &ours, &theirs, &usual_terms);
    assert_refused("127.0.0.1", "the peer's certificate is signed by an unknown authority",
                   "the peer refuses our certificate");
}

static void a_certificate_out_of_its_time_is_refused(void **state) {
    static const struct tls_terms expired = {.has_expired = true};
    static const struct tls_terms early = {.is_not_valid_yet = true};
    make_side(CONNECTING, &ours, &ours, &expired);
    assert_refused("127.0.0.1", "the peer says that our certificate has expired",
                   "the peer's certificate has expired");
    make_side(CONNECTING, &ours, &ours, &usual_terms);
    make_side(ACCEPTING, &ours, &ours, &expired);
    assert_refused("127.0.0.1", "the peer's certificate has expired",
                   "the peer says that our certificate has expired");
    make_side(ACCEPTING, &ours, &ours, &early);
    assert_refused("127.0.0.1", "the peer's certificate is not valid yet",
                   "the peer refuses our certificate");
}

static void a_certificate_for_another_host_is_refused(void **state) {
    static const char mismatch[] = "the peer's certificate is not for the host that was dialled";
    static const struct tls_terms named = {.alternative_names = "DNS:n1.example,IP:::1"};
    /* The common name is no address, whatever it says. */
    static const struct tls_terms by_common_name = {.common_name = "n1.example",
                                                    .alternative_names = "email:a@n1.example"};
    assert_refused("127.0.0.2", mismatch, "the peer refuses our certificate");
    assert_refused("n1.example", mismatch, "the peer refuses our certificate");
    make_side(ACCEPTING, &ours, &ours, &by_common_name);
    assert_refused("n1.example", mismatch, "the peer refuses our certificate");
    make_side(ACCEPTING, &ours, &ours, &named);
    assert_refused("n2.example", mismatch, "the peer refuses our certificate");
    assert_refused("127.0.0.1", mismatch, "the peer refuses our certificate");
    connect_both("n1.example");
    connect_both("::1");
}

/* --- Files. --- */

static void files_that_changed_are_read_again(void **state) {
    connect_both("127.0.0.1");
    tls_files_make(&sides[CONNECTING].files, "connecting", &theirs, &theirs, &usual_terms);
    assert_true(look_again(CONNECTING));
    assert_refused("127.0.0.1", "the peer's certificate is signed by an unknown authority",
                   "the peer refuses our certificate");
    tls_files_make(&sides[ACCEPTING].files, "accepting", &theirs, &theirs, &usual_terms);
    assert_true(look_again(ACCEPTING));
    assert_false(look_again(ACCEPTING));
    connect_both("127.0.0.1");
}

/* Ten thousand handshakes a second are not as many calls of stat(). */
static void files_are_looked_at_once_a_second(void **state) {
    uint64_t now_ms = clock_boottime_ms() + TLS_RELOAD_INTERVAL_MS;
    assert_false(tls_context_poll(sides[ACCEPTING].context, now_ms));
    tls_files_make(&sides[ACCEPTING].files, "accepting", &theirs, &theirs, &usual_terms);
    assert_false(tls_context_poll(sides[ACCEPTING].context, now_ms + TLS_RELOAD_INTERVAL_MS - 1));
    assert_true(tls_context_poll(sides[ACCEPTING].context, now_ms + TLS_RELOAD_INTERVAL_MS));
}

/* A connection that is open goes on with what it began with. */
static void an_open_stream_survives_a_reload(void **state) {
    connect_both("127.0.0.1");
    tls_files_make(&sides[ACCEPTING].files, "accepting", &theirs, &theirs, &usual_terms);
    assert_true(look_again(ACCEPTING));
    tls_stream_write(sides[CONNECTING].stream, bytes_from_text("still here"));
    carry_all(SIZE_MAX);
    assert_int_equal(sides[ACCEPTING].received.size, strlen("still here"));
}

static void overwrite(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void files_that_cannot_be_used_leave_the_old_ones_in_use(void **state) {
    char error[512] = "";
    struct tls_context *context = NULL;
    const struct tls_files *files = &sides[CONNECTING].files;
    overwrite(files->cert, "-----BEGIN CERTIFICATE-----\nnonsense\n");
    assert_int_equal(tls_context_create(&files->options, &context, error, sizeof error),
                     STATUS_INVALID);
    assert_null(context);
    assert_non_null(strstr(error, files->cert));
    assert_false(look_again(CONNECTING));
    connect_both("127.0.0.1");
    unlink(files->cert);
    assert_false(look_again(CONNECTING));
    assert_int_equal(tls_context_create(&files->options, &context, error, sizeof error),
                     STATUS_INVALID);
    assert_non_null(strstr(error, "No such file"));
    connect_both("127.0.0.1");
}

static void options_that_cannot_be_used_are_told(void **state) {
    char error[512] = "";
    struct tls_context *context = NULL;
    const struct tls_options usual = sides[CONNECTING].files.options;
    struct tls_options options = usual;
    options.key_file = sides[ACCEPTING].files.key;
    assert_int_equal(tls_context_create(&options, &context, error, sizeof error), STATUS_INVALID);
    assert_non_null(strstr(error, options.key_file));
    options = usual;
    options.ca_file = usual.key_file;
    assert_int_equal(tls_context_create(&options, &context, error, sizeof error), STATUS_INVALID);
    assert_non_null(strstr(error, "authority"));
    options.ca_file = NULL;
    assert_int_equal(tls_context_create(&options, &context, error, sizeof error), STATUS_INVALID);
    options.verify = TLS_VERIFY_OPTIONAL;
    assert_int_equal(tls_context_create(&options, &context, error, sizeof error), STATUS_INVALID);
    options = usual;
    options.key_file = "";
    assert_int_equal(tls_context_create(&options, &context, error, sizeof error), STATUS_INVALID);
    options = usual;
    options.crl_file = usual.cert_file;
    assert_int_equal(tls_context_create(&options, &context, error, sizeof error), STATUS_INVALID);
    assert_non_null(strstr(error, "revoked"));
    options.verify = TLS_VERIFY_NONE;
    assert_int_equal(tls_context_create(&options, &context, error, sizeof error), STATUS_INVALID);
    options = usual;
    options.alpn = "h2,,x";
    assert_int_equal(tls_context_create(&options, &context, error, sizeof error), STATUS_INVALID);
    options.alpn = "a-name-that-is-longer-than-the-list-of-all-names-may-be-altogether";
    assert_int_equal(tls_context_create(&options, &context, error, sizeof error), STATUS_INVALID);
    assert_null(context);
}

/* ---- a side that only connects ---- */

static void a_client_needs_no_certificate(void **state) {
    const struct tls_options bare = {.is_client = true};
    struct tls_options client = {.is_client = true, .ca_file = sides[CONNECTING].files.ca};
    struct tls_options server = sides[ACCEPTING].files.options;
    server.verify = TLS_VERIFY_OPTIONAL;
    use_options(&sides[ACCEPTING], &server);
    use_options(&sides[CONNECTING], &client);
    connect_both("127.0.0.1");
    /* Without a file the system's authorities are trusted, and ours is none of them. */
    use_options(&sides[CONNECTING], &bare);
    assert_refused("127.0.0.1", "the peer's certificate is signed by an unknown authority",
                   "the peer does not know the authority that signed our certificate");
    client.cert_file = sides[CONNECTING].files.cert;
    char error[512] = "";
    struct tls_context *context = NULL;
    assert_int_equal(tls_context_create(&client, &context, error, sizeof error), STATUS_INVALID);
}

static void a_client_may_go_without_verification(void **state) {
    const struct tls_options client = {.is_client = true, .verify = TLS_VERIFY_NONE};
    struct tls_options server = sides[ACCEPTING].files.options;
    server.verify = TLS_VERIFY_SERVER;
    use_options(&sides[ACCEPTING], &server);
    use_options(&sides[CONNECTING], &client);
    connect_both("other.example");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        TLS_TEST(a_certificate_of_another_authority_is_refused),
        TLS_TEST(a_certificate_out_of_its_time_is_refused),
        TLS_TEST(a_certificate_for_another_host_is_refused),
        TLS_TEST(files_that_changed_are_read_again),
        TLS_TEST(files_that_cannot_be_used_leave_the_old_ones_in_use),
        TLS_TEST(files_are_looked_at_once_a_second),
        TLS_TEST(an_open_stream_survives_a_reload),
        TLS_TEST(options_that_cannot_be_used_are_told),
        TLS_TEST(a_client_needs_no_certificate),
        TLS_TEST(a_client_may_go_without_verification),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
