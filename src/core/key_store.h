/*
 * The keys: etcd's multi-version model in memory. Every change has a revision; a key's versions
 * are kept until compaction; keys are ordered. The ordered index is a copy-on-write tree, so a
 * view of the store at one moment costs nothing to take and can be read from another thread while
 * the loop goes on writing.
 *
 * Every read and write names a key space (key_space.h) and never leaves it; revisions and history
 * are shared by all spaces.
 *
 * Deterministic: equal changes in equal order give equal stores. It knows nothing of leases but
 * the number in the record. The first revision of an empty store is 1, so the first change makes
 * revision 2, as in etcd.
 */
#ifndef LEASED_CORE_KEY_STORE_H
#define LEASED_CORE_KEY_STORE_H

#include "base/arena.h"
#include "base/status.h"
#include "core/key_space.h"
#include "core/key_work.h"
#include "core/operation.h"
#include "core/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct key_store;

struct key_store *key_store_create(void);
void key_store_destroy(struct key_store *store);

/* The newest finished revision. */
int64_t key_store_revision(const struct key_store *store);
/* Revisions below this one cannot be read any more; 0: never compacted. */
int64_t key_store_compacted_revision(const struct key_store *store);

struct key_store_stats {
    size_t keys;          /* live keys at the newest revision */
    size_t records;       /* versions and tombstones held */
    size_t bytes;         /* memory of records and index, as counted by the store */
    size_t bytes_live;    /* of which newest versions of live keys */
    size_t history_bytes; /* of which other versions and tombstones, and the order of all */
};
void key_store_stats(const struct key_store *store, struct key_store_stats *out_stats);
/* Of these, `bytes`. */
size_t key_store_bytes(const struct key_store *store);

/* Bytes of live keys that are long (KEY_WORK_LONG_KEY), of every space: their deletion repeats
 * them. */
size_t key_store_long_keys(const struct key_store *store);

/* --- Writing. All changes between begin and end share one revision. --- */

/* Starts a revision. Not nestable. */
void key_store_begin(struct key_store *store);
/* True when something was changed since key_store_begin(). */
bool key_store_is_changed(const struct key_store *store);
/* Ends the revision: if anything changed, the store's revision goes up by one. Returns the
 * revision the store then has. */
int64_t key_store_end(struct key_store *store);

/* Writes a key (not empty) and returns its new record; `out_previous` (may be NULL) gets the live
 * record that was replaced, or NULL. Writing the same key twice in one revision is allowed. */
struct record *key_store_put(struct key_store *store, struct key_space_id space, struct bytes key,
                             struct bytes value, int64_t lease_id, struct record **out_previous);

/* Deletes one live key by its newest record, leaving a tombstone, which is returned. */
struct record *key_store_delete(struct key_store *store, struct record *live);

/* --- Reading. Between begin and end, reads of the newest revision see the changes so far. --- */

/* The live newest record of a key, or NULL. */
struct record *key_store_find(const struct key_store *store, struct key_space_id space,
                              struct bytes key);

/* Visits the live newest records of a range in key order until `visit` returns false. Returns how
 * many it visited. The work is for the caller to count. */
size_t key_store_visit(const struct key_store *store, struct key_space_id space, struct bytes key,
                       struct bytes range_end,
                       bool (*visit)(void *context, const struct record *record), void *context);
/* How many live keys a range has; counted, not walked. */
size_t key_store_count(const struct key_store *store, struct key_space_id space, struct bytes key,
                       struct bytes range_end);

/* All live newest records of a range in key order, in arena memory. */
void key_store_collect(const struct key_store *store, struct key_space_id space, struct bytes key,
                       struct bytes range_end, struct arena *arena, struct record ***out_records,
                       size_t *out_n);

/* STATUS_REVISION_COMPACTED, STATUS_REVISION_FUTURE, STATUS_REQUEST_TOO_LARGE (more work than is
 * left of `work`). Sorting ties keep key order. Without sort and bounds a limited range looks at
 * little more than `limit` keys. The count is always exact, and cheap: at the newest revision the
 * tree keeps counts, at an older one they are corrected by what was written since, unless that is
 * more than the range has keys. */
enum status key_store_range(const struct key_store *store, struct key_space_id space,
                            const struct range_request *request, struct key_work *work,
                            struct arena *arena, struct range_outcome *out_outcome);

/* About how many records key_store_range() would look at; costs little itself. */
size_t key_store_range_work(const struct key_store *store, struct key_space_id space,
                            const struct range_request *request);

/* --- History: every record in the order it was written, back to compaction. --- */

/* Position of the first record with mod_revision >= revision. Positions are stable numbers that
 * grow by one a record and never restart; they are not replicated and not compared. */
uint64_t key_store_history_seek(const struct key_store *store, int64_t revision);
/* One past the newest record. */
uint64_t key_store_history_end(const struct key_store *store);
/* NULL when the position is before the compacted revision, or at or after the end. What was
 * written at the compacted revision itself is still there: a watcher may start at it. */
const struct record *key_store_history_at(const struct key_store *store, uint64_t position);
/* The live version of this record's key that it replaced; NULL when there was none, and for records
 * of the compacted revision or before. */
const struct record *key_store_previous(const struct key_store *store, const struct record *record);

/* --- Compaction. --- */

/* From now on revisions below `revision` are refused. STATUS_REVISION_COMPACTED when it is not
 * above the last compaction, STATUS_REVISION_FUTURE. 0 is no compaction, and refused after one.
 * Memory comes back bit by bit. */
enum status key_store_compact(struct key_store *store, int64_t revision);
/* Frees what compaction made superfluous, at most `budget` records; true when more is waiting.
 * To be called between iterations of the loop. Does nothing while a view is open. */
bool key_store_reclaim(struct key_store *store, size_t budget);

/* A hash over what key_view_visit() shows of one space, as far as written up to `revision` (0 or
 * less: newest): equal stores give equal hashes, whatever has been physically reclaimed.
 * STATUS_REVISION_COMPACTED, STATUS_REVISION_FUTURE. */
enum status key_store_hash(const struct key_store *store, struct key_space_id space,
                           int64_t revision, uint32_t *out_hash);

/* --- Views: the store as it was at one moment, readable from one other thread. --- */

struct key_view;

/* Constant time. Any number may be open. Nothing that a view can see is freed or changed. */
struct key_view *key_view_open(struct key_store *store);
/* On the loop's thread. */
void key_view_close(struct key_view *view);

int64_t key_view_revision(const struct key_view *view);
int64_t key_view_compacted_revision(const struct key_view *view);
/* Calls `visit` for every record of the view, in key order, and within a key from oldest to
 * newest: every record (tombstones too) written at the compacted revision or later, and of each
 * key the one that is read at the compacted revision. Stops and returns false when `visit` does.
 * Thread-safe against the loop, as long as `visit` leaves the lease links alone (so it must not
 * copy a whole record either). */
bool key_view_visit(const struct key_view *view,
                    bool (*visit)(void *context, const struct record *record), void *context);
/* The same, one record a call, so that one may stop and go on later; NULL: there is no more. To be
 * closed before the view. */
struct key_view_walk;
/* One space, or with KEY_SPACE_NONE all of them. */
struct key_view_walk *key_view_walk_open(const struct key_view *view, struct key_space_id space);
const struct record *key_view_walk_next(struct key_view_walk *walk);
void key_view_walk_close(struct key_view_walk *walk);
/* The same for the live keys of one space, at the view's revision. */
bool key_view_visit_live(const struct key_view *view, struct key_space_id space,
                         bool (*visit)(void *context, const struct record *record), void *context);
/* As key_store_range() and key_store_visit() would have answered; from any one thread. */
enum status key_view_range(const struct key_view *view, struct key_space_id space,
                           const struct range_request *request, struct key_work *work,
                           struct arena *arena, struct range_outcome *out_outcome);
size_t key_view_visit_range(const struct key_view *view, struct key_space_id space,
                            struct bytes key, struct bytes range_end,
                            bool (*visit)(void *context, const struct record *record),
                            void *context);
/* Live keys. */
size_t key_view_key_count(const struct key_view *view);
/* The view for functions that read a store: key_store_find(), _visit(), _count(), _collect(),
 * _revision() and _compacted_revision() answer as the store did then, and may be called from one
 * other thread. It has no history. It lives as long as the view. */
const struct key_store *key_view_store(const struct key_view *view);

/* --- Restoring, into a new store. --- */

/* Adds one record exactly as key_view_visit() gave it (same order). The template's revisions,
 * version and lease are copied; a new record is returned so that the caller can attach its lease
 * (if it is still the newest of its key at the end). STATUS_CORRUPT when the order or the numbers
 * cannot be: then nothing is added. */
enum status key_store_restore(struct key_store *store, const struct record *template,
                              struct key_space_id space, struct bytes key, struct bytes value,
                              struct record **out_record);
/* Ends the restore: sets the revisions, rebuilds the history order. STATUS_CORRUPT. */
enum status key_store_restore_end(struct key_store *store, int64_t revision,
                                  int64_t compacted_revision);

/* Goes on from a later revision, as if all up to it had been used: for a store that was restored
 * from a backup, whose clients may have seen more than it holds. */
void key_store_raise_revision(struct key_store *store, int64_t revision);

/* Asserts every invariant of tree, counts, chains and history; for tests. */
void key_store_validate(const struct key_store *store);

#endif
