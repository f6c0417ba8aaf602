#include "doors/consul/consul_list.h"
#include "doors/consul/consul_filter.h"

#include "doors/consul/consul_near.h"

enum {
    PART_SIZE = 256 * 1024,
    PART_RECORDS = 1000 /* which may all be left out by a filter; of one pass */
};

void consul_list_begin(struct consul_call *call) {
    call->position.is_begun = false;
    call->position.service.size = 0;
    call->position.id.size = 0;
    call->position.n_looked_at = 0;
    call->position.pass = 0;
    call->body.size = 0;
    call->status = 200;
    call->content_type = "application/json";
    call->has_unknown_selector = false;
    call->is_complete = false;
    consul_json_init(&call->json, &call->body);
    consul_filter_remember(call);
    if (call->query->list->begin != NULL) {
        call->query->list->begin(call);
    }
}

bool consul_list_is_full(const struct consul_call *call) {
    size_t n_passes = call->near.is_asked ? CONSUL_NEAR_PASSES : 1;
    return call->body.size >= PART_SIZE || call->position.n_looked_at >= n_passes * PART_RECORDS;
}

static void set(struct buffer *buffer, struct bytes bytes) {
    buffer->size = 0;
    buffer_append(buffer, bytes.data, bytes.size);
}

static struct bytes copy(struct arena *arena, const struct buffer *buffer) {
    return bytes_of(arena_copy(arena, buffer->data, buffer->size), buffer->size);
}

/* --- Instances. --- */

struct walk {
    struct consul_call *call;
    const struct key_store *keys;
    void (*show)(void *context, const struct registry_entry *entry);
    void (*show_name)(void *context, struct bytes service);
    void *context;
    bool is_full;
};

static bool meet(void *context, const struct registry_entry *entry) {
    struct walk *walk = context;
    struct consul_call *call = walk->call;
    walk->show(walk->context, entry);
    set(&call->position.id, entry->instance.id);
    call->position.n_looked_at += 1 + entry->n_checks;
    walk->is_full = consul_list_is_full(call);
    return !walk->is_full;
}

static void walk_service(struct walk *walk, struct bytes service) {
    struct consul_call *call = walk->call;
    (void)registry_view_visit_after(walk->keys, &call->scratch, service,
                                    copy(&call->scratch, &call->position.id), meet, walk);
}

static bool meet_service(void *context, struct bytes service) {
    struct walk *walk = context;
    struct consul_position *position = &walk->call->position;
    set(&position->service, service);
    position->id.size = 0;
    position->n_looked_at++;
    walk_service(walk, service);
    walk->is_full = walk->is_full || consul_list_is_full(walk->call);
    return !walk->is_full;
}

bool consul_list_instances(struct consul_call *call, const struct key_store *keys,
                           struct bytes service,
                           void (*show)(void *context, const struct registry_entry *entry),
                           void *context) {
    struct walk walk = {.call = call, .keys = keys, .show = show, .context = context};
    if (service.size > 0) {
        walk_service(&walk, service);
        return !walk.is_full;
    }
    struct bytes last = copy(&call->scratch, &call->position.service);
    if (last.size > 0) {
        walk_service(&walk, last);
    }
    if (!walk.is_full) {
        registry_view_visit_services(keys, &call->scratch, last, meet_service, &walk);
    }
    return !walk.is_full;
}

/* --- All at once. --- */

struct visit {
    bool (*visit)(void *context, const struct registry_entry *entry);
    void *context;
    size_t n;
    bool is_stopped;
    struct buffer last;
};

static bool visit_one(void *context, const struct registry_entry *entry) {
    struct visit *visit = context;
    set(&visit->last, entry->instance.id);
    visit->n++;
    visit->is_stopped = !visit->visit(visit->context, entry);
    return !visit->is_stopped && visit->n < PART_RECORDS;
}

bool consul_list_visit(const struct key_store *keys, struct bytes service,
                       bool (*visit)(void *context, const struct registry_entry *entry),
                       void *context) {
    struct visit all = {.visit = visit, .context = context};
    struct arena arena;
    arena_init(&arena);
    buffer_init(&all.last);
    do {
        all.n = 0;
        arena_reset(&arena);
        (void)registry_view_visit_after(keys, &arena, service, copy(&arena, &all.last), visit_one,
                                        &all);
    } while (!all.is_stopped && all.n == PART_RECORDS);
    buffer_clear(&all.last);
    arena_clear(&arena);
    return !all.is_stopped;
}

/* --- Services. --- */

static bool meet_name(void *context, struct bytes service) {
    struct walk *walk = context;
    struct consul_call *call = walk->call;
    set(&call->position.service, service);
    call->position.n_looked_at++;
    walk->show_name(walk->context, service);
    walk->is_full = consul_list_is_full(call);
    return !walk->is_full;
}

bool consul_list_services(struct consul_call *call, const struct key_store *keys,
                          void (*show)(void *context, struct bytes service), void *context) {
    struct walk walk = {.call = call, .keys = keys, .show_name = show, .context = context};
    registry_view_visit_services(keys, &call->scratch,
                                 copy(&call->scratch, &call->position.service), meet_name, &walk);
    return !walk.is_full;
}
