/*
 * A bystander: one client in its own thread, with its own connection, that puts one small value
 * after the other and times each, so that what the main thread does cannot colour its figures.
 */
#ifndef LEASED_BENCH_BENCH_PUT_PROBE_H
#define LEASED_BENCH_BENCH_PUT_PROBE_H

#include "bench/bench.h"

struct bench_put_probe;

/* Starts the thread; returns when it is connected. `bench` must outlive it. */
struct bench_put_probe *bench_put_probe_start(struct bench *bench, size_t value_size);
/* From now on until the next call its times count as this phase. */
enum bench_put_probe_phase {
    BENCH_PUT_PROBE_BEFORE,
    BENCH_PUT_PROBE_DURING,
    BENCH_PUT_PROBE_PHASES
};
void bench_put_probe_enter(struct bench_put_probe *probe, enum bench_put_probe_phase phase);
/* Ends the thread; the histograms can be read afterwards, until destroy. A put still unanswered at
 * this moment counts with the time it has waited. */
void bench_put_probe_stop(struct bench_put_probe *probe);
const struct histogram *bench_put_probe_times_ns(const struct bench_put_probe *probe,
                                                 enum bench_put_probe_phase phase);
void bench_put_probe_destroy(struct bench_put_probe *probe);

#endif
