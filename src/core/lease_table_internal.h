/* The lease table from inside: shared by the files that carry out lease_table.h. */
#ifndef LEASED_CORE_LEASE_TABLE_INTERNAL_H
#define LEASED_CORE_LEASE_TABLE_INTERNAL_H

#include "base/timing_wheel.h"
#include "core/lease_checks.h"
#include "core/lease_index.h"
#include "core/lease_pages.h"
#include "core/lease_table.h"

struct lease_table {
    struct lease_pages pages;
    struct lease_index index;
    size_t n_of_owner[UINT8_MAX + 1]; /* leases, by the number of their owner's space */
    struct timing_wheel *wheel;       /* NULL: not leading */
    /* A ring: n_ended counts all that ever ended, the last LEASE_ENDED_MAX are kept. */
    struct lease_ended *ended;
    uint64_t n_ended;
    uint32_t epoch;              /* the newest given */
    uint64_t entry_index;        /* of the entry that is being applied */
    struct lease_checks *checks; /* made when first asked for; NULL: none */
    /* Leases to be checkpointed, oldest first; some may be gone or renewed by now. */
    struct {
        int64_t *ids;
        size_t begin;
        size_t end;
        size_t capacity;
    } overdue;
};

/* --- lease_deadlines.c --- */

/* The moment after which a time of `ttl_ms`, counted from now_ms, is over for certain. */
uint64_t lease_deadline(uint64_t now_ms, int64_t ttl_ms);
/* Counts a lease from now_ms for its TTL; nothing happens while not leading. */
void lease_deadlines_start(struct lease_table *table, uint32_t handle, int64_t ttl_ms,
                           uint64_t now_ms);
/* When the lease is due: on the leader, or as counted from its checkpoint. 0: not known. */
uint64_t lease_deadlines_due_ms(const struct lease_table *table, uint32_t handle);
/* The lease ends. */
void lease_deadlines_stop(struct lease_table *table, uint32_t handle);
void lease_deadlines_validate(const struct lease_table *table);

/* --- lease_checkpoints.c --- */

/* A checkpoint is not worth being corrected by less. */
enum { LEASE_COUNTED_MS_MIN = 100 };

/* The lease has been without renewal for so long that the next leader should know. */
void lease_checkpoints_add(struct lease_table *table, int64_t id);
/* Forgets what was added. */
void lease_checkpoints_clear(struct lease_table *table);

/* --- lease_table.c --- */

/* Sorts ids in ascending order. */
void lease_ids_sort(int64_t *ids, size_t n);

#endif
