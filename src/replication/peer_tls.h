/*
 * TLS under a connection between peers. Raft wants a stream that it owns, so it gets one end of a
 * pair of sockets, and so do links; what is written there comes out encrypted on the network, and
 * the other way round. What waits in between is bounded: who does not read is not read from.
 *
 *     raft, link ── stream ═ pair ═ inner ── peer_tls ── network ── the peer
 *
 * The owner keeps it until it has seen that all is well, then lets it go: from there on it ends by
 * itself when the stream is closed or the peer is gone.
 */
#ifndef LEASED_REPLICATION_PEER_TLS_H
#define LEASED_REPLICATION_PEER_TLS_H

#include <openssl/ssl.h>
#include <uv.h>

struct peer_tls;

enum {
    /* What waits in each direction, beside the sockets' own buffers. */
    PEER_TLS_BUFFER_SIZE = 64 * 1024,
    /* One side is gone: how long the last bytes for the other may stand still. */
    PEER_TLS_LINGER_MS = 1000
};

/* The socket of a handle that is closed here; -1: no descriptor is left. */
int peer_tls_take_socket(uv_tcp_t *tcp);

/* Begins the handshake. The socket and `ssl` now belong to it. `agreed` is called once, never from
 * inside, unless it is released before: with a stream when both sides have proven themselves (a
 * uv_pipe_t from malloc that belongs to the callee: uv_close it, then free it), or with NULL and
 * the reason. When it breaks later, the stream ends after what had arrived. NULL: it could not
 * begin, and everything is freed. */
struct peer_tls *peer_tls_start(uv_loop_t *loop, SSL *ssl, int socket,
                                void (*agreed)(void *data, uv_stream_t *stream, const char *reason),
                                void *data);

/* Why it ended, a constant text; NULL while it goes on. */
const char *peer_tls_ended(const struct peer_tls *tls);

/* To be called once, whatever happened. With a stream it goes on until either side ends; without
 * one it ends now. */
void peer_tls_release(struct peer_tls *tls);

#endif
