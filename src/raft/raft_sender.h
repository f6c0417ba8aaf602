/*
 * What goes out to the other members. Small messages leave at once. Entries are taken from the log
 * in memory, or from disk where they have left it, and cut into messages of bounded size; a
 * snapshot is read chunk by chunk. Both are sent only as fast as the link drains, so that no more
 * than a bound lies in memory for a slow member, and what is on its way is not sent again.
 */
#ifndef LEASED_RAFT_RAFT_SENDER_H
#define LEASED_RAFT_RAFT_SENDER_H

#include "raft/raft_message.h"

#include <stdbool.h>
#include <stdint.h>

struct raft_sender;

/* None of them calls back into the sender. */
struct raft_sender_calls {
    /* Bytes that the link to this member takes now; 0: it is down or full. A link that has drained
     * has room for MESSAGE_APPEND_BYTES_MAX at least, or entries of that size never leave. */
    size_t (*room)(void *data, uint64_t to_id);
    /* Sends, and is done with the message when it returns; false: the link is down. Called without
     * room for small messages: appends without entries, results, votes, timeout-now. */
    bool (*send)(void *data, uint64_t to_id, const struct raft_message_view *message);
    /* The item, borrowed; NULL: it has left memory. */
    struct log_item *(*item)(void *data, uint64_t index);
    /* Has the entries read from disk; raft_sender_read_done() follows, on the loop, later, never
     * from within, and unless the sender is destroyed before. At most one at a time for each
     * member. */
    void (*read_log)(void *data, uint64_t to_id, uint64_t first, uint64_t last, size_t bytes_max);
    /* The same for a chunk of the snapshot of this index and term; SNAPSHOT_CHUNK_SIZE bytes, or
     * what is left. */
    void (*read_snapshot)(void *data, uint64_t to_id, uint64_t index, uint64_t term,
                          uint64_t offset);
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
/* Items with one reference each, taken over, from `first` on as it was asked for; n 0: they are
 * gone (trimmed), the stream ends. The array stays the caller's. */
void raft_sender_read_done(struct raft_sender *sender, uint64_t to_id, struct log_item **items,
                           size_t n);
/* Both borrowed; chunk of size 0: the snapshot is gone, the transfer ends (meta is not looked at).
 */
void raft_sender_snapshot_read(struct raft_sender *sender, uint64_t to_id,
                               const struct snapshot_meta *meta, uint64_t offset,
                               struct bytes chunk);
/* The receiver of a transfer says how far it is. */
void raft_sender_on_result(struct raft_sender *sender, uint64_t from_id,
                           const struct message_snapshot_result *result, uint64_t now_ms);
/* Every append result of this member passes here: acknowledgements open the window of its stream
 * and end its transfer. May raft see it? False only for a rejection while what would cure it is on
 * its way (a snapshot in transfer, entries in the stream) and that has not stalled. The member was
 * heard all the same: the caller tells raft so by an accepted result with last_index 0 in its
 * place, lest a leader that transfers a snapshot to half of its voters believes it has lost its
 * quorum. */
bool raft_sender_admit_rejection(struct raft_sender *sender, uint64_t from_id,
                                 const struct message_append_result *result, uint64_t now_ms);
/* Our link to this member. What was sent may not have arrived: the stream ends, raft's next request
 * starts it anew; a transfer asks the member where to go on when there is room again. */
void raft_sender_link_lost(struct raft_sender *sender, uint64_t id);
/* No longer leader, or another term: all streams end. */
void raft_sender_stop_all(struct raft_sender *sender);
/* The last entry that the member which lags most among those in contact has or is being sent in a
 * snapshot: it needs what follows. UINT64_MAX: nobody needs anything. */
uint64_t raft_sender_needed_from(const struct raft_sender *sender);
/* A transfer is under way to anybody: the snapshot must be kept. */
bool raft_sender_is_transferring(const struct raft_sender *sender);
/* To this member; true also while it installs what it has been sent. */
bool raft_sender_is_transferring_to(const struct raft_sender *sender, uint64_t id);

#endif
