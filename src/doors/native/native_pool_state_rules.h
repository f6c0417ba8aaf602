/*
 * A pool as a run sees it: which slots are free, who has how many, who waits, and who is next. The
 * order is that of native_rules.h.
 */
#ifndef LEASED_DOORS_NATIVE_NATIVE_POOL_STATE_RULES_H
#define LEASED_DOORS_NATIVE_NATIVE_POOL_STATE_RULES_H

#include "core/rule.h"
#include "doors/native/native_model.h"

/* What it is to load a slot, one that is taken, or a place in the queue, in units of key_work.h: it
 * is decoded, and sorted by name. */
enum { NATIVE_POOL_WORK_A_SLOT = 16 };

struct native_pool_owner {
    struct bytes name;
    uint32_t weight;
    uint32_t n_held;
    uint32_t n_waiting;
};

struct native_pool_place {
    int64_t id;
    uint32_t n_slots;
    bool waits_for_pool_alone;
    bool is_gone;
    struct bytes owner_name;
    size_t owner; /* in owners */
};

struct native_pool_state {
    struct native_pool_state *next;
    struct bytes name;
    bool is_loaded;
    bool is_unsettled; /* its queue is to be looked at */
    struct native_pool config;
    bool *is_taken; /* by slot of the config */
    size_t n_free;
    struct native_pool_owner *owners; /* by name */
    size_t n_owners;
    struct native_pool_place *places; /* by id */
    size_t n_places;
};

enum native_pool_load { NATIVE_POOL_LOADED, NATIVE_POOL_MISSING, NATIVE_POOL_TOO_MUCH };
/* Reads it, unless that was done before. NATIVE_POOL_TOO_MUCH: what the run may look at, less
 * `records_kept`, does not suffice. */
enum native_pool_load native_pool_state_load(struct native_pool_state *state, struct rule_run *run,
                                             size_t records_kept);

/* Somebody asks, after all others. */
void native_pool_state_join(struct native_pool_state *state, struct arena *arena, int64_t id,
                            const struct native_pool_waiter *waiter);
/* Who is next; NULL: nobody waits who could ever be granted. */
const struct native_pool_place *native_pool_state_first(const struct native_pool_state *state);
/* Whether it is next and enough slots are free. */
bool native_pool_state_fits(const struct native_pool_state *state, int64_t id);

/* It does not wait any more. Harmless when it did not. */
void native_pool_state_leave(struct native_pool_state *state, int64_t id);
/* Takes the first free slot; its index. There must be one. */
size_t native_pool_state_take(struct native_pool_state *state, struct bytes owner);

#endif
