/*
 * From a host and a port to a socket address.
 */
#ifndef LEASED_PEERS_PEER_ADDRESS_H
#define LEASED_PEERS_PEER_ADDRESS_H

#include "base/host_port.h"

#include <netinet/in.h>

/* Without a resolver: 0, or UV_EINVAL for a name. */
int peer_address_in_figures(const struct host_port *address, struct sockaddr_storage *out_address);

/* Names too; 0 or a uv error. May block, so only before the loop runs. */
int peer_address_resolve(const char *host, uint16_t port, struct sockaddr_storage *out_address);

#endif
