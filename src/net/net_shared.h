/*
 * What every connection of one server shares: limits, routes, timers, counters, and memory that is
 * used again. The sessions (HTTP/2, HTTP/1) know this and their host, and neither sockets nor a
 * loop, so tests and fuzzers drive them with plain bytes.
 */
#ifndef LEASED_NET_NET_SHARED_H
#define LEASED_NET_NET_SHARED_H

#include "base/buffer.h"
#include "base/clock.h"
#include "base/list.h"
#include "net/net_server.h"
#include "net/net_timers.h"
#include "net/route_table.h"

#include <stdbool.h>
#include <stddef.h>

/* Bytes of unfinished messages that all connections together may hold. */
#define NET_PARTIAL_BYTES_MAX ((size_t)96 * 1024 * 1024)

struct http2_library;
struct http2_request;

struct net_shared {
    struct net_limits limits;
    struct route_table routes;
    struct net_timers *timers;
    struct http2_library *http2;
    const struct net_authenticator *authenticator; /* NULL: none */
    void *authenticator_context;
    struct list free_calls; /* struct grpc_call by exchange.in_session */
    size_t n_free_calls;
    struct list waiting_bridges;        /* struct grpc_bridge by in_waiting */
    size_t n_bridged;                   /* bridges that wait for nobody */
    struct http2_request *free_request; /* NULL: none */
    struct buffer discarded;            /* where a message for a call that is over is written */
    size_t partial_bytes;               /* of unfinished messages */
    struct list partials;         /* struct http_exchange, the one that grew last at the end */
    struct list crowded;          /* struct http_session by in_crowded */
    size_t held_bytes;            /* of open exchanges */
    uint64_t stopwatch_us;        /* see net_shared_stopwatch_us(); 0: not read */
    uint64_t tls_hello_logged_ms; /* when a client last spoke TLS to a plain listener; 0: never */
    struct net_stats stats;
    bool is_room_wanted; /* since connections were last looked through for some to close */
    bool is_shutting_down;
};

void net_shared_init(struct net_shared *shared, const struct net_limits *limits, uint64_t now_ms);
/* The time, for what monitors are told: read once for all requests that come in one piece, and once
 * for all that end together. */
static inline uint64_t net_shared_stopwatch_us(struct net_shared *shared) {
    if (shared->stopwatch_us == 0) {
        shared->stopwatch_us = clock_stopwatch_us();
    }
    return shared->stopwatch_us;
}
/* What answers take that clients have not taken. */
static inline size_t net_shared_answer_bytes(const struct net_shared *shared) {
    return shared->stats.queued_bytes + shared->stats.unsent_bytes;
}
/* Every session is closed. */
void net_shared_clear(struct net_shared *shared);

#endif
