/*
 * Lines about peers that were turned away. A peer that is set up wrongly comes again ten times a
 * second, and a stranger may come as often as it likes: the same line is told once in a while, and
 * of different ones no more than a few.
 */
#ifndef LEASED_REPLICATION_PEER_REFUSALS_H
#define LEASED_REPLICATION_PEER_REFUSALS_H

#include <stdbool.h>
#include <stdint.h>

enum {
    PEER_REFUSALS_MAX = 8, /* different lines told within the time */
    PEER_REFUSALS_MS = 10 * 1000,
    PEER_REFUSAL_SIZE_MAX = 256
};

/* All zeros to begin with. */
struct peer_refusals {
    struct {
        char text[PEER_REFUSAL_SIZE_MAX];
        uint64_t until_ms;
    } told[PEER_REFUSALS_MAX];
};

/* Whether this should be told now; it counts as told then. `from` is where the peer comes from. */
bool peer_refusals_note(struct peer_refusals *refusals, const char *from, const char *reason,
                        uint64_t now_ms);

#endif
