#include "net/listener.h"

#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    /* A few milliseconds: a flood of connections leaves time for others. */
    ACCEPTS_PER_ITERATION_MAX = 128,
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
    for (unsigned i = 0; i < ACCEPTS_PER_ITERATION_MAX; i++) {
        struct sockaddr_storage from = {.ss_family = AF_UNSPEC};
        socklen_t from_size = sizeof from;
        int socket = accept4(listener->socket, (struct sockaddr *)&from, &from_size,
                             SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (socket >= 0) {
            connection_pool_accept(listener->pool, &listener->terms, socket,
                                   (const struct sockaddr *)&from, listener->is_catching_up);
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

enum status listener_create(struct connection_pool *pool, const struct connection_terms *terms,
                            int socket, struct listener **out_listener, int *out_error_number) {
    struct listener *listener = calloc(1, sizeof *listener);
    if (listener == NULL) {
        abort();
    }
    listener->pool = pool;
    listener->terms = *terms;
    listener->socket = socket;
    list_init(&listener->in_server);
    int result = uv_poll_init(pool->loop, &listener->readable, socket);
    if (result != 0) {
        close(socket);
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

void listener_set_file(struct listener *listener, const char *path,
                       const struct unix_socket_file *file) {
    listener->path = strdup(path);
    if (listener->path == NULL) {
        abort();
    }
    listener->file = *file;
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
    /* At once, so that no client connects to a server that will not answer. */
    close(listener->socket);
    listener->socket = -1;
    if (listener->path != NULL) {
        unix_socket_remove(listener->path, &listener->file);
        free(listener->path);
        listener->path = NULL;
    }
}

void listener_begin_catch_up(struct listener *listener) {
    struct pollfd poll_fd = {.fd = listener->socket, .events = POLLIN};
    listener->is_catching_up =
        !listener->is_resting && poll(&poll_fd, 1, 0) == 1 && (poll_fd.revents & POLLIN) != 0;
}
