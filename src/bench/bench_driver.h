/*
 * Clients that each do one operation at a time, and the two ways to drive them.
 *
 * Closed loop: every client starts its next operation when the last was answered, so a slow server
 * is asked less often. Open loop (--rate): operations are due at fixed times whether or not earlier
 * ones were answered; each counts from the time at which it was due, not from when a client was
 * free to send it, so that a stall shows in every operation that it delayed (no coordinated
 * omission).
 */
#ifndef LEASED_BENCH_BENCH_DRIVER_H
#define LEASED_BENCH_BENCH_DRIVER_H

#include "bench/bench.h"

struct bench_driver;

struct bench_client {
    struct bench_driver *driver;
    struct lease_client *connection; /* NULL where the workload connects itself */
    struct bench_tally *tally; /* where its operations count; the workload may change it, also to
                                  NULL when it records them itself */
    size_t index;
    uint64_t due_ns; /* of the operation under way */
    void *context;   /* the workload's */
    struct bench_client *next_idle;
};

/* Starts one operation of this client; bench_driver_done() ends it. */
typedef void bench_start(struct bench_client *client);

/* Makes bench->n_clients clients, spread over the connections. */
struct bench_driver *bench_driver_create(struct bench *bench, bench_start *start,
                                         struct bench_tally *tally);
void bench_driver_destroy(struct bench_driver *driver);
struct bench *bench_driver_bench(const struct bench_driver *driver);
struct bench_client *bench_driver_client(struct bench_driver *driver, size_t index);

/* Warm-up, then the window, then waits for what is still under way. Draws the progress line. */
void bench_driver_run(struct bench_driver *driver);

/* The operation of this client was answered. */
void bench_driver_done(struct bench_client *client);

#endif
