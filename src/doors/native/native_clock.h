/*
 * Timers of the calls of this door: any number on one timing wheel and one timer of the loop.
 */
#ifndef LEASED_DOORS_NATIVE_NATIVE_CLOCK_H
#define LEASED_DOORS_NATIVE_NATIVE_CLOCK_H

#include "net/net_timers.h"

#include <stdint.h>
#include <uv.h>

struct native_clock;
struct service;

/* Aborts when memory is out. Time is that of the service. */
struct native_clock *native_clock_create(uv_loop_t *loop, struct service *service);
/* No timer is armed. The loop must run once more. */
void native_clock_destroy(struct native_clock *clock);

/* Fires once, `after_ms` from now, at the earliest in the next iteration of the loop; arming it
 * again moves it. */
void native_clock_arm(struct native_clock *clock, struct net_timer *timer, uint64_t after_ms);
/* Harmless when not armed. */
void native_clock_disarm(struct native_clock *clock, struct net_timer *timer);

#endif
