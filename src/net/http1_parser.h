/*
 * HTTP/1 requests out of a stream of bytes cut anywhere (RFC 9112), sans I/O. Strict on purpose:
 * whatever two readers could understand differently (two lengths, a length beside a transfer
 * encoding, folded headers, bare line feeds, spaces before a colon) is an error and never guessed
 * at, because that is how requests are smuggled past a proxy (RFC 9112, 11.2).
 */
#ifndef LEASED_NET_HTTP1_PARSER_H
#define LEASED_NET_HTTP1_PARSER_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "net/http_request.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum http1_event {
    HTTP1_MORE,  /* the input is used up */
    HTTP1_HEAD,  /* method, target and headers are in `request` */
    HTTP1_BODY,  /* a piece of the body */
    HTTP1_END,   /* the request is complete; also for one without a body */
    HTTP1_FAILED /* the stream cannot be followed any more; `request.refusal` says why */
};

enum http1_state {
    HTTP1_START,
    HTTP1_FIELDS,
    HTTP1_LENGTH_BODY,
    HTTP1_CHUNK_SIZE,
    HTTP1_CHUNK_DATA,
    HTTP1_CHUNK_END,
    HTTP1_TRAILERS,
    HTTP1_COMPLETE, /* END is due */
    HTTP1_BROKEN
};

struct http1_parser {
    enum http1_state state;
    struct buffer line; /* what came of the current line */
    size_t header_size_max;
    size_t header_size;
    uint64_t left; /* of the body or of the chunk */
    unsigned n_empty_lines;
    unsigned minor_version;
    bool has_host;
    bool has_target_host; /* the target names the host, so that the header does not count */
    bool is_chunked;
    bool is_line_used; /* `line` was handed out and goes with the next one */
    bool says_close;
    bool says_keep_alive;
    struct http_request request;
};

void http1_parser_init(struct http1_parser *parser, size_t header_size_max);
void http1_parser_clear(struct http1_parser *parser);

/* Takes bytes off `input` until something happened. `out_body` is a view of the input. */
enum http1_event http1_parser_next(struct http1_parser *parser, struct bytes *input,
                                   struct bytes *out_body);

/* A request has begun and its headers are not complete. */
static inline bool http1_parser_is_in_head(const struct http1_parser *parser) {
    return parser->state == HTTP1_FIELDS ||
           (parser->state == HTTP1_START && parser->line.size > 0 && !parser->is_line_used);
}

/* The headers were complete, and the end is still to come. */
static inline bool http1_parser_is_in_body(const struct http1_parser *parser) {
    return parser->state > HTTP1_FIELDS && parser->state < HTTP1_BROKEN;
}

/* Whether the client wants to go on after this request. */
bool http1_parser_keeps_alive(const struct http1_parser *parser);

#endif
