#include "doors/leased_v1/leased_v1_gateway.h"
#include "doors/registry/registry_api_call.h"
#include "doors/registry/registry_api_gateway_methods.h"
#include "proto/leased_registry_v1.pb-c.h"

/* Where the messages of a method are looked for. */
static const ProtobufCServiceDescriptor *const services[] = {&leased__v1__registry__descriptor};

static const struct http_route posts[] = {REGISTRY_API_GATEWAY_POSTS(LEASED_V1_POST)};
static const struct http_route gets[] = {REGISTRY_API_GATEWAY_GETS(LEASED_V1_GET)};
static struct grpc_gateway_method post_methods[] = {REGISTRY_API_GATEWAY_POSTS(LEASED_V1_METHOD)};
static struct grpc_gateway_method get_methods[] = {REGISTRY_API_GATEWAY_GETS(LEASED_V1_METHOD)};

void registry_api_gateway_register(struct net_scope *scope) {
    static const struct leased_v1_gateway gateways[] = {
        {posts, post_methods, sizeof posts / sizeof posts[0]},
        {gets, get_methods, sizeof gets / sizeof gets[0]},
    };
    for (size_t i = 0; i < sizeof gateways / sizeof gateways[0]; i++) {
        leased_v1_gateway_register(&gateways[i], scope, services, 1);
    }
}

/* Every request, and what its caller needs when authentication is on: the right to the name of the
 * service. Each gRPC method has one POST route. */
const struct door_request registry_api_requests[] = {
    REGISTRY_API_GATEWAY_POSTS(LEASED_V1_REQUEST)      /* the methods */
    REGISTRY_API_GATEWAY_POSTS(LEASED_V1_POST_REQUEST) /* the same as JSON */
    REGISTRY_API_GATEWAY_GETS(LEASED_V1_GET_REQUEST){NULL, DOOR_RIGHT_NONE},
};
