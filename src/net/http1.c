#include "net/http1.h"

#include "net/http1_parser.h"
#include "net/protocol.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_SIZE_MAX = 255, IDLE_CAPACITY_MAX = 4096 };

struct http1_session {
    struct http1_parser parser;
    struct protocol_host *host;
    struct net_shared *shared;
    struct buffer out;
    size_t out_taken;
    size_t header_size; /* of the request being received */
    size_t body_size;
    unsigned n_waiting; /* answers since the last byte was taken */
    size_t path_size;
    char path[PATH_SIZE_MAX + 1];
    enum session_state state;
    bool is_path_too_long;
    bool is_in_request;
    bool is_draining;
};

static const char *reason_of(unsigned status) {
    switch (status) {
    case 200:
        return "OK";
    case 400:
        return "Bad Request";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 413:
        return "Content Too Large";
    case 414:
        return "URI Too Long";
    case 431:
        return "Request Header Fields Too Large";
    case 503:
        return "Service Unavailable";
    default:
        return status < 400 ? "Success" : "Error";
    }
}

static void answer(struct http1_session *session, unsigned status, const char *content_type,
                   struct bytes body, bool with_body, bool keeps_alive) {
    char head[512];
    int size = snprintf(
        head, sizeof head, "HTTP/1.1 %u %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s%s\r\n",
        status, reason_of(status), content_type, body.size,
        status == 405 ? "Allow: GET, HEAD\r\n" : "", keeps_alive ? "" : "Connection: close\r\n");
    assert(size > 0);
    assert((size_t)size < sizeof head);
    buffer_append(&session->out, head, (size_t)size);
    if (with_body) {
        buffer_append(&session->out, body.data, body.size);
    }
    session->n_waiting++;
    if (!keeps_alive) {
        session->state = SESSION_ENDING;
    } else if (session->state == SESSION_OPENING) {
        session->state = SESSION_OPEN;
    }
    session->host->wake(session->host);
}

static void answer_text(struct http1_session *session, unsigned status, const char *text,
                        bool with_body, bool keeps_alive) {
    answer(session, status, "text/plain; charset=utf-8", bytes_from_text(text), with_body,
           keeps_alive);
}

/* An answer to what cannot be followed any further. */
static int give_up(struct http1_session *session, unsigned status, const char *text) {
    session->shared->stats.protocol_errors++;
    answer_text(session, status, text, true, false);
    return -1;
}

static int on_message_begin(struct http1_parser *parser) {
    struct http1_session *session = parser->data;
    session->header_size = 0;
    session->body_size = 0;
    session->path_size = 0;
    session->is_path_too_long = false;
    session->is_in_request = true;
    return 0;
}

static int count_header(struct http1_session *session, size_t size) {
    session->header_size += size;
    if (session->header_size > session->shared->limits.header_size_max) {
        return give_up(session, 431, "the request's headers are too large\n");
    }
    return 0;
}

static int on_url(struct http1_parser *parser, const char *data, size_t size) {
    struct http1_session *session = parser->data;
    size_t room = PATH_SIZE_MAX - session->path_size;
    if (size > room) {
        session->is_path_too_long = true;
        size_t kept = room;
        memcpy(session->path + session->path_size, data, kept);
        session->path_size += kept;
    } else {
        memcpy(session->path + session->path_size, data, size);
        session->path_size += size;
    }
    return count_header(session, size);
}

static int on_header_part(struct http1_parser *parser, const char *data, size_t size) {
    (void)data;
    /* Each part costs something even when it is empty. */
    return count_header(parser->data, size + 1);
}

static int on_body(struct http1_parser *parser, const char *data, size_t size) {
    (void)data;
    struct http1_session *session = parser->data;
    session->body_size += size;
    if (session->body_size > HTTP1_BODY_SIZE_MAX) {
        return give_up(session, 413, "no page takes a body of this size\n");
    }
    return 0;
}

static void serve(struct http1_session *session, bool keeps_alive) {
    unsigned method = session->parser.method;
    bool is_head = method == HTTP_HEAD;
    const struct page_route *route =
        session->is_path_too_long
            ? NULL
            : route_table_find_page(&session->shared->routes,
                                    bytes_of(session->path, session->path_size));
    if (session->is_path_too_long) {
        answer_text(session, 414, "the path is too long\n", !is_head, keeps_alive);
    } else if (route == NULL) {
        answer_text(session, 404, "404 page not found\n", !is_head, keeps_alive);
    } else if (method != HTTP_GET && !is_head) {
        answer_text(session, 405, "method not allowed\n", true, keeps_alive);
    } else {
        struct buffer body;
        buffer_init(&body);
        const char *content_type = "text/plain; charset=utf-8";
        unsigned status = route->page(route->context, &body, &content_type);
        answer(session, status, content_type, bytes_of(body.data, body.size), !is_head,
               keeps_alive);
        buffer_clear(&body);
    }
}

static int on_message_complete(struct http1_parser *parser) {
    struct http1_session *session = parser->data;
    session->is_in_request = false;
    /* An upgrade is not taken: the answer is plain HTTP/1.1 and the last one. */
    bool keeps_alive = http1_parser_keeps_alive(parser) && !parser->upgrade &&
                       !session->is_draining && session->n_waiting + 1 < HTTP1_PIPELINED_MAX;
    serve(session, keeps_alive);
    return keeps_alive ? 0 : -1;
}

static const struct http1_parser_settings parser_settings = {
    .on_message_begin = on_message_begin,
    .on_url = on_url,
    .on_header_field = on_header_part,
    .on_header_value = on_header_part,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

static void *http1_open(struct protocol_host *host) {
    struct http1_session *session = calloc(1, sizeof *session);
    if (session == NULL) {
        return NULL;
    }
    session->host = host;
    session->shared = host->shared;
    http1_parser_start(&session->parser, &parser_settings);
    session->parser.data = session;
    return session;
}

static void http1_on_bytes(void *opaque, struct bytes bytes) {
    struct http1_session *session = opaque;
    if (session->state >= SESSION_ENDING || bytes.size == 0) {
        return;
    }
    bool is_fine =
        http1_parser_feed(&session->parser, &parser_settings, (const char *)bytes.data, bytes.size);
    if (!is_fine && session->state < SESSION_ENDING) {
        give_up(session, 400, "this is not HTTP/1.1\n");
    }
}

static void http1_produce(void *opaque, size_t size_max, struct buffer *out) {
    struct http1_session *session = opaque;
    size_t left = session->out.size - session->out_taken;
    size_t size = left < size_max ? left : size_max;
    if (size == 0) {
        return; /* there may be no buffer to point into */
    }
    buffer_append(out, session->out.data + session->out_taken, size);
    session->out_taken += size;
    session->host->answer_bytes += size;
    if (session->out_taken == session->out.size) {
        session->out.size = 0;
        session->out_taken = 0;
        session->n_waiting = 0;
        if (session->out.capacity > IDLE_CAPACITY_MAX) {
            buffer_clear(&session->out);
        }
    }
}

static void http1_settle(void *opaque) {
    (void)opaque;
}

static enum session_state http1_state(const void *opaque) {
    const struct http1_session *session = opaque;
    return session->state;
}

static size_t http1_queued_bytes(const void *opaque) {
    const struct http1_session *session = opaque;
    return session->out.size - session->out_taken;
}

static bool http1_is_idle(const void *opaque) {
    const struct http1_session *session = opaque;
    return !session->is_in_request && http1_queued_bytes(session) == 0;
}

static void http1_drain(void *opaque) {
    struct http1_session *session = opaque;
    session->is_draining = true;
    if (http1_is_idle(session)) {
        session->state = SESSION_ENDING;
        session->host->wake(session->host);
    }
}

static void http1_close(void *opaque) {
    struct http1_session *session = opaque;
    buffer_clear(&session->out);
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
    .ping = NULL,
    .drain = http1_drain,
    .close = http1_close,
};
