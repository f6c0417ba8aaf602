/*
 * Connections beyond `connections_max` or `client_connections_max`. A few at a time are kept until
 * their first bytes identify the protocol, get an answer in it that there is no room (HTTP/1.1:
 * 503; HTTP/2: GOAWAY), and are closed; all others are closed at once. So a client learns why, and
 * refusing costs a bounded number of descriptors.
 */
#ifndef LEASED_NET_REFUSAL_H
#define LEASED_NET_REFUSAL_H

#include "base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Sockets held at a time for their answer; descriptors.c counts these. */
enum { REFUSALS_MAX = 16 };

struct connection_pool;

enum refusal_reason { REFUSED_FOR_ALL, REFUSED_FOR_CLIENT, REFUSAL_REASONS };

struct refusal_log {
    uint64_t logged_ms; /* when it was last logged; 0: never */
    uint64_t n_unlogged;
};

struct refusals {
    struct list open; /* struct refusal by in_refusals */
    size_t n_open;
    struct refusal_log logs[REFUSAL_REASONS];
};

void refusals_init(struct refusals *refusals);

/* Takes over a socket that was accepted and for which there is no room. */
void refusals_add(struct connection_pool *pool, int socket, enum refusal_reason reason);

/* Closes all of them; their handles count in pool->n_handles until they are gone. */
void refusals_close(struct connection_pool *pool);

#endif
