/*
 * What libraft 0.22's core gets wrong, and what is done about each before an event reaches it or a
 * message leaves it. The numbers are those of the table in README.md. Functions here change nothing
 * but what they are given: the engine acts on what they say.
 */
#ifndef LEASED_RAFT_RAFT_GUARDS_H
#define LEASED_RAFT_RAFT_GUARDS_H

#include "raft/log_item.h"
#include "raft/raft_config.h"
#include "raft/raft_message.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum raft_guard {
    GUARD_COMMIT_CLAMP = 1 << 0,     /* 1 */
    GUARD_CHANGE_SPLIT = 1 << 1,     /* 2 */
    GUARD_OLD_TERM = 1 << 2,         /* 3 */
    GUARD_PREFIX = 1 << 3,           /* 4 */
    GUARD_LATE_REJECTION = 1 << 4,   /* 5 */
    GUARD_VOTE_RESULT = 1 << 5,      /* 6 */
    GUARD_INSTALL_BUSY = 1 << 6,     /* 7 */
    GUARD_SOLE_VOTER = 1 << 7,       /* 8 */
    GUARD_PRE_VOTE_TERM = 1 << 8,    /* 9 */
    GUARD_TRANSFER_READY = 1 << 9,   /* 10 */
    GUARD_CHANGE_READY = 1 << 10,    /* 11 */
    GUARD_REARM = 1 << 11,           /* 12 */
    GUARD_CHANGE_ALONE = 1 << 12,    /* 13 */
    GUARD_SNAPSHOT_REPEAT = 1 << 13, /* 14 */
    GUARD_TERM_LEAP = 1 << 14,       /* 15 */
    GUARD_TWO_LEADERS = 1 << 15,     /* 16 */
    GUARD_OWN_TERM = 1 << 16,        /* 17 */
    GUARD_TRANSFER_MARK = 1 << 17,   /* 18 */
    GUARD_STANDBY_VOTE = 1 << 18     /* 19 */
};

/* Guards that are switched off: 0 but in tests, which show what happens without one. */
extern unsigned raft_guards_disabled;

static inline bool raft_guards_is_on(enum raft_guard guard) {
    return (raft_guards_disabled & (unsigned)guard) == 0;
}

/* A member's term may be ahead of ours by this much; a message with more is forged. */
#define RAFT_GUARDS_TERM_LEAP_MAX (UINT64_C(1) << 20)
#define RAFT_GUARDS_TERM_MAX (UINT64_C(1) << 62)

/* What the engine knows of itself and the sender. */
struct raft_guards_view {
    uint64_t self_id;
    uint64_t term;
    bool is_leader;
    bool is_candidate;
    bool is_pre_voting; /* as candidate: requests of the pre-vote are out */
    bool is_installing;
    uint64_t last_index;
    uint64_t applied_index; /* committed, and known to be the same everywhere */
    uint64_t applied_term;
    uint64_t stored_index;
    const struct raft_config *config; /* the newest */
};

/* 15: the term of any message. */
bool raft_guards_admit_term(const struct raft_guards_view *view, uint64_t term);

/* 3: an append or a snapshot of an older term is answered by the engine. */
bool raft_guards_is_of_old_term(const struct raft_guards_view *view, uint64_t term);
/* The answer. `index`: what was offered. */
struct message_append_result raft_guards_refusal(const struct raft_guards_view *view,
                                                 uint64_t index);

/* 16 and what no leader sends: a leader of our own term beside us, entries whose terms or first
 * type cannot be. False: drop it. */
bool raft_guards_admit_append(const struct raft_guards_view *view,
                              const struct message_append *append, uint64_t first_term);
/* 4: moves the beginning of an append up to what is applied. */
void raft_guards_move_prefix(const struct raft_guards_view *view, struct message_append *append);
/* 2: how many of the entries may be given to raft at once. */
size_t raft_guards_portion(struct log_item *const *items, size_t n);
/* 1 */
uint64_t raft_guards_clamp_commit(uint64_t commit, uint64_t prev_index, size_t n_entries);

/* 7, and 16. False: drop it. */
bool raft_guards_admit_snapshot(const struct raft_guards_view *view, uint64_t term);

/* 5 and 14. `match_index` of the sender; `snapshot_index`: sent to it a moment ago, 0 for none.
 * Corrects the hint, or takes the rejection out of it. False: drop it. */
bool raft_guards_admit_append_result(const struct raft_guards_view *view, uint64_t from_id,
                                     uint64_t match_index, uint64_t snapshot_index,
                                     struct message_append_result *result);

/* 6. False: drop it. */
bool raft_guards_admit_vote_result(const struct raft_guards_view *view, uint64_t from_id,
                                   const struct message_vote_result *result);
/* 9: of a result that leaves. */
void raft_guards_correct_vote_result(const struct raft_guards_view *view,
                                     struct message_vote_result *result);
/* 18: the permission to disrupt a leader holds for the term for which it was given. */
void raft_guards_correct_vote(uint64_t transfer_term, struct message_vote *vote);

/* 19: may a newer configuration, of which raft does not know, have made this standby a voter? */
bool raft_guards_may_be_voter(const struct raft_guards_view *view);

/* 8: a new term must begin before raft is told of a timeout. */
bool raft_guards_needs_new_term(const struct raft_guards_view *view);
/* 8: a sole voter must not be told to stand. */
bool raft_guards_admit_timeout_now(const struct raft_guards_view *view);

/* 10 */
bool raft_guards_may_transfer(const struct raft_guards_view *view, uint64_t match_index);

/* The first configuration is the first entry, which every member of it writes by itself. */
enum { RAFT_GUARDS_FIRST_INDEX = 1 };

/* 11: a voter must know that it is one before the voters are changed. `match_index` of it;
 * `voter_since`: the entry that made it one. */
bool raft_guards_knows_its_role(uint64_t match_index, uint64_t voter_since);
/* 17: Raft's single-server changes are safe only behind an entry of the leader's own term. */
bool raft_guards_may_change(const struct raft_guards_view *view);

/* 12: before when raft need not be told of a timeout, although it says that it is due. 0: no bound.
 */
uint64_t raft_guards_rearm_ms(uint64_t due_ms, uint64_t now_ms, uint32_t heartbeat_ms);

/* 13: may these be submitted together? */
bool raft_guards_may_submit(struct log_item *const *items, size_t n);

#endif
