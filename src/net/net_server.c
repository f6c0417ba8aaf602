#include "net/net_server.h"

#include "net/connection_pool.h"
#include "net/datagram.h"
#include "net/listener.h"
#include "net/net_scope.h"
#include "net/net_shared.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Memory of a connection, about. */
enum { CONNECTION_BYTES = 8 * 1024 };
/* What OpenSSL takes for a handshake, about; most of it goes back when it is over. */
enum { HANDSHAKE_BYTES = 40 * 1024 };

struct net_server {
    uv_loop_t *loop;
    struct net_shared shared;
    struct connection_pool pool;
    struct net_scope main_scope;
    struct list scopes; /* the others */
    struct list listeners;
    struct list datagram_sockets;
    uv_timer_t clock; /* fires when the next net_timer is due */
    uv_prepare_t before_wait;
    uint64_t clock_due_ms; /* UINT64_MAX: not started */
    uv_timer_t grace;
    size_t n_closing_listeners; /* and datagram sockets */
    size_t n_closing_handles;   /* the last stage: our own */
    bool is_closed;
    void (*closed)(void *data);
    void *closed_data;
};

/* --- time ---------------------------------------------------------------------------------- */

static void on_clock(uv_timer_t *timer) {
    struct net_server *server = timer->data;
    server->clock_due_ms = UINT64_MAX;
    net_timers_run(server->shared.timers, uv_now(server->loop));
}

static uint64_t loop_now_ms(const void *loop) {
    return uv_now(loop);
}

/* The one libuv timer follows the wheel. */
static void set_clock(struct net_server *server) {
    uint64_t due_ms = net_timers_next_ms(server->shared.timers);
    if (due_ms == server->clock_due_ms) {
        return;
    }
    server->clock_due_ms = due_ms;
    if (due_ms == UINT64_MAX) {
        uv_timer_stop(&server->clock);
        return;
    }
    uint64_t now_ms = uv_now(server->loop);
    uv_timer_start(&server->clock, on_clock, due_ms > now_ms ? due_ms - now_ms : 0, 0);
}

/* Everything that this iteration produced goes out in one write per connection. */
static void on_before_wait(uv_prepare_t *handle) {
    struct net_server *server = handle->data;
    connection_pool_flush(&server->pool);
    set_clock(server);
}

/* --- life ---------------------------------------------------------------------------------- */

struct net_server *net_server_create(uv_loop_t *loop, const struct net_limits *limits) {
    struct net_server *server = calloc(1, sizeof *server);
    if (server == NULL) {
        abort();
    }
    /* A peer that goes away while we write is an error of that write, not of the process. */
    signal(SIGPIPE, SIG_IGN);
    server->loop = loop;
    server->clock_due_ms = UINT64_MAX;
    list_init(&server->listeners);
    list_init(&server->scopes);
    list_init(&server->datagram_sockets);
    net_shared_init(&server->shared, limits, uv_now(loop));
    net_timers_set_clock(server->shared.timers, loop_now_ms, loop);
    net_scope_init(&server->main_scope, &server->shared.routes);
    server->main_scope.has_http = true;
    uv_timer_init(loop, &server->clock);
    uv_timer_init(loop, &server->grace);
    uv_prepare_init(loop, &server->before_wait);
    server->clock.data = server;
    server->grace.data = server;
    server->before_wait.data = server;
    uv_prepare_start(&server->before_wait, on_before_wait);
    /* Listeners and connections keep the loop alive, not the wish to serve them. */
    uv_unref((uv_handle_t *)&server->clock);
    uv_unref((uv_handle_t *)&server->before_wait);
    connection_pool_init(&server->pool, &server->shared, loop);
    server->pool.hurry.data = server;
    return server;
}

void net_server_destroy(struct net_server *server) {
    if (server == NULL) {
        return;
    }
    assert(server->is_closed);
    connection_pool_clear(&server->pool);
    struct list *link;
    while ((link = list_pop_first(&server->scopes)) != NULL) {
        struct net_scope *scope = list_entry(link, struct net_scope, in_server);
        net_scope_clear(scope);
        free(scope);
    }
    net_scope_clear(&server->main_scope);
    net_shared_clear(&server->shared);
    free(server);
}

void net_server_add_methods(struct net_server *server, const struct grpc_method *methods,
                            size_t n_methods, void *context) {
    net_scope_add_methods(&server->main_scope, methods, n_methods, context);
}

struct net_scope *net_server_main_scope(struct net_server *server) {
    return &server->main_scope;
}

struct net_scope *net_server_add_scope(struct net_server *server) {
    struct net_scope *scope = malloc(sizeof *scope);
    if (scope == NULL) {
        abort();
    }
    net_scope_init(scope, NULL);
    list_append(&server->scopes, &scope->in_server);
    return scope;
}

void net_server_add_routes(struct net_server *server, const struct http_route *routes,
                           size_t n_routes, void *context) {
    net_scope_add_routes(&server->main_scope, routes, n_routes, context);
}

void net_server_set_authenticator(struct net_server *server,
                                  const struct net_authenticator *authenticator, void *context) {
    server->shared.authenticator = authenticator;
    server->shared.authenticator_context = context;
}

/* --- listening ----------------------------------------------------------------------------- */

static enum status listen_unix(struct net_server *server, const char *path,
                               const struct connection_terms *terms, char *out_error,
                               size_t error_size) {
    struct unix_socket_file file;
    struct listener *listener = NULL;
    int error_number = 0;
    int socket = listener_socket_unix(path, &file);
    if (socket < 0) {
        error_number = errno;
        snprintf(out_error, error_size, "Unix socket %s: %s%s", path,
                 error_number == EEXIST ? "there is a file that is no socket"
                                        : strerror(error_number),
                 error_number == ENOENT       ? "; make its folder first"
                 : error_number == EADDRINUSE ? "; another process listens there"
                                              : "");
        return STATUS_IO;
    }
    if (listener_create(&server->pool, terms, socket, &listener, &error_number) != STATUS_OK) {
        unix_socket_remove(path, &file);
        snprintf(out_error, error_size, "Unix socket %s: %s", path, strerror(error_number));
        return STATUS_IO;
    }
    listener_set_file(listener, path, &file);
    list_append(&server->listeners, &listener->in_server);
    return STATUS_OK;
}

/* Binds one address; returns its port. */
typedef enum status (*bind_address)(struct net_server *server, const struct addrinfo *address,
                                    const void *options, uint16_t *port, int *out_error_number);

static const char *bind_advice(int error_number) {
    switch (error_number) {
    case EADDRINUSE:
        return "; stop the process that listens there (ss -ltnp shows it), or listen on another "
               "port";
    case EACCES:
        return "; ports below 1024 need CAP_NET_BIND_SERVICE: listen on another port";
    case EADDRNOTAVAIL:
        return "; this machine does not have that address: listen on one that it has";
    default:
        return "";
    }
}

/* Every address of the host; one is enough, because a name such as "localhost" may stand for an
 * address of each kind, and not every machine has both. All of them get the same port. */
static enum status bind_all(struct net_server *server, const char *host, uint16_t port,
                            int socket_type, bind_address bind_one, const void *options,
                            uint16_t *out_port, char *out_error, size_t error_size) {
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = socket_type, .ai_flags = AI_PASSIVE};
    struct addrinfo *addresses = NULL;
    int result = getaddrinfo(host, NULL, &hints, &addresses);
    if (result != 0) {
        snprintf(out_error, error_size, "%s: %s", host, gai_strerror(result));
        return STATUS_IO;
    }
    uint16_t bound_port = port;
    size_t n_bound = 0;
    int error_number = 0;
    for (const struct addrinfo *at = addresses; at != NULL; at = at->ai_next) {
        bool is_usable = at->ai_family == AF_INET || at->ai_family == AF_INET6;
        if (is_usable && bind_one(server, at, options, &bound_port, &error_number) == STATUS_OK) {
            n_bound++;
        }
    }
    freeaddrinfo(addresses);
    if (n_bound == 0) {
        snprintf(out_error, error_size, "%s port %u: %s%s", host, port,
                 error_number != 0 ? strerror(error_number) : "no usable address",
                 bind_advice(error_number));
        return STATUS_IO;
    }
    if (out_port != NULL) {
        *out_port = bound_port;
    }
    return STATUS_OK;
}

static enum status bind_tcp(struct net_server *server, const struct addrinfo *address,
                            const void *options, uint16_t *port, int *out_error_number) {
    const struct connection_terms *terms = options;
    struct listener *listener = NULL;
    int socket = listener_socket_tcp(address, *port);
    if (socket < 0) {
        *out_error_number = errno;
        return STATUS_IO;
    }
    uint16_t bound_port = listener_socket_port(socket);
    enum status status = listener_create(&server->pool, terms, socket, &listener, out_error_number);
    if (status == STATUS_OK) {
        list_append(&server->listeners, &listener->in_server);
        *port = bound_port;
    }
    return status;
}

static enum status bind_udp(struct net_server *server, const struct addrinfo *address,
                            const void *opaque, uint16_t *port, int *out_error_number) {
    const struct net_datagram_options *options = opaque;
    struct datagram_socket *socket = NULL;
    enum status status =
        datagram_socket_create(server->loop, &server->shared.stats, address, *port,
                               options->handler, options->context, &socket, out_error_number);
    if (status == STATUS_OK) {
        list_append(&server->datagram_sockets, datagram_socket_node(socket));
        *port = datagram_socket_port(socket);
    }
    return status;
}

enum status net_server_listen(struct net_server *server, const struct net_listen_options *options,
                              uint16_t *out_port, char *out_error, size_t error_size) {
    assert(!server->shared.is_shutting_down);
    bool is_unix = options->unix_path != NULL;
    bool is_tls = options->tls != NULL;
    assert(!options->is_plain_too || (is_tls && !is_unix));
    const struct connection_terms terms = {
        .transport = is_unix ? (is_tls ? &transport_tls_unix : &transport_unix)
                             : (options->is_plain_too ? &transport_tls_or_tcp
                                : is_tls              ? &transport_tls_tcp
                                                      : &transport_tcp),
        .tls = options->tls,
        .scope = options->scope != NULL ? options->scope : &server->main_scope,
        .only = options->only};
    if (is_unix) {
        return listen_unix(server, options->unix_path, &terms, out_error, error_size);
    }
    return bind_all(server, options->host, options->port, SOCK_STREAM, bind_tcp, &terms, out_port,
                    out_error, error_size);
}

enum status net_server_listen_datagrams(struct net_server *server,
                                        const struct net_datagram_options *options,
                                        uint16_t *out_port, char *out_error, size_t error_size) {
    assert(!server->shared.is_shutting_down);
    return bind_all(server, options->host, options->port, SOCK_DGRAM, bind_udp, options, out_port,
                    out_error, error_size);
}

/* --- the end ------------------------------------------------------------------------------- */

static void on_own_handle_closed(uv_handle_t *handle) {
    struct net_server *server = handle->data;
    assert(server->n_closing_handles > 0);
    server->n_closing_handles--;
    if (server->n_closing_handles == 0) {
        server->is_closed = true;
        server->closed(server->closed_data);
    }
}

static void close_if_empty(void *data) {
    struct net_server *server = data;
    if (server->n_closing_listeners > 0 || server->pool.n_handles > 0 ||
        server->n_closing_handles > 0) {
        return;
    }
    uv_handle_t *handles[] = {
        (uv_handle_t *)&server->clock,
        (uv_handle_t *)&server->before_wait,
        (uv_handle_t *)&server->grace,
        (uv_handle_t *)&server->pool.hurry,
    };
    server->n_closing_handles = sizeof handles / sizeof handles[0];
    for (size_t i = 0; i < sizeof handles / sizeof handles[0]; i++) {
        uv_close(handles[i], on_own_handle_closed);
    }
}

static void on_listener_closed(void *data) {
    struct net_server *server = data;
    server->n_closing_listeners--;
    close_if_empty(server);
}

static void on_grace_over(uv_timer_t *timer) {
    struct net_server *server = timer->data;
    connection_pool_close_all(&server->pool, false);
    close_if_empty(server);
}

void net_server_shutdown(struct net_server *server, uint64_t grace_ms, void (*closed)(void *data),
                         void *data) {
    assert(!server->shared.is_shutting_down);
    assert(closed != NULL);
    server->shared.is_shutting_down = true;
    server->closed = closed;
    server->closed_data = data;
    server->pool.on_empty = close_if_empty;
    server->pool.on_empty_data = server;
    struct list *node = server->listeners.next;
    while (node != &server->listeners) {
        struct listener *listener = list_entry(node, struct listener, in_server);
        node = node->next;
        server->n_closing_listeners++;
        listener_close(listener, on_listener_closed, server);
    }
    struct list *socket = NULL;
    while ((socket = list_pop_first(&server->datagram_sockets)) != NULL) {
        server->n_closing_listeners++;
        datagram_socket_close(datagram_socket_of_node(socket), on_listener_closed, server);
    }
    connection_pool_drain(&server->pool);
    /* Connections that serve nothing close once their GOAWAY is out; this timer closes the rest,
     * and ends a server that never had a connection or a listener. */
    uv_timer_start(&server->grace, on_grace_over, server->pool.n_handles > 0 ? grace_ms : 0, 0);
}

void net_server_set_congestion(struct net_server *server, bool (*is_congested)(void *data),
                               void *data) {
    server->pool.turns.is_congested = is_congested;
    server->pool.turns.is_congested_data = data;
}

/* --- after a stall, and numbers ------------------------------------------------------------ */

void net_server_begin_catch_up(struct net_server *server) {
    connection_pool_begin_catch_up(&server->pool);
    for (struct list *node = server->listeners.next; node != &server->listeners;
         node = node->next) {
        listener_begin_catch_up(list_entry(node, struct listener, in_server));
    }
}

bool net_server_is_caught_up(struct net_server *server) {
    if (server->pool.n_catching_up > 0) {
        return false;
    }
    for (struct list *node = server->listeners.next; node != &server->listeners;
         node = node->next) {
        if (list_entry(node, struct listener, in_server)->is_catching_up) {
            return false;
        }
    }
    return true;
}

static const struct method_route *method_in(const struct net_scope *scope, const char *path) {
    return route_table_find_method(scope->routes, bytes_from_text(path));
}

/* Visits the methods of a scope that the main one, and those before it, do not have. */
static void visit_scope(const struct net_server *server, const struct net_scope *scope,
                        void (*visit)(void *data, const struct grpc_method *method,
                                      const struct grpc_stats *stats),
                        void *data) {
    for (size_t i = 0; i < scope->n_requests; i++) {
        const char *path = scope->requests[i].path;
        if (scope->requests[i].method != NULL || scope->requests[i].is_again ||
            (scope != &server->main_scope && method_in(&server->main_scope, path) != NULL)) {
            continue;
        }
        const struct method_route *route = method_in(scope, path);
        struct grpc_stats stats = *route->stats;
        bool is_later = scope == &server->main_scope;
        bool is_known = false;
        for (const struct list *link = server->scopes.next; link != &server->scopes;
             link = link->next) {
            const struct net_scope *other = list_entry(link, struct net_scope, in_server);
            const struct method_route *also = other != scope ? method_in(other, path) : NULL;
            is_later |= other == scope;
            is_known |= also != NULL && !is_later;
            if (also != NULL) {
                grpc_stats_add(&stats, also->stats);
            }
        }
        if (!is_known) {
            visit(data, route->method, &stats);
        }
    }
}

void net_server_each_method(const struct net_server *server,
                            void (*visit)(void *data, const struct grpc_method *method,
                                          const struct grpc_stats *stats),
                            void *data) {
    visit_scope(server, &server->main_scope, visit, data);
    for (const struct list *link = server->scopes.next; link != &server->scopes;
         link = link->next) {
        visit_scope(server, list_entry(link, struct net_scope, in_server), visit, data);
    }
}

void net_server_stats(const struct net_server *server, struct net_stats *out_stats) {
    *out_stats = server->shared.stats;
    out_stats->connections_max = server->shared.limits.connections_max;
    out_stats->held_bytes = net_shared_answer_bytes(&server->shared) + server->shared.held_bytes +
                            server->shared.partial_bytes +
                            server->shared.stats.connections * CONNECTION_BYTES +
                            server->pool.transports.n_handshakes * HANDSHAKE_BYTES;
}
