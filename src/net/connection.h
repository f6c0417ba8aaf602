/*
 * One accepted socket: its first bytes identify the protocol, then a session serves it. The
 * connection moves bytes between the transport and the session, and watches the time: handshake,
 * silence, and writes that make no progress.
 */
#ifndef LEASED_NET_CONNECTION_H
#define LEASED_NET_CONNECTION_H

#include "base/list.h"
#include "net/backlog.h"
#include "net/connection_pool.h"
#include "net/net_timers.h"
#include "net/protocol.h"
#include "net/transport.h"
#include "net/turns.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a listener's connections have in common. */
struct connection_terms {
    const struct transport_kind *transport;
    struct tls_context *tls;       /* of a transport that encrypts; NULL otherwise */
    const struct net_scope *scope; /* what is spoken */
    const struct protocol *only;   /* the one protocol that is spoken; NULL: any of the scope */
};

struct connection {
    struct transport transport;
    struct connection_pool *pool;
    struct client_count *client; /* NULL: its address is not counted */
    struct protocol_host host;
    const struct protocol *only;     /* NULL: chosen by the first bytes */
    const struct protocol *protocol; /* NULL: not yet known */
    void *session;
    struct list in_pool;
    struct list in_dirty;
    struct net_timer life_timer;  /* handshake, then keepalive */
    struct net_timer write_timer; /* armed while the socket is full */
    struct backlog backlog;       /* answers that the peer has not taken */
    struct turn turn;             /* input that waits to be handled */
    uint64_t received_ms;         /* when bytes came last */
    size_t write_queue_noted;     /* what the socket still had to take when last looked at */
    size_t linger_bytes;          /* that came while it lingered */
    size_t catch_up_bytes;        /* bytes of before the last stall, still to be read */
    uint8_t sniffed[SNIFF_SIZE_MAX];
    uint8_t sniffed_size;
    bool is_reading;   /* wanted; while it waits for its turn the socket is left alone */
    bool is_pinged;    /* a PING is out and nothing came since */
    bool is_probed;    /* the kernel probes a peer that may be silent */
    bool is_ended;     /* the peer sends no more */
    bool is_lingering; /* all is sent, and what still comes is dropped for a moment */
    bool has_more;     /* to send than the last flush sent, though the socket takes it */
    bool must_close;   /* at the end of the iteration */
    bool is_closing;   /* the transport is being closed */
};

/* Takes over what `client` counts. NULL: refused, and the socket is closed. */
struct connection *connection_create(struct connection_pool *pool,
                                     const struct connection_terms *terms, int socket,
                                     struct client_count *client);

/* Handles input, all of it. For turns.c. */
void connection_feed(struct connection *connection, struct bytes bytes);
/* Its turn is over, and it may be read from again if that is wanted. */
void connection_go_on_reading(struct connection *connection);

/* Sends what there is, runs the ends of calls, closes if it is time. */
void connection_flush(struct connection *connection);
/* Whether that may take long: there is much to send, or input that a door had held back. */
bool connection_is_long_to_flush(const struct connection *connection);
/* At the end of the iteration; harmless more than once. */
void connection_close_later(struct connection *connection);
void connection_drain(struct connection *connection);
/* True when it serves nothing and has sent everything. */
bool connection_is_idle(const struct connection *connection);
/* Bytes that wait in the socket count as unread until they are read. */
void connection_begin_catch_up(struct connection *connection);

#endif
