/* Random numbers for the model tests (SplitMix64): a seed gives the same run everywhere. */
#ifndef LEASED_TESTS_MODEL_RANDOM_H
#define LEASED_TESTS_MODEL_RANDOM_H

#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static uint64_t random_state;

/* The seed is the first argument, or the time; it is printed so that a run can be replayed. */
static inline void random_seed(int argc, char **argv) {
    random_state = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)time(NULL);
    printf("seed %" PRIu64 "\n", random_state);
    fflush(stdout);
}

static inline uint64_t random_next(void) {
    random_state += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = random_state;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static inline uint64_t random_below(uint64_t bound) {
    return random_next() % bound;
}

static inline bool random_one_in(uint64_t n) {
    return random_below(n) == 0;
}

#endif
