/*
 * The disk as the loop sees it: votes are written at once, everything else is handed to threads and
 * comes back. One lane writes and reads the log; another reads and writes snapshots that travel
 * between members; a snapshot of our own state is written by a worker.
 *
 * Any error ends in failed(), once, with a sentence that names the call, the file's kind and the
 * reason; nothing is reported as done afterwards.
 */
#ifndef LEASED_RAFT_RAFT_STORAGE_H
#define LEASED_RAFT_RAFT_STORAGE_H

#include "base/buffer.h"
#include "base/latency.h"
#include "base/status.h"
#include "raft/log_item.h"
#include "raft/raft_files.h"
#include "raft/snapshot_store.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct raft_storage;

struct raft_storage_callbacks {
    /* The oldest append is on disk. */
    void (*written)(void *data);
    /* Items with one reference each, the callee's; none: they are not in the log any more. */
    void (*log_read)(void *data, uint64_t to_id, struct log_item **items, size_t n);
    /* The chunk is borrowed; empty: that snapshot is gone. */
    void (*snapshot_read)(void *data, uint64_t to_id, const struct snapshot_meta *meta,
                          uint64_t offset, struct bytes chunk);
    /* In a thread of the storage: whether a received payload could be restored. */
    bool (*check)(void *data, struct bytes payload);
    /* The oldest of the calls on the file of a snapshot being received has ended. */
    void (*received)(void *data);
    /* The received snapshot has replaced the log. The payload is the callee's. */
    void (*installed)(void *data, const struct snapshot_meta *meta, struct buffer *payload);
    /* Our own snapshot is durable. Size 0: it is not, which failed() has told, or nobody because
     * the storage is closing. Called in any case: what it was made from may go. */
    void (*taken)(void *data, uint64_t size);
    void (*failed)(void *data, enum status status, const char *reason);
};

/* What was found on disk. Items have one reference each, the caller's. */
struct raft_storage_loaded {
    uint64_t term;
    uint64_t vote;
    struct snapshot_meta snapshot; /* index 0: none */
    struct buffer payload;         /* of the snapshot */
    uint64_t first_index;
    struct log_item **items;
    size_t n_items;
};
void raft_storage_loaded_clear(struct raft_storage_loaded *loaded);

/* Converts a directory of an earlier release first. On failure nothing was changed, or the
 * conversion can be repeated, and `out_error` says what to do. */
enum status raft_storage_open(uv_loop_t *loop, const struct raft_files *files,
                              const struct raft_storage_callbacks *callbacks, void *data,
                              struct raft_storage **out_storage,
                              struct raft_storage_loaded *out_loaded, char *out_error,
                              size_t error_size);
/* Blocking, before the start: a first entry, or one that forces a configuration. 0 or an errno. */
int raft_storage_append_now(struct raft_storage *storage, struct log_item *const *items, size_t n);
/* Starts the threads; from here on everything but votes goes through them. 0 or an errno. */
int raft_storage_start(struct raft_storage *storage);

/* What kind of failure an errno is: STATUS_NO_SPACE, STATUS_CORRUPT, STATUS_IO. */
enum status raft_storage_status(int error);

/* Durable when it returns 0. */
int raft_storage_store_vote(struct raft_storage *storage, uint64_t term, uint64_t vote);
/* The items' references are given back when the write has ended. */
void raft_storage_append(struct raft_storage *storage, struct log_item *const *items, size_t n);
void raft_storage_trim(struct raft_storage *storage, uint64_t upto);
void raft_storage_read_log(struct raft_storage *storage, uint64_t to_id, uint64_t first,
                           uint64_t last, size_t bytes_max);
void raft_storage_read_snapshot(struct raft_storage *storage, uint64_t to_id, uint64_t index,
                                uint64_t term, uint64_t offset);

/* A snapshot that arrives; each of these is answered by received(), in order. */
void raft_storage_receive_begin(struct raft_storage *storage, const struct snapshot_meta *meta);
/* Takes over `bytes`, from malloc(). */
void raft_storage_receive_append(struct raft_storage *storage, uint8_t *bytes, size_t size);
void raft_storage_receive_finish(struct raft_storage *storage);
/* After receive_finish has ended: whether check() was content with it. */
bool raft_storage_received_is_good(const struct raft_storage *storage);
void raft_storage_receive_abort(struct raft_storage *storage);
/* What was received takes the place of the log: commit, RESET record. installed() follows. */
void raft_storage_install(struct raft_storage *storage, const struct snapshot_meta *meta);

/* Our own. `serialise` runs in a worker and appends the payload; it returns 0 or an errno. */
struct raft_storage_source {
    int (*serialise)(void *data, struct snapshot_writer *writer);
    void *data;
};
void raft_storage_take(struct raft_storage *storage, const struct snapshot_meta *meta,
                       const struct raft_storage_source *source);

/* Hands out what is finished. */
void raft_storage_poll(struct raft_storage *storage);
/* Something has not come back yet. */
bool raft_storage_is_busy(const struct raft_storage *storage);
/* Of the log alone, as it was after the last write. */
uint64_t raft_storage_log_bytes(const struct raft_storage *storage);
uint64_t raft_storage_disk_bytes(const struct raft_storage *storage);
/* As log_store_timing(), and how long our own snapshots took. */
void raft_storage_timing(const struct raft_storage *storage, struct latency *out_writes,
                         struct latency *out_syncs, uint64_t *out_bytes,
                         struct latency *out_snapshots);
/* Waits for what is under way (without reporting it), then calls closed. */
void raft_storage_close(struct raft_storage *storage, void (*closed)(void *data), void *data);

#endif
