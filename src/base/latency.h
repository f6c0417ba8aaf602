/*
 * How long something took, counted in fixed buckets: powers of two from 64 microseconds to 16
 * seconds, so that adding is a few instructions and no memory is taken. One thread adds; any thread
 * may copy, and sees each number whole.
 */
#ifndef LEASED_BASE_LATENCY_H
#define LEASED_BASE_LATENCY_H

#include <stddef.h>
#include <stdint.h>

enum {
    LATENCY_FIRST_BITS = 6,              /* the first bucket ends at 2^6 microseconds */
    LATENCY_BOUNDS = 19,                 /* the last bound is 2^24 microseconds */
    LATENCY_BUCKETS = LATENCY_BOUNDS + 1 /* and one that is open */
};

/* Zeroed is empty. */
struct latency {
    uint64_t sum_us;
    uint64_t buckets[LATENCY_BUCKETS];
};

/* The upper bound of a bucket but the last, which belongs to it. */
static inline uint64_t latency_bound_us(size_t bucket) {
    return UINT64_C(1) << (LATENCY_FIRST_BITS + bucket);
}

static inline size_t latency_bucket_of(uint64_t us) {
    if (us <= latency_bound_us(0)) {
        return 0;
    }
    size_t bucket = 64 - (size_t)__builtin_clzll(us - 1) - LATENCY_FIRST_BITS;
    return bucket < LATENCY_BOUNDS ? bucket : LATENCY_BOUNDS;
}

static inline void latency_bump(uint64_t *number, uint64_t by) {
    __atomic_store_n(number, __atomic_load_n(number, __ATOMIC_RELAXED) + by, __ATOMIC_RELAXED);
}

static inline void latency_add(struct latency *latency, uint64_t us) {
    latency_bump(&latency->sum_us, us);
    latency_bump(&latency->buckets[latency_bucket_of(us)], 1);
}

static inline void latency_copy(const struct latency *latency, struct latency *out_copy) {
    out_copy->sum_us = __atomic_load_n(&latency->sum_us, __ATOMIC_RELAXED);
    for (size_t i = 0; i < LATENCY_BUCKETS; i++) {
        out_copy->buckets[i] = __atomic_load_n(&latency->buckets[i], __ATOMIC_RELAXED);
    }
}

static inline uint64_t latency_count(const struct latency *latency) {
    uint64_t count = 0;
    for (size_t i = 0; i < LATENCY_BUCKETS; i++) {
        count += latency->buckets[i];
    }
    return count;
}

#endif
