/*
 * What stands between libraft and its raft_io: everything that fault injection taught us about
 * libraft 0.22 is worked around here and nowhere else.
 *
 *  - A repeated AppendEntries may carry a leader_commit beyond its own entries, which moves a
 *    follower's commit index backwards later: it is clamped on receipt.
 *  - An InstallSnapshot that arrives while a local snapshot is being written ends in an assertion:
 *    it is dropped (the leader repeats it).
 *  - A leader repeats to a silent member all that it may lack with every heartbeat, and takes each
 *    rejection of a heartbeat for the loss of the snapshot that it just sends: gigabytes of both
 *    waited for a member that came back. What is on its way is not sent again (raft_bulk.c).
 *  - A failed append or snapshot ends in an assertion without a word: it is reported first.
 *  - A term or a vote that could not be written ends in an assertion, or, in a libraft built
 * without them, is taken for written when it is asked for again: a restarted node could vote twice.
 * It is reported.
 *  - Who refuses entries or a snapshot of an older term answers with an index that was never set,
 * and a snapshot as if it had been taken: should the sender lead again by then, it would count what
 *    nobody has. The answer is made the refusal that it is.
 *  - A rejection that comes late leads a leader back behind what the follower has, at last to the
 *    first entry, which a follower with a snapshot puts at the end of its log: it is dropped.
 *  - Who gets the result of a vote looks into the state of a candidate before it looks whether it
 * is one. By what happens to lie there, a pre-vote that comes late ends the term of a leader or of
 * its followers. Who is no candidate any more gets no results.
 *  - A voter that promised the leader not to vote (leader_lease.h) neither gives a vote nor asks
 * for one: RequestVote messages of either direction are held while the promise stands, and dropped
 * when that lasts. Dropped at once, a candidate that was a moment early would wait for another
 * election timeout (raft_votes.c).
 *  - A follower refuses its vote until its own election timeout, drawn between one and two, has
 *    passed: three nodes then need both timeouts for an election. When nothing was heard of a
 * leader for one timeout, the request is marked such that libraft looks at the candidate's log
 * only.
 *  - Followers draw how long they wait for a lost leader, between one timeout and two, and look at
 * the time once a heartbeat: they are given turns instead, and look when it is time.
 *  - A candidate that was told to take over marks its requests so for as long as it is one, also in
 *    later terms, when another leader may hold a lease: the mark stays on in the first term only.
 *  - A leader tells its followers what is committed only with the next entries or heartbeat, so
 * what a follower waits to apply waits for that: raft_guard_announce() tells it at once.
 *  - raft_uv notices that a connection is dead when it writes to it, and what it wrote is lost.
 *    Followers write to each other only when they ask for votes, so after a restart of one the
 * first request of the other would be lost, and an election timeout with it: raft_guard_knock().
 *  - A follower that gets a change of the configuration among other entries notes the first one's
 *    index as the change's: it never learns that the change is committed, and would keep it when it
 *    is cut off. A message is cut before a change that is not its first entry (the leader sends the
 *    rest again), and commits nothing together with a change.
 *  - A server that is the only voter leads again in the same term when it restarts, although a
 *    standby may have entries of that term that it has lost itself: it begins a new term.
 *  - raft_assign() keeps a request that it refused: raft_guard_assign() takes it out again.
 *  - raft_uv tells of a write to the log before it begins the next one, so the disk would rest
 * while what was written is applied and answered: raft is told once the next write is on its way.
 *  - fsm.snapshot() runs on the loop: a snapshot is serialised in a worker thread, between
 *    libraft asking for it and raft_uv writing it.
 */
#ifndef LEASED_REPLICATION_RAFT_GUARD_H
#define LEASED_REPLICATION_RAFT_GUARD_H

#include "base/list.h"

#include <raft.h>
#include <raft/uv.h>
#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct raft_guard_callbacks {
    /* Fills the buffer (memory from raft_malloc) with the snapshot that fsm.snapshot() began; in
     * a worker thread. */
    int (*serialise)(void *data, struct raft_buffer *out_buffer);
    /* Back on the loop, before the bytes are written. */
    void (*serialised)(void *data, size_t size);
    /* The worker is done and raft_uv has taken over: raft may be closed from here on. */
    void (*handed_over)(void *data);
    /* The snapshot is on disk. */
    void (*stored)(void *data);
    /* May this candidate be voted for now? (Also asked for this node itself.) NULL: always. */
    bool (*may_vote)(void *data, uint64_t candidate_id);
    /* Does this node follow nobody, or somebody who has been silent for an election timeout? NULL:
     * libraft knows. */
    bool (*is_leaderless)(void *data);
    /* The disk failed us; nothing may be acknowledged any more. */
    void (*failed)(void *data, const char *what, int status);
};

struct raft_guard {
    struct raft_io io; /* what raft and raft_uv are given: the guard is found from it */
    uv_loop_t *loop;
    uint64_t self_id;
    const struct raft_guard_callbacks *callbacks;
    void *data;
    bool closing;    /* errors are expected then */
    bool is_storing; /* a snapshot is being serialised or written */
    bool is_serialising;
    bool is_refusing;            /* what raft is being given is of an older term */
    size_t n_appends;            /* writes to the log under way */
    uint64_t append_progress_ms; /* when the first of them began, or the last one before ended */
    struct list written;         /* appends that are on disk, of which raft does not know yet */
    uint64_t clamped;            /* how often each guard was needed */
    uint64_t cut;
    uint64_t dropped;
    uint64_t votes_dropped;
    uint64_t results_dropped;
    uint64_t rejections_dropped;
    uint64_t repeats_emptied;
    struct raft_bulk_sent *bulk; /* what raft_uv has not written out yet */
    size_t n_snapshots_loading;
    raft_term transfer_term; /* the one term for which a leader told this node to stand; 0: none */
    uint64_t heard_ms;       /* when raft last heard from a leader */
    uint64_t hold_ms;        /* for how long a request for a vote may wait */
    struct raft_vote_held *held_votes;
    /* What libraft set before us. */
    int (*start)(struct raft_io *, unsigned, raft_io_tick_cb, raft_io_recv_cb);
    int (*send)(struct raft_io *, struct raft_io_send *, const struct raft_message *,
                raft_io_send_cb);
    int (*append)(struct raft_io *, struct raft_io_append *, const struct raft_entry *, unsigned,
                  raft_io_append_cb);
    int (*snapshot_put)(struct raft_io *, unsigned, struct raft_io_snapshot_put *,
                        const struct raft_snapshot *, raft_io_snapshot_put_cb);
    int (*load)(struct raft_io *, raft_term *, raft_id *, struct raft_snapshot **, raft_index *,
                struct raft_entry **, size_t *);
    int (*snapshot_get)(struct raft_io *, struct raft_io_snapshot_get *, raft_io_snapshot_get_cb);
    int (*set_term)(struct raft_io *, raft_term);
    int (*set_vote)(struct raft_io *, raft_id);
    raft_io_recv_cb recv;
    raft_io_tick_cb tick;
    /* The snapshot on its way. */
    uv_work_t work;
    unsigned trailing;
    struct raft_io_snapshot_put own_put; /* what raft_uv is given instead of raft's */
    struct raft_io_snapshot_put *put;
    raft_io_snapshot_put_cb put_done;
    const struct raft_snapshot *snapshot;
    struct raft_buffer bytes;
    int serialise_status;
};

/* Interposes on guard->io, which raft_uv_init() has filled. */
void raft_guard_install(struct raft_guard *guard, uv_loop_t *loop, uint64_t self_id,
                        const struct raft_guard_callbacks *callbacks, void *data);

/* A received message, corrected; false when it is held, or must be dropped (its memory is freed
 * then). */
bool raft_guard_admit(struct raft_guard *guard, struct raft_message *message);

/* Tells raft which of its entries are on disk. Once a turn of the loop, after polling; and before
 * raft is closed. */
void raft_guard_tell_written(struct raft_guard *guard);

/* raft_assign(), without what it leaves behind when it fails. */
int raft_guard_assign(struct raft *raft, struct raft_change *request, raft_id id, int role,
                      raft_change_cb done);

/* Reads the bytes of a configuration: is `self_id` the only voter among several servers? False also
 * for what cannot be read. */
bool raft_guard_is_sole_voter(const struct raft_buffer *configuration, raft_id self_id);

/* Sends a follower an empty AppendEntries, as a heartbeat would, with this commit index. The entry
 * at that index must be of this term, and the follower must have it. */
struct raft_guard_commit {
    raft_id to_id;
    const char *to_address;
    raft_term term;
    raft_index index;
};
void raft_guard_announce(struct raft_guard *guard, const struct raft_guard_commit *commit);

/* Sends a member something that means nothing, so that raft_uv finds out when the connection is of
 * no use any more: the member may have been started anew. */
void raft_guard_knock(struct raft_guard *guard, raft_id to_id, const char *to_address);

/* Once a turn of the loop: requests for votes that have waited. */
void raft_guard_turn(struct raft_guard *guard);

/* Has raft look at the time now, between raft_uv's ticks. */
void raft_guard_tick(struct raft_guard *guard);

/* --- raft_bulk.c --- */

/* The result of an AppendEntries. False: it must be dropped. */
bool raft_bulk_admit(struct raft_guard *guard, const struct raft_message *message);
int raft_bulk_send_snapshot(struct raft_guard *guard, struct raft_io_send *request,
                            const struct raft_message *message, raft_io_send_cb done);
int raft_bulk_send_entries(struct raft_guard *guard, struct raft_io_send *request,
                           const struct raft_message *message, raft_io_send_cb done);
int raft_bulk_get(struct raft_io *io, struct raft_io_snapshot_get *request,
                  raft_io_snapshot_get_cb done);

/* --- raft_votes.c --- */

/* False: it is held. */
bool raft_votes_admit(struct raft_guard *guard, struct raft_message *message);
int raft_votes_send(struct raft_guard *guard, struct raft_io_send *request,
                    const struct raft_message *message, raft_io_send_cb done);
/* Raft may have begun to wait for its leader anew: sets for how long. */
void raft_votes_take_turn(struct raft *raft);

#endif
