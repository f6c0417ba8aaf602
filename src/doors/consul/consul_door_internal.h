/* What all of the door knows. */
#ifndef LEASED_DOORS_CONSUL_CONSUL_DOOR_INTERNAL_H
#define LEASED_DOORS_CONSUL_CONSUL_DOOR_INTERNAL_H

#include "doors/door.h"

#include <jansson.h>

/* The release of Consul whose answers are given. */
#define CONSUL_VERSION "1.15.4"

enum {
    CONSUL_FLAG_DATACENTER,
    CONSUL_FLAG_NODE,
    CONSUL_FLAG_NODE_ID,
    CONSUL_FLAG_NODE_META,
    CONSUL_FLAG_ZONES,
    CONSUL_FLAG_SESSION_TTL_MULTIPLIER,
    CONSUL_FLAGS
};

struct consul_bound;
struct registry_zones; /* registry/registry_zones.h */

struct consul_door {
    const struct door_environment *environment;
    struct service *service;
    const char *datacenter;
    const char *node;    /* of every service that is registered without one, at any member */
    const char *node_id; /* empty: made of the cluster's id */
    json_t *node_meta;
    char *node_meta_text;         /* the same as JSON; workers read both */
    struct registry_zones *zones; /* of clients */
    uint64_t session_ttl_multiplier;
    struct consul_bound *bound;
    uint64_t n_requests;
    uint64_t n_waiting; /* blocking queries */
    uint64_t n_woken;
};

#endif
