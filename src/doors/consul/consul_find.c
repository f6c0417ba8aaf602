#include "doors/consul/consul_find.h"

#include "doors/consul/consul_keys.h"
#include "doors/consul/consul_search.h"
#include "doors/consul/consul_show.h"
#include "registry/registry_keys.h"

/* --- Instances. --- */

bool consul_find_instance(struct consul_call *call, const struct key_store *keys, struct bytes node,
                          struct bytes id, struct registry_entry *out_entry) {
    struct bytes ids[] = {consul_registry_id(call, node, id), id};
    size_t n_ids = consul_node_is_own(call, node) ? 1 : 2; /* another protocol's */
    for (size_t i = 0; i < n_ids; i++) {
        const struct consul_search *search =
            ids[i].size <= REGISTRY_NAME_SIZE_MAX
                ? consul_search(call, keys, CONSUL_SEARCH_ID, node, ids[i])
                : NULL;
        if (search != NULL && search->n_matches > 0 &&
            registry_view_find(keys, &call->arena, search->matches[0].service, ids[i], out_entry)) {
            return true;
        }
    }
    return false;
}

/* --- Checks. --- */

static const struct registry_check *check_of(const struct registry_entry *entry, struct bytes id) {
    for (size_t i = 0; i < entry->n_checks; i++) {
        if (bytes_equal(entry->checks[i].id, id)) {
            return &entry->checks[i];
        }
    }
    return NULL;
}

/* "service:ID" and "service:ID:1", the names that checks of services have unless told otherwise. */
static bool find_by_name(struct consul_call *call, const struct key_store *keys, struct bytes node,
                         struct bytes check, struct consul_found_check *out) {
    static const char prefix[] = "service:";
    size_t skip = sizeof prefix - 1;
    if (check.size <= skip || memcmp(check.data, prefix, skip) != 0) {
        return false;
    }
    struct bytes id = bytes_of(check.data + skip, check.size - skip);
    while (check.size <= REGISTRY_NAME_SIZE_MAX) {
        if (consul_find_instance(call, keys, node, id, &out->entry)) {
            out->check = check_of(&out->entry, check);
            return out->check != NULL;
        }
        const uint8_t *colon = memrchr(id.data, ':', id.size);
        if (colon == NULL) {
            return false;
        }
        id.size = (size_t)(colon - id.data);
    }
    return false; /* no check has such a name */
}

bool consul_find_check(struct consul_call *call, const struct key_store *keys, struct bytes node,
                       struct bytes check, struct consul_found_check *out_found) {
    *out_found = (struct consul_found_check){0};
    if (find_by_name(call, keys, node, check, out_found)) {
        return true;
    }
    if (registry_view_find(keys, &call->arena, bytes_from_text(CONSUL_NODE_SERVICE), node,
                           &out_found->entry)) {
        out_found->check = check_of(&out_found->entry, check);
        if (out_found->check != NULL) {
            return true;
        }
    }
    const struct consul_search *search =
        consul_search(call, keys, CONSUL_SEARCH_CHECK, node, check);
    if (search == NULL || search->n_matches == 0 ||
        !registry_view_find(keys, &call->arena, search->matches[0].service, search->matches[0].id,
                            &out_found->entry)) {
        return false;
    }
    out_found->check = check_of(&out_found->entry, check);
    return out_found->check != NULL;
}

/* --- The index of all of them. --- */

struct walk {
    struct consul_call *call;
    const struct key_store *keys;
};

static bool note_revision(void *context, struct bytes service) {
    const struct walk *walk = context;
    int64_t revision = registry_view_revision(walk->keys, &walk->call->scratch, service);
    arena_reset(&walk->call->scratch);
    if (revision > walk->call->own_index) {
        walk->call->own_index = revision;
    }
    return true;
}

void consul_set_registry_index(struct consul_call *call, const struct key_store *keys) {
    struct walk walk = {.call = call, .keys = keys};
    const struct record *deleted =
        key_store_find(keys, KEY_SPACE_REGISTRY_RECORDS, registry_key_deleted());
    call->own_index = 0;
    const struct record *begun =
        key_store_find(keys, KEY_SPACE_CONSUL_RECORDS, consul_key_deleted());
    call->bound_index = deleted != NULL ? deleted->mod_revision : 1;
    if (begun != NULL && begun->create_revision > call->bound_index) {
        call->bound_index = begun->create_revision;
    }
    struct arena names;
    arena_init(&names);
    registry_view_visit_services(keys, &names, bytes_of("", 0), note_revision, &walk);
    arena_clear(&names);
}

static void add_service_index(struct consul_call *call, const struct key_store *keys,
                              struct bytes service) {
    struct registry_service record;
    int64_t revision = registry_view_revision(keys, &call->scratch, service);
    bool is_there = registry_view_service(keys, &call->scratch, service, &record);
    int64_t *index = is_there ? &call->own_index : &call->bound_index;
    *index = revision > *index ? revision : *index;
}

void consul_set_service_index(struct consul_call *call, const struct key_store *keys,
                              struct bytes service) {
    struct registry_service ignored;
    call->own_index = 0;
    call->bound_index = 0;
    add_service_index(call, keys, service);
    if (call->n_ranges > 1 &&
        registry_view_service(keys, &call->scratch, bytes_from_text(CONSUL_NODE_SERVICE),
                              &ignored)) {
        add_service_index(call, keys, bytes_from_text(CONSUL_NODE_SERVICE));
    }
}

void consul_add_registry_range(struct consul_call *call) {
    consul_call_add_range(call, registry_prefix_range(&call->arena, bytes_of("", 0)));
}

void consul_add_service_range(struct consul_call *call, struct bytes service) {
    consul_call_add_range(call, registry_service_range(&call->arena, service));
}

void consul_add_node_range(struct consul_call *call) {
    struct key_range range =
        registry_service_range(&call->arena, bytes_from_text(CONSUL_NODE_SERVICE));
    if (service_read_local(call->door->service, http_caller(call->exchange), &range, 1) ==
        STATUS_OK) {
        consul_call_add_range(call, range);
    }
}
