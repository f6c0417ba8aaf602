#include "lease/lib_socket.h"

#include "lease/lib_resolver.h"
#include "tls/tls_stream.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_SIZE = 32 * 1024 };

struct lib_socket {
    const struct endpoint *endpoint;
    struct tls_context *tls_context;
    int epoll_fd;
    void *tag;
    enum lib_socket_state state;
    struct lib_resolver *resolver;
    struct lib_address addresses[LIB_ADDRESSES_MAX];
    size_t n_addresses;
    size_t next_address;
    int fd;
    bool is_connected;
    bool wants_write; /* the epoll knows */
    bool is_lent;     /* the epoll is not to tell what can be read */
    struct tls_stream *tls;
    struct lib_http2 *http2;
    struct buffer frames; /* with TLS: what is to be encrypted */
    struct buffer out;
    size_t out_at;
    char place[ENDPOINT_TEXT_SIZE_MAX];
    char reason[LIB_TEXT_SIZE_MAX];
};

/* ---- failures ---- */

void lib_socket_fail(struct lib_socket *sock, const char *reason) {
    if (sock->state != LIB_SOCKET_FAILED) {
        sock->state = LIB_SOCKET_FAILED;
        snprintf(sock->reason, sizeof sock->reason, "%s: %s", sock->place, reason);
    }
}

static void fail_with_errno(struct lib_socket *sock, const char *what, int error) {
    char reason[128];
    char room[96];
    snprintf(reason, sizeof reason, "%s: %s", what, strerror_r(error, room, sizeof room));
    lib_socket_fail(sock, reason);
}

static void fail_with_tls(struct lib_socket *sock) {
    switch (tls_stream_failure(sock->tls)) {
    case TLS_FAILURE_UNKNOWN_AUTHORITY:
        lib_socket_fail(sock, "the certificate is not signed by a trusted authority; name the "
                              "file with its authority (ca_file; --cacert of lease)");
        break;
    case TLS_FAILURE_WRONG_HOST:
        lib_socket_fail(sock, "the certificate is for another host");
        break;
    case TLS_FAILURE_PLAIN_TEXT:
    case TLS_FAILURE_CLOSED_EARLY:
        lib_socket_fail(sock, "no TLS was agreed on; if the server speaks none, use http://");
        break;
    case TLS_FAILURE_OURS_MISSING:
        lib_socket_fail(sock, "the server wants a client certificate (cert_file and key_file; "
                              "--cert and --key of lease)");
        break;
    default:
        lib_socket_fail(sock, tls_stream_error(sock->tls));
    }
}

/* ---- connecting ---- */

static void watch(struct lib_socket *sock, int fd, uint32_t events, int operation) {
    struct epoll_event event = {.events = events, .data.ptr = sock->tag};
    if (epoll_ctl(sock->epoll_fd, operation, fd, &event) != 0) {
        fail_with_errno(sock, "cannot be watched", errno);
    }
}

static void watch_again(struct lib_socket *sock) {
    uint32_t events = (sock->is_lent ? 0U : EPOLLIN) | (sock->wants_write ? EPOLLOUT : 0U);
    watch(sock, sock->fd, events, EPOLL_CTL_MOD);
}

static void watch_socket(struct lib_socket *sock, bool wants_write) {
    if (sock->wants_write != wants_write) {
        sock->wants_write = wants_write;
        watch_again(sock);
    }
}

void lib_socket_lend(struct lib_socket *sock, bool is_lent) {
    assert(sock->is_connected);
    assert(sock->is_lent != is_lent);
    sock->is_lent = is_lent;
    watch_again(sock);
}

bool lib_socket_is_lent(const struct lib_socket *sock) {
    return sock->is_lent;
}

int lib_socket_fd(const struct lib_socket *sock) {
    return sock->fd;
}

static void begin_http2(struct lib_socket *sock) {
    if (sock->tls != NULL && strcmp(tls_stream_alpn(sock->tls), "h2") != 0) {
        lib_socket_fail(sock, "the server does not speak HTTP/2");
        return;
    }
    sock->state = LIB_SOCKET_OPEN;
}

static void connected(struct lib_socket *sock) {
    sock->is_connected = true;
    const char *host = sock->endpoint->host;
    const char *authority = host[0] != '\0' ? sock->place : "localhost";
    sock->http2 = lib_http2_create(authority, sock->tls_context != NULL);
    if (sock->http2 == NULL) {
        lib_socket_fail(sock, "out of memory");
        return;
    }
    watch_socket(sock, false);
    if (sock->tls_context == NULL) {
        begin_http2(sock);
        return;
    }
    sock->tls = tls_stream_connect(sock->tls_context, host[0] != '\0' ? host : "localhost");
    if (sock->tls == NULL) {
        lib_socket_fail(sock, "no certificate can be for such a host");
    }
}

/* Begins to connect. An error number, or 0. */
static int dial(struct lib_socket *sock, const struct lib_address *address) {
    int family = address->storage.ss_family;
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return errno;
    }
    if (family != AF_UNIX) {
        int one = 1;
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    }
    if (connect(fd, (const struct sockaddr *)&address->storage, address->size) != 0 &&
        errno != EINPROGRESS) {
        int error = errno;
        close(fd);
        return error;
    }
    sock->fd = fd;
    sock->wants_write = true;
    watch(sock, fd, EPOLLIN | EPOLLOUT, EPOLL_CTL_ADD);
    return 0;
}

static void hang_up(struct lib_socket *sock) {
    if (sock->fd >= 0) {
        close(sock->fd); /* the epoll forgets it */
        sock->fd = -1;
    }
}

static void dial_next(struct lib_socket *sock, int error) {
    hang_up(sock);
    while (sock->next_address < sock->n_addresses) {
        error = dial(sock, &sock->addresses[sock->next_address++]);
        if (error == 0) {
            return;
        }
    }
    fail_with_errno(sock, "cannot connect", error);
}

static void take_addresses(struct lib_socket *sock) {
    const char *error = NULL;
    sock->n_addresses = lib_resolver_take(sock->resolver, sock->addresses, &error);
    (void)epoll_ctl(sock->epoll_fd, EPOLL_CTL_DEL, lib_resolver_fd(sock->resolver), NULL);
    lib_resolver_release(sock->resolver);
    sock->resolver = NULL;
    if (sock->n_addresses == 0) {
        lib_socket_fail(sock, error);
        return;
    }
    dial_next(sock, EADDRNOTAVAIL);
}

static void begin(struct lib_socket *sock) {
    const struct endpoint *endpoint = sock->endpoint;
    if (endpoint->path[0] != '\0') {
        struct sockaddr_un *address = (struct sockaddr_un *)&sock->addresses[0].storage;
        address->sun_family = AF_UNIX;
        memcpy(address->sun_path, endpoint->path, sizeof address->sun_path);
        sock->addresses[0].size = sizeof *address;
        sock->n_addresses = 1;
    } else {
        sock->n_addresses = lib_resolver_numeric(endpoint->host, endpoint->port, sock->addresses);
    }
    if (sock->n_addresses > 0) {
        dial_next(sock, EADDRNOTAVAIL);
        return;
    }
    sock->resolver = lib_resolver_start(endpoint->host, endpoint->port);
    if (sock->resolver == NULL) {
        lib_socket_fail(sock, "its name cannot be resolved: no thread can be started");
        return;
    }
    watch(sock, lib_resolver_fd(sock->resolver), EPOLLIN, EPOLL_CTL_ADD);
}

static bool resolver_is_done(const struct lib_socket *sock) {
    struct pollfd one = {.fd = lib_resolver_fd(sock->resolver), .events = POLLIN};
    return poll(&one, 1, 0) == 1;
}

/* While it connects: looks whether it has. */
static void finish_connecting(struct lib_socket *sock) {
    struct pollfd one = {.fd = sock->fd, .events = POLLOUT};
    if (poll(&one, 1, 0) != 1) {
        return;
    }
    int error = 0;
    socklen_t size = sizeof error;
    if (getsockopt(sock->fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) {
        error = errno;
    }
    if (error != 0) {
        dial_next(sock, error);
        return;
    }
    connected(sock);
}

/* ---- bytes ---- */

static void take_plaintext(struct lib_socket *sock, struct bytes bytes) {
    const char *error = lib_http2_receive(sock->http2, bytes);
    if (error != NULL) {
        lib_socket_fail(sock, error);
    }
}

static void take_ciphertext(struct lib_socket *sock, struct bytes bytes) {
    struct buffer plaintext;
    buffer_init(&plaintext);
    enum tls_state state = tls_stream_feed(sock->tls, bytes, &plaintext);
    if (state == TLS_OPEN && sock->state == LIB_SOCKET_MAKING) {
        begin_http2(sock);
    }
    if (plaintext.size > 0 && sock->state == LIB_SOCKET_OPEN) {
        take_plaintext(sock, bytes_of(plaintext.data, plaintext.size));
    }
    buffer_clear(&plaintext);
    if (state == TLS_FAILED || state == TLS_ENDED) {
        lib_socket_write(sock); /* the alert gives the server the reason */
        fail_with_tls(sock);
    }
}

static bool read_some(struct lib_socket *sock) {
    uint8_t room[READ_SIZE];
    ssize_t n = recv(sock->fd, room, sizeof room, 0);
    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR) {
            fail_with_errno(sock, "the connection broke", errno);
        }
        return false;
    }
    if (n == 0) {
        lib_socket_fail(sock, "the server closed the connection");
        return false;
    }
    if (sock->tls != NULL) {
        take_ciphertext(sock, bytes_of(room, (size_t)n));
    } else {
        take_plaintext(sock, bytes_of(room, (size_t)n));
    }
    return (size_t)n == sizeof room;
}

bool lib_socket_read(struct lib_socket *sock) {
    if (sock->state == LIB_SOCKET_FAILED) {
        return false;
    }
    if (sock->resolver != NULL) {
        if (resolver_is_done(sock)) {
            take_addresses(sock);
        }
        return false;
    }
    if (!sock->is_connected) {
        finish_connecting(sock);
        return false;
    }
    return read_some(sock);
}

/* Moves what is to be sent into `out`. */
static void fill(struct lib_socket *sock) {
    struct buffer *to = sock->tls != NULL ? &sock->frames : &sock->out;
    if (sock->state == LIB_SOCKET_OPEN && !lib_http2_fill(sock->http2, to)) {
        lib_socket_fail(sock, "the server closed the connection");
    }
    if (sock->tls == NULL) {
        return;
    }
    if (sock->frames.size > 0 && tls_stream_state(sock->tls) == TLS_OPEN) {
        tls_stream_write(sock->tls, bytes_of(sock->frames.data, sock->frames.size));
        sock->frames.size = 0;
    }
    struct buffer *output = tls_stream_output(sock->tls);
    buffer_append(&sock->out, output->data, output->size);
    output->size = 0;
}

void lib_socket_write(struct lib_socket *sock) {
    if (!sock->is_connected || sock->fd < 0) {
        return;
    }
    fill(sock);
    while (sock->out_at < sock->out.size) {
        ssize_t n = send(sock->fd, sock->out.data + sock->out_at, sock->out.size - sock->out_at,
                         MSG_NOSIGNAL);
        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            if (errno != EAGAIN) {
                fail_with_errno(sock, "the connection broke", errno);
                return;
            }
            break;
        }
        sock->out_at += (size_t)n;
    }
    if (sock->out_at == sock->out.size) {
        sock->out.size = 0;
        sock->out_at = 0;
    }
    watch_socket(sock, sock->out.size > 0);
}

/* ---- life ---- */

struct lib_socket *lib_socket_create(const struct endpoint *endpoint, struct tls_context *tls,
                                     int epoll_fd, void *tag) {
    struct lib_socket *sock = calloc(1, sizeof *sock);
    if (sock == NULL) {
        abort();
    }
    sock->endpoint = endpoint;
    sock->tls_context = tls;
    sock->epoll_fd = epoll_fd;
    sock->tag = tag;
    sock->fd = -1;
    endpoint_text_format(endpoint, sock->place);
    begin(sock);
    return sock;
}

void lib_socket_destroy(struct lib_socket *sock) {
    if (sock == NULL) {
        return;
    }
    if (sock->resolver != NULL) {
        (void)epoll_ctl(sock->epoll_fd, EPOLL_CTL_DEL, lib_resolver_fd(sock->resolver), NULL);
        lib_resolver_release(sock->resolver);
    }
    hang_up(sock);
    tls_stream_destroy(sock->tls);
    lib_http2_destroy(sock->http2);
    buffer_clear(&sock->frames);
    buffer_clear(&sock->out);
    free(sock);
}

enum lib_socket_state lib_socket_state(const struct lib_socket *sock) {
    return sock->state;
}

const char *lib_socket_reason(const struct lib_socket *sock) {
    return sock->reason;
}

struct lib_http2 *lib_socket_http2(struct lib_socket *sock) {
    return sock->http2;
}
