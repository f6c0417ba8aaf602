/*
 * One request of the JSON gateway: its body becomes messages of a gRPC call (net/grpc_bridge.h),
 * the call's answers become JSON. A unary answer is the message; a stream is one line
 * {"result":...} for each message and {"error":...} when it fails.
 */
#ifndef LEASED_DOORS_ETCD_ETCD_GATEWAY_CALL_H
#define LEASED_DOORS_ETCD_ETCD_GATEWAY_CALL_H

#include "net/http.h"

#include <protobuf-c/protobuf-c.h>

struct etcd_gateway_method {
    const char *path; /* of the gRPC method */
    const ProtobufCMessageDescriptor *input;
    const ProtobufCMessageDescriptor *output;
};

/* For the route's functions. The method outlives the exchange. */
void etcd_gateway_call_open(struct http_exchange *exchange,
                            const struct etcd_gateway_method *method);
void etcd_gateway_call_on_body(struct http_exchange *exchange, struct bytes bytes, bool is_last);
void etcd_gateway_call_on_writable(struct http_exchange *exchange);
void etcd_gateway_call_on_input_end(struct http_exchange *exchange);
void etcd_gateway_call_on_drain(struct http_exchange *exchange);
void etcd_gateway_call_on_close(struct http_exchange *exchange);

#endif
