/* The Redis protocol: RESP2 and RESP3. See docs/doors/redis.md. */
#ifndef LEASED_DOORS_REDIS_REDIS_DOOR_H
#define LEASED_DOORS_REDIS_REDIS_DOOR_H

#include "doors/door.h"

extern const struct door redis_door;

#endif
