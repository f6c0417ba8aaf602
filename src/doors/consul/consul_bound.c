#include "doors/consul/consul_bound.h"

#include "doors/consul/consul_keys.h"
#include "doors/consul/consul_rules.h"
#include "registry/registry_keys.h"
#include "registry/registry_model.h"

#include <stdlib.h>

enum {
    LOOK_INTERVAL_MS = 100,
    ENDS_MAX = 64,
    /* Checks that are looked at in one iteration of the loop; the others soon after. */
    CHECKS_MAX = 4096,
    GO_ON_MS = 2
};

struct consul_bound {
    uv_timer_t timer;
    struct consul_door *door;
    struct arena arena; /* of one session */
    struct arena names;
    size_t n_ending;     /* on their way to the log */
    size_t n_checks;     /* that were looked at in this iteration */
    struct buffer place; /* the session to go on with; empty: the first */
    bool is_closed;
    bool is_timer_closed;
};

struct ending {
    struct service_request request;
    struct consul_bound *bound;
};

static void free_if_done(struct consul_bound *bound) {
    if (bound->is_closed && bound->is_timer_closed && bound->n_ending == 0) {
        arena_clear(&bound->arena);
        arena_clear(&bound->names);
        buffer_clear(&bound->place);
        free(bound);
    }
}

static void on_ended(struct service_request *request, const struct outcome *outcome) {
    struct ending *ending = (struct ending *)request;
    (void)outcome; /* it is looked at again */
    ending->bound->n_ending--;
    free_if_done(ending->bound);
    free(ending);
}

static void submit(struct consul_bound *bound, uint32_t rule, const struct buffer *request) {
    struct ending *ending = calloc(1, sizeof *ending);
    if (ending == NULL) {
        abort();
    }
    const struct command command = {
        .type = COMMAND_RULE,
        .rule = {.number = rule, .request = bytes_of(request->data, request->size)}};
    ending->bound = bound;
    ending->request.done = on_ended;
    bound->n_ending++;
    service_submit(bound->door->service, &caller_server, &ending->request, &command);
}

static void end_session(struct consul_bound *bound, struct bytes id) {
    const struct consul_session_destroy destroy = {.id = id, .only_if_critical = true};
    struct buffer request;
    buffer_init(&request);
    consul_session_destroy_encode(&request, &destroy);
    submit(bound, CONSUL_RULE_SESSION_DESTROY, &request);
    buffer_clear(&request);
}

static bool is_critical(struct consul_bound *bound, const struct key_store *keys,
                        struct bytes encoded) {
    struct consul_check_name name;
    struct registry_check check;
    if (!consul_check_name_decode(encoded, &name)) {
        return true;
    }
    const struct record *record =
        key_store_find(keys, KEY_SPACE_REGISTRY,
                       registry_key_check(&bound->arena, name.service, name.id, name.check));
    return record == NULL || !registry_check_decode(record_value(record), &bound->arena, &check) ||
           check.health == REGISTRY_CRITICAL;
}

static bool look_at(void *context, const struct record *record) {
    struct consul_bound *bound = context;
    const struct key_store *keys = state_view_keys(service_view(bound->door->service));
    struct bytes key = record_key(record);
    struct bytes id = bytes_of(key.data + 1, key.size - 1);
    struct consul_session session;
    bound->place.size = 0;
    if (bound->n_checks > CHECKS_MAX) {
        buffer_append(&bound->place, key.data, key.size);
        return false;
    }
    arena_reset(&bound->arena);
    bound->n_checks++;
    if (!consul_keys_session(keys, &bound->arena, id, &session)) {
        return true;
    }
    bound->n_checks += session.n_service_checks;
    for (size_t i = 0; i < session.n_service_checks; i++) {
        if (is_critical(bound, keys, session.service_checks[i])) {
            end_session(bound, id);
            break;
        }
    }
    return bound->n_ending < ENDS_MAX;
}

static void on_timer(uv_timer_t *timer) {
    struct consul_bound *bound = timer->data;
    struct service_info info;
    service_info(bound->door->service, &info);
    if (info.leader_id == 0 || info.leader_id != info.member_id || bound->n_ending > 0) {
        return;
    }
    const struct key_store *keys = state_view_keys(service_view(bound->door->service));
    struct key_range range = consul_bound_range();
    if (key_store_find(keys, KEY_SPACE_CONSUL_RECORDS, consul_key_deleted()) == NULL) {
        const struct buffer nothing = {0};
        submit(bound, CONSUL_RULE_BEGIN, &nothing);
    }
    if (key_store_count(keys, range.space, range.key, range.range_end) == 0) {
        bound->place.size = 0;
        return;
    }
    struct bytes from =
        bound->place.size > 0
            ? bytes_of(arena_copy(&bound->names, bound->place.data, bound->place.size),
                       bound->place.size)
            : range.key;
    bound->n_checks = 0;
    bound->place.size = 0;
    (void)key_store_visit(keys, range.space, from, range.range_end, look_at, bound);
    arena_reset(&bound->arena);
    arena_reset(&bound->names);
    uint64_t pause_ms = bound->place.size > 0 ? GO_ON_MS : LOOK_INTERVAL_MS;
    (void)uv_timer_start(&bound->timer, on_timer, pause_ms, LOOK_INTERVAL_MS);
}

struct consul_bound *consul_bound_create(struct consul_door *door) {
    struct consul_bound *bound = calloc(1, sizeof *bound);
    if (bound == NULL || uv_timer_init(door->environment->loop, &bound->timer) != 0) {
        abort();
    }
    bound->door = door;
    bound->timer.data = bound;
    arena_init(&bound->arena);
    arena_init(&bound->names);
    buffer_init(&bound->place);
    (void)uv_timer_start(&bound->timer, on_timer, LOOK_INTERVAL_MS, LOOK_INTERVAL_MS);
    uv_unref((uv_handle_t *)&bound->timer);
    return bound;
}

void consul_bound_stop(struct consul_bound *bound) {
    (void)uv_timer_stop(&bound->timer);
}

static void on_closed(uv_handle_t *handle) {
    struct consul_bound *bound = handle->data;
    bound->is_timer_closed = true;
    free_if_done(bound);
}

void consul_bound_destroy(struct consul_bound *bound) {
    bound->is_closed = true;
    uv_close((uv_handle_t *)&bound->timer, on_closed);
}
