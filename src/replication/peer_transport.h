/*
 * raft_uv's way to other nodes, through peers.h: our own handshake, TCP_NODELAY on every
 * connection. A node that is alone has nobody to reach and opens no port: whatever speaks to its
 * peer port is not a peer.
 */
#ifndef LEASED_REPLICATION_PEER_TRANSPORT_H
#define LEASED_REPLICATION_PEER_TRANSPORT_H

#include <raft/uv.h>
#include <stdint.h>

struct peers;

struct peer_transport {
    struct raft_uv_transport raft; /* what raft_uv is given */
    struct peers *peers;           /* NULL: alone */
    raft_uv_accept_cb accepted;
    struct peer_transport_dial *dials; /* under way */
};

void peer_transport_init(struct peer_transport *transport, struct peers *peers);

/* A member opened a connection for raft: the stream is handed on, or closed. */
void peer_transport_accept(struct peer_transport *transport, uint64_t id, const char *address,
                           uv_stream_t *stream);

#endif
