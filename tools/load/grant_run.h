/*
 * Grants many leases as fast as the server answers, each with a key if wanted: `depth` workers on
 * each connection, every worker one call at a time.
 */
#ifndef LEASED_LOAD_GRANT_RUN_H
#define LEASED_LOAD_GRANT_RUN_H

#include "tools/load/load.h"

struct grant_run {
    /* Given. */
    struct load *load;
    uint64_t total;
    size_t depth;
    bool with_keys;
    int64_t ttl_seconds;
    /* Not 0: each lease gets the whole seconds that end at this time or less than a second after
     * it, whenever it is granted. So all are due within one second though the granting takes long,
     * and without renewals. */
    uint64_t due_us;
    int64_t *ids;          /* NULL, or where the ids go */
    uint64_t *earliest_us; /* NULL, or when each may end at the earliest: sent + TTL */

    /* Found. */
    uint64_t answered;
    uint64_t latest_us; /* the largest of answered + TTL: by then every lease is due */
    uint64_t id_min;
    uint64_t id_max;
    struct histogram grant_us;
    struct histogram put_us;

    uint64_t started;
};

/* Uses load->clients. Ends the program when anything fails. */
void grant_run(struct grant_run *run);

#endif
