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
    PLAN_COUNT
};

const char *plan_name(enum plan plan);
void faults_start(enum plan plan);
/* Everything is mended, every node is up or comes up. */
void faults_heal(void);

#endif
