/* What `lease bench` found: as text for people, or as one JSON object on one line. */
#ifndef LEASED_BENCH_BENCH_REPORT_H
#define LEASED_BENCH_BENCH_REPORT_H

#include "bench/bench.h"

/* Prints to standard output. */
void bench_report(struct bench *bench);

#endif
