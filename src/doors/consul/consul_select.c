#include "doors/consul/consul_select.h"

#include "core/lease_table.h"
#include "doors/consul/consul_filter.h"
#include "doors/consul/consul_find.h"
#include "doors/consul/consul_list.h"

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

bool consul_select_node_meta(struct consul_call *call, const struct registry_entry *entry) {
    size_t position = 0;
    struct http_field field;
    bool matches = true;
    json_t *extra = NULL;
    if (!consul_call_has(call, "node-meta")) {
        return true;
    }
    if (entry->instance.extra.size > 0) {
        extra = json_loadb((const char *)entry->instance.extra.data, entry->instance.extra.size, 0,
                           NULL);
    }
    while (consul_call_next_query(call, &position, &field)) {
        if (bytes_equal(field.name, bytes_from_text("node-meta")) && field.value.size > 0) {
            matches = matches && has_pair(json_object_get(extra, "NodeMeta"), field.value);
        }
    }
    json_decref(extra);
    return matches;
}

static bool has_tags(struct consul_call *call, const struct registry_entry *entry) {
    size_t position = 0;
    struct http_field field;
    while (consul_call_next_query(call, &position, &field)) {
        if (bytes_equal(field.name, bytes_from_text("tag")) && field.value.size > 0 &&
            !registry_instance_has_tag(&entry->instance, field.value)) {
            return false;
        }
    }
    return true;
}

struct selection {
    struct consul_call *call;
    const struct key_store *keys;
    bool only_passing;
    void (*show)(struct consul_call *call, const struct consul_shown *shown);
};

static void show_one(void *context, const struct registry_entry *entry) {
    const struct selection *selection = context;
    struct consul_call *call = selection->call;
    struct consul_shown shown;
    if (!has_tags(call, entry) || !consul_select_node_meta(call, entry)) {
        return;
    }
    consul_shown_init(&shown, call, selection->keys, entry);
    /* Kept by the guard: listed as if it passed, or the guard would be for nothing. */
    bool is_passing =
        shown.health == REGISTRY_PASSING ||
        (entry->is_kept && shown.health == REGISTRY_WARNING && entry->health == REGISTRY_PASSING);
    if (!selection->only_passing || is_passing) {
        struct consul_mark mark = consul_filter_begin(call, NULL);
        selection->show(call, &shown);
        consul_filter_end(call, &mark);
    }
    consul_shown_clear(&shown);
}

/* The service that Consul's servers themselves are. */
static void show_consul(struct selection *selection) {
    struct registry_entry entry = {.instance = {.service = bytes_from_text("consul"),
                                                .id = bytes_from_text("consul"),
                                                .token = 1,
                                                .revision = 1,
                                                .origin = REGISTRY_ORIGIN_NATIVE,
                                                .state = REGISTRY_UP,
                                                .weight = 1,
                                                .port = 8300,
                                                .ttl_ms = LEASE_TTL_FOREVER},
                                   .is_serving = true};
    show_one(selection, &entry);
}

void consul_select_index(struct consul_call *call, const struct key_store *keys) {
    consul_set_service_index(call, keys, consul_call_path(call, "service"));
}

static void open_list(struct selection *selection, struct bytes service) {
    struct consul_call *call = selection->call;
    struct registry_service record;
    call->position.is_begun = true;
    consul_json_begin(&call->json, '[');
    if (bytes_equal(service, bytes_from_text("consul")) &&
        !registry_view_service(selection->keys, &call->scratch, service, &record)) {
        show_consul(selection);
    }
}

bool consul_select_part(struct consul_call *call, const struct key_store *keys,
                        void (*show)(struct consul_call *call, const struct consul_shown *shown)) {
    struct bytes service = consul_call_path(call, "service");
    struct bytes passing = consul_call_text(call, "passing");
    struct selection selection = {.call = call, .keys = keys, .show = show};
    selection.only_passing = consul_call_has(call, "passing") &&
                             !bytes_equal(passing, bytes_from_text("false")) &&
                             !bytes_equal(passing, bytes_of("0", 1));
    if (!call->position.is_begun) {
        open_list(&selection, service);
    }
    bool is_whole = consul_list_instances(call, keys, service, show_one, &selection);
    if (is_whole) {
        consul_json_end(&call->json, ']');
    }
    return is_whole;
}
