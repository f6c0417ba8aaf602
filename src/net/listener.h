/*
 * One listening socket. It accepts all that wait, and rests for a moment when the process has no
 * more file descriptors instead of spinning.
 */
#ifndef LEASED_NET_LISTENER_H
#define LEASED_NET_LISTENER_H

#include "base/list.h"
#include "base/status.h"
#include "net/connection_pool.h"

#include <netdb.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct listener {
    struct list in_server;
    struct connection_pool *pool;
    int socket;
    uv_poll_t readable;
    uv_timer_t rest;
    unsigned n_open_handles;
    bool is_resting;
    bool is_catching_up; /* connections waited in the backlog during a stall */
    void (*on_closed)(void *data);
    void *on_closed_data;
};

/* Binds one address. `port` 0: any. STATUS_IO: `out_error_number` is the errno. */
enum status listener_create(struct connection_pool *pool, const struct addrinfo *address,
                            uint16_t port, struct listener **out_listener, int *out_error_number);
uint16_t listener_port(const struct listener *listener);

/* Stops listening; the listener is freed and `on_closed` called when its handles are closed. */
void listener_close(struct listener *listener, void (*on_closed)(void *data), void *data);

/* Notes whether connections wait to be accepted. */
void listener_begin_catch_up(struct listener *listener);

#endif
