/*
 * How raft_uv reaches other nodes. A node that is alone has nobody to reach and opens no port:
 * whatever speaks to a peer port is not a peer.
 */
#ifndef LEASED_REPLICATION_PEER_TRANSPORT_H
#define LEASED_REPLICATION_PEER_TRANSPORT_H

#include <raft/uv.h>

void peer_transport_init(struct raft_uv_transport *transport);

#endif
