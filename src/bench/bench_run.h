/*
 * `lease bench` as the command line sees it: the options that it adds, the workloads that there
 * are, and one call that runs a workload and prints the report.
 */
#ifndef LEASED_BENCH_BENCH_RUN_H
#define LEASED_BENCH_BENCH_RUN_H

#include "base/arguments.h"
#include "bench/bench.h"
#include "client/endpoint.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <uv.h>

/* Ends with an entry whose name is NULL. */
extern const struct option_entry bench_options[];

/* All borrowed. */
struct bench_settings {
    const char *workload; /* one that bench_has_workload() knows */
    uv_loop_t *loop;
    struct arguments *arguments; /* parsed with bench_options */
    const struct endpoint_list *endpoints;
    uint32_t timeout_ms; /* of one call, when --timeout was given */
    bool is_json;
};

bool bench_has_workload(const char *name);

/* Whatever fails ends the process with a message. */
enum bench_exit bench_run(const struct bench_settings *settings);

/* One paragraph for each workload, for --help. */
void bench_print_workloads(FILE *out);

#endif
