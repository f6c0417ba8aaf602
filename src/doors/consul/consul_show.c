#include "doors/consul/consul_show.h"

#include "core/lease_table.h"

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
    consul_node_init(&shown->node, call, keys, consul_instance_node(call, instance));
    if (extra_bool(shown->extra, "NoAddress")) {
        /* The service has its node's, which is what the registry keeps. */
        bool is_clients = shown->node.is_own && shown->address.size > 0;
        shown->node.address = is_clients ? shown->address : shown->node.address;
        shown->address = bytes_of("", 0);
    }
    bool is_up = registry_instance_state(instance) == REGISTRY_UP;
    shown->health = worse(entry->health, is_up ? REGISTRY_PASSING : REGISTRY_CRITICAL);
    shown->health = worse(shown->health, entry->is_kept ? REGISTRY_WARNING : REGISTRY_PASSING);
    if (shown->node.entry != NULL) {
        shown->health = worse(shown->health, shown->node.entry->health);
    }
}

void consul_shown_clear(struct consul_shown *shown) {
    consul_node_clear(&shown->node);
    json_decref(shown->extra);
    shown->extra = NULL;
}

struct registry_entry consul_own_service(void) {
    return (struct registry_entry){.instance = {.service = bytes_from_text("consul"),
                                                .id = bytes_from_text("consul"),
                                                .token = 1,
                                                .revision = 1,
                                                .origin = REGISTRY_ORIGIN_NATIVE,
                                                .state = REGISTRY_UP,
                                                .weight = 1,
                                                .port = 8300,
                                                .ttl_ms = LEASE_TTL_FOREVER},
                                   .is_serving = true};
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

/* --- Services. --- */

static void show_common(struct consul_call *call, const struct consul_shown *shown) {
    struct consul_json *json = &call->json;
    const struct registry_instance *instance = &shown->entry->instance;
    show_extra(json, "Kind", shown->extra, "Kind", NULL);
    consul_json_set_text(json, "ID", consul_service_id(call, instance));
    consul_json_set_text(json, "Service", instance->service);
    show_tags(json, "Tags", instance);
    consul_json_set_text(json, "Address", shown->address);
    show_extra(json, "TaggedAddresses", shown->extra, "TaggedAddresses", NULL);
    show_pairs(json, "Meta", instance);
    consul_json_set_number(json, "Port", instance->port);
    show_extra(json, "SocketPath", shown->extra, "SocketPath", NULL);
    show_weights(json, "Weights", shown);
    show_extra(json, "Locality", shown->extra, "Locality", NULL);
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
    consul_json_set_text(json, "ID", shown->node.id);
    consul_json_set_text(json, "Node", shown->node.name);
    consul_json_set_text(json, "Address", shown->node.address);
    consul_json_set_chars(json, "Datacenter", call->door->datacenter);
    consul_node_show_addresses(call, &shown->node);
    consul_node_show_meta(call, &shown->node, "NodeMeta");
    show_extra(json, "ServiceKind", shown->extra, "Kind", "\"\"");
    consul_json_set_text(json, "ServiceID", consul_service_id(call, instance));
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
    show_extra(json, "ServiceLocality", shown->extra, "Locality", NULL);
    show_extra(json, "ServiceProxy", shown->extra, "Proxy",
               "{\"Mode\":\"\",\"MeshGateway\":{},\"Expose\":{}}");
    show_extra(json, "ServiceConnect", shown->extra, "Connect", "{}");
    show_indexes(json, instance);
    consul_json_end(json, '}');
}
