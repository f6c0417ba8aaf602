#include "peers_fixture.h"

#include <netinet/tcp.h>

static struct peer_dial *dial(const char *address, struct dialled *out_dialled) {
    struct peer_hello hello = a_hello(A, B, PEER_FOR_LINK);
    *out_dialled = (struct dialled){0};
    struct peer_dial *dial = peer_dial_start(&loop, NULL, address, &hello, on_dialled, out_dialled);
    assert_int_equal(out_dialled->n, 0);
    return dial;
}

static void assert_cancels(struct peer_dial *dial, struct dialled *dialled) {
    assert_int_equal(dialled->n, 0);
    peer_dial_cancel(dial);
    assert_int_equal(dialled->n, 1);
    assert_null(dialled->stream);
    assert_string_equal(dialled->reason, "cancelled");
}

static void a_dial_can_be_cancelled_at_every_stage(void **state) {
    uint16_t port;
    char address[32];
    struct dialled dialled;
    int listener = raw_listen(&port);
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    assert_cancels(dial("nonsense", &dialled), &dialled);
    assert_cancels(dial(address, &dialled), &dialled);
    close(raw_accept(listener));
    struct peer_dial *waiting = dial(address, &dialled);
    int fd = raw_accept(listener);
    assert_cancels(waiting, &dialled);
    close(fd);
    waiting = dial(address, &dialled);
    fd = raw_accept(listener);
    WAIT_UNTIL(!raw_is_open(fd)); /* the hello is there */
    assert_cancels(waiting, &dialled);
    uv_run(&loop, UV_RUN_ONCE);
    assert_int_equal(dialled.n, 1);
    close(fd);
    /* The answer is there, but nobody has looked. */
    waiting = dial(address, &dialled);
    fd = raw_accept(listener);
    WAIT_UNTIL(!raw_is_open(fd));
    raw_send(fd, "\0", 1);
    assert_cancels(waiting, &dialled);
    close(fd);
    close(listener);
}

static void cancelled_at_any_turn_a_dial_ends_once(void **state) {
    for (int turns = 0; turns < 8; turns++) {
        struct dialled dialled;
        struct peer_dial *begun = dial(b.address, &dialled);
        for (int i = 0; i < turns && dialled.n == 0; i++) {
            uv_run(&loop, UV_RUN_NOWAIT);
        }
        if (dialled.n == 0) {
            assert_cancels(begun, &dialled);
        } else {
            assert_non_null(dialled.stream);
            close_stream(dialled.stream);
        }
    }
}

static void what_cannot_be_reached_is_told(void **state) {
    static const char *const nowhere[] = {"nonsense",       "", ":", "127.0.0.1:", "127.0.0.1:port",
                                          "127.0.0.1:65536"};
    struct dialled dialled;
    for (size_t i = 0; i < sizeof nowhere / sizeof nowhere[0]; i++) {
        dial(nowhere[i], &dialled);
        WAIT_UNTIL(dialled.n == 1);
        assert_null(dialled.stream);
        assert_string_equal(dialled.reason, "the address cannot be reached");
    }
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%u", free_port());
    dial(address, &dialled);
    WAIT_UNTIL(dialled.n == 1);
    assert_string_equal(dialled.reason, uv_strerror(UV_ECONNREFUSED));
}

static void a_peer_may_be_named(void **state) {
    char address[32];
    struct dialled dialled;
    snprintf(address, sizeof address, "localhost:%u", b.port);
    dial(address, &dialled);
    WAIT_UNTIL(dialled.n == 1);
    assert_string_equal(dialled.reason, "");
    close_stream(dialled.stream);
    /* Nobody listens at any of the addresses. */
    snprintf(address, sizeof address, "localhost:%u", free_port());
    dial(address, &dialled);
    WAIT_UNTIL(dialled.n == 1);
    assert_string_equal(dialled.reason, uv_strerror(UV_ECONNREFUSED));
}

static void a_lookup_can_be_cancelled(void **state) {
    char address[32];
    snprintf(address, sizeof address, "localhost:%u", b.port);
    for (int turns = 0; turns < 8; turns++) {
        struct dialled dialled[6];
        struct peer_dial *begun[6];
        for (size_t i = 0; i < 6; i++) {
            begun[i] = dial(address, &dialled[i]); /* more than are looked up at a time */
        }
        for (int i = 0; i < turns; i++) {
            uv_run(&loop, UV_RUN_NOWAIT);
        }
        for (size_t i = 0; i < 6; i++) {
            if (dialled[i].n == 0) {
                assert_cancels(begun[i], &dialled[i]);
            } else {
                assert_non_null(dialled[i].stream);
                close_stream(dialled[i].stream);
            }
        }
    }
}

static void a_peer_that_hangs_up_or_answers_nonsense_is_told(void **state) {
    static const struct {
        const char *bytes;
        size_t size;
        const char *reason;
    } cases[] = {{"", 0, "the peer hung up"},
                 {"\1", 1, "the peer speaks another version"},
                 {"\xee", 1, "the peer's answer makes no sense"}};
    uint16_t port;
    char address[32];
    int listener = raw_listen(&port);
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct dialled dialled;
        dial(address, &dialled);
        int fd = raw_accept(listener);
        raw_send(fd, cases[i].bytes, cases[i].size);
        shutdown(fd, SHUT_WR);
        WAIT_UNTIL(dialled.n == 1);
        assert_null(dialled.stream);
        assert_string_equal(dialled.reason, cases[i].reason);
        close(fd);
    }
    close(listener);
}

static void a_peer_that_never_answers_is_given_up(void **state) {
    uint16_t port;
    char address[32];
    struct dialled dialled;
    int listener = raw_listen(&port);
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    uint64_t start_ms = clock_boottime_ms();
    dial(address, &dialled);
    WAIT_UNTIL(dialled.n == 1);
    assert_string_equal(dialled.reason, "no answer in time");
    assert_true(clock_boottime_ms() - start_ms >= PEER_DIAL_TIMEOUT_MS - 50);
    close(listener);
}

static void a_connection_that_nobody_acknowledges_ends_soon(void **state) {
    struct dialled dialled;
    dial(b.address, &dialled);
    WAIT_UNTIL(dialled.n == 1);
    uv_os_fd_t fd;
    unsigned silence_ms = 0;
    socklen_t size = sizeof silence_ms;
    assert_int_equal(uv_fileno((uv_handle_t *)dialled.stream, &fd), 0);
    assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, &size), 0);
    assert_int_equal(silence_ms, PEER_SILENCE_MS_MAX);
    close_stream(dialled.stream);
}

#define PEERS_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        PEERS_TEST(a_dial_can_be_cancelled_at_every_stage),
        PEERS_TEST(cancelled_at_any_turn_a_dial_ends_once),
        PEERS_TEST(a_connection_that_nobody_acknowledges_ends_soon),
        PEERS_TEST(what_cannot_be_reached_is_told),
        PEERS_TEST(a_peer_may_be_named),
        PEERS_TEST(a_lookup_can_be_cancelled),
        PEERS_TEST(a_peer_that_hangs_up_or_answers_nonsense_is_told),
        PEERS_TEST(a_peer_that_never_answers_is_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
