#include "net/grpc_call.h"

#include "net/grpc_gzip.h"
#include "net/grpc_message.h"
#include "net/http_fields.h"
#include "net/net_shared.h"
#include "net/route_table.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FREE_CALLS_MAX = 1024,
    /* Messages given to prefetch() before the first of them is handed out. */
    PREFETCHED_MAX = 16,
    /* A call whose client has closed its side of the connection is given up after this time: the
     * client is most likely gone. */
    INPUT_ENDED_MS_MAX = 1000,
    /* An answer that is on its way when the time is over is cut off so much later. */
    OVERDUE_MS_MAX = 2000,
    CODE_TEXT_SIZE = 4
};

_Static_assert(3 * GRPC_TEXT_SIZE_MAX + 1 + CODE_TEXT_SIZE <= HTTP_TRAILER_TEXT_MAX,
               "the text of a status fits");

static const struct http_handler call_handler;

static struct grpc_call *call_of(struct http_exchange *exchange) {
    return list_entry(exchange, struct grpc_call, exchange);
}

static struct net_shared *shared_of(const struct grpc_call *call) {
    return call->exchange.session->shared;
}

/* --- life ---------------------------------------------------------------------------------- */

struct grpc_call *grpc_call_create(struct http_session *session, int32_t stream_id) {
    struct net_shared *shared = session->shared;
    struct grpc_call *call = NULL;
    struct list *node = list_pop_first(&shared->free_calls);
    if (node != NULL) {
        call = list_entry(node, struct grpc_call, exchange.in_session);
        shared->n_free_calls--;
        struct buffer out = call->exchange.out;
        struct buffer fields = call->exchange.fields;
        struct grpc_framing framing = call->framing;
        framing.takes_compressed = false;
        *call = (struct grpc_call){.exchange = {.out = out, .fields = fields}, .framing = framing};
    } else {
        call = calloc(1, sizeof *call);
        if (call == NULL) {
            abort();
        }
    }
    http_exchange_init(&call->exchange, session, &call_handler, stream_id);
    return call;
}

static void free_call(struct grpc_call *call) {
    http_exchange_clear(&call->exchange);
    grpc_framing_clear(&call->framing);
    free(call);
}

static void give_back(struct http_exchange *exchange) {
    struct grpc_call *call = call_of(exchange);
    struct net_shared *shared = shared_of(call);
    http_exchange_leave(exchange);
    free(call->text);
    call->text = NULL;
    if (shared->n_free_calls >= FREE_CALLS_MAX) {
        free_call(call);
        return;
    }
    grpc_framing_reset(&call->framing);
    list_append(&shared->free_calls, &exchange->in_session);
    shared->n_free_calls++;
}

void grpc_call_drop_free(struct net_shared *shared) {
    struct list *node = NULL;
    while ((node = list_pop_first(&shared->free_calls)) != NULL) {
        free_call(list_entry(node, struct grpc_call, exchange.in_session));
    }
    shared->n_free_calls = 0;
}

void grpc_call_count(struct grpc_call *call, struct grpc_stats *stats) {
    call->stats = stats;
    call->started_us = net_shared_stopwatch_us(shared_of(call));
    stats->started++;
}

static void count_end(struct grpc_call *call, enum grpc_code code) {
    if (call->stats != NULL && !call->is_handled) {
        call->stats->handled[code]++;
        call->is_handled = true;
    }
}

/* When the answer has been sent, or what the socket took of it. */
static void count_time(struct grpc_call *call) {
    if (call->stats != NULL) {
        uint64_t now_us = net_shared_stopwatch_us(shared_of(call));
        latency_add(&call->stats->handling, now_us - call->started_us);
        call->stats = NULL;
    }
}

static void on_close(struct http_exchange *exchange) {
    struct grpc_call *call = call_of(exchange);
    count_end(call, GRPC_CANCELLED);
    count_time(call);
    http_exchange_count_partial(exchange, 0);
    grpc_framing_reset(&call->framing);
    if (call->is_opened && call->method->on_close != NULL) {
        call->method->on_close(call);
    }
}

static void on_writable(struct http_exchange *exchange) {
    struct grpc_call *call = call_of(exchange);
    call->method->on_writable(call);
}

/* --- the request --------------------------------------------------------------------------- */

bool grpc_call_authenticate(struct grpc_call *call) {
    const struct net_shared *shared = shared_of(call);
    if (shared->authenticator != NULL &&
        shared->authenticator->begin(shared->authenticator_context, &call->exchange,
                                     call->exchange.caller) != NET_AUTHENTICATED &&
        !call->method->answers_refused) {
        grpc_call_finish(call, GRPC_UNAUTHENTICATED, "invalid credentials");
        return false;
    }
    return true;
}

void grpc_call_open(struct grpc_call *call) {
    assert(call->method != NULL);
    call->is_opened = true;
    if (call->method->is_prompt) {
        http_exchange_set_prompt(&call->exchange);
    }
    if (call->method->on_open != NULL) {
        call->method->on_open(call);
    }
}

static void refuse(struct grpc_call *call, enum grpc_framing_result result) {
    char text[256];
    switch (result) {
    case GRPC_FRAMING_TOO_LARGE:
        snprintf(text, sizeof text, "grpc: received message larger than max (%u vs. %zu)",
                 call->framing.announced_size, shared_of(call)->limits.message_size_max);
        grpc_call_finish(call, GRPC_RESOURCE_EXHAUSTED, text);
        return;
    case GRPC_FRAMING_COMPRESSED:
        if (call->encoding[0] == 0) {
            grpc_call_finish(call, GRPC_INTERNAL,
                             "grpc: compressed flag set with identity or empty encoding");
            return;
        }
        snprintf(text, sizeof text, "grpc: Decompressor is not installed for grpc-encoding \"%s\"",
                 call->encoding);
        call->refuses_encoding = true;
        grpc_call_finish(call, GRPC_UNIMPLEMENTED, text);
        return;
    default:
        snprintf(text, sizeof text, "grpc: received unexpected payload format %u",
                 call->framing.prefix[0]);
        grpc_call_finish(call, GRPC_INTERNAL, text);
        return;
    }
}

static void on_overflow(struct http_exchange *exchange) {
    grpc_call_finish(call_of(exchange), GRPC_RESOURCE_EXHAUSTED,
                     "grpc: too many unfinished messages");
}

static void count_partial(struct grpc_call *call) {
    if (!http_exchange_count_partial(&call->exchange, grpc_framing_held_bytes(&call->framing))) {
        on_overflow(&call->exchange);
    }
}

/* Prefetches for the messages that are whole in the bytes; returns how many. */
static size_t prefetch(struct grpc_call *call, struct bytes bytes, bool is_near) {
    size_t at = 0;
    size_t n = 0;
    struct bytes message;
    while (n < PREFETCHED_MAX && grpc_framing_peek(bytes, &at, &message)) {
        if (!call->method->prefetch(call, message, is_near)) {
            return 0;
        }
        n++;
    }
    return n;
}

void grpc_call_set_encoding(struct grpc_call *call, const char *encoding) {
    snprintf(call->encoding, sizeof call->encoding, "%s", encoding);
    call->framing.takes_compressed = strcmp(encoding, "gzip") == 0;
}

/* Made of few bytes, it may be much work. */
static void give_compressed(struct grpc_call *call, struct bytes message) {
    size_t size_max = shared_of(call)->limits.message_size_max;
    struct buffer inflated;
    buffer_init(&inflated);
    enum grpc_gzip_result result = grpc_gzip_inflate(message, size_max, &inflated);
    if (result == GRPC_GZIP_OK) {
        call->method->on_message(call, bytes_of(inflated.data, inflated.size));
    } else if (result == GRPC_GZIP_TOO_LARGE) {
        char text[128];
        snprintf(text, sizeof text,
                 "grpc: received message after decompression larger than max %zu", size_max);
        grpc_call_finish(call, GRPC_RESOURCE_EXHAUSTED, text);
    } else {
        grpc_call_finish(call, GRPC_INTERNAL,
                         "grpc: failed to decompress the received message: invalid gzip");
    }
    buffer_clear(&inflated);
}

static void on_bytes(struct http_exchange *exchange, struct bytes bytes) {
    struct grpc_call *call = call_of(exchange);
    size_t message_size_max = shared_of(call)->limits.message_size_max;
    bool prefetches = call->method != NULL && call->method->prefetch != NULL;
    size_t n_prefetched = 0;
    while (!exchange->is_finished && call->method != NULL) {
        if (prefetches && n_prefetched == 0 && grpc_framing_is_between_messages(&call->framing)) {
            n_prefetched = prefetch(call, bytes, false);
            prefetches = n_prefetched > 1 && prefetch(call, bytes, true) > 0;
        }
        n_prefetched -= n_prefetched > 0;
        struct bytes message;
        enum grpc_framing_result result =
            grpc_framing_next(&call->framing, message_size_max, &bytes, &message);
        if (result == GRPC_FRAMING_MORE) {
            count_partial(call);
            return;
        }
        if (result != GRPC_FRAMING_MESSAGE) {
            refuse(call, result);
            return;
        }
        if (call->method->kind != GRPC_BIDIRECTIONAL && call->has_message) {
            grpc_call_finish(call, GRPC_INTERNAL, "grpc: more than one request message");
            return;
        }
        call->has_message = true;
        if (call->stats != NULL) {
            call->stats->received++;
        }
        if (grpc_framing_is_compressed(&call->framing)) {
            give_compressed(call, message);
        } else {
            call->method->on_message(call, message);
        }
        if (bytes.size == 0 && exchange->partial_bytes == 0 &&
            grpc_framing_is_idle(&call->framing)) {
            return; /* most messages come whole, and alone */
        }
    }
}

static void on_half_close(struct http_exchange *exchange) {
    struct grpc_call *call = call_of(exchange);
    if (exchange->is_finished || call->method == NULL) {
        return;
    }
    if (!grpc_framing_is_between_messages(&call->framing)) {
        grpc_call_finish(call, GRPC_INTERNAL, "grpc: the stream ended inside a message");
    } else if (call->method->kind != GRPC_BIDIRECTIONAL && !call->has_message) {
        grpc_call_finish(call, GRPC_INTERNAL, "grpc: the stream ended without a request message");
    } else if (call->method->kind != GRPC_UNARY && call->method->on_half_close != NULL) {
        call->method->on_half_close(call);
    }
}

static void on_deadline(struct http_exchange *exchange) {
    struct grpc_call *call = call_of(exchange);
    if (http_exchange_queued_bytes(exchange) == 0 && call->message_left == 0) {
        grpc_call_finish(call, GRPC_DEADLINE_EXCEEDED, "context deadline exceeded");
        return;
    }
    /* The client gives up at the same moment and says so. A stream that ended before, in the middle
     * of a message, would look like a broken answer to it. */
    if (!call->is_overdue) {
        call->is_overdue = true;
        http_exchange_set_timeout(exchange, OVERDUE_MS_MAX);
        return;
    }
    /* Trailers behind a queue that it may never read would keep the stream open. */
    http_exchange_cut_off(exchange);
}

static void on_drain(struct http_exchange *exchange) {
    struct grpc_call *call = call_of(exchange);
    const struct grpc_method *method = call->method;
    if (method != NULL && (method->kind != GRPC_UNARY || method->waits)) {
        grpc_call_finish(call, GRPC_UNAVAILABLE, "server shutting down");
    }
}

static void on_input_end(struct http_exchange *exchange) {
    if (!exchange->is_half_closed) {
        http_exchange_cut_off(exchange);
        return;
    }
    struct net_timers *timers = exchange->session->shared->timers;
    uint64_t due_ms = net_timers_now_ms(timers) + INPUT_ENDED_MS_MAX;
    if (!net_timer_is_armed(&exchange->deadline) || exchange->deadline.wheel.due_ms > due_ms) {
        net_timers_arm(timers, &exchange->deadline, due_ms);
    }
}

/* --- the status ---------------------------------------------------------------------------- */

static const struct http_field ok_field = HTTP_FIELD("grpc-status", "0");

static size_t status_fields(const struct http_exchange *exchange, char *text,
                            struct http_field *out) {
    const struct grpc_call *call = (const struct grpc_call *)exchange;
    size_t n = 0;
    if (call->code == GRPC_OK) {
        out[n++] = ok_field;
    } else {
        int size = snprintf(text, CODE_TEXT_SIZE, "%u", call->code);
        out[n++] =
            (struct http_field){.name = ok_field.name, .value = bytes_of(text, (size_t)size)};
    }
    if (call->text != NULL) {
        char *message = text + CODE_TEXT_SIZE;
        size_t size = grpc_message_encode(call->text, message, 3 * GRPC_TEXT_SIZE_MAX + 1);
        out[n++] = (struct http_field){.name = {(const uint8_t *)"grpc-message", 12},
                                       .value = bytes_of(message, size)};
    }
    return n;
}

static const struct http_handler call_handler = {
    .on_bytes = on_bytes,
    .on_half_close = on_half_close,
    .on_writable = on_writable,
    .on_close = on_close,
    .on_deadline = on_deadline,
    .on_drain = on_drain,
    .on_input_end = on_input_end,
    .give_back = give_back,
    .on_overflow = on_overflow,
    .trailers = status_fields,
};

static const struct http_field type_field = HTTP_FIELD("content-type", "application/grpc");

/* The headers, before the first message. */
static void start_response(struct grpc_call *call) {
    const struct http_answer answer = {.status = 200,
                                       .fields = &type_field,
                                       .n_fields = 1,
                                       .length = HTTP_LENGTH_UNKNOWN,
                                       .has_body = true};
    http_exchange_start(&call->exchange, &answer);
}

/* The whole answer when there was no message: the status is in the headers. */
static void answer_status(struct grpc_call *call) {
    char text[HTTP_TRAILER_TEXT_MAX];
    struct http_field fields[HTTP_ANSWER_FIELDS_MAX] = {type_field};
    size_t n = 1;
    if (call->refuses_encoding) {
        fields[n++] = HTTP_FIELD("grpc-accept-encoding", "identity,gzip");
    }
    n += status_fields(&call->exchange, text, fields + n);
    const struct http_answer answer = {
        .status = 200, .fields = fields, .n_fields = n, .length = HTTP_LENGTH_UNKNOWN};
    http_exchange_start(&call->exchange, &answer);
}

/* --- for doors ----------------------------------------------------------------------------- */

void grpc_call_set_data(struct grpc_call *call, void *data) {
    call->exchange.data = data;
}

void *grpc_call_data(const struct grpc_call *call) {
    return call->exchange.data;
}

void *grpc_call_context(const struct grpc_call *call) {
    return call->exchange.context;
}

const struct caller *grpc_call_caller(const struct grpc_call *call) {
    return (const void *)call->exchange.caller;
}

void grpc_call_address(const struct grpc_call *call, char out_text[GRPC_ADDRESS_SIZE]) {
    http_address(&call->exchange, out_text);
}

bool grpc_call_has_service(const struct grpc_call *call, const char *service) {
    return route_table_has_service(call->exchange.session->routes, bytes_from_text(service));
}

bool grpc_call_metadata(const struct grpc_call *call, const char *name, struct bytes *out_value) {
    return http_fields_find(&call->exchange.fields, name, out_value);
}

static void count_sent(struct grpc_call *call) {
    if (call->stats != NULL) {
        call->stats->sent++;
    }
}

uint8_t *grpc_call_reserve(struct grpc_call *call, size_t size) {
    assert(size <= UINT32_MAX - GRPC_PREFIX_SIZE);
    call->reserved_size = size;
    return http_exchange_reserve(&call->exchange, GRPC_PREFIX_SIZE + size) + GRPC_PREFIX_SIZE;
}

void grpc_call_commit(struct grpc_call *call, size_t size) {
    assert(size <= call->reserved_size);
    call->reserved_size = 0;
    struct http_exchange *exchange = &call->exchange;
    if (http_exchange_is_over(exchange)) {
        return;
    }
    grpc_framing_write_prefix(exchange->out.data + exchange->out.size, (uint32_t)size);
    if (!exchange->is_response_started) {
        start_response(call);
    }
    count_sent(call);
    http_exchange_commit(exchange, GRPC_PREFIX_SIZE + size);
}

void grpc_call_begin_message(struct grpc_call *call, size_t size) {
    assert(size <= UINT32_MAX - GRPC_PREFIX_SIZE);
    struct http_exchange *exchange = &call->exchange;
    if (http_exchange_is_over(exchange)) {
        return;
    }
    grpc_framing_write_prefix(http_exchange_reserve(exchange, GRPC_PREFIX_SIZE), (uint32_t)size);
    if (!exchange->is_response_started) {
        start_response(call);
    }
    count_sent(call);
    call->message_left = size;
    http_exchange_commit(exchange, GRPC_PREFIX_SIZE);
}

void grpc_call_append(struct grpc_call *call, struct bytes piece) {
    if (piece.size > 0 && !http_exchange_is_over(&call->exchange)) {
        assert(piece.size <= call->message_left);
        call->message_left -= piece.size;
        memcpy(http_exchange_reserve(&call->exchange, piece.size), piece.data, piece.size);
        http_exchange_commit(&call->exchange, piece.size);
    }
}

void grpc_call_send(struct grpc_call *call, struct bytes message) {
    if (http_exchange_is_over(&call->exchange)) {
        return;
    }
    uint8_t *to = grpc_call_reserve(call, message.size);
    if (message.size > 0) {
        memcpy(to, message.data, message.size);
    }
    grpc_call_commit(call, message.size);
}

bool grpc_call_is_writable(struct grpc_call *call) {
    return http_exchange_is_writable(&call->exchange, call->method->on_writable != NULL);
}

bool grpc_call_has_room(const struct grpc_call *call) {
    return http_exchange_has_room(&call->exchange);
}

bool grpc_call_hold(struct grpc_call *call, size_t size) {
    return http_exchange_hold(&call->exchange, size);
}

void grpc_call_release(struct grpc_call *call, size_t size) {
    http_exchange_release(&call->exchange, size);
}

bool grpc_call_is_over(const struct grpc_call *call) {
    return http_exchange_is_over(&call->exchange);
}

void grpc_call_finish(struct grpc_call *call, enum grpc_code code, const char *text) {
    if (http_exchange_is_over(&call->exchange)) {
        return;
    }
    call->code = (uint8_t)code;
    count_end(call, code);
    if (call->message_left > 0) {
        /* A status behind half of a message would be read as a broken answer. */
        http_exchange_cut_off(&call->exchange);
        return;
    }
    if (text != NULL && text[0] != 0) {
        size_t size = strlen(text);
        size = size < GRPC_TEXT_SIZE_MAX ? size : GRPC_TEXT_SIZE_MAX;
        call->text = calloc(1, size + 1);
        if (call->text == NULL) {
            abort();
        }
        memcpy(call->text, text, size);
    }
    if (!call->exchange.is_response_started) {
        answer_status(call);
    }
    http_exchange_finish(&call->exchange);
}
