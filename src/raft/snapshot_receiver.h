/*
 * The receiving side of a snapshot: chunks are put together in a temporary file, in order, and only
 * a whole snapshot reaches the engine. One transfer at a time, and at most RECEIVER_CHUNKS_MAX
 * chunks in memory. The sender is told how much is written; a sender that comes back after its link
 * was lost asks by a probe (a first chunk without payload) and goes on from there.
 *
 * A transfer is one file of one member: its id, and index, term and size of the snapshot. Another
 * member's file of the same snapshot may hold the same state in other bytes, so it starts anew.
 *
 * The file is written by somebody else, in order, without blocking the loop (the calls below). What
 * arrives has passed raft_codec_decode(); the values are checked here.
 */
#ifndef LEASED_RAFT_SNAPSHOT_RECEIVER_H
#define LEASED_RAFT_SNAPSHOT_RECEIVER_H

#include "base/status.h"
#include "raft/raft_message.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    RECEIVER_CHUNKS_MAX = 16,       /* being written; above the sender's window */
    RECEIVER_SILENT_MS = 10 * 1000, /* any other transfer may replace a silent one */
    RECEIVER_ABANDON_MS = 600 * 1000
};

struct snapshot_receiver;

struct snapshot_receiver_calls {
    /* --- The file. Each of these four begins something that ends with snapshot_receiver_written(),
     * on the loop, later, never from within, in the order in which they were called. --- */
    /* A new temporary file. The metadata is borrowed; its size is what the payload will have. */
    void (*begin)(void *data, const struct snapshot_meta *meta);
    /* Takes over `bytes`, from malloc(). */
    void (*append)(void *data, uint8_t *bytes, size_t size);
    /* All of it was appended: sync it. */
    void (*finish)(void *data);
    /* Remove it, finished or not. */
    void (*abort)(void *data);
    /* --- The owner. --- */
    void (*send)(void *data, uint64_t to_id, const struct message_snapshot_result *result);
    /* Could it be of use? False: the state here is as new or newer; the sender is told that it is
     * received. */
    bool (*is_wanted)(void *data, const struct snapshot_meta *meta);
    /* The file is whole and synced. `term`: the leader's, of its newest message. True: it is being
     * installed, and snapshot_receiver_installed() follows, perhaps from within. False: it is not
     * wanted any more; abort() is called for it. */
    bool (*complete)(void *data, uint64_t from_id, uint64_t term, const struct snapshot_meta *meta);
};

/* `size_max`: of a snapshot; what a member can have written to this disk. */
struct snapshot_receiver *snapshot_receiver_create(const struct snapshot_receiver_calls *calls,
                                                   void *data, uint64_t size_max);
/* Calls nothing. What was begun with the file stays the caller's business. */
void snapshot_receiver_destroy(struct snapshot_receiver *receiver);

/* A chunk or a probe. The caller has checked that its term is not below the engine's own and does
 * not leap. A newer snapshot, or that of a newer leader, replaces an older one when its first chunk
 * comes. What does not continue the transfer is answered with how far it is. While a snapshot is
 * being installed everything is ignored. STATUS_OK for all of that; STATUS_REQUEST_TOO_LARGE: the
 * snapshot is over the limit; STATUS_TOO_MANY_REQUESTS: the disk is behind, the sender will ask
 * again. Nothing is to be done but to log them. */
enum status snapshot_receiver_receive(struct snapshot_receiver *receiver, uint64_t from_id,
                                      const struct message_snapshot *message, uint64_t now_ms);
/* The oldest call on the file has ended. After a failure, which ends the node, the receiver does
 * nothing more. */
void snapshot_receiver_written(struct snapshot_receiver *receiver, enum status status);
/* The engine is done with it, well or not: the file is no longer the receiver's. */
void snapshot_receiver_installed(struct snapshot_receiver *receiver);

/* Gives up what is being received, if anything: this node leads, or stops. What is being installed
 * goes on. */
void snapshot_receiver_cancel(struct snapshot_receiver *receiver);
/* Now and then: a transfer that is silent for RECEIVER_ABANDON_MS gives back its room on disk. */
void snapshot_receiver_poll(struct snapshot_receiver *receiver, uint64_t now_ms);

bool snapshot_receiver_is_installing(const struct snapshot_receiver *receiver);
/* The member whose snapshot is being received or installed; 0: none. */
uint64_t snapshot_receiver_from_id(const struct snapshot_receiver *receiver);
/* Calls on the file that have not ended yet. */
size_t snapshot_receiver_count_calls(const struct snapshot_receiver *receiver);

#endif
