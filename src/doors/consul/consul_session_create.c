/* PUT /v1/session/create. */
#include "doors/consul/consul_call_internal.h"
#include "doors/consul/consul_check_rules.h"
#include "doors/consul/consul_find.h"
#include "doors/consul/consul_keys.h"
#include "doors/consul/consul_routes.h"
#include "doors/consul/consul_rules.h"

#include <inttypes.h>

enum { WHY_SIZE = 160 };

static bool fail_decode(struct consul_call *call, const char *what) {
    consul_call_fail(call, 400, "Request decode failed: %s", what);
    return false;
}

/* --- Checks. --- */

/* Texts, or objects with an ID. */
static bool read_service_checks(struct consul_call *call, const json_t *body,
                                struct consul_session *session) {
    const json_t *checks = consul_json_find(body, "ServiceChecks");
    size_t n = json_array_size(checks);
    struct bytes *ids = arena_calloc(&call->arena, n, sizeof *ids);
    for (size_t i = 0; i < n; i++) {
        const json_t *check = json_array_get(checks, i);
        if (json_is_string(check)) {
            ids[i] = bytes_of(json_string_value(check), json_string_length(check));
        } else if (!consul_json_get_text(check, "ID", &ids[i]) || ids[i].size == 0) {
            return fail_decode(call, "a service check needs an ID");
        }
    }
    session->service_checks = ids;
    session->n_service_checks = n;
    return checks == NULL || json_is_array(checks) || fail_decode(call, "ServiceChecks is no list");
}

/* "Checks" is the older name of "NodeChecks"; an empty list means none, not even the node's. */
static bool read_checks(struct consul_call *call, const json_t *body,
                        struct consul_session *session) {
    static const struct bytes node_check[] = {
        {(const uint8_t *)CONSUL_NODE_CHECK, sizeof CONSUL_NODE_CHECK - 1}};
    session->node_checks = node_check;
    session->n_node_checks = 1;
    if (!consul_json_get_texts(body, "Checks", &call->arena, &session->node_checks,
                               &session->n_node_checks) ||
        !consul_json_get_texts(body, "NodeChecks", &call->arena, &session->node_checks,
                               &session->n_node_checks)) {
        return fail_decode(call, "Checks and NodeChecks are lists of texts");
    }
    if (!read_service_checks(call, body, session)) {
        return false;
    }
    if (session->n_node_checks + session->n_service_checks > CONSUL_SESSION_CHECKS_MAX) {
        return fail_decode(call, "too many checks");
    }
    return true;
}

/* --- The rest. --- */

static bool read_behavior(struct consul_call *call, const json_t *body,
                          struct consul_session *session) {
    struct bytes behavior = bytes_of("", 0);
    if (!consul_json_get_text(body, "Behavior", &behavior)) {
        return fail_decode(call, "Behavior is no text");
    }
    session->deletes = bytes_equal(behavior, bytes_from_text("delete"));
    if (behavior.size == 0 || session->deletes ||
        bytes_equal(behavior, bytes_from_text("release"))) {
        return true;
    }
    consul_call_fail(call, 500, "Invalid Behavior setting '%.*s'",
                     (int)(behavior.size < 64 ? behavior.size : 64), (const char *)behavior.data);
    return false;
}

static bool read_ttl(struct consul_call *call, const json_t *body, struct consul_session *session) {
    struct bytes text = bytes_of("", 0);
    if (!consul_json_get_text(body, "TTL", &text)) {
        return fail_decode(call, "TTL is no text");
    }
    if (text.size == 0) {
        return true;
    }
    if (!consul_duration_read(text, &session->ttl_ms)) {
        consul_call_fail(call, 500, "Session TTL '%.*s' invalid: time: invalid duration \"%.*s\"",
                         (int)(text.size < 64 ? text.size : 64), (const char *)text.data,
                         (int)(text.size < 64 ? text.size : 64), (const char *)text.data);
        return false;
    }
    if (session->ttl_ms != 0 &&
        (session->ttl_ms < CONSUL_TTL_MS_MIN || session->ttl_ms > CONSUL_TTL_MS_MAX)) {
        consul_call_fail(call, 500,
                         "Invalid Session TTL '%" PRId64 "', must be between [1s=24h0m0s]",
                         session->ttl_ms * 1000000);
        return false;
    }
    session->lifetime_ms = (int64_t)call->door->session_ttl_multiplier * session->ttl_ms;
    return true;
}

/* Numbers without a unit: a small one is seconds, a great one nanoseconds, as in Consul. */
static bool read_lock_delay(struct consul_call *call, const json_t *body,
                            struct consul_session *session) {
    const json_t *value = consul_json_find(body, "LockDelay");
    int64_t delay_ms = CONSUL_LOCK_DELAY_MS_DEFAULT;
    if (json_is_integer(value)) {
        int64_t number = json_integer_value(value);
        delay_ms = number < 1000 ? number * 1000 : number / 1000000;
    } else if (!consul_json_get_duration(body, "LockDelay", &delay_ms)) {
        return fail_decode(call, "invalid LockDelay");
    }
    session->lock_delay_ms = delay_ms < 0                          ? 0
                             : delay_ms > CONSUL_LOCK_DELAY_MS_MAX ? CONSUL_LOCK_DELAY_MS_MAX
                                                                   : delay_ms;
    return true;
}

static bool read_session(struct consul_call *call, const json_t *body,
                         struct consul_session *session) {
    session->node = bytes_from_text(call->door->node);
    if (body != NULL && !json_is_object(body)) {
        return fail_decode(call, "expected an object");
    }
    if (!consul_json_get_text(body, "Name", &session->name) ||
        !consul_json_get_text(body, "Node", &session->node) ||
        session->name.size > CONSUL_TEXT_SIZE_MAX || session->node.size > CONSUL_TEXT_SIZE_MAX) {
        return fail_decode(call, "Name and Node are texts");
    }
    if (session->node.size == 0) {
        consul_call_fail(call, 500, "Must provide Node");
        return false;
    }
    return read_behavior(call, body, session) && read_ttl(call, body, session) &&
           read_lock_delay(call, body, session) && read_checks(call, body, session);
}

static void reply_created(struct consul_call *call, const struct outcome *outcome) {
    const struct bytes *id = call->data;
    switch (outcome->status) {
    case STATUS_OK:
        consul_json_begin(&call->json, '{');
        consul_json_set_text(&call->json, "ID", *id);
        consul_json_end(&call->json, '}');
        consul_call_reply(call, 200);
        return;
    case STATUS_KEY_NOT_FOUND:
        consul_call_fail(call, 500, "Missing check registration");
        return;
    case STATUS_FENCED:
        consul_call_fail(call, 500, "Check is in critical state");
        return;
    default:
        consul_call_fail_status(call, outcome->status);
    }
}

static void submit(struct consul_call *call, struct consul_session *session) {
    struct bytes *id = arena_calloc(&call->arena, 1, sizeof *id);
    struct buffer request;
    *id = consul_call_uuid(call);
    call->data = id;
    session->id = *id;
    buffer_init(&request);
    consul_session_create_encode(&request, session);
    consul_call_submit(call, CONSUL_RULE_SESSION_CREATE, &request, reply_created);
    buffer_clear(&request);
}

/* Where a check is; its name alone is what clients know. False: there is none, which was answered.
 */
static bool resolve(struct consul_call *call, const struct key_store *keys, struct bytes node,
                    struct bytes *check) {
    struct consul_found_check found;
    struct buffer encoded;
    if (!consul_find_check(call, keys, node, *check, &found)) {
        consul_call_fail(call, 500, "Missing check '%.*s' registration",
                         (int)(check->size < 256 ? check->size : 256), (const char *)check->data);
        return false;
    }
    if (found.check->health == REGISTRY_CRITICAL) {
        consul_call_fail(call, 500, "Check '%.*s' is in critical state",
                         (int)(check->size < 256 ? check->size : 256), (const char *)check->data);
        return false;
    }
    const struct consul_check_name name = {
        .service = found.entry.instance.service, .id = found.entry.instance.id, .check = *check};
    buffer_init(&encoded);
    consul_check_name_encode(&encoded, &name);
    *check = bytes_of(arena_copy(&call->arena, encoded.data, encoded.size), encoded.size);
    buffer_clear(&encoded);
    return true;
}

/* Checks of the node that are not its own pass, too, become checks of services: those have places.
 * False: not now, or never, which was answered. */
static bool resolve_all(struct consul_call *call, const struct key_store *keys,
                        struct consul_session *session) {
    size_t n = session->n_node_checks + session->n_service_checks;
    struct bytes *node_checks = arena_calloc(&call->arena, n, sizeof *node_checks);
    struct bytes *service_checks = arena_calloc(&call->arena, n, sizeof *service_checks);
    size_t n_node = 0;
    size_t n_service = 0;
    for (size_t i = 0; i < session->n_node_checks; i++) {
        bool is_own = bytes_equal(session->node_checks[i], bytes_from_text(CONSUL_NODE_CHECK));
        *(is_own ? &node_checks[n_node++] : &service_checks[n_service++]) = session->node_checks[i];
    }
    for (size_t i = 0; i < session->n_service_checks; i++) {
        service_checks[n_service++] = session->service_checks[i];
    }
    struct consul_found_check ignored;
    for (size_t i = 0; i < n_service; i++) { /* so that all of them are looked for together */
        (void)consul_find_check(call, keys, session->node, service_checks[i], &ignored);
    }
    if (consul_search_start(call)) { /* also when all are found: by a name that others have, too */
        return false;
    }
    for (size_t i = 0; i < n_service; i++) {
        if (!resolve(call, keys, session->node, &service_checks[i])) {
            return false;
        }
    }
    session->node_checks = node_checks;
    session->n_node_checks = n_node;
    session->service_checks = service_checks;
    session->n_service_checks = n_service;
    return true;
}

static void look_and_create(struct consul_call *call, const struct key_store *keys) {
    struct consul_session *session = call->data;
    call->status = 0;
    call->query = NULL;
    if (resolve_all(call, keys, session)) {
        submit(call, session);
    }
}

static const struct consul_query creation = {.show = look_and_create};

void consul_session_create(struct consul_call *call, struct bytes body) {
    struct consul_session *session = arena_calloc(&call->arena, 1, sizeof *session);
    char why[WHY_SIZE];
    session->lock_delay_ms = CONSUL_LOCK_DELAY_MS_DEFAULT;
    call->given = body.size > 0 ? consul_json_parse(body, why, sizeof why) : NULL;
    if (body.size > 0 && call->given == NULL) {
        (void)fail_decode(call, why);
        return;
    }
    if (!consul_call_check_dc(call) || !read_session(call, call->given, session)) {
        return;
    }
    call->data = session;
    consul_call_add_range(call, consul_sessions_range(&call->arena, bytes_of("", 0)));
    consul_call_look(call, &creation);
}
