#include "doors/consul/consul_find.h"

#include "doors/consul/consul_keys.h"
#include "doors/consul/consul_list.h"
#include "doors/consul/consul_show.h"
#include "registry/registry_keys.h"

/* In looks at a record. */
enum { WORK_AN_ID = 32 };

/* What takes longer than others leave room for is not looked for: call->is_busy. */
static bool may_look(struct consul_call *call, const struct key_store *keys,
                     const struct key_range *range, size_t work) {
    size_t n = key_store_count(keys, range->space, range->key, range->range_end);
    call->is_busy = call->is_busy || !service_allow_work(call->door->service, n * work);
    return !call->is_busy;
}

/* --- Instances. --- */

struct id_walk {
    struct consul_call *call;
    const struct key_store *keys;
    struct bytes node;
    struct bytes id;
    bool (*visit)(void *context, const struct registry_instance *instance);
    void *context;
};

static bool meet_id(void *context, const struct record *record) {
    const struct id_walk *walk = context;
    struct consul_call *call = walk->call;
    struct registry_instance instance;
    struct bytes key = record_key(record);
    struct bytes service = bytes_of(key.data + 2 + walk->id.size, key.size - 2 - walk->id.size);
    bool goes_on = true;
    record = bytes_equal(service, bytes_from_text(CONSUL_NODE_SERVICE))
                 ? NULL
                 : key_store_find(walk->keys, KEY_SPACE_REGISTRY,
                                  registry_key_instance(&call->scratch, service, walk->id));
    if (record != NULL &&
        registry_instance_decode(record_value(record), &call->scratch, &instance) &&
        bytes_equal(consul_instance_node(call, &instance), walk->node)) {
        instance.service = service;
        instance.id = walk->id;
        goes_on = walk->visit(walk->context, &instance);
    }
    arena_reset(&call->scratch);
    return goes_on;
}

void consul_visit_id(struct consul_call *call, const struct key_store *keys, struct bytes node,
                     struct bytes id,
                     bool (*visit)(void *context, const struct registry_instance *instance),
                     void *context) {
    struct id_walk walk = {
        .call = call, .keys = keys, .node = node, .id = id, .visit = visit, .context = context};
    struct key_range range = registry_index_range(&call->arena, id);
    if (may_look(call, keys, &range, WORK_AN_ID)) {
        (void)key_store_visit(keys, range.space, range.key, range.range_end, meet_id, &walk);
    }
}

static bool note_service(void *context, const struct registry_instance *instance) {
    struct bytes *service = context;
    *service = instance->service;
    return false;
}

bool consul_find_instance(struct consul_call *call, const struct key_store *keys, struct bytes node,
                          struct bytes id, struct registry_entry *out_entry) {
    struct bytes service = bytes_of("", 0);
    struct bytes registered = consul_registry_id(call, node, id);
    consul_visit_id(call, keys, node, registered, note_service, &service);
    if (service.size == 0 && !consul_node_is_own(call, node)) { /* another protocol's */
        registered = id;
        consul_visit_id(call, keys, node, registered, note_service, &service);
    }
    return service.size > 0 &&
           registry_view_find(keys, &call->arena, service, registered, out_entry);
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
    for (;;) {
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
}

struct scan {
    struct consul_call *call;
    const struct key_store *keys;
    struct bytes node;
    struct bytes check;
    struct consul_found_check *out;
};

static bool scan_record(void *context, const struct record *record) {
    struct scan *scan = context;
    struct registry_key key = registry_key_read(record);
    struct consul_found_check *out = scan->out;
    if (key.kind != REGISTRY_KEY_CHECK || !bytes_equal(key.check, scan->check) ||
        !registry_view_find(scan->keys, &scan->call->arena, key.service, key.id, &out->entry) ||
        !bytes_equal(consul_instance_node(scan->call, &out->entry.instance), scan->node)) {
        return true;
    }
    out->check = check_of(&out->entry, scan->check);
    return out->check == NULL;
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
    struct scan scan = {.call = call, .keys = keys, .node = node, .check = check, .out = out_found};
    struct key_range range = registry_prefix_range(&call->arena, bytes_of("", 0));
    if (may_look(call, keys, &range, 1)) {
        (void)key_store_visit(keys, range.space, range.key, range.range_end, scan_record, &scan);
    }
    return out_found->check != NULL;
}

/* --- All of them. --- */

struct walk {
    struct consul_call *call;
    const struct key_store *keys;
    bool (*visit)(void *context, const struct registry_entry *entry);
    void *context;
};

static bool walk_service(void *context, struct bytes service) {
    const struct walk *walk = context;
    return consul_list_visit(walk->keys, service, walk->visit, walk->context);
}

void consul_visit_all(struct consul_call *call, const struct key_store *keys,
                      bool (*visit)(void *context, const struct registry_entry *entry),
                      void *context) {
    struct walk walk = {.call = call, .keys = keys, .visit = visit, .context = context};
    struct key_range range = registry_prefix_range(&call->arena, bytes_of("", 0));
    if (may_look(call, keys, &range, WORK_AN_ID)) {
        registry_view_visit_services(keys, &call->arena, bytes_of("", 0), walk_service, &walk);
    }
}

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
