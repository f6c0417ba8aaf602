#include "net/http_exchange.h"

#include "base/log.h"
#include "net/net_scope.h"

#include <assert.h>
#include <string.h>

enum {
    /* An exchange that is given back keeps buffers of at most this size for the next one. */
    FREE_CAPACITY_MAX = 1024,
    /* An open exchange with nothing queued keeps no more. */
    IDLE_CAPACITY_MAX = 4096,
    /* Bytes that are sent and still in memory. */
    SENT_KEPT_MAX = 64 * 1024,
    /* An answer with more than this in its queue takes turns with others. */
    BULKY_BYTES = 64 * 1024
};

/* --- sessions ------------------------------------------------------------------------------ */

void http_session_init(struct http_session *session, const struct http_wire *wire,
                       struct protocol_host *host) {
    session->wire = wire;
    session->host = host;
    session->shared = host->shared;
    session->routes = host->scope != NULL ? host->scope->routes : &host->shared->routes;
    list_init(&session->exchanges);
    list_init(&session->closing);
    list_init(&session->blocked);
    list_init(&session->blocked_prompt);
    list_init(&session->in_crowded);
}

void http_session_fail(struct http_session *session, const char *reason) {
    if (session->state == SESSION_FAILED) {
        return;
    }
    session->state = SESSION_FAILED;
    session->shared->stats.protocol_errors++;
    log_warning("connection closed", LOG_TEXT("reason", reason),
                LOG_NUMBER("queued_bytes", session->queued_bytes + session->host->unsent_bytes));
    session->host->wake(session->host);
}

static void wake_list(struct http_session *session, struct list *blocked, size_t queued_bytes) {
    const struct net_limits *limits = &session->shared->limits;
    if (list_is_empty(blocked) ||
        queued_bytes + session->host->unsent_bytes > limits->connection_queue_max / 2) {
        return;
    }
    struct list waiting;
    list_init(&waiting);
    list_append_all(&waiting, blocked);
    struct list *node = NULL;
    while ((node = list_pop_first(&waiting)) != NULL) {
        struct http_exchange *exchange = list_entry(node, struct http_exchange, in_blocked);
        if (exchange->is_finished || exchange->is_wire_closed) {
            continue;
        }
        if (http_exchange_queued_bytes(exchange) > limits->stream_queue_high / 2) {
            list_append(blocked, node);
        } else {
            exchange->handler->on_writable(exchange);
        }
    }
}

static void wake_writers(struct http_session *session) {
    wake_list(session, &session->blocked_prompt, session->prompt_bytes);
    wake_list(session, &session->blocked, session->queued_bytes);
}

void http_session_settle(struct http_session *session) {
    session->shared->stopwatch_us = 0;
    struct list *node = NULL;
    while ((node = list_pop_first(&session->closing)) != NULL) {
        struct http_exchange *exchange = list_entry(node, struct http_exchange, in_closing);
        if (!exchange->is_door_closed) {
            exchange->is_door_closed = true;
            list_remove(&exchange->in_blocked);
            exchange->handler->on_close(exchange);
        }
        /* The door may have ended it once more from inside on_close, which changes nothing. */
        list_remove(&exchange->in_closing);
        if (exchange->is_wire_closed) {
            exchange->handler->give_back(exchange);
        }
    }
    if (!session->is_closed) {
        wake_writers(session);
    }
}

void http_session_close_exchanges(struct http_session *session) {
    session->is_closed = true;
    struct list *node = session->exchanges.next;
    while (node != &session->exchanges) {
        struct http_exchange *exchange = list_entry(node, struct http_exchange, in_session);
        node = node->next;
        if (!exchange->is_wire_closed) {
            http_exchange_on_wire_close(exchange);
        }
    }
    http_session_settle(session);
    list_remove(&session->in_crowded);
    assert(list_is_empty(&session->exchanges));
    assert(session->queued_bytes == 0);
}

void http_session_drain_exchanges(struct http_session *session) {
    for (struct list *node = session->exchanges.next; node != &session->exchanges;
         node = node->next) {
        struct http_exchange *exchange = list_entry(node, struct http_exchange, in_session);
        if (!exchange->is_finished && !exchange->is_wire_closed) {
            exchange->handler->on_drain(exchange);
        }
    }
}

void http_session_end_input(struct http_session *session) {
    for (struct list *node = session->exchanges.next; node != &session->exchanges;
         node = node->next) {
        struct http_exchange *exchange = list_entry(node, struct http_exchange, in_session);
        if (!exchange->is_finished && !exchange->is_wire_closed) {
            exchange->handler->on_input_end(exchange);
        }
    }
}

/* --- life ---------------------------------------------------------------------------------- */

static void on_deadline(struct net_timer *timer) {
    struct http_exchange *exchange = list_entry(timer, struct http_exchange, deadline);
    if (!exchange->is_finished && !exchange->is_wire_closed) {
        exchange->handler->on_deadline(exchange);
    }
}

void http_exchange_init(struct http_exchange *exchange, struct http_session *session,
                        const struct http_handler *handler, int32_t stream_id) {
    exchange->session = session;
    exchange->handler = handler;
    exchange->stream_id = stream_id;
    list_init(&exchange->in_closing);
    list_init(&exchange->in_blocked);
    list_init(&exchange->in_partials);
    net_timer_init(&exchange->deadline, on_deadline);
    list_append(&session->exchanges, &exchange->in_session);
    session->n_exchanges++;
    http_exchange_count_held(exchange, http_exchange_cost(exchange));
    session->shared->stats.calls++;
    session->shared->stats.calls_total++;
}

static void shrink(struct buffer *buffer, size_t capacity_max) {
    if (buffer->capacity > capacity_max) {
        buffer_clear(buffer);
    }
    buffer->size = 0;
}

void http_exchange_leave(struct http_exchange *exchange) {
    struct net_shared *shared = exchange->session->shared;
    assert(exchange->is_wire_closed);
    assert(exchange->is_door_closed);
    assert(list_is_empty(&exchange->in_closing));
    list_remove(&exchange->in_session);
    list_remove(&exchange->in_blocked);
    net_timers_disarm(shared->timers, &exchange->deadline);
    http_exchange_count_partial(exchange, 0);
    http_exchange_count_held(exchange, 0);
    shared->stats.calls--;
    shrink(&exchange->out, FREE_CAPACITY_MAX);
    shrink(&exchange->fields, FREE_CAPACITY_MAX);
}

void http_exchange_clear(struct http_exchange *exchange) {
    buffer_clear(&exchange->out);
    buffer_clear(&exchange->fields);
}

/* The door's on_close and the end of the memory wait until no callback is running. */
void http_exchange_close_later(struct http_exchange *exchange) {
    struct http_session *session = exchange->session;
    if (list_is_empty(&exchange->in_closing)) {
        list_append(&session->closing, &exchange->in_closing);
    }
    session->host->wake(session->host);
}

void http_exchange_on_wire_close(struct http_exchange *exchange) {
    assert(!exchange->is_wire_closed);
    struct http_session *session = exchange->session;
    exchange->is_wire_closed = true;
    size_t unsent = http_exchange_queued_bytes(exchange);
    session->queued_bytes -= unsent;
    session->prompt_bytes -= exchange->is_prompt ? unsent : 0;
    session->shared->stats.queued_bytes -= unsent;
    exchange->out_sent = exchange->out.size;
    assert(session->n_exchanges > 0);
    session->n_exchanges--;
    net_timers_disarm(session->shared->timers, &exchange->deadline);
    http_exchange_close_later(exchange);
}

/* --- the answer ---------------------------------------------------------------------------- */

void http_exchange_start(struct http_exchange *exchange, const struct http_answer *answer) {
    exchange->is_response_started = true;
    exchange->session->wire->start(exchange, answer);
}

void http_exchange_pack(struct http_exchange *exchange) {
    struct buffer *out = &exchange->out;
    memmove(out->data, out->data + exchange->out_sent, out->size - exchange->out_sent);
    out->size -= exchange->out_sent;
    exchange->out_sent = 0;
}

static void apply_priority(struct http_exchange *exchange) {
    if (exchange->session->wire->apply_priority != NULL) {
        exchange->session->wire->apply_priority(exchange);
    }
}

__attribute__((noinline)) static void set_bulky(struct http_exchange *exchange) {
    exchange->is_bulky = true;
    if (!exchange->is_prompt) {
        apply_priority(exchange);
    }
}

void http_exchange_set_prompt(struct http_exchange *exchange) {
    assert(http_exchange_queued_bytes(exchange) == 0);
    exchange->is_prompt = true;
    apply_priority(exchange);
}

void http_exchange_commit(struct http_exchange *exchange, size_t size) {
    if (http_exchange_is_over(exchange) || exchange->is_bodyless) {
        return;
    }
    struct http_session *session = exchange->session;
    /* What was there before counts: one answer alone may be of any size, for the peer has had no
     * chance to read it. */
    bool is_too_much = session->queued_bytes + session->host->unsent_bytes >
                       session->shared->limits.connection_queue_abort;
    exchange->out.size += size;
    session->queued_bytes += size;
    session->prompt_bytes += exchange->is_prompt ? size : 0;
    session->shared->stats.queued_bytes += size;
    if (http_exchange_queued_bytes(exchange) > BULKY_BYTES && !exchange->is_bulky) {
        set_bulky(exchange);
    }
    if (exchange->is_deferred) {
        exchange->is_deferred = false;
        session->wire->resume(exchange);
    }
    if (is_too_much) {
        http_session_fail(session, "the peer does not read its answers");
    }
}

/* Of a large answer to a peer that takes it slowly, or not at all, only the rest is kept. */
static void give_back_sent(struct http_exchange *exchange) {
    struct buffer rest;
    buffer_init(&rest);
    buffer_append(&rest, exchange->out.data + exchange->out_sent,
                  http_exchange_queued_bytes(exchange));
    buffer_clear(&exchange->out);
    exchange->out = rest;
    exchange->out_sent = 0;
}

void http_exchange_drop_sent(struct http_exchange *exchange, size_t size) {
    assert(size <= http_exchange_queued_bytes(exchange));
    struct http_session *session = exchange->session;
    exchange->out_sent += size;
    session->queued_bytes -= size;
    session->prompt_bytes -= exchange->is_prompt ? size : 0;
    session->host->answer_bytes += size;
    session->shared->stats.queued_bytes -= size;
    if (exchange->out_sent == exchange->out.size) {
        exchange->out_sent = 0;
        shrink(&exchange->out, IDLE_CAPACITY_MAX);
    } else if (exchange->out_sent >= SENT_KEPT_MAX &&
               exchange->out_sent >= http_exchange_queued_bytes(exchange)) {
        give_back_sent(exchange);
    }
}

void http_exchange_finish(struct http_exchange *exchange) {
    struct http_session *session = exchange->session;
    exchange->is_finished = true;
    net_timers_disarm(session->shared->timers, &exchange->deadline);
    if (exchange->is_deferred) {
        exchange->is_deferred = false;
        session->wire->resume(exchange);
    }
    http_exchange_close_later(exchange);
}

void http_exchange_cut_off(struct http_exchange *exchange) {
    struct http_session *session = exchange->session;
    exchange->is_finished = true;
    exchange->is_cut_off = true;
    net_timers_disarm(session->shared->timers, &exchange->deadline);
    session->wire->reset(exchange);
    http_exchange_close_later(exchange);
}

bool http_exchange_is_writable(struct http_exchange *exchange, bool wants_wake) {
    if (http_exchange_is_over(exchange)) {
        return false;
    }
    struct http_session *session = exchange->session;
    const struct net_limits *limits = &session->shared->limits;
    size_t before = exchange->is_prompt ? session->prompt_bytes : session->queued_bytes;
    if (http_exchange_queued_bytes(exchange) <= limits->stream_queue_high &&
        before + session->host->unsent_bytes <= limits->connection_queue_max &&
        !http_session_wait_if_crowded(session)) {
        return true;
    }
    if (wants_wake && list_is_empty(&exchange->in_blocked)) {
        list_append(exchange->is_prompt ? &session->blocked_prompt : &session->blocked,
                    &exchange->in_blocked);
    }
    return false;
}

bool http_exchange_has_room(const struct http_exchange *exchange) {
    return http_session_has_room(exchange->session);
}

/* --- the request --------------------------------------------------------------------------- */

void http_exchange_set_timeout(struct http_exchange *exchange, uint64_t timeout_ms) {
    struct net_timers *timers = exchange->session->shared->timers;
    net_timers_arm(timers, &exchange->deadline, net_timers_now_ms(timers) + timeout_ms);
}
