#include "doors/consul/consul_define.h"

#include "core/lease_table.h"
#include "doors/consul/consul_show.h"

#include <stdio.h>

static bool fail_decode(struct consul_call *call, const char *what) {
    consul_call_fail(call, 400, "Request decode failed: %s", what);
    return false;
}

struct consul_place consul_agent_place(struct consul_call *call) {
    char address[HTTP_ADDRESS_SIZE];
    http_address(call->exchange, address);
    const char *end = strrchr(address, ':');
    const char *begin = address[0] == '[' ? address + 1 : address;
    if (end == NULL) { /* a Unix socket */
        return (struct consul_place){.node = bytes_from_text(call->door->node),
                                     .address = consul_node_address(call)};
    }
    size_t size = (size_t)(end - begin) - (address[0] == '[' ? 1 : 0);
    return (struct consul_place){.node = bytes_from_text(call->door->node),
                                 .address = bytes_of(arena_copy(&call->arena, begin, size), size)};
}

/* --- What the registry does not model. --- */

static void keep(json_t *extra, const json_t *body, const char *name) {
    json_t *value = consul_json_find(body, name);
    if (value != NULL) {
        json_object_set(extra, name, value);
    }
}

/* Takes `extra`. */
static bool set_extra(struct consul_call *call, json_t *extra, struct registry_instance *out) {
    char *text = json_object_size(extra) > 0 ? json_dumps(extra, JSON_COMPACT) : NULL;
    if (text != NULL) {
        out->extra = bytes_of(arena_copy(&call->arena, text, strlen(text)), strlen(text));
    }
    free(text);
    json_decref(extra);
    if (out->extra.size > REGISTRY_EXTRA_SIZE_MAX) {
        return fail_decode(call, "the definition is too large");
    }
    return true;
}

static bool define_extra(struct consul_call *call, const json_t *body, bool has_address,
                         struct registry_instance *out) {
    static const char *const kept[] = {
        "EnableTagOverride", "Weights",    "TaggedAddresses", "Kind", "Proxy",
        "Connect",           "SocketPath", "Locality"};
    json_t *extra = json_object();
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        keep(extra, body, kept[i]);
    }
    if (!has_address) {
        json_object_set_new(extra, "NoAddress", json_true());
    }
    return set_extra(call, extra, out);
}

/* --- Services. --- */

static bool define_meta(struct consul_call *call, const json_t *body,
                        struct registry_instance *out) {
    json_t *meta = consul_json_find(body, "Meta");
    const char *key;
    json_t *value;
    size_t n = 0;
    if (meta == NULL) {
        return true;
    }
    struct registry_pair *pairs = arena_calloc(&call->arena, json_object_size(meta), sizeof *pairs);
    json_object_foreach(meta, key, value) {
        if (!json_is_string(value)) {
            consul_call_fail(call, 400, "Request decode failed: Meta: a value is no text");
            return false;
        }
        if (strlen(key) > 128 || json_string_length(value) > 512) {
            consul_call_fail(call, 400,
                             "Invalid Service Meta: Couldn't load metadata pair: %s is too long "
                             "(limit: %d characters)",
                             strlen(key) > 128 ? "Key" : "Value", strlen(key) > 128 ? 128 : 512);
            return false;
        }
        pairs[n++] = (struct registry_pair){
            .key = bytes_from_text(key),
            .value = bytes_of(json_string_value(value), json_string_length(value))};
    }
    if (n > REGISTRY_PAIRS_MAX) {
        consul_call_fail(call, 400,
                         "Invalid Service Meta: Node metadata cannot contain more than %d "
                         "key/value pairs",
                         REGISTRY_PAIRS_MAX);
        return false;
    }
    out->metadata = pairs;
    out->n_metadata = n;
    return json_is_object(meta) || fail_decode(call, "Meta is no object");
}

/* A tag that is named twice counts once. */
static bool define_tags(struct consul_call *call, const json_t *body,
                        struct registry_instance *out) {
    const struct bytes *given = NULL;
    size_t n_given = 0;
    if (!consul_json_get_texts(body, "Tags", &call->arena, &given, &n_given)) {
        return fail_decode(call, "Tags is no list of texts");
    }
    struct bytes *tags = arena_calloc(&call->arena, n_given, sizeof *tags);
    for (size_t i = 0; i < n_given; i++) {
        bool is_new = given[i].size > 0;
        for (size_t j = 0; j < out->n_tags; j++) {
            is_new = is_new && !bytes_equal(tags[j], given[i]);
        }
        if (is_new) {
            tags[out->n_tags++] = given[i];
        }
    }
    out->tags = tags;
    return out->n_tags <= REGISTRY_TAGS_MAX || fail_decode(call, "too many tags");
}

static bool define_weight(struct consul_call *call, const json_t *body,
                          struct registry_instance *out) {
    const json_t *weights = consul_json_find(body, "Weights");
    int64_t passing = 1;
    int64_t warning = 1;
    if (!consul_json_get_number(weights, "Passing", &passing) ||
        !consul_json_get_number(weights, "Warning", &warning)) {
        return fail_decode(call, "Weights are numbers");
    }
    if (passing == 0 && warning == 0) { /* a client that names none writes zeros */
        passing = 1;
    }
    if (passing < 1 || passing > REGISTRY_WEIGHT_MAX || warning < 0 ||
        warning > REGISTRY_WEIGHT_MAX) {
        consul_call_fail(call, 400, "Invalid Weights: %s",
                         passing < 1   ? "Passing must be greater than 0"
                         : warning < 0 ? "Warning must be greater or equal than 0"
                                       : "DNS Weight must be between 0 and 65535");
        return false;
    }
    out->weight = (uint32_t)passing;
    return true;
}

/* As Consul 1.17 writes it, else as Spring does. */
static bool define_zone(struct consul_call *call, const json_t *body,
                        struct registry_instance *out) {
    struct bytes zone = {0};
    for (size_t i = 0; i < out->n_metadata; i++) {
        if (bytes_equal(out->metadata[i].key, bytes_from_text("zone"))) {
            zone = out->metadata[i].value;
        }
    }
    if (!consul_json_get_text(consul_json_find(body, "Locality"), "Zone", &zone)) {
        return fail_decode(call, "Locality.Zone is no text");
    }
    out->zone = registry_name_is_valid(zone) ? zone : out->zone;
    return true;
}

bool consul_define_service(struct consul_call *call, const json_t *body,
                           const struct consul_place *place, struct registry_instance *out) {
    int64_t port = 0;
    *out = (struct registry_instance){.origin = REGISTRY_ORIGIN_CONSUL,
                                      .state = REGISTRY_UP,
                                      .node = place->node,
                                      .ttl_ms = LEASE_TTL_FOREVER};
    /* The catalog calls the name "Service". */
    if (!consul_json_get_text(body, "Service", &out->service) ||
        !consul_json_get_text(body, "Name", &out->service) ||
        !consul_json_get_text(body, "ID", &out->id) ||
        !consul_json_get_text(body, "Address", &out->address) ||
        !consul_json_get_number(body, "Port", &port) || port < 0 || port > UINT16_MAX) {
        return fail_decode(call, "a member of the service has another type");
    }
    if (out->service.size == 0) {
        consul_call_fail(call, 400, "Missing service name");
        return false;
    }
    if (bytes_equal(out->address, bytes_from_text("0.0.0.0")) ||
        bytes_equal(out->address, bytes_from_text("::")) ||
        bytes_equal(out->address, bytes_from_text("[::]"))) {
        consul_call_fail(call, 400, "Invalid service address");
        return false;
    }
    bool has_address = out->address.size > 0;
    out->id = consul_registry_id(call, place->node, out->id.size > 0 ? out->id : out->service);
    out->port = (uint16_t)port;
    out->address = has_address ? out->address : place->address;
    if (!define_weight(call, body, out) || !define_tags(call, body, out) ||
        !define_meta(call, body, out) || !define_zone(call, body, out) ||
        !define_extra(call, body, has_address, out)) {
        return false;
    }
    if (!registry_instance_is_valid(out)) {
        consul_call_fail(call, 400,
                         "Validation failed: a name, an address, a tag or a value of "
                         "the service is too long or has control characters");
        return false;
    }
    return true;
}

bool consul_define_node(struct consul_call *call, const struct consul_place *place,
                        struct registry_instance *out) {
    json_t *extra = json_object();
    *out = (struct registry_instance){.origin = REGISTRY_ORIGIN_CONSUL,
                                      .state = REGISTRY_OUT_OF_SERVICE,
                                      .service = bytes_from_text(CONSUL_NODE_SERVICE),
                                      .id = place->node,
                                      .node = place->node,
                                      .address = place->address,
                                      .weight = 1,
                                      .ttl_ms = LEASE_TTL_FOREVER};
    if (place->id.size > 0) {
        json_object_set_new(extra, "NodeID",
                            json_stringn((const char *)place->id.data, place->id.size));
    }
    if (place->meta != NULL) {
        json_object_set(extra, "NodeMeta", (json_t *)(uintptr_t)place->meta);
    }
    if (place->tagged != NULL) {
        json_object_set(extra, "NodeTagged", (json_t *)(uintptr_t)place->tagged);
    }
    return set_extra(call, extra, out) &&
           (registry_instance_is_valid(out) || fail_decode(call, "the node is not valid"));
}
