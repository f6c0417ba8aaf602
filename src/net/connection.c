#include "net/connection.h"

#include "base/log.h"
#include "net/client_counts.h"
#include "net/net_scope.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    FLUSH_SIZE = 128 * 1024, /* one write */
    FLUSH_ROUNDS_MAX = 8,    /* writes of one connection in one iteration */
    SHORT_OUTPUT_MAX = 32 * 1024,
    UNREAD_GRACE_MS = 1000, /* to read what came during a stall before silence is judged */
    LINGER_MS_MAX = 2000,
    LINGER_BYTES_MAX = 8 * 1024 * 1024,
    HALF_CLOSED_INTERVAL_MS = 2000,   /* between two looks at a client that has closed its side */
    UNLIMITED_INTERVAL_MS = 60 * 1000 /* between two looks at one that may be silent */
};

static struct connection *connection_of(struct transport *transport) {
    return list_entry(transport, struct connection, transport);
}

static struct net_timers *timers_of(const struct connection *connection) {
    return connection->pool->shared->timers;
}

static void wake(struct protocol_host *host) {
    struct connection *connection = list_entry(host, struct connection, host);
    if (!connection->is_closing && list_is_empty(&connection->in_dirty)) {
        connection_pool_mark_dirty(connection->pool, &connection->in_dirty,
                                   connection->must_close || !turn_is_backlogged(connection));
    }
}

/* It is closed in front of all that is to be sent: others may need the room. */
void connection_close_later(struct connection *connection) {
    if (!connection->must_close && !list_is_empty(&connection->in_dirty)) {
        list_remove(&connection->in_dirty);
    }
    connection->must_close = true;
    wake(&connection->host);
}

/* --- catching up after a stall ------------------------------------------------------------- */

static void end_catch_up(struct connection *connection) {
    if (connection->catch_up_bytes > 0) {
        connection->catch_up_bytes = 0;
        assert(connection->pool->n_catching_up > 0);
        connection->pool->n_catching_up--;
    }
}

void connection_begin_catch_up(struct connection *connection) {
    end_catch_up(connection);
    if (!connection->is_reading || connection->is_closing) {
        return;
    }
    connection->catch_up_bytes = transport_unread_bytes(&connection->transport);
    if (connection->catch_up_bytes > 0) {
        connection->pool->n_catching_up++;
    }
}

static void count_caught_up(struct connection *connection, size_t size) {
    if (connection->catch_up_bytes > size) {
        connection->catch_up_bytes -= size;
    } else {
        end_catch_up(connection);
    }
}

/* --- reading ------------------------------------------------------------------------------- */

static void open_session(struct connection *connection, const struct protocol *protocol) {
    /* Only now: on an address that takes both, the first bytes told. */
    connection->host.is_encrypted = connection->transport.tls_context != NULL;
    connection->session = protocol->open(&connection->host);
    if (connection->session == NULL) {
        log_warning("connection closed", LOG_TEXT("reason", "out of memory"));
        connection_close_later(connection);
        return;
    }
    connection->protocol = protocol;
    struct bytes first = bytes_of(connection->sniffed, connection->sniffed_size);
    protocol->on_bytes(connection->session, first);
}

static enum sniff_result choose(struct connection *connection, struct bytes first,
                                const struct protocol **out_protocol) {
    if (connection->only != NULL) {
        *out_protocol = &tls_hello_protocol;
        enum sniff_result result = tls_hello_protocol.sniff(first);
        if (result == SNIFF_NO) {
            *out_protocol = connection->only;
            result = connection->only->sniff(first);
        }
        return result;
    }
    return net_scope_sniff(connection->host.scope, first, out_protocol, &connection->host.raw);
}

/* Takes what it needs of the first bytes; the rest is for the session. */
static void sniff(struct connection *connection, struct bytes *bytes) {
    size_t room = (size_t)SNIFF_SIZE_MAX - connection->sniffed_size;
    size_t size = bytes->size < room ? bytes->size : room;
    memcpy(connection->sniffed + connection->sniffed_size, bytes->data, size);
    connection->sniffed_size = (uint8_t)(connection->sniffed_size + size);
    bytes->data += size;
    bytes->size -= size;
    struct bytes first = bytes_of(connection->sniffed, connection->sniffed_size);
    const struct protocol *protocol = NULL;
    switch (choose(connection, first, &protocol)) {
    case SNIFF_YES:
        open_session(connection, protocol);
        break;
    case SNIFF_MORE:
        break;
    case SNIFF_NO:
        connection->pool->shared->stats.protocol_errors++;
        log_debug("connection closed", LOG_TEXT("reason", "no protocol starts like this"));
        connection_close_later(connection);
        break;
    }
}

static bool wants_input(const struct connection *connection) {
    const struct protocol *protocol = connection->protocol;
    return protocol == NULL || protocol->wants_input == NULL ||
           protocol->wants_input(connection->session);
}

static void stop_reading(struct connection *connection) {
    transport_stop_reading(&connection->transport);
    connection->is_reading = false;
    end_catch_up(connection);
}

void connection_feed(struct connection *connection, struct bytes bytes) {
    connection->pool->shared->stopwatch_us = 0;
    if (connection->must_close || connection->is_lingering || bytes.size == 0) {
        return;
    }
    if (connection->protocol == NULL) {
        sniff(connection, &bytes);
    }
    if (connection->protocol != NULL && bytes.size > 0) {
        connection->protocol->on_bytes(connection->session, bytes);
    }
    if (connection->is_reading && !wants_input(connection)) {
        /* At once: libuv may have more for us before this iteration ends. */
        stop_reading(connection);
        wake(&connection->host);
    }
    if (connection->protocol != NULL &&
        connection->protocol->state(connection->session) >= SESSION_ENDING) {
        wake(&connection->host);
    }
}

static void on_bytes(struct transport *transport, struct bytes bytes, size_t wire_size) {
    struct connection *connection = connection_of(transport);
    struct connection_pool *pool = connection->pool;
    net_timers_set_now(timers_of(connection), uv_now(pool->loop));
    connection->received_ms = uv_now(pool->loop);
    connection->is_pinged = false;
    pool->shared->stats.bytes_received += wire_size;
    if (connection->is_lingering) {
        connection->linger_bytes += wire_size;
        if (connection->linger_bytes > LINGER_BYTES_MAX) {
            connection_close_later(connection);
        }
    } else if (!connection->must_close && bytes.size > 0) {
        turns_on_bytes(connection, bytes);
    }
    /* A handshake writes from here; a socket that is full is the flush's to watch. */
    if (transport_is_full(transport)) {
        wake(&connection->host);
    }
    count_caught_up(connection, wire_size);
}

static void on_end(struct transport *transport) {
    struct connection *connection = connection_of(transport);
    if (connection->is_ended) {
        return;
    }
    connection->is_ended = true;
    end_catch_up(connection);
    /* What was asked before may still be answered: `printf ... | nc` ends its side early. */
    if (connection->protocol != NULL && connection->protocol->end_input != NULL &&
        !connection->is_lingering) {
        connection->protocol->end_input(connection->session);
        transport_probe_peer(transport);
        net_timers_arm(timers_of(connection), &connection->life_timer,
                       uv_now(connection->pool->loop) + HALF_CLOSED_INTERVAL_MS);
    }
    wake(&connection->host);
}

static void on_failed(struct transport *transport) {
    struct connection *connection = connection_of(transport);
    end_catch_up(connection);
    connection_close_later(connection);
}

/* Who does not take our answers gets no more questions answered. Only a full socket counts: when
 * answers wait for HTTP/2 windows, the frames that open them must still be read. */
static void update_reading(struct connection *connection) {
    const struct net_limits *limits = &connection->pool->shared->limits;
    size_t queued = connection->host.unsent_bytes;
    if (connection->protocol != NULL) {
        queued += connection->protocol->queued_bytes(connection->session);
    }
    if (connection->is_ended) {
        return;
    }
    bool is_full = transport_is_full(&connection->transport);
    bool is_stuck = is_full && queued > limits->connection_queue_max;
    bool has_room = !is_full || queued <= limits->connection_queue_max / 2;
    if (connection->is_reading && (is_stuck || !wants_input(connection))) {
        stop_reading(connection);
    } else if (!connection->is_reading && has_room && wants_input(connection)) {
        connection->is_reading = true;
        connection_go_on_reading(connection);
    }
}

void connection_go_on_reading(struct connection *connection) {
    if (!connection->is_reading || connection->is_ended || connection->is_closing ||
        turn_is_awaited(&connection->turn)) {
        return;
    }
    if (!transport_start_reading(&connection->transport)) {
        connection->is_reading = false;
        connection_close_later(connection);
    }
}

/* --- writing ------------------------------------------------------------------------------- */

/* What waits for a socket is memory too, like what waits to be produced. */
static void set_unsent(struct connection *connection, size_t size) {
    struct net_stats *stats = &connection->pool->shared->stats;
    stats->unsent_bytes = stats->unsent_bytes - connection->host.unsent_bytes + size;
    connection->host.unsent_bytes = size;
}

static void on_sent(struct transport *transport) {
    struct connection *connection = connection_of(transport);
    set_unsent(connection, 0);
    net_timers_disarm(timers_of(connection), &connection->write_timer);
    wake(&connection->host);
}

static void note_write_progress(struct connection *connection) {
    connection->write_queue_noted = transport_unsent_bytes(&connection->transport);
    set_unsent(connection, connection->write_queue_noted);
    net_timers_arm(timers_of(connection), &connection->write_timer,
                   uv_now(connection->pool->loop) +
                       connection->pool->shared->limits.write_timeout_ms);
}

static void on_write_timeout(struct net_timer *timer) {
    struct connection *connection = list_entry(timer, struct connection, write_timer);
    size_t queue = transport_unsent_bytes(&connection->transport);
    set_unsent(connection, queue);
    /* After a stall of ours the peer may have read everything while we did not write. */
    if (queue < connection->write_queue_noted || transport_has_room(&connection->transport)) {
        note_write_progress(connection);
        return;
    }
    log_warning("connection closed", LOG_TEXT("reason", "the peer stopped reading"),
                LOG_NUMBER("unsent_bytes", queue));
    connection_close_later(connection);
}

/* False: there is no more to send, or the socket takes no more now. */
static bool send_once(struct connection *connection) {
    struct connection_pool *pool = connection->pool;
    struct buffer *scratch = &pool->scratch;
    scratch->size = 0;
    connection->protocol->produce(connection->session, FLUSH_SIZE, scratch);
    if (scratch->size == 0) {
        return false;
    }
    switch (transport_write(&connection->transport, bytes_of(scratch->data, scratch->size))) {
    case TRANSPORT_SENT:
        return true;
    case TRANSPORT_QUEUED:
        return false;
    case TRANSPORT_FAILED:
        connection->must_close = true;
        return false;
    }
    assert(!"every result is handled");
    return false;
}

/* --- closing ------------------------------------------------------------------------------- */

static void on_closed(struct transport *transport) {
    struct connection *connection = connection_of(transport);
    struct connection_pool *pool = connection->pool;
    free(connection);
    assert(pool->n_handles > 0);
    pool->n_handles--;
    if (pool->n_handles == 0 && pool->on_empty != NULL) {
        pool->on_empty(pool->on_empty_data);
    }
}

static void close_now(struct connection *connection) {
    if (connection->is_closing) {
        return;
    }
    connection->is_closing = true;
    if (connection->protocol != NULL) {
        connection->protocol->close(connection->session);
        connection->protocol = NULL;
        connection->session = NULL;
    }
    end_catch_up(connection);
    net_timers_disarm(timers_of(connection), &connection->life_timer);
    net_timers_disarm(timers_of(connection), &connection->write_timer);
    backlog_clear(connection);
    turn_clear(connection);
    set_unsent(connection, 0);
    list_remove(&connection->in_dirty);
    list_remove(&connection->in_pool);
    connection->pool->shared->stats.connections--;
    client_counts_remove(connection->pool->clients, connection->client);
    if (!connection->transport.is_closing) {
        transport_close(&connection->transport);
    }
}

/* Closing a socket with unread bytes resets the connection, and the client might lose the last
 * answer: it sees the end of our output, and what it still sends is dropped for a moment. */
static void end_politely(struct connection *connection) {
    const struct protocol *protocol = connection->protocol;
    if (connection->is_lingering) {
        return;
    }
    if (connection->is_ended || protocol->lingers == NULL ||
        !protocol->lingers(connection->session)) {
        connection->must_close = true;
        return;
    }
    connection->is_lingering = true;
    transport_end_output(&connection->transport);
    net_timers_arm(timers_of(connection), &connection->life_timer,
                   uv_now(connection->pool->loop) + LINGER_MS_MAX);
}

/* Notes whether there is more to send than one iteration should. */
static void serve(struct connection *connection) {
    const struct protocol *protocol = connection->protocol;
    bool has_more = !transport_is_full(&connection->transport) &&
                    protocol->state(connection->session) != SESSION_FAILED;
    for (unsigned i = 0; i < FLUSH_ROUNDS_MAX && has_more; i++) {
        has_more = send_once(connection);
    }
    connection->has_more = has_more;
    /* Calls that ended while they were sent have marked us again; they are settled right here. */
    list_remove(&connection->in_dirty);
    protocol->settle(connection->session);
    enum session_state state = protocol->state(connection->session);
    if (state == SESSION_FAILED) {
        connection->must_close = true;
    } else if (has_more) {
        wake(&connection->host);
    } else if (state == SESSION_ENDING && !transport_is_full(&connection->transport)) {
        end_politely(connection);
    } else if (connection->pool->shared->is_shutting_down && connection_is_idle(connection)) {
        connection->must_close = true;
    }
}

static bool owes_answer(const struct connection *connection) {
    return connection->protocol != NULL && connection->protocol->end_input != NULL &&
           !connection->is_lingering && !connection->protocol->is_idle(connection->session);
}

bool connection_is_long_to_flush(const struct connection *connection) {
    const struct protocol *protocol = connection->protocol;
    if (protocol == NULL || connection->must_close ||
        protocol->state(connection->session) == SESSION_FAILED) {
        return false; /* it is closed, and gives back what it holds */
    }
    return connection->has_more || protocol->queued_bytes(connection->session) > SHORT_OUTPUT_MAX ||
           (protocol->has_kept_input != NULL && protocol->has_kept_input(connection->session));
}

void connection_flush(struct connection *connection) {
    if (connection->is_closing) {
        return;
    }
    if (!connection->must_close && connection->protocol != NULL) {
        serve(connection);
    }
    bool is_sent = !connection->has_more && !transport_is_full(&connection->transport);
    if (connection->must_close || (connection->is_ended && is_sent && !owes_answer(connection))) {
        close_now(connection);
        return;
    }
    if (transport_is_full(&connection->transport) &&
        !net_timer_is_armed(&connection->write_timer)) {
        note_write_progress(connection);
    }
    update_reading(connection);
    backlog_update(connection);
}

/* --- time ---------------------------------------------------------------------------------- */

/* Silence after which the peer is asked for a sign of life, or closed; 0: never, and
 * RAW_NO_IDLE_LIMIT: not now. */
static uint64_t idle_limit_ms(const struct connection *connection) {
    const struct protocol *protocol = connection->protocol;
    uint64_t limit_ms =
        protocol->idle_limit_ms != NULL ? protocol->idle_limit_ms(connection->session) : 0;
    return limit_ms != 0 ? limit_ms : connection->pool->shared->limits.keepalive_interval_ms;
}

/* A whole request waits for its answer: the peer is not expected to speak. */
static bool is_serving(const struct connection *connection) {
    const struct protocol *protocol = connection->protocol;
    return protocol->is_serving != NULL ? protocol->is_serving(connection->session)
                                        : !protocol->is_idle(connection->session);
}

/* A client that closed its side may wait for its answer or be gone. */
static void watch_half_closed(struct connection *connection) {
    if (transport_is_broken(&connection->transport)) {
        connection_close_later(connection);
        return;
    }
    net_timers_arm(timers_of(connection), &connection->life_timer,
                   uv_now(connection->pool->loop) + HALF_CLOSED_INTERVAL_MS);
}

static void on_life_timer(struct net_timer *timer) {
    struct connection *connection = list_entry(timer, struct connection, life_timer);
    const struct net_limits *limits = &connection->pool->shared->limits;
    uint64_t now_ms = uv_now(connection->pool->loop);
    if (connection->is_lingering) {
        connection_close_later(connection);
        return;
    }
    if (connection->is_ended) {
        watch_half_closed(connection);
        return;
    }
    if (connection->is_reading && transport_unread_bytes(&connection->transport) > 0) {
        /* We were slow, not the peer. */
        net_timers_arm(timers_of(connection), timer, now_ms + UNREAD_GRACE_MS);
        return;
    }
    if (connection->protocol == NULL ||
        connection->protocol->state(connection->session) == SESSION_OPENING) {
        log_debug("connection closed", LOG_TEXT("reason", "no complete request in time"));
        connection->pool->shared->stats.protocol_errors++;
        connection_close_later(connection);
        return;
    }
    uint64_t interval_ms = idle_limit_ms(connection);
    if (interval_ms == 0) {
        return;
    }
    if (interval_ms == RAW_NO_IDLE_LIMIT) {
        /* The kernel finds out whether the peer is still there. The protocol may change its mind.
         */
        if (!connection->is_probed) {
            connection->is_probed = true;
            transport_probe_peer(&connection->transport);
        }
        net_timers_arm(timers_of(connection), timer, now_ms + UNLIMITED_INTERVAL_MS);
        return;
    }
    uint64_t due_ms = connection->received_ms + interval_ms;
    /* Who is not read from cannot show that it lives; the write timer watches it. */
    if (!connection->is_reading) {
        due_ms = now_ms + interval_ms;
    } else if (now_ms >= due_ms && connection->is_pinged) {
        log_info("connection closed", LOG_TEXT("reason", "no sign of life"));
        connection_close_later(connection);
        return;
    } else if (now_ms >= due_ms) {
        if (connection->protocol->ping != NULL) {
            connection->is_pinged = true;
            connection->protocol->ping(connection->session);
            due_ms = now_ms + limits->keepalive_timeout_ms;
        } else if (is_serving(connection)) {
            due_ms = now_ms + interval_ms;
        } else {
            connection_close_later(connection);
            return;
        }
    }
    net_timers_arm(timers_of(connection), timer, due_ms);
}

/* --- life ---------------------------------------------------------------------------------- */

static struct transport *transport_of(const struct protocol_host *host) {
    return &list_entry(host, struct connection, host)->transport;
}

static const struct tls_identity *identity(struct protocol_host *host) {
    return transport_identity(transport_of(host));
}

static void address(const struct protocol_host *host, char out_text[NET_ADDRESS_SIZE]) {
    transport_peer_text(transport_of(host), out_text);
}

static const struct transport_events transport_events = {
    .on_bytes = on_bytes,
    .on_end = on_end,
    .on_failed = on_failed,
    .on_sent = on_sent,
    .on_closed = on_closed,
};

struct connection *connection_create(struct connection_pool *pool,
                                     const struct connection_terms *terms, int socket,
                                     struct client_count *client) {
    struct connection *connection = calloc(1, sizeof *connection);
    if (connection == NULL) {
        client_counts_remove(pool->clients, client);
        close(socket);
        return NULL;
    }
    connection->pool = pool;
    connection->client = client;
    connection->only = terms->only;
    connection->host = (struct protocol_host){.shared = pool->shared,
                                              .wake = wake,
                                              .identity = identity,
                                              .address = address,
                                              .scope = terms->scope};
    list_init(&connection->in_pool);
    list_init(&connection->in_dirty);
    net_timer_init(&connection->life_timer, on_life_timer);
    net_timer_init(&connection->write_timer, on_write_timeout);
    backlog_init(&connection->backlog);
    turn_init(&connection->turn);
    list_append(&pool->all, &connection->in_pool);
    pool->n_handles++;
    pool->shared->stats.connections++;
    if (!transport_open(&connection->transport, &pool->transports, terms->transport, terms->tls,
                        &transport_events, socket)) {
        close_now(connection);
        return NULL;
    }
    connection->received_ms = uv_now(pool->loop);
    update_reading(connection);
    net_timers_arm(pool->shared->timers, &connection->life_timer,
                   connection->received_ms + pool->shared->limits.handshake_timeout_ms);
    return connection;
}

void connection_drain(struct connection *connection) {
    if (connection->protocol != NULL) {
        connection->protocol->drain(connection->session);
        wake(&connection->host);
    } else {
        connection_close_later(connection);
    }
}

bool connection_is_idle(const struct connection *connection) {
    return !transport_is_full(&connection->transport) &&
           (connection->protocol == NULL || connection->protocol->is_idle(connection->session));
}
