/* /v1/kv: one key, or all that begin so. */
#include "doors/consul/consul_kv.h"
#include "doors/consul/consul_keys.h"
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

static bool show_entry(void *context, const struct consul_entry *entry) {
    struct reading *reading = context;
    struct consul_call *call = reading->call;
    if (entry->modify_index > call->own_index) {
        call->own_index = entry->modify_index;
    }
    if (reading->is_keys) {
        struct bytes shown = shorten(reading, entry->key);
        if (reading->n == 0 || !bytes_equal(shown, reading->last)) {
            consul_json_text(&call->json, shown);
            reading->last = shown;
            reading->n++;
        }
        return true;
    }
    if (reading->is_raw) {
        buffer_append(&call->body, entry->value.value.data, entry->value.value.size);
    } else {
        consul_kv_write_entry(&call->json, entry, true);
    }
    reading->n++;
    return true;
}

/* About how much is shown: what is looked at, and what is written. */
static bool is_bearable(struct consul_call *call, const struct key_store *keys) {
    const struct key_range *range = &call->ranges[0];
    size_t n = key_store_count(keys, range->space, range->key, range->range_end);
    return n < 64 ||
           (service_allow_work(call->door->service, 4 * n) && http_has_room(call->exchange));
}

static void show(struct consul_call *call, const struct key_store *keys) {
    struct reading *reading = call->data;
    reading->n = 0;
    call->own_index = 0;
    call->status = 200;
    call->content_type = "application/json";
    if (!is_bearable(call, keys)) {
        call->status = 0;
        consul_call_fail_status(call, STATUS_TOO_MANY_REQUESTS);
        return;
    }
    if (!reading->is_raw) {
        consul_json_begin(&call->json, '[');
    }
    consul_keys_visit(keys, &call->ranges[0], show_entry, reading);
    if (!reading->is_raw) {
        consul_json_end(&call->json, ']');
    }
    bool is_found = reading->n > 0 || (reading->is_keys && reading->key.size == 0);
    /* One key that is there has an index of its own, all others may have been deleted. */
    call->bound_index =
        is_found && !reading->is_tree ? 0 : consul_keys_revision(keys, consul_key_deleted());
    if (!is_found) {
        call->status = 404;
        call->body.size = 0;
    } else if (reading->is_raw) {
        call->content_type = "text/plain";
    }
}

/* The lock of a key that is not there ends with its lock-delay: nothing that is seen. */
static bool concerns(struct consul_call *call, const struct record *record) {
    struct bytes key;
    bool is_value;
    (void)call;
    return consul_key_read(record, &key, &is_value) && (is_value || !record_is_tombstone(record));
}

static const struct consul_query query = {.show = show, .concerns = concerns};

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
    reading->key = consul_call_path(call, "key");
    reading->is_keys = consul_call_has(call, "keys");
    reading->is_tree = reading->is_keys || consul_call_has(call, "recurse");
    reading->is_raw = !reading->is_tree && consul_call_has(call, "raw");
    reading->separator =
        consul_call_text(call, consul_call_has(call, "separator") ? "separator" : "seperator");
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
