/*
 * The connections between nodes. Each node listens on its peer port and keeps one link to every
 * other member: frames to a member go out over our own link to it, frames from it come in over
 * its link to us. Raft's connections pass through the same port and the same hello. A link that
 * breaks is opened again; what was not sent is lost, as on any network.
 */
#ifndef LEASED_REPLICATION_PEERS_H
#define LEASED_REPLICATION_PEERS_H

#include "base/status.h"
#include "replication/peer_tls_context.h"
#include "replication/peer_wire.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct arena;
struct peers;

struct peers_options {
    uint64_t cluster_id;
    uint64_t self_id;
    uint64_t birth;          /* of our data directory */
    const char *listen_host; /* NULL: listen nowhere */
    uint16_t listen_port;
    const char *address;                /* host:port under which others reach us */
    const struct peer_tls_options *tls; /* NULL: plain text, to whoever reaches the port */
};

struct peers_callbacks {
    /* A member opened a connection for raft's messages. The stream now belongs to the callee. */
    void (*raft_accepted)(void *data, uint64_t id, const char *address, uv_stream_t *stream);
    /* Whether this id is a member's today, with this data directory: PEER_WELCOME,
     * PEER_NOT_A_MEMBER, PEER_REMOVED or PEER_FORGETFUL. Who is none gets no connection to us. */
    enum peer_answer (*admit)(void *data, uint64_t id, uint64_t birth);
    /* Somebody asks who belongs to the cluster, and whether this id was removed: gives a
     * PEER_MEMBERS; what it refers to may lie in the arena. */
    void (*asked)(void *data, uint64_t id, struct arena *arena, struct peer_frame *out_answer);
    /* A frame from a member; borrowed for the call. */
    void (*frame)(void *data, uint64_t from_id, const struct peer_frame *frame);
    /* Our link to a member is open. NULL: nobody cares. */
    void (*link_opened)(void *data, uint64_t id);
    /* Our link to a member broke: what was sent on it may not have arrived. */
    void (*link_lost)(void *data, uint64_t id);
    /* A member told us that we are none any more (PEER_REMOVED, PEER_FORGETFUL). NULL: nobody
     * cares. */
    void (*turned_away)(void *data, enum peer_answer answer);
};

/* STATUS_IO, or STATUS_INVALID for certificates, with a reason. The callbacks and the texts outlive
 * it. */
enum status peers_open(uv_loop_t *loop, const struct peers_options *options,
                       const struct peers_callbacks *callbacks, void *data,
                       struct peers **out_peers, char *out_error, size_t error_size);

/* Keeps a link to this member from now on; a new address replaces the old one. */
void peers_set_member(struct peers *peers, uint64_t id, const char *address);
void peers_remove_member(struct peers *peers, uint64_t id);
/* Ends the links to us of those who would not be admitted any more. */
void peers_check_visitors(struct peers *peers);

/* Queues a frame. False: there is no link now, or it is too far behind; nothing was queued. */
bool peers_send(struct peers *peers, uint64_t to_id, const struct peer_frame *frame);
/* Writes what was queued; once a turn of the loop. */
void peers_flush(struct peers *peers);
bool peers_is_linked(const struct peers *peers, uint64_t id);

/* Opens a connection for raft: see peer_dial.h, by which it can be cancelled. */
struct peer_dial *peers_dial_raft(struct peers *peers, uint64_t id, const char *address,
                                  void (*done)(void *data, uv_stream_t *stream, const char *reason),
                                  void *data);

/* Closes everything, then calls `closed`; the object is gone then. */
void peers_close(struct peers *peers, void (*closed)(void *data), void *data);

#endif
