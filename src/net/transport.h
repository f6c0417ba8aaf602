/*
 * What carries the bytes of a connection: TCP, a Unix socket, or TLS over either. Each kind is a
 * constant table of functions; a connection knows only this header. Plain kinds hand on the bytes
 * as the socket gave them and write straight to the socket: nothing is copied unless the socket is
 * full.
 */
#ifndef LEASED_NET_TRANSPORT_H
#define LEASED_NET_TRANSPORT_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/list.h"
#include "net/protocol.h"
#include "tls/tls_stream.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

enum { TRANSPORT_READ_SIZE = 64 * 1024 };

struct transport;

/* What the owner of a transport learns. It frees nothing inside these calls. */
struct transport_events {
    /* `wire_size` bytes were read from the socket. `bytes` is what the peer said with them, valid
     * for the call; nothing while TLS is being agreed on. */
    void (*on_bytes)(struct transport *transport, struct bytes bytes, size_t wire_size);
    /* The peer sends no more. It may still read. */
    void (*on_end)(struct transport *transport);
    /* The transport is broken and to be closed. */
    void (*on_failed)(struct transport *transport);
    /* The socket has taken everything that was queued. */
    void (*on_sent)(struct transport *transport);
    /* transport_close() is complete: the memory may be freed. */
    void (*on_closed)(struct transport *transport);
};

enum transport_result {
    TRANSPORT_SENT,   /* the socket has taken all of it */
    TRANSPORT_QUEUED, /* the socket is full; on_sent follows */
    TRANSPORT_FAILED  /* to be closed */
};

struct transport_kind {
    const char *name;
    /* Takes over the socket. False: it cannot be used, and is still the caller's. */
    bool (*open)(struct transport *transport, int socket);
    /* What the socket gave: ciphertext where the kind encrypts. */
    void (*received)(struct transport *transport, struct bytes wire);
    void (*ended)(struct transport *transport);
    enum transport_result (*write)(struct transport *transport, struct bytes bytes);
    /* Says goodbye; nothing is written afterwards. */
    void (*end_output)(struct transport *transport);
    void (*close)(struct transport *transport);
};

extern const struct transport_kind transport_tcp;
extern const struct transport_kind transport_unix;
extern const struct transport_kind transport_tls_tcp;
extern const struct transport_kind transport_tls_unix;
extern const struct transport_kind transport_tls_or_tcp; /* until the first byte tells */

/* What all transports of one server share: memory that is used within one call, and the time that
 * handshakes took in this iteration of the loop. */
struct transport_shared {
    uv_loop_t *loop;
    struct net_shared *net;
    uint8_t *read_buffer; /* bytes are used up before the next read */
    size_t read_size;     /* at most so many in one read: less when much waits to be handled */
    struct buffer plaintext;
    struct buffer ciphertext;
    uint64_t handshake_ns;  /* spent on handshakes in this iteration */
    struct list waiting;    /* transports whose handshakes wait for the next iteration */
    struct list handshakes; /* transports in their handshake, the oldest first */
    size_t n_handshakes;
    uint64_t failure_logged_ms;
    uint64_t n_failures_unlogged;
};

struct transport {
    const struct transport_kind *kind;
    const struct transport_events *events;
    struct transport_shared *shared;
    union {
        uv_handle_t handle;
        uv_stream_t stream;
        uv_tcp_t tcp;
        uv_pipe_t pipe;
    } socket;
    struct tls_context *tls_context; /* NULL: plain text */
    struct tls_stream *tls;          /* NULL: plain text, or nothing came yet */
    struct tls_identity *identity;   /* NULL: not asked for yet, or there is none */
    struct list in_waiting;
    struct list in_handshakes;
    unsigned n_writes; /* of libuv, under way: the socket is full */
    bool is_reading;   /* wanted by the owner */
    bool is_closing;
};

/* Aborts when memory is out. */
void transport_shared_init(struct transport_shared *shared, struct net_shared *net,
                           uv_loop_t *loop);
void transport_shared_clear(struct transport_shared *shared);
/* To be called once in each iteration of the loop: handshakes that waited go on. */
void transport_shared_iterate(struct transport_shared *shared);

/* Takes over an accepted socket. `tls_context` belongs to the kinds that encrypt and outlives the
 * transport. False: the socket is closed, and on_closed follows as after transport_close(). */
bool transport_open(struct transport *transport, struct transport_shared *shared,
                    const struct transport_kind *kind, struct tls_context *tls_context,
                    const struct transport_events *events, int socket);
/* Says goodbye where the kind has one, drops what is queued, and calls on_closed later. */
void transport_close(struct transport *transport);

/* False: the transport is broken. Harmless when it reads already. */
bool transport_start_reading(struct transport *transport);
void transport_stop_reading(struct transport *transport);

/* Sends all of it or queues the rest. Only while transport_is_open(). */
static inline enum transport_result transport_write(struct transport *transport,
                                                    struct bytes bytes) {
    return transport->kind->write(transport, bytes);
}

/* True when bytes may be written: always in plain text, with TLS once it is agreed on. on_bytes
 * follows each step towards that, with no bytes in it. */
static inline bool transport_is_open(const struct transport *transport) {
    return transport->tls_context == NULL ||
           (transport->tls != NULL && tls_stream_state(transport->tls) != TLS_HANDSHAKE);
}

/* The peer learns that no more comes, and may go on sending. Everything written was sent. */
static inline void transport_end_output(struct transport *transport) {
    transport->kind->end_output(transport);
}

/* True while the socket takes no more. */
static inline bool transport_is_full(const struct transport *transport) {
    return transport->n_writes > 0;
}
/* Bytes that wait for the socket. */
size_t transport_unsent_bytes(const struct transport *transport);
/* Bytes that the kernel holds and the peer's has not taken. */
size_t transport_unacknowledged_bytes(const struct transport *transport);
/* Bytes that the kernel holds and we have not read. Of a record that came in part, what came is
 * read and what did not cannot be counted: nothing of ours is decrypted and held back. */
size_t transport_unread_bytes(const struct transport *transport);
/* True when the kernel has room, whatever libuv has seen of it. */
bool transport_has_room(const struct transport *transport);

/* The names in the peer's certificate, verified; NULL: it showed none. Lives as long as the
 * transport. */
const struct tls_identity *transport_identity(struct transport *transport);
/* The peer sends no more: the kernel asks it from time to time whether it is still there. libuv
 * does not look at a stream that has ended, so transport_is_broken() has to be asked. */
void transport_probe_peer(struct transport *transport);
/* True when the peer is known to be gone. */
bool transport_is_broken(const struct transport *transport);

/* The peer's address for logs: "127.0.0.1:52100", "[::1]:52100" or "unix". */
void transport_peer_text(const struct transport *transport, char out_text[NET_ADDRESS_SIZE]);
/* The same of a socket that no transport has taken over. */
void transport_socket_text(int socket, char out_text[NET_ADDRESS_SIZE]);

#endif
