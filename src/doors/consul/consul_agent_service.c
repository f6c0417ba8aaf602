/* /v1/agent/service: services of the one node that all members are to Consul's clients. */
#include "doors/consul/consul_batch.h"
#include "doors/consul/consul_define.h"
#include "doors/consul/consul_filter.h"
#include "doors/consul/consul_find.h"
#include "doors/consul/consul_list.h"
#include "doors/consul/consul_routes.h"
#include "doors/consul/consul_search.h"
#include "doors/consul/consul_show.h"
#include "registry/registry_keys.h"

#include <stdio.h>
#include <stdlib.h>

static struct bytes own_node(const struct consul_call *call) {
    return bytes_from_text(call->door->node);
}

/* --- Register. --- */

struct registration {
    struct registry_register request;
    struct registry_check *checks;
};

void consul_batch_end_stale(struct consul_call *call, const struct key_store *keys,
                            struct consul_batch *batch, const struct registry_instance *mine) {
    const struct consul_search *others =
        consul_search(call, keys, CONSUL_SEARCH_CONSUL_ID, mine->node, mine->id);
    for (size_t i = 0; others != NULL && i < others->n_matches; i++) {
        if (!bytes_equal(others->matches[i].service, mine->service)) {
            consul_batch_deregister(batch, others->matches[i].service, mine->id);
        }
    }
}

void consul_resolve_alias(struct consul_call *call, const struct key_store *keys,
                          struct registry_check *check) {
    struct registry_entry entry;
    if (check->kind == REGISTRY_CHECK_ALIAS &&
        consul_find_instance(call, keys, own_node(call), check->alias_id, &entry)) {
        check->alias_service = entry.instance.service;
    }
}

static void register_now(struct consul_call *call, const struct key_store *keys) {
    struct registration *registration = call->data;
    struct consul_batch *batch = consul_batch_create(call);
    for (size_t i = 0; i < registration->request.n_checks; i++) {
        consul_resolve_alias(call, keys, &registration->checks[i]);
    }
    consul_batch_register(batch, &registration->request);
    consul_batch_end_stale(call, keys, batch, &registration->request.instance);
    consul_batch_run(batch, consul_reply_ok);
}

static const struct consul_query registering = {.show = register_now};

void consul_agent_service_register(struct consul_call *call, struct bytes body) {
    struct registration *registration = arena_calloc(&call->arena, 1, sizeof *registration);
    struct registry_register *request = &registration->request;
    struct consul_place place = consul_agent_place(call);
    struct bytes replaces = consul_call_text(call, "replace-existing-checks");
    if (!consul_call_read_body(call, body) ||
        !consul_define_service(call, call->given, &place, &request->instance) ||
        !consul_define_service_checks(call, call->given, &request->instance, &registration->checks,
                                      &request->n_checks)) {
        return;
    }
    request->checks = registration->checks;
    request->is_idempotent = true;
    request->keeps_checks = !consul_call_has(call, "replace-existing-checks") ||
                            bytes_equal(replaces, bytes_from_text("false"));
    call->data = registration;
    consul_call_add_range(call, registry_index_range(&call->arena, request->instance.id));
    consul_call_look(call, &registering);
}

/* --- Deregister, maintenance: of an id. --- */

static void fail_unknown(struct consul_call *call, struct bytes id) {
    call->status = 0;
    consul_call_fail(call, 404,
                     "Unknown service ID \"%.*s\". Ensure that the service ID is passed, not the "
                     "service name.",
                     (int)(id.size < 256 ? id.size : 256), (const char *)id.data);
}

static void deregister_now(struct consul_call *call, const struct key_store *keys) {
    struct bytes id = consul_call_path(call, "id");
    struct registry_entry entry;
    if (!consul_find_instance(call, keys, own_node(call), id, &entry)) {
        fail_unknown(call, id);
        return;
    }
    struct consul_batch *batch = consul_batch_create(call);
    consul_batch_deregister(batch, entry.instance.service, entry.instance.id);
    consul_batch_run(batch, consul_reply_ok);
}

static const struct consul_query deregistering = {.show = deregister_now};

static void look_for_id(struct consul_call *call, const struct consul_query *query) {
    struct bytes id = consul_call_path(call, "id");
    if (id.size == 0) {
        consul_call_fail(call, 400, "Missing service ID");
        return;
    }
    consul_call_add_range(call, registry_index_range(&call->arena, id));
    consul_call_look(call, query);
}

void consul_agent_service_deregister(struct consul_call *call, struct bytes body) {
    (void)body;
    look_for_id(call, &deregistering);
}

/* False: it is neither, which was answered. */
bool consul_read_enable(struct consul_call *call, bool *out_enable) {
    struct bytes text = consul_call_text(call, "enable");
    if (!consul_call_has(call, "enable") || text.size == 0) {
        consul_call_fail(call, 400, "Missing value for enable");
        return false;
    }
    *out_enable = bytes_equal(text, bytes_from_text("true")) || bytes_equal(text, bytes_of("1", 1));
    if (*out_enable || bytes_equal(text, bytes_from_text("false")) ||
        bytes_equal(text, bytes_of("0", 1))) {
        return true;
    }
    consul_call_fail(call, 400, "Invalid value for enable: \"%.*s\"",
                     (int)(text.size < 64 ? text.size : 64), (const char *)text.data);
    return false;
}

static void maintain_now(struct consul_call *call, const struct key_store *keys) {
    struct bytes id = consul_call_path(call, "id");
    struct registry_entry entry;
    bool enable = false;
    char check_id[REGISTRY_NAME_SIZE_MAX + 32];
    if (!consul_find_instance(call, keys, own_node(call), id, &entry)) {
        fail_unknown(call, id);
        return;
    }
    call->status = 0;
    if (!consul_read_enable(call, &enable)) {
        return;
    }
    struct consul_batch *batch = consul_batch_create(call);
    struct bytes reason = consul_call_text(call, "reason");
    snprintf(check_id, sizeof check_id, "_service_maintenance:%.*s", (int)id.size,
             (const char *)id.data);
    struct registry_put_check put = {
        .service = entry.instance.service,
        .id = id,
        .check = {.id = bytes_from_text(check_id),
                  .kind = REGISTRY_CHECK_MANUAL,
                  .origin = REGISTRY_ORIGIN_CONSUL,
                  .name = bytes_from_text("Service Maintenance Mode"),
                  .notes = reason.size > 0
                               ? reason
                               : bytes_from_text("Maintenance mode is enabled for this service, "
                                                 "but no reason was provided. This is a default "
                                                 "message."),
                  .rises = 1,
                  .falls = 1,
                  .health = REGISTRY_CRITICAL}};
    if (enable) {
        consul_batch_put_check(batch, &put);
    } else {
        consul_batch_delete_check(batch, put.service, id, put.check.id);
    }
    consul_batch_run(batch, consul_reply_ok);
}

static const struct consul_query maintaining = {.show = maintain_now};

void consul_agent_service_maintenance(struct consul_call *call, struct bytes body) {
    bool ignored;
    (void)body;
    if (consul_read_enable(call, &ignored)) {
        look_for_id(call, &maintaining);
    }
}

/* --- Showing. --- */

struct listing {
    struct consul_call *call;
    const struct key_store *keys;
};

static bool is_own(const struct consul_call *call, const struct registry_entry *entry) {
    return !entry->is_kept && bytes_equal(consul_instance_node(call, &entry->instance),
                                          bytes_from_text(call->door->node));
}

static bool is_hidden(const struct registry_entry *entry) {
    return bytes_equal(entry->instance.service, bytes_from_text(CONSUL_NODE_SERVICE));
}

static void show_one(void *context, const struct registry_entry *entry) {
    struct listing *listing = context;
    struct consul_call *call = listing->call;
    if (!is_own(call, entry) || is_hidden(entry)) {
        return;
    }
    struct consul_shown shown;
    consul_shown_init(&shown, call, listing->keys, entry);
    struct consul_mark mark = consul_filter_begin(call, &entry->instance.id);
    consul_show_agent_service(call, &shown);
    consul_filter_end(call, &mark);
    consul_shown_clear(&shown);
}

static bool show_services(struct consul_call *call, const struct key_store *keys) {
    struct listing listing = {.call = call, .keys = keys};
    if (!call->position.is_begun) {
        call->position.is_begun = true;
        consul_json_begin(&call->json, '{');
    }
    bool is_whole = consul_list_instances(call, keys, bytes_of("", 0), show_one, &listing);
    if (is_whole) {
        consul_json_end(&call->json, '}');
    }
    return is_whole;
}

static const struct consul_list services_list = {
    .index = consul_set_registry_index, .part = show_services, .work = CONSUL_WORK_AN_INSTANCE};
static const struct consul_query services = {.list = &services_list};

void consul_agent_services(struct consul_call *call, struct bytes body) {
    (void)body;
    if (consul_filter_read(call)) {
        consul_add_registry_range(call);
        consul_call_query(call, &services);
    }
}

static void show_service(struct consul_call *call, const struct key_store *keys) {
    struct bytes id = consul_call_path(call, "id");
    struct registry_entry entry;
    if (!consul_find_instance(call, keys, own_node(call), id, &entry)) {
        call->status = 0;
        consul_call_fail(call, 404, "unknown service ID: %.*s",
                         (int)(id.size < 256 ? id.size : 256), (const char *)id.data);
        return;
    }
    struct key_range range = registry_service_range(&call->arena, entry.instance.service);
    enum status status =
        service_read_local(call->door->service, http_caller(call->exchange), &range, 1);
    if (status != STATUS_OK) {
        call->status = 0;
        consul_call_fail_status(call, status);
        return;
    }
    struct consul_shown shown;
    consul_shown_init(&shown, call, keys, &entry);
    consul_show_agent_service(call, &shown);
    consul_shown_clear(&shown);
}

static const struct consul_query service = {.show = show_service};

void consul_agent_service(struct consul_call *call, struct bytes body) {
    (void)body;
    look_for_id(call, &service);
}

/* --- /v1/agent/health/service: one word for load balancers. --- */

struct health_listing {
    struct consul_call *call;
    const struct key_store *keys;
    enum registry_health worst;
    size_t n;
};

static void note_worst(struct health_listing *listing, const struct consul_shown *shown) {
    listing->worst = shown->health > listing->worst ? shown->health : listing->worst;
    listing->n++;
}

static void show_health(struct health_listing *listing, const struct registry_entry *entry) {
    struct consul_call *call = listing->call;
    struct consul_shown shown;
    consul_shown_init(&shown, call, listing->keys, entry);
    consul_json_begin(&call->json, '{');
    consul_json_set_chars(&call->json, "AggregatedStatus", consul_health_text(shown.health));
    consul_json_name(&call->json, "Service");
    consul_show_agent_service(call, &shown);
    consul_json_name(&call->json, "Checks");
    consul_show_checks(call, &shown);
    consul_json_end(&call->json, '}');
    note_worst(listing, &shown);
    consul_shown_clear(&shown);
}

static void set_health_status(const struct health_listing *listing) {
    static const unsigned codes[REGISTRY_HEALTHS] = {200, 429, 503};
    listing->call->status = listing->n > 0 ? codes[listing->worst] : 404;
}

static bool wants_text(const struct consul_call *call) {
    return bytes_equal(consul_call_text(call, "format"), bytes_from_text("text"));
}

static void show_health_text(const struct health_listing *listing) {
    struct consul_call *call = listing->call;
    const char *text = listing->n > 0 ? consul_health_text(listing->worst) : "critical";
    call->body.size = 0;
    buffer_append(&call->body, text, strlen(text));
    call->content_type = "text/plain; charset=utf-8";
}

static void show_health_of(void *context, const struct registry_entry *entry) {
    struct health_listing *listing = context;
    if (is_own(listing->call, entry)) {
        show_health(listing, entry);
    }
}

static bool note_health(void *context, const struct registry_entry *entry) {
    struct health_listing *listing = context;
    struct consul_shown shown;
    if (is_own(listing->call, entry)) {
        consul_shown_init(&shown, listing->call, listing->keys, entry);
        note_worst(listing, &shown);
        consul_shown_clear(&shown);
        arena_reset(&listing->call->scratch);
    }
    return true;
}

/* The status of the answer comes before the list: the worst of all is looked for first. */
static void begin_health_by_name(struct consul_call *call) {
    call->data = arena_calloc(&call->arena, 1, sizeof(struct health_listing));
}

static void index_health_by_name(struct consul_call *call, const struct key_store *keys) {
    struct health_listing *listing = call->data;
    struct bytes name = consul_call_path(call, "service");
    *listing = (struct health_listing){.call = call, .keys = keys};
    consul_set_service_index(call, keys, name);
    (void)consul_list_visit(keys, name, note_health, listing);
    set_health_status(listing);
}

static bool show_health_by_name(struct consul_call *call, const struct key_store *keys) {
    struct health_listing *listing = call->data;
    struct health_listing shown = {.call = call, .keys = keys};
    if (wants_text(call)) {
        show_health_text(listing);
        return true;
    }
    if (!call->position.is_begun) {
        call->position.is_begun = true;
        consul_json_begin(&call->json, '[');
    }
    bool is_whole = consul_list_instances(call, keys, consul_call_path(call, "service"),
                                          show_health_of, &shown);
    if (is_whole) {
        consul_json_end(&call->json, ']');
    }
    return is_whole;
}

static const struct consul_list health_by_name_list = {.begin = begin_health_by_name,
                                                       .index = index_health_by_name,
                                                       .part = show_health_by_name,
                                                       .work = 2 * CONSUL_WORK_AN_INSTANCE};
static const struct consul_query health_by_name = {.list = &health_by_name_list};

void consul_agent_health_name(struct consul_call *call, struct bytes body) {
    struct bytes name = consul_call_path(call, "service");
    (void)body;
    if (name.size == 0) {
        consul_call_fail(call, 400, "Missing service Name");
        return;
    }
    consul_add_service_range(call, name);
    consul_call_query(call, &health_by_name);
}

static void show_health_by_id(struct consul_call *call, const struct key_store *keys) {
    struct health_listing listing = {.call = call, .keys = keys};
    struct bytes id = consul_call_path(call, "id");
    struct registry_entry entry;
    if (!consul_find_instance(call, keys, own_node(call), id, &entry)) {
        call->status = 0;
        consul_call_fail(call, 404, "ServiceId %.*s not found",
                         (int)(id.size < 256 ? id.size : 256), (const char *)id.data);
        return;
    }
    struct key_range range = registry_service_range(&call->arena, entry.instance.service);
    enum status status =
        service_read_local(call->door->service, http_caller(call->exchange), &range, 1);
    if (status != STATUS_OK) {
        call->status = 0;
        consul_call_fail_status(call, status);
        return;
    }
    show_health(&listing, &entry);
    set_health_status(&listing);
    if (wants_text(call)) {
        show_health_text(&listing);
    }
}

static const struct consul_query health_by_id = {.show = show_health_by_id};

void consul_agent_health_id(struct consul_call *call, struct bytes body) {
    (void)body;
    look_for_id(call, &health_by_id);
}
