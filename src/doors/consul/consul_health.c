/* /v1/health: services with their checks, checks of a node, of a service, of a state. */
#include "doors/consul/consul_filter.h"
#include "doors/consul/consul_find.h"
#include "doors/consul/consul_list.h"
#include "doors/consul/consul_near.h"
#include "doors/consul/consul_routes.h"
#include "doors/consul/consul_select.h"
#include "doors/consul/consul_show.h"

static struct bytes own_node(const struct consul_call *call) {
    return bytes_from_text(call->door->node);
}

static bool is_hidden(const struct registry_entry *entry) {
    return bytes_equal(entry->instance.service, bytes_from_text(CONSUL_NODE_SERVICE));
}

/* --- A service. --- */

static void show_entry(struct consul_call *call, const struct consul_shown *shown) {
    consul_json_begin(&call->json, '{');
    consul_json_name(&call->json, "Node");
    consul_node_show(call, &shown->node);
    consul_json_name(&call->json, "Service");
    consul_show_service(call, shown);
    consul_json_name(&call->json, "Checks");
    consul_show_checks(call, shown);
    consul_json_end(&call->json, '}');
}

static bool show_service(struct consul_call *call, const struct key_store *keys) {
    return consul_select_part(call, keys, show_entry);
}

static const struct consul_list service_list = {.index = consul_select_index,
                                                .is_index_cheap = true,
                                                .part = show_service,
                                                .work = CONSUL_WORK_AN_INSTANCE};
static const struct consul_query service = {.list = &service_list};

/* The checks of nodes are waited for, too: they decide over all services of a node. Those who may
 * read the service alone are not told of them. */
void consul_health_service(struct consul_call *call, struct bytes body) {
    struct bytes name = consul_call_path(call, "service");
    struct bytes passing = consul_call_text(call, "passing");
    (void)body;
    if (name.size == 0) {
        consul_call_fail(call, 400, "Missing service name");
        return;
    }
    if (passing.size > 0 && !bytes_equal(passing, bytes_from_text("true")) &&
        !bytes_equal(passing, bytes_from_text("false")) &&
        !bytes_equal(passing, bytes_of("1", 1)) && !bytes_equal(passing, bytes_of("0", 1))) {
        consul_call_fail(call, 400, "Invalid value for ?passing");
        return;
    }
    if (consul_filter_read(call)) {
        consul_add_service_range(call, name);
        consul_add_node_range(call);
        consul_near_read(call);
        consul_call_query(call, &service);
    }
}

/* --- Checks. --- */

struct check_listing {
    struct consul_call *call;
    const struct key_store *keys;
    struct bytes node; /* empty: of all */
    bool has_state;    /* only checks of this health */
    enum registry_health health;
    bool only_services; /* none of nodes */
};

static void show_one_check(const struct check_listing *listing, struct bytes node,
                           const struct registry_entry *entry, size_t i) {
    struct consul_call *call = listing->call;
    const struct registry_check *check = &entry->checks[i];
    if (listing->has_state && check->health != listing->health) {
        return;
    }
    struct consul_mark mark = consul_filter_begin(call, NULL);
    consul_show_check(call, node, &entry->instance, check);
    consul_filter_end(call, &mark);
}

static void show_checks_of(void *context, const struct registry_entry *entry) {
    const struct check_listing *listing = context;
    struct bytes node = consul_instance_node(listing->call, &entry->instance);
    if ((listing->node.size > 0 && !bytes_equal(node, listing->node)) ||
        (listing->only_services && is_hidden(entry)) ||
        !consul_near_shows_instance(listing->call, listing->keys, &entry->instance) ||
        !consul_select_node_meta(listing->call, listing->keys, node)) {
        return;
    }
    for (size_t i = 0; i < entry->n_checks; i++) {
        show_one_check(listing, node, entry, i);
    }
}

static void show_serf(const struct check_listing *listing) {
    struct consul_call *call = listing->call;
    if ((listing->has_state && listing->health != REGISTRY_PASSING) ||
        (listing->node.size > 0 && !bytes_equal(listing->node, own_node(call))) ||
        !consul_select_node_meta(call, listing->keys, own_node(call))) {
        return;
    }
    struct consul_mark mark = consul_filter_begin(call, NULL);
    consul_show_serf(call, own_node(call));
    consul_filter_end(call, &mark);
}

/* Of one service, or, with an empty name, of all. */
static bool show_part(struct check_listing *listing, struct bytes service) {
    struct consul_call *call = listing->call;
    if (!call->position.is_begun) {
        call->position.is_begun = true;
        consul_json_begin(&call->json, '[');
        if (!listing->only_services) {
            show_serf(listing);
        }
    }
    bool is_whole;
    do {
        is_whole = consul_list_instances(call, listing->keys, service, show_checks_of, listing);
    } while (is_whole && consul_near_next_pass(call));
    if (is_whole) {
        consul_json_end(&call->json, ']');
    }
    return is_whole;
}

static bool show_node(struct consul_call *call, const struct key_store *keys) {
    struct check_listing listing = {
        .call = call, .keys = keys, .node = consul_call_path(call, "node")};
    return show_part(&listing, bytes_of("", 0));
}

static const struct consul_list node_list = {
    .index = consul_set_registry_index, .part = show_node, .work = CONSUL_WORK_AN_INSTANCE};
static const struct consul_query node = {.list = &node_list};

void consul_health_node(struct consul_call *call, struct bytes body) {
    (void)body;
    if (consul_call_path(call, "node").size == 0) {
        consul_call_fail(call, 400, "Missing node name");
        return;
    }
    if (consul_filter_read(call)) {
        consul_add_registry_range(call);
        consul_call_query(call, &node);
    }
}

static bool show_state(struct consul_call *call, const struct key_store *keys) {
    struct check_listing listing = {.call = call, .keys = keys};
    listing.has_state = consul_health_read(consul_call_path(call, "state"), &listing.health);
    return show_part(&listing, bytes_of("", 0));
}

static const struct consul_list state_list = {
    .index = consul_set_registry_index, .part = show_state, .work = CONSUL_WORK_AN_INSTANCE};
static const struct consul_query state = {.list = &state_list};

void consul_health_state(struct consul_call *call, struct bytes body) {
    struct bytes wanted = consul_call_path(call, "state");
    enum registry_health ignored;
    (void)body;
    if (wanted.size == 0) {
        consul_call_fail(call, 400, "Missing check state");
        return;
    }
    if (!bytes_equal(wanted, bytes_from_text("any")) && !consul_health_read(wanted, &ignored)) {
        consul_call_fail(call, 400, "Invalid check state: \"%.*s\"",
                         (int)(wanted.size < 64 ? wanted.size : 64), (const char *)wanted.data);
        return;
    }
    if (consul_filter_read(call)) {
        consul_add_registry_range(call);
        consul_near_read(call);
        consul_call_query(call, &state);
    }
}

static bool show_service_checks(struct consul_call *call, const struct key_store *keys) {
    struct check_listing listing = {.call = call, .keys = keys, .only_services = true};
    return show_part(&listing, consul_call_path(call, "service"));
}

static const struct consul_list service_checks_list = {.index = consul_select_index,
                                                       .is_index_cheap = true,
                                                       .part = show_service_checks,
                                                       .work = CONSUL_WORK_AN_INSTANCE};
static const struct consul_query service_checks = {.list = &service_checks_list};

void consul_health_checks(struct consul_call *call, struct bytes body) {
    struct bytes name = consul_call_path(call, "service");
    (void)body;
    if (name.size == 0) {
        consul_call_fail(call, 400, "Missing service name");
        return;
    }
    if (consul_filter_read(call)) {
        consul_add_service_range(call, name);
        consul_near_read(call);
        consul_call_query(call, &service_checks);
    }
}
