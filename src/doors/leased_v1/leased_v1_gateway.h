/*
 * The API as JSON over HTTP, below /lease/v1/. Each route runs the gRPC method itself
 * (net/grpc_gateway_call.h), so that rights, limits and answers are the same by construction.
 *
 * A door has a list of its methods for each of POST and GET, X(path_behind, method_path, right),
 * and makes of it routes and methods in the same order.
 */
#ifndef LEASED_DOORS_LEASED_V1_LEASED_V1_GATEWAY_H
#define LEASED_DOORS_LEASED_V1_LEASED_V1_GATEWAY_H

#include "net/grpc_gateway_call.h"
#include "net/net_server.h"

/* The call authenticates by itself, in the way of gRPC. There is no limit of time: a wait has its
 * own, a watch has none, and the others end when the service answers. */
#define LEASED_V1_ROUTE                                                                            \
    .time_max_ms = HTTP_NO_TIME_LIMIT, .is_public = true,                                          \
    .on_writable = grpc_gateway_call_on_writable, .on_close = grpc_gateway_call_on_close,          \
    .on_input_end = grpc_gateway_call_on_input_end, .on_drain = grpc_gateway_call_on_drain
#define LEASED_V1_POST(path_behind, method_path, right)                                            \
    {LEASED_V1_ROUTE,                                                                              \
     .method = "POST",                                                                             \
     .pattern = "/lease/v1" path_behind,                                                           \
     .body_max = SIZE_MAX,                                                                         \
     .is_streaming_body = true,                                                                    \
     .on_request = leased_v1_gateway_post,                                                         \
     .on_body = grpc_gateway_call_on_body},
#define LEASED_V1_GET(path_behind, method_path, right)                                             \
    {LEASED_V1_ROUTE, .method = "GET", .pattern = "/lease/v1" path_behind,                         \
     .on_request = leased_v1_gateway_get},
#define LEASED_V1_METHOD(path_behind, method_path, right) {.path = method_path},

/* For the list of requests: the methods, and the same as JSON. */
#define LEASED_V1_REQUEST(path_behind, method_path, right) {method_path, right},
#define LEASED_V1_POST_REQUEST(path_behind, method_path, right)                                    \
    {"POST /lease/v1" path_behind, right},
#define LEASED_V1_GET_REQUEST(path_behind, method_path, right) {"GET /lease/v1" path_behind, right},

void leased_v1_gateway_post(struct http_exchange *exchange);
void leased_v1_gateway_get(struct http_exchange *exchange);

struct leased_v1_gateway {
    const struct http_route *routes;
    struct grpc_gateway_method *methods; /* their messages are filled in at the registration */
    size_t n_routes;
};
/* The scope must have the door's gRPC methods. The gateway is kept. */
void leased_v1_gateway_register(const struct leased_v1_gateway *gateway, struct net_scope *scope,
                                const ProtobufCServiceDescriptor *const *services,
                                size_t n_services);

#endif
