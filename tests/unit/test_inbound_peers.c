/*
 * What callers may do to a member's peer port before and after they have proven who they are. The
 * tests run in a network of their own where the system allows it, so that callers come from several
 * hosts.
 */
#include "base/little_endian.h"
#include "peer_links_fixture.h"
#include "peers/large_frames.h"

#include <dirent.h>
#include <malloc.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>

enum {
    /* As in inbound_peers.c. */
    HANDSHAKE_MS = 2000,
    UNPROVEN_MAX = 16,
    UNPROVEN_OF_HOST_MAX = 4,
    UNLINKED_MAX = 16,
    ACCEPTS_MAX = 8,
    ALIVE_MS = 1000,
    N_HOSTS = 24,
    N_CALLERS = 40
};

static bool has_hosts;

/* --- Hosts. --- */

static bool add_address(int fd, unsigned number) {
    struct ifreq request = {0};
    struct sockaddr_in *address = (struct sockaddr_in *)&request.ifr_addr;
    snprintf(request.ifr_name, sizeof request.ifr_name, number == 0 ? "lo" : "lo:%u", number);
    if (number > 0) {
        address->sin_family = AF_INET;
        address->sin_addr.s_addr = htonl(0x0a090000 + number);
        if (ioctl(fd, SIOCSIFADDR, &request) != 0) {
            return false;
        }
    }
    request.ifr_flags = IFF_UP;
    return ioctl(fd, SIOCSIFFLAGS, &request) == 0;
}

/* 10.9.0.1 and so on, all on this machine's own lo. */
static bool make_hosts(void) {
    if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) {
        return false;
    }
    int fd = loopback_socket();
    bool is_made = true;
    for (unsigned i = 0; i <= N_HOSTS && is_made; i++) {
        is_made = add_address(fd, i);
    }
    close(fd);
    return is_made;
}

static int connect_from(unsigned host, uint16_t port) {
    int fd = loopback_socket();
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a090000 + host)};
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(0x0a090001)};
    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

static unsigned count_open(const int *fds, size_t n) {
    unsigned n_open = 0;
    for (size_t i = 0; i < n; i++) {
        n_open += raw_is_open(fds[i]);
    }
    return n_open;
}

static void close_all(const int *fds, size_t n) {
    for (size_t i = 0; i < n; i++) {
        close(fds[i]);
    }
}

/* --- Before the proof. --- */

static void a_hello_may_come_byte_by_byte(void **state) {
    struct buffer bytes;
    if (a.tls != NULL || a.secret.size > 0) {
        return;
    }
    struct peer_hello hello = a_hello(C, A, PEER_FOR_LINK);
    buffer_init(&bytes);
    peer_hello_encode(&bytes, &hello);
    int fd = raw_connect(a.port);
    for (size_t i = 0; i < bytes.size; i++) {
        raw_send(fd, bytes.data + i, 1);
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(raw_read(fd), PEER_WELCOME);
    buffer_clear(&bytes);
    close(fd);
}

static void who_says_nothing_is_dropped_in_the_end(void **state) {
    int fd = raw_connect(a.port);
    uint64_t start_ms = clock_boottime_ms();
    assert_int_equal(raw_read(fd), -1);
    uint64_t took_ms = clock_boottime_ms() - start_ms;
    assert_true(took_ms >= HANDSHAKE_MS - 200);
    assert_true(took_ms < HANDSHAKE_MS + 20000);
    close(fd);
}

/* The deadline is for the whole handshake, not for each byte. */
static void who_speaks_slowly_is_dropped_in_the_end(void **state) {
    static const uint8_t bytes[] = "leasedpr\3\0\0\0\x40\0\0\0";
    if (mode == SECRET) {
        return; /* as in plain text */
    }
    int fd = raw_connect(a.port);
    uint64_t start_ms = clock_boottime_ms();
    for (size_t i = 0; i < 16; i++) {
        (void)send(fd, bytes + i, 1, MSG_NOSIGNAL);
        run_for(170);
    }
    uint8_t byte;
    WAIT_UNTIL(recv(fd, &byte, 1, 0) == 0 || errno == ECONNRESET || errno == EPIPE);
    assert_true(clock_boottime_ms() - start_ms < HANDSHAKE_MS + 20000);
    close(fd);
}

static void who_was_welcomed_may_be_silent(void **state) {
    if (mode != SECRET) {
        return;
    }
    int fd = raw_connect(a.port);
    struct peer_hello hello = a_hello(C, A, PEER_FOR_LINK);
    assert_int_equal(raw_call(fd, &hello, a.secret, NULL), PEER_WELCOME);
    run_for(HANDSHAKE_MS + 300);
    assert_true(raw_is_open(fd));
    close(fd);
}

static void what_is_no_hello_ends_at_once(void **state) {
    static const char *const texts[] = {"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                                        "leasedpr\3\0\0\0\xff\xff\xff\xff and so on and on",
                                        "\x16\x03\x01\x02\x01 and so on and on and on and on"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        uint64_t n_refused = peers_n_refused(a.peers);
        int fd = raw_connect(a.port);
        raw_send(fd, texts[i], 24);
        if (a.tls == NULL) {
            assert_int_equal(raw_read(fd), PEER_MALFORMED);
        }
        while (raw_read(fd) != -1) {
        }
        assert_true(peers_n_refused(a.peers) > n_refused || (a.tls != NULL && i == 2));
        close(fd);
    }
}

static void a_flood_of_bytes_is_not_kept(void **state) {
    enum { SIZE = 64 * 1024 };
    static uint8_t zeros[SIZE];
    size_t before = mallinfo2().uordblks;
    int fd = raw_connect(a.port);
    memcpy(zeros, "leasedpr\3\0\0\0\0\1\0\0", 16);
    for (unsigned i = 0; i < 200; i++) {
        (void)send(fd, zeros, SIZE, MSG_NOSIGNAL | MSG_DONTWAIT);
        uv_run(&loop, UV_RUN_NOWAIT);
        assert_true(mallinfo2().uordblks < before + 256 * 1024);
    }
    close(fd);
}

static void one_byte_is_all_that_the_unproven_learn(void **state) {
    if (a.tls != NULL || a.secret.size == 0) {
        return;
    }
    /* Whatever is claimed: the verdict comes after the proof. */
    const struct peer_hello hellos[] = {
        a_hello(C, A, PEER_FOR_LINK), a_hello(C, 999, PEER_FOR_LINK),
        a_hello(REMOVED, A, PEER_FOR_LINK), a_hello(12345, A, PEER_FOR_LINK),
        a_hello(0, 0, PEER_TO_ASK)};
    for (size_t i = 0; i < sizeof hellos / sizeof *hellos; i++) {
        uint8_t challenge[PEER_NONCE_SIZE];
        uint8_t proof[PEER_PROOF_SIZE] = {1, 2, 3};
        unsigned n_calls = a.n_calls;
        int fd = raw_connect(a.port);
        raw_hello(fd, &hellos[i]);
        assert_int_equal(raw_read(fd), PEER_CHALLENGE);
        raw_read_all(fd, challenge, sizeof challenge);
        raw_send(fd, proof, sizeof proof);
        assert_int_equal(raw_read(fd), PEER_NOT_PROVEN);
        assert_int_equal(raw_read(fd), -1);
        assert_int_equal(a.n_calls, n_calls); /* nobody was asked about it */
        close(fd);
    }
}

static void challenges_are_never_the_same(void **state) {
    uint8_t challenges[8][PEER_NONCE_SIZE];
    if (a.tls != NULL || a.secret.size == 0) {
        return;
    }
    struct peer_hello hello = a_hello(C, A, PEER_FOR_LINK);
    for (size_t i = 0; i < 8; i++) {
        int fd = raw_connect(a.port);
        raw_hello(fd, &hello);
        assert_int_equal(raw_read(fd), PEER_CHALLENGE);
        raw_read_all(fd, challenges[i], PEER_NONCE_SIZE);
        for (size_t k = 0; k < i; k++) {
            assert_memory_not_equal(challenges[i], challenges[k], PEER_NONCE_SIZE);
        }
        close(fd);
    }
}

/* --- Slots. --- */

static void the_unproven_have_few_slots(void **state) {
    int fds[N_CALLERS];
    for (size_t i = 0; i < N_CALLERS; i++) {
        fds[i] = raw_connect(a.port);
    }
    WAIT_UNTIL(count_open(fds, N_CALLERS) <= UNPROVEN_MAX);
    assert_int_equal(count_open(fds, N_CALLERS), UNPROVEN_MAX);
    /* The newest have them. */
    for (size_t i = N_CALLERS - UNPROVEN_MAX; i < N_CALLERS; i++) {
        assert_true(raw_is_open(fds[i]));
    }
    close_all(fds, N_CALLERS);
}

static void few_are_accepted_in_one_iteration(void **state) {
    int fds[N_CALLERS];
    uv_run(&loop, UV_RUN_NOWAIT);
    for (size_t i = 0; i < N_CALLERS; i++) {
        fds[i] = raw_connect(a.port);
    }
    for (unsigned i = 0; i < UNPROVEN_MAX / ACCEPTS_MAX; i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    /* So many that none had to give way yet. */
    assert_int_equal(peers_n_refused(a.peers), 0);
    WAIT_UNTIL(peers_n_refused(a.peers) == N_CALLERS - UNPROVEN_MAX);
    close_all(fds, N_CALLERS);
}

/* Callers that never end: each time the loop runs, some more. */
static void a_flood_does_not_keep_a_member_out(void **state) {
    enum { ROUNDS_MAX = 4000, EACH = 2, RING = 64 };
    int fds[RING];
    int held[UNPROVEN_MAX];
    size_t n = 0;
    for (size_t i = 0; i < UNPROVEN_MAX; i++) {
        held[i] = raw_connect(a.port);
    }
    run_for(20);
    for (size_t i = 0; i < RING; i++) {
        fds[i] = raw_connect(a.port);
    }
    uint64_t start_ms = clock_boottime_ms();
    peers_set_member(b.peers, A, a.address);
    peers_set_member(a.peers, B, b.address);
    for (unsigned i = 0; !peers_is_linked(b.peers, A); i++) {
        assert_true(i < ROUNDS_MAX);
        for (unsigned k = 0; k < EACH; k++) {
            close(fds[n % RING]);
            fds[n++ % RING] = raw_connect(a.port);
        }
        uv_run(&loop, UV_RUN_ONCE);
    }
    assert_true(clock_boottime_ms() - start_ms < 1000);
    /* And none of it touches a member that is connected. */
    for (unsigned i = 0; i < 200; i++) {
        close(fds[n % RING]);
        fds[n++ % RING] = raw_connect(a.port);
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    assert_int_equal(b.n_lost, 0);
    close_all(fds, RING);
    close_all(held, UNPROVEN_MAX);
}

/* The first bytes of a hello, or of TLS. Accepted in one iteration and read in the next: no time
 * has to pass, so that many of them begin before the deadline of the first, however busy the
 * machine is. */
static int connect_and_begin(void) {
    enum { ITERATIONS = 4 };
    int fd = raw_connect(a.port);
    if (a.tls != NULL) {
        raw_send(fd, "\x16\x03\x01", 3);
    } else {
        raw_send(fd, "leased", 6);
    }
    for (unsigned i = 0; i < ITERATIONS; i++) {
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    return fd;
}

static void who_says_nothing_does_not_drive_out_who_has_begun(void **state) {
    int fds[N_CALLERS];
    int begun = connect_and_begin();
    for (size_t i = 0; i < N_CALLERS; i++) {
        fds[i] = raw_connect(a.port);
    }
    WAIT_UNTIL(count_open(fds, N_CALLERS) <= UNPROVEN_MAX);
    assert_true(raw_is_open(begun));
    close(begun);
    close_all(fds, N_CALLERS);
}

static void who_has_begun_has_few_slots_and_takes_nobody_elses(void **state) {
    int fds[N_CALLERS];
    int silent = raw_connect(a.port);
    run_for(10);
    for (size_t i = 0; i < N_CALLERS; i++) {
        fds[i] = connect_and_begin();
    }
    /* The next one that is accepted makes the others give way. */
    int last = raw_connect(a.port);
    WAIT_UNTIL(count_open(fds, N_CALLERS) <= UNPROVEN_MAX);
    assert_int_equal(count_open(fds, N_CALLERS), UNPROVEN_MAX);
    assert_true(raw_is_open(fds[N_CALLERS - 1]));
    assert_true(raw_is_open(silent));
    close(silent);
    close(last);
    close_all(fds, N_CALLERS);
}

static void listen_everywhere(void) {
    node_close(&a);
    a.listen_host = "0.0.0.0";
    assert_int_equal(node_try_open(&a), STATUS_OK);
}

static void one_host_has_few_slots(void **state) {
    int fds[N_CALLERS];
    int other[2];
    if (!has_hosts) {
        skip();
    }
    listen_everywhere();
    other[0] = connect_from(3, a.port);
    other[1] = connect_from(4, a.port);
    for (size_t i = 0; i < N_CALLERS; i++) {
        fds[i] = connect_from(2, a.port);
    }
    WAIT_UNTIL(count_open(fds, N_CALLERS) <= UNPROVEN_OF_HOST_MAX);
    assert_int_equal(count_open(fds, N_CALLERS), UNPROVEN_OF_HOST_MAX);
    /* It has driven out itself alone. */
    assert_int_equal(count_open(other, 2), 2);
    close_all(fds, N_CALLERS);
    close_all(other, 2);
}

static void hosts_without_a_member_give_way_to_those_with_one(void **state) {
    int fds[N_HOSTS];
    if (!has_hosts) {
        skip();
    }
    listen_everywhere();
    /* The member at 10.9.0.2 is not there yet; its address is known. */
    peers_set_member(a.peers, C, "10.9.0.2:1");
    run_for(20);
    int of_member = connect_from(2, a.port);
    WAIT_UNTIL(raw_is_open(of_member));
    run_for(20);
    for (unsigned i = 0; i < N_HOSTS - 3; i++) {
        fds[i] = connect_from(3 + i, a.port);
        run_for(2);
    }
    WAIT_UNTIL(count_open(fds, N_HOSTS - 3) == UNPROVEN_MAX - 1);
    assert_true(raw_is_open(of_member));
    assert_false(raw_is_open(fds[0]));
    close(of_member);
    close_all(fds, N_HOSTS - 3);
}

/* --- Members. --- */

static void a_second_connection_is_refused_while_the_first_is_alive(void **state) {
    if (a.tls != NULL) {
        return;
    }
    struct peer_hello hello = a_hello(C, A, PEER_FOR_LINK);
    int first = raw_connect(a.port);
    assert_int_equal(raw_call(first, &hello, a.secret, NULL), PEER_WELCOME);
    int second = raw_connect(a.port);
    assert_int_equal(raw_call(second, &hello, a.secret, NULL), PEER_BUSY);
    assert_int_equal(raw_read(second), -1);
    assert_true(raw_is_open(first));
    close(second);
    /* Keepalives keep it so. */
    static const uint8_t keepalive[PEER_FRAME_PREFIX_SIZE] = {0};
    for (unsigned i = 0; i < 6; i++) {
        run_for(ALIVE_MS / 4);
        raw_send(first, keepalive, sizeof keepalive);
    }
    second = raw_connect(a.port);
    assert_int_equal(raw_call(second, &hello, a.secret, NULL), PEER_BUSY);
    close(second);
    /* Silent, it gives way. */
    run_for(ALIVE_MS + 100);
    second = raw_connect(a.port);
    assert_int_equal(raw_call(second, &hello, a.secret, NULL), PEER_WELCOME);
    assert_int_equal(raw_read(first), -1);
    assert_true(raw_is_open(second));
    close(first);
    close(second);
}

static void a_member_that_hung_up_is_let_in_at_once(void **state) {
    if (mode != PLAIN) {
        return; /* where one message is the whole handshake */
    }
    struct peer_hello hello = a_hello(C, A, PEER_FOR_LINK);
    int before = -1;
    for (unsigned i = 0; i < 5; i++) {
        int fd = raw_connect(a.port);
        run_for(10); /* it is accepted */
        /* The node sees the hello first. */
        raw_hello(fd, &hello);
        if (before >= 0) {
            close(before);
        }
        assert_int_equal(raw_read(fd), PEER_WELCOME);
        before = fd;
    }
    close(before);
}

/* As a node that is behind lets in whoever may be a new member. */
static void those_to_whom_no_link_is_kept_have_few_connections(void **state) {
    enum { N = 3 * UNLINKED_MAX };
    int fds[N];
    if (a.tls != NULL) {
        return;
    }
    peers_set_member(a.peers, C, "127.0.0.1:1");
    struct peer_hello hello = a_hello(C, A, PEER_FOR_LINK);
    int member = raw_connect(a.port);
    assert_int_equal(raw_call(member, &hello, a.secret, NULL), PEER_WELCOME);
    n_more = N;
    for (size_t i = 0; i < N; i++) {
        hello = a_hello(MORE_ID + i, A, PEER_FOR_LINK);
        fds[i] = raw_connect(a.port);
        assert_int_equal(raw_call(fds[i], &hello, a.secret, NULL), PEER_WELCOME);
    }
    WAIT_UNTIL(count_open(fds, N) <= UNLINKED_MAX);
    assert_int_equal(count_open(fds, N), UNLINKED_MAX);
    assert_true(raw_is_open(fds[N - 1]));
    assert_true(raw_is_open(member));
    n_more = 0;
    close(member);
    close_all(fds, N);
}

static void who_belongs_elsewhere_is_told_so(void **state) {
    if (a.tls != NULL) {
        return;
    }
    const struct {
        struct peer_hello hello;
        uint64_t cluster_id;
        enum peer_answer answer;
    } cases[] = {
        {a_hello(C, A, PEER_FOR_LINK), CLUSTER + 1, PEER_OTHER_CLUSTER},
        {a_hello(C, B, PEER_FOR_LINK), CLUSTER, PEER_OTHER_MEMBER},
        {a_hello(A, A, PEER_FOR_LINK), CLUSTER, PEER_NOT_A_MEMBER},
        {a_hello(99, A, PEER_FOR_LINK), CLUSTER, PEER_NOT_A_MEMBER},
        {a_hello(REMOVED, A, PEER_FOR_LINK), CLUSTER, PEER_REMOVED},
        {a_hello(0, 0, PEER_TO_ASK), 0, PEER_WELCOME},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct buffer payload;
        struct peer_hello hello = cases[i].hello;
        hello.cluster_id = cases[i].cluster_id;
        buffer_init(&payload);
        int fd = raw_connect(a.port);
        assert_int_equal(raw_call(fd, &hello, a.secret, &payload), cases[i].answer);
        assert_int_equal(raw_read(fd), -1);
        /* A refusal carries nothing. */
        assert_int_equal(payload.size > 0, cases[i].answer == PEER_WELCOME);
        buffer_clear(&payload);
        close(fd);
    }
}

static void frames_behind_a_hello_are_bounded(void **state) {
    static const uint8_t frames[][8] = {
        {0xff, 0xff, 0xff, 0xff, NOTE},
        {1, 0, 0x21, 1, NOTE}, /* one more than the bound */
        {1, 0, 0, 0, PEER_FRAME_KEEPALIVE, 0},
    };
    if (a.tls != NULL) {
        return;
    }
    struct peer_hello hello = a_hello(C, A, PEER_FOR_LINK);
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        int fd = raw_connect(a.port);
        assert_int_equal(raw_call(fd, &hello, a.secret, NULL), PEER_WELCOME);
        raw_send(fd, frames[i], sizeof frames[i]);
        assert_int_equal(raw_read(fd), -1);
        close(fd);
    }
}

static void an_announced_frame_costs_nothing_before_it_arrives(void **state) {
    static const uint8_t announced[] = {0, 0, 0x21, 1, NOTE, 1, 2, 3};
    if (a.tls != NULL) {
        return;
    }
    struct peer_hello hello = a_hello(C, A, PEER_FOR_LINK);
    int fd = raw_connect(a.port);
    assert_int_equal(raw_call(fd, &hello, a.secret, NULL), PEER_WELCOME);
    size_t before = mallinfo2().uordblks;
    raw_send(fd, announced, sizeof announced);
    run_for(50);
    assert_true(raw_is_open(fd));
    assert_true(mallinfo2().uordblks < before + 64 * 1024);
    close(fd);
}

/* So many members send large frames at once that another has to wait for one of them. */
static void few_large_frames_are_received_at_a_time(void **state) {
    enum { BODY = PEER_FRAME_USUAL_SIZE_MAX + 1, SIZE = PEER_FRAME_PREFIX_SIZE + BODY };
    int fds[LARGE_FRAMES_MAX + 1];
    if (a.tls != NULL) {
        return;
    }
    uint8_t *frame = malloc(SIZE);
    assert_non_null(frame);
    little_endian_put_u32(frame, BODY);
    frame[4] = BULK;
    for (size_t i = 0; i < BODY; i++) {
        frame[PEER_FRAME_PREFIX_SIZE + i] = (uint8_t)(i + a.n_bulks);
    }
    a.bulk_size = BODY;
    n_more = LARGE_FRAMES_MAX;
    for (size_t i = 0; i <= LARGE_FRAMES_MAX; i++) {
        struct peer_hello hello = a_hello(i < LARGE_FRAMES_MAX ? MORE_ID + i : C, A, PEER_FOR_LINK);
        fds[i] = raw_connect(a.port);
        assert_int_equal(raw_call(fds[i], &hello, a.secret, NULL), PEER_WELCOME);
        raw_send(fds[i], frame, 100);
        run_for(20);
    }
    uint64_t before = a.n_bulks;
    size_t sent = 100;
    for (int i = 0; i < 2; i++) {
        uint64_t until_ms = clock_boottime_ms() + (i == 0 ? 300 : WAIT_MS_MAX);
        while (clock_boottime_ms() < until_ms && a.n_bulks == before) {
            ssize_t n = send(fds[LARGE_FRAMES_MAX], frame + sent, SIZE - sent, MSG_NOSIGNAL);
            sent += n > 0 ? (size_t)n : 0;
            uv_run(&loop, UV_RUN_NOWAIT);
        }
        assert_int_equal(a.n_bulks, before + (uint64_t)i);
        close(fds[i]);
    }
    for (size_t i = 2; i <= LARGE_FRAMES_MAX; i++) {
        close(fds[i]);
    }
    n_more = 0;
    free(frame);
}

/* --- Who is set up otherwise. --- */

static void other_secrets_and_certificates_get_no_link(void **state) {
    static const char other_secret[] = "another secret of some length";
    const struct node usual = b;
    for (unsigned i = 0; i < 4; i++) {
        node_close(&b);
        b = usual;
        if ((i & 1) != 0) {
            b.secret = a.secret.size > 0 ? bytes_of(NULL, 0) : bytes_from_text(other_secret);
        } else if (a.secret.size > 0) {
            b.secret = bytes_from_text(other_secret);
        }
        if ((i & 2) != 0) {
            b.tls = a.tls != NULL ? NULL : &member_files.options;
        }
        if (bytes_equal(b.secret, a.secret) && (b.tls == NULL) == (a.tls == NULL)) {
            assert_int_equal(node_try_open(&b), STATUS_OK);
            continue; /* as usual */
        }
        assert_int_equal(node_try_open(&b), STATUS_OK);
        uint64_t n_refused = peers_n_refused(a.peers);
        peers_set_member(b.peers, A, a.address);
        peers_set_member(a.peers, B, b.address);
        run_for(450);
        assert_false(peers_is_linked(b.peers, A));
        assert_false(peers_is_linked(a.peers, B));
        assert_int_equal(a.n_opened + b.n_opened, 0);
        assert_int_equal(a.n_turned_away + b.n_turned_away, 0);
        /* One who is asked for a secret that it does not have hangs up by itself. */
        assert_true(peers_n_refused(a.peers) > n_refused || b.secret.size != a.secret.size);
        peers_remove_member(a.peers, B);
    }
}

static void a_wrong_secret_is_logged_once_and_never_shown(void **state) {
    char path[] = "/tmp/leased-test-log-XXXXXX";
    char text[8192] = "";
    if (a.secret.size == 0) {
        return;
    }
    int log = mkstemp(path);
    int before = dup(STDERR_FILENO);
    assert_true(log >= 0 && before >= 0);
    node_close(&b);
    b.secret = bytes_from_text("wrong-secret-of-this-test");
    assert_int_equal(node_try_open(&b), STATUS_OK);
    log_configure(LOG_WARNING, LOG_FORMAT_TEXT);
    fflush(stderr);
    dup2(log, STDERR_FILENO);
    uint64_t n_refused = peers_n_refused(a.peers);
    peers_set_member(b.peers, A, a.address);
    WAIT_UNTIL(peers_n_refused(a.peers) >= n_refused + 3);
    fflush(stderr);
    dup2(before, STDERR_FILENO);
    log_configure(LOG_ERROR, LOG_FORMAT_TEXT);
    assert_true(pread(log, text, sizeof text - 1, 0) > 0);
    close(log);
    close(before);
    unlink(path);
    const char *line = strstr(text, "it does not know the peer secret");
    assert_non_null(line);
    assert_null(strstr(line + 1, "it does not know the peer secret"));
    assert_non_null(strstr(text, "127.0.0.1"));
    assert_null(strstr(text, "wrong-secret"));
    assert_null(strstr(text, secret_text));
}

/* --- Closing. --- */

static size_t count_descriptors(void) {
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    size_t n = 0;
    while (readdir(folder) != NULL) {
        n++;
    }
    closedir(folder);
    return n;
}

static void closing_ends_callers_in_every_state(void **state) {
    run_for(20);
    for (unsigned round = 0; round < 10; round++) {
        int fds[6];
        struct peer_hello hello = a_hello(C, A, PEER_FOR_LINK);
        struct peer_hello question = a_hello(0, 0, PEER_TO_ASK);
        for (size_t i = 0; i < 6; i++) {
            fds[i] = raw_connect(a.port);
        }
        raw_send(fds[1], "leased", 6);
        raw_hello(fds[2], &hello);
        raw_hello(fds[3], &question);
        raw_send(fds[4], "nonsense that is long enough", 28);
        if (a.tls == NULL) {
            (void)raw_call(fds[5], &hello, a.secret, NULL);
            raw_send(fds[5], "\7\0\0\0\1abc", 8);
        }
        for (unsigned i = 0; i < round; i++) {
            uv_run(&loop, UV_RUN_NOWAIT);
        }
        node_close(&a);
        for (size_t i = 0; i < 6; i++) {
            while (raw_read(fds[i]) != -1) {
            }
        }
        close_all(fds, 6);
        assert_int_equal(node_try_open(&a), STATUS_OK);
    }
    size_t before = count_descriptors();
    node_close(&a);
    assert_true(count_descriptors() < before);
    assert_int_equal(node_try_open(&a), STATUS_OK);
    assert_int_equal(count_descriptors(), before);
}

#define INBOUND_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static int run_in(enum mode in) {
    const struct CMUnitTest tests[] = {
        INBOUND_TEST(a_hello_may_come_byte_by_byte),
        INBOUND_TEST(who_says_nothing_is_dropped_in_the_end),
        INBOUND_TEST(who_speaks_slowly_is_dropped_in_the_end),
        INBOUND_TEST(who_was_welcomed_may_be_silent),
        INBOUND_TEST(what_is_no_hello_ends_at_once),
        INBOUND_TEST(a_flood_of_bytes_is_not_kept),
        INBOUND_TEST(one_byte_is_all_that_the_unproven_learn),
        INBOUND_TEST(challenges_are_never_the_same),
        INBOUND_TEST(the_unproven_have_few_slots),
        INBOUND_TEST(few_are_accepted_in_one_iteration),
        INBOUND_TEST(a_flood_does_not_keep_a_member_out),
        INBOUND_TEST(who_says_nothing_does_not_drive_out_who_has_begun),
        INBOUND_TEST(who_has_begun_has_few_slots_and_takes_nobody_elses),
        INBOUND_TEST(one_host_has_few_slots),
        INBOUND_TEST(hosts_without_a_member_give_way_to_those_with_one),
        INBOUND_TEST(a_second_connection_is_refused_while_the_first_is_alive),
        INBOUND_TEST(a_member_that_hung_up_is_let_in_at_once),
        INBOUND_TEST(those_to_whom_no_link_is_kept_have_few_connections),
        INBOUND_TEST(who_belongs_elsewhere_is_told_so),
        INBOUND_TEST(frames_behind_a_hello_are_bounded),
        INBOUND_TEST(an_announced_frame_costs_nothing_before_it_arrives),
        INBOUND_TEST(few_large_frames_are_received_at_a_time),
        INBOUND_TEST(other_secrets_and_certificates_get_no_link),
        INBOUND_TEST(a_wrong_secret_is_logged_once_and_never_shown),
        INBOUND_TEST(closing_ends_callers_in_every_state),
    };
    mode = in;
    return cmocka_run_group_tests_name(mode_names[in], tests, NULL, NULL);
}

int main(void) {
    has_hosts = make_hosts();
    fixture_begin();
    int n_failed = 0;
    for (enum mode in = PLAIN; in <= CERTIFICATES; in++) {
        n_failed += run_in(in);
    }
    fixture_end();
    return n_failed;
}
