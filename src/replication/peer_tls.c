#include "replication/peer_tls.h"

#include "replication/peer_tls_context.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* Bytes on their way in one direction: those from `start` to `end` have not been handed on. */
struct load {
    size_t start;
    size_t end;
    uint8_t bytes[PEER_TLS_BUFFER_SIZE];
};

struct peer_tls {
    uv_poll_t network_poll;
    uv_poll_t inner_poll;
    uv_timer_t linger;
    int network;
    int inner; /* -1: before the handshake is over */
    SSL *ssl;
    struct load incoming;
    struct load outgoing;
    int network_wants; /* events without which this turn came no further */
    int inner_wants;
    bool is_network_ended; /* the peer sends no more */
    bool is_inner_ended;   /* the stream was closed, and all that was written to it is here */
    bool is_inner_hung_up; /* it was closed, and perhaps something is still to be read */
    bool is_farewell_sent;
    bool is_released;
    const char *ended; /* why; NULL: it goes on */
    unsigned n_handles;
    void (*agreed)(void *data, uv_stream_t *stream, const char *reason);
    void *data;
};

/* --- The end. --- */

static void free_if_done(struct peer_tls *tls) {
    if (tls->n_handles == 0 && tls->is_released) {
        SSL_free(tls->ssl);
        free(tls);
    }
}

static void handle_closed(uv_handle_t *handle) {
    struct peer_tls *tls = handle->data;
    if (--tls->n_handles > 0) {
        return;
    }
    close(tls->network);
    if (tls->inner >= 0) {
        close(tls->inner);
    }
    free_if_done(tls);
}

/* What the peer sent and nobody will read: left in the socket it would make the system reset the
 * connection, and our last word, an alert perhaps, might be lost with it. */
static void drain(int socket) {
    uint8_t nothing[4096];
    for (int i = 0; i < 16 && recv(socket, nothing, sizeof nothing, MSG_DONTWAIT) > 0; i++) {
    }
}

static void end(struct peer_tls *tls, const char *reason) {
    if (tls->ended != NULL) {
        return;
    }
    tls->ended = reason;
    drain(tls->network);
    uv_close((uv_handle_t *)&tls->network_poll, handle_closed);
    uv_close((uv_handle_t *)&tls->linger, handle_closed);
    if (tls->inner >= 0) {
        uv_close((uv_handle_t *)&tls->inner_poll, handle_closed);
    }
}

static void linger_is_over(uv_timer_t *timer) {
    end(timer->data, "the peer hung up");
}

/* --- Moving bytes. --- */

/* OpenSSL says nothing to one who speaks plain text; an alert tells him why he is not let in. */
static void warn_plain_text(struct peer_tls *tls, unsigned long error) {
    static const uint8_t alert[] = {21, 3, 1, 0, 2, SSL3_AL_FATAL, SSL_AD_PROTOCOL_VERSION};
    if (tls->inner < 0 && SSL_is_server(tls->ssl) &&
        ERR_GET_REASON(error) == SSL_R_WRONG_VERSION_NUMBER) {
        (void)send(tls->network, alert, sizeof alert, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
}

/* True: it will go on when the network is ready. False: this connection is over. */
static bool network_waits(struct peer_tls *tls, int result) {
    struct peer_tls_failure failure = {.system_error = errno, .is_agreed = tls->inner >= 0};
    failure.ssl_error = SSL_get_error(tls->ssl, result);
    switch (failure.ssl_error) {
    case SSL_ERROR_WANT_READ:
        tls->network_wants |= UV_READABLE;
        return true;
    case SSL_ERROR_WANT_WRITE:
        tls->network_wants |= UV_WRITABLE;
        return true;
    case SSL_ERROR_ZERO_RETURN:
        tls->is_network_ended = true;
        return true;
    default:
        warn_plain_text(tls, ERR_peek_last_error());
        end(tls, peer_tls_reason(tls->ssl, &failure));
        return false;
    }
}

static bool would_block(void) {
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

/* Each of these four moves one piece and tells whether it did. */

static bool take_from_network(struct peer_tls *tls) {
    struct load *load = &tls->incoming;
    if (load->start < load->end || tls->is_network_ended) {
        return false;
    }
    ERR_clear_error();
    errno = 0;
    int n = SSL_read(tls->ssl, load->bytes, sizeof load->bytes);
    if (n <= 0) {
        return network_waits(tls, n) && tls->is_network_ended;
    }
    load->start = 0;
    load->end = (size_t)n;
    return true;
}

static bool give_to_inner(struct peer_tls *tls) {
    struct load *load = &tls->incoming;
    if (load->start == load->end) {
        return false;
    }
    if (tls->is_inner_ended) {
        load->start = load->end;
        return true;
    }
    ssize_t n = send(tls->inner, load->bytes + load->start, load->end - load->start,
                     MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && would_block()) {
        tls->inner_wants |= UV_WRITABLE;
        return false;
    }
    if (n < 0) {
        tls->is_inner_ended = true;
        return true;
    }
    load->start += (size_t)n;
    return true;
}

static bool take_from_inner(struct peer_tls *tls) {
    struct load *load = &tls->outgoing;
    if (load->start < load->end || tls->is_inner_ended) {
        return false;
    }
    ssize_t n = recv(tls->inner, load->bytes, sizeof load->bytes, MSG_DONTWAIT);
    if (n < 0 && would_block()) {
        tls->inner_wants |= UV_READABLE;
        return false;
    }
    if (n <= 0) {
        tls->is_inner_ended = true;
        return true;
    }
    load->start = 0;
    load->end = (size_t)n;
    return true;
}

static bool give_to_network(struct peer_tls *tls) {
    struct load *load = &tls->outgoing;
    if (load->start == load->end) {
        return false;
    }
    ERR_clear_error();
    errno = 0;
    int n = SSL_write(tls->ssl, load->bytes + load->start, (int)(load->end - load->start));
    if (n <= 0) {
        (void)network_waits(tls, n);
        return false;
    }
    load->start += (size_t)n;
    return true;
}

/* What was written to the stream before it was closed has left: tells the peer that this is all. */
static void say_farewell(struct peer_tls *tls) {
    if (tls->is_farewell_sent || !tls->is_inner_ended || tls->outgoing.start < tls->outgoing.end) {
        return;
    }
    ERR_clear_error();
    errno = 0;
    int result = SSL_shutdown(tls->ssl);
    tls->is_farewell_sent = result >= 0;
    if (result < 0) {
        (void)network_waits(tls, result);
    }
}

/* Either side is gone: what is still on its way to the other has only so long. */
static void watch_the_end(struct peer_tls *tls, bool has_moved) {
    if (!tls->is_inner_ended && !tls->is_inner_hung_up && !tls->is_network_ended) {
        return;
    }
    bool is_delivered = tls->incoming.start == tls->incoming.end;
    if (tls->is_network_ended && is_delivered) {
        (void)SSL_shutdown(tls->ssl); /* answered, if that can be done at once */
        end(tls, "the peer hung up");
    } else if (has_moved || !uv_is_active((uv_handle_t *)&tls->linger)) {
        uv_timer_start(&tls->linger, linger_is_over, PEER_TLS_LINGER_MS, 0);
    }
}

/* What the pair holds bounds what one call moves: its other end is served by this same thread. */
static void move_all(struct peer_tls *tls) {
    bool has_moved = false;
    for (bool moves = true; moves && tls->ended == NULL;) {
        tls->network_wants = 0;
        tls->inner_wants = 0;
        /* First what the peer has to say: it may be why nothing more can be written. */
        moves = take_from_network(tls);
        moves = (tls->ended == NULL && give_to_inner(tls)) || moves;
        moves = (tls->ended == NULL && take_from_inner(tls)) || moves;
        moves = (tls->ended == NULL && give_to_network(tls)) || moves;
        has_moved = has_moved || moves;
    }
    if (tls->ended == NULL) {
        say_farewell(tls);
    }
    if (tls->ended == NULL) {
        watch_the_end(tls, has_moved);
    }
}

/* --- The handshake. --- */

static void turn(struct peer_tls *tls);

static void inner_ready(uv_poll_t *poll, int status, int events) {
    struct peer_tls *tls = poll->data;
    tls->is_inner_hung_up = tls->is_inner_hung_up || status != 0 || (events & UV_DISCONNECT) != 0;
    turn(tls);
}

/* The pair whose one end is the stream that the owner gets; NULL: no descriptors are left. */
static uv_stream_t *make_stream(struct peer_tls *tls) {
    int ends[2];
    uv_pipe_t *pipe = malloc(sizeof *pipe);
    if (pipe == NULL) {
        abort();
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
        free(pipe);
        return NULL;
    }
    int rv = uv_poll_init(tls->network_poll.loop, &tls->inner_poll, ends[0]);
    assert(rv == 0);
    tls->inner_poll.data = tls;
    tls->inner = ends[0];
    tls->n_handles++;
    uv_pipe_init(tls->network_poll.loop, pipe, 0);
    rv = uv_pipe_open(pipe, ends[1]);
    assert(rv == 0);
    return (uv_stream_t *)pipe;
}

static void shake_hands(struct peer_tls *tls) {
    tls->network_wants = 0;
    ERR_clear_error();
    errno = 0;
    int result = SSL_do_handshake(tls->ssl);
    if (result != 1) {
        if (network_waits(tls, result) && tls->is_network_ended) {
            const struct peer_tls_failure failure = {.ssl_error = SSL_ERROR_ZERO_RETURN};
            end(tls, peer_tls_reason(tls->ssl, &failure));
        }
        return;
    }
    uv_stream_t *stream = make_stream(tls);
    if (stream == NULL) {
        end(tls, uv_strerror(UV_EMFILE));
        return;
    }
    tls->agreed(tls->data, stream, NULL);
}

/* --- Life. --- */

static void network_ready(uv_poll_t *poll, int status, int events) {
    /* A broken socket is looked at like a ready one: what the peer said before can be read. */
    (void)status;
    (void)events;
    turn(poll->data);
}

static void turn(struct peer_tls *tls) {
    if (tls->ended != NULL) {
        return;
    }
    if (tls->inner < 0) {
        shake_hands(tls);
    }
    if (tls->inner >= 0) {
        move_all(tls);
    } else if (tls->ended != NULL) {
        /* The handshake failed, and nobody else would tell. */
        tls->agreed(tls->data, NULL, tls->ended);
        return;
    }
    if (tls->ended != NULL) {
        return;
    }
    /* Without events a handle is not polled at all, so that a hang-up cannot spin the loop. */
    if (tls->network_wants != 0) {
        uv_poll_start(&tls->network_poll, tls->network_wants, network_ready);
    } else {
        uv_poll_stop(&tls->network_poll);
    }
    if (tls->inner < 0) {
        return;
    }
    /* That the stream was closed must be known even while the peer takes nothing. */
    int events = tls->inner_wants | (tls->is_inner_hung_up ? 0 : UV_DISCONNECT);
    if (events != 0) {
        uv_poll_start(&tls->inner_poll, events, inner_ready);
    } else {
        uv_poll_stop(&tls->inner_poll);
    }
}

static void free_handle(uv_handle_t *handle) {
    free(handle);
}

int peer_tls_take_socket(uv_tcp_t *tcp) {
    uv_os_fd_t fd = -1;
    int own = -1;
    if (uv_fileno((uv_handle_t *)tcp, &fd) == 0) {
        own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    }
    uv_close((uv_handle_t *)tcp, free_handle);
    return own;
}

struct peer_tls *peer_tls_start(uv_loop_t *loop, SSL *ssl, int socket,
                                void (*agreed)(void *data, uv_stream_t *stream, const char *reason),
                                void *data) {
    struct peer_tls *tls = calloc(1, sizeof *tls);
    if (tls == NULL) {
        abort();
    }
    tls->network = socket;
    tls->inner = -1;
    tls->ssl = ssl;
    tls->agreed = agreed;
    tls->data = data;
    if (ssl == NULL || socket < 0 || SSL_set_fd(ssl, socket) != 1 ||
        uv_poll_init_socket(loop, &tls->network_poll, socket) != 0) {
        if (socket >= 0) {
            close(socket);
        }
        SSL_free(ssl);
        free(tls);
        return NULL;
    }
    tls->n_handles = 2;
    uv_timer_init(loop, &tls->linger);
    tls->network_poll.data = tls;
    tls->linger.data = tls;
    /* Whoever begins may write at once; whoever waits is called when there is something. */
    uv_poll_start(&tls->network_poll, SSL_is_server(ssl) ? UV_READABLE : UV_WRITABLE,
                  network_ready);
    return tls;
}

const char *peer_tls_ended(const struct peer_tls *tls) {
    return tls->ended;
}

void peer_tls_release(struct peer_tls *tls) {
    assert(!tls->is_released);
    tls->is_released = true;
    if (tls->inner < 0) {
        end(tls, "released");
    }
    free_if_done(tls);
}
