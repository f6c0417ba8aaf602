/*
 * What goes out to the other members. Small messages leave at once. Entries are taken from the log
 * in memory, or from disk where they have left it, and cut into messages of bounded size; a snapshot
 * is read chunk by chunk. Both are sent only as fast as the link drains, so that no more than a bound
 * lies in memory for a slow member, and what is on its way is not sent again.
 *
 * Also the receiving side of snapshots: chunks are put together in a temporary file, resumed after a
 * lost link, and only a whole, checked snapshot reaches the engine.
 */
#ifndef LEASED_RAFT_RAFT_SENDER_H
#define LEASED_RAFT_RAFT_SENDER_H

#include "raft/raft_message.h"

#include <stdbool.h>
#include <stdint.h>

struct raft_sender;

struct raft_sender_calls {
    /* Bytes that the link to this member takes now; 0: it is down or full. */
    size_t (*room)(void *data, uint64_t to_id);
    /* Sends; false: the link is down. */
    bool (*send)(void *data, uint64_t to_id, const struct raft_message_view *message);
    /* The item, borrowed; NULL: it has left memory. */
    struct log_item *(*item)(void *data, uint64_t index);
    /* Has the entries read from disk; raft_sender_read_done() follows, on the loop, later. At most one
     * at a time for each member. */
    void (*read_log)(void *data, uint64_t to_id, uint64_t first, uint64_t last, size_t bytes_max);
    /* The same for a chunk of the newest snapshot of this index and term. */
    void (*read_snapshot)(void *data, uint64_t to_id, uint64_t index, uint64_t term, uint64_t offset);
};

struct raft_sender *raft_sender_create(const struct raft_sender_calls *calls, void *data);
void raft_sender_destroy(struct raft_sender *sender);

/* The engine has a message. An append without entries, results, votes and timeout-now leave at once
 * (a heartbeat overtakes a stream of entries that is still waiting for room: its prev is what raft
 * said, its commit is fine at any time). An append with entries becomes, or extends, the stream of
 * this member. MESSAGE_SNAPSHOT: meta only; starts a transfer unless one of the same snapshot is
 * under way. */
void raft_sender_post(struct raft_sender *sender, uint64_t to_id,
                      const struct raft_message_view *message, uint64_t now_ms);
/* Goes on with streams and transfers as far as there is room. Once an iteration. */
void raft_sender_pump(struct raft_sender *sender, uint64_t now_ms);
/* Items with one reference each, taken over; n 0: they are gone (trimmed), the stream ends. */
void raft_sender_read_done(struct raft_sender *sender, uint64_t to_id, struct log_item **items,
                           size_t n);
/* chunk borrowed; size 0: the snapshot is gone, the transfer ends. */
void raft_sender_snapshot_read(struct raft_sender *sender, uint64_t to_id,
                               const struct snapshot_meta *meta, uint64_t offset,
                               struct bytes chunk);
/* The receiver of a transfer says how far it is. */
void raft_sender_on_result(struct raft_sender *sender, uint64_t from_id,
                           const struct message_snapshot_result *result, uint64_t now_ms);
/* A rejected append of this member arrived: may raft see it? False while what would cure it is on its
 * way (a snapshot in transfer, entries in the stream). */
bool raft_sender_admit_rejection(struct raft_sender *sender, uint64_t from_id,
                                 const struct message_append_result *result, uint64_t now_ms);
void raft_sender_link_lost(struct raft_sender *sender, uint64_t id);
/* No longer leader, or another term: all streams end. */
void raft_sender_stop_all(struct raft_sender *sender);
/* A transfer is under way to anybody: the snapshot must be kept. */
bool raft_sender_is_transferring(const struct raft_sender *sender);

#endif
