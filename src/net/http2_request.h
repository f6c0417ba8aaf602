/*
 * The header block of one HTTP/2 request while it is received, and what becomes of it: a gRPC call,
 * an exchange of a route, or a refusal. HTTP/2 lets only one header block be open at a time, so a
 * session holds at most one of these.
 *
 * The rules of RFC 9113, section 8 are checked here and not by nghttp2, which would refuse the
 * ":authority" that clients of etcd send (docs/decisions/0027-rules-of-http-of-our-own.md).
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
/* Frees what waits to be used again. */
void http2_request_drop_free(struct net_shared *shared);

/* One field, in the order of arrival. False: the request is malformed (RFC 9113, 8.1.1), and its
 * stream must be reset. */
bool http2_request_add(struct http2_request *request, const struct http_session *session,
                       struct bytes name, struct bytes value);

/* One field behind the body. False: malformed. */
bool http2_request_check_trailer(struct bytes name, struct bytes value);

/* Bytes of headers that would be kept. */
size_t http2_request_size(const struct http2_request *request);
/* All fields came: opens the call or the exchange, or answers. `is_complete`: no body follows.
 * False: malformed. */
bool http2_request_start(struct http2_request *request, struct http2_session *session,
                         int32_t stream_id, bool is_complete);

#endif
