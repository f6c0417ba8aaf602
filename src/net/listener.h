/*
 * One listening socket and the terms of its connections. It accepts all that wait, and rests for a
 * moment when the process has no more file descriptors instead of spinning.
 */
#ifndef LEASED_NET_LISTENER_H
#define LEASED_NET_LISTENER_H

#include "base/list.h"
#include "base/status.h"
#include "net/connection.h"
#include "net/connection_pool.h"
#include "net/listener_socket.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct listener {
    struct list in_server;
    struct connection_pool *pool;
    struct connection_terms terms;
    int socket;
    char *path; /* of a Unix socket, NULL otherwise */
    struct unix_socket_file file;
    uv_poll_t readable;
    uv_timer_t rest;
    unsigned n_open_handles;
    bool is_resting;
    bool is_catching_up; /* connections waited in the backlog during a stall */
    void (*on_closed)(void *data);
    void *on_closed_data;
};

/* Takes over a socket that listens. STATUS_IO: it is closed, `out_error_number` is the errno. */
enum status listener_create(struct connection_pool *pool, const struct connection_terms *terms,
                            int socket, struct listener **out_listener, int *out_error_number);
/* The file is removed when the listener closes. */
void listener_set_file(struct listener *listener, const char *path,
                       const struct unix_socket_file *file);

/* Stops listening; the listener is freed and `on_closed` called when its handles are closed. */
void listener_close(struct listener *listener, void (*on_closed)(void *data), void *data);

/* Notes whether connections wait to be accepted. */
void listener_begin_catch_up(struct listener *listener);

#endif
