#include "doors/consul/consul_near.h"

#include "doors/consul/consul_define.h"
#include "registry/registry_zones.h"

static bool is_client(struct bytes near) {
    return bytes_equal(near, bytes_from_text("_agent")) ||
           bytes_equal(near, bytes_from_text("_ip"));
}

static void read_client(struct consul_call *call, struct consul_near *near) {
    char address[HTTP_ADDRESS_SIZE];
    struct registry_network network;
    near->address = consul_agent_place(call).address;
    near->has_zone = true;
    http_address(call->exchange, address);
    if (registry_network_parse(address, &network)) {
        near->zone = registry_zones_find(call->door->zones, &network);
    }
}

void consul_near_read(struct consul_call *call) {
    struct bytes near = consul_call_text(call, "near");
    if (near.size == 0) {
        return;
    }
    call->near.is_asked = true;
    if (is_client(near)) {
        read_client(call, &call->near);
    } else {
        call->near.node = consul_call_keep(call, near);
    }
}

/* That of the node that is named, once. */
static struct bytes near_zone(struct consul_call *call, const struct key_store *keys) {
    struct consul_near *near = &call->near;
    if (!near->has_zone) {
        struct consul_node node;
        consul_node_init(&node, call, keys, near->node);
        near->zone = consul_call_keep(call, consul_node_zone(call, &node));
        near->has_zone = true;
        consul_node_clear(&node);
    }
    return near->zone;
}

static bool is_at(const struct consul_near *near, struct bytes node, struct bytes address) {
    return near->node.size > 0 ? bytes_equal(node, near->node)
                               : address.size > 0 && bytes_equal(address, near->address);
}

static bool is_in_zone(struct bytes near_zone, struct bytes zone) {
    return near_zone.size > 0 && bytes_equal(near_zone, zone);
}

/* What an instance does not say of its zone, its node may. */
static bool is_instance_in(struct consul_call *call, const struct key_store *keys,
                           struct bytes zone, const struct registry_instance *instance) {
    struct consul_node node;
    if (zone.size == 0 || instance->zone.size > 0) {
        return is_in_zone(zone, instance->zone);
    }
    consul_node_init(&node, call, keys, consul_instance_node(call, instance));
    bool is_in = is_in_zone(zone, consul_node_zone(call, &node));
    consul_node_clear(&node);
    return is_in;
}

bool consul_near_shows_instance(struct consul_call *call, const struct key_store *keys,
                                const struct registry_instance *instance) {
    const struct consul_near *near = &call->near;
    if (!near->is_asked) {
        return true;
    }
    bool is_there = is_at(near, consul_instance_node(call, instance), instance->address);
    if (is_there || call->position.pass == 0) {
        return is_there && call->position.pass == 0;
    }
    bool is_in = is_instance_in(call, keys, near_zone(call, keys), instance);
    return call->position.pass == (is_in ? 1u : 2u);
}

bool consul_near_shows_node(struct consul_call *call, const struct key_store *keys,
                            const struct consul_node *node) {
    const struct consul_near *near = &call->near;
    if (!near->is_asked) {
        return true;
    }
    bool is_there = is_at(near, node->name, node->address);
    if (is_there || call->position.pass == 0) {
        return is_there && call->position.pass == 0;
    }
    bool is_in = is_in_zone(near_zone(call, keys), consul_node_zone(call, node));
    return call->position.pass == (is_in ? 1u : 2u);
}

bool consul_near_next_pass(struct consul_call *call) {
    struct consul_position *position = &call->position;
    if (!call->near.is_asked || position->pass + 1 == CONSUL_NEAR_PASSES) {
        return false;
    }
    position->pass++;
    position->service.size = 0;
    position->id.size = 0;
    return true;
}
