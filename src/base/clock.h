/*
 * The clocks of the outside world. Durations are measured with CLOCK_BOOTTIME, which goes on
 * while the machine sleeps and never jumps; the wall clock is information only.
 */
#ifndef LEASED_BASE_CLOCK_H
#define LEASED_BASE_CLOCK_H

#include <stdint.h>

uint64_t clock_boottime_ms(void);
uint64_t clock_boottime_us(void);
uint64_t clock_boottime_ns(void);
/* To measure how long something took, for monitors alone: nothing that is done depends on it. */
uint64_t clock_stopwatch_us(void);
int64_t clock_wall_ms(void);
/* What the calling thread has spent working. */
uint64_t clock_thread_ms(void);

/* How long ago `since_ms` was, 0 when it is in the future: something noted in the course of an
 * iteration of the loop is later than the time that the iteration began with. */
static inline uint64_t clock_elapsed_ms(uint64_t now_ms, uint64_t since_ms) {
    return now_ms > since_ms ? now_ms - since_ms : 0;
}

#endif
