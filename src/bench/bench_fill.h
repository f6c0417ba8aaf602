/*
 * Puts a server into the state that a workload starts from: leases, each with keys if wanted, or
 * plain keys; a fixed number of calls in flight on each connection. Nothing of it is measured.
 */
#ifndef LEASED_BENCH_BENCH_FILL_H
#define LEASED_BENCH_BENCH_FILL_H

#include "bench/bench.h"

struct bench_fill {
    /* Given. */
    struct bench *bench;
    uint64_t n_leases; /* 0: keys without a lease */
    uint64_t n_keys;   /* of each lease, or in all */
    struct bytes value;
    int64_t ttl_seconds;
    /* Not 0: the leases get these ids, counting up; otherwise the server chooses. */
    int64_t first_id;
    /* Not 0: each lease gets the whole seconds that end at this time or less than a second after
     * it, whenever it is granted. So all are due within one second though the granting takes long,
     * and without renewals. */
    uint64_t due_ns;
    uint64_t *earliest_ns; /* NULL, or when each may end at the earliest: sent + TTL */

    /* Found. */
    bool is_granted;    /* attach only */
    uint64_t latest_ns; /* the largest of answered + TTL: by then every lease is due */
};

/* Key i of lease l is bench_key(l * n_keys + i). Uses bench->connections. */
void bench_fill_run(struct bench_fill *fill);

/* Afterwards: attaches this many keys to each of the leases, which must have had none. */
void bench_fill_attach(struct bench_fill *fill, uint64_t n_keys);

/* An id to count up from, unlike that of any other run. */
int64_t bench_fill_first_id(void);

#endif
