/*
 * The part of /metrics about gRPC: calls by method and code, and how long they took, under the
 * names that gRPC's own libraries use.
 */
#ifndef LEASED_SERVER_METRICS_GRPC_H
#define LEASED_SERVER_METRICS_GRPC_H

#include "base/buffer.h"
#include "net/net_server.h"

void metrics_grpc_write(const struct net_server *net, struct buffer *buffer);

#endif
