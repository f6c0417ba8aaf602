/*
 * Requests for votes, received and to be sent, that wait for the end of a promise not to vote.
 * Dropped at once, a candidate that was a moment early would wait for another election timeout. Of
 * each candidate only the newest request counts; all of them wait for a bounded time.
 */
#ifndef LEASED_RAFT_HELD_VOTES_H
#define LEASED_RAFT_HELD_VOTES_H

#include "raft/raft_message.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HELD_VOTES_MAX = 64 };

struct held_vote {
    uint64_t peer_id; /* whom it came from, or goes to */
    bool is_outgoing;
    uint64_t since_ms;
    struct message_vote vote;
};

struct held_votes {
    size_t n;
    struct held_vote votes[HELD_VOTES_MAX]; /* oldest first */
};

/* Replaces an older one of the same peer and direction. False: there are too many, it is dropped.
 */
bool held_votes_add(struct held_votes *held, const struct held_vote *vote);
/* Drops those that have waited for `wait_ms`. */
void held_votes_expire(struct held_votes *held, uint64_t now_ms, uint64_t wait_ms);
/* Takes out the one at this place. False: there is none. */
bool held_votes_take(struct held_votes *held, size_t at, struct held_vote *out_vote);

#endif
