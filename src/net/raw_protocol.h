/*
 * A protocol that is neither HTTP nor gRPC, as a door sees it: a constant table of functions, and a
 * connection that takes bytes and gives bytes. Sockets, TLS, output that waits for a slow reader,
 * limits and time are done below this line. Everything happens on the loop's thread and nothing
 * blocks.
 */
#ifndef LEASED_NET_RAW_PROTOCOL_H
#define LEASED_NET_RAW_PROTOCOL_H

#include "base/bytes.h"
#include "net/net_server.h"
#include "net/sniff.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct caller; /* core/caller.h; net keeps it without looking into it */
struct raw_connection;
struct tls_identity;

/* The connection stays although nothing comes, as long as the peer's kernel answers. */
#define RAW_NO_IDLE_LIMIT UINT64_MAX

struct raw_protocol {
    const char *name;
    /* Whether a connection that begins with these bytes speaks this protocol: SNIFF_YES needs bytes
     * that no other protocol begins with, within SNIFF_SIZE_MAX. HTTP is asked first, then raw
     * protocols in the order of the doors. NULL: the protocol cannot be recognised, and is spoken
     * only on listeners of its own. There nothing is sniffed, and on_open() is called when the
     * connection is accepted. */
    enum sniff_result (*sniff)(struct bytes first);
    /* Bytes of an unfinished message that are kept; a peer that needs more breaks the protocol. */
    size_t partial_max;
    /* Silence after which a connection on which nothing is served is closed; 0: the limit of HTTP.
     * May be changed for one connection by raw_connection_set_idle_limit(). */
    uint64_t idle_limit_ms;

    /* A connection begins. False: out of memory, it is closed without a call of on_close. May be
     * NULL. */
    bool (*on_open)(struct raw_connection *connection);
    /* Bytes, borrowed for the call. Gives how many of them were whole messages; the rest is kept
     * and comes again, with more behind it. Stops early when it paused the connection. */
    size_t (*on_bytes)(struct raw_connection *connection, struct bytes bytes);
    /* raw_connection_is_writable() was false, and half of what waited has been taken. May be NULL.
     */
    void (*on_writable)(struct raw_connection *connection);
    /* The server stops: no new requests should be taken, and the connection closes when nothing is
     * being served. May be NULL. */
    void (*on_drain)(struct raw_connection *connection);
    /* The connection is over for whatever reason. Exactly once, last; never from inside the
     * functions below. */
    void (*on_close)(struct raw_connection *connection);
};

/* What was given with the protocol: the door. */
void *raw_connection_context(const struct raw_connection *connection);
/* The door's own state of this connection. */
void raw_connection_set_data(struct raw_connection *connection, void *data);
void *raw_connection_data(const struct raw_connection *connection);

/* The names in the client's certificate, which was verified; NULL: it showed none, or does not
 * speak TLS. */
const struct tls_identity *raw_connection_identity(const struct raw_connection *connection);
/* The common name in it, as a text; false: there is none, or no room for it. */
bool raw_connection_certificate_name(const struct raw_connection *connection, char *out_name,
                                     size_t size);
/* The client's address for logs. */
void raw_connection_address(const struct raw_connection *connection,
                            char out_text[NET_ADDRESS_SIZE]);
/* The caller of the next request: what the door has set after its protocol's own way to log in,
 * else the user of the client's certificate, else all bytes are zero, an anonymous client. To be
 * asked for each request. */
const struct caller *raw_connection_caller(struct raw_connection *connection);
void raw_connection_set_caller(struct raw_connection *connection, const void *caller,
                               size_t caller_size);

/* Queues bytes (copied). Never blocks and never fails: a peer that lets more than the limit gather
 * is closed. Harmless when the connection is over. */
void raw_connection_send(struct raw_connection *connection, struct bytes bytes);
/* What was queued and the peer has not taken. */
size_t raw_connection_unsent_bytes(const struct raw_connection *connection);
/* The same of all connections of the listener's server, whatever they speak, with what waits for
 * sockets. */
size_t raw_connection_queued_by_all(const struct raw_connection *connection);
/* Something waits until there is less of that: who takes nothing of what it has is closed soon. */
void raw_connection_want_room(struct raw_connection *connection);
/* False when more than the high-water mark waits for this peer, and when the connection is over, so
 * that `while writable, send` always ends. on_writable follows. */
bool raw_connection_is_writable(struct raw_connection *connection);

/* No more bytes are given or read until resume. What was read already is kept. */
void raw_connection_pause(struct raw_connection *connection);
void raw_connection_resume(struct raw_connection *connection);

/* A request is being served, from begin to end: the connection is not idle, and a server that stops
 * waits for it. They are counted. */
void raw_connection_begin_request(struct raw_connection *connection);
void raw_connection_end_request(struct raw_connection *connection);

void raw_connection_set_idle_limit(struct raw_connection *connection, uint64_t idle_limit_ms);

/* Closes when everything queued is sent. No more bytes are given. */
void raw_connection_close(struct raw_connection *connection);
/* Closes at once and drops what is queued: for a peer that does not take it. `reason` is a constant
 * text for the log. */
void raw_connection_abort(struct raw_connection *connection, const char *reason);
/* The peer broke the protocol: counted, and closed as above. `reason` is a constant text for the
 * log. */
void raw_connection_refuse(struct raw_connection *connection, const char *reason);

#endif
