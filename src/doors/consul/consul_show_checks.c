/* Checks in Consul's words. */
#include "doors/consul/consul_check_rules.h"
#include "doors/consul/consul_show.h"
#include "registry/registry_mirror_model.h"

#include <stdio.h>

const char *consul_check_type(const struct registry_check *check) {
    static const char *const types[REGISTRY_CHECK_KINDS] = {
        [REGISTRY_CHECK_TTL] = "ttl",        [REGISTRY_CHECK_HTTP] = "http",
        [REGISTRY_CHECK_TCP] = "tcp",        [REGISTRY_CHECK_GRPC] = "grpc",
        [REGISTRY_CHECK_COMMAND] = "script", [REGISTRY_CHECK_ALIAS] = "alias",
        [REGISTRY_CHECK_MANUAL] = "",
    };
    const char *type = check->kind < REGISTRY_CHECK_KINDS ? types[check->kind] : NULL;
    return type != NULL ? type : "";
}

static void set_duration(struct consul_json *json, const char *name, int64_t ms) {
    char text[48];
    consul_json_set_chars(json, name, consul_duration_text(ms, text));
}

/* Registered by the catalog with words of who runs it, see consul_define_catalog_check(). */
static bool is_described(const struct registry_check *check) {
    return check->kind == REGISTRY_CHECK_MANUAL && check->origin == REGISTRY_ORIGIN_CONSUL &&
           check->body.size > 0;
}

static void show_definition(struct consul_json *json, const struct registry_check *check) {
    consul_json_name(json, "Definition");
    if (is_described(check)) {
        consul_json_raw(json, check->body);
        return;
    }
    consul_json_begin(json, '{');
    if (check->kind == REGISTRY_CHECK_HTTP) {
        consul_json_set_text(json, "HTTP", check->target);
        if (check->method.size > 0) {
            consul_json_set_text(json, "Method", check->method);
        }
    } else if (check->kind == REGISTRY_CHECK_TCP) {
        consul_json_set_text(json, "TCP", check->target);
    } else if (check->kind == REGISTRY_CHECK_GRPC) {
        consul_json_set_text(json, "GRPC", check->target);
    } else if (check->kind == REGISTRY_CHECK_ALIAS) {
        consul_json_set_text(json, "AliasService", check->alias_id);
    } else if (check->kind == REGISTRY_CHECK_TTL) {
        set_duration(json, "TTL", check->ttl_ms);
    }
    if (check->interval_ms > 0) {
        set_duration(json, "Interval", check->interval_ms);
    }
    if (check->timeout_ms > 0) {
        set_duration(json, "Timeout", check->timeout_ms);
    }
    if (check->deregister_after_ms > 0) {
        set_duration(json, "DeregisterCriticalServiceAfter", check->deregister_after_ms);
    }
    consul_json_end(json, '}');
}

static void begin_check(struct consul_json *json, struct bytes node, struct bytes id,
                        struct bytes name, const char *status) {
    consul_json_begin(json, '{');
    consul_json_set_text(json, "Node", node);
    consul_json_set_text(json, "CheckID", id);
    consul_json_set_text(json, "Name", name);
    consul_json_set_chars(json, "Status", status);
}

/* NULL: of the node itself. */
static void show_owner(struct consul_call *call, const struct registry_instance *instance,
                       bool may_be_null) {
    struct consul_json *json = &call->json;
    bool is_node =
        instance == NULL || bytes_equal(instance->service, bytes_from_text(CONSUL_NODE_SERVICE));
    consul_json_set_text(json, "ServiceID",
                         is_node ? bytes_of("", 0) : consul_service_id(call, instance));
    consul_json_set_text(json, "ServiceName", is_node ? bytes_of("", 0) : instance->service);
    consul_json_name(json, "ServiceTags");
    if (may_be_null && (is_node || instance->n_tags == 0)) {
        consul_json_null(json);
        return;
    }
    consul_json_begin(json, '[');
    for (size_t i = 0; !is_node && i < instance->n_tags; i++) {
        consul_json_text(json, instance->tags[i]);
    }
    consul_json_end(json, ']');
}

static void show_check(struct consul_call *call, struct bytes node,
                       const struct registry_instance *instance, const struct registry_check *check,
                       bool may_be_null) {
    struct consul_json *json = &call->json;
    begin_check(json, node, check->id, check->name, consul_health_text(check->health));
    consul_json_set_text(json, "Notes", check->notes);
    consul_json_set_text(json, "Output", check->output);
    show_owner(call, instance, may_be_null);
    if (is_described(check)) {
        consul_json_set_text(json, "Type", check->method);
    } else {
        consul_json_set_chars(json, "Type", consul_check_type(check));
    }
    if (check->interval_ms > 0) {
        set_duration(json, "Interval", check->interval_ms);
    } else {
        consul_json_set_chars(json, "Interval", "");
    }
    if (check->timeout_ms > 0) {
        set_duration(json, "Timeout", check->timeout_ms);
    } else {
        consul_json_set_chars(json, "Timeout", "");
    }
    consul_json_set_number(json, "ExposedPort", 0);
    show_definition(json, check);
    consul_json_set_number(json, "CreateIndex", instance->token);
    consul_json_set_number(json, "ModifyIndex", check->revision);
    consul_json_end(json, '}');
}

void consul_show_check(struct consul_call *call, struct bytes node,
                       const struct registry_instance *instance,
                       const struct registry_check *check) {
    show_check(call, node, instance, check, false);
}

void consul_show_check_record(struct consul_call *call, struct bytes node,
                              const struct registry_instance *instance,
                              const struct registry_check *check) {
    show_check(call, node, instance, check, true);
}

static void end_plain(struct consul_call *call, const struct registry_instance *instance,
                      const char *notes, const char *output) {
    struct consul_json *json = &call->json;
    consul_json_set_chars(json, "Notes", notes);
    consul_json_set_chars(json, "Output", output);
    show_owner(call, instance, false);
    consul_json_set_chars(json, "Type", "");
    consul_json_set_chars(json, "Interval", "");
    consul_json_set_chars(json, "Timeout", "");
    consul_json_set_number(json, "ExposedPort", 0);
    consul_json_name(json, "Definition");
    consul_json_raw(json, bytes_from_text("{}"));
    consul_json_set_number(json, "CreateIndex", 1);
    consul_json_set_number(json, "ModifyIndex", 1);
    consul_json_end(json, '}');
}

void consul_show_serf(struct consul_call *call, struct bytes node) {
    begin_check(&call->json, node, bytes_from_text(CONSUL_NODE_CHECK),
                bytes_from_text("Serf Health Status"), "passing");
    end_plain(call, NULL, "", "Agent alive and reachable");
}

size_t consul_show_state_checks(struct consul_call *call, const struct consul_shown *shown) {
    const struct registry_instance *instance = &shown->entry->instance;
    enum registry_state state = registry_instance_state(instance);
    size_t n = 0;
    if (state != REGISTRY_UP) {
        char output[64];
        snprintf(output, sizeof output, "state: %s", registry_state_text(state));
        begin_check(&call->json, shown->node.name, bytes_from_text("leased:state"),
                    bytes_from_text("State of the instance"), "critical");
        end_plain(call, instance, "", output);
        n++;
    }
    if (shown->entry->is_kept) {
        begin_check(&call->json, shown->node.name, bytes_from_text("leased:kept"),
                    bytes_from_text("Kept by the mass-failure guard"), "warning");
        end_plain(call, instance, "its lease has ended", "");
        n++;
    }
    return n;
}

void consul_show_checks(struct consul_call *call, const struct consul_shown *shown) {
    consul_json_begin(&call->json, '[');
    consul_show_serf(call, shown->node.name);
    for (size_t i = 0; shown->node.entry != NULL && i < shown->node.entry->n_checks; i++) {
        consul_show_check(call, shown->node.name, &shown->node.entry->instance,
                          &shown->node.entry->checks[i]);
    }
    for (size_t i = 0; i < shown->entry->n_checks; i++) {
        consul_show_check(call, shown->node.name, &shown->entry->instance,
                          &shown->entry->checks[i]);
    }
    (void)consul_show_state_checks(call, shown);
    consul_json_end(&call->json, ']');
}
