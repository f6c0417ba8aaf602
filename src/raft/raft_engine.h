/*
 * Raft on this node: libraft's sans-I/O core, driven by raft_step(). Events go in, updates are
 * carried out in the one order that is safe: term and vote to disk, entries to the log, messages,
 * change of role, commits. The defects of the core are guarded against in raft_guards.c, each guard
 * with its test. The engine's own files (raft_engine_internal.h) are the only users of raft.h.
 *
 * The engine holds the log in memory as long as it is needed (not yet applied, not yet on disk, or
 * within the bound of recent entries). Time is an argument. Nothing here blocks but store_vote.
 * Calls into the owner may call back only where it is said.
 */
#ifndef LEASED_RAFT_RAFT_ENGINE_H
#define LEASED_RAFT_RAFT_ENGINE_H

#include "base/status.h"
#include "raft/log_item.h"
#include "raft/raft_config.h"
#include "raft/raft_message.h"
#include "raft/snapshot_store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct raft_engine;

enum raft_engine_role { ENGINE_FOLLOWER, ENGINE_CANDIDATE, ENGINE_LEADER };

struct raft_engine_calls {
    /* --- The disk. --- */
    /* Durable when it returns STATUS_OK; else the engine fails. */
    enum status (*store_vote)(void *data, uint64_t term, uint64_t vote);
    /* Begins to write; each item has a reference for the write, which whoever carries it out gives
     * back on the loop when it ends, before raft_engine_written(). If items[0] is at or below the
     * last index written before, the log is truncated there first. Writes end in the order they
     * began. */
    void (*append)(void *data, struct log_item *const *items, size_t n);
    /* Begins to put the received snapshot in the place of the log: it is already complete in its
     * temporary file. raft_engine_installed() follows. */
    void (*install)(void *data, const struct snapshot_meta *meta);
    /* Entries up to this one are not needed on disk any more. */
    void (*trim)(void *data, uint64_t upto);
    /* --- The network. --- */
    /* The message is borrowed. Appends name their entries by prev_index and n_entries; snapshots by
     * their metadata. Posts nothing back into the engine. */
    void (*send)(void *data, uint64_t to_id, const struct raft_message_view *message);
    /* --- The owner. --- */
    /* A committed entry of any type, in order, perhaps before it is on this node's own disk. May
     * propose, must not close the engine. */
    void (*apply)(void *data, const struct log_item *item);
    /* The state must be replaced by this snapshot, before anything behind it is applied. */
    void (*restore)(void *data, const struct snapshot_meta *meta);
    /* Role, term or leader differ from what was told last. Called within the step that changed it,
     * before any message of that step leaves: a leader that steps down loses its lease here. */
    void (*role_changed)(void *data);
    /* The newest configuration (committed or not) changed. */
    void (*configuration_changed)(void *data);
    /* May a vote be given to, or (with our own id) be asked for by, this candidate now? */
    bool (*may_vote)(void *data, uint64_t candidate_id);
    /* No leader has been heard of for an election timeout: requests for votes count as if they were
     * allowed to disrupt. */
    bool (*is_leaderless)(void *data);
    /* The node cannot go on. The engine does nothing more but be closed. */
    void (*failed)(void *data, const char *reason);
};

struct raft_engine_options {
    uint64_t self_id;
    uint32_t heartbeat_ms;
    uint32_t election_ms;
    unsigned seed; /* of libraft's random numbers */
    /* Bytes of entries that are applied and on disk and stay in memory for members that lag. */
    size_t recent_bytes_max;
};

/* What the disk holds. Arrays are borrowed for the call. */
struct raft_engine_loaded {
    uint64_t term;
    uint64_t vote;
    const struct snapshot_meta *snapshot; /* NULL or index 0: none. The owner has restored it. */
    uint64_t first_index;          /* of items; where the log would go on when there are none */
    struct log_item *const *items; /* references stay the caller's */
    size_t n_items;
};

/* Whether the libraft that is loaded behaves as the one this was written for: version 0.22.x, and a
 * probe of who owns memory. STATUS_UNSUPPORTED with a reason. */
enum status raft_engine_probe(char *out_error, size_t error_size);

struct raft_engine *raft_engine_create(const struct raft_engine_options *options,
                                       const struct raft_engine_calls *calls, void *data);
/* Feeds START. A sole voter begins a new term (guard 8): store_vote may be called. STATUS_CORRUPT
 * with a reason when what was loaded cannot be. */
enum status raft_engine_start(struct raft_engine *engine, const struct raft_engine_loaded *loaded,
                              uint64_t now_ms, char *out_error, size_t error_size);
/* Synchronous. What was being written stays the caller's business. */
void raft_engine_destroy(struct raft_engine *engine);

/* --- Events. --- */

/* A checked message (raft_codec_decode) from the member that the connection proved to be. Items
 * that are kept are referenced. MESSAGE_SNAPSHOT: the whole snapshot has been received (only meta
 * counts): true: install() was called; false: it is not wanted (or is there already) and may be
 * removed. For all other kinds: true. */
bool raft_engine_receive(struct raft_engine *engine, uint64_t from_id,
                         const struct raft_message_view *message, uint64_t now_ms);
/* The oldest append that was not reported yet is on disk. (An error never gets here: the node
 * stops.) */
void raft_engine_written(struct raft_engine *engine, uint64_t now_ms);
void raft_engine_installed(struct raft_engine *engine, uint64_t now_ms);
/* Once an iteration of the loop, and at the deadline: time-outs, held votes, promotion, what was
 * proposed from within apply. */
void raft_engine_poll(struct raft_engine *engine, uint64_t now_ms);
/* When poll must be called next. */
uint64_t raft_engine_deadline_ms(const struct raft_engine *engine, uint64_t now_ms);

/* --- Requests. --- */

/* Proposes a command; takes over `bytes` (malloc) only on STATUS_OK. STATUS_NO_LEADER: this node
 * does not lead or is handing over. The entry's index and term are raft_engine_last_index() + 1 and
 * the current term as they are before the call. Nothing tells the caller when it is applied but
 * apply() with this index and term; it is lost when role_changed() reports another term or role and
 * an entry of another term is applied at its index. */
enum status raft_engine_propose(struct raft_engine *engine, uint8_t *bytes, size_t size,
                                uint64_t now_ms);

/* One change of the configuration. STATUS_TOO_MANY_REQUESTS: not now, because another is not
 * committed, no entry of this leader's own term is committed yet, or (PROMOTE, and REMOVE of a
 * voter) another voter does not have the entry that made it one: the member to remove may be dead,
 * the others must be heard of. STATUS_NO_LEADER; STATUS_INVALID (duplicates, unknown, itself). ADD
 * makes a standby at once. PROMOTE waits until it has caught up, bounded; progress by
 * raft_engine_is_changing(). */
enum raft_engine_change { ENGINE_ADD, ENGINE_PROMOTE, ENGINE_REMOVE };
enum status raft_engine_change(struct raft_engine *engine, enum raft_engine_change change,
                               uint64_t id, const char *address, uint64_t now_ms);
bool raft_engine_is_changing(const struct raft_engine *engine);

/* Stops proposals, waits until the successor has everything, then asks it to take over.
 * to_id 0: whoever has most. Ends (is_transferring false) when another leads, or after an election
 * timeout. */
enum status raft_engine_transfer(struct raft_engine *engine, uint64_t to_id, uint64_t now_ms);
bool raft_engine_is_transferring(const struct raft_engine *engine);

/* A snapshot of what is applied now: fills everything but the size. False: not now (one is being
 * taken or installed, a change is not committed, nothing new). Then either _taken or _abandoned. */
bool raft_engine_snapshot_begin(struct raft_engine *engine, struct snapshot_meta *out_meta);
/* It is durable; keeps `trailing` entries before it. */
void raft_engine_snapshot_taken(struct raft_engine *engine, uint64_t size, uint64_t trailing,
                                uint64_t now_ms);
/* While it was being taken one was installed (restore() was called): its file may go. */
bool raft_engine_snapshot_is_stale(const struct raft_engine *engine);
void raft_engine_snapshot_abandoned(struct raft_engine *engine);

/* --- State. --- */
enum raft_engine_role raft_engine_role(const struct raft_engine *engine);
uint64_t raft_engine_term(const struct raft_engine *engine);
uint64_t raft_engine_leader_id(const struct raft_engine *engine); /* 0: none known */
uint64_t raft_engine_last_index(const struct raft_engine *engine);
uint64_t raft_engine_commit_index(const struct raft_engine *engine);
uint64_t raft_engine_applied_index(const struct raft_engine *engine);
/* Entries up to this one were in the log when the engine was started; what has replaced others
 * since was not. */
uint64_t raft_engine_loaded_index(const struct raft_engine *engine);
/* Of a member, as leader; 0: unknown. */
uint64_t raft_engine_match_index(const struct raft_engine *engine, uint64_t id);
/* When a message of the current leader last came, by now_ms; 0: never. */
uint64_t raft_engine_heard_ms(const struct raft_engine *engine);
/* Messages of a leader that were dropped because they contradict what is applied here. */
uint64_t raft_engine_contradictions(const struct raft_engine *engine);
/* The newest, committed or not. Borrowed until the next event. */
const struct raft_config *raft_engine_configuration(const struct raft_engine *engine);
bool raft_engine_has_uncommitted_change(const struct raft_engine *engine);
/* The item, borrowed; NULL: not in memory. */
struct log_item *raft_engine_item(const struct raft_engine *engine, uint64_t index);
size_t raft_engine_memory_bytes(const struct raft_engine *engine); /* of items in memory */
bool raft_engine_is_installing(const struct raft_engine *engine);
/* Tells this follower (and only if it has the entry) of a commit at once. */
void raft_engine_announce_commit(struct raft_engine *engine, uint64_t to_id);

#endif
