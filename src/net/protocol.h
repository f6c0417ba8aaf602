/*
 * One wire protocol: a constant table of functions. A session of it takes bytes and gives bytes;
 * the connection that hosts it owns the socket. Nothing is ever freed from inside a session's
 * callbacks: the host closes a session only between calls.
 */
#ifndef LEASED_NET_PROTOCOL_H
#define LEASED_NET_PROTOCOL_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "net/net_shared.h"
#include "net/sniff.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct net_scope;
struct raw_route;
struct tls_identity;

/* What a session sees of its connection. */
struct protocol_host {
    struct net_shared *shared;
    /* There is output to fetch, or the state changed; may be called at any time and often. */
    void (*wake)(struct protocol_host *host);
    /* See net_connection_identity() and net_connection_address(); NULL: there is no socket. */
    const struct tls_identity *(*identity)(struct protocol_host *host);
    void (*address)(const struct protocol_host *host, char out_text[NET_ADDRESS_SIZE]);
    const struct net_scope
        *scope;                  /* what is spoken on the listener; NULL: the routes of `shared` */
    const struct raw_route *raw; /* of a raw session */
    bool is_encrypted;           /* TLS */
    size_t unsent_bytes;         /* produced and not yet taken by the socket */
    uint64_t answer_bytes;       /* bodies of answers produced so far: no control frames */
};

enum session_state {
    SESSION_OPENING, /* no complete preface or request yet */
    SESSION_OPEN,
    SESSION_ENDING, /* to be closed when its output is sent */
    SESSION_FAILED  /* to be closed at once */
};

/* The names in the client's certificate, which was verified. NULL: it showed none, or does not
 * speak TLS. Lives as long as the connection. */
static inline const struct tls_identity *net_connection_identity(struct protocol_host *host) {
    return host->identity != NULL ? host->identity(host) : NULL;
}

/* The client's address for logs: "127.0.0.1:52100", "[::1]:52100" or "unix". */
static inline void net_connection_address(const struct protocol_host *host,
                                          char out_text[NET_ADDRESS_SIZE]) {
    out_text[0] = '\0';
    if (host->address != NULL) {
        host->address(host, out_text);
    }
}

struct protocol {
    const char *name;
    enum sniff_result (*sniff)(struct bytes first);
    /* NULL: out of memory. */
    void *(*open)(struct protocol_host *host);
    void (*on_bytes)(void *session, struct bytes bytes);
    /* Appends about `size_max` bytes of output at most; nothing: there is none now. */
    void (*produce)(void *session, size_t size_max, struct buffer *out);
    /* Runs what must not run inside other calls: ends of calls, wake-ups of writers. */
    void (*settle)(void *session);
    enum session_state (*state)(const void *session);
    size_t (*queued_bytes)(const void *session);
    /* True when no request is being received or served, and nothing waits to be sent. */
    bool (*is_idle)(const void *session);
    /* True while a whole request waits for its answer: silence of the peer is in order. NULL: the
     * opposite of is_idle. */
    bool (*is_serving)(const void *session);
    /* False: no more bytes are wanted now, and the connection stops reading. NULL: always wanted.
     */
    bool (*wants_input)(const void *session);
    /* True: settle() will hand over input that was held back, which may be much work. NULL: never.
     */
    bool (*has_kept_input)(const void *session);
    /* Silence after which a connection that serves nothing is closed; 0: as the limits say. NULL:
     * the same. */
    uint64_t (*idle_limit_ms)(const void *session);
    /* The peer sends no more. What it has asked may still be answered: the connection is closed
     * once the session is idle. NULL: closed as soon as the output is sent. */
    void (*end_input)(void *session);
    /* True: the peer may still be sending what is not wanted, and gets a moment to read the last
     * answer before the connection is closed (RFC 9112, 9.6). NULL: never. */
    bool (*lingers)(const void *session);
    /* Asks the peer for a sign of life; NULL: the protocol has none, and silence ends a connection
     * that serves nothing. */
    void (*ping)(void *session);
    /* The server stops: no new requests, streams end. */
    void (*drain)(void *session);
    /* Ends every call and frees the session. */
    void (*close)(void *session);
};

extern const struct protocol http2_protocol;
extern const struct protocol http1_protocol;
extern const struct protocol tls_hello_protocol; /* TLS where plain text is spoken: refused */

#endif
