/* Patterns of KEYS, SCAN and PSUBSCRIBE: ? * [a-z] [^a] and a backslash before what is meant as it
 * is. Pure. */
#ifndef LEASED_DOORS_REDIS_REDIS_GLOB_MODEL_H
#define LEASED_DOORS_REDIS_REDIS_GLOB_MODEL_H

#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>

/* May take as many steps as the product of both sizes. `steps_left` says how many it may take; when
 * it is 0 afterwards there were too few, and the answer is false. */
bool redis_glob_match(struct bytes pattern, struct bytes text, size_t *steps_left);

#endif
