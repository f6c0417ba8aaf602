/*
 * From the address of a peer to a socket address. Such an address is "host:port", or "unix://PATH"
 * for a Unix socket: what follows that prefix is the path, relative or not, whatever is in it.
 */
#ifndef LEASED_PEERS_PEER_ADDRESS_H
#define LEASED_PEERS_PEER_ADDRESS_H

#include "base/host_port.h"
#include "peers/peer_hello.h"

#include <netinet/in.h>
#include <stdbool.h>

/* The address that a member's URL names, whatever its scheme says of TLS; an address is its own.
 * False: there is none, or it is too long. */
bool peer_address_of_url(const char *url, char out_address[PEER_ADDRESS_SIZE_MAX + 1]);

/* The path of a Unix socket; NULL: the address is host:port. Borrowed from `text`. */
const char *peer_address_path(const char *text);
/* 0, or UV_EINVAL: the path is empty or longer than a Unix socket's can be. */
int peer_address_of_path(const char *path, struct sockaddr_storage *out_address);

/* Without a resolver: 0, or UV_EINVAL for a name. */
int peer_address_in_figures(const struct host_port *address, struct sockaddr_storage *out_address);

/* Names too; 0 or a uv error. May block, so only before the loop runs. */
int peer_address_resolve(const char *host, uint16_t port, struct sockaddr_storage *out_address);

#endif
