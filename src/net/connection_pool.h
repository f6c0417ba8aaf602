/*
 * Every connection of a server, and the one moment of an iteration of the loop in which they are
 * served: what was produced is flushed once per connection, ends of calls are run, what must close
 * is closed. Only here, outside of all callbacks, are sessions freed.
 */
#ifndef LEASED_NET_CONNECTION_POOL_H
#define LEASED_NET_CONNECTION_POOL_H

#include "base/buffer.h"
#include "base/list.h"
#include "net/net_shared.h"
#include "net/refusal.h"
#include "net/transport.h"
#include "net/turns.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct client_count;
struct client_counts;
struct connection_terms;
struct sockaddr;

struct connection_pool {
    struct net_shared *shared;
    uv_loop_t *loop;
    struct list all; /* struct connection by in_pool */
    struct client_counts *clients;
    struct list dirty;       /* by in_dirty: to be flushed at the end of this iteration */
    struct list dirty_later; /* the same, of those that always have more to say */
    struct list backlogs;    /* struct backlog by in_pool */
    uint64_t relieved_ms;    /* when connections to close were last searched for */
    struct refusals refusals;
    size_t n_handles; /* of connections and refusals, not yet closed */
    uv_idle_t hurry;  /* started while something is dirty or waits for its turn: no waiting */
    struct transport_shared transports;
    struct turns turns;
    struct buffer scratch;    /* what one flush produced */
    size_t n_catching_up;     /* connections that had unread bytes at the last stall */
    void (*on_empty)(void *); /* the last handle closed; NULL: no callback */
    void *on_empty_data;
};

void connection_pool_init(struct connection_pool *pool, struct net_shared *shared, uv_loop_t *loop);
/* The pool is empty and `hurry`, its only handle, is closed. */
void connection_pool_clear(struct connection_pool *pool);

/* Takes over a socket accepted from an address; `is_catching_up`: it waited in the backlog during a
 * stall. */
void connection_pool_accept(struct connection_pool *pool, const struct connection_terms *terms,
                            int socket, const struct sockaddr *from, bool is_catching_up);

/* The loop must not wait. */
void connection_pool_hurry(struct connection_pool *pool);
/* To be flushed at the end of this iteration; those that are not urgent after the others, and when
 * there is no time left, later. */
void connection_pool_mark_dirty(struct connection_pool *pool, struct list *in_dirty,
                                bool is_urgent);
/* Flushes every dirty connection. To be called once an iteration, before the loop waits. */
void connection_pool_flush(struct connection_pool *pool);

/* GOAWAY and ends of streams on every connection. */
void connection_pool_drain(struct connection_pool *pool);
/* Closes all connections; with `only_idle` those that serve nothing and have sent everything. */
void connection_pool_close_all(struct connection_pool *pool, bool only_idle);

/* Notes which connections have unread bytes. */
void connection_pool_begin_catch_up(struct connection_pool *pool);

#endif
