/*
 * Counts of numbers in buckets whose width grows with the number (log-linear): any quantile within
 * 1/128 of its value, in fixed memory, however many numbers were added.
 */
#ifndef LEASED_BENCH_HISTOGRAM_H
#define LEASED_BENCH_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_PART_BITS 7 /* 128 buckets for each power of two */
#define HISTOGRAM_BUCKETS ((64 - HISTOGRAM_PART_BITS + 1) << HISTOGRAM_PART_BITS)
#define HISTOGRAM_PER_MILLION_MAX 1000000

/* Zeroed is empty. */
struct histogram {
    uint64_t count;
    uint64_t min;
    uint64_t max;
    uint64_t sum;
    uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *histogram, uint64_t number);

/* The number below or at which `per_million` millionths of all are (500000: the median); never
 * below the exact one, never above it by more than 1/128, never above the largest number added. 0
 * when empty. */
uint64_t histogram_quantile(const struct histogram *histogram, unsigned per_million);

/* 0 when empty. */
double histogram_mean(const struct histogram *histogram);

#endif
