/*
 * The latency percentiles of a run as an SVG picture: the share of operations from left to right,
 * each step a further nine, and the time upwards, both logarithmic. Readable on light and dark.
 */
#ifndef LEASED_BENCH_BENCH_PLOT_H
#define LEASED_BENCH_BENCH_PLOT_H

#include "bench/bench.h"

#include <stdio.h>

/* One curve for each tally that holds anything. False: `out` could not be written. */
bool bench_plot_write(const struct bench_tally *tallies, size_t n_tallies, const char *title,
                      FILE *out);

#endif
