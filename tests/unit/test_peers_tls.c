/* The connections between two nodes again, with certificates. */
#include "peers_fixture.h"
#include "replication/peer_tls.h"
#include "tls_fixture.h"

#include <signal.h>

enum { FILES = 2 };

static struct tls_authority authority;
static struct tls_files files[FILES];

static int set_up_tls(void **state) {
    static const struct tls_terms usual = {0};
    signal(SIGPIPE, SIG_IGN);
    tls_folder_make();
    authority = tls_authority_make();
    tls_files_make(&files[0], "a", &authority, &authority, &usual);
    tls_files_make(&files[1], "b", &authority, &authority, &usual);
    int rv = set_up(state);
    node_close(&a);
    node_close(&b);
    a.tls = &files[0].options;
    b.tls = &files[1].options;
    assert_int_equal(node_try_open(&a), STATUS_OK);
    assert_int_equal(node_try_open(&b), STATUS_OK);
    return rv;
}

static int tear_down_tls(void **state) {
    int rv = tear_down(state);
    tls_folder_remove(files, FILES);
    tls_authority_clear(&authority);
    return rv;
}

static void dial_with(struct peer_tls_context *tls, const struct peer_hello *hello,
                      struct dialled *out_dialled) {
    *out_dialled = (struct dialled){0};
    peer_dial_start(&loop, tls, b.address, hello, on_dialled, out_dialled);
    WAIT_UNTIL(out_dialled->n == 1);
}

static struct peer_tls_context *context_of(const struct tls_files *of) {
    struct peer_tls_context *context = NULL;
    char error[256] = "";
    assert_int_equal(peer_tls_context_create(&of->options, &context, error, sizeof error),
                     STATUS_OK);
    return context;
}

static void frames_arrive_in_order_in_both_directions(void **state) {
    link_both();
    for (uint64_t i = 0; i < 1000; i++) {
        assert_true(send_ping(&a, B, i));
        assert_true(send_ping(&b, A, i));
        if (i % 7 == 0) {
            peers_flush(a.peers);
            peers_flush(b.peers);
        }
    }
    peers_flush(a.peers);
    peers_flush(b.peers);
    WAIT_UNTIL(a.n_pings == 1000 && b.n_pings == 1000);
    assert_int_equal(a.n_lost + b.n_lost, 0);
}

static void large_frames_arrive_whole(void **state) {
    enum { SIZE = PEER_FRAME_SIZE_MAX - 64, N = 5 };
    uint8_t *commands = malloc(SIZE);
    assert_non_null(commands);
    link_both();
    b.propose_size = SIZE;
    for (uint64_t n = 0; n < N; n++) {
        for (size_t i = 0; i < SIZE; i++) {
            commands[i] = (uint8_t)(i + n);
        }
        struct peer_frame frame = {.type = PEER_PROPOSE};
        frame.propose.sequence = n;
        frame.propose.commands = bytes_of(commands, SIZE);
        assert_true(peers_send(a.peers, B, &frame));
        peers_flush(a.peers);
    }
    free(commands);
    WAIT_UNTIL(b.n_proposes == N);
    assert_int_equal(b.n_lost, 0);
}

static void a_link_that_broke_is_opened_again(void **state) {
    link_both();
    for (unsigned round = 1; round <= 3; round++) {
        node_close(&b);
        WAIT_UNTIL(!peers_is_linked(a.peers, B));
        assert_int_equal(a.n_lost, round);
        assert_int_equal(node_try_open(&b), STATUS_OK);
        WAIT_UNTIL(peers_is_linked(a.peers, B));
        assert_true(send_ping(&a, B, b.n_pings));
        peers_flush(a.peers);
        WAIT_UNTIL(b.n_pings == round);
    }
}

static void a_connection_for_raft_outlives_the_peers(void **state) {
    struct dialled dialled = {0};
    peers_dial_raft(a.peers, B, b.address, on_dialled, &dialled);
    WAIT_UNTIL(dialled.n == 1 && b.raft != NULL);
    assert_non_null(dialled.stream);
    assert_string_equal(b.raft_address, a.address);
    node_close(&a);
    node_close(&b);
    uv_buf_t bytes = uv_buf_init("raft", 4);
    assert_int_equal(uv_try_write(dialled.stream, &bytes, 1), 4);
    uv_os_fd_t fd;
    char got[4] = "";
    assert_int_equal(uv_fileno((uv_handle_t *)b.raft, &fd), 0);
    WAIT_UNTIL(recv(fd, got, sizeof got, 0) == 4);
    assert_memory_equal(got, "raft", 4);
    close_stream(dialled.stream);
    WAIT_UNTIL(recv(fd, got, sizeof got, 0) == 0);
    close_stream(b.raft);
}

static void a_hello_is_judged_behind_tls_too(void **state) {
    struct peer_tls_context *context = context_of(&files[0]);
    struct dialled dialled;
    struct peer_hello hello = a_hello(99, B, PEER_FOR_LINK);
    dial_with(context, &hello, &dialled);
    assert_string_equal(dialled.reason, peer_answer_text(PEER_NOT_A_MEMBER));
    hello = a_hello(A, B, PEER_FOR_LINK);
    hello.cluster_id++;
    dial_with(context, &hello, &dialled);
    assert_string_equal(dialled.reason, peer_answer_text(PEER_OTHER_CLUSTER));
    peer_tls_context_destroy(context);
}

static void plain_text_and_tls_do_not_mix(void **state) {
    struct dialled dialled;
    struct peer_hello hello = a_hello(A, B, PEER_FOR_LINK);
    dial_with(NULL, &hello, &dialled);
    assert_string_equal(dialled.reason, peer_answer_text(PEER_SPEAKS_TLS));
    node_close(&b);
    b.tls = NULL;
    assert_int_equal(node_try_open(&b), STATUS_OK);
    struct peer_tls_context *context = context_of(&files[0]);
    dial_with(context, &hello, &dialled);
    assert_string_equal(dialled.reason,
                        "the peer hung up before TLS was agreed on; does it speak TLS?");
    peer_tls_context_destroy(context);
}

static void cancelled_at_any_turn_a_dial_ends_once(void **state) {
    struct peer_tls_context *context = context_of(&files[0]);
    struct peer_hello hello = a_hello(A, B, PEER_FOR_LINK);
    for (int turns = 0; turns < 24; turns++) {
        struct dialled dialled = {0};
        struct peer_dial *begun =
            peer_dial_start(&loop, context, b.address, &hello, on_dialled, &dialled);
        for (int i = 0; i < turns && dialled.n == 0; i++) {
            uv_run(&loop, UV_RUN_NOWAIT);
        }
        if (dialled.n == 0) {
            peer_dial_cancel(begun);
        } else {
            assert_non_null(dialled.stream);
            close_stream(dialled.stream);
        }
        assert_int_equal(dialled.n, 1);
    }
    peer_tls_context_destroy(context);
}

static void strangers_are_bounded_before_tls_is_agreed_on(void **state) {
    int fds[STRANGERS_MAX];
    uint64_t start_ms = clock_boottime_ms();
    for (size_t i = 0; i < STRANGERS_MAX; i++) {
        fds[i] = raw_connect(b.port);
        if (i % 2 == 0) {
            raw_send(fds[i], "\x16\x03\x01\x02\x00\x01", 6); /* begins, and goes no further */
        }
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    int more = raw_connect(b.port);
    assert_int_equal(raw_read(more), -1);
    close(more);
    /* They have only so long, and make room then. */
    assert_int_equal(raw_read(fds[0]), -1);
    assert_int_equal(raw_read(fds[STRANGERS_MAX - 1]), -1);
    assert_true(clock_boottime_ms() - start_ms >= HELLO_TIMEOUT_MS - 50);
    for (size_t i = 0; i < STRANGERS_MAX; i++) {
        close(fds[i]);
    }
    peers_set_member(a.peers, B, b.address);
    WAIT_UNTIL(peers_is_linked(a.peers, B));
}

static void who_agrees_on_tls_and_says_nothing_is_dropped_in_the_end(void **state) {
    struct peer_tls_context *context = context_of(&files[0]);
    struct dialled tls = {0};
    int fd = raw_connect(b.port);
    struct peer_tls *silent =
        peer_tls_start(&loop, peer_tls_context_dial(context, "127.0.0.1"), fd, on_dialled, &tls);
    WAIT_UNTIL(tls.stream != NULL);
    uint64_t start_ms = clock_boottime_ms();
    WAIT_UNTIL(peer_tls_ended(silent) != NULL);
    assert_string_equal(peer_tls_ended(silent), "the peer hung up");
    assert_true(clock_boottime_ms() - start_ms >= HELLO_TIMEOUT_MS - 200);
    peer_tls_release(silent);
    close_stream(tls.stream);
    peer_tls_context_destroy(context);
}

static void closing_leaves_nothing_behind_whatever_is_under_way(void **state) {
    uint16_t port;
    char address[32];
    int listener = raw_listen(&port);
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    link_both();
    int silent = raw_connect(a.port);
    peers_set_member(a.peers, 9, address); /* connects, and TLS is never answered */
    int fd = raw_accept(listener);
    WAIT_UNTIL(!raw_is_open(fd)); /* the handshake has begun */
    peers_set_member(a.peers, 10, b.address);
    assert_true(send_ping(&a, B, 0));
    peers_flush(a.peers);
    assert_true(send_ping(&b, A, 0));
    peers_flush(b.peers);
    node_close(&a);
    assert_int_equal(a.n_lost, 0);
    assert_int_equal(raw_read(silent), -1);
    close(silent);
    close(fd);
    close(listener);
}

static void certificates_that_cannot_be_read_are_told(void **state) {
    char error[256] = "";
    struct peer_tls_options nowhere = files[0].options;
    nowhere.ca_file = "/nowhere/ca.crt";
    struct peers_options options = {.cluster_id = CLUSTER, .self_id = A, .tls = &nowhere};
    struct node other = {.id = A};
    assert_int_equal(
        peers_open(&loop, &options, &callbacks, &other, &other.peers, error, sizeof error),
        STATUS_INVALID);
    assert_non_null(strstr(error, "/nowhere/ca.crt"));
    node_close(&other);
}

#define TLS_TEST(name) cmocka_unit_test_setup_teardown(name, set_up_tls, tear_down_tls)

int main(void) {
    const struct CMUnitTest tests[] = {
        TLS_TEST(frames_arrive_in_order_in_both_directions),
        TLS_TEST(large_frames_arrive_whole),
        TLS_TEST(a_link_that_broke_is_opened_again),
        TLS_TEST(a_connection_for_raft_outlives_the_peers),
        TLS_TEST(a_hello_is_judged_behind_tls_too),
        TLS_TEST(plain_text_and_tls_do_not_mix),
        TLS_TEST(cancelled_at_any_turn_a_dial_ends_once),
        TLS_TEST(strangers_are_bounded_before_tls_is_agreed_on),
        TLS_TEST(who_agrees_on_tls_and_says_nothing_is_dropped_in_the_end),
        TLS_TEST(closing_leaves_nothing_behind_whatever_is_under_way),
        TLS_TEST(certificates_that_cannot_be_read_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
