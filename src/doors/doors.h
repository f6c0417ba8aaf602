/* The doors of this program. */
#ifndef LEASED_DOORS_DOORS_H
#define LEASED_DOORS_DOORS_H

#include "doors/door.h"

extern const struct door_list all_doors;

#endif
