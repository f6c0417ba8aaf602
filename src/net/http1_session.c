#include "net/http1_session.h"

#include "net/route_exchange.h"

#include <assert.h>
#include <stdlib.h>

enum {
    /* Of requests behind the current one; then reading stops. As long as it goes on, a client that
     * leaves is noticed, however long the current request is served. */
    HELD_SIZE_MAX = 16 * 1024
};

static const struct http_wire http1_wire;

static void wake(struct http1_session *session) {
    session->http.host->wake(session->http.host);
}

static struct net_shared *shared_of(const struct http1_session *session) {
    return session->http.shared;
}

/* --- the wire ------------------------------------------------------------------------------ */

static void resume(struct http_exchange *exchange) {
    exchange->session->host->wake(exchange->session->host);
}

static const struct http_wire http1_wire = {
    .start = http1_response_start,
    .want_body = http1_response_want_body,
    .resume = resume,
    .reset = resume, /* the connection is closed when this answer is the next to be sent */
};

/* --- requests ------------------------------------------------------------------------------ */

static size_t held_bytes(const struct http1_session *session) {
    return session->held.size - session->held_taken;
}

/* Nothing that could still come matters: no request follows, and the body of the current one is not
 * read any more. The answer of a stream may begin long before the body of its request ends. */
static bool is_deaf(const struct http1_session *session) {
    return session->is_last &&
           (session->current == NULL || session->current->is_half_closed ||
            http_exchange_is_over(session->current) || !http1_parser_is_in_body(&session->parser));
}

/* Between requests the next one waits until the current one is answered, and until the client has
 * taken some of the answers before it. */
static bool can_parse(const struct http1_session *session) {
    const struct http_session *http = &session->http;
    if (http->state >= SESSION_ENDING || is_deaf(session)) {
        return false;
    }
    if (http1_parser_is_in_body(&session->parser)) {
        return true;
    }
    return (session->current == NULL || session->current->is_finished) &&
           http->n_exchanges < HTTP1_PIPELINED_MAX &&
           http->queued_bytes <= http->shared->limits.stream_queue_high;
}

static void open_exchange(struct http1_session *session) {
    struct http_request *request = &session->parser.request;
    if (session->http.state == SESSION_OPENING) {
        session->http.state = SESSION_OPEN;
    }
    net_timers_disarm(shared_of(session)->timers, &session->request_timer);
    session->dropped_bytes = 0;
    session->is_continue_due = request->expects_continue && !request->is_complete;
    session->current = route_exchange_create(&session->http, request, 0);
    route_exchange_open(session->current);
}

/* The stream of requests cannot be followed any more; the answer, if one is due, is the last. */
static void give_up(struct http1_session *session, bool is_in_body) {
    struct http_request *request = &session->parser.request;
    shared_of(session)->stats.protocol_errors++;
    net_timers_disarm(shared_of(session)->timers, &session->request_timer);
    session->is_last = true;
    session->lingers = true;
    if (!is_in_body) {
        request->is_complete = true;
        session->current = route_exchange_create(&session->http, request, 0);
        session->current->is_half_closed = true;
        route_exchange_open(session->current);
    } else if (session->current != NULL) {
        route_exchange_fail(session->current, request->refusal, request->refusal_text);
    }
    wake(session);
}

static void on_body(struct http1_session *session, struct bytes bytes) {
    session->is_continue_due = false;
    if (session->current != NULL && !http_exchange_is_over(session->current)) {
        session->current->handler->on_bytes(session->current, bytes);
        return;
    }
    session->dropped_bytes += bytes.size;
    if (session->dropped_bytes > HTTP_DROPPED_BODY_MAX) {
        session->is_last = true;
        session->lingers = true;
        wake(session);
    }
}

static void on_end(struct http1_session *session) {
    if (session->current != NULL) {
        session->current->is_half_closed = true;
        session->current->handler->on_half_close(session->current);
    }
}

static void parse(struct http1_session *session, struct bytes *input) {
    while (can_parse(session)) {
        struct bytes body;
        bool is_in_body = http1_parser_is_in_body(&session->parser);
        switch (http1_parser_next(&session->parser, input, &body)) {
        case HTTP1_MORE:
            return;
        case HTTP1_HEAD:
            open_exchange(session);
            break;
        case HTTP1_BODY:
            on_body(session, body);
            break;
        case HTTP1_END:
            on_end(session);
            break;
        case HTTP1_FAILED:
            give_up(session, is_in_body);
            return;
        }
    }
}

static void watch_head(struct http1_session *session) {
    struct net_shared *shared = shared_of(session);
    if (http1_parser_is_in_head(&session->parser) && !session->is_last &&
        !net_timer_is_armed(&session->request_timer)) {
        net_timers_arm(shared->timers, &session->request_timer,
                       net_timers_now_ms(shared->timers) + shared->limits.handshake_timeout_ms);
    }
}

static void on_request_timeout(struct net_timer *timer) {
    struct http1_session *session = list_entry(timer, struct http1_session, request_timer);
    if (session->http.state < SESSION_ENDING && !session->is_last) {
        session->parser.request.refusal = 408;
        give_up(session, false);
    }
}

/* --- input ahead of its time --------------------------------------------------------------- */

static void drop_held(struct http1_session *session) {
    shared_of(session)->partial_bytes -= held_bytes(session);
    session->held_taken = 0;
    buffer_clear(&session->held);
}

static void hold(struct http1_session *session, struct bytes bytes) {
    buffer_append(&session->held, bytes.data, bytes.size);
    shared_of(session)->partial_bytes += bytes.size;
    if (shared_of(session)->partial_bytes > NET_PARTIAL_BYTES_MAX) {
        http_session_fail(&session->http, "too many requests wait for the ones before them");
    }
}

static void parse_held(struct http1_session *session) {
    size_t before = held_bytes(session);
    struct bytes input = bytes_of(session->held.data + session->held_taken, before);
    parse(session, &input);
    session->held_taken += before - input.size;
    shared_of(session)->partial_bytes -= before - input.size;
    if (held_bytes(session) == 0 || is_deaf(session)) {
        drop_held(session);
    }
    if (session->is_input_ended && held_bytes(session) == 0) {
        http_session_end_input(&session->http);
    }
    watch_head(session);
}

static void http1_on_bytes(void *opaque, struct bytes bytes) {
    struct http1_session *session = opaque;
    if (session->http.state >= SESSION_ENDING || is_deaf(session) || bytes.size == 0) {
        return;
    }
    if (held_bytes(session) == 0) {
        parse(session, &bytes);
        watch_head(session);
    }
    if (bytes.size > 0 && !is_deaf(session)) {
        hold(session, bytes);
    }
}

/* --- the protocol's table ------------------------------------------------------------------ */

static void *http1_open(struct protocol_host *host) {
    struct http1_session *session = calloc(1, sizeof *session);
    if (session == NULL) {
        return NULL;
    }
    http_session_init(&session->http, &http1_wire, host);
    http1_parser_init(&session->parser, host->shared->limits.header_size_max);
    net_timer_init(&session->request_timer, on_request_timeout);
    return session;
}

static void http1_produce(void *opaque, size_t size_max, struct buffer *out) {
    http1_response_produce(opaque, size_max, out);
}

/* Nothing more will be asked, or may be. */
static void end_if_done(struct http1_session *session) {
    bool is_final = session->is_last || session->is_input_ended ||
                    (session->http.is_draining && !http1_parser_is_in_head(&session->parser));
    if (is_final && session->http.n_exchanges == 0 && held_bytes(session) == 0 &&
        session->http.state < SESSION_ENDING) {
        session->http.state = SESSION_ENDING;
        wake(session);
    }
}

static void http1_settle(void *opaque) {
    struct http1_session *session = opaque;
    if (session->current != NULL && session->current->is_wire_closed) {
        session->current = NULL;
    }
    http_session_settle(&session->http);
    if (held_bytes(session) > 0 && can_parse(session)) {
        parse_held(session);
    }
    end_if_done(session);
}

static enum session_state http1_state(const void *opaque) {
    const struct http1_session *session = opaque;
    return session->http.state;
}

static size_t http1_queued_bytes(const void *opaque) {
    const struct http1_session *session = opaque;
    return session->http.queued_bytes + session->http.bridged_bytes;
}

static bool http1_is_idle(const void *opaque) {
    const struct http1_session *session = opaque;
    return session->http.n_exchanges == 0 && held_bytes(session) == 0 &&
           !http1_parser_is_in_head(&session->parser) && !http1_parser_is_in_body(&session->parser);
}

/* With so much held that reading has stopped, nobody would see the client leave: then silence
 * counts as it does between requests, although the current one may wait for long. */
static bool http1_is_serving(const void *opaque) {
    const struct http1_session *session = opaque;
    const struct http_exchange *current = session->current;
    return session->http.queued_bytes > 0 ||
           (current != NULL && !current->is_wire_closed && held_bytes(session) < HELD_SIZE_MAX &&
            (current->is_half_closed || current->is_response_started));
}

static bool http1_wants_input(const void *opaque) {
    const struct http1_session *session = opaque;
    return held_bytes(session) < HELD_SIZE_MAX;
}

static bool http1_lingers(const void *opaque) {
    const struct http1_session *session = opaque;
    return session->lingers && !session->is_input_ended;
}

static void http1_end_input(void *opaque) {
    struct http1_session *session = opaque;
    session->is_input_ended = true;
    /* What is held belongs to later requests: the current one is whole. */
    http_session_end_input(&session->http);
    end_if_done(session);
}

static void http1_drain(void *opaque) {
    struct http1_session *session = opaque;
    session->http.is_draining = true;
    http_session_drain_exchanges(&session->http);
    end_if_done(session);
}

static void http1_close(void *opaque) {
    struct http1_session *session = opaque;
    session->current = NULL;
    http_session_close_exchanges(&session->http);
    drop_held(session);
    net_timers_disarm(shared_of(session)->timers, &session->request_timer);
    http1_parser_clear(&session->parser);
    free(session);
}

const struct protocol http1_protocol = {
    .name = "http1",
    .sniff = sniff_http1,
    .open = http1_open,
    .on_bytes = http1_on_bytes,
    .produce = http1_produce,
    .settle = http1_settle,
    .state = http1_state,
    .queued_bytes = http1_queued_bytes,
    .is_idle = http1_is_idle,
    .is_serving = http1_is_serving,
    .wants_input = http1_wants_input,
    .end_input = http1_end_input,
    .lingers = http1_lingers,
    .ping = NULL,
    .drain = http1_drain,
    .close = http1_close,
};
