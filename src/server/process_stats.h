/* What the kernel knows of this process. */
#ifndef LEASED_SERVER_PROCESS_STATS_H
#define LEASED_SERVER_PROCESS_STATS_H

#include <stdint.h>

/* A number that could not be read is 0. */
struct process_stats {
    uint64_t resident_bytes;
    uint64_t virtual_bytes;
    uint64_t open_fds;
    uint64_t max_fds;
    double cpu_seconds;
    double start_time_seconds; /* of the wall clock, since 1970 */
};

/* As they were at most a moment ago. On the loop's thread. */
void process_stats_read(struct process_stats *out_stats);

#endif
