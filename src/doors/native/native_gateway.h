/*
 * The API of this door as JSON over HTTP, below /lease/v1/. Each route runs the gRPC method itself
 * (net/grpc_gateway_call.h), so that rights, limits and answers are the same by construction.
 */
#ifndef LEASED_DOORS_NATIVE_NATIVE_GATEWAY_H
#define LEASED_DOORS_NATIVE_NATIVE_GATEWAY_H

#include "net/net_server.h"

/* The scope must have the door's gRPC methods. */
void native_gateway_register(struct net_scope *scope);

#endif
