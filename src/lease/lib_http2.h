/*
 * The client's half of HTTP/2 for gRPC calls, over nghttp2 and without sockets: bytes of the server
 * go in, bytes for the server come out. It writes into the calls what came for them and tells
 * nobody: the owner looks at its calls after each lib_http2_receive(). No byte of the server is
 * trusted.
 */
#ifndef LEASED_LEASE_LIB_HTTP2_H
#define LEASED_LEASE_LIB_HTTP2_H

#include "lease/lib_call.h"

struct lib_http2;

/* `authority` is copied. NULL: out of memory. */
struct lib_http2 *lib_http2_create(const char *authority, bool is_tls);
/* The calls are the owner's and stay. Accepts NULL. */
void lib_http2_destroy(struct lib_http2 *http2);

/* NULL, or why the connection cannot go on. */
const char *lib_http2_receive(struct lib_http2 *http2, struct bytes bytes);
/* Appends what is to be sent; false: the connection cannot go on. */
bool lib_http2_fill(struct lib_http2 *http2, struct buffer *out);

/* True: the server takes another call now. */
bool lib_http2_has_room(const struct lib_http2 *http2);
/* The server takes no new calls on this connection. */
bool lib_http2_is_leaving(const struct lib_http2 *http2);

/* Opens the stream of a call, with a token of authentication if it is not NULL. False: it cannot.
 * The call outlives its stream, or is given to lib_http2_forget(). */
bool lib_http2_open(struct lib_http2 *http2, struct lib_call *call, const char *token);
/* The call has more to send. */
void lib_http2_resume(struct lib_http2 *http2, struct lib_call *call);
/* Resets its stream if it is open, and never touches the call again. */
void lib_http2_forget(struct lib_http2 *http2, struct lib_call *call);

#endif
