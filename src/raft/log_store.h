/*
 * The write-ahead log: segments of records, each checksummed with its predecessor's sum as seed, so
 * that no record can stand anywhere but where it was written. Truncation is an appended record. A
 * torn tail is only what lies in the last batch with nothing valid behind it; anything else that
 * does not add up is corruption, and the store refuses to open and says what an operator can do.
 *
 * Blocking, and used by one thread at a time: that of the caller while it opens, the log's own
 * thread afterwards (raft_lane.h). Only log_store_prepare() and log_store_is_prepared() may be
 * called by another thread meanwhile.
 */
#ifndef LEASED_RAFT_LOG_STORE_H
#define LEASED_RAFT_LOG_STORE_H

#include "base/latency.h"
#include "base/status.h"
#include "raft/log_item.h"
#include "raft/raft_files.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct log_store;

struct log_store_options {
    uint64_t segment_size; /* 0: the default */
    /* The newest snapshot, which the log must meet: it holds this entry with this term, or begins
     * right behind it, or is discarded because the snapshot was installed and the log not yet
     * reset. 0: there is none, and the log begins at 1. */
    uint64_t snapshot_index;
    uint64_t snapshot_term;
    /* The stored term (vote_store): an entry of a later term is corruption. */
    uint64_t term;
};

/* Changes nothing on disk when it fails. STATUS_CORRUPT, STATUS_IO, STATUS_NO_SPACE,
 * STATUS_UNSUPPORTED (a newer version): `out_error` says which file, what is wrong, and what to do.
 */
enum status log_store_open(const struct raft_files *files, const struct log_store_options *options,
                           struct log_store **out_store, char *out_error, size_t error_size);
/* Does not write anything. */
void log_store_close(struct log_store *store);

/* Of the entries: first == last + 1 when there are none. */
uint64_t log_store_first_index(const struct log_store *store);
uint64_t log_store_last_index(const struct log_store *store);
/* Of an entry that is there. */
uint64_t log_store_entry_term(const struct log_store *store, uint64_t index);

/* The entries from `first` on, at most up to `last` and at most about `bytes_max` (but at least
 * one). Each item has one reference, the caller's; `out_items` has room for `capacity`. 0 or an
 * errno; EBADMSG: what is read does not match its checksum any more. */
int log_store_read(struct log_store *store, uint64_t first, uint64_t last, size_t bytes_max,
                   struct log_item **out_items, size_t capacity, size_t *out_n);

/* Writes the items and syncs once. They follow each other by index; where one does not continue the
 * log (its index is at or below the last) the log is truncated from there first, in the same write.
 * 0, or an errno after which the store must not be used any more. */
int log_store_append(struct log_store *store, struct log_item *const *items, size_t n);

/* The log is replaced by an installed snapshot: it begins behind it. Synced. */
int log_store_reset(struct log_store *store, uint64_t snapshot_index, uint64_t snapshot_term);

/* Entries up to this one are not needed any more: whole segments are recycled. */
int log_store_trim(struct log_store *store, uint64_t upto);

/* After a rest: a seal behind the last batch, so that damage in it is not taken for a torn tail. */
int log_store_seal(struct log_store *store);

/* One bounded step of what can be done ahead: the spare segment, and files that were trimmed. In
 * any thread, one at a time. An error ends the store, as one of an append does. `out_is_over`:
 * there is nothing left to do, or the log's thread does it now because it needs a segment. */
int log_store_prepare(struct log_store *store, bool *out_is_over);
bool log_store_is_prepared(const struct log_store *store);

/* How long writes with their sync took, the syncs alone, and what was written. In any thread. */
void log_store_timing(const struct log_store *store, struct latency *out_writes,
                      struct latency *out_syncs, uint64_t *out_bytes);

/* Bytes of all its files. */
uint64_t log_store_disk_bytes(const struct log_store *store);

#endif
