#include "doors/consul/consul_node.h"

#include "doors/consul/consul_members.h"
#include "doors/consul/consul_model.h"

#include <stdio.h>
#include <stdlib.h>

/* Bytes of JSON that are as much work as a record of a list, also when nothing is shown of them. */
enum { EXTRA_A_RECORD = 128 };

/* --- Names. --- */

bool consul_node_is_own(const struct consul_call *call, struct bytes name) {
    return bytes_equal(name, bytes_from_text(call->door->node));
}

struct bytes consul_node_own_id(struct consul_call *call) {
    struct service_info info;
    char text[CONSUL_UUID_SIZE + 1];
    if (call->door->node_id[0] != 0) {
        return bytes_from_text(call->door->node_id);
    }
    if (call->node_id.size > 0) {
        return call->node_id;
    }
    service_info(call->door->service, &info);
    snprintf(text, sizeof text, "00000000-0000-0000-%04x-%012llx",
             (unsigned)(info.cluster_id >> 48),
             (unsigned long long)(info.cluster_id & 0xffffffffffffULL));
    call->node_id = bytes_of(arena_copy(&call->arena, text, CONSUL_UUID_SIZE), CONSUL_UUID_SIZE);
    return call->node_id;
}

json_t *consul_node_read_meta(const char *text) {
    json_t *meta = json_object();
    while (*text != 0) {
        size_t size = strcspn(text, ",");
        const char *colon = memchr(text, ':', size);
        char key[256];
        size_t key_size = colon != NULL ? (size_t)(colon - text) : 0;
        if (key_size == 0 || key_size >= sizeof key) {
            json_decref(meta);
            return NULL;
        }
        memcpy(key, text, key_size);
        key[key_size] = 0;
        if (json_object_set_new(meta, key, json_stringn(colon + 1, size - key_size - 1)) != 0) {
            json_decref(meta);
            return NULL;
        }
        text += size + (text[size] == ',' ? 1 : 0);
    }
    return meta;
}

struct bytes consul_instance_node(const struct consul_call *call,
                                  const struct registry_instance *instance) {
    return instance->node.size > 0 ? instance->node : bytes_from_text(call->door->node);
}

struct bytes consul_service_id(const struct consul_call *call,
                               const struct registry_instance *instance) {
    struct bytes id = instance->id;
    struct bytes node = instance->node;
    if (instance->origin != REGISTRY_ORIGIN_CONSUL || node.size == 0 ||
        consul_node_is_own(call, node) || id.size <= node.size + 1) {
        return id;
    }
    size_t size = id.size - node.size - 1;
    bool is_qualified =
        id.data[size] == '@' && bytes_equal(bytes_of(id.data + size + 1, node.size), node);
    return is_qualified ? bytes_of(id.data, size) : id;
}

struct bytes consul_registry_id(struct consul_call *call, struct bytes node, struct bytes id) {
    if (consul_node_is_own(call, node)) {
        return id;
    }
    uint8_t *memory = arena_alloc(&call->arena, id.size + 1 + node.size);
    memcpy(memory, id.data, id.size);
    memory[id.size] = '@';
    memcpy(memory + id.size + 1, node.data, node.size);
    return bytes_of(memory, id.size + 1 + node.size);
}

/* The host of the member with the smallest id: the same at every member. */
static struct bytes find_address(struct consul_call *call) {
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
        call->node_address = find_address(call);
    }
    return call->node_address;
}

/* --- A node. --- */

void consul_node_init(struct consul_node *node, struct consul_call *call,
                      const struct key_store *keys, struct bytes name) {
    struct registry_entry *entry = arena_calloc(&call->scratch, 1, sizeof *entry);
    *node = (struct consul_node){.name = name, .is_own = consul_node_is_own(call, name)};
    if (registry_view_find(keys, &call->scratch, bytes_from_text(CONSUL_NODE_SERVICE), name,
                           entry)) {
        node->entry = entry;
    }
    if (node->is_own) {
        node->id = consul_node_own_id(call);
        node->address = consul_node_address(call);
    } else if (node->entry != NULL) {
        struct bytes extra = entry->instance.extra;
        node->address = entry->instance.address;
        node->extra =
            extra.size > 0 ? json_loadb((const char *)extra.data, extra.size, 0, NULL) : NULL;
        (void)consul_json_get_text(node->extra, "NodeID", &node->id);
        call->position.n_looked_at += extra.size / EXTRA_A_RECORD;
    }
}

void consul_node_clear(struct consul_node *node) {
    json_decref(node->extra);
    node->extra = NULL;
}

/* --- Showing. --- */

static void show_json(struct consul_json *json, const char *name, const json_t *value) {
    char *text = value != NULL ? json_dumps(value, JSON_COMPACT) : NULL;
    consul_json_name(json, name);
    consul_json_raw(json, bytes_from_text(text != NULL ? text : "null"));
    free(text);
}

static const json_t *meta_of(const struct consul_call *call, const struct consul_node *node) {
    return node->is_own ? call->door->node_meta : json_object_get(node->extra, "NodeMeta");
}

struct bytes consul_node_zone(const struct consul_call *call, const struct consul_node *node) {
    const json_t *zone = json_object_get(meta_of(call, node), "zone");
    return json_is_string(zone) ? bytes_of(json_string_value(zone), json_string_length(zone))
                                : bytes_of("", 0);
}

void consul_node_show_addresses(struct consul_call *call, const struct consul_node *node) {
    struct consul_json *json = &call->json;
    struct bytes address = node->address;
    if (!node->is_own) {
        show_json(json, "TaggedAddresses", json_object_get(node->extra, "NodeTagged"));
        return;
    }
    bool is_ipv6 = memchr(address.data, ':', address.size) != NULL;
    bool is_ipv4 = address.size > 0 && !is_ipv6 && address.data[address.size - 1] >= '0' &&
                   address.data[address.size - 1] <= '9';
    consul_json_name(json, "TaggedAddresses");
    consul_json_begin(json, '{');
    consul_json_set_text(json, "lan", address);
    if (is_ipv4 || is_ipv6) {
        consul_json_set_text(json, is_ipv4 ? "lan_ipv4" : "lan_ipv6", address);
    }
    consul_json_set_text(json, "wan", address);
    if (is_ipv4 || is_ipv6) {
        consul_json_set_text(json, is_ipv4 ? "wan_ipv4" : "wan_ipv6", address);
    }
    consul_json_end(json, '}');
}

void consul_node_show_meta(struct consul_call *call, const struct consul_node *node,
                           const char *name) {
    if (node->is_own) {
        consul_json_name(&call->json, name);
        consul_json_raw(&call->json, bytes_from_text(call->door->node_meta_text));
    } else {
        show_json(&call->json, name, meta_of(call, node));
    }
}

void consul_node_show(struct consul_call *call, const struct consul_node *node) {
    struct consul_json *json = &call->json;
    bool is_registered = !node->is_own && node->entry != NULL;
    consul_json_begin(json, '{');
    consul_json_set_text(json, "ID", node->id);
    consul_json_set_text(json, "Node", node->name);
    consul_json_set_text(json, "Address", node->address);
    consul_json_set_chars(json, "Datacenter", call->door->datacenter);
    consul_node_show_addresses(call, node);
    consul_node_show_meta(call, node, "Meta");
    consul_json_set_number(json, "CreateIndex", is_registered ? node->entry->instance.token : 1);
    consul_json_set_number(json, "ModifyIndex", is_registered ? node->entry->instance.revision : 1);
    consul_json_end(json, '}');
}

/* --- ?node-meta= --- */

static bool has_pair(const json_t *meta, struct bytes pair) {
    const uint8_t *colon = memchr(pair.data, ':', pair.size);
    size_t size = colon != NULL ? (size_t)(colon - pair.data) : pair.size;
    char key[256];
    if (size >= sizeof key) {
        return false;
    }
    memcpy(key, pair.data, size);
    key[size] = 0;
    const json_t *value = json_object_get(meta, key);
    struct bytes wanted =
        colon != NULL ? bytes_of(colon + 1, pair.size - size - 1) : bytes_of("", 0);
    return json_is_string(value) &&
           bytes_equal(wanted, bytes_of(json_string_value(value), json_string_length(value)));
}

bool consul_node_is_asked_for(struct consul_call *call, const struct consul_node *node) {
    size_t position = 0;
    struct http_field field;
    bool matches = true;
    while (consul_call_next_query(call, &position, &field)) {
        if (bytes_equal(field.name, bytes_from_text("node-meta")) && field.value.size > 0) {
            matches = matches && has_pair(meta_of(call, node), field.value);
        }
    }
    return matches;
}
