#include "tools/load/histogram.h"

#include <assert.h>
#include <stddef.h>

#define PARTS (UINT64_C(1) << HISTOGRAM_PART_BITS)

/* Numbers below 64 have a bucket each; above, the leading bit and the six that follow it tell. */
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
    histogram->buckets[bucket_of(number)]++;
}

void histogram_add_all(struct histogram *to, const struct histogram *from) {
    if (from->count == 0) {
        return;
    }
    if (to->count == 0 || from->min < to->min) {
        to->min = from->min;
    }
    if (from->max > to->max) {
        to->max = from->max;
    }
    to->count += from->count;
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        to->buckets[i] += from->buckets[i];
    }
}

uint64_t histogram_per_mille(const struct histogram *histogram, unsigned per_mille) {
    assert(per_mille <= 1000);
    if (histogram->count == 0) {
        return 0;
    }
    uint64_t rank = (histogram->count * per_mille + 999) / 1000;
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
