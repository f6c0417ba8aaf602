#include "raft/raft_guards.h"

unsigned raft_guards_disabled;

bool raft_guards_admit_term(const struct raft_guards_view *view, uint64_t term) {
    if (!raft_guards_is_on(GUARD_TERM_LEAP)) {
        return true;
    }
    return term > 0 && term < RAFT_GUARDS_TERM_MAX &&
           (term <= view->term || term - view->term <= RAFT_GUARDS_TERM_LEAP_MAX);
}

/* libraft's own refusal names prev_index, which may be 0 and then reads as a success, or for a
 * snapshot as one up to an index that was never set. */
bool raft_guards_is_of_old_term(const struct raft_guards_view *view, uint64_t term) {
    return raft_guards_is_on(GUARD_OLD_TERM) && term < view->term;
}

struct message_append_result raft_guards_refusal(const struct raft_guards_view *view,
                                                 uint64_t index) {
    uint64_t rejected = index == 0 ? 1 : index;
    return (struct message_append_result){
        .term = view->term, .rejected = rejected, .last_index = rejected - 1};
}

/* libraft takes it for granted that nobody else leads in a term that it leads itself, and writes
 * its follower's state over its leader's. */
static bool is_other_leader_of_our_term(const struct raft_guards_view *view, uint64_t term) {
    return raft_guards_is_on(GUARD_TWO_LEADERS) && view->is_leader && term == view->term;
}

bool raft_guards_admit_append(const struct raft_guards_view *view,
                              const struct message_append *append, uint64_t first_term) {
    if (is_other_leader_of_our_term(view, append->term)) {
        return false;
    }
    if ((append->prev_index == 0) != (append->prev_term == 0) || append->prev_term > append->term) {
        return false;
    }
    uint64_t term = append->prev_term;
    for (uint32_t i = 0; i < append->n_entries; i++) {
        const struct log_item *item = append->items[i];
        if (item->index != append->prev_index + 1 + i || item->term == 0 || item->term < term ||
            item->term > append->term) {
            return false;
        }
        term = item->term;
    }
    if (append->n_entries == 0 || append->prev_index != 0) {
        return true;
    }
    /* The first entry is a configuration, the same for all. */
    const struct log_item *first = append->items[0];
    return first->type == LOG_CHANGE && (first_term == 0 || first_term == first->term);
}

/* What is applied is committed, so that a leader of this term or a later one has the same. libraft
 * compares with entries that it has forgotten, and appends them once more. */
void raft_guards_move_prefix(const struct raft_guards_view *view, struct message_append *append) {
    if (!raft_guards_is_on(GUARD_PREFIX) || append->prev_index >= view->applied_index) {
        return;
    }
    uint64_t n_known = view->applied_index - append->prev_index;
    uint32_t n_skipped = n_known < append->n_entries ? (uint32_t)n_known : append->n_entries;
    if (n_skipped > 0) {
        append->items += n_skipped;
        append->n_entries -= n_skipped;
    }
    append->prev_index = view->applied_index;
    append->prev_term = view->applied_term;
}

/* libraft notes the index of the first new entry as that of a change behind it. */
size_t raft_guards_portion(struct log_item *const *items, size_t n) {
    if (!raft_guards_is_on(GUARD_CHANGE_SPLIT) || n == 0) {
        return n;
    }
    if (items[0]->type == LOG_CHANGE) {
        return 1;
    }
    size_t k = 1;
    while (k < n && items[k]->type != LOG_CHANGE) {
        k++;
    }
    return k;
}

/* libraft lowers its commit index to the last entry of a message that is repeated. */
uint64_t raft_guards_clamp_commit(uint64_t commit, uint64_t prev_index, size_t n_entries) {
    uint64_t last = prev_index + n_entries;
    return raft_guards_is_on(GUARD_COMMIT_CLAMP) && commit > last ? last : commit;
}

bool raft_guards_admit_snapshot(const struct raft_guards_view *view, uint64_t term) {
    if (is_other_leader_of_our_term(view, term)) {
        return false;
    }
    /* libraft leaks what it is given then. */
    return !raft_guards_is_on(GUARD_INSTALL_BUSY) || !view->is_installing;
}

bool raft_guards_admit_append_result(const struct raft_guards_view *view, uint64_t from_id,
                                     uint64_t match_index, uint64_t snapshot_index,
                                     struct message_append_result *result) {
    if (!view->is_leader || raft_config_find(view->config, from_id) == NULL) {
        return false;
    }
    if (result->rejected == 0 || result->term != view->term) {
        return true;
    }
    /* It comes late: libraft would go back behind what the member is known to have. */
    bool is_late = raft_guards_is_on(GUARD_LATE_REJECTION) && result->rejected <= match_index;
    /* libraft takes it for the loss of the snapshot that is on its way. */
    bool is_of_snapshot = raft_guards_is_on(GUARD_SNAPSHOT_REPEAT) && snapshot_index != 0 &&
                          result->rejected == snapshot_index;
    if (is_late || is_of_snapshot) {
        /* Says nothing of the member's log, but that it is there. */
        result->rejected = 0;
        result->last_index = 0;
    } else if (raft_guards_is_on(GUARD_LATE_REJECTION) && result->last_index < match_index) {
        result->last_index = match_index;
    }
    return true;
}

bool raft_guards_admit_vote_result(const struct raft_guards_view *view, uint64_t from_id,
                                   const struct message_vote_result *result) {
    if (!raft_guards_is_on(GUARD_VOTE_RESULT)) {
        return true;
    }
    /* libraft looks into a candidate's state before it looks whether it is one. */
    const struct raft_config_server *server = raft_config_find(view->config, from_id);
    if (!view->is_candidate || server == NULL || server->role != CONFIG_VOTER) {
        return false;
    }
    if (view->is_pre_voting) {
        /* Granted, it names the term that was asked for; refused, perhaps a later one. */
        return result->is_pre_vote && (!result->is_granted || result->term == view->term + 1);
    }
    /* A late one of the pre-vote: only a later term counts. */
    return !result->is_pre_vote || (!result->is_granted && result->term > view->term);
}

/* libraft echoes the candidate's term in a pre-vote, so that a candidate that is behind never
 * learns why it is refused. */
void raft_guards_correct_vote_result(const struct raft_guards_view *view,
                                     struct message_vote_result *result) {
    if (raft_guards_is_on(GUARD_PRE_VOTE_TERM) && result->is_pre_vote && !result->is_granted &&
        result->term < view->term) {
        result->term = view->term;
    }
}

/* libraft leaves the mark on for as long as it is candidate, also in later terms, when another
 * leader may hold a lease. */
void raft_guards_correct_vote(uint64_t transfer_term, struct message_vote *vote) {
    if (raft_guards_is_on(GUARD_TRANSFER_MARK) && vote->term != transfer_term) {
        vote->disrupt_leader = false;
    }
}

/* Not one that is not in its own configuration: it may have lost what it knew with its disk. */
bool raft_guards_may_be_voter(const struct raft_guards_view *view) {
    const struct raft_config_server *self = raft_config_find(view->config, view->self_id);
    return raft_guards_is_on(GUARD_STANDBY_VOTE) && self != NULL && self->role == CONFIG_STANDBY &&
           !view->is_installing;
}

static bool is_sole_voter(const struct raft_guards_view *view) {
    return raft_guards_is_on(GUARD_SOLE_VOTER) &&
           raft_config_is_sole_voter(view->config, view->self_id);
}

/* libraft makes a sole voter leader of the term that it is in, which has had a leader already. */
bool raft_guards_needs_new_term(const struct raft_guards_view *view) {
    return is_sole_voter(view) && !view->is_leader && !view->is_candidate && !view->is_installing &&
           view->stored_index == view->last_index;
}

bool raft_guards_admit_timeout_now(const struct raft_guards_view *view) {
    return !is_sole_voter(view);
}

/* libraft asks a successor to stand at the first acknowledgement, however far behind it is, and
 * never again. */
bool raft_guards_may_transfer(const struct raft_guards_view *view, uint64_t match_index) {
    return !raft_guards_is_on(GUARD_TRANSFER_READY) || match_index == view->last_index;
}

/* libraft's voters refuse their vote when their own log does not say that they are voters. Those of
 * the first configuration wrote it themselves: a leader that was elected after one of them died has
 * never heard of it. */
bool raft_guards_knows_its_role(uint64_t match_index, uint64_t voter_since) {
    return !raft_guards_is_on(GUARD_CHANGE_READY) || match_index >= voter_since ||
           voter_since == RAFT_GUARDS_FIRST_INDEX;
}

bool raft_guards_may_change(const struct raft_guards_view *view) {
    return !raft_guards_is_on(GUARD_OWN_TERM) || view->applied_term == view->term;
}

/* libraft's leader finds itself due for ever when a voter was made a spare. */
uint64_t raft_guards_rearm_ms(uint64_t due_ms, uint64_t now_ms, uint32_t heartbeat_ms) {
    if (!raft_guards_is_on(GUARD_REARM) || due_ms > now_ms) {
        return 0;
    }
    return now_ms + (heartbeat_ms < 2 ? 1 : heartbeat_ms / 2);
}

/* libraft keeps the entries before a change that it refuses. */
bool raft_guards_may_submit(struct log_item *const *items, size_t n) {
    if (!raft_guards_is_on(GUARD_CHANGE_ALONE) || n == 1) {
        return true;
    }
    for (size_t i = 0; i < n; i++) {
        if (items[i]->type == LOG_CHANGE) {
            return false;
        }
    }
    return true;
}
