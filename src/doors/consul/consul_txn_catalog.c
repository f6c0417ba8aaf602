/*
 * PUT /v1/txn with operations on nodes, services and checks among those on keys. Where things are
 * is looked up first; whether they still are is decided when the transaction is applied.
 */
#include "doors/consul/consul_batch.h"
#include "doors/consul/consul_call_internal.h"
#include "doors/consul/consul_define.h"
#include "doors/consul/consul_find.h"
#include "doors/consul/consul_routes.h"
#include "doors/consul/consul_search.h"
#include "doors/consul/consul_show.h"
#include "doors/consul/consul_txn.h"
#include "registry/registry_keys.h"

#include <stdio.h>
#include <stdlib.h>

enum subject { ON_KEY, ON_NODE, ON_SERVICE, ON_CHECK };
enum verb { VERB_GET, VERB_SET, VERB_CAS, VERB_DELETE, VERB_DELETE_CAS, VERBS };
static const char *const verbs[VERBS] = {"get", "set", "cas", "delete", "delete-cas"};
static const char *const subjects[] = {"KV", "Node", "Service", "Check"};

struct txn_operation {
    enum subject subject;
    enum verb verb;
    const json_t *object; /* the node, the service, the check */
    uint64_t index;
    struct bytes node;
    struct bytes id;   /* of the service, the check */
    size_t key;        /* of ON_KEY: its place among the operations on keys */
    size_t first_step; /* the one whose failure is the operation's */
    size_t end_step;
    bool is_of_own_node; /* which has no record: nothing to do but to show it */
};

struct txn {
    struct txn_operation *operations;
    size_t n;
    struct consul_op *ops;
    size_t n_ops;
    struct consul_batch *batch;
};

/* --- Reading. --- */

bool consul_txn_has_catalog(const json_t *body) {
    for (size_t i = 0; i < json_array_size(body); i++) {
        const json_t *operation = json_array_get(body, i);
        for (unsigned subject = ON_NODE; subject <= ON_CHECK; subject++) {
            if (json_is_object(consul_json_find(operation, subjects[subject]))) {
                return true;
            }
        }
    }
    return false;
}

static bool fail_text(struct consul_call *call, size_t i, const char *format, struct bytes text) {
    char what[160];
    snprintf(what, sizeof what, format, (int)(text.size < 64 ? text.size : 64),
             (const char *)text.data);
    return consul_txn_fail_op(call, i, what);
}

static bool read_verb(struct consul_call *call, size_t i, const json_t *given,
                      struct txn_operation *out) {
    struct bytes text = bytes_of("", 0);
    (void)consul_json_get_text(given, "Verb", &text);
    for (unsigned verb = 0; verb < VERBS; verb++) {
        if (bytes_equal(text, bytes_from_text(verbs[verb]))) {
            out->verb = (enum verb)verb;
            return true;
        }
    }
    return fail_text(call, i, "unknown verb \"%.*s\"", text);
}

static bool read_catalog_operation(struct consul_call *call, size_t i, const json_t *given,
                                   struct txn_operation *out) {
    int64_t index = 0;
    out->object = consul_json_find(given, subjects[out->subject]);
    if (!read_verb(call, i, given, out)) {
        return false;
    }
    const json_t *names_node = out->subject == ON_SERVICE ? given : out->object;
    const char *id = out->subject == ON_CHECK ? "CheckID" : "ID";
    if (!json_is_object(out->object) || !consul_json_get_text(names_node, "Node", &out->node) ||
        !consul_json_get_text(out->object, id, &out->id) ||
        !consul_json_get_number(out->object, "ModifyIndex", &index) || index < 0) {
        return consul_txn_fail_op(call, i, "a member has another type");
    }
    out->index = (uint64_t)index;
    if (out->subject == ON_SERVICE && out->id.size == 0 &&
        !consul_json_get_text(out->object, "Service", &out->id)) {
        return consul_txn_fail_op(call, i, "Service is no text");
    }
    if (out->subject == ON_CHECK && out->id.size == 0 &&
        !consul_json_get_text(out->object, "Name", &out->id)) {
        return consul_txn_fail_op(call, i, "Name is no text");
    }
    if (!registry_name_is_valid(out->node) ||
        (out->subject != ON_NODE && !registry_name_is_valid(out->id))) {
        return consul_txn_fail_op(call, i, "Must provide node, and the id of what is on it");
    }
    return true;
}

static bool read_operation(struct consul_call *call, struct txn *txn, size_t i,
                           const json_t *given) {
    struct txn_operation *out = &txn->operations[i];
    for (unsigned subject = ON_KEY; subject <= ON_CHECK; subject++) {
        const json_t *inner = consul_json_find(given, subjects[subject]);
        if (!json_is_object(inner)) {
            continue;
        }
        out->subject = (enum subject)subject;
        if (subject != ON_KEY) {
            return read_catalog_operation(call, i, inner, out);
        }
        out->key = txn->n_ops++;
        return consul_txn_read_kv(call, i, inner, &txn->ops[out->key]);
    }
    return consul_txn_fail_op(call, i, "only KV, Node, Service and Check operations are served");
}

/* --- Where things are. --- */

/* The service of an instance that an earlier operation of the same transaction registers. */
static bool find_registered(const struct txn *txn, struct bytes id, struct bytes *out_service) {
    size_t n;
    const struct consul_step *steps = consul_batch_steps(txn->batch, &n);
    for (size_t i = n; i-- > 0;) {
        if (steps[i].rule == REGISTRY_RULE_REGISTER && bytes_equal(steps[i].id, id) &&
            !bytes_equal(steps[i].service, bytes_from_text(CONSUL_NODE_SERVICE))) {
            *out_service = steps[i].service;
            return true;
        }
    }
    return false;
}

/* What is nowhere has a place where it is not. */
static void place_service(struct consul_call *call, const struct key_store *keys,
                          const struct txn *txn, struct bytes node, struct bytes id,
                          struct registry_delete_check *out) {
    struct registry_entry entry;
    out->id = consul_registry_id(call, node, id);
    out->service = bytes_from_text(CONSUL_NODE_SERVICE "-nothing");
    if (find_registered(txn, out->id, &out->service)) {
        return;
    }
    if (consul_find_instance(call, keys, node, id, &entry)) {
        out->service = entry.instance.service;
        out->id = entry.instance.id;
    }
}

/* A check that an earlier operation puts, or one that is there. */
static void place_check(struct consul_call *call, const struct key_store *keys,
                        const struct txn *txn, size_t i, struct registry_delete_check *out) {
    const struct txn_operation *operation = &txn->operations[i];
    struct consul_found_check found;
    size_t n;
    const struct consul_step *steps = consul_batch_steps(txn->batch, &n);
    *out = (struct registry_delete_check){.service = bytes_from_text(CONSUL_NODE_SERVICE),
                                          .id = operation->node,
                                          .check = operation->id};
    for (size_t j = i; j-- > 0;) {
        const struct txn_operation *earlier = &txn->operations[j];
        if (earlier->subject == ON_CHECK && bytes_equal(earlier->node, operation->node) &&
            bytes_equal(earlier->id, operation->id) && earlier->first_step < n) {
            out->service = steps[earlier->first_step].service;
            out->id = steps[earlier->first_step].id;
            return;
        }
    }
    if (consul_find_check(call, keys, operation->node, operation->id, &found)) {
        out->service = found.entry.instance.service;
        out->id = found.entry.instance.id;
    }
}

static bool has_node(struct consul_call *call, const struct key_store *keys, const struct txn *txn,
                     struct bytes name, struct bytes *out_address) {
    struct consul_node node;
    size_t n;
    const struct consul_step *steps = consul_batch_steps(txn->batch, &n);
    consul_node_init(&node, call, keys, name);
    bool is_there = node.is_own || node.entry != NULL;
    *out_address = node.address;
    consul_node_clear(&node);
    for (size_t i = 0; i < n && !is_there; i++) {
        is_there = steps[i].rule == REGISTRY_RULE_REGISTER && bytes_equal(steps[i].id, name) &&
                   bytes_equal(steps[i].service, bytes_from_text(CONSUL_NODE_SERVICE));
    }
    return is_there;
}

/* --- Steps. --- */

static void complete(struct txn *txn, const struct txn_operation *operation) {
    struct consul_step *step = consul_batch_last(txn->batch);
    step->shows = operation->verb <= VERB_CAS;
    step->has_index = operation->verb == VERB_CAS || operation->verb == VERB_DELETE_CAS;
    step->index = operation->index;
}

/* More than one search gives is more than a transaction may change. */
static void remove_of_node(struct consul_call *call, const struct key_store *keys, struct txn *txn,
                           struct bytes node) {
    const struct consul_search *search =
        consul_search(call, keys, CONSUL_SEARCH_NODE, node, bytes_of("", 0));
    for (size_t i = 0; search != NULL && i < search->n_matches; i++) {
        if (!bytes_equal(search->matches[i].service, bytes_from_text(CONSUL_NODE_SERVICE))) {
            consul_batch_deregister(txn->batch, search->matches[i].service, search->matches[i].id);
        }
    }
}

static bool add_node(struct consul_call *call, const struct key_store *keys, struct txn *txn,
                     struct txn_operation *operation) {
    struct bytes service = bytes_from_text(CONSUL_NODE_SERVICE);
    if (operation->verb == VERB_GET && consul_node_is_own(call, operation->node)) {
        operation->is_of_own_node = true;
        return true;
    }
    if (operation->verb == VERB_GET) {
        consul_batch_show(txn->batch, service, operation->node, bytes_of("", 0));
        return true;
    }
    if (operation->verb >= VERB_DELETE) {
        consul_batch_deregister(txn->batch, service, operation->node);
        complete(txn, operation);
        remove_of_node(call, keys, txn, operation->node);
        return true;
    }
    struct registry_register request = {.keeps_checks = true, .is_idempotent = true};
    struct consul_place place = {.node = operation->node,
                                 .id = operation->id,
                                 .meta = consul_json_find(operation->object, "Meta"),
                                 .tagged = consul_json_find(operation->object, "TaggedAddresses")};
    if (!consul_json_get_text(operation->object, "Address", &place.address) ||
        !consul_define_node(call, &place, &request.instance)) {
        return false;
    }
    consul_batch_register(txn->batch, &request);
    complete(txn, operation);
    return true;
}

static bool add_service(struct consul_call *call, const struct key_store *keys, struct txn *txn,
                        size_t i) {
    const struct txn_operation *operation = &txn->operations[i];
    struct registry_delete_check at = {0};
    place_service(call, keys, txn, operation->node, operation->id, &at);
    if (operation->verb == VERB_GET) {
        consul_batch_show(txn->batch, at.service, at.id, bytes_of("", 0));
        return true;
    }
    if (operation->verb >= VERB_DELETE) {
        consul_batch_deregister(txn->batch, at.service, at.id);
        complete(txn, operation);
        return true;
    }
    struct registry_register request = {.keeps_checks = true, .is_idempotent = true};
    struct consul_place place = {.node = operation->node};
    if (!has_node(call, keys, txn, operation->node, &place.address)) {
        return consul_txn_fail_op(call, i, "Missing node registration");
    }
    if (!consul_define_service(call, operation->object, &place, &request.instance)) {
        return false;
    }
    consul_batch_register(txn->batch, &request);
    complete(txn, operation);
    consul_batch_end_stale(call, keys, txn->batch, &request.instance);
    return true;
}

static bool add_check(struct consul_call *call, const struct key_store *keys, struct txn *txn,
                      size_t i) {
    const struct txn_operation *operation = &txn->operations[i];
    struct registry_put_check put = {.service = bytes_from_text(CONSUL_NODE_SERVICE),
                                     .id = operation->node};
    struct registry_delete_check at;
    struct bytes service_id = bytes_of("", 0);
    struct bytes ignored;
    if (operation->verb == VERB_GET || operation->verb >= VERB_DELETE) {
        place_check(call, keys, txn, i, &at);
        if (operation->verb == VERB_GET) {
            consul_batch_show(txn->batch, at.service, at.id, at.check);
        } else {
            consul_batch_delete_check(txn->batch, at.service, at.id, at.check);
            complete(txn, operation);
        }
        return true;
    }
    if (!has_node(call, keys, txn, operation->node, &ignored)) {
        return consul_txn_fail_op(call, i, "Missing node registration");
    }
    if (!consul_json_get_text(operation->object, "ServiceID", &service_id) ||
        !consul_define_catalog_check(call, operation->object, &put.check)) {
        return false;
    }
    if (service_id.size > 0) {
        place_service(call, keys, txn, operation->node, service_id, &at);
        if (bytes_equal(at.service, bytes_from_text(CONSUL_NODE_SERVICE "-nothing"))) {
            return consul_txn_fail_op(call, i, "Missing service registration");
        }
        put.service = at.service;
        put.id = at.id;
    } else if (consul_node_is_own(call, operation->node)) {
        const struct consul_place place = {.node = operation->node,
                                           .address = consul_node_address(call)};
        consul_batch_node(call, txn->batch, &place);
    }
    consul_batch_put_check(txn->batch, &put);
    complete(txn, operation);
    return true;
}

static bool add_steps(struct consul_call *call, const struct key_store *keys, struct txn *txn) {
    for (size_t i = 0; i < txn->n; i++) {
        struct txn_operation *operation = &txn->operations[i];
        bool is_added = true;
        (void)consul_batch_steps(txn->batch, &operation->first_step);
        if (operation->subject == ON_NODE) {
            is_added = add_node(call, keys, txn, operation);
        } else if (operation->subject == ON_SERVICE) {
            is_added = add_service(call, keys, txn, i);
        } else if (operation->subject == ON_CHECK) {
            is_added = add_check(call, keys, txn, i);
        }
        if (!is_added) {
            return false;
        }
        (void)consul_batch_steps(txn->batch, &operation->end_step);
        if (operation->end_step > CONSUL_STEPS_MAX) {
            return consul_txn_fail_op(call, i, "the transaction changes too much at once");
        }
    }
    return true;
}

/* --- The answer. --- */

static void show_node(struct consul_call *call, const struct registry_instance *instance) {
    struct registry_entry entry = {.instance = *instance};
    struct consul_node node;
    consul_node_init(&node, call, consul_call_keys(call), instance->id);
    if (!node.is_own) { /* as the transaction has left it */
        consul_node_clear(&node);
        node.entry = &entry;
        node.address = instance->address;
        node.extra = json_loadb((const char *)instance->extra.data, instance->extra.size, 0, NULL);
        node.id = bytes_of("", 0);
        (void)consul_json_get_text(node.extra, "NodeID", &node.id);
    }
    consul_node_show(call, &node);
    consul_node_clear(&node);
}

static void show_own_node(struct consul_call *call) {
    struct consul_node node;
    consul_node_init(&node, call, consul_call_keys(call), bytes_from_text(call->door->node));
    consul_node_show(call, &node);
    consul_node_clear(&node);
}

static void show_service(struct consul_call *call, const struct registry_instance *instance) {
    const struct registry_entry entry = {.instance = *instance};
    struct consul_shown shown;
    consul_shown_init(&shown, call, consul_call_keys(call), &entry);
    consul_show_service(call, &shown);
    consul_shown_clear(&shown);
}

static void show_record(struct consul_call *call, const struct txn_operation *operation,
                        const struct consul_step *step, const struct consul_shown_record *record) {
    struct registry_instance instance = {0};
    struct registry_check check = {0};
    bool is_read = operation->subject == ON_CHECK
                       ? registry_check_decode(record->value, &call->arena, &check)
                       : registry_instance_decode(record->value, &call->arena, &instance);
    if (!is_read) {
        abort(); /* our own bytes */
    }
    instance.service = step->service;
    instance.id = step->id;
    instance.token = record->create_index;
    instance.revision = record->modify_index;
    check.id = step->check;
    check.revision = record->modify_index;
    if (operation->subject == ON_NODE) {
        show_node(call, &instance);
    } else if (operation->subject == ON_SERVICE) {
        show_service(call, &instance);
    } else {
        instance.origin = REGISTRY_ORIGIN_CONSUL;
        instance.node = operation->node;
        consul_show_check_record(call, operation->node, &instance, &check);
    }
}

static void write_catalog_failure(struct consul_json *json, size_t i,
                                  const struct txn_operation *operation, uint8_t failure) {
    static const char *const words[] = {"key", "node", "service", "check"};
    struct bytes name = operation->subject == ON_NODE ? operation->node : operation->id;
    char on_node[320] = "";
    char text[800];
    if (operation->subject != ON_NODE) {
        snprintf(on_node, sizeof on_node, " on node \"%.*s\"",
                 (int)(operation->node.size < 256 ? operation->node.size : 256),
                 (const char *)operation->node.data);
    }
    int size = (int)(name.size < 256 ? name.size : 256);
    if (failure == CONSUL_FAILED_STALE) {
        snprintf(text, sizeof text, "failed to %s %s \"%.*s\"%s, index is stale",
                 operation->verb == VERB_CAS ? "set" : "delete", words[operation->subject], size,
                 (const char *)name.data, on_node);
    } else {
        snprintf(text, sizeof text, "%s \"%.*s\"%s doesn't exist", words[operation->subject], size,
                 (const char *)name.data, on_node);
    }
    consul_json_begin(json, '{');
    consul_json_set_number(json, "OpIndex", (int64_t)i);
    consul_json_set_chars(json, "What", text);
    consul_json_end(json, '}');
}

static void write_failures_of(struct consul_call *call, const struct txn *txn, size_t i,
                              const struct consul_txn_results *results) {
    const struct txn_operation *operation = &txn->operations[i];
    for (size_t j = 0; operation->subject == ON_KEY && j < results->keys.n; j++) {
        const struct consul_result *result = &results->keys.results[j];
        if (results->keys.is_failed && result->op == operation->key) {
            consul_txn_write_failure(&call->json, i, &txn->ops[result->op], result);
        }
    }
    for (size_t j = 0; j < results->n; j++) {
        const struct consul_shown_record *record = &results->records[j];
        if (record->failure != 0 && record->step >= operation->first_step &&
            record->step < operation->end_step) {
            write_catalog_failure(&call->json, i, operation, record->failure);
        }
    }
}

static void write_results_of(struct consul_call *call, const struct txn *txn, size_t i,
                             const struct consul_txn_results *results) {
    const struct txn_operation *operation = &txn->operations[i];
    size_t n;
    const struct consul_step *steps = consul_batch_steps(txn->batch, &n);
    for (size_t j = 0; operation->subject == ON_KEY && j < results->keys.n; j++) {
        if (results->keys.results[j].op == operation->key) {
            consul_txn_write_entry(&call->json, &results->keys.results[j]);
        }
    }
    if (operation->is_of_own_node) {
        consul_json_begin(&call->json, '{');
        consul_json_name(&call->json, "Node");
        show_own_node(call);
        consul_json_end(&call->json, '}');
    }
    for (size_t j = 0; j < results->n; j++) {
        const struct consul_shown_record *record = &results->records[j];
        if (record->step >= operation->first_step && record->step < operation->end_step) {
            consul_json_begin(&call->json, '{');
            consul_json_name(&call->json, subjects[operation->subject]);
            show_record(call, operation, &steps[record->step], record);
            consul_json_end(&call->json, '}');
        }
    }
}

static void reply(struct consul_call *call, const struct outcome *outcome) {
    const struct txn *txn = call->data;
    struct consul_txn_results results = {0};
    if (outcome != NULL && outcome->status != STATUS_OK) {
        consul_call_fail_status(call, outcome->status);
        return;
    }
    if (outcome != NULL &&
        !consul_txn_results_decode(outcome->rule.answer, &call->arena, &results)) {
        abort(); /* our own bytes */
    }
    consul_json_begin(&call->json, '{');
    consul_json_name(&call->json, results.is_failed ? "Errors" : "Results");
    consul_json_begin(&call->json, '[');
    for (size_t i = 0; i < txn->n; i++) {
        (results.is_failed ? write_failures_of : write_results_of)(call, txn, i, &results);
    }
    consul_json_end(&call->json, ']');
    consul_json_name(&call->json, results.is_failed ? "Results" : "Errors");
    consul_json_null(&call->json);
    consul_json_end(&call->json, '}');
    consul_call_reply(call, results.is_failed ? 409 : 200);
}

/* --- The request. --- */

static void submit(struct consul_call *call, const struct key_store *keys) {
    struct txn *txn = call->data;
    struct buffer request;
    size_t n;
    call->status = 0;
    call->query = NULL;
    txn->batch = consul_batch_create(call);
    if (!add_steps(call, keys, txn) || consul_search_start(call)) {
        return;
    }
    const struct consul_step *steps = consul_batch_steps(txn->batch, &n);
    if (n + txn->n_ops == 0) {
        reply(call, NULL);
        return;
    }
    buffer_init(&request);
    consul_txn_encode(&request, txn->ops, txn->n_ops, steps, n);
    consul_call_submit(call, CONSUL_RULE_TXN, &request, reply);
    buffer_clear(&request);
}

static const struct consul_query looking = {.show = submit};

void consul_txn_with_catalog(struct consul_call *call) {
    struct txn *txn = arena_calloc(&call->arena, 1, sizeof *txn);
    txn->n = json_array_size(call->given);
    if (txn->n > CONSUL_TXN_OPS_MAX) {
        consul_call_fail(call, 413, "Transaction contains too many operations (%zu > %d)", txn->n,
                         CONSUL_TXN_OPS_MAX);
        return;
    }
    txn->operations = arena_calloc(&call->arena, txn->n, sizeof *txn->operations);
    txn->ops = arena_calloc(&call->arena, txn->n, sizeof *txn->ops);
    for (size_t i = 0; i < txn->n; i++) {
        if (!read_operation(call, txn, i, json_array_get(call->given, i))) {
            return;
        }
    }
    call->data = txn;
    consul_call_add_range(call,
                          registry_index_range(&call->arena, bytes_from_text(call->door->node)));
    consul_call_look(call, &looking);
}
