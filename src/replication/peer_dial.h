/*
 * Opening a connection to a peer: find the address, connect, agree on TLS where it is wanted, say
 * hello, wait for the one-byte answer. Used for raft's connections and for links alike. Ends within
 * PEER_DIAL_TIMEOUT_MS, and never blocks the loop: names are looked up by a worker.
 */
#ifndef LEASED_REPLICATION_PEER_DIAL_H
#define LEASED_REPLICATION_PEER_DIAL_H

#include "replication/peer_wire.h"

#include <uv.h>

struct peer_dial;
struct peer_tls_context;

enum {
    PEER_DIAL_TIMEOUT_MS = 2000,
    /* A connection ends when what was sent stays unacknowledged for so long. */
    PEER_SILENCE_MS_MAX = 2000
};

/* `done` is called exactly once, never from inside: with a connected stream that belongs to the
 * callee (a handle from malloc; uv_close it, then free it), or with NULL and a constant text that
 * gives the reason. `tls` is NULL for plain text, and outlives the dial otherwise. */
struct peer_dial *peer_dial_start(uv_loop_t *loop, struct peer_tls_context *tls,
                                  const char *address, const struct peer_hello *hello,
                                  void (*done)(void *data, uv_stream_t *stream, const char *reason),
                                  void *data);
/* Calls `done` with NULL before it returns. */
void peer_dial_cancel(struct peer_dial *dial);

#endif
