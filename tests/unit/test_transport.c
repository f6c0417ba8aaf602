/* Connections over TLS and over Unix sockets, and clients that speak the wrong one of the two. */
#include "certificates_fixture.h"
#include "net/protocol.h"
#include "net_doors.h"

#include <sys/stat.h>
#include <sys/un.h>

enum { MANY_CLIENTS = 200, LARGE_MESSAGE_SIZE = 1000000 };

static const char request[] = "GET /nothing HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";

static struct tls_authority authority;
static struct tls_files server_files;
static struct tls_files client_files;
static struct tls_context *server_context;
static struct tls_context *client_context;

static int set_up(void **state) {
    const struct tls_terms terms = {0};
    char error[512] = "";
    log_configure(LOG_ERROR, LOG_FORMAT_TEXT);
    tls_folder_make();
    authority = tls_authority_make();
    tls_files_make(&server_files, "server", &authority, &authority, &terms);
    tls_files_make(&client_files, "client", &authority, &authority, &terms);
    server_files.options.alpn = "h2,http/1.1";
    client_files.options.alpn = "h2";
    assert_int_equal(
        tls_context_create(&server_files.options, &server_context, error, sizeof error), STATUS_OK);
    assert_int_equal(
        tls_context_create(&client_files.options, &client_context, error, sizeof error), STATUS_OK);
    return 0;
}

static int tear_down(void **state) {
    tls_context_destroy(server_context);
    tls_context_destroy(client_context);
    tls_authority_clear(&authority);
    const struct tls_files files[] = {server_files, client_files};
    tls_folder_remove(files, 2);
    return 0;
}

static void listen_on(struct fixture *fixture, const struct net_listen_options *options) {
    char error[512] = "";
    assert_int_equal(
        net_server_listen(fixture->server, options, &fixture->port, error, sizeof error),
        STATUS_OK);
}

/* Of what the fixture listens on already, nothing is used: its port becomes that of TLS. */
static struct fixture *tls_start(const struct net_limits *limits) {
    struct fixture *fixture = doors_start(limits);
    listen_on(fixture, &(struct net_listen_options){.host = "127.0.0.1", .tls = server_context});
    return fixture;
}

static void client_open_tls(struct client *client, struct fixture *fixture) {
    client_open(client, fixture);
    client->tls = tls_stream_connect(client_context, "127.0.0.1");
    assert_non_null(client->tls);
}

/* --- a client of TLS by hand --------------------------------------------------------------- */

struct tls_client {
    int fd;
    struct tls_stream *tls;
    struct buffer received;
    bool is_closed; /* the socket */
};

static void tls_client_open(struct tls_client *client, const struct fixture *fixture) {
    *client = (struct tls_client){.fd = raw_connect(fixture),
                                  .tls = tls_stream_connect(client_context, "127.0.0.1")};
    assert_non_null(client->tls);
    buffer_init(&client->received);
}

static void tls_client_send(struct tls_client *client) {
    struct buffer *output = tls_stream_output(client->tls);
    if (output->size > 0) {
        raw_send(client->fd, output->data, output->size);
        output->size = 0;
    }
}

static void tls_client_read(struct tls_client *client) {
    struct buffer wire;
    buffer_init(&wire);
    client->is_closed = client->is_closed || !raw_read(client->fd, &wire);
    tls_stream_feed(client->tls, bytes_of(wire.data, wire.size), &client->received);
    buffer_clear(&wire);
}

static void tls_client_turn(struct fixture *fixture, struct tls_client *client) {
    tls_client_send(client);
    fixture_turn(fixture);
    tls_client_read(client);
}

#define tls_client_wait(fixture, client, condition)                                                \
    for (uint64_t start_ms_ = clock_boottime_ms(); !(condition);) {                                \
        tls_client_turn(fixture, client);                                                          \
        assert_true(clock_boottime_ms() - start_ms_ < WAIT_MS_MAX);                                \
    }

static void tls_client_close(struct tls_client *client) {
    tls_stream_destroy(client->tls);
    buffer_clear(&client->received);
    close(client->fd);
}

static void assert_starts_with(const struct buffer *buffer, const char *expected) {
    assert_true(buffer->size >= strlen(expected));
    assert_memory_equal(buffer->data, expected, strlen(expected));
}

/* --- TLS ----------------------------------------------------------------------------------- */

static void calls_over_tls_are_answered(void **state) {
    struct fixture *fixture = tls_start(NULL);
    struct client client;
    client_open_tls(&client, fixture);
    const struct answer *answer =
        client_call(&client, "/test.Echo/Unary", bytes_from_text("hello"), NULL, false);
    client_wait(&client, answer->is_closed);
    assert_body_is(answer, bytes_from_text("hello"), 1);
    assert_string_equal(tls_stream_alpn(client.tls), "h2");
    assert_int_equal(fixture_stats(fixture).tls_handshakes, 1);
    assert_int_equal(fixture_stats(fixture).tls_failures, 0);
    client_close(&client);
    doors_stop(fixture);
}

static void large_answers_to_a_slow_reader_arrive_whole(void **state) {
    struct fixture *fixture = tls_start(NULL);
    struct client client;
    client_open_tls(&client, fixture);
    struct buffer message;
    buffer_init(&message);
    memset(buffer_reserve(&message, LARGE_MESSAGE_SIZE), 'x', LARGE_MESSAGE_SIZE);
    message.size = LARGE_MESSAGE_SIZE;
    nghttp2_session_set_local_window_size(client.session, NGHTTP2_FLAG_NONE, 0, INT32_MAX);
    const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, INT32_MAX}};
    nghttp2_submit_settings(client.session, NGHTTP2_FLAG_NONE, settings, 1);
    const struct answer *answer = client_call(&client, "/test.Echo/Stream",
                                              bytes_of(message.data, message.size), NULL, false);
    client_wait(&client, fixture->n_messages == 1);
    /* The socket fills while nobody reads. */
    client.is_deaf = true;
    for (unsigned i = 0; i < 50; i++) {
        client_turn(&client);
    }
    client.is_deaf = false;
    client_wait(&client, answer->is_closed);
    assert_body_is(answer, bytes_of(message.data, message.size), STREAM_MESSAGES);
    buffer_clear(&message);
    client_close(&client);
    doors_stop(fixture);
}

static void connection_ends_with_the_goodbye_of_tls(void **state) {
    struct fixture *fixture = tls_start(NULL);
    struct tls_client client;
    tls_client_open(&client, fixture);
    tls_client_wait(fixture, &client, tls_stream_state(client.tls) == TLS_OPEN);
    tls_stream_write(client.tls, bytes_from_text(request));
    tls_client_wait(fixture, &client, client.is_closed);
    assert_starts_with(&client.received, "HTTP/1.1 404 Not Found\r\n");
    assert_int_equal(tls_stream_state(client.tls), TLS_ENDED);
    tls_client_close(&client);
    doors_stop(fixture);
}

static void client_that_ends_its_side_is_answered(void **state) {
    struct fixture *fixture = tls_start(NULL);
    struct tls_client client;
    tls_client_open(&client, fixture);
    tls_client_wait(fixture, &client, tls_stream_state(client.tls) == TLS_OPEN);
    tls_stream_write(client.tls, bytes_from_text("GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n"));
    tls_stream_end(client.tls);
    tls_client_wait(fixture, &client, client.is_closed);
    assert_starts_with(&client.received, "HTTP/1.1 404 Not Found\r\n");
    tls_client_close(&client);
    doors_stop(fixture);
}

static void client_of_another_authority_is_refused(void **state) {
    struct fixture *fixture = tls_start(NULL);
    struct tls_files strangers;
    struct tls_authority other = tls_authority_make();
    struct tls_context *context = NULL;
    char error[512] = "";
    const struct tls_terms terms = {0};
    tls_files_make(&strangers, "stranger", &other, &authority, &terms);
    assert_int_equal(tls_context_create(&strangers.options, &context, error, sizeof error),
                     STATUS_OK);
    struct tls_client client = {.fd = raw_connect(fixture),
                                .tls = tls_stream_connect(context, "127.0.0.1")};
    tls_client_wait(fixture, &client, client.is_closed);
    assert_int_equal(tls_stream_state(client.tls), TLS_FAILED);
    assert_string_equal(tls_stream_error(client.tls), "the peer refuses our certificate");
    assert_int_equal(fixture_stats(fixture).tls_failures, 1);
    tls_client_close(&client);
    tls_context_destroy(context);
    tls_authority_clear(&other);
    unlink(strangers.cert);
    unlink(strangers.key);
    unlink(strangers.ca);
    doors_stop(fixture);
}

static void handshake_has_a_time_limit(void **state) {
    struct net_limits limits = net_limits_default;
    limits.handshake_timeout_ms = 50;
    struct fixture *fixture = tls_start(&limits);
    struct tls_client half;
    tls_client_open(&half, fixture);
    raw_send(half.fd, tls_stream_output(half.tls)->data, 20);
    tls_stream_output(half.tls)->size = 0;
    struct tls_client mute;
    tls_client_open(&mute, fixture);
    tls_client_wait(fixture, &mute, tls_stream_state(mute.tls) == TLS_OPEN);
    tls_client_wait(fixture, &half, half.is_closed);
    tls_client_wait(fixture, &mute, mute.is_closed);
    tls_client_close(&half);
    tls_client_close(&mute);
    doors_stop(fixture);
}

static void unread_ciphertext_counts_after_a_stall(void **state) {
    struct fixture *fixture = tls_start(NULL);
    struct tls_client client;
    tls_client_open(&client, fixture);
    tls_client_wait(fixture, &client, tls_stream_state(client.tls) == TLS_OPEN);
    tls_client_turn(fixture, &client);
    net_server_begin_catch_up(fixture->server);
    assert_true(net_server_is_caught_up(fixture->server));
    tls_stream_write(client.tls, bytes_from_text(request));
    tls_client_send(&client);
    poll(NULL, 0, 10); /* loopback */
    net_server_begin_catch_up(fixture->server);
    assert_false(net_server_is_caught_up(fixture->server));
    tls_client_wait(fixture, &client, client.received.size > 0);
    assert_true(net_server_is_caught_up(fixture->server));
    tls_client_close(&client);
    doors_stop(fixture);
}

/* Many handshakes at once take several iterations of the loop, and all of them succeed. */
static void handshakes_share_iterations_with_others(void **state) {
    struct fixture *fixture = tls_start(NULL);
    struct tls_client *clients = calloc(MANY_CLIENTS, sizeof *clients);
    for (size_t i = 0; i < MANY_CLIENTS; i++) {
        tls_client_open(&clients[i], fixture);
        tls_client_send(&clients[i]);
    }
    uint64_t start_ms = clock_boottime_ms();
    unsigned n_iterations = 0;
    size_t n_open = 0;
    size_t n_answered_first = 0;
    while (n_open < MANY_CLIENTS) {
        assert_true(clock_boottime_ms() - start_ms < WAIT_MS_MAX);
        fixture_turn(fixture);
        n_open = 0;
        size_t n_answered = 0;
        for (size_t i = 0; i < MANY_CLIENTS; i++) {
            struct pollfd poll_fd = {.fd = clients[i].fd, .events = POLLIN};
            bool is_answered = poll(&poll_fd, 1, 0) == 1;
            n_answered += is_answered;
            n_open += tls_stream_state(clients[i].tls) == TLS_OPEN;
            /* Some iterations of the server alone, so that what they did can be counted. */
            if (is_answered && n_iterations > 2) {
                tls_client_read(&clients[i]);
                tls_client_send(&clients[i]);
                assert_false(clients[i].is_closed);
            }
        }
        n_iterations++;
        n_answered_first = n_answered_first == 0 ? n_answered : n_answered_first;
    }
    assert_in_range(n_answered_first, 1, MANY_CLIENTS - 1);
    struct tls_client *last = &clients[MANY_CLIENTS - 1];
    tls_client_wait(fixture, last, fixture_stats(fixture).tls_handshakes == MANY_CLIENTS);
    for (size_t i = 0; i < MANY_CLIENTS; i++) {
        tls_client_close(&clients[i]);
    }
    free(clients);
    doors_stop(fixture);
}

/* --- one protocol alone -------------------------------------------------------------------- */

/* Says who the client is, and ends. */
struct who {
    struct protocol_host *host;
    bool is_sent;
};

static enum sniff_result who_sniff(struct bytes first) {
    return first.data[0] == '?' ? SNIFF_YES : SNIFF_NO;
}

static void *who_open(struct protocol_host *host) {
    struct who *who = calloc(1, sizeof *who);
    who->host = host;
    host->wake(host);
    return who;
}

static void who_on_bytes(void *session, struct bytes bytes) {
}

static void who_produce(void *session, size_t size_max, struct buffer *out) {
    struct who *who = session;
    if (who->is_sent) {
        return;
    }
    who->is_sent = true;
    const struct tls_identity *identity = net_connection_identity(who->host);
    char text[256];
    char address[NET_ADDRESS_SIZE];
    net_connection_address(who->host, address);
    snprintf(text, sizeof text, "%s %s %.9s",
             identity != NULL ? tls_identity_name(identity, TLS_NAME_COMMON, 0) : "nobody",
             identity != NULL ? tls_identity_name(identity, TLS_NAME_IP, 0) : "nowhere", address);
    buffer_append(out, text, strlen(text));
}

static void who_settle(void *session) {
}

static enum session_state who_state(const void *session) {
    return SESSION_ENDING;
}

static size_t who_queued_bytes(const void *session) {
    return 0;
}

static bool who_is_idle(const void *session) {
    return true;
}

static const struct protocol who_protocol = {.name = "who",
                                             .sniff = who_sniff,
                                             .open = who_open,
                                             .on_bytes = who_on_bytes,
                                             .produce = who_produce,
                                             .settle = who_settle,
                                             .state = who_state,
                                             .queued_bytes = who_queued_bytes,
                                             .is_idle = who_is_idle,
                                             .drain = who_settle,
                                             .close = free};

static struct buffer talk(struct fixture *fixture, const void *data, size_t size) {
    int fd = raw_connect(fixture);
    raw_send(fd, data, size);
    struct buffer answer = raw_read_all(fixture, fd);
    close(fd);
    return answer;
}

static void session_learns_the_names_in_the_certificate(void **state) {
    struct fixture *fixture = doors_start(NULL);
    listen_on(fixture, &(struct net_listen_options){
                           .host = "127.0.0.1", .tls = server_context, .only = &who_protocol});
    struct tls_client client;
    tls_client_open(&client, fixture);
    tls_client_wait(fixture, &client, tls_stream_state(client.tls) == TLS_OPEN);
    tls_stream_write(client.tls, bytes_from_text("?"));
    tls_client_wait(fixture, &client, client.is_closed);
    assert_int_equal(client.received.size, strlen("member 127.0.0.1 127.0.0.1"));
    assert_starts_with(&client.received, "member 127.0.0.1 127.0.0.1");
    tls_client_close(&client);
    doors_stop(fixture);
}

static void listener_of_one_protocol_speaks_no_other(void **state) {
    struct fixture *fixture = doors_start(NULL);
    listen_on(fixture, &(struct net_listen_options){.host = "127.0.0.1", .only = &who_protocol});
    struct buffer answer = talk(fixture, "?", 1);
    assert_string_equal((char *)answer.data, "nobody nowhere 127.0.0.1");
    buffer_clear(&answer);
    answer = talk(fixture, request, strlen(request));
    assert_int_equal(answer.size, 1);
    buffer_clear(&answer);
    doors_stop(fixture);
}

/* --- the wrong one ------------------------------------------------------------------------- */

static void plain_text_to_tls_is_told_so(void **state) {
    struct fixture *fixture = tls_start(NULL);
    struct buffer answer = talk(fixture, request, strlen(request));
    assert_starts_with(&answer, "HTTP/1.1 400 Bad Request\r\n");
    assert_non_null(strstr((char *)answer.data, "\r\n\r\nthis port speaks TLS: use https://\n"));
    buffer_clear(&answer);

    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    answer = talk(fixture, preface, strlen(preface));
    assert_int_equal(answer.size - 1, 9 + 9 + 43);
    assert_int_equal(answer.data[3], 4);       /* SETTINGS */
    assert_int_equal(answer.data[9 + 3], 7);   /* GOAWAY */
    assert_int_equal(answer.data[9 + 16], 12); /* INADEQUATE_SECURITY */
    buffer_clear(&answer);

    answer = talk(fixture, "\x01\x02\x03\x04\x05\x06", 6);
    assert_memory_equal(answer.data, "\x15\x03", 2); /* an alert */
    buffer_clear(&answer);
    assert_int_equal(fixture_stats(fixture).tls_failures, 3);
    doors_stop(fixture);
}

static void one_client_too_many_gets_an_alert_without_a_handshake(void **state) {
    struct net_limits limits = net_limits_default;
    limits.connections_max = 1;
    struct fixture *fixture = tls_start(&limits);
    struct tls_client first;
    tls_client_open(&first, fixture);
    tls_client_wait(fixture, &first, tls_stream_state(first.tls) == TLS_OPEN);
    struct tls_client second;
    tls_client_open(&second, fixture);
    const struct buffer *hello = tls_stream_output(second.tls);
    int fd = raw_connect(fixture);
    raw_send(fd, hello->data, hello->size);
    struct buffer answer;
    buffer_init(&answer);
    uint64_t start_ms = clock_boottime_ms();
    while (answer.size < 7) {
        fixture_turn(fixture);
        raw_read(fd, &answer);
        assert_true(clock_boottime_ms() - start_ms < WAIT_MS_MAX);
    }
    assert_memory_equal(answer.data, "\x15\x03\x01\x00\x02\x02\x50", 7);
    buffer_clear(&answer);
    close(fd);
    tls_client_close(&first);
    tls_client_close(&second);
    doors_stop(fixture);
}

static void tls_to_plain_text_gets_an_alert(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct tls_client client;
    tls_client_open(&client, fixture);
    const struct buffer *hello = tls_stream_output(client.tls);
    struct buffer answer = talk(fixture, hello->data, hello->size);
    assert_int_equal(answer.size - 1, 7);
    assert_memory_equal(answer.data, "\x15\x03\x01\x00\x02\x02\x0a", 7);
    buffer_clear(&answer);
    tls_client_close(&client);
    doors_stop(fixture);
}

/* --- Unix sockets -------------------------------------------------------------------------- */

static char *unix_path(void) {
    static char path[TLS_PATH_SIZE];
    snprintf(path, sizeof path, "%.80s/socket", tls_folder);
    return path;
}

static struct sockaddr_un unix_address(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%.80s/socket", tls_folder);
    return address;
}

static int unix_connect(void) {
    struct sockaddr_un address = unix_address();
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

static void unix_socket_is_served_and_removed(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct stat info;
    mode_t mask = umask(0);
    listen_on(fixture, &(struct net_listen_options){.unix_path = unix_path()});
    umask(mask);
    assert_int_equal(lstat(unix_path(), &info), 0);
    assert_true(S_ISSOCK(info.st_mode));
    assert_int_equal(info.st_mode & 0777, 0600);
    int fd = unix_connect();
    raw_send(fd, request, strlen(request));
    struct buffer answer = raw_read_all(fixture, fd);
    assert_starts_with(&answer, "HTTP/1.1 404 Not Found\r\n");
    buffer_clear(&answer);
    close(fd);
    doors_stop(fixture);
    assert_int_equal(lstat(unix_path(), &info), -1);
}

static void tls_over_a_unix_socket_is_served(void **state) {
    struct fixture *fixture = doors_start(NULL);
    listen_on(fixture,
              &(struct net_listen_options){.unix_path = unix_path(), .tls = server_context});
    struct tls_client client = {.fd = unix_connect(),
                                .tls = tls_stream_connect(client_context, "127.0.0.1")};
    tls_client_wait(fixture, &client, tls_stream_state(client.tls) == TLS_OPEN);
    tls_stream_write(client.tls, bytes_from_text(request));
    tls_client_wait(fixture, &client, client.is_closed);
    assert_starts_with(&client.received, "HTTP/1.1 404 Not Found\r\n");
    tls_client_close(&client);
    doors_stop(fixture);
}

static void assert_unix_refused(struct fixture *fixture, const char *path, const char *reason) {
    char error[512] = "";
    const struct net_listen_options options = {.unix_path = path};
    assert_int_equal(net_server_listen(fixture->server, &options, NULL, error, sizeof error),
                     STATUS_IO);
    assert_non_null(strstr(error, reason));
}

static void unix_socket_of_a_dead_process_is_replaced_and_no_other(void **state) {
    struct fixture *fixture = doors_start(NULL);
    struct sockaddr_un address = unix_address();
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_unix_refused(fixture, unix_path(), "in use");
    close(fd);
    listen_on(fixture, &(struct net_listen_options){.unix_path = unix_path()});
    assert_unix_refused(fixture, unix_path(), "in use");
    assert_unix_refused(fixture, server_files.cert, "there is a file that is no socket");
    assert_int_equal(access(server_files.cert, R_OK), 0);
    /* A file that is not ours any more stays. */
    assert_int_equal(unlink(unix_path()), 0);
    int other = open(unix_path(), O_CREAT | O_WRONLY, 0600);
    assert_true(other >= 0);
    close(other);
    doors_stop(fixture);
    assert_int_equal(unlink(unix_path()), 0);
}

static void unix_path_that_is_too_long_is_refused(void **state) {
    struct fixture *fixture = doors_start(NULL);
    char path[200];
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    assert_unix_refused(fixture, path, "too long");
    doors_stop(fixture);
}

#define TRANSPORT_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TRANSPORT_TEST(calls_over_tls_are_answered),
        TRANSPORT_TEST(large_answers_to_a_slow_reader_arrive_whole),
        TRANSPORT_TEST(connection_ends_with_the_goodbye_of_tls),
        TRANSPORT_TEST(client_that_ends_its_side_is_answered),
        TRANSPORT_TEST(client_of_another_authority_is_refused),
        TRANSPORT_TEST(handshake_has_a_time_limit),
        TRANSPORT_TEST(unread_ciphertext_counts_after_a_stall),
        TRANSPORT_TEST(handshakes_share_iterations_with_others),
        TRANSPORT_TEST(session_learns_the_names_in_the_certificate),
        TRANSPORT_TEST(listener_of_one_protocol_speaks_no_other),
        TRANSPORT_TEST(plain_text_to_tls_is_told_so),
        TRANSPORT_TEST(one_client_too_many_gets_an_alert_without_a_handshake),
        TRANSPORT_TEST(tls_to_plain_text_gets_an_alert),
        TRANSPORT_TEST(unix_socket_is_served_and_removed),
        TRANSPORT_TEST(tls_over_a_unix_socket_is_served),
        TRANSPORT_TEST(unix_socket_of_a_dead_process_is_replaced_and_no_other),
        TRANSPORT_TEST(unix_path_that_is_too_long_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
