/*
 * One request of the JSON gateway: its body becomes messages of a gRPC call (net/grpc_bridge.h),
 * the call's answers become JSON. A unary answer is the message; a stream is one line
 * {"result":...} for each message and {"error":...} when it fails.
 */
#ifndef LEASED_NET_GRPC_GATEWAY_CALL_H
#define LEASED_NET_GRPC_GATEWAY_CALL_H

#include "net/http.h"

#include <protobuf-c/protobuf-c.h>

struct grpc_gateway_method {
    const char *path; /* of the gRPC method */
    const ProtobufCMessageDescriptor *input;
    const ProtobufCMessageDescriptor *output;
};

/* Finds the messages of the method by its path, "/package.Service/Method", in one of the services.
 * The method must be there. */
void grpc_gateway_method_find(struct grpc_gateway_method *method,
                              const ProtobufCServiceDescriptor *const *services, size_t n_services);

/* For the route's functions. The method outlives the exchange. */
void grpc_gateway_call_open(struct http_exchange *exchange,
                            const struct grpc_gateway_method *method);
/* The same for a request without a body, such as GET: its fields are the parameters of the route's
 * pattern and of the query that are named like fields of the message. The route has no on_body. */
void grpc_gateway_call_open_by_url(struct http_exchange *exchange,
                                   const struct grpc_gateway_method *method);
void grpc_gateway_call_on_body(struct http_exchange *exchange, struct bytes bytes, bool is_last);
void grpc_gateway_call_on_writable(struct http_exchange *exchange);
void grpc_gateway_call_on_input_end(struct http_exchange *exchange);
void grpc_gateway_call_on_drain(struct http_exchange *exchange);
void grpc_gateway_call_on_close(struct http_exchange *exchange);

#endif
