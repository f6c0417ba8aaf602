/* What connections may make us hold: open exchanges with their headers, unfinished requests,
 * answers. Each has a bound for all together, and each connection a share of what is left below it,
 * so that one client cannot use up what another one needs. */
#include "net/http_exchange.h"

#include <assert.h>

enum {
    /* A connection may hold this part of what is left below the bound of all. */
    SHARES = 4,
    /* Memory of an open exchange beside its headers, with its stream and what its door keeps. */
    EXCHANGE_BYTES = 1024,
    /* What any connection may hold, however much others do: sixteen calls at a time. */
    HELD_LEAST = 16 * EXCHANGE_BYTES,
    HELD_BYTES_MAX = 128 * 1024 * 1024,
    /* A connection with less than this in its queue is never refused an answer for it. */
    QUEUED_LEAST = 128 * 1024
};

static size_t share_of(size_t total, size_t total_max, size_t least) {
    size_t share = total < total_max ? (total_max - total) / SHARES : 0;
    return share > least ? share : least;
}

/* The fuller it is, the less a single peer may pile up; a peer that takes its answers has a queue
 * that is nearly empty and goes on being served. */
static bool is_within_queue_share(const struct http_session *session) {
    const struct net_limits *limits = &session->shared->limits;
    size_t least = limits->hoard_size < QUEUED_LEAST ? limits->hoard_size : QUEUED_LEAST;
    size_t share = share_of(session->shared->stats.queued_bytes, limits->queue_total_soft, least);
    if (share > limits->connection_queue_abort / 2) {
        share = limits->connection_queue_abort / 2;
    }
    return session->queued_bytes + session->host->unsent_bytes <= share;
}

/* --- open exchanges ------------------------------------------------------------------------ */

bool http_session_admits(const struct http_session *session, size_t fields_size) {
    size_t held = session->held_bytes + EXCHANGE_BYTES + fields_size;
    size_t total = session->shared->held_bytes;
    return held <= share_of(total, HELD_BYTES_MAX, HELD_LEAST + fields_size) &&
           is_within_queue_share(session);
}

void http_exchange_count_held(struct http_exchange *exchange, size_t held) {
    struct http_session *session = exchange->session;
    session->held_bytes = session->held_bytes - exchange->held_bytes + held;
    session->shared->held_bytes = session->shared->held_bytes - exchange->held_bytes + held;
    exchange->held_bytes = held;
}

size_t http_exchange_cost(const struct http_exchange *exchange) {
    return EXCHANGE_BYTES + exchange->fields.capacity;
}

bool http_exchange_hold(struct http_exchange *exchange, size_t size) {
    const struct http_session *session = exchange->session;
    if (session->held_bytes + size >
        share_of(session->shared->held_bytes, HELD_BYTES_MAX, HELD_LEAST)) {
        return false;
    }
    http_exchange_count_held(exchange, exchange->held_bytes + size);
    return true;
}

void http_exchange_release(struct http_exchange *exchange, size_t size) {
    assert(exchange->held_bytes >= size);
    http_exchange_count_held(exchange, exchange->held_bytes - size);
}

/* --- answers ------------------------------------------------------------------------------- */

bool http_session_has_room(const struct http_session *session) {
    return is_within_queue_share(session) &&
           net_shared_answer_bytes(session->shared) <= session->shared->limits.queue_total_max;
}

bool http_session_has_spare_room(const struct http_session *session) {
    const struct net_shared *shared = session->shared;
    bool is_first = session->queued_bytes + session->host->unsent_bytes == 0;
    bool is_much = net_shared_answer_bytes(shared) > shared->limits.queue_total_soft / 2;
    return http_session_has_room(session) && (is_first || !is_much);
}

bool http_session_wait_if_crowded(struct http_session *session) {
    const struct net_shared *shared = session->shared;
    size_t soft = shared->limits.queue_total_soft;
    if (shared->stats.queued_bytes <= soft + soft / 2) {
        return false;
    }
    if (list_is_empty(&session->in_crowded)) {
        list_append(&session->shared->crowded, &session->in_crowded);
    }
    return true;
}

void http_shares_wake_crowded(struct net_shared *shared) {
    enum { WOKEN_MAX = 64 }; /* each may queue at once what was given back */
    for (unsigned i = 0;
         i < WOKEN_MAX && shared->stats.queued_bytes <= shared->limits.queue_total_soft; i++) {
        struct list *node = list_pop_first(&shared->crowded);
        if (node == NULL) {
            return;
        }
        struct http_session *session = list_entry(node, struct http_session, in_crowded);
        session->host->wake(session->host);
    }
}

/* --- unfinished requests ------------------------------------------------------------------- */

static void set_partial(struct http_exchange *exchange, size_t held) {
    struct net_shared *shared = exchange->session->shared;
    shared->partial_bytes = shared->partial_bytes - exchange->partial_bytes + held;
    exchange->partial_bytes = held;
    list_remove(&exchange->in_partials);
    if (held > 0) {
        list_append(&shared->partials, &exchange->in_partials);
    }
}

bool http_exchange_count_partial_change(struct http_exchange *exchange, size_t held) {
    struct net_shared *shared = exchange->session->shared;
    set_partial(exchange, held);
    /* A request that grows is being sent; the one that has not grown for longest has to go. */
    while (shared->partial_bytes > NET_PARTIAL_BYTES_MAX && !list_is_empty(&shared->partials)) {
        struct http_exchange *stale =
            list_entry(shared->partials.next, struct http_exchange, in_partials);
        if (stale == exchange) {
            return false;
        }
        set_partial(stale, 0);
        stale->handler->on_overflow(stale);
    }
    return shared->partial_bytes <= NET_PARTIAL_BYTES_MAX;
}
