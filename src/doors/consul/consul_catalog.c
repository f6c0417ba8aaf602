/* /v1/catalog: reads. */
#include "doors/consul/consul_filter.h"
#include "doors/consul/consul_find.h"
#include "doors/consul/consul_routes.h"
#include "doors/consul/consul_select.h"
#include "doors/consul/consul_show.h"

static struct bytes own_node(const struct consul_call *call) {
    return bytes_from_text(call->door->node);
}

void consul_catalog_datacenters(struct consul_call *call, struct bytes body) {
    (void)body;
    enum status status =
        service_check_user(call->door->service, http_caller(call->exchange), "consul catalog");
    if (status != STATUS_OK) {
        consul_call_fail_status(call, status);
        return;
    }
    consul_json_begin(&call->json, '[');
    consul_json_text(&call->json, bytes_from_text(call->door->datacenter));
    consul_json_end(&call->json, ']');
    consul_call_reply(call, 200);
}

/* --- Services and their tags. --- */

struct tag_listing {
    struct consul_call *call;
    const struct key_store *keys;
    struct bytes *tags;
    size_t n;
    size_t capacity;
    bool is_there;
};

static void note_tag(struct tag_listing *listing, struct bytes tag) {
    for (size_t i = 0; i < listing->n; i++) {
        if (bytes_equal(listing->tags[i], tag)) {
            return;
        }
    }
    if (listing->n == listing->capacity) {
        size_t capacity = listing->capacity == 0 ? 16 : 2 * listing->capacity;
        struct bytes *tags = arena_calloc(&listing->call->arena, capacity, sizeof *tags);
        for (size_t i = 0; i < listing->n; i++) {
            tags[i] = listing->tags[i];
        }
        listing->tags = tags;
        listing->capacity = capacity;
    }
    listing->tags[listing->n++] = tag;
}

static bool note_tags(void *context, const struct registry_entry *entry) {
    struct tag_listing *listing = context;
    if (!consul_select_node_meta(listing->call, entry)) {
        return true;
    }
    listing->is_there = true;
    for (size_t i = 0; i < entry->instance.n_tags; i++) {
        note_tag(listing, entry->instance.tags[i]);
    }
    return true;
}

static bool show_service_tags(void *context, struct bytes service) {
    struct tag_listing *listing = context;
    struct consul_json *json = &listing->call->json;
    if (bytes_equal(service, bytes_from_text(CONSUL_NODE_SERVICE))) {
        return true;
    }
    listing->n = 0;
    listing->is_there = false;
    (void)registry_view_visit(listing->keys, &listing->call->arena, service, note_tags, listing);
    if (!listing->is_there) {
        return true;
    }
    consul_json_key(json, service);
    consul_json_begin(json, '[');
    for (size_t i = 0; i < listing->n; i++) {
        consul_json_text(json, listing->tags[i]);
    }
    consul_json_end(json, ']');
    return true;
}

static void show_services(struct consul_call *call, const struct key_store *keys) {
    struct tag_listing listing = {.call = call, .keys = keys};
    if (!consul_may_visit_all(call, keys)) {
        return;
    }
    consul_set_registry_index(call, keys);
    consul_json_begin(&call->json, '{');
    if (!consul_call_has(call, "node-meta")) {
        consul_json_name(&call->json, "consul");
        consul_json_raw(&call->json, bytes_from_text("[]"));
    }
    registry_view_visit_services(keys, &call->arena, bytes_of("", 0), show_service_tags, &listing);
    consul_json_end(&call->json, '}');
}

static const struct consul_query services = {.show = show_services};

void consul_catalog_services(struct consul_call *call, struct bytes body) {
    (void)body;
    consul_add_registry_range(call);
    consul_call_query(call, &services);
}

/* --- One service. --- */

static void show_selected(struct consul_call *call, const struct consul_shown *shown) {
    consul_show_catalog_service(call, shown);
}

static void show_service(struct consul_call *call, const struct key_store *keys) {
    consul_select_show(call, keys, consul_call_path(call, "service"), show_selected);
}

static const struct consul_query service = {.show = show_service};

void consul_catalog_service(struct consul_call *call, struct bytes body) {
    struct bytes name = consul_call_path(call, "service");
    (void)body;
    if (name.size == 0) {
        consul_call_fail(call, 400, "Missing service name");
        return;
    }
    if (consul_filter_read(call)) {
        consul_add_service_range(call, name);
        consul_call_query(call, &service);
    }
}

/* --- Nodes. --- */

struct node_listing {
    struct consul_call *call;
    const struct key_store *keys;
    struct bytes *names;
    size_t n;
    size_t capacity;
};

static bool is_new_node(struct node_listing *listing, struct bytes name) {
    for (size_t i = 0; i < listing->n; i++) {
        if (bytes_equal(listing->names[i], name)) {
            return false;
        }
    }
    if (listing->n == listing->capacity) {
        size_t capacity = listing->capacity == 0 ? 16 : 2 * listing->capacity;
        struct bytes *names = arena_calloc(&listing->call->arena, capacity, sizeof *names);
        for (size_t i = 0; i < listing->n; i++) {
            names[i] = listing->names[i];
        }
        listing->names = names;
        listing->capacity = capacity;
    }
    listing->names[listing->n++] = name;
    return true;
}

static bool show_node_of(void *context, const struct registry_entry *entry) {
    struct node_listing *listing = context;
    struct consul_call *call = listing->call;
    struct consul_shown shown;
    if (!consul_select_node_meta(call, entry) ||
        !is_new_node(listing, consul_instance_node(call, &entry->instance))) {
        return true;
    }
    consul_shown_init(&shown, call, listing->keys, entry);
    struct consul_mark mark = consul_filter_begin(call, NULL);
    consul_show_node(call, &shown);
    consul_filter_end(call, &mark);
    consul_shown_clear(&shown);
    return true;
}

static void show_nodes(struct consul_call *call, const struct key_store *keys) {
    struct node_listing listing = {.call = call, .keys = keys};
    if (!consul_may_visit_all(call, keys)) {
        return;
    }
    consul_set_registry_index(call, keys);
    consul_json_begin(&call->json, '[');
    if (!consul_call_has(call, "node-meta")) {
        (void)is_new_node(&listing, own_node(call));
        struct consul_mark mark = consul_filter_begin(call, NULL);
        consul_show_node_object(call, own_node(call), consul_node_address(call), NULL);
        consul_filter_end(call, &mark);
    }
    consul_visit_all(call, keys, show_node_of, &listing);
    consul_json_end(&call->json, ']');
}

static const struct consul_query nodes = {.show = show_nodes};

void consul_catalog_nodes(struct consul_call *call, struct bytes body) {
    (void)body;
    if (consul_filter_read(call)) {
        consul_add_registry_range(call);
        consul_call_query(call, &nodes);
    }
}

/* --- The services of a node. --- */

struct service_listing {
    struct consul_call *call;
    const struct key_store *keys;
    struct bytes node;
    bool is_array;
    bool is_found;
    struct buffer object; /* of the node */
};

static bool show_service_of(void *context, const struct registry_entry *entry) {
    struct service_listing *listing = context;
    struct consul_call *call = listing->call;
    struct consul_shown shown;
    if (!bytes_equal(consul_instance_node(call, &entry->instance), listing->node)) {
        return true;
    }
    consul_shown_init(&shown, call, listing->keys, entry);
    if (!listing->is_found) {
        struct buffer services = call->body;
        struct consul_json json = call->json;
        buffer_init(&call->body);
        consul_json_init(&call->json, &call->body);
        consul_show_node(call, &shown);
        listing->object = call->body;
        call->body = services;
        call->json = json;
    }
    listing->is_found = true;
    if (!bytes_equal(entry->instance.service, bytes_from_text(CONSUL_NODE_SERVICE))) {
        struct consul_mark mark =
            consul_filter_begin(call, listing->is_array ? NULL : &entry->instance.id);
        consul_show_service(call, &shown);
        consul_filter_end(call, &mark);
    }
    consul_shown_clear(&shown);
    return true;
}

static void show_own_node(struct service_listing *listing) {
    struct consul_call *call = listing->call;
    struct buffer services = call->body;
    struct consul_json json = call->json;
    buffer_init(&call->body);
    consul_json_init(&call->json, &call->body);
    consul_show_node_object(call, listing->node, consul_node_address(call), NULL);
    listing->object = call->body;
    call->body = services;
    call->json = json;
    listing->is_found = true;
}

static void show_node_services(struct consul_call *call, const struct key_store *keys,
                               bool is_array) {
    struct service_listing listing = {
        .call = call, .keys = keys, .node = consul_call_path(call, "node"), .is_array = is_array};
    if (!consul_may_visit_all(call, keys)) {
        return;
    }
    buffer_init(&listing.object);
    consul_set_registry_index(call, keys);
    if (bytes_equal(listing.node, own_node(call))) {
        show_own_node(&listing);
    }
    consul_json_begin(&call->json, is_array ? '[' : '{');
    consul_visit_all(call, keys, show_service_of, &listing);
    consul_json_end(&call->json, is_array ? ']' : '}');
    struct buffer services = call->body;
    buffer_init(&call->body);
    consul_json_init(&call->json, &call->body);
    if (!listing.is_found) {
        consul_json_null(&call->json);
    } else {
        consul_json_begin(&call->json, '{');
        consul_json_name(&call->json, "Node");
        consul_json_raw(&call->json, bytes_of(listing.object.data, listing.object.size));
        consul_json_name(&call->json, "Services");
        consul_json_raw(&call->json, bytes_of(services.data, services.size));
        consul_json_end(&call->json, '}');
    }
    buffer_clear(&services);
    buffer_clear(&listing.object);
}

static void show_node(struct consul_call *call, const struct key_store *keys) {
    show_node_services(call, keys, false);
}

static void show_node_array(struct consul_call *call, const struct key_store *keys) {
    show_node_services(call, keys, true);
}

static const struct consul_query node_map = {.show = show_node};
static const struct consul_query node_array = {.show = show_node_array};

static void look_at_node(struct consul_call *call, const struct consul_query *query) {
    if (consul_call_path(call, "node").size == 0) {
        consul_call_fail(call, 400, "Missing node name");
        return;
    }
    if (consul_filter_read(call)) {
        consul_add_registry_range(call);
        consul_call_query(call, query);
    }
}

void consul_catalog_node(struct consul_call *call, struct bytes body) {
    (void)body;
    look_at_node(call, &node_map);
}

void consul_catalog_node_services(struct consul_call *call, struct bytes body) {
    (void)body;
    look_at_node(call, &node_array);
}
