#include "net/net_scope.h"

#include "net/net_server.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void net_scope_init(struct net_scope *scope, struct route_table *routes) {
    *scope = (struct net_scope){.routes = routes};
    list_init(&scope->in_server);
    if (routes == NULL) {
        route_table_init(&scope->own_routes);
        scope->routes = &scope->own_routes;
    }
}

void net_scope_clear(struct net_scope *scope) {
    free(scope->requests);
    if (scope->routes == &scope->own_routes) {
        route_table_clear(&scope->own_routes);
    }
}

static void note(struct net_scope *scope, const char *method, const char *path, bool is_again) {
    scope->has_http = true;
    struct net_request *requests =
        realloc(scope->requests, (scope->n_requests + 1) * sizeof *requests);
    if (requests == NULL) {
        abort();
    }
    scope->requests = requests;
    requests[scope->n_requests++] =
        (struct net_request){.method = method, .path = path, .is_again = is_again};
}

size_t net_scope_requests(const struct net_scope *scope, const struct net_request **out_requests) {
    *out_requests = scope->requests;
    return scope->n_requests;
}

void net_scope_add_methods(struct net_scope *scope, const struct grpc_method *methods,
                           size_t n_methods, void *context) {
    for (size_t i = 0; i < n_methods; i++) {
        bool is_again = route_table_add_method(scope->routes, &methods[i], context);
        note(scope, NULL, methods[i].path, is_again);
    }
}

void net_scope_add_routes(struct net_scope *scope, const struct http_route *routes, size_t n_routes,
                          void *context) {
    for (size_t i = 0; i < n_routes; i++) {
        bool is_again = route_tree_add(&scope->routes->tree, &routes[i], context);
        note(scope, routes[i].method != NULL ? routes[i].method : "*", routes[i].pattern, is_again);
    }
}

void net_scope_set_filter(struct net_scope *scope, const struct http_filter *filter,
                          void *context) {
    assert(scope->routes->filter == NULL);
    scope->routes->filter = filter;
    scope->routes->filter_context = context;
}

void net_scope_add_raw(struct net_scope *scope, const struct raw_protocol *protocol,
                       void *context) {
    assert(scope->n_raws < NET_SCOPE_RAW_MAX);
    scope->raws[scope->n_raws++] = (struct raw_route){.protocol = protocol, .context = context};
}

enum sniff_result net_scope_sniff(const struct net_scope *scope, struct bytes first,
                                  const struct protocol **out_protocol,
                                  const struct raw_route **out_raw) {
    static const struct protocol *const http[] = {&http2_protocol, &http1_protocol};
    static const size_t n_http = sizeof http / sizeof http[0];
    *out_raw = NULL;
    /* Whatever is spoken: where plain text is, TLS is answered with a TLS alert. */
    *out_protocol = &tls_hello_protocol;
    enum sniff_result result = tls_hello_protocol.sniff(first);
    for (size_t i = 0; i < n_http && scope->has_http && result == SNIFF_NO; i++) {
        *out_protocol = http[i];
        result = http[i]->sniff(first);
    }
    bool is_alone = !scope->has_http && scope->n_raws == 1;
    for (size_t i = 0; i < scope->n_raws && result == SNIFF_NO; i++) {
        const struct raw_route *raw = &scope->raws[i];
        *out_protocol = &raw_session_protocol;
        *out_raw = raw;
        if (is_alone) {
            result = SNIFF_YES;
        } else if (raw->protocol->sniff != NULL) {
            result = raw->protocol->sniff(first);
        }
    }
    return result;
}
