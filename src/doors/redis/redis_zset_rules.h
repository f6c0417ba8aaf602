/* What the commands for sorted sets share: one record by member, one by score, for each. */
#ifndef LEASED_DOORS_REDIS_REDIS_ZSET_RULES_H
#define LEASED_DOORS_REDIS_REDIS_ZSET_RULES_H

#include "doors/redis/redis_run_rules.h"

/* False: there is no such member, or no such set. */
bool redis_zset_find(struct redis_run *run, const struct redis_object *zset, struct bytes member,
                     double *out_score);
/* Writes a member, which has `old_score` if it is there already. The header is to be saved. */
void redis_zset_put(struct redis_run *run, struct redis_object *zset, struct bytes member,
                    double score, const double *old_score);
bool redis_zset_remove(struct redis_run *run, struct redis_object *zset, struct bytes member);
/* Takes away those of records by score, and saves the header; all of them at once if it is all. */
void redis_zset_remove_records(struct redis_run *run, struct redis_object *zset,
                               const struct redis_records *records);
/* Records by score: ranks [start, stop], which are within the set. */
struct redis_records redis_zset_ranks(struct redis_run *run, const struct redis_object *zset,
                                      int64_t start, int64_t stop);

#endif
