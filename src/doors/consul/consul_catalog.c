/* /v1/catalog: reads. */
#include "doors/consul/consul_filter.h"
#include "doors/consul/consul_find.h"
#include "doors/consul/consul_list.h"
#include "doors/consul/consul_names.h"
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
    struct arena arena; /* of the tags of one service */
    struct consul_names tags;
    bool is_there;
};

static bool note_tags(void *context, const struct registry_entry *entry) {
    struct tag_listing *listing = context;
    listing->call->position.n_looked_at++;
    if (consul_select_node_meta(listing->call, entry)) {
        listing->is_there = true;
        for (size_t i = 0; i < entry->instance.n_tags; i++) {
            (void)consul_names_add(&listing->tags, entry->instance.tags[i]);
        }
    }
    return true;
}

static void show_service_tags(void *context, struct bytes service) {
    struct tag_listing *listing = context;
    struct consul_json *json = &listing->call->json;
    if (bytes_equal(service, bytes_from_text(CONSUL_NODE_SERVICE))) {
        return;
    }
    listing->is_there = false;
    consul_names_init(&listing->tags, &listing->arena);
    (void)consul_list_visit(listing->keys, service, note_tags, listing);
    if (listing->is_there) {
        consul_json_key(json, service);
        consul_json_begin(json, '[');
        for (size_t i = 0; i < listing->tags.n; i++) {
            consul_json_text(json, listing->tags.names[i]);
        }
        consul_json_end(json, ']');
    }
    arena_reset(&listing->arena);
}

static bool show_services(struct consul_call *call, const struct key_store *keys) {
    struct tag_listing listing = {.call = call, .keys = keys};
    arena_init(&listing.arena);
    if (!call->position.is_begun) {
        call->position.is_begun = true;
        consul_json_begin(&call->json, '{');
        if (!consul_call_has(call, "node-meta")) {
            consul_json_name(&call->json, "consul");
            consul_json_raw(&call->json, bytes_from_text("[]"));
        }
    }
    bool is_whole = consul_list_services(call, keys, show_service_tags, &listing);
    if (is_whole) {
        consul_json_end(&call->json, '}');
    }
    arena_clear(&listing.arena);
    return is_whole;
}

static const struct consul_list services_list = {
    .index = consul_set_registry_index, .part = show_services, .work = CONSUL_WORK_A_KEY};
static const struct consul_query services = {.list = &services_list};

void consul_catalog_services(struct consul_call *call, struct bytes body) {
    (void)body;
    consul_add_registry_range(call);
    consul_call_query(call, &services);
}

/* --- One service. --- */

static void show_selected(struct consul_call *call, const struct consul_shown *shown) {
    consul_show_catalog_service(call, shown);
}

static bool show_service(struct consul_call *call, const struct key_store *keys) {
    return consul_select_part(call, keys, show_selected);
}

static const struct consul_list service_list = {.index = consul_select_index,
                                                .is_index_cheap = true,
                                                .part = show_service,
                                                .work = CONSUL_WORK_AN_INSTANCE};
static const struct consul_query service = {.list = &service_list};

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
    struct consul_names *names;
};

static void show_node_of(void *context, const struct registry_entry *entry) {
    struct node_listing *listing = context;
    struct consul_call *call = listing->call;
    struct consul_shown shown;
    if (!consul_select_node_meta(call, entry) ||
        !consul_names_add(listing->names, consul_instance_node(call, &entry->instance))) {
        return;
    }
    consul_shown_init(&shown, call, listing->keys, entry);
    struct consul_mark mark = consul_filter_begin(call, NULL);
    consul_show_node(call, &shown);
    consul_filter_end(call, &mark);
    consul_shown_clear(&shown);
}

static void begin_nodes(struct consul_call *call) {
    struct consul_names *names = arena_calloc(&call->arena, 1, sizeof *names);
    consul_names_init(names, &call->arena);
    call->data = names;
}

static bool show_nodes(struct consul_call *call, const struct key_store *keys) {
    struct node_listing listing = {.call = call, .keys = keys, .names = call->data};
    if (!call->position.is_begun) {
        call->position.is_begun = true;
        consul_json_begin(&call->json, '[');
        if (!consul_call_has(call, "node-meta")) {
            (void)consul_names_add(listing.names, own_node(call));
            struct consul_mark mark = consul_filter_begin(call, NULL);
            consul_show_node_object(call, own_node(call), consul_node_address(call), NULL);
            consul_filter_end(call, &mark);
        }
    }
    bool is_whole = consul_list_instances(call, keys, bytes_of("", 0), show_node_of, &listing);
    if (is_whole) {
        consul_json_end(&call->json, ']');
    }
    return is_whole;
}

static const struct consul_list nodes_list = {.begin = begin_nodes,
                                              .index = consul_set_registry_index,
                                              .part = show_nodes,
                                              .work = CONSUL_WORK_AN_INSTANCE};
static const struct consul_query nodes = {.list = &nodes_list};

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
};

static bool is_of_node(const struct service_listing *listing, const struct registry_entry *entry) {
    return bytes_equal(consul_instance_node(listing->call, &entry->instance), listing->node);
}

static void show_service_of(void *context, const struct registry_entry *entry) {
    struct service_listing *listing = context;
    struct consul_call *call = listing->call;
    struct consul_shown shown;
    if (!is_of_node(listing, entry) ||
        bytes_equal(entry->instance.service, bytes_from_text(CONSUL_NODE_SERVICE))) {
        return;
    }
    consul_shown_init(&shown, call, listing->keys, entry);
    struct consul_mark mark =
        consul_filter_begin(call, listing->is_array ? NULL : &entry->instance.id);
    consul_show_service(call, &shown);
    consul_filter_end(call, &mark);
    consul_shown_clear(&shown);
}

/* Looks for an instance of the node, which says how it is shown. */
struct node_search {
    struct service_listing *listing;
    bool is_found;
};

static bool meet_instance(void *context, const struct registry_entry *entry) {
    struct node_search *search = context;
    struct service_listing *listing = search->listing;
    struct consul_shown shown;
    if (!is_of_node(listing, entry)) {
        return true;
    }
    consul_shown_init(&shown, listing->call, listing->keys, entry);
    consul_json_name(&listing->call->json, "Node");
    consul_show_node(listing->call, &shown);
    consul_shown_clear(&shown);
    search->is_found = true;
    return false;
}

static bool meet_service(void *context, struct bytes service) {
    struct node_search *search = context;
    return consul_list_visit(search->listing->keys, service, meet_instance, search);
}

static bool find_node(struct service_listing *listing) {
    struct node_search search = {.listing = listing};
    registry_view_visit_services(listing->keys, &listing->call->scratch, bytes_of("", 0),
                                 meet_service, &search);
    return search.is_found;
}

/* False: there is no such node, which was said. */
static bool open_node(struct service_listing *listing) {
    struct consul_call *call = listing->call;
    struct consul_json *json = &call->json;
    call->position.is_begun = true;
    consul_json_begin(json, '{');
    if (bytes_equal(listing->node, own_node(call))) {
        consul_json_name(json, "Node");
        consul_show_node_object(call, listing->node, consul_node_address(call), NULL);
    } else if (!find_node(listing)) {
        call->body.size = 0;
        consul_json_init(json, &call->body);
        consul_json_null(json);
        return false;
    }
    consul_json_name(json, "Services");
    consul_json_begin(json, listing->is_array ? '[' : '{');
    return true;
}

static bool show_node_services(struct consul_call *call, const struct key_store *keys,
                               bool is_array) {
    struct service_listing listing = {
        .call = call, .keys = keys, .node = consul_call_path(call, "node"), .is_array = is_array};
    if (!call->position.is_begun && !open_node(&listing)) {
        return true;
    }
    bool is_whole = consul_list_instances(call, keys, bytes_of("", 0), show_service_of, &listing);
    if (is_whole) {
        consul_json_end(&call->json, is_array ? ']' : '}');
        consul_json_end(&call->json, '}');
    }
    return is_whole;
}

static bool show_node(struct consul_call *call, const struct key_store *keys) {
    return show_node_services(call, keys, false);
}

static bool show_node_array(struct consul_call *call, const struct key_store *keys) {
    return show_node_services(call, keys, true);
}

static const struct consul_list node_map_list = {
    .index = consul_set_registry_index, .part = show_node, .work = CONSUL_WORK_AN_INSTANCE};
static const struct consul_list node_array_list = {
    .index = consul_set_registry_index, .part = show_node_array, .work = CONSUL_WORK_AN_INSTANCE};
static const struct consul_query node_map = {.list = &node_map_list};
static const struct consul_query node_array = {.list = &node_array_list};

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
