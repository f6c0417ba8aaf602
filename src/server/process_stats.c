#include "server/process_stats.h"

#include "base/clock.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Reads the beginning of a small file as text. */
enum { FRESH_MS = 200 };

static void read_file(const char *path, char *out_text, size_t size) {
    out_text[0] = '\0';
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return;
    }
    ssize_t n = read(fd, out_text, size - 1);
    out_text[n < 0 ? 0 : n] = '\0';
    close(fd);
}

static void read_memory(struct process_stats *stats) {
    char text[256];
    read_file("/proc/self/statm", text, sizeof text);
    unsigned long long pages = 0;
    unsigned long long resident = 0;
    if (sscanf(text, "%llu %llu", &pages, &resident) == 2) {
        uint64_t page_size = (uint64_t)sysconf(_SC_PAGESIZE);
        stats->virtual_bytes = pages * page_size;
        stats->resident_bytes = resident * page_size;
    }
}

static void read_fds(struct process_stats *stats) {
    DIR *directory = opendir("/proc/self/fd");
    if (directory == NULL) {
        return;
    }
    for (const struct dirent *entry = readdir(directory); entry != NULL;
         entry = readdir(directory)) {
        if (entry->d_name[0] != '.') {
            stats->open_fds++;
        }
    }
    stats->open_fds -= stats->open_fds > 0; /* the one that we look with */
    closedir(directory);
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        stats->max_fds = limit.rlim_cur;
    }
}

static void read_times(struct process_stats *stats) {
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        stats->cpu_seconds = (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6 +
                             (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec / 1e6;
    }
    char text[1024];
    read_file("/proc/self/stat", text, sizeof text);
    /* Field 22 counts clock ticks from boot to the start; the name in field 2 may hold anything,
     * so count from its closing parenthesis. */
    const char *field = strrchr(text, ')');
    for (int number = 2; field != NULL && number < 22; number++) {
        field = strchr(field + 1, ' ');
    }
    struct timespec boot;
    struct timespec wall;
    if (field != NULL && clock_gettime(CLOCK_BOOTTIME, &boot) == 0 &&
        clock_gettime(CLOCK_REALTIME, &wall) == 0) {
        double boot_seconds = (double)boot.tv_sec + (double)boot.tv_nsec / 1e9;
        double wall_seconds = (double)wall.tv_sec + (double)wall.tv_nsec / 1e9;
        double ticks = (double)strtoull(field + 1, NULL, 10);
        stats->start_time_seconds =
            wall_seconds - boot_seconds + ticks / (double)sysconf(_SC_CLK_TCK);
    }
}

/* Counting ten thousand open files takes milliseconds, and anybody may ask for the metrics. */
void process_stats_read(struct process_stats *out_stats) {
    static struct process_stats newest;
    static uint64_t read_ms;
    uint64_t now_ms = clock_boottime_ms();
    if (read_ms == 0 || now_ms - read_ms >= FRESH_MS) {
        memset(&newest, 0, sizeof newest);
        read_memory(&newest);
        read_fds(&newest);
        read_times(&newest);
        read_ms = now_ms;
    }
    *out_stats = newest;
}
