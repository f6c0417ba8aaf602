#include "doors/consul/consul_search.h"

#include "core/state_machine.h"
#include "doors/consul/consul_call_internal.h"
#include "doors/consul/consul_show.h"
#include "registry/registry_keys.h"

enum {
    /* Records that one call looks at on the loop: some hundred microseconds. */
    LOOKED_AT_MAX = 1000,
    /* Records of one part in a worker, so that others get their turn. */
    PART_RECORDS = 16 * 1024,
    /* What is found beyond it is found when it is looked for again. */
    MATCHES_MAX = 4096,
    MATCHES_FIRST = 4
};

/* --- One record. --- */

static bool is_whole(const struct consul_search *search) {
    return search->n_matches > 0 &&
           (search->kind == CONSUL_SEARCH_CHECK || search->kind == CONSUL_SEARCH_ID);
}

static void add_match(struct consul_call *call, struct consul_search *search, struct bytes service,
                      struct bytes id) {
    if (search->n_matches == MATCHES_MAX) {
        search->is_cut = true;
        return;
    }
    if (search->n_matches == search->capacity) {
        size_t capacity = search->capacity == 0 ? MATCHES_FIRST : 2 * search->capacity;
        struct consul_match *grown = arena_calloc(&call->arena, capacity, sizeof *grown);
        for (size_t i = 0; i < search->n_matches; i++) {
            grown[i] = search->matches[i];
        }
        search->matches = grown;
        search->capacity = capacity;
    }
    search->matches[search->n_matches++] = (struct consul_match){
        .service = consul_call_keep(call, service), .id = consul_call_keep(call, id)};
}

/* Instances of the hidden service that carries checks of nodes have no id that a client knows. */
static bool is_of_node_service(struct bytes service) {
    return bytes_equal(service, bytes_from_text(CONSUL_NODE_SERVICE));
}

static bool is_on_node(const struct consul_call *call, const struct consul_search *search,
                       const struct registry_instance *instance) {
    return bytes_equal(consul_instance_node(call, instance), search->node);
}

struct part {
    struct consul_call *call;
    const struct key_store *keys;
    struct consul_search *only; /* NULL: all that go through the whole registry */
    size_t left;
    struct arena arena; /* of a record */
};

static bool find_instance(struct part *part, struct bytes service, struct bytes id,
                          struct registry_instance *out_instance) {
    struct arena *arena = &part->arena;
    const struct record *record =
        key_store_find(part->keys, KEY_SPACE_REGISTRY, registry_key_instance(arena, service, id));
    return record != NULL && registry_instance_decode(record_value(record), arena, out_instance);
}

static void look_at_check(struct part *part, struct consul_search *search,
                          const struct registry_key *key) {
    struct registry_instance instance;
    if (search->n_matches == 0 && bytes_equal(key->check, search->id) &&
        find_instance(part, key->service, key->id, &instance) &&
        is_on_node(part->call, search, &instance)) {
        add_match(part->call, search, key->service, key->id);
    }
}

static bool look_at_record(void *context, const struct record *record) {
    struct part *part = context;
    struct consul_call *call = part->call;
    struct registry_key key = registry_key_read(record);
    struct registry_instance instance;
    bool is_instance = key.kind == REGISTRY_KEY_INSTANCE;
    bool is_read = false;
    for (struct consul_search *search = call->searches; search != NULL; search = search->next) {
        if (search->is_done || (part->only != NULL && search != part->only)) {
            continue;
        }
        if (search->kind == CONSUL_SEARCH_CHECK && key.kind == REGISTRY_KEY_CHECK) {
            look_at_check(part, search, &key);
        } else if (search->kind == CONSUL_SEARCH_NODE && is_instance) {
            is_read =
                is_read || registry_instance_decode(record_value(record), &part->arena, &instance);
            if (is_read && is_on_node(call, search, &instance)) {
                add_match(call, search, key.service, key.id);
            }
        }
    }
    arena_reset(&part->arena);
    return --part->left > 0;
}

static bool look_at_index(void *context, const struct record *record) {
    struct part *part = context;
    struct consul_call *call = part->call;
    struct consul_search *search = part->only;
    struct bytes key = record_key(record);
    struct bytes service = bytes_of(key.data + 2 + search->id.size, key.size - 2 - search->id.size);
    struct registry_instance instance;
    if (!is_of_node_service(service) && find_instance(part, service, search->id, &instance) &&
        is_on_node(call, search, &instance) &&
        (search->kind == CONSUL_SEARCH_ID || instance.origin == REGISTRY_ORIGIN_CONSUL)) {
        add_match(call, search, service, search->id);
    }
    arena_reset(&part->arena);
    return --part->left > 0 && !is_whole(search);
}

/* --- All of a search. --- */

static bool is_by_index(const struct consul_search *search) {
    return search->kind == CONSUL_SEARCH_ID || search->kind == CONSUL_SEARCH_CONSUL_ID;
}

static struct key_range range_of(struct consul_call *call, const struct consul_search *search) {
    return is_by_index(search) ? registry_index_range(&call->arena, search->id)
                               : registry_prefix_range(&call->arena, bytes_of("", 0));
}

struct noting {
    struct part *part;
    bool (*look)(void *context, const struct record *record);
    struct buffer *place;
    bool is_stopped;
};

static bool look_and_note(void *context, const struct record *record) {
    struct noting *noting = context;
    noting->is_stopped = !noting->look(noting->part, record);
    if (noting->is_stopped) {
        struct bytes key = record_key(record);
        noting->place->size = 0;
        buffer_append(noting->place, key.data, key.size);
        buffer_put_u8(noting->place, 0); /* the key behind it */
    }
    return !noting->is_stopped;
}

/* Goes on at call->position.id. True: the range has ended. */
static bool run_part(struct part *part, struct key_range range, bool is_index) {
    struct buffer *place = &part->call->position.id;
    struct bytes from = range.key;
    if (place->size > 0) {
        from = consul_call_keep(part->call, bytes_of(place->data, place->size));
    }
    struct noting noting = {
        .part = part, .look = is_index ? look_at_index : look_at_record, .place = place};
    arena_init(&part->arena);
    (void)key_store_visit(part->keys, range.space, from, range.range_end, look_and_note, &noting);
    arena_clear(&part->arena);
    if (!noting.is_stopped) {
        place->size = 0;
    }
    return !noting.is_stopped;
}

static void run_at_once(struct consul_call *call, const struct key_store *keys,
                        struct consul_search *search, struct key_range range) {
    struct part part = {.call = call, .keys = keys, .only = search, .left = SIZE_MAX};
    call->position.id.size = 0;
    (void)run_part(&part, range, is_by_index(search));
    search->is_done = true;
}

static struct consul_search *next_of(const struct consul_call *call) {
    struct consul_search *search = call->searches;
    while (search != NULL && search->is_done) {
        search = search->next;
    }
    return search;
}

/* Those that go through the whole registry do so together. */
static void end_pass(struct consul_call *call, struct consul_search *only) {
    for (struct consul_search *search = call->searches; search != NULL; search = search->next) {
        search->is_done = search->is_done || (only != NULL ? search == only : !is_by_index(search));
    }
}

/* --- The worker. --- */

static struct consul_call *call_of(struct service_scan *scan) {
    return list_entry(scan, struct consul_call, scan);
}

static void run(struct service_scan *scan) {
    struct consul_call *call = call_of(scan);
    struct consul_search *search = next_of(call);
    bool is_index = is_by_index(search);
    struct part part = {.call = call,
                        .keys = key_view_store(snapshot_view_keys(scan->view)),
                        .only = is_index ? search : NULL,
                        .left = PART_RECORDS};
    bool is_ended = run_part(&part, range_of(call, search), is_index);
    if (is_ended || (is_index && is_whole(search))) {
        call->position.id.size = 0;
        end_pass(call, part.only);
    }
    call->is_complete = next_of(call) == NULL;
}

/* --- The loop. --- */

static void ran(struct service_scan *scan) {
    struct consul_call *call = call_of(scan);
    if (call->exchange == NULL) {
        consul_scan_end(call);
    } else if (!call->is_complete) {
        service_scan_continue(scan);
    } else {
        call->n_pending++; /* it stays */
        consul_scan_end(call);
        call->n_pending--;
        consul_call_look_again(call);
    }
}

static void revoked(struct service_scan *scan, enum status status) {
    struct consul_call *call = call_of(scan);
    if (call->exchange != NULL) {
        consul_call_fail_status(call, status);
    }
    consul_scan_end(call);
}

bool consul_search_start(struct consul_call *call) {
    if (!call->is_busy || call->exchange == NULL) {
        return false;
    }
    call->is_busy = false;
    call->position.id.size = 0;
    call->n_looked_at = 0;
    consul_call_start_scan(call, (struct service_scan){.run = run, .ran = ran, .revoked = revoked});
    return true;
}

static struct consul_search *find_search(const struct consul_call *call,
                                         enum consul_search_kind kind, struct bytes node,
                                         struct bytes id) {
    struct consul_search *search = call->searches;
    while (search != NULL && !(search->kind == kind && bytes_equal(search->node, node) &&
                               bytes_equal(search->id, id))) {
        search = search->next;
    }
    return search;
}

static struct consul_search *add_search(struct consul_call *call, enum consul_search_kind kind,
                                        struct bytes node, struct bytes id) {
    struct consul_search *search = arena_calloc(&call->arena, 1, sizeof *search);
    *search = (struct consul_search){.next = call->searches,
                                     .kind = kind,
                                     .node = consul_call_keep(call, node),
                                     .id = consul_call_keep(call, id)};
    call->searches = search;
    return search;
}

const struct consul_search *consul_search(struct consul_call *call, const struct key_store *keys,
                                          enum consul_search_kind kind, struct bytes node,
                                          struct bytes id) {
    struct consul_search *search = find_search(call, kind, node, id);
    if (search == NULL) {
        search = add_search(call, kind, node, id);
        struct key_range range = range_of(call, search);
        size_t n = key_store_count(keys, range.space, range.key, range.range_end);
        call->n_looked_at += n;
        if (call->n_looked_at <= LOOKED_AT_MAX) {
            run_at_once(call, keys, search, range);
        }
    }
    call->is_busy = call->is_busy || !search->is_done;
    return search->is_done ? search : NULL;
}
