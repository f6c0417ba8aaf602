#include "doors/consul/consul_show.h"

#include "doors/consul/consul_members.h"

#include <stdio.h>

static const char *const healths[REGISTRY_HEALTHS] = {"passing", "warning", "critical"};

const char *consul_health_text(enum registry_health health) {
    return healths[health < REGISTRY_HEALTHS ? health : REGISTRY_CRITICAL];
}

bool consul_health_read(struct bytes text, enum registry_health *out_health) {
    for (unsigned i = 0; i < REGISTRY_HEALTHS; i++) {
        if (bytes_equal(text, bytes_from_text(healths[i]))) {
            *out_health = (enum registry_health)i;
            return true;
        }
    }
    return false;
}

/* --- What is shown. --- */

/* The host of the member with the smallest id: the same at every member. */
static struct bytes find_node_address(struct consul_call *call) {
    struct service_member members[CONSUL_MEMBERS_MAX];
    char text[CONSUL_ADDRESS_SIZE];
    size_t n = consul_members(call->door, members);
    size_t first = 0;
    for (size_t i = 1; i < n; i++) {
        first = members[i].id < members[first].id ? i : first;
    }
    if (n == 0) {
        return bytes_from_text("127.0.0.1");
    }
    const char *address = consul_member_address(&members[first], text);
    const char *end = strrchr(address, ':');
    size_t size = end != NULL ? (size_t)(end - address) : strlen(address);
    if (size > 2 && address[0] == '[') {
        address++;
        size -= 2;
    }
    return bytes_of(arena_copy(&call->arena, address, size), size);
}

struct bytes consul_node_address(struct consul_call *call) {
    if (call->node_address.size == 0) {
        call->node_address = find_node_address(call);
    }
    return call->node_address;
}

struct bytes consul_instance_node(const struct consul_call *call,
                                  const struct registry_instance *instance) {
    return instance->node.size > 0 ? instance->node : bytes_from_text(call->door->node);
}

static enum registry_health worse(enum registry_health a, enum registry_health b) {
    return a > b ? a : b;
}

static bool extra_bool(const json_t *extra, const char *name) {
    return json_is_true(json_object_get(extra, name));
}

void consul_shown_init(struct consul_shown *shown, struct consul_call *call,
                       const struct key_store *keys, const struct registry_entry *entry) {
    const struct registry_instance *instance = &entry->instance;
    *shown = (struct consul_shown){.entry = entry, .address = instance->address};
    if (instance->origin == REGISTRY_ORIGIN_CONSUL && instance->extra.size > 0) {
        shown->extra =
            json_loadb((const char *)instance->extra.data, instance->extra.size, 0, NULL);
    }
    shown->node = consul_instance_node(call, instance);
    struct bytes node_address = bytes_of("", 0);
    (void)consul_json_get_text(shown->extra, "NodeAddress", &node_address);
    if (extra_bool(shown->extra, "NoAddress")) {
        /* The service has its node's, which is what the registry keeps. */
        node_address = node_address.size > 0 ? node_address : shown->address;
        shown->address = bytes_of("", 0);
    }
    shown->node_address = node_address.size > 0 ? node_address : consul_node_address(call);
    struct registry_entry *node_checks = arena_calloc(&call->scratch, 1, sizeof *node_checks);
    if (registry_view_find(keys, &call->scratch, bytes_from_text(CONSUL_NODE_SERVICE), shown->node,
                           node_checks)) {
        shown->node_checks = node_checks;
    }
    bool is_up = registry_instance_state(instance) == REGISTRY_UP;
    shown->health = worse(entry->health, is_up ? REGISTRY_PASSING : REGISTRY_CRITICAL);
    shown->health = worse(shown->health, entry->is_kept ? REGISTRY_WARNING : REGISTRY_PASSING);
    if (shown->node_checks != NULL) {
        shown->health = worse(shown->health, shown->node_checks->health);
    }
}

void consul_shown_clear(struct consul_shown *shown) {
    json_decref(shown->extra);
    shown->extra = NULL;
}

/* --- Parts. --- */

static void show_tags(struct consul_json *json, const char *name,
                      const struct registry_instance *instance) {
    consul_json_name(json, name);
    consul_json_begin(json, '[');
    for (size_t i = 0; i < instance->n_tags; i++) {
        consul_json_text(json, instance->tags[i]);
    }
    consul_json_end(json, ']');
}

static void show_pairs(struct consul_json *json, const char *name,
                       const struct registry_instance *instance) {
    consul_json_name(json, name);
    consul_json_begin(json, '{');
    for (size_t i = 0; i < instance->n_metadata; i++) {
        consul_json_key(json, instance->metadata[i].key);
        consul_json_text(json, instance->metadata[i].value);
    }
    consul_json_end(json, '}');
}

/* A member of what Consul alone knows, as it was given. */
static void show_extra(struct consul_json *json, const char *name, const json_t *extra,
                       const char *member, const char *fallback) {
    const json_t *value = json_object_get(extra, member);
    char *text = value != NULL ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    if (text != NULL || fallback != NULL) {
        consul_json_name(json, name);
        consul_json_raw(json, bytes_from_text(text != NULL ? text : fallback));
    }
    free(text);
}

static void show_weights(struct consul_json *json, const char *name,
                         const struct consul_shown *shown) {
    const json_t *weights = json_object_get(shown->extra, "Weights");
    const json_t *warning = json_object_get(weights, "Warning");
    consul_json_name(json, name);
    consul_json_begin(json, '{');
    consul_json_set_number(json, "Passing", shown->entry->instance.weight);
    consul_json_set_number(json, "Warning",
                           json_is_integer(warning) ? json_integer_value(warning) : 1);
    consul_json_end(json, '}');
}

static void show_indexes(struct consul_json *json, const struct registry_instance *instance) {
    consul_json_set_number(json, "CreateIndex", instance->token);
    consul_json_set_number(json, "ModifyIndex", instance->revision);
}

/* --- Nodes. --- */

void consul_show_node_object(struct consul_call *call, struct bytes node, struct bytes address,
                             const json_t *meta) {
    struct consul_json *json = &call->json;
    consul_json_begin(json, '{');
    consul_json_set_chars(json, "ID", "");
    consul_json_set_text(json, "Node", node);
    consul_json_set_text(json, "Address", address);
    consul_json_set_chars(json, "Datacenter", call->door->datacenter);
    consul_json_name(json, "TaggedAddresses");
    consul_json_begin(json, '{');
    consul_json_set_text(json, "lan", address);
    consul_json_set_text(json, "wan", address);
    consul_json_end(json, '}');
    char *text = meta != NULL ? json_dumps(meta, JSON_COMPACT) : NULL;
    consul_json_name(json, "Meta");
    consul_json_raw(json, bytes_from_text(text != NULL ? text : "{}"));
    free(text);
    consul_json_set_number(json, "CreateIndex", 1);
    consul_json_set_number(json, "ModifyIndex", 1);
    consul_json_end(json, '}');
}

void consul_show_node(struct consul_call *call, const struct consul_shown *shown) {
    consul_show_node_object(call, shown->node, shown->node_address,
                            json_object_get(shown->extra, "NodeMeta"));
}

/* --- Services. --- */

static void show_common(struct consul_call *call, const struct consul_shown *shown) {
    struct consul_json *json = &call->json;
    const struct registry_instance *instance = &shown->entry->instance;
    show_extra(json, "Kind", shown->extra, "Kind", NULL);
    consul_json_set_text(json, "ID", instance->id);
    consul_json_set_text(json, "Service", instance->service);
    show_tags(json, "Tags", instance);
    consul_json_set_text(json, "Address", shown->address);
    show_extra(json, "TaggedAddresses", shown->extra, "TaggedAddresses", NULL);
    show_pairs(json, "Meta", instance);
    consul_json_set_number(json, "Port", instance->port);
    show_extra(json, "SocketPath", shown->extra, "SocketPath", NULL);
    show_weights(json, "Weights", shown);
    consul_json_set_bool(json, "EnableTagOverride", extra_bool(shown->extra, "EnableTagOverride"));
}

void consul_show_service(struct consul_call *call, const struct consul_shown *shown) {
    struct consul_json *json = &call->json;
    consul_json_begin(json, '{');
    show_common(call, shown);
    show_extra(json, "Proxy", shown->extra, "Proxy",
               "{\"Mode\":\"\",\"MeshGateway\":{},\"Expose\":{}}");
    show_extra(json, "Connect", shown->extra, "Connect", "{}");
    consul_json_set_chars(json, "PeerName", "");
    show_indexes(json, &shown->entry->instance);
    consul_json_end(json, '}');
}

void consul_show_agent_service(struct consul_call *call, const struct consul_shown *shown) {
    struct consul_json *json = &call->json;
    char hash[24];
    consul_json_begin(json, '{');
    show_common(call, shown);
    show_extra(json, "Proxy", shown->extra, "Proxy", NULL);
    show_extra(json, "Connect", shown->extra, "Connect", NULL);
    consul_json_set_chars(json, "Datacenter", call->door->datacenter);
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)shown->entry->instance.revision);
    consul_json_set_chars(json, "ContentHash", hash);
    consul_json_end(json, '}');
}

void consul_show_catalog_service(struct consul_call *call, const struct consul_shown *shown) {
    struct consul_json *json = &call->json;
    const struct registry_instance *instance = &shown->entry->instance;
    consul_json_begin(json, '{');
    consul_json_set_chars(json, "ID", "");
    consul_json_set_text(json, "Node", shown->node);
    consul_json_set_text(json, "Address", shown->node_address);
    consul_json_set_chars(json, "Datacenter", call->door->datacenter);
    consul_json_name(json, "TaggedAddresses");
    consul_json_begin(json, '{');
    consul_json_set_text(json, "lan", shown->node_address);
    consul_json_set_text(json, "wan", shown->node_address);
    consul_json_end(json, '}');
    show_extra(json, "NodeMeta", shown->extra, "NodeMeta", "{}");
    show_extra(json, "ServiceKind", shown->extra, "Kind", "\"\"");
    consul_json_set_text(json, "ServiceID", instance->id);
    consul_json_set_text(json, "ServiceName", instance->service);
    show_tags(json, "ServiceTags", instance);
    consul_json_set_text(json, "ServiceAddress", shown->address);
    show_extra(json, "ServiceTaggedAddresses", shown->extra, "TaggedAddresses", NULL);
    show_weights(json, "ServiceWeights", shown);
    show_pairs(json, "ServiceMeta", instance);
    consul_json_set_number(json, "ServicePort", instance->port);
    show_extra(json, "ServiceSocketPath", shown->extra, "SocketPath", "\"\"");
    consul_json_set_bool(json, "ServiceEnableTagOverride",
                         extra_bool(shown->extra, "EnableTagOverride"));
    show_extra(json, "ServiceProxy", shown->extra, "Proxy",
               "{\"Mode\":\"\",\"MeshGateway\":{},\"Expose\":{}}");
    show_extra(json, "ServiceConnect", shown->extra, "Connect", "{}");
    show_indexes(json, instance);
    consul_json_end(json, '}');
}
