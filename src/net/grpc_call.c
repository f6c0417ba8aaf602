#include "net/grpc_call.h"

#include "net/http2_session.h"

#include <assert.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FREE_CALLS_MAX = 1024,
    /* A call in the free list keeps buffers of at most this size for the next one. */
    FREE_CAPACITY_MAX = 1024,
    /* An open call with nothing queued keeps no more. */
    IDLE_CAPACITY_MAX = 4096,
    /* So many messages are told of before the first of them is handed out. */
    COMING_MAX = 16,
    /* One connection may queue this part of what is left below the soft limit of all. */
    QUEUE_SHARES = 4
};

static void on_deadline(struct net_timer *timer);

/* --- life ---------------------------------------------------------------------------------- */

struct grpc_call *grpc_call_take(struct http2_session *session, int32_t stream_id) {
    struct net_shared *shared = session->shared;
    struct grpc_call *call = NULL;
    struct list *node = list_pop_first(&shared->free_calls);
    if (node != NULL) {
        call = list_entry(node, struct grpc_call, in_session);
        shared->n_free_calls--;
        struct buffer out = call->out;
        struct buffer metadata = call->metadata;
        struct grpc_framing framing = call->framing;
        *call = (struct grpc_call){.out = out, .metadata = metadata, .framing = framing};
    } else {
        call = calloc(1, sizeof *call);
        if (call == NULL) {
            abort();
        }
    }
    call->session = session;
    call->stream_id = stream_id;
    list_init(&call->in_session);
    list_init(&call->in_closing);
    list_init(&call->in_blocked);
    net_timer_init(&call->deadline, on_deadline);
    shared->stats.calls++;
    shared->stats.calls_total++;
    return call;
}

static void free_call(struct grpc_call *call) {
    buffer_clear(&call->out);
    buffer_clear(&call->metadata);
    grpc_framing_clear(&call->framing);
    free(call);
}

static void shrink(struct buffer *buffer, size_t capacity_max) {
    if (buffer->capacity > capacity_max) {
        buffer_clear(buffer);
    }
    buffer->size = 0;
}

static void give_back(struct grpc_call *call) {
    struct net_shared *shared = call->session->shared;
    assert(call->is_wire_closed);
    assert(call->is_door_closed);
    assert(list_is_empty(&call->in_closing));
    list_remove(&call->in_session);
    list_remove(&call->in_blocked);
    net_timers_disarm(shared->timers, &call->deadline);
    shared->partial_bytes -= call->counted_partial_bytes;
    shared->stats.calls--;
    free(call->text);
    call->text = NULL;
    if (shared->n_free_calls >= FREE_CALLS_MAX) {
        free_call(call);
        return;
    }
    shrink(&call->out, FREE_CAPACITY_MAX);
    shrink(&call->metadata, FREE_CAPACITY_MAX);
    grpc_framing_reset(&call->framing);
    list_append(&shared->free_calls, &call->in_session);
    shared->n_free_calls++;
}

void grpc_call_drop_free(struct net_shared *shared) {
    struct list *node = NULL;
    while ((node = list_pop_first(&shared->free_calls)) != NULL) {
        free_call(list_entry(node, struct grpc_call, in_session));
    }
    shared->n_free_calls = 0;
}

/* Its end is told, and its memory given back, when nobody is inside a callback any more. */
static void close_later(struct grpc_call *call) {
    if (list_is_empty(&call->in_closing)) {
        list_append(&call->session->closing, &call->in_closing);
    }
    call->session->host->wake(call->session->host);
}

void grpc_call_on_wire_close(struct grpc_call *call) {
    assert(!call->is_wire_closed);
    struct net_shared *shared = call->session->shared;
    call->is_wire_closed = true;
    size_t unsent = call->out.size - call->out_sent;
    call->session->queued_bytes -= unsent;
    shared->stats.queued_bytes -= unsent;
    call->out_sent = call->out.size;
    assert(call->session->n_calls > 0);
    call->session->n_calls--;
    net_timers_disarm(shared->timers, &call->deadline);
    close_later(call);
}

static void release_partial(struct grpc_call *call) {
    call->session->shared->partial_bytes -= call->counted_partial_bytes;
    call->counted_partial_bytes = 0;
    grpc_framing_reset(&call->framing);
}

static void wake_writers(struct http2_session *session) {
    const struct net_limits *limits = &session->shared->limits;
    size_t queued_bytes = session->queued_bytes + session->host->unsent_bytes;
    if (list_is_empty(&session->blocked) || queued_bytes > limits->connection_queue_max / 2) {
        return;
    }
    struct list waiting;
    list_init(&waiting);
    list_append_all(&waiting, &session->blocked);
    struct list *node = NULL;
    while ((node = list_pop_first(&waiting)) != NULL) {
        struct grpc_call *call = list_entry(node, struct grpc_call, in_blocked);
        if (call->is_finished || call->is_wire_closed) {
            continue;
        }
        if (grpc_call_queued_bytes(call) > limits->stream_queue_high / 2) {
            list_append(&session->blocked, node);
        } else {
            call->method->on_writable(call);
        }
    }
}

void grpc_call_settle(struct http2_session *session) {
    struct list *node = NULL;
    while ((node = list_pop_first(&session->closing)) != NULL) {
        struct grpc_call *call = list_entry(node, struct grpc_call, in_closing);
        if (!call->is_door_closed) {
            call->is_door_closed = true;
            list_remove(&call->in_blocked);
            release_partial(call);
            if (call->is_opened && call->method->on_close != NULL) {
                call->method->on_close(call);
            }
        }
        /* Its door may have ended it once more from inside on_close; that is already known. */
        list_remove(&call->in_closing);
        if (call->is_wire_closed) {
            give_back(call);
        }
    }
    if (!session->is_closed) {
        wake_writers(session);
    }
}

/* --- what comes in ------------------------------------------------------------------------- */

void grpc_call_open(struct grpc_call *call) {
    assert(call->method != NULL);
    call->is_opened = true;
    if (call->method->on_open != NULL) {
        call->method->on_open(call);
    }
}

static void refuse(struct grpc_call *call, enum grpc_framing_result result) {
    char text[256];
    switch (result) {
    case GRPC_FRAMING_TOO_LARGE:
        snprintf(text, sizeof text, "grpc: received message larger than max (%u vs. %zu)",
                 call->framing.announced_size, call->session->shared->limits.message_size_max);
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

/* What unfinished messages hold is bounded over all connections. */
static void count_partial(struct grpc_call *call) {
    struct net_shared *shared = call->session->shared;
    size_t held = grpc_framing_held_bytes(&call->framing);
    shared->partial_bytes = shared->partial_bytes - call->counted_partial_bytes + held;
    call->counted_partial_bytes = held;
    if (shared->partial_bytes > NET_PARTIAL_BYTES_MAX) {
        grpc_call_finish(call, GRPC_RESOURCE_EXHAUSTED, "grpc: too many unfinished messages");
    }
}

/* Tells of the messages that lie whole in the bytes; returns of how many. */
static size_t tell_coming(struct grpc_call *call, struct bytes bytes, bool is_near) {
    size_t at = 0;
    size_t n = 0;
    struct bytes message;
    while (n < COMING_MAX && grpc_framing_peek(bytes, &at, &message)) {
        if (!call->method->on_coming(call, message, is_near)) {
            return 0;
        }
        n++;
    }
    return n;
}

void grpc_call_on_bytes(struct grpc_call *call, struct bytes bytes) {
    size_t message_size_max = call->session->shared->limits.message_size_max;
    bool is_told = call->method != NULL && call->method->on_coming != NULL;
    size_t n_coming = 0;
    while (!call->is_finished && call->method != NULL) {
        if (is_told && n_coming == 0 && grpc_framing_is_between_messages(&call->framing)) {
            n_coming = tell_coming(call, bytes, false);
            is_told = n_coming > 1 && tell_coming(call, bytes, true) > 0;
        }
        n_coming -= n_coming > 0;
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
        call->method->on_message(call, message);
    }
}

void grpc_call_on_half_close(struct grpc_call *call) {
    if (call->is_half_closed) {
        return;
    }
    call->is_half_closed = true;
    if (call->is_finished || call->method == NULL) {
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

void grpc_call_set_timeout(struct grpc_call *call, uint64_t timeout_ms) {
    struct net_timers *timers = call->session->shared->timers;
    net_timers_arm(timers, &call->deadline, net_timers_now_ms(timers) + timeout_ms);
}

static void on_deadline(struct net_timer *timer) {
    struct grpc_call *call = list_entry(timer, struct grpc_call, deadline);
    if (call->is_finished || call->is_wire_closed) {
        return;
    }
    if (grpc_call_queued_bytes(call) == 0) {
        grpc_call_finish(call, GRPC_DEADLINE_EXCEEDED, "context deadline exceeded");
        return;
    }
    /* The client gave up at the same moment; trailers behind a queue it may never read would keep
     * the stream open. */
    call->is_finished = true;
    http2_session_reset(call->session, call, NGHTTP2_CANCEL);
    close_later(call);
}

/* --- what doors use ------------------------------------------------------------------------ */

void grpc_call_set_data(struct grpc_call *call, void *data) {
    call->data = data;
}

void *grpc_call_data(const struct grpc_call *call) {
    return call->data;
}

void *grpc_call_context(const struct grpc_call *call) {
    return call->context;
}

bool grpc_call_metadata(const struct grpc_call *call, const char *name, struct bytes *out_value) {
    size_t name_size = strlen(name);
    size_t position = 0;
    while (position < call->metadata.size) {
        uint16_t sizes[2];
        memcpy(sizes, call->metadata.data + position, sizeof sizes);
        const uint8_t *at = call->metadata.data + position + sizeof sizes;
        if (sizes[0] == name_size && memcmp(at, name, name_size) == 0) {
            *out_value = bytes_of(at + sizes[0], sizes[1]);
            return true;
        }
        position += sizeof sizes + sizes[0] + sizes[1];
    }
    return false;
}

/* Nothing can be sent any more, and whoever tries needs not know. */
static bool is_over(const struct grpc_call *call) {
    return call->is_finished || call->is_wire_closed || call->session->is_closed ||
           call->session->state == SESSION_FAILED;
}

uint8_t *grpc_call_reserve(struct grpc_call *call, size_t size) {
    assert(size <= UINT32_MAX);
    call->reserved_size = size;
    if (is_over(call)) {
        struct buffer *discarded = &call->session->shared->discarded;
        return buffer_reserve(discarded, size);
    }
    struct buffer *out = &call->out;
    if (call->out_sent > 0 && call->out_sent >= out->size / 2) {
        memmove(out->data, out->data + call->out_sent, out->size - call->out_sent);
        out->size -= call->out_sent;
        call->out_sent = 0;
    }
    return buffer_reserve(out, GRPC_PREFIX_SIZE + size) + GRPC_PREFIX_SIZE;
}

void grpc_call_commit(struct grpc_call *call, size_t size) {
    assert(size <= call->reserved_size);
    call->reserved_size = 0;
    if (is_over(call)) {
        return;
    }
    struct http2_session *session = call->session;
    size_t framed_size = GRPC_PREFIX_SIZE + size;
    /* What was there before counts: one answer alone may be of any size, for nobody could be blamed
     * for not having read it. */
    bool is_too_much = session->queued_bytes + session->host->unsent_bytes >
                       session->shared->limits.connection_queue_abort;
    grpc_framing_write_prefix(call->out.data + call->out.size, (uint32_t)size);
    call->out.size += framed_size;
    session->queued_bytes += framed_size;
    session->shared->stats.queued_bytes += framed_size;
    if (!call->is_response_started) {
        http2_session_start_response(session, call);
    } else if (call->is_deferred) {
        http2_session_resume(session, call);
    }
    if (is_too_much) {
        http2_session_fail(session, "the peer does not read its answers");
    }
}

void grpc_call_send(struct grpc_call *call, struct bytes message) {
    if (is_over(call)) {
        return;
    }
    uint8_t *to = grpc_call_reserve(call, message.size);
    if (message.size > 0) {
        memcpy(to, message.data, message.size);
    }
    grpc_call_commit(call, message.size);
}

bool grpc_call_is_writable(struct grpc_call *call) {
    if (is_over(call)) {
        return false;
    }
    struct http2_session *session = call->session;
    const struct net_limits *limits = &session->shared->limits;
    if (grpc_call_queued_bytes(call) <= limits->stream_queue_high &&
        session->queued_bytes + session->host->unsent_bytes <= limits->connection_queue_max) {
        return true;
    }
    if (call->method->on_writable != NULL && list_is_empty(&call->in_blocked)) {
        list_append(&session->blocked, &call->in_blocked);
    }
    return false;
}

bool grpc_call_has_room(const struct grpc_call *call) {
    const struct http2_session *session = call->session;
    const struct net_limits *limits = &session->shared->limits;
    size_t total = session->shared->stats.queued_bytes;
    /* The fuller it is, the less a single peer may pile up; who takes its answers has a queue that
     * is nearly empty and goes on being served. */
    size_t share = 0;
    if (total < limits->queue_total_soft) {
        share = (limits->queue_total_soft - total) / QUEUE_SHARES;
    }
    if (share < limits->hoard_size) {
        share = limits->hoard_size;
    }
    if (share > limits->connection_queue_abort / 2) {
        share = limits->connection_queue_abort / 2;
    }
    return session->queued_bytes + session->host->unsent_bytes <= share &&
           total <= limits->queue_total_max;
}

size_t grpc_call_queued_bytes(const struct grpc_call *call) {
    return call->out.size - call->out_sent;
}

void grpc_call_drop_sent(struct grpc_call *call, size_t size) {
    assert(size <= grpc_call_queued_bytes(call));
    call->out_sent += size;
    call->session->queued_bytes -= size;
    call->session->host->answer_bytes += size;
    call->session->shared->stats.queued_bytes -= size;
    if (call->out_sent == call->out.size) {
        call->out_sent = 0;
        shrink(&call->out, IDLE_CAPACITY_MAX);
    }
}

void grpc_call_finish(struct grpc_call *call, enum grpc_code code, const char *text) {
    if (is_over(call)) {
        return;
    }
    call->is_finished = true;
    call->code = (uint8_t)code;
    if (text != NULL && text[0] != 0) {
        call->text = strndup(text, GRPC_TEXT_SIZE_MAX);
        if (call->text == NULL) {
            abort();
        }
    }
    net_timers_disarm(call->session->shared->timers, &call->deadline);
    if (!call->is_response_started) {
        http2_session_answer_status(call->session, call);
    } else if (call->is_deferred) {
        http2_session_resume(call->session, call);
    }
    close_later(call);
}
