/*
 * One run of a native rule: what it has touched, the pools that it has looked at, the ends that it
 * tells of. Rules change acquisitions with the functions of native_grant_rules.h and end with
 * native_work_finish(), which grants what has become free, as far as the bounds of the run allow,
 * and leaves the rest to the rule "settle".
 */
#ifndef LEASED_DOORS_NATIVE_NATIVE_WORK_RULES_H
#define LEASED_DOORS_NATIVE_NATIVE_WORK_RULES_H

#include "core/rule.h"
#include "doors/native/native_keys.h"
#include "doors/native/native_model.h"
#include "doors/native/native_pool_state_rules.h"

/* A resource whose queue is to be looked at. */
struct native_queue {
    struct native_queue *next;
    struct bytes name;
    int64_t after; /* shared waiters up to this id have been looked at */
};

struct native_work {
    struct rule_run *run;
    struct arena *arena;
    struct native_queue *queues_first;
    struct native_queue *queues_last;
    struct native_pool_state *pools; /* in the order in which they were touched */
    struct native_pool_state *pools_last;
    struct native_pool_state **pools_by_name; /* a session may have slots of thousands */
    size_t n_pools;
    size_t pools_capacity;
    size_t n_slots_read; /* of those pools, by native_grant_rules.c */
    uint64_t n_ended;    /* ends there were, with those of this run; 0: not read yet */
    bool has_ended;      /* this run has told of one */
};

void native_work_init(struct native_work *work, struct rule_run *run);

/* Its queue is to be looked at before the run is over. The name must live as long as the run. */
void native_work_touch(struct native_work *work, const struct native_want *want);
/* The pool, looked at or not yet. */
struct native_pool_state *native_work_pool(struct native_work *work, struct bytes name);

/* The record of an acquisition. False: there is none. */
bool native_work_find(struct native_work *work, int64_t id,
                      struct native_acquisition *out_acquisition);
/* The record of a session. False: there is none. Texts live as long as the run. */
bool native_work_find_session(struct native_work *work, int64_t id,
                              struct native_session *out_session);

/* The id of the first key of a range. False: it is empty. */
bool native_work_first(struct native_work *work, const struct key_range *range, int64_t *out_id);

/* Tells of an end, if there is room for it. Its number, revision and time are filled in here. */
void native_work_tell(struct native_work *work, struct native_ended *ended);

/* What is kept back for the end of the run, of the records that it may look at. */
size_t native_work_records_kept(void);
/* Whether so much may still be done, with what is kept back for the end of the run. */
bool native_work_has_room(const struct native_work *work, size_t records, size_t changes,
                          size_t bytes);

/* Queues that an earlier run has left, from the value of a key 'm'. */
void native_work_resume(struct native_work *work, struct bytes value);
/* Grants, and writes what is left. True: something is left. */
bool native_work_finish(struct native_work *work);

#endif
