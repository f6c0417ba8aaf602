#include "doors/native/native_gateway.h"

#include "doors/leased_v1/leased_v1_gateway.h"
#include "doors/native/native_gateway_methods.h"
#include "proto/leased_v1.pb-c.h"

/* Where the messages of a method are looked for. */
static const ProtobufCServiceDescriptor *const services[] = {
    &leased__v1__sessions__descriptor, &leased__v1__resources__descriptor,
    &leased__v1__pools__descriptor,    &leased__v1__fences__descriptor,
    &leased__v1__history__descriptor,
};
enum { N_SERVICES = sizeof services / sizeof services[0] };

static const struct http_route posts[] = {NATIVE_GATEWAY_POSTS(LEASED_V1_POST)};
static const struct http_route gets[] = {NATIVE_GATEWAY_GETS(LEASED_V1_GET)};
static struct grpc_gateway_method post_methods[] = {NATIVE_GATEWAY_POSTS(LEASED_V1_METHOD)};
static struct grpc_gateway_method get_methods[] = {NATIVE_GATEWAY_GETS(LEASED_V1_METHOD)};

void native_gateway_register(struct net_scope *scope) {
    static const struct leased_v1_gateway gateways[] = {
        {posts, post_methods, sizeof posts / sizeof posts[0]},
        {gets, get_methods, sizeof gets / sizeof gets[0]},
    };
    for (size_t i = 0; i < sizeof gateways / sizeof gateways[0]; i++) {
        leased_v1_gateway_register(&gateways[i], scope, services, N_SERVICES);
    }
}
