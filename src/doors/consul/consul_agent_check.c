/* /v1/agent/check: checks of services and of the node, and what clients report of them. */
#include "doors/consul/consul_batch.h"
#include "doors/consul/consul_define.h"
#include "doors/consul/consul_filter.h"
#include "doors/consul/consul_find.h"
#include "doors/consul/consul_list.h"
#include "doors/consul/consul_routes.h"
#include "doors/consul/consul_show.h"
#include "registry/registry_keys.h"

#include <stdlib.h>

static struct bytes own_node(const struct consul_call *call) {
    return bytes_from_text(call->door->node);
}

static void fail_unknown(struct consul_call *call, struct bytes id) {
    call->status = 0;
    consul_call_fail(call, 404,
                     "Unknown check ID \"%.*s\". Ensure that the check ID is passed, not the check "
                     "name.",
                     (int)(id.size < 256 ? id.size : 256), (const char *)id.data);
}

/* --- Register. --- */

struct check_registration {
    struct registry_check check;
    struct bytes service_id;
};

/* The node's own checks need the instance that carries them. */
void consul_batch_node(struct consul_call *call, struct consul_batch *batch,
                       const struct consul_place *place) {
    struct registry_register request = {.keeps_checks = true, .is_idempotent = true};
    if (consul_define_node(call, place, &request.instance)) { /* the own one is valid */
        consul_batch_register(batch, &request);
    }
}

static void register_now(struct consul_call *call, const struct key_store *keys) {
    struct check_registration *registration = call->data;
    struct registry_put_check put = {.check = registration->check};
    struct consul_batch *batch = consul_batch_create(call);
    struct registry_entry entry;
    consul_resolve_alias(call, keys, &put.check);
    if (registration->service_id.size == 0) {
        struct consul_place place = {.node = own_node(call), .address = consul_node_address(call)};
        consul_batch_node(call, batch, &place);
        put.service = bytes_from_text(CONSUL_NODE_SERVICE);
        put.id = place.node;
    } else if (consul_find_instance(call, keys, own_node(call), registration->service_id, &entry)) {
        put.service = entry.instance.service;
        put.id = entry.instance.id;
    } else {
        call->status = 0;
        consul_call_fail(
            call, 500, "ServiceID \"%.*s\" does not exist",
            (int)(registration->service_id.size < 256 ? registration->service_id.size : 256),
            (const char *)registration->service_id.data);
        return;
    }
    consul_batch_put_check(batch, &put);
    consul_batch_run(batch, consul_reply_ok);
}

static const struct consul_query registering = {.show = register_now};

void consul_agent_check_register(struct consul_call *call, struct bytes body) {
    struct check_registration *registration = arena_calloc(&call->arena, 1, sizeof *registration);
    struct bytes name = bytes_of("", 0);
    if (!consul_call_read_body(call, body)) {
        return;
    }
    if (!consul_json_get_text(call->given, "Name", &name) || name.size == 0) {
        consul_call_fail(call, 400, "Missing check name");
        return;
    }
    if (!consul_json_get_text(call->given, "ServiceID", &registration->service_id)) {
        consul_call_fail(call, 400, "Request decode failed: ServiceID is no text");
        return;
    }
    if (!consul_define_check(call, call->given, bytes_of("", 0), name, &registration->check)) {
        return;
    }
    call->data = registration;
    consul_call_add_range(call, registry_index_range(&call->arena, registration->service_id.size > 0
                                                                       ? registration->service_id
                                                                       : own_node(call)));
    consul_call_look(call, &registering);
}

/* --- Deregister. --- */

static void deregister_now(struct consul_call *call, const struct key_store *keys) {
    struct bytes id = consul_call_path(call, "check");
    struct consul_found_check found;
    if (!consul_find_check(call, keys, own_node(call), id, &found)) {
        fail_unknown(call, id);
        return;
    }
    struct consul_batch *batch = consul_batch_create(call);
    consul_batch_delete_check(batch, found.entry.instance.service, found.entry.instance.id, id);
    consul_batch_run(batch, consul_reply_ok);
}

static const struct consul_query deregistering = {.show = deregister_now};

/* Where checks are is no secret; what is changed needs the right to its service. */
static void look_for_check(struct consul_call *call, const struct consul_query *query) {
    struct bytes id = consul_call_path(call, "check");
    if (id.size == 0) {
        consul_call_fail(call, 400, "Missing check ID");
        return;
    }
    consul_call_add_range(call, registry_index_range(&call->arena, id));
    consul_call_look(call, query);
}

void consul_agent_check_deregister(struct consul_call *call, struct bytes body) {
    (void)body;
    look_for_check(call, &deregistering);
}

/* --- Reports. --- */

struct report {
    enum registry_health health;
    struct bytes output;
    struct registry_report request; /* when it is more than a renewal */
};

static void report_now(struct consul_call *call) {
    const struct report *report = call->data;
    struct consul_batch *batch = consul_batch_create(call);
    consul_batch_report(batch, &report->request);
    consul_batch_run(batch, consul_reply_ok);
}

/* The lease has ended meanwhile: then the report is one that changes something. */
static void on_renewed(struct consul_call *call, enum status status) {
    if (status == STATUS_OK) {
        consul_call_reply_empty(call, 200);
    } else if (status == STATUS_LEASE_NOT_FOUND) {
        report_now(call);
    } else {
        consul_call_fail_status(call, status);
    }
}

static struct bytes copy(struct consul_call *call, struct bytes bytes) {
    return bytes_of(arena_copy(&call->arena, bytes.data, bytes.size), bytes.size);
}

static void look_and_report(struct consul_call *call, const struct key_store *keys) {
    struct report *report = call->data;
    struct bytes id = consul_call_path(call, "check");
    struct consul_found_check found;
    call->status = 0;
    call->query = NULL;
    if (!consul_find_check(call, keys, own_node(call), id, &found)) {
        fail_unknown(call, id);
        return;
    }
    if (found.check->kind != REGISTRY_CHECK_TTL && found.check->kind != REGISTRY_CHECK_MANUAL) {
        consul_call_fail(call, 500, "CheckID \"%.*s\" does not have associated TTL",
                         (int)(id.size < 256 ? id.size : 256), (const char *)id.data);
        return;
    }
    report->request = (struct registry_report){.service = copy(call, found.entry.instance.service),
                                               .id = copy(call, found.entry.instance.id),
                                               .check = id,
                                               .health = (uint8_t)report->health,
                                               .output = report->output};
    /* Nothing new: no entry of the log is needed. The lease has no keys that a right could name, so
     * while authentication is on the rule decides. */
    if (http_caller(call->exchange)->user_id == 0 && found.check->ttl_lease_id != 0 &&
        found.check->health == report->health && bytes_equal(found.check->output, report->output)) {
        consul_call_renew(call, found.check->ttl_lease_id, KEY_SPACE_REGISTRY, on_renewed);
        return;
    }
    report_now(call);
}

static const struct consul_query reporting = {.show = look_and_report};

static void report_as(struct consul_call *call, enum registry_health health, struct bytes output) {
    struct report *report = arena_calloc(&call->arena, 1, sizeof *report);
    report->health = health;
    report->output = output;
    report->output.size =
        output.size < REGISTRY_TEXT_SIZE_MAX ? output.size : REGISTRY_TEXT_SIZE_MAX;
    call->data = report;
    look_for_check(call, &reporting);
}

void consul_agent_check_pass(struct consul_call *call, struct bytes body) {
    (void)body;
    report_as(call, REGISTRY_PASSING, consul_call_text(call, "note"));
}

void consul_agent_check_warn(struct consul_call *call, struct bytes body) {
    (void)body;
    report_as(call, REGISTRY_WARNING, consul_call_text(call, "note"));
}

void consul_agent_check_fail(struct consul_call *call, struct bytes body) {
    (void)body;
    report_as(call, REGISTRY_CRITICAL, consul_call_text(call, "note"));
}

void consul_agent_check_update(struct consul_call *call, struct bytes body) {
    struct bytes status = bytes_of("", 0);
    struct bytes output = bytes_of("", 0);
    enum registry_health health;
    if (!consul_call_read_body(call, body)) {
        return;
    }
    if (!consul_json_get_text(call->given, "Status", &status) ||
        !consul_json_get_text(call->given, "Output", &output)) {
        consul_call_fail(call, 400, "Request decode failed: Status and Output are texts");
        return;
    }
    if (!consul_health_read(status, &health)) {
        consul_call_fail(call, 400, "Invalid check status: '%.*s'",
                         (int)(status.size < 64 ? status.size : 64), (const char *)status.data);
        return;
    }
    report_as(call, health, output);
}

/* --- The node's maintenance. --- */

void consul_agent_maintenance(struct consul_call *call, struct bytes body) {
    bool enable = false;
    (void)body;
    if (!consul_read_enable(call, &enable)) {
        return;
    }
    struct consul_batch *batch = consul_batch_create(call);
    struct consul_place place = {.node = own_node(call), .address = consul_node_address(call)};
    struct bytes reason = consul_call_text(call, "reason");
    const struct registry_put_check put = {
        .service = bytes_from_text(CONSUL_NODE_SERVICE),
        .id = place.node,
        .check = {.id = bytes_from_text("_node_maintenance"),
                  .kind = REGISTRY_CHECK_MANUAL,
                  .origin = REGISTRY_ORIGIN_CONSUL,
                  .name = bytes_from_text("Node Maintenance Mode"),
                  .notes = reason.size > 0
                               ? reason
                               : bytes_from_text("Maintenance mode is enabled for this node, but "
                                                 "no reason was provided. This is a default "
                                                 "message."),
                  .rises = 1,
                  .falls = 1,
                  .health = REGISTRY_CRITICAL}};
    if (enable) {
        consul_batch_node(call, batch, &place);
        consul_batch_put_check(batch, &put);
    } else {
        consul_batch_delete_check(batch, put.service, put.id, put.check.id);
    }
    consul_batch_run(batch, consul_reply_ok);
}

/* --- Showing. --- */

static void show_checks_of(void *context, const struct registry_entry *entry) {
    struct consul_call *call = context;
    if (entry->is_kept ||
        !bytes_equal(consul_instance_node(call, &entry->instance), own_node(call))) {
        return;
    }
    for (size_t i = 0; i < entry->n_checks; i++) {
        struct consul_mark mark = consul_filter_begin(call, &entry->checks[i].id);
        consul_show_check(call, own_node(call), &entry->instance, &entry->checks[i]);
        consul_filter_end(call, &mark);
    }
}

static bool show_checks(struct consul_call *call, const struct key_store *keys) {
    if (!call->position.is_begun) {
        call->position.is_begun = true;
        consul_json_begin(&call->json, '{');
    }
    bool is_whole = consul_list_instances(call, keys, bytes_of("", 0), show_checks_of, call);
    if (is_whole) {
        consul_json_end(&call->json, '}');
    }
    return is_whole;
}

static const struct consul_list checks_list = {
    .index = consul_set_registry_index, .part = show_checks, .work = CONSUL_WORK_AN_INSTANCE};
static const struct consul_query checks = {.list = &checks_list};

void consul_agent_checks(struct consul_call *call, struct bytes body) {
    (void)body;
    if (consul_filter_read(call)) {
        consul_add_registry_range(call);
        consul_call_query(call, &checks);
    }
}
