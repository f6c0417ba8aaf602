/*
 * The server side of one HTTP/2 connection on nghttp2, sans I/O. It owns its calls and bounds them:
 * concurrent streams, header bytes, queued bytes, and how fast a peer may make us work for nothing.
 */
#ifndef LEASED_NET_HTTP2_SESSION_H
#define LEASED_NET_HTTP2_SESSION_H

#include "base/list.h"
#include "net/http2_guard.h"
#include "net/protocol.h"

#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stddef.h>

struct grpc_call;
struct http2_request;

/* Callbacks and options, the same for every session. */
struct http2_library;
struct http2_library *http2_library_create(void);
void http2_library_destroy(struct http2_library *library);

struct http2_session {
    nghttp2_session *nghttp2;
    struct protocol_host *host;
    struct net_shared *shared;
    struct list calls;
    struct list closing;
    struct list blocked;
    size_t n_calls;                /* with an open stream */
    size_t queued_bytes;           /* of all calls, not yet produced */
    struct http2_request *request; /* the header block being received; NULL: none */
    struct buffer *sink;           /* during produce: where output goes */
    size_t sink_size_max;
    struct http2_guard guard;
    enum session_state state;
    bool is_draining;
    bool is_closed; /* close has begun: nothing reaches nghttp2 any more */
};

/* The session cannot go on. The connection is closed at the end of the turn, with a log line. */
void http2_session_fail(struct http2_session *session, const char *reason);

/* Ends the connection politely: GOAWAY with this code, then close. */
void http2_session_terminate(struct http2_session *session, uint32_t error_code,
                             const char *reason);

/* Starts the answer: headers, and the call's queue as the body. */
void http2_session_start_response(struct http2_session *session, struct grpc_call *call);
/* Answers with trailers only: nothing was sent before. */
void http2_session_answer_status(struct http2_session *session, struct grpc_call *call);
/* Answers with an HTTP status, a body already queued on the call, and its type. */
void http2_session_answer_page(struct http2_session *session, struct grpc_call *call,
                               unsigned status, const char *content_type, bool with_body);
/* More is queued, or the call finished, after the body was deferred. */
void http2_session_resume(struct http2_session *session, struct grpc_call *call);
/* Cuts the stream off. */
void http2_session_reset(struct http2_session *session, struct grpc_call *call,
                         uint32_t error_code);

/* For the callbacks of nghttp2. */
int http2_session_send_data(nghttp2_session *nghttp2, nghttp2_frame *frame,
                            const uint8_t *frame_header, size_t length, nghttp2_data_source *source,
                            void *user_data);

#endif
