/* What peers.c (life), peer_links.c (our links to them) and inbound_peers.c (theirs to us) share.
 */
#ifndef LEASED_PEERS_PEERS_INTERNAL_H
#define LEASED_PEERS_PEERS_INTERNAL_H

#include "base/list.h"
#include "base/unix_socket.h"
#include "peers/large_frames.h"
#include "peers/peer_connection.h"
#include "peers/peer_refusals.h"
#include "peers/peers.h"

#include <netinet/in.h>

enum {
    /* Deadlines, attempts and keepalives are looked at so often. */
    PEERS_TICK_MS = 50,
    /* Between two attempts to reach a member. */
    PEER_RETRY_MS = 100,
    /* An idle link sends a keepalive after its heartbeat interval, but within these bounds; so an
     * inbound connection that is silent for PEER_ALIVE_MS is dead. */
    PEER_KEEPALIVE_MS_MIN = 50,
    PEER_KEEPALIVE_MS_MAX = 300,
    PEER_ALIVE_MS = 1000
};

/* The file of a Unix socket that listens. */
struct peers_file {
    char path[UNIX_SOCKET_PATH_SIZE_MAX + 1]; /* empty: there is none */
    struct unix_socket_file file;
};

struct peers {
    struct peers_options options;
    char address[PEER_ADDRESS_SIZE_MAX + 1];
    struct peers_callbacks callbacks;
    void *data;
    struct tls_context *tls; /* NULL: plain text */
    struct peer_pool pool;
    uv_timer_t tick;
    bool is_closing;
    void (*closed)(void *data);
    void *closed_data;

    struct list links; /* of peer_links.c */

    /* Of inbound_peers.c. */
    union peer_socket listeners[PEERS_LISTENERS_MAX];
    struct peers_file files[PEERS_LISTENERS_MAX]; /* of those that are Unix sockets */
    bool is_accept_waiting[PEERS_LISTENERS_MAX];
    uv_prepare_t next_iteration;
    struct list inbound;  /* members */
    struct list unproven; /* oldest first */
    struct list ended;    /* to be freed */
    unsigned n_accepted;  /* in this iteration */
    struct large_frames large_frames;
    struct peer_refusals refusals;
};

/* --- peers.c --- */
struct peer_hello peers_hello(const struct peers *peers, uint64_t to_id);

/* --- peer_links.c --- */
void peer_links_tick(struct peers *peers, uint64_t now_ms);
void peer_links_close(struct peers *peers);
/* This member is up: no need to wait for the next attempt. */
void peer_links_hurry(struct peers *peers, uint64_t id);
/* A link to this member is kept, open or not. */
bool peer_links_have(const struct peers *peers, uint64_t id);
/* Some member is reached under this address, whatever the port. */
bool peer_links_have_address(const struct peers *peers, const struct sockaddr_storage *address);

/* Bytes of this member arrived. */
void peer_links_received(struct peers *peers, uint64_t id, size_t size);

/* --- inbound_peers.c --- */
/* Takes the listening socket over, for the listener of this number, which is of its kind. 0 or a uv
 * error. */
int inbound_peers_listen(struct peers *peers, size_t i, int socket);
void inbound_peers_tick(struct peers *peers, uint64_t now_ms);
void inbound_peers_close(struct peers *peers);
void inbound_peers_free_ended(struct peers *peers);

#endif
