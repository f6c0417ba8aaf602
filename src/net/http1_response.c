/* The answers of HTTP/1: the head goes in front of the exchange's queue, the body is cut into
 * chunks as it is produced. */
#include "net/http1_session.h"

#include "net/http_status.h"
#include "net/route_exchange.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { CHUNK_FRAME_MAX = 32, NUMBER_TEXT_SIZE = 64 };

static struct http1_session *session_of(struct http_exchange *exchange) {
    return list_entry(exchange->session, struct http1_session, http);
}

/* --- the head ------------------------------------------------------------------------------ */

static void append_text(struct buffer *out, const char *text) {
    buffer_append(out, text, strlen(text));
}

/* "content-type" as "Content-Type", which is how people and their scripts expect it. */
static void append_name(struct buffer *out, struct bytes name) {
    uint8_t *to = buffer_reserve(out, name.size);
    bool is_first = true;
    for (size_t i = 0; i < name.size; i++) {
        uint8_t character = name.data[i];
        to[i] = is_first && character >= 'a' && character <= 'z' ? (uint8_t)(character & ~0x20)
                                                                 : character;
        is_first = character == '-';
    }
    out->size += name.size;
}

/* Whether the connection can go on behind this answer. */
static bool keeps_alive(const struct http1_session *session, const struct http_answer *answer) {
    const struct http1_parser *parser = &session->parser;
    if (session->is_last || session->http.is_draining || !http1_parser_keeps_alive(parser) ||
        answer->status == 408) {
        return false;
    }
    /* A client that waits for 100 Continue may or may not send the body now. A small rest of a body
     * is read and dropped; a large one, or one of unknown size, is not worth it. */
    bool is_rest_small =
        parser->state == HTTP1_LENGTH_BODY && parser->left <= HTTP_DROPPED_BODY_MAX;
    return !session->is_continue_due &&
           (parser->state == HTTP1_START || parser->state == HTTP1_COMPLETE || is_rest_small);
}

static void append_framing(struct http_exchange *exchange, const struct http_answer *answer) {
    struct http1_session *session = session_of(exchange);
    struct buffer *out = &exchange->out;
    char text[NUMBER_TEXT_SIZE];
    if (answer->length != HTTP_LENGTH_UNKNOWN) {
        snprintf(text, sizeof text, "Content-Length: %llu\r\n", (unsigned long long)answer->length);
        append_text(out, text);
    } else if (answer->has_body && session->parser.minor_version > 0) {
        exchange->is_chunked = true;
        append_text(out, "Transfer-Encoding: chunked\r\n");
    } else if (answer->has_body) {
        session->is_last = true; /* the end of the connection is the end of the body */
    }
}

static void count_head(struct http_exchange *exchange, size_t size) {
    exchange->head_left += (uint32_t)size;
    exchange->session->queued_bytes += size;
    exchange->session->shared->stats.queued_bytes += size;
    exchange->session->host->wake(exchange->session->host);
}

void http1_response_start(struct http_exchange *exchange, const struct http_answer *answer) {
    struct http1_session *session = session_of(exchange);
    struct buffer *out = &exchange->out;
    size_t before = out->size;
    char text[NUMBER_TEXT_SIZE];
    assert(http_exchange_queued_bytes(exchange) == exchange->head_left);
    if (!keeps_alive(session, answer)) {
        bool is_read =
            session->parser.state == HTTP1_START || session->parser.state == HTTP1_COMPLETE;
        session->is_last = true;
        session->lingers = session->lingers || !is_read;
    }
    snprintf(text, sizeof text, "HTTP/1.1 %u %s\r\n", answer->status,
             http_status_reason(answer->status));
    append_text(out, text);
    for (size_t i = 0; i < answer->n_fields; i++) {
        append_name(out, answer->fields[i].name);
        append_text(out, ": ");
        buffer_append(out, answer->fields[i].value.data, answer->fields[i].value.size);
        append_text(out, "\r\n");
    }
    append_framing(exchange, answer);
    if (session->is_last) {
        append_text(out, "Connection: close\r\n");
    } else if (session->parser.minor_version == 0) {
        append_text(out, "Connection: keep-alive\r\n");
    }
    append_text(out, "\r\n");
    count_head(exchange, out->size - before);
}

void http1_response_want_body(struct http_exchange *exchange) {
    static const char interim[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct http1_session *session = session_of(exchange);
    if (!session->is_continue_due) {
        return; /* the body is coming already */
    }
    session->is_continue_due = false;
    append_text(&exchange->out, interim);
    count_head(exchange, sizeof interim - 1);
}

/* --- output -------------------------------------------------------------------------------- */

static void produce_part(struct http_exchange *exchange, size_t size, struct buffer *out) {
    buffer_append(out, exchange->out.data + exchange->out_sent, size);
    http_exchange_drop_sent(exchange, size);
}

static void produce_body(struct http_exchange *exchange, size_t size, struct buffer *out) {
    if (!exchange->is_chunked) {
        produce_part(exchange, size, out);
        return;
    }
    char text[CHUNK_FRAME_MAX];
    snprintf(text, sizeof text, "%zx\r\n", size);
    append_text(out, text);
    produce_part(exchange, size, out);
    append_text(out, "\r\n");
}

static size_t lesser(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Appends what there is of one answer. False: it is not complete. */
static bool produce_exchange(struct http_exchange *exchange, size_t end, struct buffer *out) {
    if (exchange->head_left > 0 && out->size < end) {
        size_t size = lesser(exchange->head_left, end - out->size);
        exchange->head_left -= (uint32_t)size;
        produce_part(exchange, size, out);
    }
    if (exchange->head_left == 0 && http_exchange_queued_bytes(exchange) > 0 && out->size < end) {
        produce_body(exchange, lesser(http_exchange_queued_bytes(exchange), end - out->size), out);
    }
    if (http_exchange_queued_bytes(exchange) > 0) {
        return false;
    }
    exchange->is_deferred = !exchange->is_finished;
    if (exchange->is_finished && exchange->is_chunked) {
        append_text(out, "0\r\n\r\n");
    }
    return exchange->is_finished;
}

static struct http_exchange *first_unsent(struct http1_session *session) {
    for (struct list *node = session->http.exchanges.next; node != &session->http.exchanges;
         node = node->next) {
        struct http_exchange *exchange = list_entry(node, struct http_exchange, in_session);
        if (!exchange->is_wire_closed) {
            return exchange;
        }
    }
    return NULL;
}

void http1_response_produce(struct http1_session *session, size_t size_max, struct buffer *out) {
    size_t end = out->size + size_max;
    struct http_exchange *exchange = NULL;
    while (out->size < end && (exchange = first_unsent(session)) != NULL) {
        if (exchange->is_cut_off) {
            /* Without the end that was announced, the client sees that something is missing. */
            session->is_last = true;
            session->http.state = SESSION_ENDING;
            return;
        }
        if (!produce_exchange(exchange, end, out)) {
            return;
        }
        http_exchange_on_wire_close(exchange);
    }
}
