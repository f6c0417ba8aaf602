#include "doors/consul/consul_door.h"

#include "doors/consul/consul_bound.h"
#include "doors/consul/consul_door_internal.h"
#include "doors/consul/consul_metrics.h"
#include "doors/consul/consul_model.h"
#include "doors/consul/consul_node.h"
#include "doors/consul/consul_routes.h"
#include "doors/consul/consul_rules.h"
#include "registry/registry_zones.h"

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
    door->node_id = environment->values[CONSUL_FLAG_NODE_ID].text;
    door->node_meta = consul_node_read_meta(environment->values[CONSUL_FLAG_NODE_META].text);
    /* What Consul adds to every node that is in no segment. */
    if (door->node_meta == NULL ||
        json_object_set_new(door->node_meta, "consul-network-segment", json_string("")) != 0) {
        abort();
    }
    door->node_meta_text = json_dumps(door->node_meta, JSON_COMPACT);
    door->zones = registry_zones_create(environment->values[CONSUL_FLAG_ZONES].text);
    door->session_ttl_multiplier = environment->values[CONSUL_FLAG_SESSION_TTL_MULTIPLIER].number;
    if (door->node_meta_text == NULL || door->zones == NULL) {
        abort();
    }
    door->bound = consul_bound_create(door);
    return door;
}

static const char *check(const union door_value *values) {
    const char *id = values[CONSUL_FLAG_NODE_ID].text;
    if (id[0] != 0 && !consul_uuid_is_valid(bytes_from_text(id))) {
        return "--consul-node-id is no UUID";
    }
    json_t *meta = consul_node_read_meta(values[CONSUL_FLAG_NODE_META].text);
    if (meta == NULL) {
        return "--consul-node-meta is a list of KEY:VALUE with commas between them";
    }
    json_decref(meta);
    struct registry_zones *zones = registry_zones_create(values[CONSUL_FLAG_ZONES].text);
    bool is_list = zones != NULL;
    registry_zones_destroy(zones);
    return is_list ? NULL
                   : "--consul-zones has to be a list of NETWORK/BITS=ZONE with commas between "
                     "them, of at most 256";
}

static void serve(void *door, struct net_scope *scope) {
    consul_routes_add(scope, door);
}

static void stop_door(void *opaque) {
    consul_bound_stop(((struct consul_door *)opaque)->bound);
}

static void close_door(void *opaque) {
    struct consul_door *door = opaque;
    consul_bound_destroy(door->bound);
    registry_zones_destroy(door->zones);
    json_decref(door->node_meta);
    free(door->node_meta_text);
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
    [CONSUL_FLAG_NODE_ID] = {.name = "consul-node-id",
                             .kind = DOOR_FLAG_TEXT,
                             .fallback = "",
                             .shown = "made of the cluster's id",
                             .help = "The UUID of that node."},
    [CONSUL_FLAG_NODE_META] = {.name = "consul-node-meta",
                               .kind = DOOR_FLAG_TEXT,
                               .fallback = "",
                               .shown = "none",
                               .help = "What ?node-meta= finds that node by: "
                                       "KEY:VALUE,KEY:VALUE."},
    [CONSUL_FLAG_ZONES] = {.name = "consul-zones",
                           .kind = DOOR_FLAG_TEXT,
                           .fallback = "",
                           .shown = "none",
                           .help = "The zones of clients by their networks, NETWORK/BITS=ZONE,…, "
                                   "for ?near=_agent."},
    [CONSUL_FLAG_SESSION_TTL_MULTIPLIER] =
        {.name = "consul-session-ttl-multiplier",
         .kind = DOOR_FLAG_NUMBER,
         .fallback = "1",
         .min = 1,
         .max = CONSUL_TTL_MULTIPLIER_MAX,
         .help = "A session of the Consul API that is not renewed ends after so many times its "
                 "TTL. Consul's is 2, on which Patroni relies."},
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
    .check = check,
    .open = open_door,
    .serve = serve,
    .write_metrics = consul_metrics_write,
    .stop = stop_door,
    .close = close_door,
};
