/* What the commands for strings share with those for their bits. */
#ifndef LEASED_DOORS_REDIS_REDIS_STRING_RULES_H
#define LEASED_DOORS_REDIS_REDIS_STRING_RULES_H

#include "doors/redis/redis_run_rules.h"

/* False: a string may not be as large, and the error is the reply. */
bool redis_string_fits(struct redis_run *run, size_t size);
/* Changes the value of the same string: its token and its deadline stay. One that is not there is
 * made. */
void redis_string_change(struct redis_run *run, struct redis_object *object, struct bytes value);

#endif
