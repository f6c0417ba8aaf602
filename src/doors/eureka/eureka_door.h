/*
 * The door of the Eureka API.
 */
#ifndef LEASED_DOORS_EUREKA_EUREKA_DOOR_H
#define LEASED_DOORS_EUREKA_EUREKA_DOOR_H

#include "doors/door.h"

extern const struct door eureka_door;

#endif
