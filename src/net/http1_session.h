/*
 * The server side of one HTTP/1 connection, sans I/O. One request is served at a time: a client
 * that pipelines gets its answers in the order of its requests, each seeing what the ones before
 * did (RFC 9112, 9.3.2), and what it sends ahead is held back within bounds.
 */
#ifndef LEASED_NET_HTTP1_SESSION_H
#define LEASED_NET_HTTP1_SESSION_H

#include "net/http1_parser.h"
#include "net/http_exchange.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    /* Answers that may wait for the socket before the next request is looked at. */
    HTTP1_PIPELINED_MAX = 16
};

struct http1_session {
    struct http_session http;
    struct http1_parser parser;
    struct http_exchange *current; /* of the last request; NULL: none, or its answer is sent */
    struct buffer held;            /* input behind the current request */
    size_t held_taken;
    uint64_t dropped_bytes;         /* of a body whose exchange is over */
    struct net_timer request_timer; /* armed while the headers of a request come in */
    bool is_continue_due;           /* the client waits for 100 Continue before it sends the body */
    bool is_last;                   /* the connection is closed behind the current answer */
    bool is_input_ended;
    bool lingers; /* the client may still be sending behind the last answer */
};

/* The answers, in http1_response.c. */
void http1_response_start(struct http_exchange *exchange, const struct http_answer *answer);
void http1_response_want_body(struct http_exchange *exchange);
/* Appends about `size_max` bytes of answers. */
void http1_response_produce(struct http1_session *session, size_t size_max, struct buffer *out);

#endif
