/* What a process has used so far, from /proc. */
#ifndef LEASED_LOAD_USAGE_H
#define LEASED_LOAD_USAGE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct usage {
    double cpu_seconds; /* user and system, all threads */
    uint64_t rss_bytes;
};

/* False: there is no such process, or it may not be read. */
bool usage_read(pid_t pid, struct usage *out_usage);

#endif
