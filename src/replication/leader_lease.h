/*
 * Who may speak for the cluster, and until when: the leader's lease and the voters' promise. The
 * leader sends pings that carry their send time and the length of its lease; a voter that answers
 * promises neither to vote nor to stand for election for that long, counted on its own clock from
 * the moment it got the ping. The leader counts from the moment it sent it, and less a margin for
 * clocks that drift, so its lease ends before any promise does (safety rules 3 and 4). The length
 * is the leader's, so members whose election timeouts differ are safe.
 *
 * Pure: time is an argument, nothing is sent from here.
 */
#ifndef LEASED_REPLICATION_LEADER_LEASE_H
#define LEASED_REPLICATION_LEADER_LEASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LEADER_LEASE_VOTERS_MAX = 16 };

/* How much of an election timeout the leader gives away because clocks may run at different rates:
 * one part in this many. */
enum { LEADER_LEASE_DRIFT_PARTS = 10 };

/* The leader's side. */
struct leader_lease {
    uint64_t term; /* 0: not leading */
    uint32_t election_ms;
    uint64_t begun_ms; /* answers to pings sent before do not count */
    size_t n_voters;   /* this node included, when it votes */
    bool self_votes;
    struct {
        uint64_t id;
        uint64_t answered_ms;          /* when the newest ping it answered was sent; 0: none */
    } voters[LEADER_LEASE_VOTERS_MAX]; /* the others */
    size_t n_others;
};

/* Begins a term as leader, or goes on in it after leader_lease_end(), among the given other voters;
 * nothing is answered yet. A voter that was released is bound by nothing that it answered before:
 * such an answer may still be on its way. */
void leader_lease_begin(struct leader_lease *lease, uint64_t term, uint32_t election_ms,
                        uint64_t now_ms, bool self_votes, const uint64_t *other_voters,
                        size_t n_others);
/* Gives it up, before leadership is transferred or when it is lost. */
void leader_lease_end(struct leader_lease *lease);
/* The voters changed; what those answered that stay is kept. */
void leader_lease_set_voters(struct leader_lease *lease, bool self_votes,
                             const uint64_t *other_voters, size_t n_others);
/* A voter answered the ping of this term that was sent at sent_ms. Answers of other terms do not
 * count. */
void leader_lease_answered(struct leader_lease *lease, uint64_t voter, uint64_t term,
                           uint64_t sent_ms);
/* When the newest ping was sent that this voter answered; 0: none. */
uint64_t leader_lease_heard_ms(const struct leader_lease *lease, uint64_t voter);
/* The newest moment such that a majority answered a ping sent then or later; 0: none, UINT64_MAX
 * when this node is a majority by itself. A read that arrived before it is safe. */
uint64_t leader_lease_confirmed_ms(const struct leader_lease *lease);
/* True while no other leader can exist. */
bool leader_lease_is_valid(const struct leader_lease *lease, uint64_t now_ms);

/* What a leader said, in which term, and when on its own clock. */
struct leader_word {
    uint64_t leader_id;
    uint64_t term;
    uint64_t sent_ms;
};

/* The voter's side: until when it has promised. */
struct voter_promise {
    uint64_t until_ms;
    struct leader_word ping; /* for which; leader_id 0: to somebody before this process started */
};

/* A voter that starts may have promised just before it went down, for so long. */
void voter_promise_init(struct voter_promise *promise, uint32_t longest_ms, uint64_t now_ms);
/* A ping came from the leader of the voter's own term: it is answered and binds for as long as it
 * says. A longer promise to the same leader, or to an earlier one, is not cut short. */
void voter_promise_make(struct voter_promise *promise, const struct leader_word *ping,
                        uint32_t lease_ms, uint64_t now_ms);
/* The leader has given up its lease and says so. Its word counts if it is not older than the ping
 * that the promise was given for; a message of somebody else's, or a late one, frees nobody. */
void voter_promise_release(struct voter_promise *promise, const struct leader_word *release);
/* May a vote be given to, or asked for by, this candidate? */
bool voter_promise_allows(const struct voter_promise *promise, uint64_t candidate_id,
                          uint64_t now_ms);

#endif
