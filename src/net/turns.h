/*
 * Who is read from, and for how long. Handling what a connection sent takes time that has nothing
 * to do with the number of bytes, so time is what is shared: a connection is given a short turn,
 * and what is left of its input waits for the next one. A connection that asks now and then is
 * served as its bytes come; those that always have more take turns among each other, so that
 * neither one client's thousand requests nor a thousand connections keep another client waiting.
 * What a request will cost is not known before: when time is short, connections whose requests
 * took little time so far go first, and a thousand that each ask once for much come behind them.
 */
#ifndef LEASED_NET_TURNS_H
#define LEASED_NET_TURNS_H

#include "base/bytes.h"
#include "base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct connection;
struct connection_pool;

struct turns {
    struct list light;      /* struct connection by turn.in_turns: came when no time was left, and
                             * has asked for little for a while */
    struct list fresh;      /* the same of others */
    struct list backlogged; /* used up their last turn */
    unsigned light_row;     /* of these served one after the other */
    size_t n;               /* in all three */
    uint64_t spent_ns;      /* on input since the last turns_serve() */
    bool (*is_congested)(void *data); /* NULL: never; see net_server_set_congestion() */
    void *is_congested_data;
};

/* Part of a connection. */
struct turn {
    struct list in_turns; /* linked: it is not read from until its turn */
    uint8_t *rest;        /* input that was read and not handled; NULL: none */
    size_t rest_size;
    uint64_t backlogged_until_ms; /* it used up a turn, not long ago */
    uint8_t light_inputs;         /* handled in little time, less those that took long */
};

void turns_init(struct turns *turns);
void turn_init(struct turn *turn);
/* The connection closes. */
void turn_clear(struct connection *connection);

/* Handles what was read, or as much of it as there is time for. */
void turns_on_bytes(struct connection *connection, struct bytes bytes);
/* True while the connection waits for its turn, and must not be read from. */
static inline bool turn_is_awaited(const struct turn *turn) {
    return !list_is_empty((struct list *)&turn->in_turns);
}

/* True for a while after a turn was used up: the answers may come when nothing is left to be read.
 */
bool turn_is_backlogged(const struct connection *connection);

/* Gives those that wait a turn each, as far as time allows. To be called in each iteration of the
 * loop while turns_are_awaited(). */
void turns_serve(struct connection_pool *pool);
/* The iteration ends: there is time again. */
void turns_end_iteration(struct connection_pool *pool);
/* The loop must not wait. */
bool turns_are_awaited(const struct turns *turns);

#endif
