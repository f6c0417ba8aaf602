#include "bench/process_usage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

bool process_usage_read(pid_t pid, struct process_usage *out_usage) {
    char path[64];
    char line[2048];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return false;
    }
    bool is_read = fgets(line, sizeof line, file) != NULL;
    fclose(file);
    /* The program's name is in brackets and may hold blanks; what follows does not. */
    const char *after_name = is_read ? strrchr(line, ')') : NULL;
    if (after_name == NULL) {
        return false;
    }
    unsigned long user;
    unsigned long system;
    long rss_pages;
    /* Fields 14, 15 and 24 of proc(5); the first after the name is field 3. */
    int found = sscanf(after_name + 1,
                       " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %*d "
                       "%*d %*u %*u %ld",
                       &user, &system, &rss_pages);
    if (found != 3) {
        return false;
    }
    out_usage->cpu_seconds = (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
    out_usage->rss_bytes = (uint64_t)rss_pages * (uint64_t)sysconf(_SC_PAGESIZE);
    return true;
}

double process_usage_own_cpu_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

bool process_usage_parse_pids(const char *text, pid_t out_pids[PROCESS_USAGE_PIDS_MAX],
                              size_t *out_n_pids) {
    size_t n_pids = 0;
    for (;;) {
        char *end;
        errno = 0;
        long pid = strtol(text, &end, 10);
        bool is_number = errno == 0 && end != text && pid > 0 && pid <= INT32_MAX;
        if (!is_number || n_pids == PROCESS_USAGE_PIDS_MAX) {
            return false;
        }
        out_pids[n_pids++] = (pid_t)pid;
        if (*end == 0) {
            break;
        }
        if (*end != ',') {
            return false;
        }
        text = end + 1;
    }
    *out_n_pids = n_pids;
    return true;
}
