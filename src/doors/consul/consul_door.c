#include "doors/consul/consul_door.h"

#include "doors/consul/consul_bound.h"
#include "doors/consul/consul_door_internal.h"
#include "doors/consul/consul_metrics.h"
#include "doors/consul/consul_routes.h"
#include "doors/consul/consul_rules.h"

#include <stdlib.h>

static void *open_door(const struct door_environment *environment) {
    struct consul_door *door = calloc(1, sizeof *door);
    if (door == NULL) {
        abort();
    }
    door->environment = environment;
    door->service = environment->service;
    door->datacenter = environment->values[CONSUL_FLAG_DATACENTER].text;
    door->node = environment->values[CONSUL_FLAG_NODE].text;
    door->bound = consul_bound_create(door);
    return door;
}

static void serve(void *door, struct net_scope *scope) {
    consul_routes_add(scope, door);
}

static void close_door(void *opaque) {
    struct consul_door *door = opaque;
    consul_bound_destroy(door->bound);
    free(door);
}

static const struct door_flag flags[CONSUL_FLAGS] = {
    [CONSUL_FLAG_DATACENTER] = {.name = "consul-datacenter",
                                .kind = DOOR_FLAG_TEXT,
                                .fallback = "dc1",
                                .help = "The datacenter that the Consul API says it is."},
    [CONSUL_FLAG_NODE] = {.name = "consul-node",
                          .kind = DOOR_FLAG_TEXT,
                          .fallback = "leased",
                          .help = "The node to which services belong that are registered at the "
                                  "Consul API's agent; the same at all members."},
};

const struct door consul_door = {
    .name = "consul",
    .title = "Consul API",
    .api_version = CONSUL_VERSION,
    .default_port = 8500,
    .flags = flags,
    .n_flags = CONSUL_FLAGS,
    .requests = consul_request_table,
    .rules = consul_rules,
    .n_rules = CONSUL_N_RULES,
    .open = open_door,
    .serve = serve,
    .write_metrics = consul_metrics_write,
    .close = close_door,
};
