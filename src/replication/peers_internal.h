/* What peers.c (our links to them) and peer_visitors.c (their links to us) share. */
#ifndef LEASED_REPLICATION_PEERS_INTERNAL_H
#define LEASED_REPLICATION_PEERS_INTERNAL_H

#include "base/arena.h"
#include "base/list.h"
#include "replication/peer_refusals.h"
#include "replication/peers.h"

enum {
    PEER_READ_SIZE = 64 * 1024,
    /* Members that were removed, of those that this process has known. */
    PEERS_FORGOTTEN_MAX = 64
};

struct peers {
    uv_loop_t *loop;
    struct peers_options options;
    const struct peers_callbacks *callbacks;
    void *data;
    uv_tcp_t listener;
    uv_timer_t retry;
    struct list links;
    struct list visitors;
    size_t n_strangers;
    struct peer_tls_context *tls; /* NULL: plain text */
    struct peer_refusals refusals;
    size_t n_forgotten;
    uint64_t forgotten[PEERS_FORGOTTEN_MAX];
    struct arena arena;
    uint8_t *read_buffer;
    bool is_listening;
    bool is_closing;
    size_t n_handles; /* that must close before the object may go */
    void (*closed)(void *data);
    void *closed_data;
};

/* One of its handles is closed: the last one takes the object along. */
void peers_handle_closed(struct peers *peers);

/* STATUS_IO, with a reason. */
enum status peer_visitors_listen(struct peers *peers, char *out_error, size_t error_size);
void peer_visitors_end(struct peers *peers);

#endif
