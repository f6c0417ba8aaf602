/* Requests for votes, in both directions, between raft_uv and libraft. One that comes while a
 * promise stands waits for its end; to libraft that looks like a slow network. And who asks first
 * when a leader is lost. */
#include "base/clock.h"
#include "replication/raft_guard.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { HELD_VOTES_MAX = 64 };

struct raft_vote_held {
    struct raft_vote_held *next;
    struct raft_message message;
    char *address; /* ours: what the message came with may go */
    uint64_t since_ms;
    struct raft_io_send *request; /* NULL: received, not to be sent */
    raft_io_send_cb done;
};

static bool may_vote(struct raft_guard *guard, uint64_t candidate_id) {
    return guard->callbacks->may_vote == NULL ||
           guard->callbacks->may_vote(guard->data, candidate_id);
}

static uint64_t candidate_of(const struct raft_guard *guard, const struct raft_vote_held *held) {
    return held->request != NULL ? guard->self_id : held->message.server_id;
}

static void free_held(struct raft_vote_held *held) {
    free(held->address);
    free(held);
}

/* False: too many wait, and nobody needs so many. */
static bool hold(struct raft_guard *guard, const struct raft_message *message,
                 struct raft_io_send *request, raft_io_send_cb done) {
    size_t n = 0;
    struct raft_vote_held **end = &guard->held_votes;
    while (*end != NULL) {
        struct raft_vote_held *other = *end;
        if (request == NULL && other->request == NULL &&
            other->message.server_id == message->server_id) {
            /* Its newest request is the one that counts. */
            *end = other->next;
            free_held(other);
            continue;
        }
        n++;
        end = &other->next;
    }
    if (n >= HELD_VOTES_MAX) {
        return false;
    }
    struct raft_vote_held *held = malloc(sizeof *held);
    if (held == NULL) {
        abort();
    }
    *held = (struct raft_vote_held){
        .message = *message, .since_ms = clock_boottime_ms(), .request = request, .done = done};
    if (message->server_address != NULL) {
        held->address = strdup(message->server_address);
        if (held->address == NULL) {
            abort();
        }
    }
    held->message.server_address = held->address;
    *end = held;
    return true;
}

/* Whoever has heard of no leader for an election timeout has none, whatever libraft still thinks.
 */
static void mark_leaderless(struct raft_guard *guard, struct raft_message *message) {
    if (guard->callbacks->is_leaderless != NULL && guard->callbacks->is_leaderless(guard->data)) {
        message->request_vote.disrupt_leader = true;
    }
}

bool raft_votes_admit(struct raft_guard *guard, struct raft_message *message) {
    if (may_vote(guard, message->server_id)) {
        mark_leaderless(guard, message);
        return true;
    }
    if (!hold(guard, message, NULL, NULL)) {
        guard->votes_dropped++;
    }
    return false;
}

int raft_votes_send(struct raft_guard *guard, struct raft_io_send *request,
                    const struct raft_message *message, raft_io_send_cb done) {
    struct raft_message vote = *message;
    if (guard->callbacks->may_vote != NULL && vote.request_vote.term != guard->transfer_term) {
        vote.request_vote.disrupt_leader = false;
    }
    if (may_vote(guard, guard->self_id)) {
        return guard->send(&guard->io, request, &vote, done);
    }
    if (!hold(guard, &vote, request, done)) {
        guard->votes_dropped++;
        return RAFT_NOCONNECTION;
    }
    return 0;
}

/* libraft wants a send to end in its callback. */
static void pass_on(struct raft_guard *guard, struct raft_vote_held *held) {
    if (held->request == NULL) {
        mark_leaderless(guard, &held->message);
        guard->recv(&guard->io, &held->message);
        return;
    }
    int rv = guard->send(&guard->io, held->request, &held->message, held->done);
    if (rv != 0) {
        held->done(held->request, rv);
    }
}

static void drop(struct raft_guard *guard, struct raft_vote_held *held) {
    guard->votes_dropped++;
    if (held->request != NULL) {
        held->done(held->request, guard->closing ? RAFT_CANCELED : RAFT_NOCONNECTION);
    }
}

/* libraft lets a follower wait for a time that it draws between one election timeout and two. With
 * every follower's turn known, the first one need not wait longer than its leader's silence proves
 * that it is gone, and no two ask at once. A part of a heartbeat is left for messages that reach
 * one follower later than another; whoever is next waits for a heartbeat more. */
void raft_votes_take_turn(struct raft *raft) {
    if (raft == NULL || raft->state != RAFT_FOLLOWER ||
        raft->follower_state.current_leader.id == 0) {
        return;
    }
    unsigned wait_ms = raft->heartbeat_timeout / 5;
    for (unsigned i = 0; i < raft->configuration.n; i++) {
        const struct raft_server *server = &raft->configuration.servers[i];
        if (server->role == RAFT_VOTER && server->id < raft->id &&
            server->id != raft->follower_state.current_leader.id) {
            wait_ms += raft->heartbeat_timeout;
        }
    }
    if (wait_ms > raft->election_timeout) {
        wait_ms = raft->election_timeout;
    }
    raft->follower_state.randomized_election_timeout = raft->election_timeout + wait_ms;
}

void raft_guard_turn(struct raft_guard *guard) {
    uint64_t now_ms = guard->held_votes == NULL ? 0 : clock_boottime_ms();
    struct raft_vote_held *waiting = guard->held_votes;
    struct raft_vote_held *still = NULL;
    struct raft_vote_held **still_end = &still;
    /* What is passed on may bring new ones, which go to the guard's own list. */
    guard->held_votes = NULL;
    while (waiting != NULL) {
        struct raft_vote_held *held = waiting;
        waiting = held->next;
        held->next = NULL;
        bool is_over = guard->closing || clock_elapsed_ms(now_ms, held->since_ms) >= guard->hold_ms;
        if (!guard->closing && may_vote(guard, candidate_of(guard, held))) {
            pass_on(guard, held);
        } else if (is_over) {
            drop(guard, held);
        } else {
            *still_end = held;
            still_end = &held->next;
            continue;
        }
        free_held(held);
    }
    *still_end = guard->held_votes;
    guard->held_votes = still;
}
