/* /v1/session: a session is a lease, and its TTL is kept, neither doubled nor begun anew. */
#include "doors/consul/consul_check_rules.h"
#include "doors/consul/consul_keys.h"
#include "doors/consul/consul_list.h"
#include "doors/consul/consul_node.h"
#include "doors/consul/consul_routes.h"
#include "doors/consul/consul_rules.h"

#include <stdlib.h>

/* --- Showing. --- */

/* Checks of nodes other than the node's own pass have a place, as those of services do. */
static bool is_node_check(struct bytes encoded, struct consul_check_name *out_name) {
    *out_name = (struct consul_check_name){0};
    (void)consul_check_name_decode(encoded, out_name);
    return bytes_equal(out_name->service, bytes_from_text(CONSUL_NODE_SERVICE));
}

static void write_node_checks(struct consul_json *json, const struct consul_session *session) {
    consul_json_name(json, "NodeChecks");
    consul_json_begin(json, '[');
    for (size_t i = 0; i < session->n_node_checks; i++) {
        consul_json_text(json, session->node_checks[i]);
    }
    for (size_t i = 0; i < session->n_service_checks; i++) {
        struct consul_check_name name;
        if (is_node_check(session->service_checks[i], &name)) {
            consul_json_text(json, name.check);
        }
    }
    consul_json_end(json, ']');
}

static void write_service_checks(struct consul_json *json, const struct consul_session *session) {
    struct consul_check_name name;
    size_t n = 0;
    consul_json_name(json, "ServiceChecks");
    for (size_t i = 0; i < session->n_service_checks; i++) {
        n += is_node_check(session->service_checks[i], &name) ? 0 : 1;
    }
    if (n == 0) {
        consul_json_null(json);
        return;
    }
    consul_json_begin(json, '[');
    for (size_t i = 0; i < session->n_service_checks; i++) {
        if (is_node_check(session->service_checks[i], &name)) {
            continue;
        }
        consul_json_begin(json, '{');
        consul_json_set_text(json, "ID", name.check);
        consul_json_set_chars(json, "Namespace", "");
        consul_json_end(json, '}');
    }
    consul_json_end(json, ']');
}

static void write_session(struct consul_json *json, const struct consul_session *session) {
    char ttl[48] = "";
    consul_json_begin(json, '{');
    consul_json_set_text(json, "ID", session->id);
    consul_json_set_text(json, "Name", session->name);
    consul_json_set_text(json, "Node", session->node);
    consul_json_set_number(json, "LockDelay", session->lock_delay_ms * 1000000);
    consul_json_set_chars(json, "Behavior", session->deletes ? "delete" : "release");
    consul_json_set_chars(json, "TTL",
                          session->ttl_ms > 0 ? consul_duration_text(session->ttl_ms, ttl) : "");
    write_node_checks(json, session);
    write_service_checks(json, session);
    consul_json_set_number(json, "CreateIndex", session->create_index);
    consul_json_set_number(json, "ModifyIndex", session->create_index);
    consul_json_end(json, '}');
}

struct listing {
    struct consul_call *call;
    struct bytes node; /* empty: of all */
    bool is_full;      /* the part */
};

static bool is_of_node(const struct listing *listing, const struct consul_session *session) {
    return listing->node.size == 0 || bytes_equal(listing->node, session->node);
}

static bool note_index(void *context, const struct record *record) {
    const struct listing *listing = context;
    struct consul_call *call = listing->call;
    struct consul_session session;
    if (record->create_revision > call->own_index &&
        consul_keys_read_session(record, &call->scratch, &session) &&
        is_of_node(listing, &session)) {
        call->own_index = record->create_revision;
    }
    arena_reset(&call->scratch);
    return true;
}

static void find_index(struct consul_call *call, const struct key_store *keys) {
    const struct key_range *range = &call->ranges[0];
    call->own_index = 0;
    call->bound_index = consul_keys_revision(keys, consul_key_sessions_ended());
    (void)key_store_visit(keys, range->space, range->key, range->range_end, note_index, call->data);
}

static bool show_session(void *context, const struct record *record) {
    struct listing *listing = context;
    struct consul_call *call = listing->call;
    struct consul_session session;
    struct bytes key = record_key(record);
    if (bytes_equal(key, bytes_of(call->position.id.data, call->position.id.size))) {
        return true; /* with it the last part ended */
    }
    if (consul_keys_read_session(record, &call->scratch, &session) &&
        is_of_node(listing, &session)) {
        write_session(&call->json, &session);
    }
    call->position.id.size = 0;
    buffer_append(&call->position.id, key.data, key.size);
    call->position.n_looked_at++;
    listing->is_full = consul_list_is_full(call);
    return !listing->is_full;
}

static bool show(struct consul_call *call, const struct key_store *keys) {
    const struct key_range *range = &call->ranges[0];
    const struct buffer *last = &call->position.id;
    struct listing *listing = call->data;
    struct bytes from =
        last->size > 0 ? bytes_of(arena_copy(&call->scratch, last->data, last->size), last->size)
                       : range->key;
    listing->is_full = false;
    if (!call->position.is_begun) {
        call->position.is_begun = true;
        consul_json_begin(&call->json, '[');
    }
    (void)key_store_visit(keys, range->space, from, range->range_end, show_session, listing);
    if (!listing->is_full) {
        consul_json_end(&call->json, ']');
    }
    return !listing->is_full;
}

static const struct consul_list list = {
    .index = find_index, .part = show, .work = CONSUL_WORK_A_KEY};
static const struct consul_query query = {.list = &list};

static void list_sessions(struct consul_call *call, struct bytes id, struct bytes node) {
    struct listing *listing = arena_calloc(&call->arena, 1, sizeof *listing);
    *listing = (struct listing){.call = call, .node = consul_call_keep(call, node)};
    call->data = listing;
    consul_call_add_range(call, consul_sessions_range(&call->arena, id));
    consul_call_query(call, &query);
}

/* False: it is no id, which was answered. */
static bool check_id(struct consul_call *call, struct bytes id, const char *what) {
    if (id.size == 0) {
        consul_call_fail(call, 400, "Missing session");
        return false;
    }
    if (!consul_uuid_is_valid(id)) {
        consul_call_fail(call, 500, "%s: %s", what,
                         id.size != CONSUL_UUID_SIZE ? "index error: UUID must be 36 characters"
                                                     : "index error: Invalid UUID");
        return false;
    }
    return true;
}

void consul_session_info(struct consul_call *call, struct bytes body) {
    struct bytes id = consul_call_path(call, "id");
    (void)body;
    if (check_id(call, id, "failed session lookup")) {
        list_sessions(call, id, bytes_of("", 0));
    }
}

void consul_session_list(struct consul_call *call, struct bytes body) {
    (void)body;
    list_sessions(call, bytes_of("", 0), bytes_of("", 0));
}

void consul_session_node(struct consul_call *call, struct bytes body) {
    struct bytes node = consul_call_path(call, "node");
    (void)body;
    if (node.size == 0) {
        consul_call_fail(call, 400, "Missing node name");
        return;
    }
    list_sessions(call, bytes_of("", 0), node);
}

/* --- Renewing. --- */

static void reply_renewed(struct consul_call *call, enum status status) {
    struct consul_session *session = call->data;
    if (status == STATUS_LEASE_NOT_FOUND) {
        consul_call_fail(call, 404, "Session id '%.*s' not found", (int)session->id.size,
                         (const char *)session->id.data);
        return;
    }
    if (status != STATUS_OK) {
        consul_call_fail_status(call, status);
        return;
    }
    consul_json_begin(&call->json, '[');
    write_session(&call->json, session);
    consul_json_end(&call->json, ']');
    consul_call_reply(call, 200);
}

/* What the session says must outlive this iteration of the loop. */
static void copy_session(struct consul_call *call, const struct consul_session *session,
                         struct consul_session *out) {
    struct buffer copy;
    buffer_init(&copy);
    consul_session_encode(&copy, session);
    void *memory = arena_copy(&call->arena, copy.data, copy.size);
    struct bytes id = consul_call_path(call, "id");
    int64_t lease_id = session->lease_id;
    int64_t create_index = session->create_index;
    if (!consul_session_decode(bytes_of(memory, copy.size), &call->arena, out)) {
        abort();
    }
    buffer_clear(&copy);
    out->id = id;
    out->lease_id = lease_id;
    out->create_index = create_index;
}

static void look_and_renew(struct consul_call *call, const struct key_store *keys) {
    struct consul_session found;
    struct consul_session *session = arena_calloc(&call->arena, 1, sizeof *session);
    session->id = consul_call_path(call, "id");
    call->data = session;
    call->status = 0;
    call->query = NULL;
    if (!consul_keys_session(keys, &call->arena, session->id, &found)) {
        reply_renewed(call, STATUS_LEASE_NOT_FOUND);
        return;
    }
    const struct caller *caller = http_caller(call->exchange);
    if (found.user_id != 0 && found.user_id != caller->user_id &&
        service_check_admin(call->door->service, caller, "renew a session") != STATUS_OK) {
        consul_call_fail_status(call, STATUS_PERMISSION_DENIED);
        return;
    }
    copy_session(call, &found, session);
    consul_call_renew(call, session->lease_id, KEY_SPACE_CONSUL, reply_renewed);
}

static const struct consul_query renewal = {.show = look_and_renew};

void consul_session_renew(struct consul_call *call, struct bytes body) {
    struct bytes id = consul_call_path(call, "id");
    (void)body;
    if (check_id(call, id, "failed session lookup") && consul_call_check_dc(call)) {
        consul_call_add_range(call, consul_sessions_range(&call->arena, id));
        consul_call_look(call, &renewal);
    }
}

/* --- Destroying. --- */

static void reply_destroyed(struct consul_call *call, const struct outcome *outcome) {
    if (outcome->status != STATUS_OK && outcome->status != STATUS_LEASE_NOT_FOUND) {
        consul_call_fail_status(call, outcome->status);
        return;
    }
    consul_call_reply_bool(call, true);
}

void consul_session_destroy(struct consul_call *call, struct bytes body) {
    struct consul_session_destroy destroy = {.id = consul_call_path(call, "id")};
    struct buffer request;
    (void)body;
    if (!check_id(call, destroy.id, "Session lookup failed") || !consul_call_check_dc(call)) {
        return;
    }
    buffer_init(&request);
    consul_session_destroy_encode(&request, &destroy);
    consul_call_submit(call, CONSUL_RULE_SESSION_DESTROY, &request, reply_destroyed);
    buffer_clear(&request);
}
