/* /v1/kv: one key, or all that begin so. */
#include "doors/consul/consul_kv.h"
#include "doors/consul/consul_keys.h"
#include "doors/consul/consul_list.h"
#include "doors/consul/consul_routes.h"
#include "doors/consul/consul_rules.h"

#include <stdio.h>
#include <stdlib.h>

/* --- Reading. --- */

struct reading {
    struct bytes key; /* or prefix */
    struct bytes separator;
    bool is_tree;
    bool is_keys;
    bool is_raw;
    size_t n;
    struct bytes last; /* of the keys shown: those up to a separator are shown once */
    bool is_full;      /* the part */
    struct consul_call *call;
};

void consul_kv_write_entry(struct consul_json *json, const struct consul_entry *entry,
                           bool has_value) {
    consul_json_begin(json, '{');
    consul_json_set_number(json, "LockIndex", (int64_t)entry->lock.lock_index);
    consul_json_set_text(json, "Key", entry->key);
    consul_json_name(json, "Flags");
    consul_json_unsigned(json, entry->value.flags);
    consul_json_name(json, "Value");
    consul_json_base64(json, has_value ? entry->value.value : bytes_of("", 0));
    if (entry->lock.session.size > 0) {
        consul_json_set_text(json, "Session", entry->lock.session);
    }
    consul_json_set_number(json, "CreateIndex", entry->create_index);
    consul_json_set_number(json, "ModifyIndex", entry->modify_index);
    consul_json_end(json, '}');
}

/* Up to and with the first separator behind the prefix. */
static struct bytes shorten(const struct reading *reading, struct bytes key) {
    size_t from = reading->key.size;
    if (reading->separator.size == 0 || key.size <= from) {
        return key;
    }
    const uint8_t *found =
        memmem(key.data + from, key.size - from, reading->separator.data, reading->separator.size);
    return found == NULL ? key
                         : bytes_of(key.data, (size_t)(found - key.data) + reading->separator.size);
}

static void write_entry(struct reading *reading, const struct consul_entry *entry) {
    struct consul_call *call = reading->call;
    if (reading->is_keys) {
        struct bytes shown = shorten(reading, entry->key);
        if (reading->n == 0 || !bytes_equal(shown, reading->last)) {
            consul_json_text(&call->json, shown);
            reading->last = shown;
            reading->n++;
        }
    } else if (reading->is_raw) {
        buffer_append(&call->body, entry->value.value.data, entry->value.value.size);
    } else {
        consul_kv_write_entry(&call->json, entry, true);
    }
}

static bool show_entry(void *context, const struct consul_entry *entry) {
    struct reading *reading = context;
    struct consul_position *position = &reading->call->position;
    write_entry(reading, entry);
    position->id.size = 0;
    buffer_append(&position->id, entry->key.data, entry->key.size);
    position->n_looked_at++;
    reading->is_full = reading->is_tree && consul_list_is_full(reading->call);
    return !reading->is_full;
}

static void begin(struct consul_call *call) {
    struct reading *reading = call->data;
    reading->n = 0;
    reading->last = bytes_of("", 0);
}

/* What is left of the range. */
static struct key_range rest_of(struct consul_call *call) {
    struct key_range range = call->ranges[0];
    const struct buffer *last = &call->position.id;
    if (last->size > 0) {
        range.key = consul_key_range(&call->scratch, bytes_of(last->data, last->size)).range_end;
    }
    return range;
}

static bool note_index(void *context, const struct consul_entry *entry) {
    struct consul_call *call = context;
    if (entry->modify_index > call->own_index) {
        call->own_index = entry->modify_index;
    }
    call->is_found = true;
    return true;
}

/* One key that is there has an index of its own, all others may have been deleted. */
static void find_index(struct consul_call *call, const struct key_store *keys) {
    const struct reading *reading = call->data;
    call->own_index = 0;
    call->is_found = false;
    consul_keys_visit(keys, &call->ranges[0], note_index, call);
    call->is_found = call->is_found || (reading->is_keys && reading->key.size == 0);
    call->bound_index =
        call->is_found && !reading->is_tree ? 0 : consul_keys_revision(keys, consul_key_deleted());
}

static bool show(struct consul_call *call, const struct key_store *keys) {
    struct reading *reading = call->data;
    struct key_range range = rest_of(call);
    if (!call->is_found) {
        call->status = 404;
        return true;
    }
    if (!call->position.is_begun && !reading->is_raw) {
        consul_json_begin(&call->json, '[');
    }
    call->position.is_begun = true;
    reading->is_full = false;
    consul_keys_visit(keys, &range, show_entry, reading);
    if (!reading->is_full && !reading->is_raw) {
        consul_json_end(&call->json, ']');
    }
    call->content_type = reading->is_raw ? "text/plain" : "application/json";
    return !reading->is_full;
}

static const struct consul_list list = {
    .begin = begin, .index = find_index, .part = show, .work = CONSUL_WORK_A_KEY};

/* The lock of a key that is not there ends with its lock-delay: nothing that is seen. */
static bool concerns(struct consul_call *call, const struct record *record) {
    struct bytes key;
    bool is_value;
    (void)call;
    return consul_key_read(record, &key, &is_value) && (is_value || !record_is_tombstone(record));
}

static const struct consul_query query = {.list = &list, .concerns = concerns};

/* False: there is no such key, which was answered. */
static bool check_key(struct consul_call *call, struct bytes key, bool is_tree) {
    if (key.size == 0 && !is_tree) {
        consul_call_fail(call, 400, "Missing key name");
        return false;
    }
    if (key.size > CONSUL_KEY_SIZE_MAX || (key.size > 0 && memchr(key.data, 0, key.size) != NULL)) {
        consul_call_fail(call, 400, "Invalid key name: it is too long, or has a zero byte");
        return false;
    }
    return true;
}

void consul_kv_get(struct consul_call *call, struct bytes body) {
    struct reading *reading = arena_calloc(&call->arena, 1, sizeof *reading);
    (void)body;
    reading->call = call;
    reading->key = consul_call_keep(call, consul_call_path(call, "key"));
    reading->is_keys = consul_call_has(call, "keys");
    reading->is_tree = reading->is_keys || consul_call_has(call, "recurse");
    reading->is_raw = !reading->is_tree && consul_call_has(call, "raw");
    reading->separator = consul_call_keep(
        call,
        consul_call_text(call, consul_call_has(call, "separator") ? "separator" : "seperator"));
    call->data = reading;
    if (!check_key(call, reading->key, reading->is_tree)) {
        return;
    }
    consul_call_add_range(call, reading->is_tree ? consul_prefix_range(&call->arena, reading->key)
                                                 : consul_key_range(&call->arena, reading->key));
    consul_call_query(call, &query);
}

/* --- Changing. --- */

/* All of the query in the order of the names, as Go encodes it. */
static void fail_conflict(struct consul_call *call) {
    static const char *const names[] = {"acquire", "cas",     "dc",      "flags",
                                        "pretty",  "recurse", "release", "token"};
    char text[512] = "";
    size_t used = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && used < sizeof text; i++) {
        struct bytes value;
        if (http_query(call->exchange, names[i], &value)) {
            used += (size_t)snprintf(
                text + used, sizeof text - used, "%s%s=%.*s", used > 0 ? "&" : "", names[i],
                (int)(value.size < 64 ? value.size : 64), (const char *)value.data);
        }
    }
    consul_call_fail(call, 400, "Conflicting flags: %s", text);
}

static bool has_conflict(struct consul_call *call, const char *const *names, size_t n) {
    size_t n_found = 0;
    for (size_t i = 0; i < n; i++) {
        n_found += consul_call_has(call, names[i]) ? 1 : 0;
    }
    if (n_found > 1) {
        fail_conflict(call);
    }
    return n_found > 1;
}

static void reply_result(struct consul_call *call, const struct outcome *outcome) {
    struct consul_results results;
    if (outcome->status != STATUS_OK) {
        consul_call_fail_status(call, outcome->status);
        return;
    }
    if (!consul_results_decode(outcome->rule.answer, &call->arena, &results)) {
        abort(); /* our own bytes */
    }
    enum consul_failure failure = results.is_failed ? results.results[0].failure : 0;
    const struct consul_op *op = call->data;
    if (failure == CONSUL_FAILED_NO_SESSION) {
        consul_call_fail(call, 500, "invalid session \"%.*s\"", (int)op->session.size,
                         (const char *)op->session.data);
    } else if (failure == CONSUL_FAILED_TOO_MANY_LOCKS) {
        consul_call_fail(call, 500, "a session may hold %d keys, of at most %d bytes",
                         CONSUL_SESSION_LOCKS_MAX, CONSUL_LOCK_KEY_SIZE_MAX);
    } else {
        consul_call_reply_bool(call, !results.is_failed);
    }
}

static void submit(struct consul_call *call, const struct consul_op *op) {
    struct buffer request;
    call->data = arena_copy(&call->arena, op, sizeof *op);
    buffer_init(&request);
    consul_ops_encode(&request, op, 1);
    consul_call_submit(call, CONSUL_RULE_KV, &request, reply_result);
    buffer_clear(&request);
}

/* The session of ?acquire or ?release. False: answered. */
static bool read_session(struct consul_call *call, const char *name, struct bytes *out_session) {
    *out_session = consul_call_text(call, name);
    if (out_session->size == 0) {
        consul_call_fail(call, 500, "missing session");
        return false;
    }
    if (!consul_uuid_is_valid(*out_session)) {
        consul_call_fail(call, 500, "invalid session \"%.*s\"",
                         (int)(out_session->size < 64 ? out_session->size : 64),
                         (const char *)out_session->data);
        return false;
    }
    return true;
}

static bool read_put(struct consul_call *call, struct consul_op *op) {
    if (!consul_call_number(call, "flags", &op->flags) ||
        !consul_call_number(call, "cas", &op->index)) {
        return false;
    }
    if (consul_call_has(call, "cas")) {
        op->verb = CONSUL_CAS;
    }
    if (consul_call_has(call, "acquire")) {
        op->verb = CONSUL_LOCK;
        op->previous = consul_call_text(call, "previous");
        if (op->previous.size > 0 && !consul_uuid_is_valid(op->previous)) {
            consul_call_fail(call, 400, "Invalid session of ?previous");
            return false;
        }
        return read_session(call, "acquire", &op->session);
    }
    if (consul_call_has(call, "release")) {
        op->verb = CONSUL_UNLOCK;
        return read_session(call, "release", &op->session);
    }
    return true;
}

void consul_kv_put(struct consul_call *call, struct bytes body) {
    static const char *const exclusive[] = {"cas", "acquire", "release"};
    struct consul_op op = {.verb = CONSUL_SET, .key = consul_call_path(call, "key"), .value = body};
    if (!check_key(call, op.key, false) || has_conflict(call, exclusive, 3) ||
        !consul_call_check_dc(call) || !read_put(call, &op)) {
        return;
    }
    if (body.size > CONSUL_VALUE_SIZE_MAX) {
        consul_call_fail(call, 413,
                         "Request body(%zu bytes) too large, max size: %d bytes. See "
                         "https://www.consul.io/docs/agent/config/config-files#kv_max_value_size.",
                         body.size, CONSUL_VALUE_SIZE_MAX);
        return;
    }
    submit(call, &op);
}

void consul_kv_delete(struct consul_call *call, struct bytes body) {
    static const char *const exclusive[] = {"recurse", "cas"};
    struct consul_op op = {.verb = CONSUL_DELETE, .key = consul_call_path(call, "key")};
    bool is_tree = consul_call_has(call, "recurse");
    (void)body;
    if (has_conflict(call, exclusive, 2) || !check_key(call, op.key, is_tree) ||
        !consul_call_check_dc(call) || !consul_call_number(call, "cas", &op.index)) {
        return;
    }
    if (is_tree) {
        op.verb = CONSUL_DELETE_TREE;
    } else if (consul_call_has(call, "cas")) {
        op.verb = CONSUL_DELETE_CAS;
    }
    submit(call, &op);
}
