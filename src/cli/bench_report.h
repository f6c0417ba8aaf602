/* What `lease bench` found: as text for people, or as one JSON object on one line. */
#ifndef LEASED_CLI_BENCH_REPORT_H
#define LEASED_CLI_BENCH_REPORT_H

#include "cli/bench.h"

/* Prints to standard output. */
void bench_report(struct bench *bench);

#endif
