/* What the commands for sets share. */
#ifndef LEASED_DOORS_REDIS_REDIS_SET_RULES_H
#define LEASED_DOORS_REDIS_REDIS_SET_RULES_H

#include "doors/redis/redis_run_rules.h"

/* False also when there is no such set. The key that is looked for is built in `scratch`, and not
 * needed afterwards. */
bool redis_set_has(struct redis_run *run, struct arena *scratch, const struct redis_object *set,
                   struct bytes member);
/* True when it is new. The header is to be saved. */
bool redis_set_add(struct redis_run *run, struct redis_object *set, struct bytes member);
struct redis_records redis_set_members(struct redis_run *run, const struct redis_object *set);

#endif
