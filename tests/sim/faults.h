/*
 * What goes wrong, and when. A plan, chosen by the seed, says which kinds of faults there are; each
 * comes at random moments and ends after a while, until faults_heal() ends them all.
 */
#ifndef LEASED_SIM_FAULTS_H
#define LEASED_SIM_FAULTS_H

#include <stdbool.h>
#include <stddef.h>

enum plan {
    PLAN_CALM,       /* clocks drift, nothing else */
    PLAN_MIXED,      /* everything */
    PLAN_CRASHES,    /* processes killed, machines without power, restarts at once */
    PLAN_PARTITIONS, /* full, one-way, flapping */
    PLAN_STALLS,     /* SIGSTOP, sleep, also in the middle of a turn */
    PLAN_DISKS,      /* slow, failing, full */
    PLAN_CHURN,      /* leadership moved all the time */
    PLAN_DEAF,       /* leaders that hear nobody for a moment, but are heard */
    PLAN_VOTERS,     /* a follower restarts while another cannot hear the leader */
    PLAN_MOVES,      /* leadership is moved, and who had it is cut off in that moment */
    PLAN_ORPHANS,    /* leaders cut off for a little longer than an election takes */
    PLAN_NAPS,       /* leaders stopped in the middle of a turn for less than their lease */
    PLAN_FROZEN,     /* machines, leaders too, whose clocks stand still for a while */
    PLAN_MEMBERS,    /* members come and go while everything else goes wrong */
    PLAN_COUNT
};

const char *plan_name(enum plan plan);
/* What suits the plan: the election timeout, and whether leases are short. */
bool plan_is_slow(enum plan plan);
void faults_start(enum plan plan);
/* Whether this plan takes leases from nobody who renews: every node is up, and clients reach it. */
bool plan_is_gentle(enum plan plan);
/* Whether the first member has the longest timers and the slowest clock, and all others the
 * shortest and the fastest, as often as not: where a promise's length and the margin for drift
 * matter. */
bool plan_wants_worst_timers(enum plan plan);
/* Leaders' clocks stand still: leases may be stretched. */
bool plan_stretches_leases(enum plan plan);
/* Machines come and go. */
bool plan_changes_members(enum plan plan);
/* Clients should write nothing for a moment, so that nobody falls behind. */
bool faults_want_quiet(void);
/* A leader tells another to take over. */
void faults_handing_over(size_t from);
/* Everything is mended, every node is up or comes up. */
void faults_heal(void);

#endif
