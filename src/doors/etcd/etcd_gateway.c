#include "doors/etcd/etcd_gateway.h"

#include "doors/etcd/etcd_gateway_methods.h"
#include "net/grpc_gateway_call.h"
#include "proto/etcd.pb-c.h"
#include "proto/etcd_election.pb-c.h"
#include "proto/etcd_lock.pb-c.h"

#include <assert.h>
#include <stdint.h>

/* Where the messages of a method are looked for. */
static const ProtobufCServiceDescriptor *const services[] = {
    &etcdserverpb__kv__descriptor,
    &etcdserverpb__watch__descriptor,
    &etcdserverpb__lease__descriptor,
    &etcdserverpb__cluster__descriptor,
    &etcdserverpb__maintenance__descriptor,
    &etcdserverpb__auth__descriptor,
    &v3lockpb__lock__descriptor,
    &v3electionpb__election__descriptor,
};

static void on_request(struct http_exchange *exchange);

/* The call authenticates by itself, in the way of gRPC. There is no limit of time: a watch has
 * none, and the others end when the service answers. */
#define ROUTE(prefix, path_behind)                                                                 \
    {                                                                                              \
        .method = "POST",                                                                          \
        .pattern = prefix path_behind,                                                             \
        .body_max = SIZE_MAX,                                                                      \
        .time_max_ms = HTTP_NO_TIME_LIMIT,                                                         \
        .is_streaming_body = true,                                                                 \
        .is_public = true,                                                                         \
        .on_request = on_request,                                                                  \
        .on_body = grpc_gateway_call_on_body,                                                      \
        .on_writable = grpc_gateway_call_on_writable,                                              \
        .on_close = grpc_gateway_call_on_close,                                                    \
        .on_input_end = grpc_gateway_call_on_input_end,                                            \
        .on_drain = grpc_gateway_call_on_drain,                                                    \
    },
#define ROUTES(path_behind, method_path, right)                                                    \
    ROUTE("/v3", path_behind) ROUTE("/v3beta", path_behind)
#define METHOD(path_behind, method_path, right) {.path = method_path},

static const struct http_route routes[] = {ETCD_GATEWAY_METHODS(ROUTES)};
/* Two routes for each. The messages are filled in at the first registration. */
static struct grpc_gateway_method methods[] = {ETCD_GATEWAY_METHODS(METHOD)};
enum {
    N_ROUTES = sizeof routes / sizeof routes[0],
    N_METHODS = sizeof methods / sizeof methods[0]
};
_Static_assert(N_ROUTES == 2 * N_METHODS, "a path has two prefixes");

static void on_request(struct http_exchange *exchange) {
    size_t index = (size_t)(http_route_of(exchange) - routes) / 2;
    assert(index < N_METHODS);
    grpc_gateway_call_open(exchange, &methods[index]);
}

void etcd_gateway_register(struct net_scope *scope) {
    for (size_t i = 0; i < N_METHODS; i++) {
        grpc_gateway_method_find(&methods[i], services, sizeof services / sizeof services[0]);
    }
    net_scope_add_routes(scope, routes, N_ROUTES, NULL);
}
