/*
 * Bytes of a caller to a member's peer port, before and after its proof, in pieces; and bytes of
 * whoever answers to one who dials. The first byte of an input tells which, the second how large
 * the pieces are. Without the secret or a certificate nobody is asked about, and no frame arrives;
 * with it, frames are within their bounds; and when the caller is gone nothing of it is left.
 */
#include "../unit/certificates_fixture.h"
#include "base/log.h"
#include "peers/peer_handshake.h"
#include "peers/peers_internal.h"
#include "tls/tls_stream.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>

enum { CLUSTER = 7, SELF = 1, CALLER = 2, ITERATIONS_MAX = 100000, READ_SIZE = 512 };

enum target {
    TO_OPEN_NODE,
    TO_NODE_WITH_SECRET,
    TO_OPEN_NODE_WELCOMED,
    TO_NODE_WITH_SECRET_PROVEN,
    TO_NODE_WITH_CERTIFICATES,
    TO_CALLER,
    TO_CALLER_WITH_SECRET,
    TO_TLS_OF_CALLER,
    TARGETS
};

struct node {
    struct peers *peers;
    uint16_t port;
    bool may_be_called; /* by one who has proven nothing */
    bool is_proven;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct bytes secret = {(const uint8_t *)"the secret of this fuzz target", 30};
static struct tls_files files[1];
static struct tls_context *context;
static uv_loop_t loop;
static bool is_ready;
static struct node open_node = {.may_be_called = true};
static struct node secret_node;
static struct node tls_node;

/* --- The nodes. --- */

static enum peer_answer admit(void *data, const struct peer_hello *hello) {
    const struct node *node = data;
    assert(node->may_be_called || node->is_proven);
    assert(hello->from_id != 0);
    return hello->from_id == CALLER ? PEER_WELCOME : PEER_NOT_A_MEMBER;
}

static void asked(void *data, uint64_t id, struct buffer *out_body) {
    const struct node *node = data;
    assert(node->may_be_called || node->is_proven);
    buffer_put_u64(out_body, id);
}

static bool frame(void *data, uint64_t from_id, uint8_t type, struct bytes body) {
    const struct node *node = data;
    assert(node->may_be_called || node->is_proven);
    assert(from_id == CALLER);
    assert(type != PEER_FRAME_KEEPALIVE);
    assert(body.size <= PEER_FRAME_SIZE_MAX);
    /* Reading all of it shows that it is there. */
    uint8_t sum = 0;
    for (size_t i = 0; i < body.size; i++) {
        sum = (uint8_t)(sum + body.data[i]);
    }
    return type != UINT8_MAX || sum != 0;
}

static void link_lost(void *data, uint64_t id) {
    (void)data;
    (void)id;
}

static const struct peers_callbacks callbacks = {
    .admit = admit, .asked = asked, .frame = frame, .link_lost = link_lost};

static void node_open(struct node *node, struct bytes its_secret, const struct tls_options *tls) {
    char error[256];
    struct sockaddr_in address;
    socklen_t size = sizeof address;
    uv_os_fd_t fd;
    struct peers_options options = {.cluster_id = CLUSTER,
                                    .self_id = SELF,
                                    .heartbeat_ms = 100,
                                    .election_ms = 1000,
                                    .listen_host = "127.0.0.1",
                                    .address = "127.0.0.1:1",
                                    .tls = tls,
                                    .secret = its_secret};
    enum status status =
        peers_open(&loop, &options, &callbacks, node, &node->peers, error, sizeof error);
    assert(status == STATUS_OK);
    int rv = uv_fileno((uv_handle_t *)&node->peers->listeners[0], &fd);
    assert(rv == 0);
    rv = getsockname(fd, (struct sockaddr *)&address, &size);
    assert(rv == 0);
    node->port = ntohs(address.sin_port);
}

static void clean_up(void) {
    peers_close(open_node.peers, NULL, NULL);
    peers_close(secret_node.peers, NULL, NULL);
    peers_close(tls_node.peers, NULL, NULL);
    int rv = uv_run(&loop, UV_RUN_DEFAULT);
    assert(rv == 0);
    rv = uv_loop_close(&loop);
    assert(rv == 0);
    tls_context_destroy(context);
    tls_folder_remove(files, 1);
}

static void prepare(void) {
    char error[256];
    if (is_ready) {
        return;
    }
    is_ready = true;
    signal(SIGPIPE, SIG_IGN);
    log_configure(LOG_ERROR, LOG_FORMAT_TEXT);
    tls_folder_make();
    struct tls_authority authority = tls_authority_make();
    tls_files_make(&files[0], "node", &authority, &authority, &(struct tls_terms){0});
    tls_authority_clear(&authority);
    enum status status = tls_context_create(&files[0].options, &context, error, sizeof error);
    assert(status == STATUS_OK);
    int rv = uv_loop_init(&loop);
    assert(rv == 0);
    node_open(&open_node, bytes_of(NULL, 0), NULL);
    node_open(&secret_node, secret, NULL);
    node_open(&tls_node, bytes_of(NULL, 0), &files[0].options);
    atexit(clean_up);
}

/* --- The caller. --- */

static int connect_to(const struct node *node) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(node->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert(fd >= 0);
    int rv = connect(fd, (struct sockaddr *)&address, sizeof address);
    assert(rv == 0);
    rv = fcntl(fd, F_SETFL, O_NONBLOCK);
    assert(rv == 0);
    /* Reset at its end: thousands in a second would use up the system's ports otherwise. */
    struct linger reset = {.l_onoff = 1};
    rv = setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    assert(rv == 0);
    return fd;
}

static void run(void) {
    uv_run(&loop, UV_RUN_NOWAIT);
}

static struct peer_hello own_hello(void) {
    return (struct peer_hello){.cluster_id = CLUSTER,
                               .from_id = CALLER,
                               .to_id = SELF,
                               .purpose = PEER_FOR_LINK,
                               .address = "127.0.0.1:2"};
}

/* A member, up to its welcome. */
static void shake_hands(struct node *node, int fd, struct bytes its_secret) {
    struct peer_caller caller;
    struct buffer in;
    struct buffer out;
    struct peer_hello hello = own_hello();
    enum peer_step step = PEER_STEP_MORE;
    buffer_init(&in);
    buffer_init(&out);
    node->is_proven = true;
    peer_caller_init(&caller, its_secret, &hello, &out);
    for (unsigned i = 0; i < ITERATIONS_MAX && step == PEER_STEP_MORE; i++) {
        size_t used = 0;
        ssize_t n = send(fd, out.data, out.size, MSG_NOSIGNAL);
        assert(n == (ssize_t)out.size);
        out.size = 0;
        run();
        n = recv(fd, buffer_reserve(&in, READ_SIZE), READ_SIZE, 0);
        in.size += n > 0 ? (size_t)n : 0;
        step = peer_caller_feed(&caller, bytes_of(in.data, in.size), &used, &out);
        memmove(in.data, in.data + used, in.size - used);
        in.size -= used;
    }
    assert(step == PEER_STEP_DONE);
    assert(caller.answer == PEER_WELCOME);
    peer_caller_clear(&caller);
    buffer_clear(&in);
    buffer_clear(&out);
}

static void send_pieces(int fd, struct bytes bytes, size_t piece) {
    for (size_t at = 0; at < bytes.size; at += piece) {
        size_t n = bytes.size - at < piece ? bytes.size - at : piece;
        if (send(fd, bytes.data + at, n, MSG_NOSIGNAL) < 0 && errno != EAGAIN) {
            return;
        }
        run();
    }
}

static void try_node(struct node *node, bool is_welcomed, struct bytes bytes, size_t piece) {
    int fd = connect_to(node);
    node->is_proven = false;
    if (is_welcomed) {
        shake_hands(node, fd, node == &secret_node ? secret : bytes_of(NULL, 0));
    }
    send_pieces(fd, bytes, piece);
    run();
    close(fd);
    unsigned i = 0;
    for (; i < ITERATIONS_MAX; i++) {
        run();
        if (i > 1 && list_is_empty(&node->peers->unproven) &&
            list_is_empty(&node->peers->inbound)) {
            break;
        }
    }
    assert(i < ITERATIONS_MAX);
}

/* --- One who dials. --- */

static void try_caller(struct bytes its_secret, struct bytes bytes, size_t piece) {
    struct peer_caller caller;
    struct buffer in;
    struct buffer out;
    struct peer_hello hello = own_hello();
    enum peer_step step = PEER_STEP_MORE;
    buffer_init(&in);
    buffer_init(&out);
    peer_caller_init(&caller, its_secret, &hello, &out);
    for (size_t at = 0; at < bytes.size && step == PEER_STEP_MORE; at += piece) {
        size_t used = 0;
        buffer_append(&in, bytes.data + at, bytes.size - at < piece ? bytes.size - at : piece);
        step = peer_caller_feed(&caller, bytes_of(in.data, in.size), &used, &out);
        assert(used <= in.size);
        assert(step != PEER_STEP_REFUSED || caller.reason != NULL);
        /* The answerer does not know the secret. */
        assert(step != PEER_STEP_DONE || its_secret.size == 0);
        assert(step != PEER_STEP_DONE || caller.payload.size <= in.size);
        assert(step != PEER_STEP_DONE || caller.payload.size == 0 || caller.answer == PEER_WELCOME);
        if (step == PEER_STEP_MORE) {
            memmove(in.data, in.data + used, in.size - used);
            in.size -= used;
        }
    }
    peer_caller_clear(&caller);
    buffer_clear(&in);
    buffer_clear(&out);
}

static void try_tls(struct bytes bytes, size_t piece) {
    struct tls_stream *stream = tls_stream_connect(context, "127.0.0.1");
    struct buffer plaintext;
    assert(stream != NULL);
    buffer_init(&plaintext);
    for (size_t at = 0; at < bytes.size; at += piece) {
        size_t n = bytes.size - at < piece ? bytes.size - at : piece;
        (void)tls_stream_feed(stream, bytes_of(bytes.data + at, n), &plaintext);
        assert(tls_stream_state(stream) != TLS_OPEN);
    }
    assert(plaintext.size == 0);
    assert(tls_stream_feed_end(stream) == TLS_FAILED);
    assert(tls_stream_error(stream) != NULL);
    tls_stream_destroy(stream);
    buffer_clear(&plaintext);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const struct bytes none = {0};
    if (size < 2) {
        return 0;
    }
    prepare();
    size_t piece = (size_t)data[1] * data[1] + 1;
    struct bytes bytes = bytes_of(data + 2, size - 2);
    /* Not one system call for each byte of a long input. */
    if (bytes.size / piece > 256) {
        piece = bytes.size / 256 + 1;
    }
    switch ((enum target)(data[0] % TARGETS)) {
    case TO_OPEN_NODE:
        try_node(&open_node, false, bytes, piece);
        break;
    case TO_NODE_WITH_SECRET:
        try_node(&secret_node, false, bytes, piece);
        break;
    case TO_OPEN_NODE_WELCOMED:
        try_node(&open_node, true, bytes, piece);
        break;
    case TO_NODE_WITH_SECRET_PROVEN:
        try_node(&secret_node, true, bytes, piece);
        break;
    case TO_NODE_WITH_CERTIFICATES:
        try_node(&tls_node, false, bytes, piece);
        break;
    case TO_CALLER:
        try_caller(none, bytes, piece);
        break;
    case TO_CALLER_WITH_SECRET:
        try_caller(secret, bytes, piece);
        break;
    case TO_TLS_OF_CALLER:
        try_tls(bytes, piece);
        break;
    case TARGETS:
        break;
    }
    return 0;
}
