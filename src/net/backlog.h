/*
 * What waits for the peer of one connection, and for how long the peer has taken nothing of it.
 * HTTP/2 lets a peer that lives and answers PINGs keep its windows closed for ever, so time limits
 * on the socket do not end this. A connection that holds much and takes nothing is closed after a
 * while, and much sooner when all together hold so much that others would be refused.
 */
#ifndef LEASED_NET_BACKLOG_H
#define LEASED_NET_BACKLOG_H

#include "base/list.h"
#include "net/net_timers.h"

#include <stdbool.h>
#include <stdint.h>

struct connection;

struct backlog {
    struct list in_pool;    /* in the pool's backlogs while something waits */
    struct net_timer timer; /* the next look, armed while something waits */
    uint64_t taken_bytes;   /* of answers, all that the peer had taken at the last look */
    uint64_t looked_ms;
    uint64_t stuck_ms; /* nothing was taken for so long; a stall of ours does not count */
    bool is_flushed;   /* since the last look */
};

void backlog_init(struct backlog *backlog);
/* To be called whenever the connection was flushed: begins or ends the watch. */
void backlog_update(struct connection *connection);
/* The connection closes. */
void backlog_clear(struct connection *connection);

#endif
