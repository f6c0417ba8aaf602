/*
 * One connection between members, over TCP or a Unix socket, with TLS or without: bytes in, bytes
 * out, its end. One write is under way at a time while the next one gathers. What has arrived and
 * is not yet used is kept; nothing is allocated for what is only announced.
 *
 * Nothing is called after peer_connection_close(), nor after `ended`. Nothing is called from inside
 * the functions here.
 */
#ifndef LEASED_PEERS_PEER_CONNECTION_H
#define LEASED_PEERS_PEER_CONNECTION_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "peers/peer_handles.h"
#include "tls/tls_stream.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

enum {
    /* A connection ends when what was sent stays unacknowledged for so long. */
    PEER_SILENCE_MS_MAX = 2000
};

/* What the connections of one owner share. */
struct peer_pool {
    uv_loop_t *loop;
    struct peer_handles handles;
    uint8_t *read_buffer;
    struct buffer plaintext;
};

void peer_pool_init(struct peer_pool *pool, uv_loop_t *loop, void (*gone)(void *data), void *data);
void peer_pool_clear(struct peer_pool *pool);

struct peer_connection_events {
    /* Connected, and TLS is agreed on where it is used. Writing is allowed from now on. */
    void (*ready)(void *owner);
    /* Bytes, borrowed; returns how many were used. The others come again with more behind them. */
    size_t (*received)(void *owner, struct bytes bytes);
    /* It broke, and is closed already: the last call. */
    void (*ended)(void *owner, const char *reason);
};

struct peer_connection;

/* A socket of either kind, that listens or is connected. */
union peer_socket {
    uv_handle_t handle;
    uv_stream_t stream;
    uv_tcp_t tcp;
    uv_pipe_t pipe;
};

/* The stream is taken over, also on failure; NULL: plain text. NULL is returned, with a constant
 * text, when it failed at once. */
struct peer_connection *peer_connection_connect(struct peer_pool *pool,
                                                const struct sockaddr_storage *address,
                                                struct tls_stream *tls,
                                                const struct peer_connection_events *events,
                                                void *owner, const char **out_reason);
struct peer_connection *peer_connection_accept(struct peer_pool *pool, uv_stream_t *listener,
                                               struct tls_stream *tls,
                                               const struct peer_connection_events *events,
                                               void *owner);
/* A new owner. Bytes that the old one left are offered to it with the next that arrive. */
void peer_connection_hand_over(struct peer_connection *connection,
                               const struct peer_connection_events *events, void *owner);
/* The connection and what waits in it go. */
void peer_connection_close(struct peer_connection *connection);

/* Unused bytes beyond this end the connection. */
void peer_connection_set_limit(struct peer_connection *connection, size_t unused_size_max);
/* Nothing more is read until it is resumed. */
void peer_connection_pause(struct peer_connection *connection);
void peer_connection_resume(struct peer_connection *connection);
/* Where bytes to be sent are appended, once it is ready; peer_connection_flush() sends them. */
struct buffer *peer_connection_queue(struct peer_connection *connection);
void peer_connection_flush(struct peer_connection *connection);
/* Bytes that wait or are under way. */
size_t peer_connection_queued(const struct peer_connection *connection);
/* Sends what is queued, then the end of the stream. What arrives is thrown away; `ended` follows
 * when the other side hangs up, or never. */
void peer_connection_finish(struct peer_connection *connection);

/* The other side has said something, were it only the beginning of TLS. */
bool peer_connection_has_received(const struct peer_connection *connection);
/* The other side has closed, although what it sent before may not have been read yet. */
bool peer_connection_is_hung_up(const struct peer_connection *connection);
/* tls_stream_binding() of the connection, once it is ready; false: none is needed, or there is
 * none.
 */
bool peer_connection_binding(const struct peer_connection *connection,
                             uint8_t out_binding[TLS_BINDING_SIZE]);
/* False: unknown. */
bool peer_connection_remote(const struct peer_connection *connection,
                            struct sockaddr_storage *out_address);

#endif
