/*
 * The server side of one HTTP/2 connection on nghttp2, sans I/O. It owns its exchanges and bounds
 * them: concurrent streams, header bytes, queued bytes, and how fast a peer may make us work for
 * nothing.
 */
#ifndef LEASED_NET_HTTP2_SESSION_H
#define LEASED_NET_HTTP2_SESSION_H

#include "net/http2_guard.h"
#include "net/http2_scanner.h"
#include "net/http2_streams.h"
#include "net/http_exchange.h"

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stddef.h>

struct http2_request;

/* Callbacks and options, the same for every session. */
struct http2_library;
struct http2_library *http2_library_create(void);
void http2_library_destroy(struct http2_library *library);

struct http2_session {
    struct http_session http;
    nghttp2_session *nghttp2;
    struct http2_request *request; /* the header block being received; NULL: none */
    struct buffer *sink;           /* during produce: where output goes */
    size_t sink_size_max;
    struct http2_guard guard;
    struct http2_scanner scanner;
    struct http2_streams streams;
    int32_t known_id; /* of the stream that was looked up last; 0: none */
    struct http_exchange *known;
    bool is_input_ended; /* the peer sends no more */
};

static inline struct http2_session *http2_session_of(struct http_exchange *exchange) {
    return list_entry(exchange->session, struct http2_session, http);
}

/* The exchange of a stream has been made. */
static inline void http2_session_know(struct http2_session *session, int32_t stream_id,
                                      struct http_exchange *exchange) {
    session->known_id = stream_id;
    session->known = exchange;
}

/* Ends the connection politely: GOAWAY with this code, then close. */
void http2_session_terminate(struct http2_session *session, uint32_t error_code,
                             const char *reason);

/* The result of a submission: fails the session when memory is out, else wakes the connection. */
void http2_session_check_submitted(struct http2_session *session, int result);

/* Where an exchange that is prompt or bulky stands among the others: http2_priority.c. */
void http2_priority_apply(struct http_exchange *exchange);

/* The answers, in http2_response.c. */
void http2_response_start(struct http_exchange *exchange, const struct http_answer *answer);
void http2_response_want_body(struct http_exchange *exchange);
/* For nghttp2: a DATA frame, straight from the queue of its exchange. */
int http2_response_send_data(nghttp2_session *nghttp2, nghttp2_frame *frame,
                             const uint8_t *frame_header, size_t length,
                             nghttp2_data_source *source, void *user_data);

#endif
