#include "doors/leased_v1/leased_v1_gateway.h"

#include <assert.h>

static const struct grpc_gateway_method *method_of(const struct http_exchange *exchange) {
    const struct leased_v1_gateway *gateway = http_context(exchange);
    size_t index = (size_t)(http_route_of(exchange) - gateway->routes);
    assert(index < gateway->n_routes);
    return &gateway->methods[index];
}

void leased_v1_gateway_post(struct http_exchange *exchange) {
    grpc_gateway_call_open(exchange, method_of(exchange));
}

void leased_v1_gateway_get(struct http_exchange *exchange) {
    grpc_gateway_call_open_by_url(exchange, method_of(exchange));
}

void leased_v1_gateway_register(const struct leased_v1_gateway *gateway, struct net_scope *scope,
                                const ProtobufCServiceDescriptor *const *services,
                                size_t n_services) {
    for (size_t i = 0; i < gateway->n_routes; i++) {
        grpc_gateway_method_find(&gateway->methods[i], services, n_services);
    }
    /* The scope hands it to the routes alone, which change nothing of it. */
    net_scope_add_routes(scope, gateway->routes, gateway->n_routes, (void *)gateway);
}
