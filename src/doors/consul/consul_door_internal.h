/* What all of the door knows. */
#ifndef LEASED_DOORS_CONSUL_CONSUL_DOOR_INTERNAL_H
#define LEASED_DOORS_CONSUL_CONSUL_DOOR_INTERNAL_H

#include "doors/door.h"

/* The release of Consul whose answers are given. */
#define CONSUL_VERSION "1.15.4"

enum { CONSUL_FLAG_DATACENTER, CONSUL_FLAG_NODE, CONSUL_FLAGS };

struct consul_bound;

struct consul_door {
    const struct door_environment *environment;
    struct service *service;
    const char *datacenter;
    const char *node; /* of every service that is registered without one, at any member */
    struct consul_bound *bound;
    uint64_t n_requests;
    uint64_t n_waiting; /* blocking queries */
    uint64_t n_woken;
};

#endif
