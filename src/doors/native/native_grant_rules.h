/*
 * What becomes of acquisitions within a run: whether one fits, granting it, taking it away, and
 * granting what has become free.
 */
#ifndef LEASED_DOORS_NATIVE_NATIVE_GRANT_RULES_H
#define LEASED_DOORS_NATIVE_NATIVE_GRANT_RULES_H

#include "doors/native/native_work_rules.h"

/* Whether all that it wants is free and it is next everywhere. A pool that it waits for must know
 * it. False also when a pool is missing or too much to be looked at now. */
bool native_grant_fits(struct native_work *work, const struct native_acquisition *acquisition);

/* Grants it: its places become holds, its record says so. With `slots` it gets these, which must be
 * free; otherwise the first free ones of each pool, which must have enough. */
void native_grant(struct native_work *work, struct native_acquisition *acquisition,
                  const struct native_slot *slots, size_t n_slots);
/* Gives it its places in the queues and writes its record. */
void native_grant_queue(struct native_work *work, const struct native_acquisition *acquisition);
/* The key that finds a repeated request again. */
void native_grant_put_request(struct native_work *work,
                              const struct native_acquisition *acquisition);
void native_grant_write(struct native_work *work, const struct native_acquisition *acquisition);

/* Takes away its keys, its hold limit and its record, and touches what it had or waited for. */
void native_grant_remove(struct native_work *work, const struct native_acquisition *acquisition);

/* Grants what the queue of a resource allows. False: the run has no room left, and `after` says how
 * far it came. */
bool native_grant_settle_queue(struct native_work *work, struct native_queue *queue);
/* The same for a pool. */
bool native_grant_settle_pool(struct native_work *work, struct native_pool_state *state);

/* The hook of a lease that counts a hold limit is asked this: the acquisition's id. */
struct bytes native_hold_limit_request(struct arena *arena, int64_t acquisition_id);

#endif
