/*
 * Whole exchanges without a socket: routes that take bodies, stream, wait, cut off, and wait for
 * their caller. The first byte chooses HTTP/1 or HTTP/2 and how the rest is cut, the second what
 * happens between the pieces; for HTTP/2 the preface and empty settings come for free.
 */
#include "base/log.h"
#include "net/net_shared.h"
#include "net/protocol.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

enum {
    OUTPUT_SIZE_MAX = 1024,
    ROUNDS_MAX = 64,
    HELD_MAX = 8,
    PIECES = 20,
    STEP_MS = 25,
    QUEUE_MAX = 200 * 1000 /* more than the limits below can add up to */
};

/* What is open; reset for each input. */
static struct {
    unsigned n_opened;
    unsigned n_closed;
    struct http_exchange *polls[HELD_MAX];
    struct http_exchange *pending[HELD_MAX];
} world;

static bool put(struct http_exchange **slots, struct http_exchange *exchange) {
    for (size_t i = 0; i < HELD_MAX; i++) {
        if (slots[i] == NULL) {
            slots[i] = exchange;
            return true;
        }
    }
    return false;
}

static struct http_exchange *pick(struct http_exchange **slots) {
    for (size_t i = 0; i < HELD_MAX; i++) {
        if (slots[i] != NULL) {
            struct http_exchange *exchange = slots[i];
            slots[i] = NULL;
            return exchange;
        }
    }
    return NULL;
}

static void drop(struct http_exchange **slots, const struct http_exchange *exchange) {
    for (size_t i = 0; i < HELD_MAX; i++) {
        if (slots[i] == exchange) {
            slots[i] = NULL;
        }
    }
}

/* --- routes -------------------------------------------------------------------------------- */

static void opened(struct http_exchange *exchange) {
    world.n_opened++;
    assert(http_data(exchange) == NULL);
    assert(http_context(exchange) == &world);
    /* Whatever was sent can be read to its end. */
    size_t position = 0;
    struct http_field field;
    struct bytes value;
    while (http_next_header(exchange, &position, &field)) {
        assert(field.name.size > 0);
    }
    http_parameter(exchange, "key", &value);
    http_query(exchange, "index", &value);
    assert(http_path(exchange).size > 0);
}

static void on_close(struct http_exchange *exchange) {
    world.n_closed++;
    drop(world.polls, exchange);
    http_send(exchange, bytes_of("late", 4));
    http_finish(exchange);
}

static void echo(struct http_exchange *exchange, struct bytes bytes, bool is_last) {
    assert(is_last);
    opened(exchange);
    http_reply(exchange, 200, "text/plain", bytes);
}

static void count(struct http_exchange *exchange, struct bytes bytes, bool is_last) {
    if (http_data(exchange) == NULL) {
        opened(exchange);
        http_set_data(exchange, &world);
        http_start(exchange, 200, NULL, 0);
    }
    http_send(exchange, bytes);
    if (is_last) {
        http_finish(exchange);
    }
}

static void key(struct http_exchange *exchange) {
    opened(exchange);
    struct bytes value = bytes_of(NULL, 0);
    http_parameter(exchange, "key", &value);
    const struct http_field field = {.name = bytes_from_text("x-key"), .value = value};
    http_reply_fields(exchange, value.size % 2 == 0 ? 200 : 204, &field, 1, value);
}

static void poll_over(struct http_exchange *exchange) {
    drop(world.polls, exchange);
    http_reply(exchange, 200, "text/plain", bytes_of("same", 4));
}

static void poll(struct http_exchange *exchange) {
    opened(exchange);
    if (!put(world.polls, exchange)) {
        http_abort(exchange);
        return;
    }
    http_set_timer(exchange, 200, poll_over);
}

static void stream_on(struct http_exchange *exchange) {
    uintptr_t left = (uintptr_t)http_data(exchange);
    static const uint8_t piece[300];
    while (left > 0 && http_is_writable(exchange)) {
        http_send(exchange, bytes_of(piece, sizeof piece));
        left--;
    }
    http_set_data(exchange, (void *)left);
    if (left == 0) {
        http_finish(exchange);
    }
}

static void stream(struct http_exchange *exchange) {
    opened(exchange);
    http_set_data(exchange, (void *)(uintptr_t)PIECES);
    http_start(exchange, 200, NULL, 0);
    stream_on(exchange);
}

static void halt(struct http_exchange *exchange) {
    opened(exchange); /* and no answer: its time limit ends it */
}

static const struct http_route routes[] = {
    {.method = "PUT", .pattern = "/e", .body_max = 500, .on_body = echo, .on_close = on_close},
    {.pattern = "/c",
     .body_max = 5000,
     .is_streaming_body = true,
     .is_public = true,
     .on_body = count,
     .on_close = on_close},
    {.method = "GET", .pattern = "/k/{key...}", .on_request = key, .on_close = on_close},
    {.method = "GET", .pattern = "/p", .on_request = poll, .on_close = on_close},
    {.method = "GET",
     .pattern = "/s/{key}",
     .is_public = true,
     .on_request = stream,
     .on_writable = stream_on,
     .on_close = on_close},
    {.pattern = "/h",
     .body_max = 100,
     .time_max_ms = 100,
     .on_request = halt,
     .on_close = on_close},
};

/* --- callers ------------------------------------------------------------------------------- */

static enum net_authentication begin(void *context, struct http_exchange *exchange,
                                     void *out_caller) {
    (void)context;
    struct bytes value;
    if (!http_header(exchange, "token", &value) || value.size == 0) {
        return NET_AUTHENTICATED;
    }
    memcpy(out_caller, value.data, value.size < 32 ? value.size : 32);
    if (value.data[0] == 'w' && http_route_of(exchange) != NULL && put(world.pending, exchange)) {
        return NET_PENDING;
    }
    return value.data[0] == 'n' ? NET_REFUSED : NET_AUTHENTICATED;
}

static void cancel(void *context, struct http_exchange *exchange) {
    (void)context;
    drop(world.pending, exchange);
}

static const struct net_authenticator authenticator = {.begin = begin, .cancel = cancel};

/* --- one connection ------------------------------------------------------------------------ */

static void wake(struct protocol_host *host) {
    (void)host;
}

struct connection_state {
    const struct protocol *protocol;
    void *session;
    struct protocol_host *host;
    struct buffer out;
    uint64_t now_ms;
};

static void between(struct connection_state *connection, uint8_t choice) {
    struct net_shared *shared = connection->host->shared;
    if ((choice & 1) != 0) {
        net_timers_run(shared->timers, connection->now_ms += STEP_MS);
    }
    if ((choice & 2) != 0) {
        struct http_exchange *exchange = pick(world.polls);
        if (exchange != NULL) {
            http_reply(exchange, 200, "text/plain", bytes_of("new", 3));
        }
    }
    if ((choice & 4) != 0) {
        struct http_exchange *exchange = pick(world.pending);
        if (exchange != NULL) {
            http_authenticated(exchange, (choice & 8) != 0, "caller", 6);
        }
    }
    if ((choice & 16) != 0) {
        connection->out.size = 0;
        connection->protocol->produce(connection->session,
                                      (choice & 32) != 0 ? 50 : OUTPUT_SIZE_MAX, &connection->out);
        connection->protocol->settle(connection->session);
    }
    assert(connection->protocol->queued_bytes(connection->session) <= QUEUE_MAX);
}

static void feed(struct connection_state *connection, uint8_t cut, uint8_t choice,
                 struct bytes input) {
    const struct protocol *protocol = connection->protocol;
    size_t piece_max = (cut & 15) == 0 ? SIZE_MAX : (size_t)(cut & 15) * 3;
    while (input.size > 0 && protocol->state(connection->session) < SESSION_ENDING) {
        bool wants_input =
            protocol->wants_input == NULL || protocol->wants_input(connection->session);
        size_t piece = input.size < piece_max ? input.size : piece_max;
        /* A connection that is not to be read may still have given one piece. */
        if (wants_input) {
            protocol->on_bytes(connection->session, bytes_of(input.data, piece));
        } else {
            choice |= 1 | 16;
        }
        input.data += wants_input ? piece : 1;
        input.size -= wants_input ? piece : 1;
        between(connection, choice);
    }
    if ((cut & 32) != 0 && protocol->state(connection->session) < SESSION_ENDING) {
        protocol->end_input(connection->session);
    }
    if ((cut & 64) != 0) {
        protocol->drain(connection->session);
    }
    for (unsigned i = 0; i < ROUNDS_MAX && protocol->state(connection->session) < SESSION_FAILED;
         i++) {
        between(connection, choice | 1 | 16);
    }
    (void)protocol->is_idle(connection->session);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char start[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
    if (size < 2) {
        return 0;
    }
    log_configure(LOG_ERROR, LOG_FORMAT_TEXT);
    struct net_limits limits = net_limits_default;
    limits.streams_max = 20;
    limits.header_size_max = 1000;
    limits.stream_queue_high = 1000;
    limits.connection_queue_max = 3000;
    limits.connection_queue_abort = 20000;
    struct net_shared shared;
    net_shared_init(&shared, &limits, 1);
    memset(&world, 0, sizeof world);
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        route_tree_add(&shared.routes.tree, &routes[i], &world);
    }
    shared.authenticator = &authenticator;
    bool is_http2 = (data[0] & 128) != 0;
    struct protocol_host host = {.shared = &shared, .wake = wake};
    struct connection_state connection = {
        .protocol = is_http2 ? &http2_protocol : &http1_protocol, .host = &host, .now_ms = 1};
    connection.session = connection.protocol->open(&host);
    assert(connection.session != NULL);
    if (is_http2) {
        connection.protocol->on_bytes(connection.session, bytes_of(start, sizeof start));
    }
    feed(&connection, data[0], data[1], bytes_of(data + 2, size - 2));
    connection.protocol->close(connection.session);
    buffer_clear(&connection.out);
    assert(world.n_opened == world.n_closed);
    assert(shared.stats.calls == 0);
    assert(shared.stats.queued_bytes == 0);
    assert(shared.partial_bytes == 0);
    net_shared_clear(&shared);
    return 0;
}
