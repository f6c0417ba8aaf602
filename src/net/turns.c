#include "net/turns.h"

#include "net/connection.h"

#include <stdlib.h>
#include <string.h>

#define MICROSECONDS_NS UINT64_C(1000)
#define MILLISECONDS_NS (1000 * MICROSECONDS_NS)

/* What one iteration of the loop spends on input as it comes, and on those that wait: at least so
 * much, and what the former left of its share if they came when there was none. */
#define COMING_NS_MAX (10 * MILLISECONDS_NS)
#define WAITING_NS_MIN (5 * MILLISECONDS_NS)
/* A round of turns takes about this long, as far as turns can be made short enough. */
#define ROUND_NS (50 * MILLISECONDS_NS)
#define TURN_NS_MAX (2 * MILLISECONDS_NS)
#define TURN_NS_MIN (50 * MICROSECONDS_NS)
/* Input of at most SMALL_SIZE bytes is handled whole, and counted as this at least: unless it may
 * be the last of a request that is large, and so all of its work. */
#define SMALL_NS (5 * MICROSECONDS_NS)
#define SLICE_NS_MAX (100 * MICROSECONDS_NS)
/* What an input takes at most that speaks for its connection. */
#define LIGHT_NS_MAX (100 * MICROSECONDS_NS)

/* For so long a connection that used up a turn has its answers sent behind those of others. */
enum { BACKLOGGED_MS = 1000 };

enum {
    SMALL_SIZE = 192,
    LIGHT_MIN = 8, /* inputs until a connection is known to ask for little */
    LIGHT_MAX = 3 * LIGHT_MIN,
    LIGHT_ROW_MAX = 8,        /* of these, then one of those that are not known */
    PARTIAL_SIZE = 16 * 1024, /* of requests that have not come whole, of all connections */
    SLICE_SIZE_MIN = 256,     /* a few requests, each of which may be much work */
    SLICE_SIZE_MAX = 32 * 1024,
    /* What all that wait may hold of input that was read. */
    RESTS_SIZE = 4 * 1024 * 1024,
    READ_SIZE_MIN = 4 * 1024
};

void turns_init(struct turns *turns) {
    *turns = (struct turns){0};
    list_init(&turns->light);
    list_init(&turns->fresh);
    list_init(&turns->backlogged);
}

void turn_init(struct turn *turn) {
    *turn = (struct turn){0};
    list_init(&turn->in_turns);
}

static uint64_t turn_ns(const struct turns *turns) {
    uint64_t share = ROUND_NS / (turns->n + 1);
    return share > TURN_NS_MAX ? TURN_NS_MAX : share < TURN_NS_MIN ? TURN_NS_MIN : share;
}

/* The more wait, the less is read from each: what was read has to be kept. */
static void set_read_size(struct connection_pool *pool) {
    size_t size = RESTS_SIZE / (pool->turns.n + 1);
    size = size > TRANSPORT_READ_SIZE ? TRANSPORT_READ_SIZE : size;
    bool is_late = pool->turns.spent_ns >= COMING_NS_MAX;
    pool->transports.read_size = is_late || size < READ_SIZE_MIN ? READ_SIZE_MIN : size;
}

static void leave(struct connection *connection) {
    if (turn_is_awaited(&connection->turn)) {
        list_remove(&connection->turn.in_turns);
        connection->pool->turns.n--;
    }
}

void turn_clear(struct connection *connection) {
    leave(connection);
    free(connection->turn.rest);
    connection->turn.rest = NULL;
    connection->turn.rest_size = 0;
}

static void note_cost(struct turn *turn, uint64_t took_ns) {
    if (took_ns <= LIGHT_NS_MAX) {
        turn->light_inputs += turn->light_inputs < LIGHT_MAX;
    } else if (turn->light_inputs >= LIGHT_MIN) {
        /* The processor may have been taken away meanwhile: who is known for long stays so. */
        turn->light_inputs -= LIGHT_MIN;
    } else {
        turn->light_inputs /= 2;
    }
}

static bool is_light(const struct turn *turn) {
    return turn->light_inputs >= LIGHT_MIN;
}

static void mark_backlogged(struct connection *connection) {
    connection->turn.backlogged_until_ms = uv_now(connection->pool->loop) + BACKLOGGED_MS;
}

bool turn_is_backlogged(const struct connection *connection) {
    return uv_now(connection->pool->loop) < connection->turn.backlogged_until_ms;
}

static void await(struct connection *connection, struct list *list) {
    struct turns *turns = &connection->pool->turns;
    if (turns->n == 0) {
        connection_pool_hurry(connection->pool);
    }
    if (!turn_is_awaited(&connection->turn)) {
        turns->n++;
        transport_stop_reading(&connection->transport);
    }
    list_remove(&connection->turn.in_turns);
    list_append(list, &connection->turn.in_turns);
    if (list == &turns->backlogged) {
        mark_backlogged(connection);
    }
    set_read_size(connection->pool);
}

/* Keeps input for later, behind what is kept already. */
static void keep(struct connection *connection, struct bytes bytes) {
    struct turn *turn = &connection->turn;
    uint8_t *rest = realloc(turn->rest, turn->rest_size + bytes.size);
    if (rest == NULL) {
        connection_close_later(connection);
        return;
    }
    memcpy(rest + turn->rest_size, bytes.data, bytes.size);
    turn->rest = rest;
    turn->rest_size += bytes.size;
}

/* Hands input over, in slices, until the time is over; returns how much. Slices are small at first
 * and grow while they take no time: most requests are cheap, and cheapest in large pieces. */
static size_t feed(struct connection *connection, struct bytes bytes, uint64_t begun_ns) {
    uint64_t end_ns = begun_ns + turn_ns(&connection->pool->turns);
    uint64_t slice_begun_ns = begun_ns;
    size_t slice_size = SLICE_SIZE_MIN;
    size_t fed = 0;
    while (fed < bytes.size && !connection->must_close) {
        size_t size = bytes.size - fed < slice_size ? bytes.size - fed : slice_size;
        connection_feed(connection, bytes_of(bytes.data + fed, size));
        fed += size;
        uint64_t now_ns = uv_hrtime();
        if (now_ns >= end_ns) {
            break;
        }
        if (now_ns - slice_begun_ns < SLICE_NS_MAX && slice_size < SLICE_SIZE_MAX) {
            slice_size *= 2;
        }
        slice_begun_ns = now_ns;
    }
    return connection->must_close ? bytes.size : fed;
}

void turns_on_bytes(struct connection *connection, struct bytes bytes) {
    struct turns *turns = &connection->pool->turns;
    struct net_shared *shared = connection->pool->shared;
    size_t read_size = connection->pool->transports.read_size;
    if (turn_is_awaited(&connection->turn)) {
        keep(connection, bytes); /* one read from the socket may be several pieces */
        return;
    }
    if (turns->spent_ns >= COMING_NS_MAX) {
        keep(connection, bytes);
        await(connection, is_light(&connection->turn) ? &turns->light : &turns->fresh);
        return;
    }
    if (bytes.size <= SMALL_SIZE && shared->partial_bytes <= PARTIAL_SIZE) {
        uint64_t begun_ns = uv_hrtime();
        connection_feed(connection, bytes);
        uint64_t took_ns = uv_hrtime() - begun_ns;
        note_cost(&connection->turn, took_ns);
        turns->spent_ns += took_ns > SMALL_NS ? took_ns : SMALL_NS;
    } else {
        uint64_t begun_ns = uv_hrtime();
        size_t fed = feed(connection, bytes, begun_ns);
        uint64_t took_ns = uv_hrtime() - begun_ns;
        note_cost(&connection->turn, took_ns);
        turns->spent_ns += took_ns;
        if (fed < bytes.size) {
            keep(connection, bytes_of(bytes.data + fed, bytes.size - fed));
        }
        /* A full read is one of a connection that has more. */
        if (fed < bytes.size || bytes.size >= read_size) {
            await(connection, &turns->backlogged);
        }
    }
    if (turns->spent_ns >= COMING_NS_MAX) {
        set_read_size(connection->pool);
    }
}

/* --- those that wait ----------------------------------------------------------------------- */

static void take_turn(struct connection *connection, uint64_t now_ns) {
    struct turns *turns = &connection->pool->turns;
    struct turn *turn = &connection->turn;
    uint8_t *rest = turn->rest;
    size_t size = turn->rest_size;
    turn->rest = NULL;
    turn->rest_size = 0;
    size_t fed = feed(connection, bytes_of(rest, size), now_ns);
    note_cost(turn, uv_hrtime() - now_ns);
    if (fed < size) {
        keep(connection, bytes_of(rest + fed, size - fed));
        list_append(&turns->backlogged, &turn->in_turns);
        mark_backlogged(connection);
    } else {
        list_append(&turns->backlogged, &turn->in_turns); /* so that leave() counts it */
        leave(connection);
        connection_go_on_reading(connection);
    }
    free(rest);
}

static bool is_congested(const struct turns *turns) {
    return turns->is_congested != NULL && turns->is_congested(turns->is_congested_data);
}

/* Those that came when no time was left are not to be blamed for that. */
static struct list *next_unblamed(struct turns *turns) {
    bool takes_light = !list_is_empty(&turns->light) &&
                       (turns->light_row < LIGHT_ROW_MAX || list_is_empty(&turns->fresh));
    turns->light_row = takes_light ? turns->light_row + 1 : 0;
    return list_pop_first(takes_light ? &turns->light : &turns->fresh);
}

static struct connection *next(struct turns *turns, bool takes_backlogged) {
    struct list *node = next_unblamed(turns);
    if (node == NULL && takes_backlogged && !is_congested(turns)) {
        node = list_pop_first(&turns->backlogged);
    }
    return node != NULL ? list_entry(node, struct connection, turn.in_turns) : NULL;
}

void turns_serve(struct connection_pool *pool) {
    struct turns *turns = &pool->turns;
    uint64_t begun_ns = uv_hrtime();
    uint64_t now_ns = begun_ns;
    uint64_t unused_ns = turns->spent_ns < COMING_NS_MAX ? COMING_NS_MAX - turns->spent_ns : 0;
    uint64_t ns_max = WAITING_NS_MIN + unused_ns;
    for (size_t left = turns->n; left > 0 && now_ns - begun_ns < ns_max; left--) {
        struct connection *connection = next(turns, now_ns - begun_ns < WAITING_NS_MIN);
        if (connection == NULL) {
            break;
        }
        take_turn(connection, now_ns);
        now_ns = uv_hrtime();
    }
}

void turns_end_iteration(struct connection_pool *pool) {
    pool->turns.spent_ns = 0;
    set_read_size(pool);
}

bool turns_are_awaited(const struct turns *turns) {
    return !list_is_empty((struct list *)&turns->light) ||
           !list_is_empty((struct list *)&turns->fresh) ||
           (!list_is_empty((struct list *)&turns->backlogged) && !is_congested(turns));
}
