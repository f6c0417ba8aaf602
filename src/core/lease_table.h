/*
 * The leases: id, TTL, attached keys, and on the leader their deadlines. What is replicated
 * (everything but deadlines) changes only through commands and is equal on every replica.
 * Deadlines exist only between lease_table_lead() and lease_table_follow(): they are local, run
 * on the `now_ms` the caller passes in, and are not in snapshots.
 *
 * A lease costs at most 128 bytes. Attach, detach, renew: constant time.
 */
#ifndef LEASED_CORE_LEASE_TABLE_H
#define LEASED_CORE_LEASE_TABLE_H

#include "base/bytes.h"
#include "base/keyed_hash.h"
#include "base/status.h"
#include "core/key_space.h"
#include "core/record.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* etcd's limit, in seconds there. */
#define LEASE_TTL_MS_MAX INT64_C(9000000000000)
/* A lease without end. */
#define LEASE_TTL_FOREVER INT64_MAX

/* Keys of one lease: all of them go in one revision when it ends, and everybody waits for it, some
 * hundred milliseconds at most. Clients may attach no more; what an older release attached stays.
 */
enum { LEASE_KEYS_MAX = 128 * 1024 };
/* Of these, keys of KEY_WORK_LONG_KEY bytes and more, in bytes together: as much as one request may
 * delete. */
enum { LEASE_LONG_KEYS_MAX = 32 * 1024 * 1024 };

/* Why a lease ended. */
enum lease_end { LEASE_END_EXPIRED = 1, LEASE_END_REVOKED = 2, LEASE_END_PARENT = 3 };

/* What a class says of leases: kept for later use, 0 by default. */
typedef uint8_t lease_class;

/* The replicated facts of one lease. */
struct lease_facts {
    int64_t id;            /* never 0; may be negative */
    int64_t ttl_ms;        /* 1 .. LEASE_TTL_MS_MAX, or LEASE_TTL_FOREVER */
    int64_t parent_id;     /* 0: none. Its end ends this one. */
    int64_t checkpoint_ms; /* remaining time at the last checkpoint; 0: none */
    lease_class class;
    /* The space whose protocol granted it. No other protocol can name it; only keys of any space
     * may be attached to it by rules. */
    struct key_space_id owner;
    /* Tells this lease from an earlier one of the same id, and from itself before its TTL was
     * changed: given by the table at every grant and change. Whoever says that time is up says for
     * which epoch. */
    uint32_t epoch;
};

/* STATUS_INVALID, STATUS_LEASE_TTL_TOO_LARGE. */
enum status lease_ttl_check(int64_t ttl_ms);

struct lease_table;

/* The key is copied; NULL: hash_key_fixed. Nothing that is replicated depends on it. */
struct lease_table *lease_table_create(const struct hash_key *key);
void lease_table_destroy(struct lease_table *table);

size_t lease_table_count(const struct lease_table *table);
/* Memory the table holds, as counted by itself. */
size_t lease_table_bytes(const struct lease_table *table);

/* --- Replicated changes. --- */

/* STATUS_LEASE_EXISTS, STATUS_LEASE_NOT_FOUND (the parent), STATUS_LEASE_TTL_TOO_LARGE,
 * STATUS_INVALID (id 0, no owner, or TTL below 1). When leading, the deadline is now_ms + TTL,
 * rounded up, so never early. */
enum status lease_table_grant(struct lease_table *table, const struct lease_facts *facts,
                              uint64_t now_ms);
/* Takes a lease out. Its records must have been detached before (see lease_table_first_key), its
 * children ended before (see lease_table_first_child). STATUS_LEASE_NOT_FOUND. The end is put
 * on the bounded list of the last ended leases. */
enum status lease_table_end(struct lease_table *table, int64_t id, enum lease_end reason,
                            int64_t wall_ms);
/* Changes the TTL and clears the checkpoint; when leading, counts anew from now_ms, even if the
 * lease was claimed for expiry: that was for another epoch. */
enum status lease_table_set_ttl(struct lease_table *table, int64_t id, int64_t ttl_ms,
                                uint64_t now_ms);
/* Notes the remaining time of a lease for the next leader, counted from now_ms on this node's own
 * clock; 0 clears it. STATUS_LEASE_NOT_FOUND. */
enum status lease_table_checkpoint(struct lease_table *table, int64_t id, int64_t remaining_ms,
                                   uint64_t now_ms);
/* A term begins: every lease that has no checkpoint gets one of its full TTL. It is counted from
 * written_ms where the lease was granted or renewed through the log not after the entry
 * `committed`, otherwise from now_ms: renewals that wait for it may be answered now. */
void lease_table_checkpoint_all(struct lease_table *table, uint64_t committed, uint64_t written_ms,
                                uint64_t now_ms);
/* What follows is of the entry with this index. */
void lease_table_set_index(struct lease_table *table, uint64_t index);

/* Ties a live record to the lease it names, or unties it. Constant time. Attaching to a missing
 * lease: STATUS_LEASE_NOT_FOUND. A record with lease_id 0 is left alone. */
enum status lease_table_attach(struct lease_table *table, struct record *record);
void lease_table_detach(struct lease_table *table, struct record *record);

/* --- Reading. --- */

bool lease_table_find(const struct lease_table *table, int64_t id, struct lease_facts *out_facts);
/* False when the lease belongs to another; one that does not exist belongs to everybody. */
bool lease_table_is_of(const struct lease_table *table, int64_t id, struct key_space_id owner);
/* Ids given out in a row are known ahead: prefetches what finding this one will touch, first
 * with `is_near` false, then, some ids later, with true. Changes nothing. */
void lease_table_prefetch(const struct lease_table *table, int64_t id, bool is_near);
/* Records of a lease, linked by record->lease_next; NULL: none, or no such lease. The order is not
 * the same on every replica: a caller that deletes them sorts by key first. */
struct record *lease_table_first_key(const struct lease_table *table, int64_t id);
size_t lease_table_key_count(const struct lease_table *table, int64_t id);
/* What it is to end the lease, in units of key_work.h, without its family and without hooks. */
size_t lease_table_end_work(const struct lease_table *table, int64_t id);
/* Bytes of its keys that are long. */
size_t lease_table_long_keys(const struct lease_table *table, int64_t id);
/* Whether a lease has as many keys as it may have, or would have too long ones with this. */
bool lease_table_is_full(const struct lease_table *table, int64_t id, struct bytes key);
/* Whether a protocol may attach one more key to its lease. STATUS_LEASE_NOT_FOUND: there is none,
 * or another's; STATUS_TOO_MANY_KEYS. */
enum status lease_table_may_attach(const struct lease_table *table, int64_t id,
                                   struct key_space_id owner, struct bytes key);
/* What was found out about a user's right to the keys of a lease: see lease_checks.h. */
struct lease_check;
struct lease_check *lease_table_check(struct lease_table *table, int64_t id);
/* The child of a lease with the smallest id, so that every replica ends them in the same order;
 * 0: none. */
int64_t lease_table_first_child(const struct lease_table *table, int64_t id);
/* The ids of a lease and of all that descend from it, in an order that is not the same on every
 * replica. Returns how many there are, 0 when there is no such lease; more than LEASE_FAMILY_MAX:
 * it stopped looking, and the ids are good for nothing. */
enum { LEASE_FAMILY_MAX = 1024 };
size_t lease_table_family(const struct lease_table *table, int64_t id,
                          int64_t out_ids[LEASE_FAMILY_MAX]);
/* The newest epoch given: replicated, and changed by every grant. */
uint32_t lease_table_epoch(const struct lease_table *table);
/* Copies the ids of all leases in ascending order. The caller frees it. */
int64_t *lease_table_ids(const struct lease_table *table, size_t *out_n);

/* The last ended leases, newest first; at most `capacity`. Bounded (LEASE_ENDED_MAX kept). */
enum { LEASE_ENDED_MAX = 1024 };
struct lease_ended {
    int64_t id;
    int64_t ttl_ms;
    int64_t wall_ms; /* the proposer's wall clock: information only */
    enum lease_end reason;
};
size_t lease_table_ended(const struct lease_table *table, struct lease_ended *out_ended,
                         size_t capacity);

/* --- Deadlines, on the leader only. --- */

/* Starts to count: every lease gets its full TTL from now_ms, or what is left of its checkpoint
 * when it has one (a checkpoint never makes it longer). */
void lease_table_lead(struct lease_table *table, uint64_t now_ms);
void lease_table_follow(struct lease_table *table);
bool lease_table_is_leading(const struct lease_table *table);

/* Counts a lease anew from now_ms. STATUS_LEASE_NOT_FOUND; STATUS_NO_LEADER when not leading;
 * STATUS_PENDING when its expiry has been claimed for proposal already (lease_table_claim_expired):
 * wait for its end.
 * `out_ttl_ms`: the full TTL. `out_checkpointed`: true when a checkpoint stands, or is on its way,
 * that must be cleared through the log before the renewal is acknowledged. */
enum status lease_table_renew(struct lease_table *table, int64_t id, uint64_t now_ms,
                              int64_t *out_ttl_ms, bool *out_checkpointed);

/* Remaining time, 0 when it is over, LEASE_TTL_FOREVER. STATUS_LEASE_NOT_FOUND, STATUS_NO_LEADER.
 */
enum status lease_table_remaining(const struct lease_table *table, int64_t id, uint64_t now_ms,
                                  int64_t *out_remaining_ms);

/* Claims at most `capacity` leases whose deadline has passed, marks them as expiring, and writes
 * their ids in ascending order. Returns how many. The work of one call is bounded: there may be
 * more when lease_table_next_ms() <= now_ms afterwards. Never early. A lease that was claimed is
 * not given out again unless lease_table_unclaim() is called. */
size_t lease_table_claim_expired(struct lease_table *table, uint64_t now_ms, int64_t *out_ids,
                                 size_t capacity);
/* The proposal failed: the lease is due again at once (or, if its TTL was changed meanwhile, when
 * that is over). Harmless when it is gone. */
void lease_table_unclaim(struct lease_table *table, int64_t id);
/* The same, but it is claimed again at `until_ms` only: until then it is in nobody's way. Its
 * deadline, and what a renewal does, are those of any lease that is due. */
void lease_table_put_off(struct lease_table *table, int64_t id, uint64_t until_ms);

/* Leases that have not been renewed for half of their TTL, then for three quarters and seven
 * eighths: the next leader must learn of it, or it would give them their full TTL. Found by
 * lease_table_claim_expired(); a new leader finds those whose checkpoint it has counted down. */
struct lease_overdue {
    int64_t id;
    int64_t remaining_ms;
    uint32_t epoch;
};
bool lease_table_has_overdue(const struct lease_table *table);
/* Takes at most `capacity`, with ids in ascending order; less although there are more, if many were
 * renewed meanwhile. Until lease_table_noted() is called, a
 * renewal of one of them says that it is checkpointed. */
size_t lease_table_take_overdue(struct lease_table *table, uint64_t now_ms,
                                struct lease_overdue *out_overdue, size_t capacity);
/* Its checkpoint was applied, or will never be. */
void lease_table_noted(struct lease_table *table, int64_t id, uint32_t epoch);

/* A time at which to call lease_table_claim_expired() again: not later than the next deadline, but
 * perhaps earlier. UINT64_MAX: none. */
uint64_t lease_table_next_ms(const struct lease_table *table);

/* When the lease would have been due: for measuring lateness, also while it is expiring. 0:
 * unknown, or never. */
uint64_t lease_table_due_ms(const struct lease_table *table, int64_t id);

/* --- Views: the facts of all leases at one moment, readable from one other thread. --- */

struct lease_view;

/* Copy-on-write by page: costs a pointer per page of leases, not a copy of them. */
struct lease_view *lease_view_open(struct lease_table *table);
void lease_view_close(struct lease_view *view);
/* The newest epoch given. */
uint32_t lease_view_epoch(const struct lease_view *view);
size_t lease_view_count(const struct lease_view *view);
/* Every lease, in an order that is equal for equal histories of grants and ends only if the
 * caller sorts; stops when `visit` returns false. Thread-safe against the loop. */
bool lease_view_visit(const struct lease_view *view,
                      bool (*visit)(void *context, const struct lease_facts *facts), void *context);
/* The ended list as it was, oldest first. */
size_t lease_view_ended(const struct lease_view *view, struct lease_ended *out_ended,
                        size_t capacity);

/* --- Restoring, into a new table that does not lead. --- */

/* Puts a lease back as lease_view_visit() gave it, in any order: a parent may come after its
 * children. STATUS_CORRUPT. */
enum status lease_table_restore(struct lease_table *table, const struct lease_facts *facts);
/* Ends the restore: ties children to their parents. STATUS_CORRUPT when a parent is missing or a
 * lease would descend from itself; the table is then good for nothing but lease_table_destroy(). */
enum status lease_table_restore_end(struct lease_table *table, uint32_t epoch);
/* Puts an entry back on the ended list (oldest first). */
void lease_table_restore_ended(struct lease_table *table, const struct lease_ended *ended);

/* Asserts every invariant; for tests. */
void lease_table_validate(const struct lease_table *table);

#endif
