/*
 * Links between members. Each member dials every other and sends on the link it dialled; what comes
 * in, comes over the one inbound connection of each member. A connection opens with a hello in both
 * directions and, where a secret or certificates are configured, with a proof of who is calling;
 * nothing else is read before that. After it, frames: a length, a type, a body that is opaque here.
 *
 * Every byte is untrusted until the peer is proven, and bounded afterwards.
 */
#ifndef LEASED_PEERS_PEERS_H
#define LEASED_PEERS_PEERS_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/host_port.h"
#include "base/status.h"
#include "peers/peer_frame.h"
#include "peers/peer_hello.h"
#include "tls/tls_context.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct peers;

enum {
    PEERS_LISTENERS_MAX = 4,
    /* Bytes that wait on a link; a frame is begun only below this. */
    PEERS_QUEUE_SIZE_MAX = 16 * 1024 * 1024,
    /* What urgent frames may take beyond it, and beyond the last frame that was begun below it. */
    PEERS_URGENT_SIZE_MAX = 256 * 1024
};

struct peers_options {
    uint64_t cluster_id;
    uint64_t self_id;
    uint64_t data_dir_id; /* random number of the data directory */
    uint32_t heartbeat_ms;
    uint32_t election_ms;
    const char *listen_host; /* NULL: does not listen. "unix://PATH" has no port */
    uint16_t listen_port;
    /* Further places to listen on, at most PEERS_LISTENERS_MAX with the first. */
    const struct host_port *more_places;
    size_t n_more_places;
    const char *address;           /* under which peers reach this node */
    const struct tls_options *tls; /* NULL: plain text */
    struct bytes secret;           /* empty: none. Borrowed for the life of the peers */
};

/* Functions of this header may be called inside them, but for admit and asked. turned_away,
 * link_opened and link_lost may be NULL. */
struct peers_callbacks {
    /* May this (proven, or with neither secret nor certificate merely claimed) member be let in?
     * Also called again by peers_check_inbound(). */
    enum peer_answer (*admit)(void *data, const struct peer_hello *hello);
    /* A hello with purpose PEER_TO_ASK: append the answer's body (opaque here),
     * at most PEER_PAYLOAD_SIZE_MAX (peer_handshake.h). */
    void (*asked)(void *data, uint64_t id, struct buffer *out_body);
    /* A member refused us for good: PEER_REMOVED, PEER_DISK_REPLACED, PEER_NOT_A_MEMBER. Called
     * again at each attempt. Where a secret is configured, the refusal was proven. */
    void (*turned_away)(void *data, uint64_t by_id, enum peer_answer answer);
    /* A frame of this member; types begin at 1. False: malformed, the connection is closed. */
    bool (*frame)(void *data, uint64_t from_id, uint8_t type, struct bytes body);
    /* Our own link to this member. The hello is the one with which it answered (its timers). */
    void (*link_opened)(void *data, uint64_t id, const struct peer_hello *hello);
    /* It broke, or the member was removed (then from inside that call). What
     * was sent may not have arrived. */
    void (*link_lost)(void *data, uint64_t id);
};

/* STATUS_IO, STATUS_INVALID with a reason (the port is taken, a certificate cannot be read); the
 * loop must turn once more then. The texts of the TLS options and the secret outlive the peers; the
 * rest is copied. */
enum status peers_open(uv_loop_t *loop, const struct peers_options *options,
                       const struct peers_callbacks *callbacks, void *data,
                       struct peers **out_peers, char *out_error, size_t error_size);
/* At any moment, also in the middle of dialling, resolving, handshakes and writes; nothing is
 * called any more but closed, within a second. */
void peers_close(struct peers *peers, void (*closed)(void *data), void *data);

/* Keeps a link to this member, at this address (host:port, or unix://PATH); a new address is
 * for the next link: one that is open stays. */
void peers_set_member(struct peers *peers, uint64_t id, const char *address);
void peers_remove_member(struct peers *peers, uint64_t id);
bool peers_is_linked(const struct peers *peers, uint64_t id);
/* Asks admit() again about everybody who is connected, and ends the connections of those refused.
 */
void peers_check_inbound(struct peers *peers);

/* What went over the links with this member since it was made known. True: ours is up. */
struct peers_traffic {
    uint64_t sent_bytes;
    uint64_t sent_failures; /* frames not taken because the link is down or full, and lost links */
    uint64_t received_bytes;
};
bool peers_traffic(const struct peers *peers, uint64_t id, struct peers_traffic *out_traffic);

/* Asks an address who belongs to the cluster, with what these peers prove themselves with; see
 * peer_ask_start(). To be cancelled before the peers are closed. */
struct peer_ask;
struct peer_ask *peers_ask(struct peers *peers, const char *address,
                           void (*done)(void *data, struct bytes body, const char *reason),
                           void *data);

/* Connections refused since the start, for whatever reason. */
uint64_t peers_n_refused(const struct peers *peers);

/* Bytes that the link takes before it is full; 0: down or full. */
size_t peers_room(const struct peers *peers, uint64_t id);
/* Begins a frame in the link's queue and returns the buffer to which its body is appended; NULL:
 * the link is down or full. peers_frame_end() completes it, before anything else is done here.
 * Small frames (votes, heartbeats, pings) may pass `is_urgent`: they are taken even when the queue
 * is full for others, within a reserve. */
struct buffer *peers_frame_begin(struct peers *peers, uint64_t to_id, uint8_t type, bool is_urgent);
void peers_frame_end(struct peers *peers, uint64_t to_id);
/* Writes what was queued, at the end of an iteration. */
void peers_flush(struct peers *peers);

#endif
