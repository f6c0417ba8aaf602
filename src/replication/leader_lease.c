#include "replication/leader_lease.h"

#include <assert.h>
#include <stdlib.h>

void leader_lease_begin(struct leader_lease *lease, uint64_t term, uint32_t election_ms,
                        uint64_t now_ms, bool self_votes, const uint64_t *other_voters,
                        size_t n_others) {
    *lease = (struct leader_lease){.term = term, .election_ms = election_ms, .begun_ms = now_ms};
    leader_lease_set_voters(lease, self_votes, other_voters, n_others);
}

void leader_lease_end(struct leader_lease *lease) {
    lease->term = 0;
}

uint64_t leader_lease_heard_ms(const struct leader_lease *lease, uint64_t voter) {
    for (size_t i = 0; i < lease->n_others; i++) {
        if (lease->voters[i].id == voter) {
            return lease->voters[i].answered_ms;
        }
    }
    return 0;
}

void leader_lease_set_voters(struct leader_lease *lease, bool self_votes,
                             const uint64_t *other_voters, size_t n_others) {
    assert(n_others <= LEADER_LEASE_VOTERS_MAX);
    struct leader_lease before = *lease;
    lease->self_votes = self_votes;
    lease->n_voters = n_others + self_votes;
    lease->n_others = n_others;
    for (size_t i = 0; i < n_others; i++) {
        lease->voters[i].id = other_voters[i];
        lease->voters[i].answered_ms = leader_lease_heard_ms(&before, other_voters[i]);
    }
}

void leader_lease_answered(struct leader_lease *lease, uint64_t voter, uint64_t term,
                           uint64_t sent_ms) {
    if (lease->term == 0 || lease->term != term || sent_ms < lease->begun_ms) {
        return;
    }
    for (size_t i = 0; i < lease->n_others; i++) {
        if (lease->voters[i].id == voter && lease->voters[i].answered_ms < sent_ms) {
            lease->voters[i].answered_ms = sent_ms;
        }
    }
}

static int compare_newest_first(const void *a, const void *b) {
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return (left < right) - (left > right);
}

uint64_t leader_lease_confirmed_ms(const struct leader_lease *lease) {
    uint64_t answered_ms[LEADER_LEASE_VOTERS_MAX];
    if (lease->term == 0 || lease->n_voters == 0) {
        return 0;
    }
    size_t needed = lease->n_voters / 2 + 1 - lease->self_votes;
    if (needed == 0) {
        return UINT64_MAX;
    }
    if (needed > lease->n_others) {
        return 0;
    }
    for (size_t i = 0; i < lease->n_others; i++) {
        answered_ms[i] = lease->voters[i].answered_ms;
    }
    qsort(answered_ms, lease->n_others, sizeof answered_ms[0], compare_newest_first);
    return answered_ms[needed - 1];
}

bool leader_lease_is_valid(const struct leader_lease *lease, uint64_t now_ms) {
    uint64_t confirmed_ms = leader_lease_confirmed_ms(lease);
    if (confirmed_ms == UINT64_MAX) {
        return true;
    }
    uint64_t trusted_ms = lease->election_ms - lease->election_ms / LEADER_LEASE_DRIFT_PARTS;
    /* Both times are cut to whole milliseconds: the sum may be short by one. */
    return confirmed_ms != 0 && now_ms + 1 < confirmed_ms + trusted_ms;
}

void voter_promise_init(struct voter_promise *promise, uint32_t longest_ms, uint64_t now_ms) {
    *promise = (struct voter_promise){.until_ms = now_ms + longest_ms + 1};
}

void voter_promise_make(struct voter_promise *promise, const struct leader_word *ping,
                        uint32_t lease_ms, uint64_t now_ms) {
    uint64_t until_ms = now_ms + lease_ms + 1;
    promise->ping = *ping;
    if (until_ms > promise->until_ms) {
        promise->until_ms = until_ms;
    }
}

void voter_promise_release(struct voter_promise *promise, const struct leader_word *release) {
    if (promise->ping.leader_id == release->leader_id && promise->ping.term == release->term &&
        promise->ping.sent_ms <= release->sent_ms) {
        promise->until_ms = 0;
    }
}

bool voter_promise_allows(const struct voter_promise *promise, uint64_t candidate_id,
                          uint64_t now_ms) {
    /* The one it promised to may be confirmed again. */
    return now_ms >= promise->until_ms ||
           (promise->ping.leader_id != 0 && promise->ping.leader_id == candidate_id);
}
