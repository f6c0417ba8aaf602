/*
 * HTTP as a door sees it: one exchange of a request and an answer, the same over HTTP/1.1 and
 * HTTP/2. A route names a method and a pattern; its functions get the request, its body whole or
 * in pieces, and answer at once, later (a long poll), or with a stream. Framing, pipelining,
 * windows, keep-alive and time limits are done below this line. Everything happens on the loop's
 * thread and nothing blocks. gRPC calls (grpc.h) stand on the same exchange.
 */
#ifndef LEASED_NET_HTTP_H
#define LEASED_NET_HTTP_H

#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct caller; /* core/caller.h; net keeps it without looking into it */
struct http_exchange;
struct tls_identity; /* tls/tls_identity.h */

/* The time limit of a route that names none. */
#define HTTP_TIME_MAX_MS_DEFAULT ((uint64_t)30 * 1000)
/* For answers that go on as long as the client reads them. */
#define HTTP_NO_TIME_LIMIT UINT64_MAX

enum {
    /* Path and query of one request, as sent; more is 414. */
    HTTP_TARGET_SIZE_MAX = 8192,
    /* Segments of one pattern are fewer. */
    HTTP_SEGMENTS_MAX = 32,
    /* Parameters of one pattern. */
    HTTP_PARAMETERS_MAX = 8,
    /* Of a client's address as text. */
    HTTP_ADDRESS_SIZE = 64
};

struct http_field {
    struct bytes name; /* lower case */
    struct bytes value;
    bool is_constant; /* both outlive the server, so that they need not be copied */
};

#define HTTP_FIELD(field_name, field_value)                                                        \
    ((struct http_field){.name = {(const uint8_t *)(field_name), sizeof(field_name) - 1},          \
                         .value = {(const uint8_t *)(field_value), sizeof(field_value) - 1},       \
                         .is_constant = true})

/*
 * One route, constant. A pattern is a path whose segments are texts or parameters: "{id}" is one
 * segment that is not empty, "{key...}" is the rest of the path, empty or with slashes, and must
 * come last. Where several patterns match, a text is preferred to a parameter, segment by segment.
 * Texts and parameters are compared and handed out percent-decoded.
 *
 * A GET route also serves HEAD: the answer is made in the same way and its body is dropped.
 */
struct http_route {
    const char *method;     /* "GET"; NULL: any */
    const char *pattern;    /* "/v1/kv/{key...}", "/eureka/apps/{app}/{id}" */
    size_t body_max;        /* larger bodies are 413; 0: no body is accepted */
    const char *body_type;  /* a body of another content type is 415; NULL: any */
    uint64_t time_max_ms;   /* from the request's headers to the end of the answer; 0: default */
    bool is_streaming_body; /* on_body is called as bytes come, else once with all of them */
    bool is_public;         /* served without authentication */
    bool takes_query_token; /* the caller's token may be in the query: ?token= */

    /* The headers are here. May be NULL, if on_body is not. */
    void (*on_request)(struct http_exchange *exchange);
    /* The body, or a piece of it, borrowed for the call. The last call has `is_last`, also for a
     * request without a body. Not called once the answer is finished. May be NULL. */
    void (*on_body)(struct http_exchange *exchange, struct bytes bytes, bool is_last);
    /* http_is_writable() was false, and the queue has drained below half of the limit. */
    void (*on_writable)(struct http_exchange *exchange);
    /* The exchange is over for whatever reason: answered, given up by the client, out of time,
     * connection lost. Exactly once, last, if on_request or on_body was called. The exchange
     * must not be touched afterwards. Never called from inside the functions below. */
    void (*on_close)(struct http_exchange *exchange);
    /* The client has closed its side of the connection behind a whole request: it may be gone, or
     * wait for the answer. NULL: it is answered. */
    void (*on_input_end)(struct http_exchange *exchange);
    /* The server stops: an answer without end should be ended now. NULL: it goes on for as long as
     * the server waits for it. */
    void (*on_drain)(struct http_exchange *exchange);
    /* The caller could not be authenticated: answers in the words of this protocol. NULL: 401. */
    void (*on_refused)(struct http_exchange *exchange);
};

/*
 * What a door wants of every request to the routes of a scope, whichever door serves them: a check
 * before the route is looked for, and headers of every answer. Constant.
 */
enum { HTTP_FILTER_FIELDS_MAX = 4 };
struct http_filter {
    /* 0: the request goes on. Otherwise it is answered with this status and text, which is
     * constant. The exchange has its method and headers. */
    unsigned (*check)(void *context, const struct http_exchange *exchange, const char **out_text);
    /* At most HTTP_FILTER_FIELDS_MAX; returns how many. Values live as long as the exchange. */
    size_t (*fields)(void *context, const struct http_exchange *exchange, struct http_field *out);
};

/* --- the request --------------------------------------------------------------------------- */

/* What was given to net_scope_add_routes(): the door. */
void *http_context(const struct http_exchange *exchange);
/* The door's own state of this exchange. */
void http_set_data(struct http_exchange *exchange, void *data);
void *http_data(const struct http_exchange *exchange);
const struct http_route *http_route_of(const struct http_exchange *exchange);
/* The caller, as the server's authenticator says (net_server.h); without one, and on public routes,
 * all bytes are zero. */
const struct caller *http_caller(const struct http_exchange *exchange);

/* The names in the client's certificate, which was verified; NULL: it showed none, or does not
 * speak TLS. */
const struct tls_identity *http_identity(const struct http_exchange *exchange);
/* TLS is spoken on the connection. */
bool http_is_encrypted(const struct http_exchange *exchange);
/* The client's address for logs: "127.0.0.1:52100", "[::1]:52100" or "unix". */
void http_address(const struct http_exchange *exchange, char out_text[HTTP_ADDRESS_SIZE]);

/* Views of the request are valid until the exchange is over. */
struct bytes http_method(const struct http_exchange *exchange);
/* As sent, without the query. */
struct bytes http_path(const struct http_exchange *exchange);
/* A parameter of the pattern; false: the pattern has none of this name. */
bool http_parameter(const struct http_exchange *exchange, const char *name,
                    struct bytes *out_value);
/* The first value of this name in the query, decoded ("+" is a space); "?name" has an empty one. */
bool http_query(const struct http_exchange *exchange, const char *name, struct bytes *out_value);
/* All of the query, decoded, one a call; `*position` starts at 0. False: there is no more. */
bool http_next_query(const struct http_exchange *exchange, size_t *position,
                     struct http_field *out_field);
/* The first header of this name, in lower case. The authority of HTTP/2 is found as "host". */
bool http_header(const struct http_exchange *exchange, const char *name, struct bytes *out_value);
/* All headers, one a call; `*position` starts at 0. False: there is no more. */
bool http_next_header(const struct http_exchange *exchange, size_t *position,
                      struct http_field *out_field);

/* --- the answer ---------------------------------------------------------------------------- */

/* A stream: status and headers once, then any number of sends, then finish. The length need not be
 * known: content-length must not be among the fields. Everything is copied; nothing fails; all of
 * it is harmless when the exchange is over. Characters that could end a header's line become
 * spaces. */
void http_start(struct http_exchange *exchange, unsigned status, const struct http_field *fields,
                size_t n_fields);
void http_send(struct http_exchange *exchange, struct bytes bytes);
/* False when more than the high-water mark waits to be sent on this exchange or its connection, and
 * when the exchange is over, so that `while writable, send` always ends. on_writable follows. */
bool http_is_writable(struct http_exchange *exchange);
/* False when so much waits to be sent, to this peer or to all together, that an answer which may be
 * large should be refused instead of being made. */
bool http_has_room(const struct http_exchange *exchange);
/* The same for an answer that anybody may ask for at any time: once much waits for all together, a
 * peer gets one when it has taken the answers before. */
bool http_has_spare_room(const struct http_exchange *exchange);
/* Counts memory that the door is about to hold for this exchange, such as watches. False: nothing
 * was counted, because this connection holds more than its share of what all may hold. */
bool http_hold(struct http_exchange *exchange, size_t size);
void http_release(struct http_exchange *exchange, size_t size);
void http_finish(struct http_exchange *exchange);
/* Cuts an answer off that cannot be completed, in a way that the client notices. */
void http_abort(struct http_exchange *exchange);

/* A whole answer. */
void http_reply(struct http_exchange *exchange, unsigned status, const char *content_type,
                struct bytes body);
/* The same with any headers; content-length is added. */
void http_reply_fields(struct http_exchange *exchange, unsigned status,
                       const struct http_field *fields, size_t n_fields, struct bytes body);

/* A long poll: fires once unless the exchange ends before; setting it again moves it. The route's
 * time limit must be longer. When the server stops, armed timers fire at once. */
void http_set_timer(struct http_exchange *exchange, uint64_t after_ms,
                    void (*fired)(struct http_exchange *exchange));

#endif
