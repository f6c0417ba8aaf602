/*
 * The client over TLS and over Unix sockets, against a server that agrees on TLS, sends its
 * SETTINGS and notes what comes; and what a person reads when it does not work. The loop is run
 * until what is awaited has happened; the test runner's time limit ends a wait in vain.
 */
#include "base/log.h"
#include "certificates_fixture.h"
#include "client/grpc_client.h"
#include "tls/tls_stream.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include <cmocka.h>

static const uint8_t settings[] = {0, 0, 0, 4, 0, 0, 0, 0, 0}; /* RFC 9113, section 6.5 */
static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
static const struct tls_terms usual_terms = {0};

struct fixture {
    uv_loop_t loop;
    struct tls_authority ours;
    struct tls_authority theirs;
    struct tls_files server_files;
    struct tls_files client_files;
    struct tls_context *server_tls; /* NULL: the server speaks no TLS */
    struct tls_context *client_tls;
    struct bytes plain_answer; /* of a server without TLS to the first bytes; none: it hangs up */
    union {
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } listener, accepted;
    bool is_pipe;
    bool has_accepted;
    struct tls_stream *stream;
    struct buffer received;
    uint8_t room[65536];
    uint16_t port;
    char socket_path[TLS_PATH_SIZE];
    struct grpc_client *client;
    bool is_ready;
    bool is_closed;
    char reason[512];
};

/* ---- the server ---- */

static void write_out(struct fixture *fixture, const void *data, size_t size) {
    uv_buf_t bytes = uv_buf_init((char *)data, (unsigned)size);
    assert_int_equal(uv_try_write(&fixture->accepted.stream, &bytes, 1), size);
}

static void close_accepted(struct fixture *fixture) {
    if (fixture->has_accepted) {
        fixture->has_accepted = false;
        uv_close((uv_handle_t *)&fixture->accepted, NULL);
    }
}

static void serve_tls(struct fixture *fixture, struct bytes bytes) {
    bool was_open = tls_stream_state(fixture->stream) == TLS_OPEN;
    enum tls_state state = tls_stream_feed(fixture->stream, bytes, &fixture->received);
    if (!was_open && state == TLS_OPEN) {
        tls_stream_write(fixture->stream, bytes_of(settings, sizeof settings));
    }
    struct buffer *output = tls_stream_output(fixture->stream);
    if (output->size > 0) {
        write_out(fixture, output->data, output->size);
        output->size = 0;
    }
    if (state == TLS_FAILED || state == TLS_ENDED) {
        close_accepted(fixture);
    }
}

static void serve_plain(struct fixture *fixture, struct bytes bytes) {
    buffer_append(&fixture->received, bytes.data, bytes.size);
    if (fixture->plain_answer.size > 0) {
        write_out(fixture, fixture->plain_answer.data, fixture->plain_answer.size);
    } else if (fixture->is_pipe) {
        write_out(fixture, settings, sizeof settings);
    } else {
        close_accepted(fixture);
    }
}

static void on_allocate(uv_handle_t *handle, size_t suggested, uv_buf_t *out_buffer) {
    struct fixture *fixture = handle->data;
    *out_buffer = uv_buf_init((char *)fixture->room, sizeof fixture->room);
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer) {
    struct fixture *fixture = stream->data;
    if (size < 0) {
        close_accepted(fixture);
    } else if (fixture->stream != NULL) {
        serve_tls(fixture, bytes_of(fixture->room, (size_t)size));
    } else {
        serve_plain(fixture, bytes_of(fixture->room, (size_t)size));
    }
}

static void on_connection(uv_stream_t *listener, int status) {
    struct fixture *fixture = listener->data;
    assert_int_equal(status, 0);
    if (fixture->is_pipe) {
        uv_pipe_init(&fixture->loop, &fixture->accepted.pipe, 0);
    } else {
        uv_tcp_init(&fixture->loop, &fixture->accepted.tcp);
    }
    fixture->accepted.stream.data = fixture;
    assert_int_equal(uv_accept(listener, &fixture->accepted.stream), 0);
    fixture->has_accepted = true;
    if (fixture->server_tls != NULL) {
        fixture->stream = tls_stream_accept(fixture->server_tls);
    }
    uv_read_start(&fixture->accepted.stream, on_allocate, on_read);
}

static void listen_on_port(struct fixture *fixture) {
    struct sockaddr_in address;
    int size = sizeof address;
    uv_ip4_addr("127.0.0.1", 0, &address);
    uv_tcp_init(&fixture->loop, &fixture->listener.tcp);
    assert_int_equal(uv_tcp_bind(&fixture->listener.tcp, (struct sockaddr *)&address, 0), 0);
    uv_tcp_getsockname(&fixture->listener.tcp, (struct sockaddr *)&address, &size);
    fixture->port = ntohs(address.sin_port);
    fixture->listener.stream.data = fixture;
    assert_int_equal(uv_listen(&fixture->listener.stream, 8, on_connection), 0);
}

static void listen_on_path(struct fixture *fixture) {
    fixture->is_pipe = true;
    snprintf(fixture->socket_path, sizeof fixture->socket_path, "%.80s/socket", tls_folder);
    uv_pipe_init(&fixture->loop, &fixture->listener.pipe, 0);
    assert_int_equal(uv_pipe_bind(&fixture->listener.pipe, fixture->socket_path), 0);
    fixture->listener.stream.data = fixture;
    assert_int_equal(uv_listen(&fixture->listener.stream, 8, on_connection), 0);
}

/* ---- the client ---- */

static void on_ready(void *context) {
    struct fixture *fixture = context;
    fixture->is_ready = true;
}

static void on_closed(void *context, const char *reason) {
    struct fixture *fixture = context;
    fixture->is_closed = true;
    uv_stop(&fixture->loop);
    snprintf(fixture->reason, sizeof fixture->reason, "%s", reason);
}

static enum status connect_to(struct fixture *fixture, const char *host, const char *socket_path) {
    const struct grpc_client_options options = {
        .host = host,
        .port = fixture->port,
        .socket_path = socket_path,
        .tls = fixture->client_tls,
        .connect_timeout_ms = 20000,
        .context = fixture,
        .on_ready = on_ready,
        .on_closed = on_closed,
    };
    return grpc_client_create(&fixture->loop, &options, &fixture->client);
}

static void wait_end(struct fixture *fixture) {
    while (!fixture->is_ready && !fixture->is_closed) {
        uv_run(&fixture->loop, UV_RUN_ONCE);
    }
}

static void expect_reason(struct fixture *fixture, const char *host, const char *format) {
    char place[64];
    char expected[512];
    listen_on_port(fixture);
    assert_int_equal(connect_to(fixture, host, NULL), STATUS_OK);
    wait_end(fixture);
    snprintf(place, sizeof place, "%s:%u", host, fixture->port);
    const char *at = strstr(format, "HOST");
    snprintf(expected, sizeof expected, "%.*s%s%s", (int)(at - format), format, place, at + 4);
    assert_false(fixture->is_ready);
    assert_string_equal(fixture->reason, expected);
}

static void use_client(struct fixture *fixture, const struct tls_options *options) {
    char error[512] = "";
    tls_context_destroy(fixture->client_tls);
    assert_int_equal(tls_context_create(options, &fixture->client_tls, error, sizeof error),
                     STATUS_OK);
}

static void use_server(struct fixture *fixture, const struct tls_terms *terms,
                       enum tls_verify verify) {
    char error[512] = "";
    tls_files_make(&fixture->server_files, "server", &fixture->ours, &fixture->ours, terms);
    fixture->server_files.options.verify = verify;
    fixture->server_files.options.alpn = "h2";
    tls_context_destroy(fixture->server_tls);
    assert_int_equal(tls_context_create(&fixture->server_files.options, &fixture->server_tls, error,
                                        sizeof error),
                     STATUS_OK);
}

static int set_up(void **state) {
    static struct fixture fixture;
    memset(&fixture, 0, sizeof fixture);
    log_configure(LOG_ERROR, LOG_FORMAT_TEXT);
    tls_folder_make();
    uv_loop_init(&fixture.loop);
    fixture.ours = tls_authority_make();
    fixture.theirs = tls_authority_make();
    tls_files_make(&fixture.client_files, "client", &fixture.ours, &fixture.ours, &usual_terms);
    use_server(&fixture, &usual_terms, TLS_VERIFY_SERVER);
    use_client(&fixture, &(struct tls_options){
                             .is_client = true, .ca_file = fixture.client_files.ca, .alpn = "h2"});
    *state = &fixture;
    return 0;
}

static int tear_down(void **state) {
    struct fixture *fixture = *state;
    grpc_client_destroy(fixture->client);
    uv_close((uv_handle_t *)&fixture->listener, NULL);
    close_accepted(fixture);
    uv_run(&fixture->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&fixture->loop), 0);
    tls_stream_destroy(fixture->stream);
    tls_context_destroy(fixture->server_tls);
    tls_context_destroy(fixture->client_tls);
    buffer_clear(&fixture->received);
    tls_authority_clear(&fixture->ours);
    tls_authority_clear(&fixture->theirs);
    const struct tls_files files[] = {fixture->server_files, fixture->client_files};
    unlink(fixture->socket_path);
    tls_folder_remove(files, 2);
    return 0;
}

/* ---- it works ---- */

static void expect_preface(struct fixture *fixture) {
    while (fixture->received.size < sizeof preface - 1) {
        uv_run(&fixture->loop, UV_RUN_ONCE);
    }
    assert_memory_equal(fixture->received.data, preface, sizeof preface - 1);
}

static void http2_is_spoken_over_tls(void **state) {
    struct fixture *fixture = *state;
    listen_on_port(fixture);
    assert_int_equal(connect_to(fixture, "127.0.0.1", NULL), STATUS_OK);
    wait_end(fixture);
    assert_string_equal(fixture->reason, "");
    assert_true(fixture->is_ready);
    assert_string_equal(tls_stream_alpn(fixture->stream), "h2");
    expect_preface(fixture);
    /* A client that goes says so. */
    grpc_client_destroy(fixture->client);
    fixture->client = NULL;
    while (fixture->has_accepted) {
        uv_run(&fixture->loop, UV_RUN_ONCE);
    }
    assert_int_equal(tls_stream_state(fixture->stream), TLS_ENDED);
}

static void a_client_shows_its_certificate(void **state) {
    struct fixture *fixture = *state;
    struct tls_options options = fixture->client_files.options;
    struct tls_identity identity;
    options.is_client = true;
    use_client(fixture, &options);
    use_server(fixture, &usual_terms, TLS_VERIFY_REQUIRED);
    listen_on_port(fixture);
    assert_int_equal(connect_to(fixture, "127.0.0.1", NULL), STATUS_OK);
    wait_end(fixture);
    assert_true(fixture->is_ready);
    assert_true(tls_stream_peer_identity(fixture->stream, &identity));
    assert_string_equal(tls_identity_name(&identity, TLS_NAME_COMMON, 0), "member");
}

static void a_unix_socket_is_served_plain(void **state) {
    struct fixture *fixture = *state;
    tls_context_destroy(fixture->client_tls);
    tls_context_destroy(fixture->server_tls);
    fixture->client_tls = fixture->server_tls = NULL;
    listen_on_path(fixture);
    assert_int_equal(connect_to(fixture, NULL, fixture->socket_path), STATUS_OK);
    wait_end(fixture);
    assert_true(fixture->is_ready);
    expect_preface(fixture);
}

static void a_unix_socket_is_served_with_tls(void **state) {
    static const struct tls_terms local = {.alternative_names = "DNS:localhost"};
    struct fixture *fixture = *state;
    use_server(fixture, &local, TLS_VERIFY_SERVER);
    listen_on_path(fixture);
    assert_int_equal(connect_to(fixture, NULL, fixture->socket_path), STATUS_OK);
    wait_end(fixture);
    assert_string_equal(fixture->reason, "");
    assert_true(fixture->is_ready);
}

/* ---- it does not ---- */

static void an_unknown_authority_is_named(void **state) {
    struct fixture *fixture = *state;
    char format[256];
    tls_write_certificate(fixture->client_files.ca, fixture->theirs.certificate);
    use_client(fixture,
               &(struct tls_options){.is_client = true, .ca_file = fixture->client_files.ca});
    snprintf(format, sizeof format,
             "the certificate of HOST is not signed by the authority in %.100s",
             fixture->client_files.ca);
    expect_reason(fixture, "127.0.0.1", format);
}

static void an_authority_that_the_system_does_not_know_is_told(void **state) {
    struct fixture *fixture = *state;
    use_client(fixture, &(struct tls_options){.is_client = true});
    expect_reason(fixture, "127.0.0.1",
                  "the certificate of HOST is not signed by an authority that this system trusts; "
                  "name the file with its authority (--cacert)");
}

static void a_certificate_for_another_host_is_told(void **state) {
    expect_reason(*state, "localhost",
                  "the certificate of HOST is for another host, not for localhost");
}

static void an_expired_certificate_is_told(void **state) {
    static const struct tls_terms expired = {.has_expired = true};
    use_server(*state, &expired, TLS_VERIFY_SERVER);
    expect_reason(*state, "127.0.0.1", "the certificate of HOST has expired");
}

static void a_missing_client_certificate_is_told(void **state) {
    use_server(*state, &usual_terms, TLS_VERIFY_REQUIRED);
    expect_reason(*state, "127.0.0.1", "HOST wants a client certificate (--cert and --key)");
}

static void use_plain_server(struct fixture *fixture, struct bytes answer) {
    tls_context_destroy(fixture->server_tls);
    fixture->server_tls = NULL;
    fixture->plain_answer = answer;
}

static void a_server_without_tls_is_told(void **state) {
    use_plain_server(*state, bytes_from_text("HTTP/1.1 400 Bad Request\r\n\r\n"));
    expect_reason(*state, "127.0.0.1", "HOST does not speak TLS: use http://");
}

static void a_server_that_hangs_up_is_told(void **state) {
    use_plain_server(*state, bytes_of(NULL, 0));
    expect_reason(*state, "127.0.0.1",
                  "HOST closed the connection before TLS was agreed on; if it does not speak TLS, "
                  "use http://");
}

static void a_server_with_tls_is_told_to_a_plain_client(void **state) {
    struct fixture *fixture = *state;
    tls_context_destroy(fixture->client_tls);
    fixture->client_tls = NULL;
    expect_reason(fixture, "127.0.0.1", "HOST does not speak HTTP/2: it speaks TLS; use https://");
}

/* RFC 9113, section 6.8: an empty SETTINGS frame, then GOAWAY with a reason. */
static void the_reason_in_a_goaway_is_told(void **state) {
    static const char words[] = "this port speaks TLS: use https://\n";
    struct fixture *fixture = *state;
    struct buffer answer;
    buffer_init(&answer);
    buffer_append(&answer, settings, sizeof settings);
    const uint8_t goaway[] = {0, 0, 8 + sizeof words - 1, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    buffer_append(&answer, goaway, sizeof goaway);
    buffer_append(&answer, words, sizeof words - 1);
    tls_context_destroy(fixture->client_tls);
    fixture->client_tls = NULL;
    use_plain_server(fixture, bytes_of(answer.data, answer.size));
    expect_reason(fixture, "127.0.0.1",
                  "HOST closed the connection: this port speaks TLS: use https://");
    buffer_clear(&answer);
}

static void a_path_that_cannot_be_is_refused(void **state) {
    struct fixture *fixture = *state;
    char path[200];
    listen_on_port(fixture);
    memset(path, 'p', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    assert_int_equal(connect_to(fixture, NULL, path), STATUS_INVALID);
    assert_int_equal(connect_to(fixture, NULL, ""), STATUS_INVALID);
    assert_int_equal(connect_to(fixture, "", NULL), STATUS_INVALID);
}

static void a_socket_that_is_not_there_is_told(void **state) {
    struct fixture *fixture = *state;
    listen_on_port(fixture);
    assert_int_equal(connect_to(fixture, NULL, "no/such/socket"), STATUS_OK);
    wait_end(fixture);
    assert_string_equal(fixture->reason,
                        "no/such/socket cannot be reached: no such file or directory");
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(http2_is_spoken_over_tls),
        CASE(a_client_shows_its_certificate),
        CASE(a_unix_socket_is_served_plain),
        CASE(a_unix_socket_is_served_with_tls),
        CASE(an_unknown_authority_is_named),
        CASE(an_authority_that_the_system_does_not_know_is_told),
        CASE(a_certificate_for_another_host_is_told),
        CASE(an_expired_certificate_is_told),
        CASE(a_missing_client_certificate_is_told),
        CASE(a_server_without_tls_is_told),
        CASE(a_server_that_hangs_up_is_told),
        CASE(a_server_with_tls_is_told_to_a_plain_client),
        CASE(the_reason_in_a_goaway_is_told),
        CASE(a_path_that_cannot_be_is_refused),
        CASE(a_socket_that_is_not_there_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
