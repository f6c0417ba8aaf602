/*
 * Stand-ins for the part of libuv that replication uses: timers, prepare, check and idle handles,
 * closing, work in threads. One iteration has libuv's own order: timers, idle, prepare, polling,
 * check, closing. Handles of one kind run the last started first, as libuv's do.
 */
#ifndef LEASED_SIM_LOOP_SIM_H
#define LEASED_SIM_LOOP_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

struct loop_sim;

struct loop_sim *loop_sim_create(void);
/* The time that libuv caches. */
void loop_sim_set_time(struct loop_sim *loop, uint64_t now_ms);
void loop_sim_run_checks(struct loop_sim *loop);
void loop_sim_run_closing(struct loop_sim *loop);
void loop_sim_run_timers(struct loop_sim *loop);
void loop_sim_run_idles(struct loop_sim *loop);
void loop_sim_run_prepares(struct loop_sim *loop);
/* In libuv's time; UINT64_MAX: no timer is armed. */
uint64_t loop_sim_next_ms(const struct loop_sim *loop);
/* The process ends: its workers come as far as the disk lets them. */
void loop_sim_crash(struct loop_sim *loop);
/* Polling must not wait. */
bool loop_sim_is_busy(const struct loop_sim *loop);

#endif
