/*
 * The health checks of the registry as this door opens them: their flags, and the runner.
 */
#ifndef LEASED_DOORS_REGISTRY_REGISTRY_CHECKS_H
#define LEASED_DOORS_REGISTRY_REGISTRY_CHECKS_H

#include "checks/check_runner.h"
#include "doors/door.h"

enum { REGISTRY_N_FLAGS = 5 };
extern const struct door_flag registry_flags[REGISTRY_N_FLAGS];

/* As the function of a door's table. */
const char *registry_checks_check(const union door_value *values);
/* Aborts when memory is out. */
struct check_runner *registry_checks_open(const struct door_environment *environment);

#endif
