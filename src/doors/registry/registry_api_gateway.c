#include "doors/registry/registry_api_call.h"
#include "doors/registry/registry_api_gateway_methods.h"
#include "net/grpc_gateway_call.h"
#include "proto/leased_registry_v1.pb-c.h"

#include <assert.h>
#include <stdint.h>

/* Where the messages of a method are looked for. */
static const ProtobufCServiceDescriptor *const services[] = {&leased__v1__registry__descriptor};

static void on_post(struct http_exchange *exchange);
static void on_get(struct http_exchange *exchange);

/* The call authenticates by itself, in the way of gRPC. There is no limit of time: a watch has
 * none, and the others end when the service answers. */
#define ROUTE                                                                                      \
    .time_max_ms = HTTP_NO_TIME_LIMIT, .is_public = true,                                          \
    .on_writable = grpc_gateway_call_on_writable, .on_close = grpc_gateway_call_on_close,          \
    .on_input_end = grpc_gateway_call_on_input_end, .on_drain = grpc_gateway_call_on_drain
#define POST(path_behind, method_path, right)                                                      \
    {ROUTE,                                                                                        \
     .method = "POST",                                                                             \
     .pattern = "/lease/v1" path_behind,                                                           \
     .body_max = SIZE_MAX,                                                                         \
     .is_streaming_body = true,                                                                    \
     .on_request = on_post,                                                                        \
     .on_body = grpc_gateway_call_on_body},
#define GET(path_behind, method_path, right)                                                       \
    {ROUTE, .method = "GET", .pattern = "/lease/v1" path_behind, .on_request = on_get},
#define METHOD(path_behind, method_path, right) {.path = method_path},

static const struct http_route posts[] = {REGISTRY_API_GATEWAY_POSTS(POST)};
static const struct http_route gets[] = {REGISTRY_API_GATEWAY_GETS(GET)};
/* The messages are filled in at the first registration. */
static struct grpc_gateway_method post_methods[] = {REGISTRY_API_GATEWAY_POSTS(METHOD)};
static struct grpc_gateway_method get_methods[] = {REGISTRY_API_GATEWAY_GETS(METHOD)};
enum { N_POSTS = sizeof posts / sizeof posts[0], N_GETS = sizeof gets / sizeof gets[0] };

static void on_post(struct http_exchange *exchange) {
    size_t index = (size_t)(http_route_of(exchange) - posts);
    assert(index < N_POSTS);
    grpc_gateway_call_open(exchange, &post_methods[index]);
}

static void on_get(struct http_exchange *exchange) {
    size_t index = (size_t)(http_route_of(exchange) - gets);
    assert(index < N_GETS);
    grpc_gateway_call_open_by_url(exchange, &get_methods[index]);
}

void registry_api_gateway_register(struct net_scope *scope) {
    for (size_t i = 0; i < N_POSTS; i++) {
        grpc_gateway_method_find(&post_methods[i], services, 1);
    }
    for (size_t i = 0; i < N_GETS; i++) {
        grpc_gateway_method_find(&get_methods[i], services, 1);
    }
    net_scope_add_routes(scope, posts, N_POSTS, NULL);
    net_scope_add_routes(scope, gets, N_GETS, NULL);
}

/* Every request, and what its caller needs when authentication is on: the right to the name of the
 * service. Each gRPC method has one POST route. */
#define REQUEST(path_behind, method_path, right) {method_path, right},
#define POST_REQUEST(path_behind, method_path, right) {"POST /lease/v1" path_behind, right},
#define GET_REQUEST(path_behind, method_path, right) {"GET /lease/v1" path_behind, right},

const struct door_request registry_api_requests[] = {
    REGISTRY_API_GATEWAY_POSTS(REQUEST)      /* the methods */
    REGISTRY_API_GATEWAY_POSTS(POST_REQUEST) /* the same as JSON */
    REGISTRY_API_GATEWAY_GETS(GET_REQUEST){NULL, DOOR_RIGHT_NONE},
};
