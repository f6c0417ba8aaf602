/* Elements at random: SPOP, SRANDMEMBER, HRANDFIELD, ZRANDMEMBER. */
#ifndef LEASED_DOORS_REDIS_REDIS_SAMPLE_RULES_H
#define LEASED_DOORS_REDIS_REDIS_SAMPLE_RULES_H

#include "doors/redis/redis_run_rules.h"

struct redis_sample {
    size_t n;
    bool repeats; /* the same element may come again: a negative count */
};

/* A count as these commands have it. False: the error is the reply. */
bool redis_sample_get_count(struct redis_run *run, struct bytes argument,
                            struct redis_sample *out_sample);
/* In arena memory. Without repeats the order of `records` changes. */
struct redis_records redis_sample_choose(struct redis_run *run, struct redis_records *records,
                                         const struct redis_sample *sample);

#endif
