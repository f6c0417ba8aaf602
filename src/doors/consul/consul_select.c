#include "doors/consul/consul_select.h"

#include "doors/consul/consul_filter.h"
#include "doors/consul/consul_find.h"
#include "doors/consul/consul_list.h"
#include "doors/consul/consul_near.h"

bool consul_select_node_meta(struct consul_call *call, const struct key_store *keys,
                             struct bytes name) {
    struct consul_node node;
    if (!consul_call_has(call, "node-meta")) {
        return true;
    }
    consul_node_init(&node, call, keys, name);
    bool is_asked_for = consul_node_is_asked_for(call, &node);
    consul_node_clear(&node);
    return is_asked_for;
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

static void show_entry(const struct selection *selection, const struct registry_entry *entry) {
    struct consul_call *call = selection->call;
    struct consul_shown shown;
    if (!has_tags(call, entry) ||
        !consul_select_node_meta(call, selection->keys,
                                 consul_instance_node(call, &entry->instance))) {
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

static void show_one(void *context, const struct registry_entry *entry) {
    const struct selection *selection = context;
    if (consul_near_shows_instance(selection->call, selection->keys, &entry->instance)) {
        show_entry(selection, entry);
    }
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
        const struct registry_entry own = consul_own_service();
        show_entry(selection, &own);
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
    bool is_whole;
    do {
        is_whole = consul_list_instances(call, keys, service, show_one, &selection);
    } while (is_whole && consul_near_next_pass(call));
    if (is_whole) {
        consul_json_end(&call->json, ']');
    }
    return is_whole;
}
