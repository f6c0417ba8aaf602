#include "net/connection_pool.h"

#include "net/client_counts.h"
#include "net/connection.h"
#include "net/http_exchange.h"

#include <assert.h>
#include <unistd.h>

enum {
    /* What one iteration spends on sending. */
    FLUSH_NS_MAX = 10 * 1000 * 1000,
    /* And on those that take long, however much there is for the others. */
    FLUSH_LATER_NS_MIN = 2 * 1000 * 1000
};

/* Before the handles that end the iteration: what is asked for in a turn is part of it. */
static void on_hurry(uv_idle_t *handle) {
    struct connection_pool *pool = list_entry(handle, struct connection_pool, hurry);
    if (pool->turns.n > 0) {
        turns_serve(pool);
    }
}

void connection_pool_hurry(struct connection_pool *pool) {
    uv_idle_start(&pool->hurry, on_hurry);
}

void connection_pool_init(struct connection_pool *pool, struct net_shared *shared,
                          uv_loop_t *loop) {
    *pool = (struct connection_pool){.shared = shared, .loop = loop};
    pool->clients = client_counts_create();
    list_init(&pool->all);
    list_init(&pool->dirty);
    list_init(&pool->dirty_later);
    list_init(&pool->backlogs);
    refusals_init(&pool->refusals);
    turns_init(&pool->turns);
    buffer_init(&pool->scratch);
    transport_shared_init(&pool->transports, shared, loop);
    uv_idle_init(loop, &pool->hurry);
}

void connection_pool_clear(struct connection_pool *pool) {
    assert(list_is_empty(&pool->all));
    assert(pool->n_handles == 0);
    client_counts_destroy(pool->clients);
    buffer_clear(&pool->scratch);
    transport_shared_clear(&pool->transports);
}

void connection_pool_accept(struct connection_pool *pool, const struct connection_terms *terms,
                            int socket, const struct sockaddr *from, bool is_catching_up) {
    const struct net_limits *limits = &pool->shared->limits;
    struct net_stats *stats = &pool->shared->stats;
    if (pool->shared->is_shutting_down) {
        stats->connections_refused++;
        close(socket);
        return;
    }
    if (stats->connections >= limits->connections_max) {
        stats->connections_refused++;
        refusals_add(pool, socket, REFUSED_FOR_ALL);
        return;
    }
    struct client_count *client = NULL;
    if (limits->client_connections_max > 0) {
        client = client_counts_add(pool->clients, socket, from, limits->client_connections_max);
        if (client == NULL) {
            stats->connections_refused++;
            stats->connections_refused_client++;
            refusals_add(pool, socket, REFUSED_FOR_CLIENT);
            return;
        }
    }
    struct connection *connection = connection_create(pool, terms, socket, client);
    if (connection == NULL) {
        stats->connections_refused++;
        return;
    }
    stats->connections_total++;
    if (is_catching_up) {
        connection_begin_catch_up(connection);
    }
}

void connection_pool_mark_dirty(struct connection_pool *pool, struct list *in_dirty,
                                bool is_urgent) {
    if (list_is_empty(&pool->dirty) && list_is_empty(&pool->dirty_later)) {
        connection_pool_hurry(pool);
    }
    list_append(is_urgent ? &pool->dirty : &pool->dirty_later, in_dirty);
}

struct flush {
    struct list urgent;
    struct list later;
    uint64_t begun_ns;
};

static bool is_over(const struct flush *flush) {
    return uv_hrtime() - flush->begun_ns > FLUSH_NS_MAX;
}

/* Short answers go first: whoever has much to send, or a door that goes on with input that it had
 * held back, must not keep the others waiting. */
static void flush_urgent(struct flush *flush) {
    struct list *node = NULL;
    while (!is_over(flush) && (node = list_pop_first(&flush->urgent)) != NULL) {
        struct connection *connection = list_entry(node, struct connection, in_dirty);
        if (connection_is_long_to_flush(connection)) {
            list_append(&flush->later, node);
        } else {
            connection_flush(connection);
        }
    }
}

static void flush_later(struct flush *flush) {
    uint64_t begun_ns = uv_hrtime();
    struct list *node = NULL;
    while ((node = list_pop_first(&flush->later)) != NULL) {
        connection_flush(list_entry(node, struct connection, in_dirty));
        if (is_over(flush) && uv_hrtime() - begun_ns > FLUSH_LATER_NS_MIN) {
            return;
        }
    }
}

static void put_back(struct list *left, struct list *dirty) {
    list_append_all(left, dirty);
    list_append_all(dirty, left);
}

/* What doors produce while they are told of ends belongs to the next iteration, and so does what
 * this one has no time for. Each list keeps its order. */
static void flush_dirty(struct connection_pool *pool) {
    struct flush flush = {.begun_ns = uv_hrtime()};
    list_init(&flush.urgent);
    list_init(&flush.later);
    list_append_all(&flush.urgent, &pool->dirty);
    flush_urgent(&flush);
    put_back(&flush.urgent, &pool->dirty);
    list_append_all(&pool->dirty_later, &flush.later);
    list_append_all(&flush.later, &pool->dirty_later);
    flush_later(&flush);
    put_back(&flush.later, &pool->dirty_later);
}

void connection_pool_flush(struct connection_pool *pool) {
    transport_shared_iterate(&pool->transports);
    turns_end_iteration(pool);
    http_shares_wake_crowded(pool->shared);
    if (!list_is_empty(&pool->dirty) || !list_is_empty(&pool->dirty_later)) {
        flush_dirty(pool);
    }
    if (list_is_empty(&pool->dirty) && list_is_empty(&pool->dirty_later) &&
        !turns_are_awaited(&pool->turns)) {
        uv_idle_stop(&pool->hurry);
    } else {
        connection_pool_hurry(pool);
    }
}

void connection_pool_drain(struct connection_pool *pool) {
    refusals_close(pool);
    for (struct list *node = pool->all.next; node != &pool->all; node = node->next) {
        connection_drain(list_entry(node, struct connection, in_pool));
    }
}

void connection_pool_close_all(struct connection_pool *pool, bool only_idle) {
    for (struct list *node = pool->all.next; node != &pool->all; node = node->next) {
        struct connection *connection = list_entry(node, struct connection, in_pool);
        if (!only_idle || connection_is_idle(connection)) {
            connection_close_later(connection);
        }
    }
}

void connection_pool_begin_catch_up(struct connection_pool *pool) {
    for (struct list *node = pool->all.next; node != &pool->all; node = node->next) {
        connection_begin_catch_up(list_entry(node, struct connection, in_pool));
    }
}
