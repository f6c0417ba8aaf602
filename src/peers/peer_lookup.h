/*
 * Looking up a host's addresses in a thread of its own. It may take as long as it likes and can be
 * abandoned at any moment: libuv's own look-up cannot be taken back once it runs, and would hold up
 * the end of the loop.
 */
#ifndef LEASED_PEERS_PEER_LOOKUP_H
#define LEASED_PEERS_PEER_LOOKUP_H

#include "base/host_port.h"
#include "peers/peer_handles.h"

#include <netinet/in.h>
#include <uv.h>

enum { PEER_LOOKUP_ADDRESSES_MAX = 8 };

struct peer_addresses {
    size_t n;
    struct sockaddr_storage at[PEER_LOOKUP_ADDRESSES_MAX];
};

struct peer_lookup;

/* `done` is called once, on the loop, never from inside; no addresses: the name is not known. NULL:
 * no thread could be started. */
struct peer_lookup *
peer_lookup_start(uv_loop_t *loop, struct peer_handles *handles, const struct host_port *address,
                  void (*done)(void *data, const struct peer_addresses *addresses), void *data);
/* `done` is not called any more. Not after it was called. */
void peer_lookup_abandon(struct peer_lookup *lookup);

#endif
