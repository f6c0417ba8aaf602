/*
 * The JSON gateway of etcd's API: POST /v3/... for every method, unary and streaming. Each route
 * runs the gRPC method itself, so that rights, limits and answers are the same by construction.
 */
#ifndef LEASED_DOORS_ETCD_ETCD_GATEWAY_H
#define LEASED_DOORS_ETCD_ETCD_GATEWAY_H

#include "net/net_server.h"

/* The scope must have the door's gRPC methods. */
void etcd_gateway_register(struct net_scope *scope);

#endif
