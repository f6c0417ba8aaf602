/*
 * The client side of the process: listeners, connections, and which protocol each speaks. The first
 * bytes of a connection identify its protocol (HTTP/2 preface, HTTP/1 method, raw protocols), so
 * one port serves all. It owns every connection and bounds what each may hold: frames, streams,
 * headers, queued bytes, idle time before the first request.
 */
#ifndef LEASED_NET_NET_SERVER_H
#define LEASED_NET_NET_SERVER_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/status.h"
#include "net/grpc.h"
#include "net/http.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct datagram_handler;
struct net_scope;
struct net_server;
struct protocol;
struct raw_protocol;
struct tls_context;
struct tls_identity;

enum { NET_ADDRESS_SIZE = HTTP_ADDRESS_SIZE }; /* of a client's address as text */

struct net_limits {
    size_t connections_max;         /* further ones are refused, see refusal.h */
    size_t client_connections_max;  /* the same for those of one address; 0: no bound of its own */
    size_t streams_max;             /* concurrent, per connection */
    size_t bridged_max;             /* calls of grpc_bridge.h, of all; others wait; 0: no bound */
    size_t message_size_max;        /* a gRPC message from a client */
    size_t header_size_max;         /* all request headers of one request */
    size_t stream_queue_high;       /* bytes queued on a stream: not writable above */
    size_t connection_queue_max;    /* bytes queued on a connection: reading stops above */
    size_t connection_queue_abort;  /* still more on top of this closes the connection */
    size_t queue_total_soft;        /* queued on all connections: idle readers go */
    size_t queue_total_max;         /* the same: no more room above */
    size_t hoard_size;              /* bytes queued on a connection: some must be taken above */
    uint64_t hoard_timeout_ms;      /* closed when none of these was taken for so long */
    uint64_t evict_after_ms;        /* the same when there is more than `queue_total_soft` */
    uint64_t handshake_timeout_ms;  /* from accept to a complete preface or first request */
    uint64_t keepalive_interval_ms; /* HTTP/2 PING when nothing came for so long; 0: never */
    uint64_t keepalive_timeout_ms;  /* then closed when no answer came */
    uint64_t write_timeout_ms;      /* closed when queued bytes made no progress for so long */
};
extern const struct net_limits net_limits_default;

/* The loop outlives the server. Aborts when memory is out. */
struct net_server *net_server_create(uv_loop_t *loop, const struct net_limits *limits);

/* Methods are constant and outlive the server; `context` is for grpc_call_context(). */
void net_server_add_methods(struct net_server *server, const struct grpc_method *methods,
                            size_t n_methods, void *context);

/* Routes are constant and outlive the server; `context` is for http_context(). */
void net_server_add_routes(struct net_server *server, const struct http_route *routes,
                           size_t n_routes, void *context);

/*
 * The authenticator finds the caller of a request. It is asked once for every request and every
 * gRPC call, except on public routes, before their door learns of them. net keeps its answer, a
 * caller of at most NET_CALLER_SIZE_MAX bytes, without looking into it: http_caller(),
 * grpc_call_caller(). Without an authenticator every caller is all zeros.
 */
enum { NET_CALLER_SIZE_MAX = 32 };

enum net_authentication {
    NET_AUTHENTICATED,
    NET_REFUSED, /* 401, or as the route's on_refused says; gRPC: UNAUTHENTICATED */
    NET_PENDING  /* http_authenticated() follows: a password is hashed off the loop */
};

struct net_authenticator {
    /* `exchange` has its headers (http_header()), its route (http_route_of(), NULL for gRPC) and
     * nothing else yet. `out_caller` has room for NET_CALLER_SIZE_MAX bytes, all zero. gRPC calls
     * cannot wait: for these NET_PENDING refuses, and the door checks passwords by itself. A
     * refused gRPC call whose method answers for itself gets what is in `out_caller`. */
    enum net_authentication (*begin)(void *context, struct http_exchange *exchange,
                                     void *out_caller);
    /* The exchange is over while it was pending: http_authenticated() must not follow any more. */
    void (*cancel)(void *context, struct http_exchange *exchange);
    /* For raw connections, whose protocols log in by themselves or not at all: the caller that a
     * verified certificate stands for. False: none. */
    bool (*certificate)(void *context, const struct tls_identity *identity, void *out_caller);
};

/* Constant, outlives the server. */
void net_server_set_authenticator(struct net_server *server,
                                  const struct net_authenticator *authenticator, void *context);

/* The end of NET_PENDING; not from inside begin(). The body that came meanwhile was kept. */
void http_authenticated(struct http_exchange *exchange, bool is_authenticated, const void *caller,
                        size_t caller_size);

/*
 * What is spoken on listeners. The main scope belongs to listeners that name no other; the
 * functions above add to it. A further scope has nothing in it at first, and lives as long as the
 * server.
 */
struct net_scope *net_server_main_scope(struct net_server *server);
struct net_scope *net_server_add_scope(struct net_server *server);
void net_scope_add_methods(struct net_scope *scope, const struct grpc_method *methods,
                           size_t n_methods, void *context);
void net_scope_add_routes(struct net_scope *scope, const struct http_route *routes, size_t n_routes,
                          void *context);
/* For all requests to routes of the scope; one filter a scope. gRPC does not pass through it. */
void net_scope_set_filter(struct net_scope *scope, const struct http_filter *filter, void *context);
/* What is served over HTTP and gRPC: all that was added, in that order. Valid until more is added.
 */
struct net_request {
    const char *method; /* "*": any; NULL: a gRPC method */
    const char *path;   /* or the pattern of a route */
    bool is_again;      /* it replaced one that was added before */
};
size_t net_scope_requests(const struct net_scope *scope, const struct net_request **out_requests);
/* Constant, outlives the server; `context` is for raw_connection_context(). See raw_protocol.h for
 * the order in which protocols are asked whether they know a connection's first bytes. */
void net_scope_add_raw(struct net_scope *scope, const struct raw_protocol *protocol, void *context);

/* Where to listen, and what is spoken there. */
struct net_listen_options {
    const char *host;        /* numeric or resolvable: "127.0.0.1", "::1", "localhost", "0.0.0.0" */
    uint16_t port;           /* 0: any */
    const char *unix_path;   /* a Unix socket instead of host and port; NULL: TCP */
    struct tls_context *tls; /* clients must speak TLS; NULL: plain text. Outlives the server. */
    bool is_plain_too;       /* with `tls`, over TCP: plain text is served as well */
    struct net_scope *scope; /* what is spoken there; NULL: the main scope */
    const struct protocol *only; /* nothing else is spoken there; NULL: what the scope has */
};

/* `out_port` is the port, may be NULL. A Unix socket that a dead process left is replaced; its
 * file is removed when the server stops. STATUS_IO with a reason in `out_error`. */
enum status net_server_listen(struct net_server *server, const struct net_listen_options *options,
                              uint16_t *out_port, char *out_error, size_t error_size);

/* UDP on a host and port (0: any); see datagram.h. */
struct net_datagram_options {
    const char *host;
    uint16_t port;
    const struct datagram_handler *handler;
    void *context; /* for the handler */
};
/* As net_server_listen(). Datagrams are handled until the server is shut down. */
enum status net_server_listen_datagrams(struct net_server *server,
                                        const struct net_datagram_options *options,
                                        uint16_t *out_port, char *out_error, size_t error_size);

/* Stops listening, sends GOAWAY, lets calls in flight finish for at most `grace_ms` (streams are
 * ended with UNAVAILABLE at once), then closes everything and calls `closed`. */
void net_server_shutdown(struct net_server *server, uint64_t grace_ms, void (*closed)(void *data),
                         void *data);
/* After `closed`. */
void net_server_destroy(struct net_server *server);

/* Asked in each iteration of the loop: while it says true, connections that always have more to say
 * are not listened to; those that speak now and then still are. For a service with more requests
 * than it can carry out soon. */
void net_server_set_congestion(struct net_server *server, bool (*is_congested)(void *data),
                               void *data);

/* After the process was stopped for a while: notes every connection that has bytes waiting to be
 * read (and those that still wait to be accepted). net_server_is_caught_up() is true once all of
 * these have been read and handled, or closed; connections that we do not read from because they
 * do not read from us do not count. */
void net_server_begin_catch_up(struct net_server *server);
bool net_server_is_caught_up(struct net_server *server);

struct net_stats {
    size_t connections;
    size_t connections_max;
    uint64_t connections_total;
    uint64_t connections_refused;
    uint64_t connections_refused_client; /* of these, because of client_connections_max */
    uint64_t connections_evicted;        /* closed because they took no answers */
    size_t calls;                        /* open now */
    uint64_t calls_total;
    uint64_t protocol_errors;
    uint64_t tls_handshakes; /* agreed on */
    uint64_t tls_failures;
    uint64_t datagrams_received;
    uint64_t datagrams_dropped; /* too large, too many, or no room for an answer */
    uint64_t bytes_received;
    uint64_t bytes_sent;
    size_t queued_bytes; /* of answers, not yet produced for the socket */
    size_t unsent_bytes; /* produced, and not yet taken by the socket */
    size_t held_bytes; /* about what clients make us hold: connections, calls, requests, answers */
};
void net_server_stats(const struct net_server *server, struct net_stats *out_stats);

/* Every gRPC method that is served, once, with what its calls came to on all listeners, in the
 * order in which the methods were added. */
struct grpc_stats;
void net_server_each_method(const struct net_server *server,
                            void (*visit)(void *data, const struct grpc_method *method,
                                          const struct grpc_stats *stats),
                            void *data);

#endif
