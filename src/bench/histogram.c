#include "bench/histogram.h"

#include <assert.h>
#include <stddef.h>

#define PARTS (UINT64_C(1) << HISTOGRAM_PART_BITS)

/* Small numbers have a bucket each; above, the leading bit and those that follow it tell. */
static size_t bucket_of(uint64_t number) {
    if (number < PARTS) {
        return (size_t)number;
    }
    unsigned shift = 63 - (unsigned)__builtin_clzll(number) - HISTOGRAM_PART_BITS;
    return (size_t)((shift + 1) * PARTS + ((number >> shift) - PARTS));
}

static uint64_t highest_of(size_t bucket) {
    if (bucket < PARTS) {
        return bucket;
    }
    unsigned shift = (unsigned)(bucket / PARTS) - 1;
    uint64_t lowest = (PARTS + bucket % PARTS) << shift;
    return lowest + ((UINT64_C(1) << shift) - 1);
}

void histogram_add(struct histogram *histogram, uint64_t number) {
    if (histogram->count == 0 || number < histogram->min) {
        histogram->min = number;
    }
    if (number > histogram->max) {
        histogram->max = number;
    }
    histogram->count++;
    histogram->sum += number;
    histogram->buckets[bucket_of(number)]++;
}

/* How many of `count` make up that share, rounded up; in two parts, so that no count overflows. */
static uint64_t rank_of(uint64_t count, unsigned per_million) {
    uint64_t whole = count / HISTOGRAM_PER_MILLION_MAX * per_million;
    uint64_t rest = count % HISTOGRAM_PER_MILLION_MAX * per_million;
    return whole + (rest + HISTOGRAM_PER_MILLION_MAX - 1) / HISTOGRAM_PER_MILLION_MAX;
}

uint64_t histogram_quantile(const struct histogram *histogram, unsigned per_million) {
    assert(per_million <= HISTOGRAM_PER_MILLION_MAX);
    if (histogram->count == 0) {
        return 0;
    }
    uint64_t rank = rank_of(histogram->count, per_million);
    uint64_t seen = 0;
    size_t bucket = 0;
    while (bucket + 1 < HISTOGRAM_BUCKETS) {
        seen += histogram->buckets[bucket];
        if (seen >= rank && seen > 0) {
            break;
        }
        bucket++;
    }
    uint64_t highest = highest_of(bucket);
    return highest < histogram->max ? highest : histogram->max;
}

double histogram_mean(const struct histogram *histogram) {
    return histogram->count > 0 ? (double)histogram->sum / (double)histogram->count : 0.0;
}
