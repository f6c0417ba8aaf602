/*
 * Where a peer listens: "host:port", the host a name or an address in figures, IPv6 in brackets.
 */
#ifndef LEASED_PEERS_PEER_ADDRESS_H
#define LEASED_PEERS_PEER_ADDRESS_H

#include "peers/peer_hello.h"

#include <netinet/in.h>

struct peer_address {
    char host[PEER_ADDRESS_SIZE_MAX + 1]; /* without brackets */
    char port[8];
};

/* 0 or UV_EINVAL. */
int peer_address_split(const char *text, struct peer_address *out_address);

/* Without asking anybody: 0, or UV_EINVAL for a name. */
int peer_address_in_figures(const struct peer_address *address,
                            struct sockaddr_storage *out_address);

/* Names too; 0 or a uv error. May block, so only before the loop runs. */
int peer_address_resolve(const char *text, struct sockaddr_storage *out_address);

#endif
