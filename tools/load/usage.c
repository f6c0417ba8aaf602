#include "tools/load/usage.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool usage_read(pid_t pid, struct usage *out_usage) {
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
