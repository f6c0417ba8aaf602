/* A check, as clients define it. */
#include "doors/consul/consul_define.h"
#include "doors/consul/consul_show.h"

#include <stdio.h>
#include <stdlib.h>

static bool fail_check(struct consul_call *call, const char *why) {
    consul_call_fail(call, 400, "Invalid check: %s", why);
    return false;
}

/* --- What is asked. --- */

static bool define_headers(struct consul_call *call, const json_t *body,
                           struct registry_check *out) {
    json_t *headers = consul_json_find(body, "Header");
    const char *name;
    json_t *values;
    size_t n = 0;
    struct registry_pair *pairs = arena_calloc(&call->arena, REGISTRY_PAIRS_MAX, sizeof *pairs);
    json_object_foreach(headers, name, values) {
        for (size_t i = 0; i < json_array_size(values); i++) {
            const json_t *value = json_array_get(values, i);
            if (n == REGISTRY_PAIRS_MAX || !json_is_string(value)) {
                return fail_check(call, "Header is an object of lists of texts");
            }
            pairs[n++] = (struct registry_pair){
                .key = bytes_from_text(name),
                .value = bytes_of(json_string_value(value), json_string_length(value))};
        }
    }
    out->headers = pairs;
    out->n_headers = n;
    return true;
}

/* The arguments with NUL between them. */
static bool define_command(struct consul_call *call, const json_t *body,
                           struct registry_check *out) {
    const struct bytes *words = NULL;
    size_t n = 0;
    size_t size = 0;
    if (!consul_json_get_texts(body, "Args", &call->arena, &words, &n) ||
        (n == 0 && !consul_json_get_texts(body, "ScriptArgs", &call->arena, &words, &n))) {
        return fail_check(call, "Args is a list of texts");
    }
    if (n == 0) {
        return true;
    }
    for (size_t i = 0; i < n; i++) {
        size += words[i].size + 1;
    }
    uint8_t *memory = arena_alloc(&call->arena, size);
    uint8_t *at = memory;
    for (size_t i = 0; i < n; i++) {
        memcpy(at, words[i].data, words[i].size);
        at[words[i].size] = 0;
        at += words[i].size + 1;
    }
    out->kind = REGISTRY_CHECK_COMMAND;
    out->target = bytes_of(memory, size - 1);
    return true;
}

/* "host:port/service" */
static void define_grpc(struct bytes text, struct registry_check *out) {
    const uint8_t *slash = memchr(text.data, '/', text.size);
    out->kind = REGISTRY_CHECK_GRPC;
    out->target = text;
    if (slash != NULL) {
        out->target.size = (size_t)(slash - text.data);
        out->method = bytes_of(slash + 1, text.size - out->target.size - 1);
    }
}

static bool define_target(struct consul_call *call, const json_t *body,
                          struct registry_check *out) {
    static const char *const unknown[] = {"UDP", "H2PING", "DockerContainerID", "OSService",
                                          "Script"};
    struct bytes http = {0};
    struct bytes tcp = {0};
    struct bytes grpc = {0};
    struct bytes alias = {0};
    struct bytes alias_node = {0};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
        struct bytes value = {0};
        if (!consul_json_get_text(body, unknown[i], &value) || value.size > 0) {
            consul_call_fail(call, 400, "Invalid check: %s checks are not served", unknown[i]);
            return false;
        }
    }
    if (!consul_json_get_text(body, "HTTP", &http) || !consul_json_get_text(body, "TCP", &tcp) ||
        !consul_json_get_text(body, "GRPC", &grpc) ||
        !consul_json_get_text(body, "AliasService", &alias) ||
        !consul_json_get_text(body, "AliasNode", &alias_node)) {
        return fail_check(call, "a member has another type");
    }
    if (http.size > 0) {
        out->kind = REGISTRY_CHECK_HTTP;
        out->target = http;
        return consul_json_get_text(body, "Method", &out->method) &&
               consul_json_get_text(body, "Body", &out->body) && define_headers(call, body, out);
    }
    if (tcp.size > 0) {
        out->kind = REGISTRY_CHECK_TCP;
        out->target = tcp;
        return consul_json_get_bool(body, "TCPUseTLS", &out->is_tls) ||
               fail_check(call, "TCPUseTLS is true or false");
    }
    if (grpc.size > 0) {
        define_grpc(grpc, out);
        return consul_json_get_bool(body, "GRPCUseTLS", &out->is_tls) ||
               fail_check(call, "GRPCUseTLS is true or false");
    }
    if (alias.size > 0 || alias_node.size > 0) {
        out->kind = REGISTRY_CHECK_ALIAS;
        out->alias_service = alias; /* the handler looks for the instance of this id */
        out->alias_id = alias;
        return true;
    }
    return define_command(call, body, out);
}

/* --- When. --- */

static bool define_times(struct consul_call *call, const json_t *body, struct registry_check *out) {
    int64_t rises = 0;
    int64_t falls = 0;
    if (!consul_json_get_duration(body, "TTL", &out->ttl_ms) ||
        !consul_json_get_duration(body, "Interval", &out->interval_ms) ||
        !consul_json_get_duration(body, "Timeout", &out->timeout_ms) ||
        !consul_json_get_duration(body, "DeregisterCriticalServiceAfter",
                                  &out->deregister_after_ms)) {
        return fail_check(call, "time: invalid duration");
    }
    if (!consul_json_get_number(body, "SuccessBeforePassing", &rises) ||
        !consul_json_get_number(body, "FailuresBeforeCritical", &falls) || rises < 0 || falls < 0 ||
        rises > 1000 || falls > 1000) {
        return fail_check(call,
                          "SuccessBeforePassing and FailuresBeforeCritical are small numbers");
    }
    out->rises = (uint32_t)(rises > 0 ? rises : 1);
    out->falls = (uint32_t)(falls > 0 ? falls : 1);
    return true;
}

static bool check_times(struct consul_call *call, struct registry_check *out) {
    bool is_run = out->kind != 0 && out->kind != REGISTRY_CHECK_ALIAS;
    if (is_run && out->ttl_ms > 0) {
        return fail_check(call, "Cannot specify both TTL and another check type");
    }
    if (is_run && out->interval_ms <= 0) {
        return fail_check(call, "Interval must be > 0 for Script, HTTP, H2PING, TCP, UDP or "
                                "OSService checks");
    }
    if (out->kind == 0 && out->ttl_ms <= 0) {
        return fail_check(call, "TTL must be > 0 for TTL checks");
    }
    if (out->kind == 0) {
        out->kind = REGISTRY_CHECK_TTL;
        if (out->ttl_ms < REGISTRY_TTL_MS_MIN) {
            return fail_check(call, "a TTL is at least 1s");
        }
    }
    if (is_run && out->interval_ms < REGISTRY_INTERVAL_MS_MIN) {
        out->interval_ms = REGISTRY_INTERVAL_MS_MIN;
    }
    return true;
}

bool consul_define_check(struct consul_call *call, const json_t *body, struct bytes fallback_id,
                         struct bytes fallback_name, struct registry_check *out) {
    struct bytes status = {0};
    enum registry_health health = REGISTRY_CRITICAL;
    *out = (struct registry_check){.origin = REGISTRY_ORIGIN_CONSUL};
    if (!consul_json_get_text(body, "ID", &out->id) ||
        !consul_json_get_text(body, "CheckID", &out->id) ||
        !consul_json_get_text(body, "Name", &out->name) ||
        !consul_json_get_text(body, "Notes", &out->notes) ||
        !consul_json_get_text(body, "Status", &status) ||
        !consul_json_get_text(body, "TLSServerName", &out->server_name) ||
        !consul_json_get_bool(body, "TLSSkipVerify", &out->skips_verification)) {
        return fail_check(call, "a member has another type");
    }
    if (status.size > 0 && !consul_health_read(status, &health)) {
        consul_call_fail(call, 400, "Status for checks must 'passing', 'warning', 'critical'");
        return false;
    }
    out->name = out->name.size > 0 ? out->name : fallback_name;
    out->id = out->id.size > 0 ? out->id : fallback_id.size > 0 ? fallback_id : out->name;
    out->health = (uint8_t)health;
    if (!define_target(call, body, out) || !define_times(call, body, out) ||
        !check_times(call, out)) {
        return false;
    }
    return registry_check_is_valid(out) ||
           fail_check(call, "a name, a target or a time is out of bounds");
}

/* --- Those of a service. --- */

static struct bytes text_of(struct consul_call *call, const char *format, struct bytes name,
                            size_t number) {
    char text[REGISTRY_NAME_SIZE_MAX + 64];
    int size = snprintf(text, sizeof text, format, (int)name.size, (const char *)name.data, number);
    return bytes_of(arena_copy(&call->arena, text, (size_t)size), (size_t)size);
}

bool consul_define_service_checks(struct consul_call *call, const json_t *body,
                                  const struct registry_instance *instance,
                                  struct registry_check **out_checks, size_t *out_n) {
    const json_t *one = consul_json_find(body, "Check");
    const json_t *many = consul_json_find(body, "Checks");
    size_t n_many = json_array_size(many);
    bool has_one = json_object_size(one) > 0;
    size_t n = n_many + (has_one ? 1 : 0);
    struct registry_check *checks = arena_calloc(&call->arena, n, sizeof *checks);
    if (n > REGISTRY_CHECKS_MAX) {
        return fail_check(call, "too many checks");
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *definition = has_one && i == 0 ? one : json_array_get(many, i - has_one);
        struct bytes id = n == 1 ? text_of(call, "service:%.*s", instance->id, 0)
                                 : text_of(call, "service:%.*s:%zu", instance->id, i + 1);
        struct bytes name = text_of(call, "Service '%.*s' check", instance->service, 0);
        if (!consul_define_check(call, definition, id, name, &checks[i])) {
            return false;
        }
        for (size_t j = 0; j < i; j++) {
            if (bytes_equal(checks[j].id, checks[i].id)) {
                return fail_check(call, "two checks have the same ID");
            }
        }
    }
    *out_checks = checks;
    *out_n = n;
    return true;
}

/* --- Those of the catalog. --- */

static bool says_something(const json_t *value) {
    const char *text = json_string_value(value);
    return !json_is_null(value) && !json_is_false(value) &&
           !(text != NULL && (text[0] == 0 || strcmp(text, "0s") == 0)) &&
           !(json_is_integer(value) && json_integer_value(value) == 0) &&
           !(json_is_object(value) && json_object_size(value) == 0) &&
           !(json_is_array(value) && json_array_size(value) == 0);
}

/* What is said of who runs it, and the kind that follows of it. */
static bool define_description(struct consul_call *call, const json_t *body,
                               struct registry_check *out) {
    static const char *const kinds[][2] = {
        {"HTTP", "http"},     {"GRPC", "grpc"}, {"TCP", "tcp"},           {"UDP", "udp"},
        {"H2PING", "h2ping"}, {"TTL", "ttl"},   {"AliasService", "alias"}};
    json_t *given = consul_json_find(body, "Definition");
    json_t *kept = json_object();
    const char *name;
    json_t *value;
    json_object_foreach(given, name, value) {
        if (says_something(value)) {
            json_object_set(kept, name, value);
        }
    }
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && out->method.size == 0; i++) {
        if (consul_json_find(kept, kinds[i][0]) != NULL) {
            out->method = bytes_from_text(kinds[i][1]);
        }
    }
    char *text = json_object_size(kept) > 0 ? json_dumps(kept, JSON_COMPACT) : NULL;
    if (text != NULL) {
        out->body = bytes_of(arena_copy(&call->arena, text, strlen(text)), strlen(text));
    }
    free(text);
    json_decref(kept);
    return given == NULL || json_is_object(given) || fail_check(call, "Definition is no object");
}

bool consul_define_catalog_check(struct consul_call *call, const json_t *body,
                                 struct registry_check *out) {
    struct bytes status = bytes_of("", 0);
    enum registry_health health = REGISTRY_CRITICAL;
    *out = (struct registry_check){
        .kind = REGISTRY_CHECK_MANUAL, .origin = REGISTRY_ORIGIN_CONSUL, .rises = 1, .falls = 1};
    if (!consul_json_get_text(body, "CheckID", &out->id) ||
        !consul_json_get_text(body, "Name", &out->name) ||
        !consul_json_get_text(body, "Notes", &out->notes) ||
        !consul_json_get_text(body, "Output", &out->output) ||
        !consul_json_get_text(body, "Type", &out->method) ||
        !consul_json_get_text(body, "Status", &status)) {
        return fail_check(call, "a member has another type");
    }
    if (status.size > 0 && !consul_health_read(status, &health)) {
        consul_call_fail(call, 400, "Status for checks must 'passing', 'warning', 'critical'");
        return false;
    }
    out->health = (uint8_t)health;
    out->id = out->id.size > 0 ? out->id : out->name;
    return define_description(call, body, out) &&
           (registry_check_is_valid(out) || fail_check(call, "it is not valid"));
}
