/* POST apps/{app}: an instance registers, or registers again. */
#include "doors/eureka/eureka_instance.h"
#include "doors/eureka/eureka_internal.h"
#include "doors/eureka/eureka_text.h"
#include "net/grpc_gzip.h"
#include "registry/registry_rules.h"

#include <stdio.h>
#include <string.h>

/* --- The body. --- */

static bool is_same_name(struct bytes a, struct bytes b, struct arena *arena) {
    uint8_t *lower_a = arena_alloc(arena, a.size);
    uint8_t *lower_b = arena_alloc(arena, b.size);
    eureka_text_lower(lower_a, a);
    eureka_text_lower(lower_b, b);
    return bytes_equal(bytes_of(lower_a, a.size), bytes_of(lower_b, b.size));
}

/* In the words of Eureka. */
static const char *find_missing(struct eureka_request *request,
                                const struct eureka_instance *instance) {
    if (instance->id.size == 0) {
        return "Missing instanceId";
    }
    if (instance->fields[EUREKA_FIELD_HOST_NAME].size == 0) {
        return "Missing hostname";
    }
    if (instance->app.size == 0) {
        return "Missing appName";
    }
    if (!is_same_name(instance->app, request->service_name, &request->arena)) {
        return "Mismatched appName: the body names another app than the path";
    }
    return NULL;
}

/* XML where the client says so, or where the first byte does. */
static bool is_xml(const struct http_exchange *exchange, struct bytes body) {
    struct bytes type;
    if (http_header(exchange, "content-type", &type) && type.size > 0) {
        if (memmem(type.data, type.size, "json", 4) != NULL) {
            return false;
        }
        if (memmem(type.data, type.size, "xml", 3) != NULL) {
            return true;
        }
    }
    return body.size > 0 && body.data[0] == '<';
}

static bool read_body(struct eureka_request *request, struct bytes body,
                      struct eureka_instance *out_instance, const char **out_error) {
    struct eureka_tree tree;
    bool is_read = is_xml(request->exchange, body)
                       ? eureka_tree_read_xml(&tree, &request->arena, body, out_error)
                       : eureka_tree_read_json(&tree, &request->arena, body, out_error);
    if (!is_read || !eureka_instance_read(tree.root, &request->arena, out_instance, out_error)) {
        return false;
    }
    *out_error = find_missing(request, out_instance);
    return *out_error == NULL;
}

/* --- The registration. --- */

static void registered(struct eureka_request *request, enum status status) {
    if (status != STATUS_OK) {
        eureka_request_fail_status(request, status);
        return;
    }
    request->door->counters[EUREKA_COUNT_REGISTER]++;
    eureka_request_finish(request, 204);
}

static void submit(struct eureka_request *request, const struct registry_instance *instance) {
    struct buffer body;
    struct registry_register command = {
        .instance = *instance, .keeps_checks = true, .is_idempotent = true};
    buffer_init(&body);
    registry_register_encode(&body, &command);
    eureka_request_submit(request, REGISTRY_RULE_REGISTER, &body, registered);
    buffer_clear(&body);
}

/* A client that knows less of itself than what is registered only renews. */
static bool is_outdated(struct eureka_request *request, const struct registry_instance *instance,
                        int64_t dirty_ms, int64_t *out_lease_id) {
    struct registry_entry existing;
    request->id = instance->id;
    if (dirty_ms == 0 || !eureka_request_find(request, &existing) || existing.is_kept ||
        eureka_instance_dirty_ms(&existing.instance) <= dirty_ms) {
        return false;
    }
    *out_lease_id = existing.instance.lease_id;
    return true;
}

static void register_instance(struct eureka_request *request, struct bytes body) {
    struct eureka_instance instance;
    struct registry_instance record;
    const char *error = NULL;
    if (!read_body(request, body, &instance, &error) ||
        !eureka_instance_register(&instance, &request->arena, &record, &error)) {
        eureka_request_fail(request, 400, error);
        return;
    }
    eureka_door_note(request->door);
    int64_t lease_id;
    if (is_outdated(request, &record, instance.dirty_ms, &lease_id)) {
        eureka_request_renew(request, lease_id, registered);
    } else {
        submit(request, &record);
    }
}

static void register_gzip(struct eureka_request *request, struct bytes body) {
    struct buffer plain;
    buffer_init(&plain);
    if (grpc_gzip_inflate(body, EUREKA_BODY_SIZE_MAX, &plain) == GRPC_GZIP_OK) {
        register_instance(request, bytes_of(plain.data, plain.size));
    } else {
        eureka_request_fail(request, 400, "the body is not gzip, or too large");
    }
    buffer_clear(&plain);
}

void eureka_on_register(struct http_exchange *exchange, struct bytes body, bool is_last) {
    struct bytes encoding;
    (void)is_last;
    if (eureka_http_is_replication(exchange)) {
        return;
    }
    struct eureka_request *request = eureka_request_create(exchange);
    if (request == NULL) {
        return;
    }
    if (http_header(exchange, "content-encoding", &encoding) &&
        bytes_equal(encoding, bytes_from_text("gzip"))) {
        register_gzip(request, body);
    } else {
        register_instance(request, body);
    }
}
