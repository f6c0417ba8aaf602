/* What the files of the runner share. */
#ifndef LEASED_CHECKS_CHECK_RUNNER_INTERNAL_H
#define LEASED_CHECKS_CHECK_RUNNER_INTERNAL_H

#include "base/arena.h"
#include "checks/check_aliases.h"
#include "checks/check_jobs.h"
#include "checks/check_runner.h"
#include "checks/check_shares.h"
#include "registry/registry_keys.h"
#include "registry/registry_rules.h"

enum { CHECK_REPORTS_IN_FLIGHT_MAX = 4 };

/* Reports on their way through the log. */
struct check_report_batch {
    struct check_runner *runner;
    struct service_request request;
    bool is_used;
    size_t n;
    uint32_t handles[REGISTRY_REPORTS_MAX];
    uint8_t healths[REGISTRY_REPORTS_MAX];
    uint64_t hashes[REGISTRY_REPORTS_MAX]; /* so that a handle with another job is seen */
};

struct check_runner {
    uv_loop_t *loop;
    struct service *service;
    struct check_network *network;
    uv_timer_t timer;
    uint64_t timer_due_ms; /* UINT64_MAX: not armed */
    struct arena arena;    /* of one call */
    struct check_jobs jobs;
    uint64_t random;

    /* To be started: those that serve first, so that they do not wait for the dead. */
    struct list ready;
    struct list ready_critical;
    struct list ready_commands; /* of which few run at a time */
    size_t n_running;
    size_t n_running_critical;
    size_t n_records; /* that aliases have looked at in this iteration */
    bool is_closing;

    /* check_follow.c: the records. */
    struct service_watch watch;
    bool is_watching;
    bool is_scanning;
    uint32_t round;
    struct buffer scan_key; /* where it goes on */
    struct check_aliases aliases;

    /* check_members.c: who runs checks. */
    struct service_watch members_watch;
    bool is_watching_members;
    bool members_changed;
    bool is_needed; /* there are checks to be run, by whomever */
    struct check_shares shares;
    struct service_request member_request;
    bool is_member_requested;
    struct service_renewal renewal;
    bool is_renewing;
    int64_t lease_id; /* 0: none */
    uint64_t next_member_ms;
    uint64_t next_second_ms;

    /* check_reports.c */
    struct list reports;
    struct check_report_batch batches[CHECK_REPORTS_IN_FLIGHT_MAX];
    uint64_t next_report_ms;

    struct {
        uint64_t results[REGISTRY_CHECK_KINDS][REGISTRY_HEALTHS];
        uint64_t timeouts;
        uint64_t changes;
        uint64_t reports;
        uint64_t reports_failed;
        uint64_t scans;
        uint64_t late_ms_max;
        uint64_t late_ms_sum;
        uint64_t started;
    } stats;
};

static inline uint64_t check_runner_now(const struct check_runner *runner) {
    return uv_now(runner->loop);
}
static inline const struct key_store *check_runner_keys(const struct check_runner *runner) {
    return state_view_keys(service_view(runner->service));
}
/* The loop looks again at this time, or before. */
void check_runner_wake(struct check_runner *runner, uint64_t at_ms);
/* A run that is under way, or due, is over without a result. */
void check_runner_stop(struct check_runner *runner, struct check_job *job);
/* It is over: the instance is gone, or another member has it. */
void check_runner_drop(struct check_runner *runner, struct check_job *job);

/* ---- check_follow.c ---- */

void check_follow_init(struct check_runner *runner);
/* Begins to watch, and goes on with a scan; at most a bounded number of records. */
void check_follow_poll(struct check_runner *runner);
/* All records are looked at again. */
void check_follow_rescan(struct check_runner *runner);
/* Of its definition; arrays are arena memory. */
void check_follow_decode(struct check_runner *runner, const struct check_job *job,
                         struct registry_check *out_check);

/* ---- check_members.c ---- */

void check_members_init(struct check_runner *runner);
void check_members_poll(struct check_runner *runner);

/* ---- check_reports.c ---- */

void check_reports_init(struct check_runner *runner);
/* Its health or its output is to be told. */
void check_reports_add(struct check_runner *runner, struct check_job *job);
void check_reports_poll(struct check_runner *runner);

/* ---- check_alias.c ---- */

/* How the instance is that the check names. Returns how many records were looked at. */
size_t check_alias_look(struct check_runner *runner, const struct registry_check *check,
                        const struct check_job *job, struct check_result *out_result);

#endif
