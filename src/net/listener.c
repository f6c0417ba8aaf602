#include "net/listener.h"

#include "base/log.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    BACKLOG = 4096,
    ACCEPTS_PER_TURN_MAX = 1024,
    REST_MS = 100 /* after the process ran out of file descriptors */
};

static void on_readable(uv_poll_t *handle, int status, int events);

static void on_rested(uv_timer_t *timer) {
    struct listener *listener = timer->data;
    listener->is_resting = false;
    uv_poll_start(&listener->readable, UV_READABLE, on_readable);
}

static void rest(struct listener *listener, int error_number) {
    if (!listener->is_resting) {
        log_warning("cannot accept connections", LOG_TEXT("reason", strerror(error_number)));
    }
    listener->is_resting = true;
    listener->is_catching_up = false;
    uv_poll_stop(&listener->readable);
    uv_timer_start(&listener->rest, on_rested, REST_MS, 0);
}

static void on_readable(uv_poll_t *handle, int status, int events) {
    (void)status;
    (void)events;
    struct listener *listener = handle->data;
    for (unsigned i = 0; i < ACCEPTS_PER_TURN_MAX; i++) {
        int socket = accept4(listener->socket, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (socket >= 0) {
            connection_pool_accept(listener->pool, socket, listener->is_catching_up);
            continue;
        }
        switch (errno) {
        case EAGAIN:
            listener->is_catching_up = false;
            return;
        case EMFILE:
        case ENFILE:
        case ENOBUFS:
        case ENOMEM:
            rest(listener, errno);
            return;
        default:
            /* The connection went away before it was accepted (accept(2) names many errors). */
            continue;
        }
    }
}

/* -1: errno tells why. */
static int bind_socket(const struct addrinfo *address, uint16_t port) {
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    struct sockaddr_storage storage = {0};
    memcpy(&storage, address->ai_addr, address->ai_addrlen);
    int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (address->ai_family == AF_INET6) {
        struct sockaddr_in6 *ipv6 = (struct sockaddr_in6 *)&storage;
        ipv6->sin6_port = htons(port);
        /* "::" means every address of both kinds; any other address means itself. */
        int v6_only = IN6_IS_ADDR_UNSPECIFIED(&ipv6->sin6_addr) ? 0 : 1;
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof v6_only);
    } else {
        ((struct sockaddr_in *)&storage)->sin_port = htons(port);
    }
    if (bind(fd, (struct sockaddr *)&storage, address->ai_addrlen) != 0 ||
        listen(fd, BACKLOG) != 0) {
        int error_number = errno;
        close(fd);
        errno = error_number;
        return -1;
    }
    return fd;
}

enum status listener_create(struct connection_pool *pool, const struct addrinfo *address,
                            uint16_t port, struct listener **out_listener, int *out_error_number) {
    int fd = bind_socket(address, port);
    if (fd < 0) {
        *out_error_number = errno;
        return STATUS_IO;
    }
    struct listener *listener = calloc(1, sizeof *listener);
    if (listener == NULL) {
        abort();
    }
    listener->pool = pool;
    listener->socket = fd;
    list_init(&listener->in_server);
    int result = uv_poll_init(pool->loop, &listener->readable, fd);
    if (result != 0) {
        close(fd);
        free(listener);
        *out_error_number = -result;
        return STATUS_IO;
    }
    uv_timer_init(pool->loop, &listener->rest);
    listener->readable.data = listener;
    listener->rest.data = listener;
    listener->n_open_handles = 2;
    uv_poll_start(&listener->readable, UV_READABLE, on_readable);
    *out_listener = listener;
    return STATUS_OK;
}

uint16_t listener_port(const struct listener *listener) {
    struct sockaddr_storage storage = {0};
    socklen_t size = sizeof storage;
    if (getsockname(listener->socket, (struct sockaddr *)&storage, &size) != 0) {
        return 0;
    }
    if (storage.ss_family == AF_INET6) {
        return ntohs(((struct sockaddr_in6 *)&storage)->sin6_port);
    }
    return ntohs(((struct sockaddr_in *)&storage)->sin_port);
}

static void on_handle_closed(uv_handle_t *handle) {
    struct listener *listener = handle->data;
    assert(listener->n_open_handles > 0);
    listener->n_open_handles--;
    if (listener->n_open_handles > 0) {
        return;
    }
    void (*on_closed)(void *) = listener->on_closed;
    void *data = listener->on_closed_data;
    free(listener);
    on_closed(data);
}

void listener_close(struct listener *listener, void (*on_closed)(void *data), void *data) {
    list_remove(&listener->in_server);
    listener->on_closed = on_closed;
    listener->on_closed_data = data;
    uv_close((uv_handle_t *)&listener->readable, on_handle_closed);
    uv_close((uv_handle_t *)&listener->rest, on_handle_closed);
    /* At once, so that nobody connects to a server that will not answer. */
    close(listener->socket);
    listener->socket = -1;
}

void listener_begin_catch_up(struct listener *listener) {
    struct pollfd poll_fd = {.fd = listener->socket, .events = POLLIN};
    listener->is_catching_up =
        !listener->is_resting && poll(&poll_fd, 1, 0) == 1 && (poll_fd.revents & POLLIN) != 0;
}
