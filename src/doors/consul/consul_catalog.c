/* /v1/catalog: reads. */
#include "doors/consul/consul_filter.h"
#include "doors/consul/consul_find.h"
#include "doors/consul/consul_list.h"
#include "doors/consul/consul_names.h"
#include "doors/consul/consul_near.h"
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
    if (consul_select_node_meta(listing->call, listing->keys,
                                consul_instance_node(listing->call, &entry->instance))) {
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
        if (consul_select_node_meta(call, keys, own_node(call))) {
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
        consul_add_node_range(call);
        consul_near_read(call);
        consul_call_query(call, &service);
    }
}

/* --- Nodes. --- */

struct node_listing {
    struct consul_call *call;
    const struct key_store *keys;
    struct consul_names *names;
};

static void show_one_node(struct node_listing *listing, struct bytes name) {
    struct consul_call *call = listing->call;
    struct consul_node node;
    if (consul_names_has(listing->names, name)) {
        return;
    }
    consul_node_init(&node, call, listing->keys, name);
    if (consul_near_shows_node(call, listing->keys, &node) &&
        consul_names_add(listing->names, name) && consul_node_is_asked_for(call, &node)) {
        struct consul_mark mark = consul_filter_begin(call, NULL);
        consul_node_show(call, &node);
        consul_filter_end(call, &mark);
    }
    consul_node_clear(&node);
}

static void show_node_of(void *context, const struct registry_entry *entry) {
    struct node_listing *listing = context;
    show_one_node(listing, consul_instance_node(listing->call, &entry->instance));
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
    }
    bool is_whole;
    do {
        show_one_node(&listing, own_node(call));
        is_whole = consul_list_instances(call, keys, bytes_of("", 0), show_node_of, &listing);
    } while (is_whole && consul_near_next_pass(call));
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
        consul_near_read(call);
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
    struct bytes id = consul_service_id(call, &entry->instance);
    consul_shown_init(&shown, call, listing->keys, entry);
    struct consul_mark mark = consul_filter_begin(call, listing->is_array ? NULL : &id);
    consul_show_service(call, &shown);
    consul_filter_end(call, &mark);
    consul_shown_clear(&shown);
}

/* Looks for an instance of a node that nobody registered by itself. */
struct node_search {
    const struct service_listing *listing;
    bool is_found;
};

static bool meet_instance(void *context, const struct registry_entry *entry) {
    struct node_search *search = context;
    search->is_found = is_of_node(search->listing, entry);
    return !search->is_found;
}

static bool meet_service(void *context, struct bytes service) {
    struct node_search *search = context;
    return consul_list_visit(search->listing->keys, service, meet_instance, search);
}

static bool has_instance(const struct service_listing *listing) {
    struct node_search search = {.listing = listing};
    registry_view_visit_services(listing->keys, &listing->call->scratch, bytes_of("", 0),
                                 meet_service, &search);
    return search.is_found;
}

static void show_own_service(struct service_listing *listing) {
    const struct registry_entry own = consul_own_service();
    struct registry_service ignored;
    if (!registry_view_service(listing->keys, &listing->call->scratch, own.instance.service,
                               &ignored)) {
        show_service_of(listing, &own);
    }
}

/* False: there is no such node, which was said. */
static bool open_node(struct service_listing *listing) {
    struct consul_call *call = listing->call;
    struct consul_json *json = &call->json;
    struct consul_node node;
    call->position.is_begun = true;
    consul_node_init(&node, call, listing->keys, listing->node);
    bool is_there = node.is_own || node.entry != NULL || has_instance(listing);
    if (is_there) {
        consul_json_begin(json, '{');
        consul_json_name(json, "Node");
        consul_node_show(call, &node);
        consul_json_name(json, "Services");
        consul_json_begin(json, listing->is_array ? '[' : '{');
    } else {
        consul_json_null(json);
    }
    if (node.is_own) {
        show_own_service(listing);
    }
    consul_node_clear(&node);
    return is_there;
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
