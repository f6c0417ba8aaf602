/*
 * Preloaded into a server that runs under callgrind. The server hands input over in slices that
 * grow while they take no time (src/net/turns.c); callgrind makes everything some fifty times
 * slower, so that slices would stay small and be counted as they never are. Here the stopwatch is
 * slowed down as much as the work is. Nothing but those slices is measured with it.
 */
#include <stdint.h>
#include <time.h>
#include <uv.h>

enum { SLOWDOWN = 50 };

uint64_t uv_hrtime(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return ((uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec) / SLOWDOWN;
}
