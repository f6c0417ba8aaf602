/*
 * The simulated world: one virtual time in microseconds, one queue of events in its order, one
 * source of randomness, and a trace of what happened, whose hash tells whether two runs were the
 * same. A process plays one seed in one world, so the world is global.
 */
#ifndef LEASED_SIM_WORLD_H
#define LEASED_SIM_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WORLD_MS = 1000, WORLD_SECOND = 1000 * 1000 };

void world_init(uint64_t seed, bool is_verbose);

/* True time since the beginning. Nobody inside may see it but through a clock of its own. */
uint64_t world_now_us(void);
uint64_t world_seed(void);
bool world_is_verbose(void);

/* Calls `event` at that time (not before now). Events of the same time come in the order given. */
void world_at(uint64_t time_us, void (*event)(void *data), void *data);
/* Plays events up to and including this time. */
void world_run_until(uint64_t time_us);
uint64_t world_events(void);

/* --- Randomness. --- */

uint64_t random_next(void);
/* Below n, which is not 0. */
uint64_t random_below(uint64_t n);
/* Both ends included. */
uint64_t random_between(uint64_t low, uint64_t high);
bool random_chance(unsigned permille);
/* Mostly near `typical`, now and then up to `worst`. */
uint64_t random_delay(uint64_t typical, uint64_t worst);

/* --- What happened. --- */

/* One line; part of the hash, and printed when verbose. */
__attribute__((format(printf, 1, 2))) void trace(const char *format, ...);
uint64_t trace_hash(void);

/* A check failed: prints which one, the seed, the time and why, and ends the process. */
__attribute__((noreturn, format(printf, 2, 3))) void check_failed(const char *check,
                                                                  const char *format, ...);
/* An abort that is not ours (an assertion in the product or in libraft) prints the seed, too. */
void world_catch_aborts(void);

enum { WORLD_EXIT_FAILED = 3 };

#endif
