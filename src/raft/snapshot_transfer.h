/*
 * A snapshot on its way to one member. A probe (the first chunk without payload, with the
 * configuration) asks the member how much of this snapshot it has; from there chunks are read and
 * sent, a window ahead of what the member says it has written. A link that was lost, and a member
 * that says nothing, are probed again, so that a transfer goes on where it was.
 *
 * A transfer lasts until the member has installed the snapshot, does not make progress for long, or
 * the snapshot is gone: until then the member's rejections tell raft nothing.
 */
#ifndef LEASED_RAFT_SNAPSHOT_TRANSFER_H
#define LEASED_RAFT_SNAPSHOT_TRANSFER_H

#include "raft/raft_sender.h"

enum {
    TRANSFER_WINDOW = 8 * SNAPSHOT_CHUNK_SIZE, /* sent and not yet written by the member */
    TRANSFER_PROBE_MS = 2000,                  /* without progress: the member is probed again */
    TRANSFER_GIVE_UP_MS = 30000,               /* without progress: the transfer ends */
    TRANSFER_INSTALL_MS = 60000                /* for the member to install it */
};

enum transfer_state {
    TRANSFER_IDLE,
    TRANSFER_OPENING,   /* its metadata is being read */
    TRANSFER_PROBE_DUE, /* a probe leaves when there is room */
    TRANSFER_PROBING,   /* and is to be answered */
    TRANSFER_STREAMING,
    TRANSFER_INSTALLING /* the member has all of it */
};

struct snapshot_transfer {
    const struct raft_sender_calls *calls;
    void *data;
    uint64_t to_id;
    enum transfer_state state;
    uint64_t term; /* the leader's */
    uint64_t index;
    uint64_t snapshot_term;
    struct snapshot_meta *meta; /* NULL: not read yet */
    uint64_t received;          /* as the member says */
    uint64_t offset;            /* of the chunk to be read next */
    bool is_link_new;           /* nothing sent since the link was opened */
    bool is_reading;
    bool is_read_stale;
    uint64_t progress_ms; /* more was received, or it began */
    uint64_t probe_ms;    /* the newest of progress and probe */
};

void snapshot_transfer_init(struct snapshot_transfer *transfer,
                            const struct raft_sender_calls *calls, void *data, uint64_t to_id);
void snapshot_transfer_clear(struct snapshot_transfer *transfer);

/* Raft wants this snapshot sent. One that is under way and makes progress goes on, also when
 * another one is wanted by now: a member that is slower than snapshots are taken gets one. */
void snapshot_transfer_post(struct snapshot_transfer *transfer,
                            const struct message_snapshot *snapshot, uint64_t now_ms);
void snapshot_transfer_pump(struct snapshot_transfer *transfer, uint64_t now_ms);
void snapshot_transfer_read_done(struct snapshot_transfer *transfer,
                                 const struct snapshot_meta *meta, uint64_t offset,
                                 struct bytes chunk, uint64_t now_ms);
void snapshot_transfer_on_result(struct snapshot_transfer *transfer,
                                 const struct message_snapshot_result *result, uint64_t now_ms);
/* May raft see this result? */
bool snapshot_transfer_admit(struct snapshot_transfer *transfer,
                             const struct message_append_result *result);
void snapshot_transfer_link_lost(struct snapshot_transfer *transfer);
void snapshot_transfer_stop(struct snapshot_transfer *transfer);
/* Is the file still needed? */
bool snapshot_transfer_is_reading_file(const struct snapshot_transfer *transfer);

#endif
