/* The sample door, for the tests and for docs/doors/README.md. */
#ifndef LEASED_TESTS_SAMPLE_DOOR_H
#define LEASED_TESTS_SAMPLE_DOOR_H

#include "doors/door.h"

extern const struct door sample_door;

#endif
