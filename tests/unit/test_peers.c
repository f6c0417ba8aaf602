#include "peers_fixture.h"

/* --- Links. --- */

static void frames_arrive_in_order_in_both_directions(void **state) {
    assert_false(peers_is_linked(a.peers, B));
    assert_false(send_ping(&a, B, 0));
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
    peers_flush(b.peers); /* there is nothing more */
    WAIT_UNTIL(a.n_pings == 1000 && b.n_pings == 1000);
    assert_int_equal(a.n_lost + b.n_lost, 0);
    assert_false(send_ping(&a, 99, 0));
}

static void nothing_leaves_before_it_is_flushed(void **state) {
    link_both();
    assert_true(send_ping(&a, B, 0));
    assert_true(send_ping(&b, A, 0));
    peers_flush(b.peers);
    WAIT_UNTIL(a.n_pings == 1);
    assert_int_equal(b.n_pings, 0);
    peers_flush(a.peers);
    WAIT_UNTIL(b.n_pings == 1);
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
        assert_true(send_ping(&a, B, n));
        peers_flush(a.peers);
    }
    free(commands);
    WAIT_UNTIL(b.n_proposes == N && b.n_pings == N);
    assert_int_equal(b.n_lost, 0);
}

static void a_link_that_broke_is_opened_again(void **state) {
    link_both();
    for (unsigned round = 1; round <= 3; round++) {
        node_close(&b);
        WAIT_UNTIL(!peers_is_linked(a.peers, B));
        assert_int_equal(a.n_lost, round);
        assert_int_equal(a.lost_id, B);
        assert_false(send_ping(&a, B, 0));
        assert_int_equal(node_try_open(&b), STATUS_OK);
        WAIT_UNTIL(peers_is_linked(a.peers, B));
        assert_true(send_ping(&a, B, b.n_pings));
        peers_flush(a.peers);
        WAIT_UNTIL(b.n_pings == round);
    }
}

static void what_was_queued_when_a_link_broke_is_not_sent_later(void **state) {
    link_both();
    assert_true(send_ping(&a, B, 77));
    node_close(&b);
    WAIT_UNTIL(a.n_lost == 1);
    assert_int_equal(node_try_open(&b), STATUS_OK);
    WAIT_UNTIL(peers_is_linked(a.peers, B));
    assert_true(send_ping(&a, B, 0));
    peers_flush(a.peers);
    WAIT_UNTIL(b.n_pings == 1);
}

static void a_link_waits_for_a_member_that_is_not_ready_yet(void **state) {
    node_close(&b);
    int listener = raw_listen(&b.port);
    snprintf(b.address, sizeof b.address, "127.0.0.1:%u", b.port);
    peers_set_member(a.peers, B, b.address);
    for (size_t i = 0; i < 4; i++) {
        int fd = raw_accept(listener);
        if (i % 2 == 1) {
            raw_send(fd, "\2", 1); /* refused */
        }
        close(fd);
    }
    close(listener);
    assert_false(peers_is_linked(a.peers, B));
    assert_int_equal(a.n_lost, 0);
    assert_int_equal(node_try_open(&b), STATUS_OK);
    WAIT_UNTIL(peers_is_linked(a.peers, B));
}

static void a_member_that_speaks_on_our_link_is_dropped(void **state) {
    uint16_t port;
    char address[32];
    int listener = raw_listen(&port);
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    peers_set_member(a.peers, 9, address);
    int fd = raw_accept(listener);
    raw_welcome(fd);
    WAIT_UNTIL(peers_is_linked(a.peers, 9));
    raw_send(fd, "x", 1);
    WAIT_UNTIL(a.n_lost == 1);
    assert_int_equal(a.lost_id, 9);
    assert_int_equal(raw_read(fd), -1);
    close(fd);
    close(listener);
}

static void a_member_that_is_removed_is_let_go(void **state) {
    link_both();
    peers_remove_member(a.peers, B);
    assert_false(peers_is_linked(a.peers, B));
    assert_false(send_ping(&a, B, 0));
    peers_remove_member(a.peers, B);
    peers_remove_member(a.peers, 99);
    /* While the dial is under way, with writes queued, and at once again. */
    peers_set_member(a.peers, B, b.address);
    peers_remove_member(a.peers, B);
    peers_set_member(a.peers, B, b.address);
    WAIT_UNTIL(peers_is_linked(a.peers, B));
    assert_true(send_ping(&a, B, 5));
    peers_remove_member(a.peers, B);
    peers_set_member(a.peers, B, b.address);
    WAIT_UNTIL(peers_is_linked(a.peers, B));
    assert_true(send_ping(&a, B, 0));
    peers_flush(a.peers);
    WAIT_UNTIL(b.n_pings == 1);
}

static void a_new_address_replaces_the_old_one(void **state) {
    uint16_t port;
    char address[32];
    int listener = raw_listen(&port);
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    peers_set_member(a.peers, B, address);
    int fd = raw_accept(listener);
    raw_welcome(fd);
    WAIT_UNTIL(peers_is_linked(a.peers, B));
    peers_set_member(a.peers, B, address); /* the same: nothing happens */
    assert_true(peers_is_linked(a.peers, B));
    peers_set_member(a.peers, B, b.address);
    assert_int_equal(raw_read(fd), -1);
    WAIT_UNTIL(peers_is_linked(a.peers, B));
    assert_true(send_ping(&a, B, 0));
    peers_flush(a.peers);
    WAIT_UNTIL(b.n_pings == 1);
    close(fd);
    close(listener);
}

static void a_member_that_reads_nothing_is_sent_no_more_at_some_point(void **state) {
    enum { SIZE = 1024 * 1024 };
    uint16_t port;
    char address[32];
    uint8_t *commands = calloc(1, SIZE);
    assert_non_null(commands);
    int listener = raw_listen(&port);
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    peers_set_member(a.peers, 9, address);
    int fd = raw_accept(listener);
    raw_welcome(fd);
    WAIT_UNTIL(peers_is_linked(a.peers, 9));
    struct peer_frame frame = {.type = PEER_PROPOSE};
    frame.propose.commands = bytes_of(commands, SIZE);
    size_t n = 0;
    while (peers_send(a.peers, 9, &frame)) {
        n++;
        peers_flush(a.peers);
        assert_true(n < 100);
    }
    assert_true(n >= QUEUE_SIZE_MAX / SIZE);
    assert_true(peers_is_linked(a.peers, 9));
    free(commands);
    /* Closed with all of it on its way. */
    node_close(&a);
    close(fd);
    close(listener);
}

/* --- Raft's connections. --- */

static void a_connection_for_raft_is_handed_over(void **state) {
    struct dialled dialled = {0};
    peers_dial_raft(a.peers, B, b.address, on_dialled, &dialled);
    assert_int_equal(dialled.n, 0);
    WAIT_UNTIL(dialled.n == 1 && b.raft != NULL);
    assert_non_null(dialled.stream);
    assert_string_equal(b.raft_address, a.address);
    /* It is theirs: it outlives the peers. */
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
    close_stream(b.raft);
}

static void raft_may_not_speak_before_it_is_welcome(void **state) {
    struct buffer bytes;
    buffer_init(&bytes);
    struct peer_hello hello = a_hello(A, B, PEER_FOR_RAFT);
    peer_hello_encode(&bytes, &hello);
    buffer_put_u8(&bytes, 'x');
    int fd = raw_connect(b.port);
    raw_send(fd, bytes.data, bytes.size);
    assert_int_equal(raw_read(fd), PEER_WELCOME);
    assert_int_equal(raw_read(fd), -1);
    assert_null(b.raft);
    close(fd);
    buffer_clear(&bytes);
}

/* --- Strangers. --- */

static void who_belongs_elsewhere_is_told_so(void **state) {
    static const struct {
        uint64_t cluster_id;
        uint64_t to_id;
        enum peer_answer answer;
    } cases[] = {{CLUSTER + 1, B, PEER_OTHER_CLUSTER}, {CLUSTER, A, PEER_OTHER_MEMBER}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct dialled dialled = {0};
        struct peer_hello hello = a_hello(A, cases[i].to_id, PEER_FOR_LINK);
        hello.cluster_id = cases[i].cluster_id;
        peer_dial_start(&loop, NULL, b.address, &hello, on_dialled, &dialled);
        WAIT_UNTIL(dialled.n == 1);
        assert_null(dialled.stream);
        assert_string_equal(dialled.reason, peer_answer_text(cases[i].answer));
    }
}

static void who_is_no_member_is_told_so(void **state) {
    static const enum peer_purpose purposes[] = {PEER_FOR_LINK, PEER_FOR_RAFT};
    static const uint64_t ids[] = {99, B}; /* a stranger, and one who takes our own name */
    for (size_t i = 0; i < 4; i++) {
        struct dialled dialled = {0};
        struct peer_hello hello = a_hello(ids[i / 2], B, purposes[i % 2]);
        peer_dial_start(&loop, NULL, b.address, &hello, on_dialled, &dialled);
        WAIT_UNTIL(dialled.n == 1);
        assert_null(dialled.stream);
        assert_string_equal(dialled.reason, peer_answer_text(PEER_NOT_A_MEMBER));
        assert_null(b.raft);
    }
}

static void a_node_of_another_cluster_gets_no_link(void **state) {
    struct node other = {.id = A, .port = free_port()};
    struct peers_options options = {
        .cluster_id = CLUSTER + 1, .self_id = A, .address = other.address};
    assert_int_equal(peers_open(&loop, &options, &callbacks, &other, &other.peers, (char[8]){0}, 8),
                     STATUS_OK);
    peers_set_member(other.peers, B, b.address);
    /* Long enough for several attempts. */
    uint64_t until_ms = clock_boottime_ms() + 350;
    WAIT_UNTIL(clock_boottime_ms() >= until_ms);
    assert_false(peers_is_linked(other.peers, B));
    node_close(&other);
}

static void a_hello_may_come_byte_by_byte(void **state) {
    struct buffer bytes;
    struct peer_frame ping = {.type = PEER_PING};
    struct peer_hello hello = a_hello(A, B, PEER_FOR_LINK);
    buffer_init(&bytes);
    peer_hello_encode(&bytes, &hello);
    peer_frame_encode(&bytes, &ping);
    int fd = raw_connect(b.port);
    for (size_t i = 0; i < bytes.size; i++) {
        raw_send(fd, bytes.data + i, 1);
        uv_run(&loop, UV_RUN_ONCE);
    }
    assert_int_equal(raw_read(fd), PEER_WELCOME);
    WAIT_UNTIL(b.n_pings == 1);
    close(fd);
    /* And frames may come together with it. */
    b.n_pings = 0;
    fd = raw_connect(b.port);
    raw_send(fd, bytes.data, bytes.size);
    assert_int_equal(raw_read(fd), PEER_WELCOME);
    WAIT_UNTIL(b.n_pings == 1);
    close(fd);
    buffer_clear(&bytes);
}

static void who_says_nothing_is_dropped_in_the_end(void **state) {
    uint64_t start_ms = clock_boottime_ms();
    int silent = raw_connect(b.port);
    int slow = raw_connect(b.port);
    raw_send(slow, "leasedpr", 8);
    assert_int_equal(raw_read(silent), -1);
    assert_int_equal(raw_read(slow), -1);
    /* The loop's clock is a little behind. */
    assert_true(clock_boottime_ms() - start_ms >= HELLO_TIMEOUT_MS - 50);
    close(silent);
    close(slow);
}

static void who_was_welcomed_may_be_silent(void **state) {
    int fd = raw_connect(b.port);
    struct peer_hello hello = a_hello(A, B, PEER_FOR_LINK);
    raw_hello(fd, &hello);
    assert_int_equal(raw_read(fd), PEER_WELCOME);
    /* One that is not welcomed tells when the time is over. */
    int silent = raw_connect(b.port);
    assert_int_equal(raw_read(silent), -1);
    assert_true(raw_is_open(fd));
    close(silent);
    close(fd);
}

static void garbage_is_dropped_at_once(void **state) {
    static const char *const garbage[] = {"GET / HTTP/1.1\r\n\r\n",
                                          "leasedpr\1\0\0\0\xff\xff\xff\xff"};
    for (size_t i = 0; i < 2; i++) {
        uint64_t start_ms = clock_boottime_ms();
        int fd = raw_connect(b.port);
        raw_send(fd, garbage[i], PEER_HELLO_PREFIX_SIZE);
        assert_int_equal(raw_read(fd), -1);
        assert_true(clock_boottime_ms() - start_ms < HELLO_TIMEOUT_MS - 50);
        close(fd);
    }
}

static void garbage_behind_a_hello_ends_the_link(void **state) {
    static const struct {
        const char *bytes;
        size_t size;
    } garbage[] = {{"\0\0\0\0", 4}, {"\1\0\0\0\xee", 5}, {"\xff\xff\xff\xff", 4}};
    for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++) {
        int fd = raw_connect(b.port);
        struct peer_hello hello = a_hello(A, B, PEER_FOR_LINK);
        raw_hello(fd, &hello);
        assert_int_equal(raw_read(fd), PEER_WELCOME);
        raw_send(fd, garbage[i].bytes, garbage[i].size);
        assert_int_equal(raw_read(fd), -1);
        close(fd);
    }
    assert_int_equal(b.n_lost, 0); /* our link to it is another */
}

static void too_many_strangers_are_turned_away(void **state) {
    int fds[STRANGERS_MAX];
    for (size_t i = 0; i < STRANGERS_MAX; i++) {
        fds[i] = raw_connect(b.port);
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    int more = raw_connect(b.port);
    assert_int_equal(raw_read(more), -1);
    close(more);
    for (size_t i = 0; i < STRANGERS_MAX; i++) {
        assert_true(raw_is_open(fds[i]));
    }
    /* Whoever tells who he is makes room, and so does whoever goes. */
    struct peer_hello hello = a_hello(A, B, PEER_FOR_LINK);
    raw_hello(fds[0], &hello);
    assert_int_equal(raw_read(fds[0]), PEER_WELCOME);
    more = raw_connect(b.port);
    raw_hello(more, &hello);
    assert_int_equal(raw_read(more), PEER_WELCOME);
    close(more);
    for (size_t i = 0; i < STRANGERS_MAX; i++) {
        close(fds[i]);
    }
    peers_set_member(a.peers, B, b.address);
    WAIT_UNTIL(peers_is_linked(a.peers, B));
}

/* --- The end. --- */

static void closing_leaves_nothing_behind_whatever_is_under_way(void **state) {
    uint16_t port;
    char address[32];
    int listener = raw_listen(&port);
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    link_both();
    int silent = raw_connect(a.port);
    peers_set_member(a.peers, 9, address); /* connects, and is never answered */
    peers_set_member(a.peers, 10, "nonsense");
    int fd = raw_accept(listener);
    peers_set_member(a.peers, 11, address); /* still connecting */
    assert_true(send_ping(&a, B, 0));
    peers_flush(a.peers);
    assert_true(send_ping(&a, B, 1)); /* never flushed */
    assert_true(send_ping(&b, A, 0));
    peers_flush(b.peers);
    node_close(&a);
    assert_int_equal(a.n_lost, 0); /* who closes is not told of it */
    assert_int_equal(raw_read(silent), -1);
    close(silent);
    close(fd);
    close(listener);
}

static void a_port_that_is_taken_is_told(void **state) {
    struct node other = {.id = 3, .port = b.port};
    assert_int_equal(node_try_open(&other), STATUS_IO);
    assert_non_null(other.peers);
    node_close(&other);
}

/* --- Members that come and go. --- */

static void whoever_asks_is_told_who_belongs_to_the_cluster(void **state) {
    struct arena arena;
    arena_init(&arena);
    for (uint64_t id = 0; id <= REMOVED; id += REMOVED) {
        int fd = raw_connect(a.port);
        struct peer_hello hello = {.from_id = id, .purpose = PEER_TO_ASK};
        raw_hello(fd, &hello);
        assert_int_equal(raw_read(fd), PEER_WELCOME);
        uint8_t bytes[512];
        size_t size = 0;
        for (int byte; (byte = raw_read(fd)) >= 0;) {
            assert_true(size < sizeof bytes);
            bytes[size++] = (uint8_t)byte;
        }
        struct bytes left = bytes_of(bytes, size);
        struct peer_frame frame;
        assert_int_equal(peer_frame_decode(&left, &arena, &frame), STATUS_OK);
        assert_int_equal(frame.type, PEER_MEMBERS);
        assert_int_equal(frame.members.cluster_id, CLUSTER);
        assert_int_equal(frame.members.is_removed, id == REMOVED);
        assert_int_equal(frame.members.n, 1);
        assert_int_equal(left.size, 0);
        close(fd);
    }
    arena_clear(&arena);
}

static void who_has_lost_its_disk_is_turned_away(void **state) {
    node_close(&b);
    b.birth = LOST_BIRTH;
    assert_int_equal(node_try_open(&b), STATUS_OK);
    peers_set_member(b.peers, A, a.address);
    WAIT_UNTIL(b.n_forgetful > 0);
    assert_false(peers_is_linked(b.peers, A));
    assert_int_equal(b.n_removed, 0);
}

static void who_was_removed_is_told_and_others_go_on(void **state) {
    link_both();
    refused_id = B;
    peers_check_visitors(a.peers);
    WAIT_UNTIL(b.n_lost == 1);
    assert_int_equal(b.n_removed, 0);
    refused_id = 0;
    WAIT_UNTIL(peers_is_linked(b.peers, A));
    node_close(&b);
    b.id = REMOVED;
    assert_int_equal(node_try_open(&b), STATUS_OK);
    peers_set_member(b.peers, A, a.address);
    WAIT_UNTIL(b.n_removed > 0);
    assert_false(peers_is_linked(b.peers, A));
    assert_int_equal(a.n_removed, 0);
}

#define PEERS_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        PEERS_TEST(whoever_asks_is_told_who_belongs_to_the_cluster),
        PEERS_TEST(who_has_lost_its_disk_is_turned_away),
        PEERS_TEST(who_was_removed_is_told_and_others_go_on),
        PEERS_TEST(frames_arrive_in_order_in_both_directions),
        PEERS_TEST(nothing_leaves_before_it_is_flushed),
        PEERS_TEST(large_frames_arrive_whole),
        PEERS_TEST(a_link_that_broke_is_opened_again),
        PEERS_TEST(what_was_queued_when_a_link_broke_is_not_sent_later),
        PEERS_TEST(a_link_waits_for_a_member_that_is_not_ready_yet),
        PEERS_TEST(a_member_that_speaks_on_our_link_is_dropped),
        PEERS_TEST(a_member_that_is_removed_is_let_go),
        PEERS_TEST(a_new_address_replaces_the_old_one),
        PEERS_TEST(a_member_that_reads_nothing_is_sent_no_more_at_some_point),
        PEERS_TEST(a_connection_for_raft_is_handed_over),
        PEERS_TEST(raft_may_not_speak_before_it_is_welcome),
        PEERS_TEST(who_belongs_elsewhere_is_told_so),
        PEERS_TEST(who_is_no_member_is_told_so),
        PEERS_TEST(a_node_of_another_cluster_gets_no_link),
        PEERS_TEST(a_hello_may_come_byte_by_byte),
        PEERS_TEST(who_says_nothing_is_dropped_in_the_end),
        PEERS_TEST(who_was_welcomed_may_be_silent),
        PEERS_TEST(garbage_is_dropped_at_once),
        PEERS_TEST(garbage_behind_a_hello_ends_the_link),
        PEERS_TEST(too_many_strangers_are_turned_away),
        PEERS_TEST(closing_leaves_nothing_behind_whatever_is_under_way),
        PEERS_TEST(a_port_that_is_taken_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
