#include "peer_links_fixture.h"

/* --- Frames. --- */

static void frames_arrive_in_order_in_both_directions(void **state) {
    assert_false(peers_is_linked(a.peers, B));
    assert_int_equal(peers_room(a.peers, B), 0);
    assert_false(send_note(&a, B, 0));
    link_both();
    for (uint64_t i = 0; i < 1000; i++) {
        assert_true(send_note(&a, B, i));
        assert_true(send_note(&b, A, i));
        if (i % 7 == 0) {
            peers_flush(a.peers);
            peers_flush(b.peers);
        }
    }
    peers_flush(a.peers);
    peers_flush(b.peers);
    peers_flush(b.peers); /* there is nothing more */
    WAIT_UNTIL(a.n_notes == 1000 && b.n_notes == 1000);
    assert_int_equal(a.n_lost + b.n_lost, 0);
    assert_false(send_note(&a, 99, 0));
}

static void a_link_tells_the_timers_of_the_other_side(void **state) {
    link_both();
    assert_int_equal(a.n_opened, 1);
    assert_int_equal(a.opened_hello.heartbeat_ms, 100 + B);
    assert_int_equal(a.opened_hello.election_ms, 1000 + B);
    assert_int_equal(a.opened_hello.data_dir_id, B);
    assert_string_equal(a.opened_hello.address, b.address);
    assert_int_equal(b.opened_hello.election_ms, 1000 + A);
}

static void nothing_leaves_before_it_is_flushed(void **state) {
    link_both();
    assert_true(send_note(&a, B, 0));
    assert_true(send_note(&b, A, 0));
    peers_flush(b.peers);
    WAIT_UNTIL(a.n_notes == 1);
    assert_int_equal(b.n_notes, 0);
    peers_flush(a.peers);
    WAIT_UNTIL(b.n_notes == 1);
}

static void large_frames_arrive_whole(void **state) {
    enum { N = 3 };
    link_both();
    b.bulk_size = PEER_FRAME_SIZE_MAX;
    for (uint64_t n = 0; n < N; n++) {
        WAIT_UNTIL(peers_room(a.peers, B) == PEERS_QUEUE_SIZE_MAX);
        assert_true(send_bulk(&a, B, n, b.bulk_size));
        assert_int_equal(peers_room(a.peers, B), 0);
        peers_flush(a.peers);
        WAIT_UNTIL(peers_room(a.peers, B) > 0);
        assert_true(send_note(&a, B, n));
        peers_flush(a.peers);
    }
    WAIT_UNTIL(b.n_bulks == N && b.n_notes == N);
    assert_int_equal(a.n_lost, 0);
}

static void a_member_that_reads_nothing_is_sent_no_more_at_some_point(void **state) {
    enum { SIZE = 1024 * 1024 };
    uint16_t port;
    char address[32];
    if (mode != PLAIN) {
        return;
    }
    int listener = raw_listen(&port);
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    peers_set_member(a.peers, C, address);
    int fd = raw_accept(listener);
    raw_answer(fd, C, PEER_WELCOME);
    WAIT_UNTIL(peers_is_linked(a.peers, C));
    size_t n = 0;
    while (send_bulk(&a, C, n, SIZE)) {
        peers_flush(a.peers);
        n++;
        uv_run(&loop, UV_RUN_NOWAIT);
        assert_true(n < 1000);
    }
    assert_int_equal(peers_room(a.peers, C), 0);
    assert_int_equal(a.n_lost, 0);
    /* What is urgent has a reserve, and that has an end too. */
    size_t n_urgent = 0;
    struct buffer *frame;
    while ((frame = peers_frame_begin(a.peers, C, NOTE, true)) != NULL) {
        buffer_put_u64(frame, n_urgent++);
        peers_frame_end(a.peers, C);
        assert_true(n_urgent < 10 * 1000 * 1000);
    }
    assert_true(n_urgent * (8 + PEER_FRAME_PREFIX_SIZE) >= PEERS_URGENT_SIZE_MAX - 16);
    /* It is given up soon, since it acknowledges nothing. */
    WAIT_UNTIL(a.n_lost == 1);
    assert_int_equal(a.lost_id, C);
    close(fd);
    close(listener);
}

static void an_idle_link_is_kept_alive(void **state) {
    if (mode == PLAIN || mode == SECRET_AND_CERTIFICATES) {
        return; /* as in the other two */
    }
    link_both();
    run_for(1500);
    /* A second connection of the same member is refused: the first one is alive. */
    assert_int_equal(a.n_lost + b.n_lost, 0);
    if (a.tls != NULL) {
        return;
    }
    int fd = raw_connect(a.port);
    struct peer_hello hello = a_hello(B, A, PEER_FOR_LINK);
    assert_int_equal(raw_call(fd, &hello, a.secret, NULL), PEER_BUSY);
    assert_int_equal(raw_read(fd), -1);
    close(fd);
    assert_true(send_note(&b, A, 0));
    peers_flush(b.peers);
    WAIT_UNTIL(a.n_notes == 1);
}

/* --- Links. --- */

static void a_link_that_broke_is_opened_again(void **state) {
    link_both();
    for (unsigned round = 1; round <= 3; round++) {
        node_close(&b);
        WAIT_UNTIL(!peers_is_linked(a.peers, B));
        assert_int_equal(a.n_lost, round);
        assert_int_equal(a.lost_id, B);
        assert_false(send_note(&a, B, 0));
        assert_int_equal(node_try_open(&b), STATUS_OK);
        WAIT_UNTIL(peers_is_linked(a.peers, B));
        assert_true(send_note(&a, B, b.n_notes));
        peers_flush(a.peers);
        WAIT_UNTIL(b.n_notes == round);
    }
}

static void what_was_queued_when_a_link_broke_is_not_sent_later(void **state) {
    link_both();
    assert_true(send_note(&a, B, 77));
    node_close(&b);
    WAIT_UNTIL(a.n_lost == 1);
    assert_int_equal(node_try_open(&b), STATUS_OK);
    WAIT_UNTIL(peers_is_linked(a.peers, B));
    assert_true(send_note(&a, B, 0));
    peers_flush(a.peers);
    WAIT_UNTIL(b.n_notes == 1);
}

static void a_link_waits_for_a_member_that_is_not_ready_yet(void **state) {
    node_close(&b);
    int listener = raw_listen(&b.port);
    snprintf(b.address, sizeof b.address, "127.0.0.1:%u", b.port);
    peers_set_member(a.peers, B, b.address);
    for (size_t i = 0; i < 4; i++) {
        int fd = raw_accept(listener);
        if (i % 2 == 1) {
            raw_send(fd, "\2", 1);
        }
        close(fd);
    }
    close(listener);
    assert_false(peers_is_linked(a.peers, B));
    assert_int_equal(a.n_lost, 0);
    assert_int_equal(node_try_open(&b), STATUS_OK);
    WAIT_UNTIL(peers_is_linked(a.peers, B));
}

static void a_member_that_calls_is_dialled_at_once(void **state) {
    node_close(&b);
    peers_set_member(a.peers, B, b.address);
    run_for(150); /* refused at least once */
    assert_int_equal(node_try_open(&b), STATUS_OK);
    uint64_t start_ms = clock_boottime_ms();
    peers_set_member(b.peers, A, a.address);
    WAIT_UNTIL(peers_is_linked(b.peers, A) && peers_is_linked(a.peers, B));
    assert_true(clock_boottime_ms() - start_ms < 1000);
}

static void a_member_that_speaks_on_our_link_is_dropped(void **state) {
    uint16_t port;
    char address[32];
    if (a.tls != NULL) {
        return;
    }
    int listener = raw_listen(&port);
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    peers_set_member(a.peers, C, address);
    int fd = raw_accept(listener);
    raw_answer(fd, C, PEER_WELCOME);
    WAIT_UNTIL(peers_is_linked(a.peers, C));
    raw_send(fd, "x", 1);
    WAIT_UNTIL(a.n_lost == 1);
    assert_int_equal(a.lost_id, C);
    close(fd);
    close(listener);
}

static void a_welcome_of_somebody_else_is_no_welcome(void **state) {
    uint16_t port;
    char address[32];
    if (a.tls != NULL) {
        return;
    }
    int listener = raw_listen(&port);
    snprintf(address, sizeof address, "127.0.0.1:%u", port);
    peers_set_member(a.peers, C, address);
    int fd = raw_accept(listener);
    raw_answer(fd, B, PEER_WELCOME);
    assert_int_equal(raw_read(fd), -1);
    assert_int_equal(a.n_opened, 0);
    close(fd);
    close(listener);
}

static void a_member_that_is_removed_is_let_go(void **state) {
    link_both();
    peers_remove_member(a.peers, B);
    assert_int_equal(a.n_lost, 1);
    assert_false(peers_is_linked(a.peers, B));
    assert_false(send_note(&a, B, 0));
    peers_remove_member(a.peers, B);
    peers_remove_member(a.peers, 99);
    assert_int_equal(a.n_lost, 1);
    /* While the dial is under way, with writes queued, and at once again. */
    peers_set_member(a.peers, B, b.address);
    peers_remove_member(a.peers, B);
    peers_set_member(a.peers, B, b.address);
    WAIT_UNTIL(peers_is_linked(a.peers, B));
    assert_true(send_note(&a, B, 5));
    peers_remove_member(a.peers, B);
    peers_set_member(a.peers, B, b.address);
    WAIT_UNTIL(peers_is_linked(a.peers, B));
    assert_true(send_note(&a, B, 0));
    peers_flush(a.peers);
    WAIT_UNTIL(b.n_notes == 1);
}

static void a_new_address_replaces_the_old_one(void **state) {
    link_both();
    node_close(&b);
    b.port = free_port();
    snprintf(b.address, sizeof b.address, "127.0.0.1:%u", b.port);
    assert_int_equal(node_try_open(&b), STATUS_OK);
    peers_set_member(a.peers, B, b.address);
    WAIT_UNTIL(a.n_lost == 1);
    WAIT_UNTIL(peers_is_linked(a.peers, B));
    peers_set_member(a.peers, B, b.address); /* as before */
    assert_true(peers_is_linked(a.peers, B));
}

static void a_new_address_is_for_the_next_link(void **state) {
    char nobody[32];
    link_both();
    snprintf(nobody, sizeof nobody, "127.0.0.1:%u", free_port());
    peers_set_member(a.peers, B, nobody);
    run_for(150);
    assert_true(peers_is_linked(a.peers, B));
    assert_int_equal(a.n_lost, 0);
    assert_true(send_note(&a, B, 0));
    peers_flush(a.peers);
    WAIT_UNTIL(b.n_notes == 1);
}

static void a_name_is_looked_up(void **state) {
    char address[32];
    if (a.tls != NULL) {
        return; /* the certificate is for 127.0.0.1 */
    }
    snprintf(address, sizeof address, "localhost:%u", b.port);
    peers_set_member(a.peers, B, address);
    WAIT_UNTIL(peers_is_linked(a.peers, B));
}

static void an_address_that_makes_no_sense_does_no_harm(void **state) {
    static const char *const addresses[] = {
        "", "nowhere", ":1", "127.0.0.1:0", "127.0.0.1:99999", "[::1]:x"};
    for (size_t i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        peers_set_member(a.peers, B, addresses[i]);
        run_for(20);
        assert_false(peers_is_linked(a.peers, B));
    }
    run_for(150);
    peers_set_member(a.peers, B, b.address);
    WAIT_UNTIL(peers_is_linked(a.peers, B));
}

static void close_in_frame(struct node *node) {
    peers_close(node->peers, on_closed, node);
}

static void closing_inside_a_frame_ends_everything(void **state) {
    link_both();
    for (uint64_t i = 0; i < 100; i++) {
        assert_true(send_note(&a, B, i));
    }
    b.on_frame = close_in_frame;
    peers_flush(a.peers);
    WAIT_UNTIL(b.is_closed);
    assert_int_equal(b.n_notes, 1);
    WAIT_UNTIL(a.n_lost == 1);
}

static void check_in_frame(struct node *node) {
    refused_id = A;
    peers_check_inbound(node->peers);
}

static void a_member_that_is_refused_inside_its_frame_is_gone(void **state) {
    link_both();
    for (uint64_t i = 0; i < 100; i++) {
        assert_true(send_note(&a, B, i));
    }
    b.on_frame = check_in_frame;
    peers_flush(a.peers);
    WAIT_UNTIL(a.n_lost == 1);
    assert_int_equal(b.n_notes, 1);
}

static void a_frame_that_is_refused_ends_the_connection(void **state) {
    link_both();
    b.is_refusing_frames = true;
    uint64_t n_before = peers_n_refused(b.peers);
    assert_true(send_note(&a, B, 0));
    assert_true(send_note(&a, B, 1));
    peers_flush(a.peers);
    WAIT_UNTIL(a.n_lost == 1);
    assert_int_equal(b.n_notes, 0);
    assert_true(peers_n_refused(b.peers) > n_before);
}

/* --- Refusals. --- */

static void who_was_removed_is_told(void **state) {
    node_close(&b);
    b.id = REMOVED;
    assert_int_equal(node_try_open(&b), STATUS_OK);
    peers_set_member(b.peers, A, a.address);
    WAIT_UNTIL(b.n_turned_away >= 2);
    assert_int_equal(b.turned_away, PEER_REMOVED);
    assert_false(peers_is_linked(b.peers, A));
}

static void whose_data_directory_was_replaced_is_told(void **state) {
    node_close(&b);
    b.data_dir_id = REPLACED_DATA_DIR;
    assert_int_equal(node_try_open(&b), STATUS_OK);
    peers_set_member(b.peers, A, a.address);
    WAIT_UNTIL(b.n_turned_away >= 1);
    assert_int_equal(b.turned_away, PEER_DISK_REPLACED);
}

static void who_is_no_member_is_told(void **state) {
    refused_id = B;
    peers_set_member(b.peers, A, a.address);
    WAIT_UNTIL(b.n_turned_away >= 1);
    assert_int_equal(b.turned_away, PEER_NOT_A_MEMBER);
    refused_id = 0;
    WAIT_UNTIL(peers_is_linked(b.peers, A));
}

static void a_node_of_another_cluster_gets_no_link(void **state) {
    node_close(&b);
    b.cluster_id = CLUSTER + 1;
    assert_int_equal(node_try_open(&b), STATUS_OK);
    peers_set_member(b.peers, A, a.address);
    WAIT_UNTIL(peers_n_refused(a.peers) >= 2);
    assert_int_equal(b.n_turned_away, 0);
    assert_false(peers_is_linked(b.peers, A));
}

static void a_member_that_is_refused_later_is_let_go(void **state) {
    link_both();
    peers_check_inbound(a.peers);
    assert_int_equal(b.n_lost, 0);
    refused_id = B;
    peers_check_inbound(a.peers);
    WAIT_UNTIL(b.n_lost == 1);
    WAIT_UNTIL(b.n_turned_away >= 1);
    refused_id = 0;
    WAIT_UNTIL(peers_is_linked(b.peers, A));
}

static void a_port_that_is_taken_is_told(void **state) {
    struct node other = b;
    other.peers = NULL;
    assert_int_equal(node_try_open(&other), STATUS_IO);
    assert_null(other.peers);
}

/* --- Asking. --- */

struct asked {
    struct buffer body;
    const char *reason;
    unsigned n;
};

static void on_answer(void *data, struct bytes body, const char *reason) {
    struct asked *asked = data;
    asked->n++;
    asked->reason = reason;
    buffer_append(&asked->body, body.data, body.size);
}

static struct asked ask(const char *address, struct bytes secret, struct tls_context *tls) {
    struct asked asked = {0};
    struct peer_ask_options options = {
        .address = address, .id = 77, .secret = secret, .tls = tls, .timeout_ms = 3000};
    (void)peer_ask_start(&loop, &options, on_answer, &asked);
    assert_int_equal(asked.n, 0);
    WAIT_UNTIL(asked.n == 1);
    return asked;
}

static struct tls_context *own_context(void) {
    char error[256];
    struct tls_context *context = NULL;
    if (a.tls != NULL) {
        assert_int_equal(tls_context_create(a.tls, &context, error, sizeof error), STATUS_OK);
    }
    return context;
}

static void who_asks_is_answered(void **state) {
    struct tls_context *tls = own_context();
    struct asked asked = ask(a.address, a.secret, tls);
    assert_null(asked.reason);
    assert_int_equal(asked.body.size, 12 + 8);
    assert_memory_equal(asked.body.data, "members for M", 13);
    buffer_clear(&asked.body);
    char nowhere[32];
    snprintf(nowhere, sizeof nowhere, "127.0.0.1:%u", free_port());
    asked = ask(nowhere, a.secret, tls);
    assert_non_null(asked.reason);
    /* Cancelled, nothing is called. */
    struct peer_ask_options options = {.address = a.address, .secret = a.secret, .tls = tls};
    struct asked cancelled = {0};
    for (unsigned n = 0; n < 12; n++) {
        struct peer_ask *ask = peer_ask_start(&loop, &options, on_answer, &cancelled);
        for (unsigned i = 0; i < n && cancelled.n == 0; i++) {
            uv_run(&loop, UV_RUN_NOWAIT);
        }
        if (cancelled.n == 0) {
            peer_ask_cancel(ask);
        }
        run_for(10);
        assert_true(cancelled.n <= 1);
        cancelled.n = 0;
        buffer_clear(&cancelled.body);
    }
    run_for(20);
    tls_context_destroy(tls);
}

/* --- Closing. --- */

/* Whatever is under way: after each number of iterations, on either side, with writes queued. */
static void closing_at_every_step_leaves_nothing_behind(void **state) {
    a.is_careless = true;
    b.is_careless = true;
    for (unsigned n = 0; n < 44; n++) {
        struct node *node = n % 2 == 0 ? &a : &b;
        peers_set_member(a.peers, B, b.address);
        peers_set_member(b.peers, A, a.address);
        for (unsigned i = 0; i < n / 2; i++) {
            uv_run(&loop, n % 3 == 0 ? UV_RUN_ONCE : UV_RUN_NOWAIT);
            (void)send_bulk(&a, B, 0, 100 * 1000);
            peers_flush(a.peers);
            (void)send_note(&a, B, 0);
        }
        node_close(node);
        assert_int_equal(node_try_open(node), STATUS_OK);
    }
}

/* Whoever is slow to learn of it does no harm. */
static void nothing_happens_after_closing(void **state) {
    link_both();
    struct peers *closing = a.peers;
    unsigned n_calls = a.n_calls;
    peers_close(closing, on_closed, &a);
    assert_null(peers_frame_begin(closing, B, NOTE, true));
    assert_int_equal(peers_room(closing, B), 0);
    assert_false(peers_is_linked(closing, B));
    peers_set_member(closing, B, b.address);
    peers_set_member(closing, C, "127.0.0.1:1");
    peers_remove_member(closing, B);
    peers_check_inbound(closing);
    peers_flush(closing);
    WAIT_UNTIL(a.is_closed);
    assert_int_equal(a.n_calls, n_calls);
}

static void closing_with_much_queued_leaves_nothing_behind(void **state) {
    link_both();
    b.bulk_size = PEER_FRAME_SIZE_MAX;
    while (send_bulk(&a, B, 0, PEER_FRAME_SIZE_MAX)) {
        peers_flush(a.peers);
    }
    node_close(&a);
    node_close(&b);
}

static int run_in(enum mode in) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(frames_arrive_in_order_in_both_directions, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_link_tells_the_timers_of_the_other_side, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(nothing_leaves_before_it_is_flushed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(large_frames_arrive_whole, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_member_that_reads_nothing_is_sent_no_more_at_some_point,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_idle_link_is_kept_alive, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_link_that_broke_is_opened_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_was_queued_when_a_link_broke_is_not_sent_later, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_link_waits_for_a_member_that_is_not_ready_yet, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_member_that_calls_is_dialled_at_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_member_that_speaks_on_our_link_is_dropped, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_welcome_of_somebody_else_is_no_welcome, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_member_that_is_removed_is_let_go, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_new_address_replaces_the_old_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_new_address_is_for_the_next_link, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_name_is_looked_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_address_that_makes_no_sense_does_no_harm, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(closing_inside_a_frame_ends_everything, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_member_that_is_refused_inside_its_frame_is_gone, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_frame_that_is_refused_ends_the_connection, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(who_was_removed_is_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(whose_data_directory_was_replaced_is_told, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(who_is_no_member_is_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_node_of_another_cluster_gets_no_link, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_member_that_is_refused_later_is_let_go, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_port_that_is_taken_is_told, set_up, tear_down),
        cmocka_unit_test_setup_teardown(who_asks_is_answered, set_up, tear_down),
        cmocka_unit_test_setup_teardown(closing_at_every_step_leaves_nothing_behind, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(nothing_happens_after_closing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(closing_with_much_queued_leaves_nothing_behind, set_up,
                                        tear_down),
    };
    mode = in;
    return cmocka_run_group_tests_name(mode_names[in], tests, NULL, NULL);
}

int main(void) {
    fixture_begin();
    int n_failed = 0;
    for (enum mode in = PLAIN; in <= SECRET_AND_CERTIFICATES; in++) {
        n_failed += run_in(in);
    }
    fixture_end();
    return n_failed;
}
