/*
 * Counts of numbers in buckets whose width grows with the number: any percentile within 1/64 of its
 * value, in fixed memory, however many numbers were added.
 */
#ifndef LEASED_LOAD_HISTOGRAM_H
#define LEASED_LOAD_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_PART_BITS 6 /* 64 buckets for each power of two */
#define HISTOGRAM_BUCKETS ((64 - HISTOGRAM_PART_BITS + 1) << HISTOGRAM_PART_BITS)

/* Zeroed is empty. */
struct histogram {
    uint64_t count;
    uint64_t min;
    uint64_t max;
    uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *histogram, uint64_t number);
void histogram_add_all(struct histogram *to, const struct histogram *from);

/* The number below or at which `per_mille` thousandths of all lie (500: the median); never above
 * the largest number added. 0 when empty. */
uint64_t histogram_per_mille(const struct histogram *histogram, unsigned per_mille);

#endif
