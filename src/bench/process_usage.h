/* What processes have used so far: ours by getrusage(2), others by /proc. */
#ifndef LEASED_BENCH_PROCESS_USAGE_H
#define LEASED_BENCH_PROCESS_USAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROCESS_USAGE_PIDS_MAX 16

struct process_usage {
    double cpu_seconds; /* user and system, all threads */
    uint64_t rss_bytes;
};

/* False: there is no such process, or it may not be read. */
bool process_usage_read(pid_t pid, struct process_usage *out_usage);
double process_usage_own_cpu_seconds(void);

/* "12,34" to pids. False: not of that form, or more than PROCESS_USAGE_PIDS_MAX. */
bool process_usage_parse_pids(const char *text, pid_t out_pids[PROCESS_USAGE_PIDS_MAX],
                              size_t *out_n_pids);

#endif
