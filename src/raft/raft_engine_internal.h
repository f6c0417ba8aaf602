/*
 * The engine's inside, for its own files: raft_engine.c (life, events, state), engine_step.c (a
 * step, and carrying out what it says), engine_receive.c (messages), engine_votes.c,
 * engine_members.c (the configuration, changes, transfer), engine_snapshot.c, engine_start.c.
 */
#ifndef LEASED_RAFT_RAFT_ENGINE_INTERNAL_H
#define LEASED_RAFT_RAFT_ENGINE_INTERNAL_H

#include "raft/election_stagger.h"
#include "raft/held_votes.h"
#include "raft/log_cache.h"
#include "raft/raft_engine.h"
#include "raft/raft_guards.h"
#include "raft/write_order.h"

#include <raft.h>

/* A request for a vote that nobody sent begins a new term; the answer goes to nobody. */
#define ENGINE_NOBODY_ID UINT64_MAX

struct engine_config {
    uint64_t index; /* of the entry, 0: none yet */
    struct raft_config config;
    uint64_t voter_since[RAFT_CONFIG_SERVERS_MAX]; /* the entry that made each one a voter */
};

/* When a snapshot was last sent to a member. */
struct engine_snapshot_sent {
    uint64_t to_id;
    uint64_t index;
    uint64_t sent_ms;
};

struct raft_engine {
    struct raft raft;
    struct raft_engine_options options;
    struct raft_engine_calls calls;
    void *data;
    uint64_t now_ms;
    uint64_t rearm_ms;
    bool is_started;
    bool has_failed;
    bool is_applying;

    struct log_cache log;
    struct write_order writes;
    uint64_t applied_index;
    uint64_t applied_term;
    uint64_t loaded_index; /* see raft_engine_loaded_index() */
    /* The items of the event that raft is being given: what it says to append is among them. */
    struct log_item *const *feeding;
    uint64_t feeding_first;
    size_t n_feeding;

    struct engine_config newest;    /* the last in the log */
    struct engine_config committed; /* the last that is applied */
    uint64_t n_contradictions;      /* messages of a leader that cannot be one's */
    uint64_t unconfirmed_index;     /* a change that raft takes for uncommitted; 0: none */
    bool is_config_told;

    enum raft_engine_role told_role;
    uint64_t told_term;
    uint64_t told_leader_id;
    uint64_t leader_term; /* in which raft's leader was heard of */
    uint64_t heard_ms;

    struct held_votes held;
    struct election_stagger stagger;
    uint64_t transfer_term; /* the one for which a leader told this node to stand */
    bool is_pre_voting;
    const struct message_vote *asked; /* the request that raft is being given; NULL: none */
    /* The vote that this node gave without raft's knowing. */
    uint64_t ballot_term;
    uint64_t ballot_id;

    uint64_t transfer_to_id; /* 0: none */
    uint64_t transfer_since_ms;
    bool is_transfer_sent;

    uint64_t promote_id; /* 0: none */
    uint64_t promote_term;
    uint64_t promote_target; /* what it must have at the end of this round */
    uint64_t promote_round_ms;
    unsigned n_promote_rounds;

    struct snapshot_meta snapshot; /* the newest; index 0: none */
    bool is_taking;
    bool is_taking_stale;
    struct snapshot_meta taking;
    bool is_installing;
    struct snapshot_meta installing;
    struct raft_snapshot_metadata install_metadata; /* raft's; the configuration is ours to free */
    struct engine_snapshot_sent sent[RAFT_CONFIG_SERVERS_MAX];
};

/* --- raft_engine.c --- */

static inline bool engine_is_leader(const struct raft_engine *engine) {
    return raft_engine_role(engine) == ENGINE_LEADER;
}
/* What the guards look at. The configuration is borrowed. */
struct raft_guards_view engine_view(const struct raft_engine *engine);
/* Of the last entry. */
uint64_t engine_last_term(const struct raft_engine *engine);
/* Time does not go back. */
void engine_set_time(struct raft_engine *engine, uint64_t now_ms);
/* Says why, once. Nothing more is done from then on. */
void engine_fail(struct raft_engine *engine, const char *reason);

/* --- engine_step.c --- */

/* Gives raft an event and carries out what it says, up to messages. 0 or raft's error: the engine
 * has failed then, unless it was RAFT_SUBMIT or RAFT_TRANSFER. */
int engine_step(struct raft_engine *engine, struct raft_event *event);
/* Applies what is committed; lets go of what is not needed in memory any more. */
void engine_apply(struct raft_engine *engine);
/* Entries of the current term, as leader; a LOG_CHANGE alone. The index of each is the next one. */
int engine_submit(struct raft_engine *engine, struct log_item *const *items, size_t n);

/* --- engine_receive.c --- */

struct raft_message engine_message_from(const struct raft_engine *engine, uint64_t from_id,
                                        enum raft_message_type type);
/* Gives raft a message, and applies what it commits. */
void engine_feed(struct raft_engine *engine, struct raft_message *message);

/* --- engine_votes.c --- */

void engine_receive_vote(struct raft_engine *engine, uint64_t from_id,
                         const struct message_vote *vote);
void engine_receive_vote_result(struct raft_engine *engine, uint64_t from_id,
                                const struct message_vote_result *result);
void engine_receive_timeout_now(struct raft_engine *engine, uint64_t from_id,
                                const struct message_timeout_now *timeout_now);
/* raft's answer to a candidate, corrected. */
void engine_send_vote_result(struct raft_engine *engine, uint64_t to_id,
                             struct message_vote_result result);
/* A request for votes of our own: sent, or held. */
void engine_send_vote(struct raft_engine *engine, uint64_t to_id, struct message_vote vote);
/* Held votes whose time has come. */
void engine_release_votes(struct raft_engine *engine);
/* Begins a new term, as if somebody had asked for votes in it. */
void engine_begin_term(struct raft_engine *engine);

/* --- engine_members.c --- */

void engine_config_append(struct raft_engine *engine, const struct log_item *item);
void engine_config_truncate(struct raft_engine *engine, uint64_t from);
/* The change of this entry is committed. Tells raft. */
void engine_config_commit(struct raft_engine *engine, const struct log_item *item);
/* Tells raft that the change it takes for uncommitted is committed, because another follows. */
void engine_config_confirm(struct raft_engine *engine);
/* From a snapshot. */
void engine_config_set(struct engine_config *out_config, const struct raft_config *config,
                       uint64_t index);
/* The next one, put on top of the one before. */
void engine_config_advance(struct engine_config *config, const struct raft_config *next,
                           uint64_t index);
/* In raft's own type, from its allocator. */
struct raft_configuration engine_config_export(const struct raft_config *config);
/* Promotion and transfer, as far as they can go now. */
void engine_members_poll(struct raft_engine *engine);
uint64_t engine_members_deadline_ms(const struct raft_engine *engine, uint64_t now_ms);

/* --- engine_snapshot.c --- */

/* raft wants this snapshot in the place of its log. */
void engine_install_begin(struct raft_engine *engine, struct raft_snapshot_metadata *metadata);
/* A snapshot leaves for a member. */
void engine_send_snapshot(struct raft_engine *engine, uint64_t to_id, uint64_t term);
/* Of the snapshot that was last sent to it, not longer ago than this; 0: none. */
uint64_t engine_snapshot_sent_index(const struct raft_engine *engine, uint64_t id,
                                    uint64_t within_ms);

#endif
