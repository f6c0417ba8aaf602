/* Consul's HTTP API: keys, sessions, services. See docs/doors/consul.md. */
#ifndef LEASED_DOORS_CONSUL_CONSUL_DOOR_H
#define LEASED_DOORS_CONSUL_CONSUL_DOOR_H

#include "doors/door.h"

extern const struct door consul_door;

#endif
