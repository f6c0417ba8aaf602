#include "base/clock.h"

#include <assert.h>
#include <time.h>

static struct timespec clock_read(clockid_t clock) {
    struct timespec now;
    int rv = clock_gettime(clock, &now);
    assert(rv == 0);
    return now;
}

uint64_t clock_boottime_ns(void) {
    struct timespec now = clock_read(CLOCK_BOOTTIME);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t clock_boottime_us(void) {
    return clock_boottime_ns() / 1000;
}

uint64_t clock_stopwatch_us(void) {
    return clock_boottime_ns() / 1000;
}

uint64_t clock_boottime_ms(void) {
    return clock_boottime_us() / 1000;
}

int64_t clock_wall_ms(void) {
    struct timespec now = clock_read(CLOCK_REALTIME);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

uint64_t clock_thread_ms(void) {
    struct timespec spent = clock_read(CLOCK_THREAD_CPUTIME_ID);
    return (uint64_t)spent.tv_sec * 1000 + (uint64_t)spent.tv_nsec / 1000000;
}
