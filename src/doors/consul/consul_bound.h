/*
 * Sessions that are bound to checks of services: the leader looks several times a second whether
 * one of the checks is critical or gone, and ends the session. The rule looks again, so a check
 * that passes by then ends nothing, and a change of the leader loses nothing. It also sees to it
 * that there is an index to answer with (CONSUL_RULE_BEGIN).
 */
#ifndef LEASED_DOORS_CONSUL_CONSUL_BOUND_H
#define LEASED_DOORS_CONSUL_CONSUL_BOUND_H

#include "doors/consul/consul_door_internal.h"

struct consul_bound;

struct consul_bound *consul_bound_create(struct consul_door *door);
/* The service is about to be closed. */
void consul_bound_stop(struct consul_bound *bound);
void consul_bound_destroy(struct consul_bound *bound);

#endif
