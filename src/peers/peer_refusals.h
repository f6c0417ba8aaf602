/*
 * Log lines about refused connections. A peer that is configured wrongly comes again ten times a
 * second, and an unauthenticated caller as often as it likes: the same line is logged once in a
 * while, and of different ones no more than a few. All of them are counted.
 */
#ifndef LEASED_PEERS_PEER_REFUSALS_H
#define LEASED_PEERS_PEER_REFUSALS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    PEER_REFUSALS_MAX = 8, /* different lines logged within the time */
    PEER_REFUSALS_MS = 10 * 1000,
    PEER_REFUSAL_SIZE_MAX = 256
};

/* All zeros to begin with. */
struct peer_refusals {
    uint64_t n_refused;
    struct {
        char text[PEER_REFUSAL_SIZE_MAX];
        uint64_t until_ms;
    } logged[PEER_REFUSALS_MAX];
};

/* Counts it. True: it should be logged now, and counts as logged. `from` is the caller's address.
 */
bool peer_refusals_note(struct peer_refusals *refusals, const char *from, const char *reason,
                        uint64_t now_ms);

#endif
