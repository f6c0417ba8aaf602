/*
 * Opening a connection to a peer: look up its name, connect to one of its addresses, agree on TLS
 * where it is used, prove who is calling, and wait for the answer. Never blocks the loop. A name
 * may take as long to look up as it likes; from the address on it ends within PEER_DIAL_TIMEOUT_MS.
 */
#ifndef LEASED_PEERS_PEER_DIAL_H
#define LEASED_PEERS_PEER_DIAL_H

#include "peers/peer_connection.h"
#include "peers/peer_hello.h"
#include "peers/peer_lookup.h"

enum { PEER_DIAL_TIMEOUT_MS = 2000 };

struct peer_dial;

struct peer_dial_options {
    struct peer_pool *pool;
    struct tls_context *tls;          /* NULL: plain text */
    struct bytes secret;              /* empty: none */
    const char *address;              /* host:port, or unix://PATH */
    const struct peer_hello *hello;   /* its nonce is filled in here */
    struct peer_addresses *addresses; /* what the name stands for, once known; may be NULL */
    /* Attempts so far: each begins with another address, so that one that swallows everything does
     * not hide those behind it. */
    unsigned n_attempts;
};

struct peer_dial_result {
    /* NULL: it failed. Otherwise the callee's, who takes it over with peer_connection_hand_over().
     */
    struct peer_connection *connection;
    const char *reason;      /* why it failed: a constant text */
    enum peer_answer answer; /* a refusal by the peer; PEER_WELCOME: it failed otherwise */
    bool is_proven;          /* the refusal can be believed as far as anything can */
    struct bytes payload;    /* of the welcome, borrowed */
};

/* `done` is called exactly once, never from inside, unless it is cancelled. */
struct peer_dial *peer_dial_start(const struct peer_dial_options *options,
                                  void (*done)(void *data, const struct peer_dial_result *result),
                                  void *data);
/* Nothing is called any more. */
void peer_dial_cancel(struct peer_dial *dial);

#endif
