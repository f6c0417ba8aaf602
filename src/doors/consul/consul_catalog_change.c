/* /v1/catalog/register and deregister: services of any node, whose checks nobody runs. */
#include "doors/consul/consul_batch.h"
#include "doors/consul/consul_define.h"
#include "doors/consul/consul_find.h"
#include "doors/consul/consul_model.h"
#include "doors/consul/consul_routes.h"
#include "doors/consul/consul_search.h"
#include "doors/consul/consul_show.h"
#include "registry/registry_keys.h"

static bool fail_decode(struct consul_call *call, const char *what) {
    consul_call_fail(call, 400, "Request decode failed: %s", what);
    return false;
}

/* --- Register. --- */

struct catalog_registration {
    struct consul_place place;
    bool skips_node; /* the node stays as it is */
    bool has_service;
    struct registry_instance instance;
    const json_t *checks[REGISTRY_CHECKS_MAX];
    size_t n_checks;
};

/* Checks that name a service belong to it, the others to the node. */
static bool add_checks(struct consul_call *call, const struct key_store *keys,
                       const struct catalog_registration *registration,
                       struct consul_batch *batch) {
    for (size_t i = 0; i < registration->n_checks; i++) {
        struct registry_put_check put = {.service = bytes_from_text(CONSUL_NODE_SERVICE),
                                         .id = registration->place.node};
        struct bytes id = bytes_of("", 0);
        struct registry_entry entry;
        if (!consul_json_get_text(registration->checks[i], "ServiceID", &id) ||
            !consul_define_catalog_check(call, registration->checks[i], &put.check)) {
            return false;
        }
        if (id.size > 0) {
            if (registration->has_service &&
                bytes_equal(id, consul_service_id(call, &registration->instance))) {
                put.service = registration->instance.service;
                put.id = registration->instance.id;
            } else if (consul_find_instance(call, keys, registration->place.node, id, &entry)) {
                put.service = entry.instance.service;
                put.id = entry.instance.id;
            } else {
                consul_call_fail(call, 500, "Missing service registration");
                return false;
            }
        }
        consul_batch_put_check(batch, &put);
    }
    return true;
}

/* A node that is there stays as it is when SkipNodeUpdate is asked for, and a service without an
 * address has the node's. */
static bool add_node(struct consul_call *call, const struct key_store *keys,
                     struct catalog_registration *registration, struct consul_batch *batch) {
    struct registry_register request = {.keeps_checks = true, .is_idempotent = true};
    struct consul_node node;
    consul_node_init(&node, call, keys, registration->place.node);
    bool is_there = node.is_own || node.entry != NULL;
    if (registration->skips_node && is_there) {
        registration->place.address = node.address;
    }
    consul_node_clear(&node);
    if (registration->skips_node && is_there) {
        return true;
    }
    if (!consul_define_node(call, &registration->place, &request.instance)) {
        return false;
    }
    consul_batch_register(batch, &request);
    return true;
}

static bool add_service(struct consul_call *call, const struct key_store *keys,
                        struct catalog_registration *registration, struct consul_batch *batch) {
    const json_t *service = consul_json_find(call->given, "Service");
    if (!registration->has_service) {
        return true;
    }
    if (!consul_define_service(call, service, &registration->place, &registration->instance)) {
        return false;
    }
    const struct registry_register request = {
        .instance = registration->instance, .keeps_checks = true, .is_idempotent = true};
    consul_batch_register(batch, &request);
    consul_batch_end_stale(call, keys, batch, &registration->instance);
    return true;
}

static void register_now(struct consul_call *call, const struct key_store *keys) {
    struct catalog_registration *registration = call->data;
    struct consul_batch *batch = consul_batch_create(call);
    call->status = 0;
    if (!add_node(call, keys, registration, batch) ||
        !add_service(call, keys, registration, batch) ||
        !add_checks(call, keys, registration, batch)) {
        return;
    }
    consul_batch_run(batch, consul_reply_true);
}

static const struct consul_query registering = {.show = register_now};

static bool read_checks(struct consul_call *call, struct catalog_registration *registration) {
    const json_t *one = consul_json_find(call->given, "Check");
    const json_t *many = consul_json_find(call->given, "Checks");
    if (json_array_size(many) >= REGISTRY_CHECKS_MAX) {
        return fail_decode(call, "too many checks");
    }
    if (json_is_object(one)) {
        registration->checks[registration->n_checks++] = one;
    }
    for (size_t i = 0; i < json_array_size(many); i++) {
        registration->checks[registration->n_checks++] = json_array_get(many, i);
    }
    return true;
}

static bool read_place(struct consul_call *call, struct consul_place *place) {
    if (!consul_json_get_text(call->given, "Node", &place->node) ||
        !consul_json_get_text(call->given, "Address", &place->address) ||
        !consul_json_get_text(call->given, "ID", &place->id)) {
        return fail_decode(call, "Node, Address and ID are texts");
    }
    place->meta = consul_json_find(call->given, "NodeMeta");
    place->tagged = consul_json_find(call->given, "TaggedAddresses");
    if (place->id.size > 0 && !consul_uuid_is_valid(place->id)) {
        return fail_decode(call, "ID is no UUID");
    }
    if (place->node.size == 0) {
        consul_call_fail(call, 400, "Must provide node");
        return false;
    }
    return registry_name_is_valid(place->node) || fail_decode(call, "the node's name is not valid");
}

void consul_catalog_register(struct consul_call *call, struct bytes body) {
    struct catalog_registration *registration = arena_calloc(&call->arena, 1, sizeof *registration);
    if (!consul_call_read_body(call, body) || !read_place(call, &registration->place) ||
        !read_checks(call, registration)) {
        return;
    }
    const json_t *service = consul_json_find(call->given, "Service");
    registration->has_service = json_is_object(service);
    if (!consul_json_get_bool(call->given, "SkipNodeUpdate", &registration->skips_node)) {
        (void)fail_decode(call, "SkipNodeUpdate is true or false");
        return;
    }
    if (registration->place.address.size == 0 && !registration->skips_node) {
        consul_call_fail(call, 400, "Must provide address if SkipNodeUpdate is not set");
        return;
    }
    call->data = registration;
    consul_call_add_range(call, registry_index_range(&call->arena, registration->place.node));
    consul_call_look(call, &registering);
}

/* --- Deregister. --- */

struct catalog_removal {
    struct consul_batch *batch;
    struct bytes node;
    struct bytes service_id;
    struct bytes check_id;
};

/* False: there are more of them than one search gives. */
static bool remove_of_node(struct consul_call *call, const struct key_store *keys,
                           const struct catalog_removal *removal) {
    const struct consul_search *search =
        consul_search(call, keys, CONSUL_SEARCH_NODE, removal->node, bytes_of("", 0));
    for (size_t i = 0; search != NULL && i < search->n_matches; i++) {
        consul_batch_deregister(removal->batch, search->matches[i].service, search->matches[i].id);
    }
    return search == NULL || !search->is_cut;
}

static void deregister_rest(struct consul_call *call);

static void deregister_now(struct consul_call *call, const struct key_store *keys) {
    struct catalog_removal *removal = call->data;
    bool is_all = true;
    struct registry_entry entry;
    struct consul_found_check found;
    removal->batch = consul_batch_create(call);
    call->status = 0;
    if (removal->service_id.size > 0) {
        if (consul_find_instance(call, keys, removal->node, removal->service_id, &entry)) {
            consul_batch_deregister(removal->batch, entry.instance.service, entry.instance.id);
        }
    } else if (removal->check_id.size > 0) {
        if (consul_find_check(call, keys, removal->node, removal->check_id, &found)) {
            consul_batch_delete_check(removal->batch, found.entry.instance.service,
                                      found.entry.instance.id, removal->check_id);
        }
    } else {
        is_all = remove_of_node(call, keys, removal);
    }
    consul_batch_run(removal->batch, is_all ? consul_reply_true : deregister_rest);
}

static const struct consul_query deregistering = {.show = deregister_now};

static void deregister_given(struct consul_call *call) {
    struct catalog_removal *removal = arena_calloc(&call->arena, 1, sizeof *removal);
    if (!consul_json_get_text(call->given, "Node", &removal->node) ||
        !consul_json_get_text(call->given, "ServiceID", &removal->service_id) ||
        !consul_json_get_text(call->given, "CheckID", &removal->check_id)) {
        (void)fail_decode(call, "Node, ServiceID and CheckID are texts");
        return;
    }
    if (removal->node.size == 0) {
        consul_call_fail(call, 400, "Must provide node");
        return;
    }
    call->data = removal;
    consul_call_add_range(call, registry_index_range(&call->arena, removal->node));
    consul_call_look(call, &deregistering);
}

static void deregister_rest(struct consul_call *call) {
    call->searches = NULL;
    call->n_looked_at = 0;
    call->n_ranges = 0;
    deregister_given(call);
}

void consul_catalog_deregister(struct consul_call *call, struct bytes body) {
    if (consul_call_read_body(call, body)) {
        deregister_given(call);
    }
}
