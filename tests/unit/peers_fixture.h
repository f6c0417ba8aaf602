/*
 * Two nodes' connections in one loop, and strangers with plain sockets. The tests turn the loop
 * until what they wait for has happened.
 */
#ifndef LEASED_TESTS_PEERS_FIXTURE_H
#define LEASED_TESTS_PEERS_FIXTURE_H

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "replication/peer_address.h"
#include "replication/peer_dial.h"
#include "replication/peers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    CLUSTER = 0xc1,
    A = 1,
    B = 2,
    REMOVED = 66,
    LOST_BIRTH = 99,
    WAIT_MS_MAX = 20000,
    TICK_MS = 2,
    /* As in peers.c. */
    HELLO_TIMEOUT_MS = 2000,
    STRANGERS_MAX = 64,
    QUEUE_SIZE_MAX = 32 * 1024 * 1024
};

static uv_loop_t loop;
static uv_timer_t ticker;

/* A node as its service sees it. */
struct node {
    struct peers *peers;
    uint64_t id;
    uint16_t port;
    char address[32];
    uint64_t n_pings; /* they carry their number */
    uint64_t n_proposes;
    size_t propose_size;
    unsigned n_lost;
    unsigned n_removed;
    unsigned n_forgetful;
    uint64_t birth;
    uint64_t lost_id;
    uv_stream_t *raft;
    char raft_address[64];
    bool is_closed;
    const struct peer_tls_options *tls; /* NULL: plain text */
};

static struct node a;
static struct node b;

/* Turns the loop until it is so. */
#define WAIT_UNTIL(condition)                                                                      \
    do {                                                                                           \
        uint64_t end_ms = clock_boottime_ms() + WAIT_MS_MAX;                                       \
        while (!(condition)) {                                                                     \
            assert_true(clock_boottime_ms() < end_ms);                                             \
            uv_run(&loop, UV_RUN_ONCE);                                                            \
        }                                                                                          \
    } while (0)

static inline void tick(uv_timer_t *timer) {
}

static inline void free_handle(uv_handle_t *handle) {
    free(handle);
}

static inline void close_stream(uv_stream_t *stream) {
    uv_close((uv_handle_t *)stream, free_handle);
}

/* --- The service beside. --- */

static inline void on_raft_accepted(void *data, uint64_t id, const char *address,
                                    uv_stream_t *stream) {
    struct node *node = data;
    assert_int_equal(id, node == &a ? B : A);
    assert_null(node->raft);
    node->raft = stream;
    snprintf(node->raft_address, sizeof node->raft_address, "%s", address);
}

static inline void on_frame(void *data, uint64_t from_id, const struct peer_frame *frame) {
    struct node *node = data;
    assert_int_equal(from_id, node == &a ? B : A);
    if (frame->type == PEER_PING) {
        assert_int_equal(frame->ping.sent_ms, node->n_pings);
        node->n_pings++;
        return;
    }
    assert_int_equal(frame->type, PEER_PROPOSE);
    assert_int_equal(frame->propose.sequence, node->n_proposes);
    assert_int_equal(frame->propose.commands.size, node->propose_size);
    for (size_t i = 0; i < frame->propose.commands.size; i += 4093) {
        assert_int_equal(frame->propose.commands.data[i], (uint8_t)(i + node->n_proposes));
    }
    node->n_proposes++;
}

static uint64_t refused_id; /* 0: none */

static inline enum peer_answer admit(void *data, uint64_t id, uint64_t birth) {
    if (id == REMOVED) {
        return PEER_REMOVED;
    }
    if (birth == LOST_BIRTH) {
        return PEER_FORGETFUL;
    }
    return (id == A || id == B) && id != refused_id ? PEER_WELCOME : PEER_NOT_A_MEMBER;
}

/* One member, and whoever asks was removed. */
static inline void asked(void *data, uint64_t id, struct arena *arena,
                         struct peer_frame *out_answer) {
    struct member_facts *member = arena_calloc(arena, 1, sizeof *member);
    member->id = A;
    member->peer_urls[member->n_peer_urls++] = bytes_from_text("http://a:1");
    out_answer->members.cluster_id = CLUSTER;
    out_answer->members.is_removed = id == REMOVED;
    out_answer->members.n = 1;
    out_answer->members.members = member;
}

static inline void on_turned_away(void *data, enum peer_answer answer) {
    struct node *node = data;
    assert_true(answer == PEER_REMOVED || answer == PEER_FORGETFUL);
    node->n_removed += answer == PEER_REMOVED;
    node->n_forgetful += answer == PEER_FORGETFUL;
}

static inline void on_link_lost(void *data, uint64_t id) {
    struct node *node = data;
    node->n_lost++;
    node->lost_id = id;
}

static const struct peers_callbacks callbacks = {.raft_accepted = on_raft_accepted,
                                                 .admit = admit,
                                                 .asked = asked,
                                                 .turned_away = on_turned_away,
                                                 .frame = on_frame,
                                                 .link_lost = on_link_lost};

static inline void on_closed(void *data) {
    struct node *node = data;
    node->is_closed = true;
    node->peers = NULL;
}

/* --- Plain sockets. --- */

static inline int loopback_socket(void) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    return fd;
}

static inline struct sockaddr_in loopback(uint16_t port) {
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

/* Listens on a port of the system's choice. */
static inline int raw_listen(uint16_t *out_port) {
    int fd = loopback_socket();
    struct sockaddr_in address = loopback(0);
    socklen_t size = sizeof address;
    /* A node may take the port over. */
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    *out_port = ntohs(address.sin_port);
    return fd;
}

static inline uint16_t free_port(void) {
    uint16_t port;
    int fd = raw_listen(&port);
    close(fd);
    return port;
}

static inline int raw_connect(uint16_t port) {
    int fd = loopback_socket();
    struct sockaddr_in address = loopback(port);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

static inline int raw_accept(int listener) {
    int fd = -1;
    WAIT_UNTIL((fd = accept(listener, NULL, NULL)) >= 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

static inline void raw_send(int fd, const void *data, size_t size) {
    assert_int_equal(send(fd, data, size, MSG_NOSIGNAL), size);
}

/* The next byte; -1 at the end of the connection. */
static inline int raw_read(int fd) {
    uint8_t byte;
    ssize_t n = -1;
    WAIT_UNTIL((n = recv(fd, &byte, 1, 0)) >= 0 || errno == ECONNRESET);
    return n == 1 ? byte : -1;
}

static inline bool raw_is_open(int fd) {
    uint8_t byte;
    return recv(fd, &byte, 1, MSG_PEEK) < 0 && errno == EAGAIN;
}

static inline struct peer_hello a_hello(uint64_t from_id, uint64_t to_id,
                                        enum peer_purpose purpose) {
    struct peer_hello hello = {
        .cluster_id = CLUSTER, .from_id = from_id, .to_id = to_id, .purpose = purpose};
    snprintf(hello.address, sizeof hello.address, "127.0.0.1:1");
    return hello;
}

static inline void raw_hello(int fd, const struct peer_hello *hello) {
    struct buffer bytes;
    buffer_init(&bytes);
    peer_hello_encode(&bytes, hello);
    raw_send(fd, bytes.data, bytes.size);
    buffer_clear(&bytes);
}

/* Takes a node's hello and welcomes it. */
static inline void raw_welcome(int fd) {
    uint8_t prefix[PEER_HELLO_PREFIX_SIZE];
    for (size_t i = 0; i < sizeof prefix; i++) {
        prefix[i] = (uint8_t)raw_read(fd);
    }
    size_t size = peer_hello_size(bytes_of(prefix, sizeof prefix));
    assert_true(size > sizeof prefix);
    for (size_t i = sizeof prefix; i < size; i++) {
        assert_int_not_equal(raw_read(fd), -1);
    }
    raw_send(fd, "\0", 1);
}

/* --- Nodes. --- */

static inline enum status node_try_open(struct node *node) {
    char error[256] = "";
    struct peers_options options = {.cluster_id = CLUSTER,
                                    .self_id = node->id,
                                    .birth = node->birth,
                                    .listen_host = "127.0.0.1",
                                    .listen_port = node->port,
                                    .address = node->address,
                                    .tls = node->tls};
    node->is_closed = false;
    enum status status =
        peers_open(&loop, &options, &callbacks, node, &node->peers, error, sizeof error);
    assert_int_equal(status == STATUS_OK, error[0] == '\0');
    return status;
}

static inline void node_open(struct node *node, uint64_t id) {
    *node = (struct node){.id = id, .port = free_port()};
    snprintf(node->address, sizeof node->address, "127.0.0.1:%u", node->port);
    assert_int_equal(node_try_open(node), STATUS_OK);
}

static inline void node_close(struct node *node) {
    peers_close(node->peers, on_closed, node);
    WAIT_UNTIL(node->is_closed);
}

static inline void link_both(void) {
    peers_set_member(a.peers, B, b.address);
    peers_set_member(b.peers, A, a.address);
    WAIT_UNTIL(peers_is_linked(a.peers, B) && peers_is_linked(b.peers, A));
}

static inline bool send_ping(struct node *from, uint64_t to_id, uint64_t number) {
    struct peer_frame ping = {.type = PEER_PING, .ping = {.term = 1, .sent_ms = number}};
    return peers_send(from->peers, to_id, &ping);
}

static inline int set_up(void **state) {
    log_configure(LOG_ERROR, LOG_FORMAT_TEXT);
    refused_id = 0;
    assert_int_equal(uv_loop_init(&loop), 0);
    uv_timer_init(&loop, &ticker);
    uv_timer_start(&ticker, tick, TICK_MS, TICK_MS);
    node_open(&a, A);
    node_open(&b, B);
    return 0;
}

static inline int tear_down(void **state) {
    if (a.peers != NULL) {
        node_close(&a);
    }
    if (b.peers != NULL) {
        node_close(&b);
    }
    uv_close((uv_handle_t *)&ticker, NULL);
    /* Ends only when nothing is left open, and fails then if a handle is. */
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    return uv_loop_close(&loop);
}

struct dialled {
    unsigned n;
    uv_stream_t *stream;
    char reason[128];
};

static inline void on_dialled(void *data, uv_stream_t *stream, const char *reason) {
    struct dialled *dialled = data;
    dialled->n++;
    dialled->stream = stream;
    assert_int_equal(stream == NULL, reason != NULL);
    snprintf(dialled->reason, sizeof dialled->reason, "%s", reason != NULL ? reason : "");
}

#endif
