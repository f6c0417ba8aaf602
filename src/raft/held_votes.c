#include "raft/held_votes.h"

#include <string.h>

static void remove_at(struct held_votes *held, size_t at) {
    held->n--;
    memmove(&held->votes[at], &held->votes[at + 1], (held->n - at) * sizeof held->votes[0]);
}

bool held_votes_add(struct held_votes *held, const struct held_vote *vote) {
    for (size_t i = 0; i < held->n; i++) {
        const struct held_vote *other = &held->votes[i];
        if (other->peer_id == vote->peer_id && other->is_outgoing == vote->is_outgoing) {
            remove_at(held, i);
            break;
        }
    }
    if (held->n == HELD_VOTES_MAX) {
        return false;
    }
    held->votes[held->n++] = *vote;
    return true;
}

void held_votes_expire(struct held_votes *held, uint64_t now_ms, uint64_t wait_ms) {
    for (size_t i = 0; i < held->n;) {
        if (now_ms - held->votes[i].since_ms >= wait_ms) {
            remove_at(held, i);
        } else {
            i++;
        }
    }
}

bool held_votes_take(struct held_votes *held, size_t at, struct held_vote *out_vote) {
    if (at >= held->n) {
        return false;
    }
    *out_vote = held->votes[at];
    remove_at(held, at);
    return true;
}
