/*
 * Raft on this node, whole: the engine, its disk, and what travels to and from the other members'
 * engines. The owner applies what is committed and carries messages.
 */
#ifndef LEASED_RAFT_RAFT_NODE_H
#define LEASED_RAFT_RAFT_NODE_H

#include "base/buffer.h"
#include "base/latency.h"
#include "base/status.h"
#include "raft/raft_engine.h"
#include "raft/raft_files.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct raft_node;
struct snapshot_writer;

struct raft_node_options {
    struct raft_files files;
    uint64_t self_id;
    uint32_t heartbeat_ms;
    uint32_t election_ms;
    unsigned seed;
    /* Who takes part from the beginning, if the directory is empty; n 0: this node joins. */
    const struct raft_config *bootstrap;
    const char *self_address;
    /* This node goes on alone with what it has, whoever else took part. */
    bool force_new_cluster;
};

struct raft_node_calls {
    /* An entry that another member sent and that is not in the log yet. False: nobody could apply
     * it, and the message counts as malformed. */
    bool (*check)(void *data, const struct log_item *item);
    void (*apply)(void *data, const struct log_item *item);
    /* Whether the state can be replaced now; if not, it is asked again by the next poll. */
    bool (*can_restore)(void *data);
    /* Whether these are the bytes of a whole snapshot: STATUS_OK, STATUS_CORRUPT,
     * STATUS_UNSUPPORTED. */
    enum status (*check_snapshot)(struct bytes payload);
    /* In a worker, of a snapshot that another member sent: whether restore() could make a state of
     * it. Members that proved who they are may be believed. */
    bool (*check_received)(void *data, struct bytes payload);
    /* The answer was no, and the snapshot is not installed. */
    void (*unreadable_snapshot)(void *data);
    /* Replaces the state. STATUS_CORRUPT, STATUS_UNSUPPORTED. */
    enum status (*restore)(void *data, struct bytes payload);
    void (*role_changed)(void *data);
    void (*configuration_changed)(void *data);
    bool (*may_vote)(void *data, uint64_t candidate_id);
    bool (*is_leaderless)(void *data);
    /* In a worker: appends the state, as it was when the snapshot was begun. 0 or an errno. */
    int (*serialise)(void *data, struct snapshot_writer *writer);
    /* The snapshot is durable, or was called off (size 0): what it was made from may go. Also
     * called while closing. */
    void (*snapshot_ended)(void *data, uint64_t size);
    /* Bytes that the link to this member takes; 0: down or full. */
    size_t (*room)(void *data, uint64_t to_id);
    /* The body of a frame goes into this buffer; NULL: not now. */
    struct buffer *(*frame_begin)(void *data, uint64_t to_id, bool is_urgent);
    void (*frame_end)(void *data, uint64_t to_id);
    /* The node cannot go on. */
    void (*failed)(void *data, enum status status, const char *reason);
};

/* Loads what the disk holds, restores the newest snapshot (restore() is called), starts raft.
 * On failure `out_error` says what to do. What was loaded is applied by the first polls. */
enum status raft_node_open(uv_loop_t *loop, const struct raft_node_options *options,
                           const struct raft_node_calls *calls, void *data,
                           struct raft_node **out_node, char *out_error, size_t error_size);
/* At any moment. Nothing is called any more but snapshot_ended and closed. */
void raft_node_close(struct raft_node *node, void (*closed)(void *data), void *data);

/* For requests and questions about the state (raft_engine.h). */
struct raft_engine *raft_node_engine(struct raft_node *node);

/* The body of a frame from the member that its connection proved to be. False: malformed. */
bool raft_node_receive(struct raft_node *node, uint64_t from_id, struct bytes body);
void raft_node_link_lost(struct raft_node *node, uint64_t id);
/* What the disk has finished. After polling, so that the next write has begun before this one's
 * entries are applied. */
void raft_node_complete_writes(struct raft_node *node);
/* Time-outs, and everything that waits to be sent. Before polling. */
void raft_node_poll(struct raft_node *node, uint64_t now_ms);
uint64_t raft_node_deadline_ms(const struct raft_node *node, uint64_t now_ms);

/* Begins a snapshot of what is applied; keeps so many entries before it, and more, within a bound,
 * while a member that is being caught up needs them. False: not now. */
bool raft_node_take_snapshot(struct raft_node *node, uint64_t trailing);
bool raft_node_is_taking_snapshot(const struct raft_node *node);
uint64_t raft_node_disk_bytes(const struct raft_node *node);
/* As raft_storage_timing(). */
void raft_node_timing(const struct raft_node *node, struct latency *out_writes,
                      struct latency *out_syncs, uint64_t *out_bytes,
                      struct latency *out_snapshots);
/* A snapshot is on its way to this member; from it. */
bool raft_node_is_sending_snapshot(const struct raft_node *node, uint64_t to_id);
bool raft_node_is_receiving_snapshot(const struct raft_node *node, uint64_t from_id);

#endif
