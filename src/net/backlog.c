#include "net/backlog.h"

#include "base/log.h"
#include "net/connection.h"

enum {
    LOOKS_PER_LIMIT = 4,      /* looks within the shorter of the two time limits */
    RELIEF_INTERVAL_MS = 100, /* between two searches for connections to close */
    RELIEF_CLOSED_MAX = 64,   /* connections closed by one search */
    WANTED_PARTS = 4,         /* of the bound are enough while something waits for room */
    WANTED_SIZE_MIN = 32 * 1024
};

static struct connection *connection_of(struct backlog *backlog) {
    return list_entry(backlog, struct connection, backlog);
}

static const struct net_limits *limits_of(const struct connection *connection) {
    return &connection->pool->shared->limits;
}

static uint64_t look_interval_ms(const struct net_limits *limits) {
    uint64_t shorter_ms = limits->evict_after_ms < limits->hoard_timeout_ms
                              ? limits->evict_after_ms
                              : limits->hoard_timeout_ms;
    return shorter_ms > LOOKS_PER_LIMIT ? shorter_ms / LOOKS_PER_LIMIT : 1;
}

static size_t waiting_bytes(const struct connection *connection) {
    size_t waiting = connection->host.unsent_bytes;
    if (connection->protocol != NULL) {
        waiting += connection->protocol->queued_bytes(connection->session);
    }
    return waiting;
}

/* A slow peer takes megabytes from a full socket before the kernel asks us for more, so what it
 * holds is looked at too. Answers to PINGs do not count: they would be taken by a peer that takes
 * nothing else. */
static uint64_t taken_bytes(const struct connection *connection) {
    uint64_t unsent = transport_unacknowledged_bytes(&connection->transport) +
                      transport_unsent_bytes(&connection->transport);
    uint64_t produced = connection->host.answer_bytes;
    return produced > unsent ? produced - unsent : 0;
}

static void close_stuck(struct connection *connection, const char *reason) {
    log_warning("connection closed", LOG_TEXT("reason", reason),
                LOG_NUMBER("queued_bytes", waiting_bytes(connection)),
                LOG_NUMBER("stuck_ms", connection->backlog.stuck_ms));
    connection->pool->shared->stats.connections_evicted++;
    connection_close_later(connection);
}

static void look(struct connection *connection, uint64_t now_ms) {
    struct backlog *backlog = &connection->backlog;
    uint64_t interval_ms = look_interval_ms(limits_of(connection));
    uint64_t taken = taken_bytes(connection);
    if (taken > backlog->taken_bytes) {
        backlog->taken_bytes = taken;
        backlog->stuck_ms = 0;
    } else if (backlog->is_flushed || list_is_empty(&connection->in_dirty)) {
        /* When we did not run for a while, the frames that open windows may be unread; and one that
         * waits for its turn to be flushed could take nothing. */
        uint64_t passed_ms = now_ms - backlog->looked_ms;
        backlog->stuck_ms += passed_ms < interval_ms ? passed_ms : interval_ms;
    }
    backlog->looked_ms = now_ms;
    backlog->is_flushed = false;
}

/* --- making room --------------------------------------------------------------------------- */

/* The connection with the most bytes, above `size_min`, that takes nothing; NULL: there is none. */
static struct connection *find_worst(struct connection_pool *pool, size_t size_min) {
    struct connection *worst = NULL;
    size_t worst_size = size_min;
    for (struct list *node = pool->backlogs.next; node != &pool->backlogs; node = node->next) {
        struct connection *connection = connection_of(list_entry(node, struct backlog, in_pool));
        size_t size = waiting_bytes(connection);
        if (size > worst_size && !connection->must_close &&
            connection->backlog.stuck_ms >= pool->shared->limits.evict_after_ms) {
            worst = connection;
            worst_size = size;
        }
    }
    return worst;
}

static void make_room(struct connection_pool *pool, uint64_t now_ms) {
    const struct net_limits *limits = &pool->shared->limits;
    size_t total = net_shared_answer_bytes(pool->shared);
    bool is_wanted = pool->shared->is_room_wanted;
    size_t soft = is_wanted ? limits->queue_total_soft / WANTED_PARTS : limits->queue_total_soft;
    if (total <= soft || now_ms < pool->relieved_ms + RELIEF_INTERVAL_MS) {
        return;
    }
    pool->relieved_ms = now_ms;
    pool->shared->is_room_wanted = false;
    /* Small backlogs are those of watchers that pause. They go only where the alternative is to
     * refuse those that read. */
    size_t size_min = total > limits->queue_total_max ? 0
                      : is_wanted                     ? WANTED_SIZE_MIN
                                                      : limits->hoard_size;
    /* Who has begun to take again since it was last looked at, stays. */
    for (struct list *node = pool->backlogs.next; node != &pool->backlogs; node = node->next) {
        look(connection_of(list_entry(node, struct backlog, in_pool)), now_ms);
    }
    for (unsigned i = 0; i < RELIEF_CLOSED_MAX && total > soft; i++) {
        struct connection *worst = find_worst(pool, size_min);
        if (worst == NULL) {
            return;
        }
        size_t size = waiting_bytes(worst);
        total -= size < total ? size : total;
        close_stuck(worst, "the peer takes no answers, and others need the room");
    }
}

/* --- time ---------------------------------------------------------------------------------- */

static void on_look(struct net_timer *timer) {
    struct connection *connection = connection_of(list_entry(timer, struct backlog, timer));
    const struct net_limits *limits = limits_of(connection);
    uint64_t now_ms = uv_now(connection->pool->loop);
    look(connection, now_ms);
    /* The write timer judges a socket that is full. */
    if (!connection->must_close && !transport_is_full(&connection->transport) &&
        waiting_bytes(connection) > limits->hoard_size &&
        connection->backlog.stuck_ms >= limits->hoard_timeout_ms) {
        close_stuck(connection, "the peer takes no answers");
    }
    make_room(connection->pool, now_ms);
    net_timers_arm(connection->pool->shared->timers, timer, now_ms + look_interval_ms(limits));
}

/* --- life ---------------------------------------------------------------------------------- */

void backlog_init(struct backlog *backlog) {
    *backlog = (struct backlog){0};
    list_init(&backlog->in_pool);
    net_timer_init(&backlog->timer, on_look);
}

void backlog_update(struct connection *connection) {
    struct backlog *backlog = &connection->backlog;
    backlog->is_flushed = true;
    if (waiting_bytes(connection) == 0) {
        backlog_clear(connection);
        return;
    }
    if (!list_is_empty(&backlog->in_pool)) {
        return;
    }
    backlog->taken_bytes = taken_bytes(connection);
    backlog->looked_ms = uv_now(connection->pool->loop);
    backlog->stuck_ms = 0;
    list_append(&connection->pool->backlogs, &backlog->in_pool);
    net_timers_arm(connection->pool->shared->timers, &backlog->timer,
                   backlog->looked_ms + look_interval_ms(limits_of(connection)));
}

void backlog_clear(struct connection *connection) {
    list_remove(&connection->backlog.in_pool);
    net_timers_disarm(connection->pool->shared->timers, &connection->backlog.timer);
}
