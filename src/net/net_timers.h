/*
 * Timers of connections and calls on one timing wheel. A timer is embedded in what it belongs to;
 * while armed it holds a handle of the wheel. Reads no clock of its own: time is an argument, or
 * comes from a function that the owner has given.
 */
#ifndef LEASED_NET_NET_TIMERS_H
#define LEASED_NET_NET_TIMERS_H

#include "base/timing_wheel.h"

#include <stdbool.h>
#include <stdint.h>

struct net_timers;

struct net_timer {
    struct timing_wheel_timer wheel;
    uint32_t handle; /* TIMING_WHEEL_NONE: not armed */
    void (*fire)(struct net_timer *timer);
};

struct net_timers *net_timers_create(uint64_t now_ms);
/* No timer may be armed any more. */
void net_timers_destroy(struct net_timers *timers);

void net_timer_init(struct net_timer *timer, void (*fire)(struct net_timer *timer));
void net_timers_arm(struct net_timers *timers, struct net_timer *timer, uint64_t due_ms);
static inline bool net_timer_is_armed(const struct net_timer *timer) {
    return timer->handle != TIMING_WHEEL_NONE;
}
/* Of one that is armed. */
void net_timers_stop(struct net_timers *timers, struct net_timer *timer);
static inline void net_timers_disarm(struct net_timers *timers, struct net_timer *timer) {
    if (net_timer_is_armed(timer)) {
        net_timers_stop(timers, timer);
    }
}

/* Where the present time is found between two runs. Without it, time stands still from one
 * net_timers_set_now() or net_timers_run() to the next. */
void net_timers_set_clock(struct net_timers *timers, uint64_t (*now_ms)(const void *source),
                          const void *source);
/* Moves time forward without firing anything. */
void net_timers_set_now(struct net_timers *timers, uint64_t now_ms);
uint64_t net_timers_now_ms(const struct net_timers *timers);

/* Fires what is due. A callback may arm and disarm any timer. */
void net_timers_run(struct net_timers *timers, uint64_t now_ms);

/* When to run next at the latest; UINT64_MAX: nothing is armed. */
uint64_t net_timers_next_ms(const struct net_timers *timers);

#endif
