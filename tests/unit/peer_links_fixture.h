/*
 * Two nodes' links in one loop, and unauthenticated callers with plain sockets. The tests run the
 * loop until what they wait for has happened. All of it in plain text, with a secret, with
 * certificates, and with both.
 */
#ifndef LEASED_TESTS_PEER_LINKS_FIXTURE_H
#define LEASED_TESTS_PEER_LINKS_FIXTURE_H

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "certificates_fixture.h"
#include "peers/peer_ask.h"
#include "peers/peer_handshake.h"
#include "peers/peer_proof.h"
#include "peers/peers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    CLUSTER = 0xc1,
    A = 1,
    B = 2,
    C = 3,
    REMOVED = 66,
    REPLACED_DATA_DIR = 99,
    NOTE = 1, /* frames that carry their number */
    BULK = 2, /* large ones, with a pattern */
    WAIT_MS_MAX = 20000,
    TICK_MS = 2
};

enum mode { PLAIN, SECRET, CERTIFICATES, SECRET_AND_CERTIFICATES };
static const char *const mode_names[] = {"plain text", "a secret", "certificates",
                                         "a secret and certificates"};
static enum mode mode;

static uv_loop_t loop;
static uv_timer_t ticker;
static struct tls_files member_files;
static struct tls_authority authority;
static const char *const secret_text = "correct horse battery staple";

/* A node as its owner sees it. */
struct node {
    struct peers *peers;
    uint64_t id;
    uint64_t cluster_id;
    uint64_t data_dir_id;
    uint16_t port;
    char address[32];
    const char *listen_host; /* NULL: 127.0.0.1 */
    struct bytes secret;
    const struct tls_options *tls;
    uint64_t n_notes;
    uint64_t n_bulks;
    size_t bulk_size;
    unsigned n_opened;
    unsigned n_lost;
    uint64_t lost_id;
    struct peer_hello opened_hello;
    unsigned n_turned_away;
    enum peer_answer turned_away;
    bool is_refusing_frames;
    bool is_careless; /* of what is in a frame */
    bool is_closed;
    unsigned n_calls; /* of any kind */
    void (*on_frame)(struct node *node);
};

static struct node a;
static struct node b;
static uint64_t refused_id; /* 0: none */
/* Members besides A, B and C that are let in; none of them sends a whole frame. */
static const uint64_t MORE_ID = 1000;
static uint64_t n_more;

/* Runs the loop until it is so. */
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

static inline void run_for(uint64_t ms) {
    uint64_t until_ms = clock_boottime_ms() + ms;
    WAIT_UNTIL(clock_boottime_ms() >= until_ms);
}

/* --- The owner. --- */

static inline void called(struct node *node) {
    assert_false(node->is_closed);
    node->n_calls++;
}

static inline bool on_frame(void *data, uint64_t from_id, uint8_t type, struct bytes body) {
    struct node *node = data;
    struct reader reader;
    called(node);
    assert_true(from_id == A || from_id == B || from_id == C);
    if (node->is_refusing_frames) {
        return false;
    }
    if (node->is_careless) {
        return true;
    }
    reader_init(&reader, body);
    if (type == NOTE) {
        assert_int_equal(reader_get_u64(&reader), node->n_notes);
        node->n_notes++;
    } else {
        assert_int_equal(type, BULK);
        assert_int_equal(body.size, node->bulk_size);
        for (size_t i = 0; i < body.size; i += 4093) {
            assert_int_equal(body.data[i], (uint8_t)(i + node->n_bulks));
        }
        node->n_bulks++;
    }
    if (node->on_frame != NULL) {
        node->on_frame(node);
    }
    return true;
}

static inline enum peer_answer on_admit(void *data, const struct peer_hello *hello) {
    called(data);
    if (hello->from_id == REMOVED) {
        return PEER_REMOVED;
    }
    if (hello->data_dir_id == REPLACED_DATA_DIR) {
        return PEER_DISK_REPLACED;
    }
    if (hello->from_id >= MORE_ID && hello->from_id < MORE_ID + n_more) {
        return PEER_WELCOME;
    }
    return hello->from_id <= C && hello->from_id != refused_id ? PEER_WELCOME : PEER_NOT_A_MEMBER;
}

static inline void on_asked(void *data, uint64_t id, struct buffer *out_body) {
    called(data);
    buffer_append(out_body, "members for ", 12);
    buffer_put_u64(out_body, id);
}

static inline void on_turned_away(void *data, uint64_t by_id, enum peer_answer answer) {
    struct node *node = data;
    called(node);
    node->n_turned_away++;
    node->turned_away = answer;
}

static inline void on_link_opened(void *data, uint64_t id, const struct peer_hello *hello) {
    struct node *node = data;
    called(node);
    assert_int_equal(hello->from_id, id);
    node->opened_hello = *hello;
    node->n_opened++;
}

static inline void on_link_lost(void *data, uint64_t id) {
    struct node *node = data;
    called(node);
    node->n_lost++;
    node->lost_id = id;
}

static const struct peers_callbacks callbacks = {.admit = on_admit,
                                                 .asked = on_asked,
                                                 .turned_away = on_turned_away,
                                                 .frame = on_frame,
                                                 .link_opened = on_link_opened,
                                                 .link_lost = on_link_lost};

static inline void on_closed(void *data) {
    struct node *node = data;
    assert_false(node->is_closed);
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

/* From below the kernel's range for outgoing connections: one of those could take it before a node
 * listens there, or between two nodes that do. */
static inline uint16_t free_port(void) {
    enum { FIRST = 10000, COUNT = 22000, ATTEMPTS_MAX = 200 };
    for (unsigned i = 0; i < ATTEMPTS_MAX; i++) {
        uint16_t drawn;
        assert_int_equal(getrandom(&drawn, sizeof drawn, 0), sizeof drawn);
        uint16_t port = (uint16_t)(FIRST + drawn % COUNT);
        struct sockaddr_in address = loopback(port);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bool is_free = bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
        close(fd);
        if (is_free) {
            return port;
        }
    }
    fail_msg("no free port");
    return 0;
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

static inline void raw_read_all(int fd, void *out, size_t size) {
    for (size_t i = 0; i < size; i++) {
        int byte = raw_read(fd);
        assert_int_not_equal(byte, -1);
        ((uint8_t *)out)[i] = (uint8_t)byte;
    }
}

static inline bool raw_is_open(int fd) {
    uint8_t byte;
    return recv(fd, &byte, 1, MSG_PEEK) < 0 && errno == EAGAIN;
}

static inline struct peer_hello a_hello(uint64_t from_id, uint64_t to_id,
                                        enum peer_purpose purpose) {
    struct peer_hello hello = {
        .cluster_id = CLUSTER, .from_id = from_id, .to_id = to_id, .purpose = purpose};
    memset(hello.nonce, 0x5a, sizeof hello.nonce);
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

/* Says hello, with a proof where one is asked for, and gives the answer; -1: hung up. In plain text
 * or with a secret. */
static inline int raw_call(int fd, const struct peer_hello *hello, struct bytes secret,
                           struct buffer *out_payload) {
    struct peer_caller caller;
    struct buffer bytes;
    struct buffer reply;
    int result = -1;
    buffer_init(&bytes);
    buffer_init(&reply);
    peer_caller_init(&caller, secret, hello, &reply);
    enum peer_step step = PEER_STEP_MORE;
    while (step == PEER_STEP_MORE) {
        size_t used;
        raw_send(fd, reply.data, reply.size);
        reply.size = 0;
        int byte = raw_read(fd);
        if (byte < 0) {
            break;
        }
        buffer_put_u8(&bytes, (uint8_t)byte);
        step = peer_caller_feed(&caller, bytes_of(bytes.data, bytes.size), &used, &reply);
        if (step == PEER_STEP_MORE) {
            memmove(bytes.data, bytes.data + used, bytes.size - used);
            bytes.size -= used;
        } else {
            result = (int)caller.answer;
        }
    }
    if (out_payload != NULL && step == PEER_STEP_DONE) {
        buffer_append(out_payload, caller.payload.data, caller.payload.size);
    }
    peer_caller_clear(&caller);
    buffer_clear(&bytes);
    buffer_clear(&reply);
    return result;
}

/* Takes a node's hello as this member and answers it. */
static inline void raw_answer(int fd, uint64_t self_id, enum peer_answer answer) {
    uint8_t nonce[PEER_NONCE_SIZE] = {1};
    struct peer_answerer answerer;
    struct buffer bytes;
    struct buffer reply;
    struct buffer payload;
    buffer_init(&bytes);
    buffer_init(&reply);
    buffer_init(&payload);
    peer_answerer_init(&answerer, a.secret, nonce);
    enum peer_step step = PEER_STEP_MORE;
    while (step == PEER_STEP_MORE) {
        size_t used;
        int byte = raw_read(fd);
        assert_int_not_equal(byte, -1);
        buffer_put_u8(&bytes, (uint8_t)byte);
        step = peer_answerer_feed(&answerer, bytes_of(bytes.data, bytes.size), &used, &reply);
        memmove(bytes.data, bytes.data + used, bytes.size - used);
        bytes.size -= used;
        raw_send(fd, reply.data, reply.size);
        reply.size = 0;
    }
    assert_int_equal(step, PEER_STEP_DONE);
    if (answer == PEER_WELCOME) {
        struct peer_hello own = a_hello(self_id, answerer.hello.from_id, PEER_FOR_LINK);
        peer_hello_encode(&payload, &own);
    }
    peer_answerer_answer(&answerer, answer, bytes_of(payload.data, payload.size), &reply);
    raw_send(fd, reply.data, reply.size);
    peer_answerer_clear(&answerer);
    buffer_clear(&bytes);
    buffer_clear(&reply);
    buffer_clear(&payload);
}

/* --- Nodes. --- */

static inline enum status node_try_open(struct node *node) {
    char error[512] = "";
    struct peers_options options = {.cluster_id = node->cluster_id,
                                    .self_id = node->id,
                                    .data_dir_id = node->data_dir_id,
                                    .heartbeat_ms = 100 + (uint32_t)node->id,
                                    .election_ms = 1000 + (uint32_t)node->id,
                                    .listen_host =
                                        node->listen_host != NULL ? node->listen_host : "127.0.0.1",
                                    .listen_port = node->port,
                                    .address = node->address,
                                    .tls = node->tls,
                                    .secret = node->secret};
    node->is_closed = false;
    enum status status =
        peers_open(&loop, &options, &callbacks, node, &node->peers, error, sizeof error);
    assert_int_equal(status == STATUS_OK, error[0] == '\0');
    return status;
}

static inline void node_open(struct node *node, uint64_t id) {
    *node = (struct node){.id = id, .cluster_id = CLUSTER, .data_dir_id = id, .port = free_port()};
    if (mode == SECRET || mode == SECRET_AND_CERTIFICATES) {
        node->secret = bytes_from_text(secret_text);
    }
    if (mode == CERTIFICATES || mode == SECRET_AND_CERTIFICATES) {
        node->tls = &member_files.options;
    }
    snprintf(node->address, sizeof node->address, "127.0.0.1:%u", node->port);
    assert_int_equal(node_try_open(node), STATUS_OK);
}

/* Nothing else may happen than its end, within a second. */
static inline void node_close(struct node *node) {
    uint64_t start_ms = clock_boottime_ms();
    unsigned n_calls = node->n_calls;
    peers_close(node->peers, on_closed, node);
    WAIT_UNTIL(node->is_closed);
    assert_int_equal(node->n_calls, n_calls);
    assert_true(clock_boottime_ms() - start_ms < 1000);
}

static inline void link_both(void) {
    peers_set_member(a.peers, B, b.address);
    peers_set_member(b.peers, A, a.address);
    WAIT_UNTIL(peers_is_linked(a.peers, B) && peers_is_linked(b.peers, A));
}

static inline bool send_note(struct node *node, uint64_t to_id, uint64_t number) {
    struct buffer *frame = peers_frame_begin(node->peers, to_id, NOTE, false);
    if (frame == NULL) {
        return false;
    }
    buffer_put_u64(frame, number);
    peers_frame_end(node->peers, to_id);
    return true;
}

static inline bool send_bulk(struct node *node, uint64_t to_id, uint64_t number, size_t size) {
    struct buffer *frame = peers_frame_begin(node->peers, to_id, BULK, false);
    if (frame == NULL) {
        return false;
    }
    uint8_t *to = buffer_reserve(frame, size);
    for (size_t i = 0; i < size; i++) {
        to[i] = (uint8_t)(i + number);
    }
    frame->size += size;
    peers_frame_end(node->peers, to_id);
    return true;
}

/* --- Setup. --- */

static inline int set_up(void **state) {
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
    /* Nothing else is left on the loop. */
    assert_int_equal(uv_run(&loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&loop), 0);
    return 0;
}

static inline void fixture_begin(void) {
    signal(SIGPIPE, SIG_IGN);
    log_configure(LOG_ERROR, LOG_FORMAT_TEXT);
    tls_folder_make();
    authority = tls_authority_make();
    tls_files_make(&member_files, "member", &authority, &authority, &(struct tls_terms){0});
}

static inline void fixture_end(void) {
    tls_authority_clear(&authority);
    tls_folder_remove(&member_files, 1);
}

#endif
