/*
 * Errors of the JSON gateway: the HTTP status of a gRPC code and the two forms in which etcd's
 * gateway (grpc-gateway, version 1) writes an error.
 */
#ifndef LEASED_NET_GRPC_GATEWAY_ERROR_H
#define LEASED_NET_GRPC_GATEWAY_ERROR_H

#include "base/buffer.h"
#include "net/grpc.h"

unsigned grpc_gateway_status(enum grpc_code code);
/* {"error":TEXT,"code":CODE,"message":TEXT} */
void grpc_gateway_write_error(struct buffer *out, enum grpc_code code, const char *text);
/* One line, {"error":{"grpc_code":...,"http_code":...,"message":...,"http_status":...}} */
void grpc_gateway_write_stream_error(struct buffer *out, enum grpc_code code, const char *text);

#endif
