/*
 * The header block of one HTTP/2 request while it is received, and what becomes of it: a call of a
 * door, a page, or a refusal. HTTP/2 lets only one header block be open at a time, so a session
 * holds at most one of these.
 */
#ifndef LEASED_NET_HTTP2_REQUEST_H
#define LEASED_NET_HTTP2_REQUEST_H

#include "base/bytes.h"
#include "net/http2_session.h"

#include <stdbool.h>
#include <stdint.h>

struct http2_request;

/* NULL: out of memory. One that was given back is used again. */
struct http2_request *http2_request_take(struct net_shared *shared);
/* Accepts NULL. */
void http2_request_give_back(struct http2_request *request, struct net_shared *shared);
/* Gives back to the heap what waits to be used again. */
void http2_request_drop_free(struct net_shared *shared);

/* One header, in whatever order; pseudo-headers may be missing or repeated. False: the headers are
 * larger than the limit or not fit to be headers, and the stream must be refused. */
bool http2_request_add(struct http2_request *request, const struct net_shared *shared,
                       struct bytes name, struct bytes value);

/* All headers came: opens the call, or answers. */
void http2_request_start(struct http2_request *request, struct http2_session *session,
                         int32_t stream_id);

#endif
