/* Streams of libuv: the kinds "tcp" and "unix", and the lower half of TLS. */
#include "net/transport.h"

#include "net/transport_internal.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum {
    HANDSHAKES_RESUMED_MAX = 64, /* in one iteration; more would only wait again */
    PROBE_AFTER_SECONDS = 10,
    KERNEL_UNSENT_BYTES_MAX = 128 * 1024
};

struct pending_write {
    uv_write_t request;
    struct transport *transport;
    size_t size;
    uint8_t data[];
};

/* --- shared -------------------------------------------------------------------------------- */

void transport_shared_init(struct transport_shared *shared, struct net_shared *net,
                           uv_loop_t *loop) {
    *shared = (struct transport_shared){.loop = loop, .net = net, .read_size = TRANSPORT_READ_SIZE};
    shared->read_buffer = malloc(TRANSPORT_READ_SIZE);
    if (shared->read_buffer == NULL) {
        abort();
    }
    buffer_init(&shared->plaintext);
    buffer_init(&shared->ciphertext);
    list_init(&shared->waiting);
    list_init(&shared->handshakes);
}

void transport_shared_clear(struct transport_shared *shared) {
    assert(list_is_empty(&shared->waiting));
    assert(shared->n_handshakes == 0);
    buffer_clear(&shared->plaintext);
    buffer_clear(&shared->ciphertext);
    free(shared->read_buffer);
}

/* --- reading ------------------------------------------------------------------------------- */

static void on_alloc(uv_handle_t *handle, size_t suggested_size, uv_buf_t *out_buffer) {
    (void)suggested_size;
    const struct transport *transport = handle->data;
    /* Without room libuv leaves the bytes in the socket and reports UV_ENOBUFS. */
    bool must_wait = transport->tls_context != NULL && transport_tls_must_wait(transport);
    *out_buffer = uv_buf_init((char *)transport->shared->read_buffer,
                              must_wait ? 0 : (unsigned)transport->shared->read_size);
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer) {
    struct transport *transport = stream->data;
    if (size > 0) {
        transport->kind->received(transport, bytes_of(buffer->base, (size_t)size));
    } else if (size == UV_EOF) {
        transport->kind->ended(transport);
    } else if (size == UV_ENOBUFS) {
        uv_read_stop(stream);
        list_append(&transport->shared->waiting, &transport->in_waiting);
    } else if (size < 0) {
        transport->events->on_failed(transport);
    }
}

bool transport_start_reading(struct transport *transport) {
    if (!transport->is_reading && list_is_empty(&transport->in_waiting)) {
        transport->is_reading = uv_read_start(&transport->socket.stream, on_alloc, on_read) == 0;
    }
    return transport->is_reading;
}

void transport_stop_reading(struct transport *transport) {
    list_remove(&transport->in_waiting);
    uv_read_stop(&transport->socket.stream);
    transport->is_reading = false;
}

void transport_shared_iterate(struct transport_shared *shared) {
    shared->handshake_ns = 0;
    for (unsigned i = 0; i < HANDSHAKES_RESUMED_MAX; i++) {
        struct list *node = list_pop_first(&shared->waiting);
        if (node == NULL) {
            return;
        }
        struct transport *transport = list_entry(node, struct transport, in_waiting);
        if (uv_read_start(&transport->socket.stream, on_alloc, on_read) != 0) {
            transport->events->on_failed(transport);
        }
    }
}

static void plain_received(struct transport *transport, struct bytes wire) {
    transport->events->on_bytes(transport, wire, wire.size);
}

static void plain_ended(struct transport *transport) {
    transport->events->on_end(transport);
}

/* --- writing ------------------------------------------------------------------------------- */

static void on_written(uv_write_t *request, int result) {
    struct pending_write *pending = (struct pending_write *)request;
    struct transport *transport = pending->transport;
    assert(transport->n_writes > 0);
    transport->n_writes--;
    if (result == 0) {
        transport->shared->net->stats.bytes_sent += pending->size;
    }
    free(pending);
    if (transport->is_closing) {
        return;
    }
    if (result != 0) {
        transport->events->on_failed(transport);
    } else if (transport->n_writes == 0) {
        transport->events->on_sent(transport);
    }
}

/* The socket is full: the rest is copied and written as the peer reads. */
static enum transport_result write_rest(struct transport *transport, struct bytes rest) {
    struct pending_write *pending = malloc(sizeof *pending + rest.size);
    if (pending == NULL) {
        return TRANSPORT_FAILED;
    }
    pending->transport = transport;
    pending->size = rest.size;
    memcpy(pending->data, rest.data, rest.size);
    uv_buf_t buffer = uv_buf_init((char *)pending->data, (unsigned)rest.size);
    if (uv_write(&pending->request, &transport->socket.stream, &buffer, 1, on_written) != 0) {
        free(pending);
        return TRANSPORT_FAILED;
    }
    transport->n_writes++;
    return TRANSPORT_QUEUED;
}

enum transport_result transport_stream_write(struct transport *transport, struct bytes wire) {
    size_t taken = 0;
    if (transport->n_writes == 0) {
        uv_buf_t buffer = uv_buf_init((char *)(uintptr_t)wire.data, (unsigned)wire.size);
        int sent = uv_try_write(&transport->socket.stream, &buffer, 1);
        if (sent < 0 && sent != UV_EAGAIN) {
            return TRANSPORT_FAILED;
        }
        taken = sent > 0 ? (size_t)sent : 0;
        transport->shared->net->stats.bytes_sent += taken;
    }
    if (taken == wire.size) {
        return TRANSPORT_SENT;
    }
    return write_rest(transport, bytes_of(wire.data + taken, wire.size - taken));
}

/* --- what the kernel knows ----------------------------------------------------------------- */

static int descriptor_of(const struct transport *transport) {
    uv_os_fd_t fd = -1;
    return uv_fileno(&transport->socket.handle, &fd) == 0 ? fd : -1;
}

static size_t ask_kernel(const struct transport *transport, unsigned long question) {
    int size = 0;
    int fd = descriptor_of(transport);
    return fd >= 0 && ioctl(fd, question, &size) == 0 && size > 0 ? (size_t)size : 0;
}

size_t transport_unsent_bytes(const struct transport *transport) {
    return uv_stream_get_write_queue_size(&transport->socket.stream);
}

size_t transport_unacknowledged_bytes(const struct transport *transport) {
    return ask_kernel(transport, TIOCOUTQ);
}

size_t transport_unread_bytes(const struct transport *transport) {
    return ask_kernel(transport, FIONREAD);
}

bool transport_has_room(const struct transport *transport) {
    struct pollfd poll_fd = {.fd = descriptor_of(transport), .events = POLLOUT};
    return poll_fd.fd >= 0 && poll(&poll_fd, 1, 0) == 1 && (poll_fd.revents & POLLOUT) != 0;
}

void transport_probe_peer(struct transport *transport) {
    if (transport->socket.handle.type == UV_TCP) {
        uv_tcp_keepalive(&transport->socket.tcp, 1, PROBE_AFTER_SECONDS);
    }
}

bool transport_is_broken(const struct transport *transport) {
    struct pollfd poll_fd = {.fd = descriptor_of(transport)};
    return poll_fd.fd < 0 ||
           (poll(&poll_fd, 1, 0) == 1 && (poll_fd.revents & (POLLHUP | POLLERR)) != 0);
}

void transport_socket_text(int socket, char out_text[NET_ADDRESS_SIZE]) {
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    char host[INET6_ADDRSTRLEN] = "";
    snprintf(out_text, NET_ADDRESS_SIZE, "unix");
    if (getpeername(socket, (struct sockaddr *)&address, &size) != 0) {
        return;
    }
    if (address.ss_family == AF_INET6) {
        const struct sockaddr_in6 *ipv6 = (const struct sockaddr_in6 *)&address;
        inet_ntop(AF_INET6, &ipv6->sin6_addr, host, sizeof host);
        snprintf(out_text, NET_ADDRESS_SIZE, "[%s]:%u", host, ntohs(ipv6->sin6_port));
    } else if (address.ss_family == AF_INET) {
        const struct sockaddr_in *ipv4 = (const struct sockaddr_in *)&address;
        inet_ntop(AF_INET, &ipv4->sin_addr, host, sizeof host);
        snprintf(out_text, NET_ADDRESS_SIZE, "%s:%u", host, ntohs(ipv4->sin_port));
    }
}

void transport_peer_text(const struct transport *transport, char out_text[NET_ADDRESS_SIZE]) {
    uv_os_fd_t socket = -1;
    (void)uv_fileno(&transport->socket.handle, &socket);
    transport_socket_text(socket, out_text);
}

/* --- life ---------------------------------------------------------------------------------- */

bool transport_stream_open_tcp(struct transport *transport, int socket) {
    int result = uv_tcp_init(transport->shared->loop, &transport->socket.tcp);
    assert(result == 0);
    transport->socket.handle.data = transport;
    if (uv_tcp_open(&transport->socket.tcp, socket) != 0) {
        return false;
    }
    uv_tcp_nodelay(&transport->socket.tcp, 1);
    /* What is with the kernel cannot be overtaken: it is given little more than it can send. */
    int unsent_max = KERNEL_UNSENT_BYTES_MAX;
    (void)setsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent_max, sizeof unsent_max);
    return true;
}

bool transport_stream_open_unix(struct transport *transport, int socket) {
    int result = uv_pipe_init(transport->shared->loop, &transport->socket.pipe, 0);
    assert(result == 0);
    transport->socket.handle.data = transport;
    return uv_pipe_open(&transport->socket.pipe, socket) == 0;
}

static void on_closed(uv_handle_t *handle) {
    struct transport *transport = handle->data;
    /* libuv has cancelled every write before. */
    assert(transport->n_writes == 0);
    tls_stream_destroy(transport->tls);
    free(transport->identity);
    transport->tls = NULL;
    transport->identity = NULL;
    transport->events->on_closed(transport);
}

void transport_stream_end_output(struct transport *transport) {
    /* Nothing waits in libuv, so that the kernel sends its end behind all that was written. */
    assert(!transport_is_full(transport));
    (void)shutdown(descriptor_of(transport), SHUT_WR);
}

void transport_stream_close(struct transport *transport) {
    transport->is_closing = true;
    list_remove(&transport->in_waiting);
    transport_tls_end_handshake(transport);
    uv_close(&transport->socket.handle, on_closed);
}

bool transport_open(struct transport *transport, struct transport_shared *shared,
                    const struct transport_kind *kind, struct tls_context *tls_context,
                    const struct transport_events *events, int socket) {
    *transport = (struct transport){
        .kind = kind, .events = events, .shared = shared, .tls_context = tls_context};
    list_init(&transport->in_waiting);
    list_init(&transport->in_handshakes);
    if (!kind->open(transport, socket)) {
        close(socket);
        transport_stream_close(transport);
        return false;
    }
    return true;
}

void transport_close(struct transport *transport) {
    assert(!transport->is_closing);
    transport->kind->close(transport);
}

const struct transport_kind transport_tcp = {
    .name = "tcp",
    .open = transport_stream_open_tcp,
    .received = plain_received,
    .ended = plain_ended,
    .write = transport_stream_write,
    .end_output = transport_stream_end_output,
    .close = transport_stream_close,
};

const struct transport_kind transport_unix = {
    .name = "unix",
    .open = transport_stream_open_unix,
    .received = plain_received,
    .ended = plain_ended,
    .write = transport_stream_write,
    .end_output = transport_stream_end_output,
    .close = transport_stream_close,
};
