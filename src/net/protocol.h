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

/* What a session sees of its connection. */
struct protocol_host {
    struct net_shared *shared;
    /* There is output to fetch, or the state changed; may be called at any time and often. */
    void (*wake)(struct protocol_host *host);
    size_t unsent_bytes;   /* produced and not yet taken by the socket */
    uint64_t answer_bytes; /* bodies of answers produced so far: no control frames */
};

enum session_state {
    SESSION_OPENING, /* no complete preface or request yet */
    SESSION_OPEN,
    SESSION_ENDING, /* to be closed when its output is sent */
    SESSION_FAILED  /* to be closed at once */
};

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
    /* True when no request is being served. */
    bool (*is_idle)(const void *session);
    /* Asks the peer for a sign of life; NULL: the protocol has none, silence ends the connection.
     */
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
