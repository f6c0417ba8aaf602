/* PUT /v1/txn: operations on keys, all or none of them. */
#include "doors/consul/consul_txn.h"

#include "doors/consul/consul_kv.h"
#include "doors/consul/consul_routes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const verbs[CONSUL_VERBS] = {
    [CONSUL_SET] = "set",
    [CONSUL_CAS] = "cas",
    [CONSUL_LOCK] = "lock",
    [CONSUL_UNLOCK] = "unlock",
    [CONSUL_DELETE] = "delete",
    [CONSUL_DELETE_CAS] = "delete-cas",
    [CONSUL_DELETE_TREE] = "delete-tree",
    [CONSUL_GET] = "get",
    [CONSUL_GET_OR_EMPTY] = "get-or-empty",
    [CONSUL_GET_TREE] = "get-tree",
    [CONSUL_CHECK_SESSION] = "check-session",
    [CONSUL_CHECK_INDEX] = "check-index",
    [CONSUL_CHECK_NOT_EXISTS] = "check-not-exists",
};

struct txn {
    struct consul_op *ops;
    size_t n;
    json_t *body; /* what the operations point into, until they are submitted */
};

/* --- The answer. --- */

void consul_txn_write_failure(struct consul_json *json, size_t position, const struct consul_op *op,
                              const struct consul_result *result) {
    char text[2 * CONSUL_TEXT_SIZE_MAX];
    int size = (int)(op->key.size < 1024 ? op->key.size : 1024);
    const char *key = (const char *)op->key.data;
    const char *session = (const char *)op->session.data;
    int session_size = (int)op->session.size;
    switch (result->failure) {
    case CONSUL_FAILED_STALE:
        snprintf(text, sizeof text, "failed to %s key \"%.*s\", index is stale",
                 op->verb == CONSUL_CAS ? "set" : "delete", size, key);
        break;
    case CONSUL_FAILED_HELD:
        snprintf(text, sizeof text, "failed to lock key \"%.*s\", lock is already held", size, key);
        break;
    case CONSUL_FAILED_DELAYED:
        snprintf(text, sizeof text, "failed to lock key \"%.*s\", lock-delay is in effect", size,
                 key);
        break;
    case CONSUL_FAILED_NOT_HELD:
        snprintf(text, sizeof text,
                 "failed to unlock key \"%.*s\", lock isn't held, or is held by another session",
                 size, key);
        break;
    case CONSUL_FAILED_NO_SESSION:
        snprintf(text, sizeof text, "invalid session \"%.*s\"", session_size, session);
        break;
    case CONSUL_FAILED_TOO_MANY_LOCKS:
        snprintf(text, sizeof text, "a session may hold %d keys, of at most %d bytes",
                 CONSUL_SESSION_LOCKS_MAX, CONSUL_LOCK_KEY_SIZE_MAX);
        break;
    case CONSUL_FAILED_SESSION_EMPTY:
        snprintf(text, sizeof text, "missing session");
        break;
    case CONSUL_FAILED_EXISTS:
        snprintf(text, sizeof text, "key \"%.*s\" exists", size, key);
        break;
    case CONSUL_FAILED_SESSION:
        snprintf(text, sizeof text,
                 "failed session check for key \"%.*s\", current session \"%.*s\" != \"%.*s\"",
                 size, key, (int)result->entry.lock.session.size,
                 (const char *)result->entry.lock.session.data, session_size, session);
        break;
    case CONSUL_FAILED_INDEX:
        snprintf(text, sizeof text,
                 "failed index check for key \"%.*s\", current modify index %" PRId64
                 " != %" PRIu64,
                 size, key, result->entry.modify_index, op->index);
        break;
    default:
        snprintf(text, sizeof text, "%skey \"%.*s\" doesn't exist",
                 op->verb == CONSUL_CHECK_SESSION ? "failed to check session, "
                 : op->verb == CONSUL_CHECK_INDEX ? "failed to check index, "
                                                  : "",
                 size, key);
    }
    consul_json_begin(json, '{');
    consul_json_set_number(json, "OpIndex", (int64_t)position);
    consul_json_set_chars(json, "What", text);
    consul_json_end(json, '}');
}

void consul_txn_write_entry(struct consul_json *json, const struct consul_result *result) {
    consul_json_begin(json, '{');
    consul_json_name(json, "KV");
    if (result->is_null) {
        consul_json_null(json);
    } else {
        consul_kv_write_entry(json, &result->entry, result->has_value);
    }
    consul_json_end(json, '}');
}

static void write_results(struct consul_json *json, const struct consul_results *results) {
    consul_json_name(json, "Results");
    consul_json_begin(json, '[');
    for (size_t i = 0; i < results->n; i++) {
        consul_txn_write_entry(json, &results->results[i]);
    }
    consul_json_end(json, ']');
    consul_json_name(json, "Errors");
    consul_json_null(json);
}

static void reply_txn(struct consul_call *call, const struct outcome *outcome) {
    const struct txn *txn = call->data;
    struct consul_results results;
    if (outcome->status != STATUS_OK) {
        consul_call_fail_status(call, outcome->status);
        return;
    }
    if (!consul_results_decode(outcome->rule.answer, &call->arena, &results)) {
        abort(); /* our own bytes */
    }
    consul_json_begin(&call->json, '{');
    if (results.is_failed) {
        consul_json_name(&call->json, "Results");
        consul_json_null(&call->json);
        consul_json_name(&call->json, "Errors");
        consul_json_begin(&call->json, '[');
        for (size_t i = 0; i < results.n; i++) {
            size_t position = results.results[i].op;
            consul_txn_write_failure(&call->json, position, &txn->ops[position],
                                     &results.results[i]);
        }
        consul_json_end(&call->json, ']');
    } else {
        write_results(&call->json, &results);
    }
    consul_json_end(&call->json, '}');
    consul_call_reply(call, results.is_failed ? 409 : 200);
}

/* --- The request. --- */

static bool fail_body(struct consul_call *call, const char *why) {
    consul_call_fail(call, 400, "Failed to parse body: %s", why);
    return false;
}

/* What is wrong with one operation alone is answered as an operation that failed. */
bool consul_txn_fail_op(struct consul_call *call, size_t i, const char *what) {
    consul_json_begin(&call->json, '{');
    consul_json_name(&call->json, "Results");
    consul_json_null(&call->json);
    consul_json_name(&call->json, "Errors");
    consul_json_begin(&call->json, '[');
    consul_json_begin(&call->json, '{');
    consul_json_set_number(&call->json, "OpIndex", (int64_t)i);
    consul_json_set_chars(&call->json, "What", what);
    consul_json_end(&call->json, '}');
    consul_json_end(&call->json, ']');
    consul_json_end(&call->json, '}');
    consul_call_reply(call, 409);
    return false;
}

static bool read_verb(const json_t *kv, uint8_t *out_verb, struct bytes *out_text) {
    if (!consul_json_get_text(kv, "Verb", out_text)) {
        return false;
    }
    for (uint8_t i = 0; i < CONSUL_VERBS; i++) {
        if (bytes_equal(*out_text, bytes_from_text(verbs[i]))) {
            *out_verb = i;
            return true;
        }
    }
    return false;
}

static bool check_op(struct consul_call *call, size_t i, const struct consul_op *op) {
    char text[160];
    bool is_tree = op->verb == CONSUL_DELETE_TREE || op->verb == CONSUL_GET_TREE;
    if (op->key.size == 0 && !is_tree) {
        return consul_txn_fail_op(call, i, "Must provide key");
    }
    if (op->key.size > 0 && !consul_key_is_valid(op->key)) {
        return consul_txn_fail_op(call, i, "invalid key: it is too long, or has a zero byte");
    }
    if (op->value.size > CONSUL_VALUE_SIZE_MAX) {
        consul_call_fail(call, 413, "Value for key \"%.*s\" is too large (%zu > %d bytes)",
                         (int)(op->key.size < 256 ? op->key.size : 256), (const char *)op->key.data,
                         op->value.size, CONSUL_VALUE_SIZE_MAX);
        return false;
    }
    bool names_session = op->verb == CONSUL_LOCK || op->verb == CONSUL_UNLOCK;
    if ((names_session && op->session.size > 0 && !consul_uuid_is_valid(op->session)) ||
        op->session.size > CONSUL_TEXT_SIZE_MAX) {
        snprintf(text, sizeof text, "invalid session \"%.*s\"",
                 (int)(op->session.size < 64 ? op->session.size : 64),
                 (const char *)op->session.data);
        return consul_txn_fail_op(call, i, text);
    }
    return true;
}

bool consul_txn_read_kv(struct consul_call *call, size_t i, const json_t *kv,
                        struct consul_op *op) {
    struct bytes verb = bytes_of("", 0);
    struct bytes value = bytes_of("", 0);
    int64_t flags = 0;
    int64_t index = 0;
    char text[160];
    if (!read_verb(kv, &op->verb, &verb)) {
        snprintf(text, sizeof text, "unknown KV verb \"%.*s\"",
                 (int)(verb.size < 64 ? verb.size : 64), (const char *)verb.data);
        return consul_txn_fail_op(call, i, text);
    }
    if (!consul_json_get_text(kv, "Key", &op->key) ||
        !consul_json_get_text(kv, "Session", &op->session) ||
        !consul_json_get_text(kv, "Value", &value) ||
        !consul_json_get_number(kv, "Flags", &flags) ||
        !consul_json_get_number(kv, "Index", &index) || index < 0) {
        return fail_body(call, "a member of a KV operation has another type");
    }
    if (!consul_base64_decode(value, &call->arena, &op->value)) {
        return fail_body(call, "failed to decode value: illegal base64 data");
    }
    op->flags = (uint64_t)flags;
    op->index = (uint64_t)index;
    return check_op(call, i, op);
}

static bool read_op(struct consul_call *call, size_t i, const json_t *value, struct consul_op *op) {
    const json_t *kv = consul_json_find(value, "KV");
    if (!json_is_object(kv)) {
        return fail_body(call, "an operation needs a KV, Node, Service or Check member");
    }
    return consul_txn_read_kv(call, i, kv, op);
}

static bool read_txn(struct consul_call *call, struct txn *txn) {
    if (!json_is_array(txn->body)) {
        return fail_body(call, "expected a list of operations");
    }
    txn->n = json_array_size(txn->body);
    if (txn->n > CONSUL_TXN_OPS_MAX) {
        consul_call_fail(call, 413, "Transaction contains too many operations (%zu > %d)", txn->n,
                         CONSUL_TXN_OPS_MAX);
        return false;
    }
    txn->ops = arena_calloc(&call->arena, txn->n, sizeof *txn->ops);
    for (size_t i = 0; i < txn->n; i++) {
        if (!read_op(call, i, json_array_get(txn->body, i), &txn->ops[i])) {
            return false;
        }
    }
    return true;
}

/* The texts that the answer names outlive the JSON. */
static void keep_texts(struct consul_call *call, struct txn *txn) {
    for (size_t i = 0; i < txn->n; i++) {
        struct consul_op *op = &txn->ops[i];
        op->key.data = arena_copy(&call->arena, op->key.data, op->key.size);
        op->session.data = arena_copy(&call->arena, op->session.data, op->session.size);
    }
}

static void submit(struct consul_call *call, struct txn *txn) {
    struct buffer request;
    if (txn->n == 0) {
        consul_json_raw(&call->json, bytes_from_text("{\"Results\":[],\"Errors\":null}"));
        consul_call_reply(call, 200);
        return;
    }
    keep_texts(call, txn);
    call->data = txn;
    buffer_init(&request);
    consul_ops_encode(&request, txn->ops, txn->n);
    consul_call_submit(call, CONSUL_RULE_KV, &request, reply_txn);
    buffer_clear(&request);
}

void consul_txn(struct consul_call *call, struct bytes body) {
    char why[160];
    struct txn *txn = arena_calloc(&call->arena, 1, sizeof *txn);
    if (body.size > CONSUL_VALUE_SIZE_MAX) {
        consul_call_fail(call, 413,
                         "Request body(%zu bytes) too large, max size: %d bytes. See "
                         "https://www.consul.io/docs/agent/config/config-files#txn_max_req_len.",
                         body.size, CONSUL_VALUE_SIZE_MAX);
        return;
    }
    txn->body = consul_json_parse(body, why, sizeof why);
    if (txn->body == NULL) {
        (void)fail_body(call, why);
        return;
    }
    if (!consul_call_check_dc(call)) {
        json_decref(txn->body);
    } else if (consul_txn_has_catalog(txn->body)) {
        call->given = txn->body;
        consul_txn_with_catalog(call);
    } else {
        if (read_txn(call, txn)) {
            submit(call, txn);
        }
        json_decref(txn->body);
    }
}
