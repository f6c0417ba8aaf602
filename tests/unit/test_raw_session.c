/* Raw protocols: a session without a socket first, then what listeners make of them. */
#include "net_fixture.h"

#include "net/net_scope.h"

enum { PARTIAL_MAX = 16, LOG_SIZE = 256 };

/* --- a protocol of lines ------------------------------------------------------------------- */

/* What the door saw: "open", then each line and event with a semicolon behind it. */
struct seen {
    char log[LOG_SIZE];
    struct raw_connection *connection;
    bool is_pausing; /* after each line */
    bool is_putting_off;
    unsigned n_closed;
};

static void see(struct seen *seen, const char *text, size_t size) {
    size_t used = strlen(seen->log);
    assert_true(used + size + 2 < sizeof seen->log);
    memcpy(seen->log + used, text, size);
    memcpy(seen->log + used + size, ";", 2);
}

static void see_text(struct seen *seen, const char *text) {
    see(seen, text, strlen(text));
}

static bool lines_open(struct raw_connection *connection) {
    struct seen *seen = raw_connection_context(connection);
    raw_connection_set_data(connection, seen);
    seen->connection = connection;
    see_text(seen, "open");
    return true;
}

static size_t lines_on_bytes(struct raw_connection *connection, struct bytes bytes) {
    struct seen *seen = raw_connection_data(connection);
    size_t used = 0;
    const uint8_t *end;
    if (seen->is_putting_off) {
        raw_connection_pause(connection);
        return 0;
    }
    while ((end = memchr(bytes.data + used, '\n', bytes.size - used)) != NULL) {
        struct bytes line = bytes_of(bytes.data + used, (size_t)(end - bytes.data) - used);
        used += line.size + 1;
        see(seen, (const char *)line.data, line.size);
        if (bytes_equal(line, bytes_from_text("quit"))) {
            raw_connection_send(connection, bytes_from_text("bye\n"));
            raw_connection_close(connection);
            break;
        }
        raw_connection_send(connection, line);
        raw_connection_send(connection, bytes_from_text("!\n"));
        if (seen->is_pausing) {
            raw_connection_pause(connection);
            break;
        }
    }
    return used;
}

static void lines_on_writable(struct raw_connection *connection) {
    see_text(raw_connection_data(connection), "writable");
}

static void lines_on_drain(struct raw_connection *connection) {
    see_text(raw_connection_data(connection), "drain");
}

static void lines_on_close(struct raw_connection *connection) {
    struct seen *seen = raw_connection_data(connection);
    see_text(seen, "close");
    seen->connection = NULL;
    seen->n_closed++;
}

/* "PING" and "PUB" begin like the methods of HTTP. */
static enum sniff_result lines_sniff(struct bytes first) {
    if (first.size > 0 && first.data[0] != 'P' && first.data[0] != 'q') {
        return SNIFF_NO;
    }
    return first.size > 0 ? SNIFF_YES : SNIFF_MORE;
}

static const struct raw_protocol lines = {
    .name = "lines",
    .sniff = lines_sniff,
    .partial_max = PARTIAL_MAX,
    .on_open = lines_open,
    .on_bytes = lines_on_bytes,
    .on_writable = lines_on_writable,
    .on_drain = lines_on_drain,
    .on_close = lines_on_close,
};

/* --- without a socket ---------------------------------------------------------------------- */

struct bench {
    struct net_shared shared;
    struct protocol_host host;
    struct raw_route route;
    struct seen seen;
    void *session;
    unsigned n_wakes;
};

static void count_wake(struct protocol_host *host) {
    ((struct bench *)(void *)((char *)host - offsetof(struct bench, host)))->n_wakes++;
}

static void bench_open(struct bench *bench) {
    log_configure(LOG_ERROR, LOG_FORMAT_TEXT);
    memset(bench, 0, sizeof *bench);
    net_shared_init(&bench->shared, &net_limits_default, 0);
    bench->route = (struct raw_route){.protocol = &lines, .context = &bench->seen};
    bench->host =
        (struct protocol_host){.shared = &bench->shared, .wake = count_wake, .raw = &bench->route};
    bench->session = raw_session_protocol.open(&bench->host);
    assert_non_null(bench->session);
}

static void bench_close(struct bench *bench) {
    raw_session_protocol.close(bench->session);
    assert_int_equal(bench->seen.n_closed, 1);
    assert_int_equal(bench->shared.partial_bytes, 0);
    assert_int_equal(bench->shared.stats.queued_bytes, 0);
    assert_int_equal(bench->shared.stats.calls, 0);
    net_shared_clear(&bench->shared);
}

static void bench_give(struct bench *bench, const char *text) {
    raw_session_protocol.on_bytes(bench->session, bytes_from_text(text));
}

static void assert_sends(struct bench *bench, const char *expected) {
    struct buffer out;
    buffer_init(&out);
    raw_session_protocol.produce(bench->session, 65536, &out);
    assert_int_equal(out.size, strlen(expected));
    assert_memory_equal(out.data, expected, out.size);
    buffer_clear(&out);
    raw_session_protocol.settle(bench->session);
}

static enum session_state state_of(const struct bench *bench) {
    return raw_session_protocol.state(bench->session);
}

static void an_unfinished_message_comes_again_with_what_follows(void **state) {
    struct bench bench;
    bench_open(&bench);
    bench_give(&bench, "on");
    assert_int_equal(state_of(&bench), SESSION_OPENING);
    bench_give(&bench, "e");
    assert_int_equal(bench.shared.partial_bytes, 3);
    bench_give(&bench, "\ntwo\nth");
    assert_string_equal(bench.seen.log, "open;one;two;");
    assert_int_equal(bench.shared.partial_bytes, 2);
    assert_int_equal(state_of(&bench), SESSION_OPEN);
    assert_sends(&bench, "one!\ntwo!\n");
    bench_close(&bench);
    assert_string_equal(bench.seen.log, "open;one;two;close;");
}

static void a_message_without_end_breaks_the_protocol(void **state) {
    struct bench bench;
    bench_open(&bench);
    bench_give(&bench, "0123456789abcdef");
    assert_int_equal(state_of(&bench), SESSION_OPENING);
    bench_give(&bench, "g");
    assert_int_equal(state_of(&bench), SESSION_ENDING);
    assert_int_equal(bench.shared.stats.protocol_errors, 1);
    bench_give(&bench, "\nmore\n");
    assert_string_equal(bench.seen.log, "open;");
    bench_close(&bench);
}

/* So that what others hold is reached by those first who hold as much. */
static void an_unfinished_message_has_a_share_of_what_others_leave(void **state) {
    struct bench bench;
    bench_open(&bench);
    size_t others = NET_PARTIAL_BYTES_MAX - 40;
    bench.shared.partial_bytes = others;
    bench_give(&bench, "0123456789");
    assert_int_equal(state_of(&bench), SESSION_OPENING);
    assert_int_equal(bench.shared.partial_bytes, others + 10);
    bench_give(&bench, "a");
    assert_int_equal(state_of(&bench), SESSION_ENDING);
    assert_int_equal(bench.shared.partial_bytes, others);
    bench.shared.partial_bytes = 0;
    bench_close(&bench);
}

static void a_paused_connection_is_given_nothing_until_it_resumes(void **state) {
    struct bench bench;
    bench_open(&bench);
    bench.seen.is_pausing = true;
    bench_give(&bench, "one\ntwo\n");
    assert_false(raw_session_protocol.wants_input(bench.session));
    bench_give(&bench, "three\nand more than an unfinished message may have\n");
    assert_string_equal(bench.seen.log, "open;one;");
    bench.seen.is_pausing = false;
    raw_connection_resume(bench.seen.connection);
    assert_true(raw_session_protocol.wants_input(bench.session));
    assert_string_equal(bench.seen.log, "open;one;"); /* not from inside resume */
    raw_session_protocol.settle(bench.session);
    assert_string_equal(bench.seen.log, "open;one;two;three;"
                                        "and more than an unfinished message may have;");
    assert_int_equal(bench.shared.partial_bytes, 0);
    assert_int_equal(state_of(&bench), SESSION_OPEN);
    bench_close(&bench);
}

static void who_pauses_at_each_message_gets_them_one_by_one(void **state) {
    struct bench bench;
    bench_open(&bench);
    bench.seen.is_pausing = true;
    bench_give(&bench, "1\n2\n3\n");
    for (unsigned i = 0; i < 2; i++) {
        raw_connection_resume(bench.seen.connection);
        raw_session_protocol.settle(bench.session);
    }
    assert_string_equal(bench.seen.log, "open;1;2;3;");
    bench_close(&bench);
}

/* It is closed when no request has come in time. */
static void a_first_message_that_the_door_puts_off_has_come(void **state) {
    struct bench bench;
    bench_open(&bench);
    bench_give(&bench, "on");
    assert_int_equal(state_of(&bench), SESSION_OPENING);
    bench.seen.is_putting_off = true;
    bench_give(&bench, "e\n");
    assert_string_equal(bench.seen.log, "open;");
    assert_int_equal(state_of(&bench), SESSION_OPEN);
    bench_close(&bench);
}

static void a_writer_is_told_to_wait_and_when_to_go_on(void **state) {
    struct bench bench;
    bench_open(&bench);
    uint8_t kilobyte[1024] = {0};
    size_t sent = 0;
    while (raw_connection_is_writable(bench.seen.connection)) {
        raw_connection_send(bench.seen.connection, bytes_of(kilobyte, sizeof kilobyte));
        sent += sizeof kilobyte;
    }
    assert_true(sent > net_limits_default.stream_queue_high);
    assert_true(sent <= net_limits_default.stream_queue_high + sizeof kilobyte);
    assert_int_equal(bench.shared.stats.queued_bytes, sent);
    raw_session_protocol.settle(bench.session);
    assert_string_equal(bench.seen.log, "open;");
    struct buffer out;
    buffer_init(&out);
    raw_session_protocol.produce(bench.session, sent, &out);
    raw_session_protocol.settle(bench.session);
    assert_string_equal(bench.seen.log, "open;writable;");
    assert_int_equal(out.size, sent);
    buffer_clear(&out);
    bench_close(&bench);
}

static void a_peer_that_takes_nothing_does_not_gather_without_end(void **state) {
    struct bench bench;
    bench_open(&bench);
    size_t size = 1024 * 1024;
    uint8_t *megabyte = calloc(1, size);
    for (size_t i = 0; i < 100; i++) {
        raw_connection_send(bench.seen.connection, bytes_of(megabyte, size));
    }
    free(megabyte);
    assert_int_equal(state_of(&bench), SESSION_FAILED);
    assert_true(bench.shared.stats.queued_bytes <= net_limits_default.connection_queue_abort);
    assert_false(raw_connection_is_writable(bench.seen.connection));
    bench_close(&bench);
}

static void the_server_waits_for_requests_when_it_stops(void **state) {
    struct bench bench;
    bench_open(&bench);
    bench_give(&bench, "one\n");
    assert_sends(&bench, "one!\n");
    assert_true(raw_session_protocol.is_idle(bench.session));
    raw_connection_begin_request(bench.seen.connection);
    assert_false(raw_session_protocol.is_idle(bench.session));
    assert_true(raw_session_protocol.is_serving(bench.session));
    raw_session_protocol.drain(bench.session);
    raw_session_protocol.settle(bench.session);
    assert_string_equal(bench.seen.log, "open;one;drain;");
    assert_int_equal(state_of(&bench), SESSION_OPEN);
    raw_connection_end_request(bench.seen.connection);
    raw_session_protocol.settle(bench.session);
    assert_int_equal(state_of(&bench), SESSION_ENDING);
    bench_close(&bench);
}

static void the_caller_is_anonymous_until_it_is_set(void **state) {
    struct bench bench;
    bench_open(&bench);
    static const uint8_t zeros[24];
    assert_memory_equal(raw_connection_caller(bench.seen.connection), zeros, sizeof zeros);
    uint64_t user = 7;
    raw_connection_set_caller(bench.seen.connection, &user, sizeof user);
    assert_memory_equal(raw_connection_caller(bench.seen.connection), &user, sizeof user);
    bench_close(&bench);
}

/* Any address will do: nothing looks into it. */
static const struct tls_identity *certificate_of(struct protocol_host *host) {
    return (const struct tls_identity *)(const void *)host;
}

static bool user_of_certificate(void *context, const struct tls_identity *identity,
                                void *out_caller) {
    const uint64_t *user = context;
    assert_non_null(identity);
    memcpy(out_caller, user, sizeof *user);
    return *user != 0;
}

static void a_certificate_is_the_caller_until_the_door_sets_another(void **state) {
    static const struct net_authenticator authenticator = {.certificate = user_of_certificate};
    struct bench bench;
    uint64_t user = 3;
    bench_open(&bench);
    bench.shared.authenticator = &authenticator;
    bench.shared.authenticator_context = &user;
    uint64_t caller = 0;
    memcpy(&caller, raw_connection_caller(bench.seen.connection), sizeof caller);
    assert_int_equal(caller, 0); /* no certificate */
    bench.host.identity = certificate_of;
    memcpy(&caller, raw_connection_caller(bench.seen.connection), sizeof caller);
    assert_int_equal(caller, 3);
    user = 0; /* the user was deleted */
    memcpy(&caller, raw_connection_caller(bench.seen.connection), sizeof caller);
    assert_int_equal(caller, 0);
    user = 9;
    raw_connection_set_caller(bench.seen.connection, &(uint64_t){7}, sizeof user);
    memcpy(&caller, raw_connection_caller(bench.seen.connection), sizeof caller);
    assert_int_equal(caller, 7);
    bench_close(&bench);
}

/* --- on a listener ------------------------------------------------------------------------- */

static const char http_request[] = "GET /nowhere HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";

static struct buffer talk(struct fixture *fixture, const char *text) {
    int fd = raw_connect(fixture);
    raw_send_text(fd, text);
    struct buffer answer = raw_read_all(fixture, fd);
    close(fd);
    return answer;
}

static void assert_answers(struct fixture *fixture, const char *text, const char *expected) {
    struct buffer answer = talk(fixture, text);
    assert_memory_equal(answer.data, expected, strlen(expected));
    buffer_clear(&answer);
}

static void the_main_port_tells_protocols_apart(void **state) {
    struct fixture fixture;
    struct seen seen = {0};
    fixture_start(&fixture, &net_limits_default, NULL, 0);
    net_scope_add_raw(net_server_main_scope(fixture.server), &lines, &seen);
    assert_answers(&fixture, "PING\nquit\n", "PING!\nbye\n");
    assert_answers(&fixture, "quit\n", "bye\n");
    assert_answers(&fixture, http_request, "HTTP/1.1 404");
    assert_answers(&fixture,
                   "POST /nowhere HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
                   "Content-Length: 0\r\n\r\n",
                   "HTTP/1.1 4");
    struct buffer answer = talk(&fixture, "what\n");
    assert_int_equal(answer.size, 1); /* closed without an answer */
    buffer_clear(&answer);
    fixture_stop(&fixture);
    assert_int_equal(seen.n_closed, 2);
}

/* "P" alone may become "PUT /": who is asked earlier is waited for. */
static void an_earlier_protocol_that_needs_more_bytes_is_waited_for(void **state) {
    struct fixture fixture;
    struct seen seen = {0};
    fixture_start(&fixture, &net_limits_default, NULL, 0);
    struct net_scope *scope = net_server_main_scope(fixture.server);
    net_scope_add_raw(scope, &lines, &seen);
    const struct protocol *protocol = NULL;
    const struct raw_route *raw = NULL;
    assert_int_equal(net_scope_sniff(scope, bytes_from_text("P"), &protocol, &raw), SNIFF_MORE);
    assert_int_equal(net_scope_sniff(scope, bytes_from_text("PU"), &protocol, &raw), SNIFF_MORE);
    assert_int_equal(net_scope_sniff(scope, bytes_from_text("PUB"), &protocol, &raw), SNIFF_YES);
    assert_ptr_equal(raw->protocol, &lines);
    assert_int_equal(net_scope_sniff(scope, bytes_from_text("PUT "), &protocol, &raw), SNIFF_YES);
    assert_null(raw);
    assert_ptr_equal(protocol, &http1_protocol);
    fixture_stop(&fixture);
}

static void a_listener_of_its_own_speaks_nothing_else(void **state) {
    struct fixture fixture;
    struct seen seen = {0};
    fixture_start(&fixture, &net_limits_default, NULL, 0);
    struct net_scope *scope = net_server_add_scope(fixture.server);
    net_scope_add_raw(scope, &lines, &seen);
    char error[256] = "";
    assert_int_equal(
        net_server_listen(fixture.server,
                          &(struct net_listen_options){.host = "127.0.0.1", .scope = scope},
                          &fixture.port, error, sizeof error),
        STATUS_OK);
    /* Bytes that sniff() does not know are spoken all the same, and HTTP is a line like others. */
    assert_answers(&fixture, "what\nquit\n", "what!\nbye\n");
    assert_answers(&fixture, "GET / HTTP/1.1\nquit\n", "GET / HTTP/1.1!\nbye\n");
    fixture_stop(&fixture);
    assert_string_equal(seen.log, "open;what;quit;close;open;GET / HTTP/1.1;quit;close;");
}

static void turn_until(struct fixture *fixture, const bool *is_done) {
    uint64_t start_ms = clock_boottime_ms();
    while (!*is_done) {
        assert_true(clock_boottime_ms() - start_ms < WAIT_MS_MAX);
        uv_run(&fixture->loop, UV_RUN_ONCE);
    }
}

static void tick(uv_timer_t *timer) {
    *(bool *)timer->data = true;
}

/* Runs the loop for a while. */
static void pass(struct fixture *fixture, uint64_t ms) {
    bool is_over = false;
    uv_timer_t timer;
    uv_timer_init(&fixture->loop, &timer);
    timer.data = &is_over;
    uv_timer_start(&timer, tick, ms, 0);
    turn_until(fixture, &is_over);
    uv_close((uv_handle_t *)&timer, NULL);
    fixture_turn(fixture);
}

static void silence_is_limited_as_the_door_says(void **state) {
    struct net_limits limits = net_limits_default;
    limits.handshake_timeout_ms = 40;
    limits.keepalive_interval_ms = 40;
    struct fixture fixture;
    struct seen seen = {0};
    fixture_start(&fixture, &limits, NULL, 0);
    net_scope_add_raw(net_server_main_scope(fixture.server), &lines, &seen);
    int fd = raw_connect(&fixture);
    raw_send_text(fd, "PING\n");
    pass(&fixture, 5);
    raw_connection_set_idle_limit(seen.connection, RAW_NO_IDLE_LIMIT);
    pass(&fixture, 150);
    assert_int_equal(seen.n_closed, 0);
    close(fd);
    pass(&fixture, 5);
    assert_int_equal(seen.n_closed, 1);
    /* Without that the limit of all connections holds. */
    fd = raw_connect(&fixture);
    raw_send_text(fd, "PING\n");
    struct buffer answer = raw_read_all(&fixture, fd);
    assert_string_equal((char *)answer.data, "PING!\n");
    buffer_clear(&answer);
    close(fd);
    fixture_stop(&fixture);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unfinished_message_comes_again_with_what_follows),
        cmocka_unit_test(a_message_without_end_breaks_the_protocol),
        cmocka_unit_test(an_unfinished_message_has_a_share_of_what_others_leave),
        cmocka_unit_test(a_paused_connection_is_given_nothing_until_it_resumes),
        cmocka_unit_test(a_first_message_that_the_door_puts_off_has_come),
        cmocka_unit_test(who_pauses_at_each_message_gets_them_one_by_one),
        cmocka_unit_test(a_writer_is_told_to_wait_and_when_to_go_on),
        cmocka_unit_test(a_peer_that_takes_nothing_does_not_gather_without_end),
        cmocka_unit_test(the_server_waits_for_requests_when_it_stops),
        cmocka_unit_test(the_caller_is_anonymous_until_it_is_set),
        cmocka_unit_test(a_certificate_is_the_caller_until_the_door_sets_another),
        cmocka_unit_test(the_main_port_tells_protocols_apart),
        cmocka_unit_test(an_earlier_protocol_that_needs_more_bytes_is_waited_for),
        cmocka_unit_test(a_listener_of_its_own_speaks_nothing_else),
        cmocka_unit_test(silence_is_limited_as_the_door_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
