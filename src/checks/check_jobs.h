/*
 * The checks that this member runs, found by their keys, with a timer each. Owns the memory of the
 * jobs; what is done with them is not known here.
 */
#ifndef LEASED_CHECKS_CHECK_JOBS_H
#define LEASED_CHECKS_CHECK_JOBS_H

#include "base/buffer.h"
#include "base/list.h"
#include "base/timing_wheel.h"
#include "checks/check_probe.h"
#include "checks/check_state.h"
#include "registry/registry_model.h"

/* One check. */
struct check_job {
    struct check_runner *runner;
    struct list in_bucket;
    struct list in_ready;                 /* waits to be started */
    struct list in_reports;               /* what it found waits to be reported */
    struct list in_aliases;               /* of a check that is as another instance is … */
    struct check_alias_service *alias_of; /* … whose service this is; NULL: of another kind */
    struct timing_wheel_timer timer;
    uint32_t handle;
    uint32_t round; /* in which it was last seen */
    uint64_t hash;  /* of its key, for shares and phases */

    /* Its key, and what that says. */
    struct buffer key;
    struct bytes service;
    struct bytes id;
    struct bytes check;
    /* Encoded, without what came of it. */
    struct buffer definition;
    uint8_t kind;
    int64_t interval_ms;
    int64_t timeout_ms;
    struct check_thresholds thresholds;

    /* What it does. */
    uint64_t due_ms;           /* when it should start, or should have */
    uint64_t started_ms;       /* of the run that is under way */
    struct check_probe *probe; /* NULL: none is */
    bool runs_as_critical;     /* how the run that is under way is counted */
    bool was_extended;         /* the run that is under way was given more time */
    int64_t token;             /* of the instance when it started */
    struct check_state state;
    uint8_t recorded_health; /* as the log has it */
    bool has_recorded_output;
    uint64_t reported_ms;
    /* What is to be reported. */
    bool is_reporting; /* it is on its way */
    struct buffer output;
};

struct check_jobs {
    struct check_job **jobs; /* by handle; NULL: free */
    size_t n_handles;
    size_t capacity;
    size_t n_jobs;
    uint32_t *free_handles;
    size_t n_free;
    struct list *buckets;
    size_t n_buckets;
    struct hash_key *hash_key;
    struct timing_wheel *wheel;
};

void check_jobs_init(struct check_jobs *jobs, uint64_t now_ms);
/* Every job was removed. */
void check_jobs_clear(struct check_jobs *jobs);

/* NULL: there is none. */
struct check_job *check_jobs_find(const struct check_jobs *jobs, struct bytes key);
/* There is none yet. The key is copied. Aborts when memory is out. */
struct check_job *check_jobs_add(struct check_jobs *jobs, struct bytes key);
/* Its probe has ended; it is in no list. */
void check_jobs_remove(struct check_jobs *jobs, struct check_job *job);

void check_jobs_arm(struct check_jobs *jobs, struct check_job *job, uint64_t due_ms);

#endif
