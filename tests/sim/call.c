#include "call.h"

#include "checks.h"
#include "clients.h"
#include "node.h"
#include "users.h"
#include "world.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PADDING_MAX = 256 * 1024 };

static uint64_t typical_delay_us = WORLD_MS;
static uint64_t worst_delay_us = 50 * WORLD_MS;
static uint64_t n_succeeded[CALL_TYPES];

void call_set_delays(uint64_t typical_us, uint64_t worst_us) {
    typical_delay_us = typical_us;
    worst_delay_us = worst_us;
}

uint64_t calls_succeeded(enum call_type type) {
    return n_succeeded[type];
}

struct call *call_make(enum call_type type) {
    struct call *call = calloc(1, sizeof *call);
    if (call == NULL) {
        abort();
    }
    call->type = type;
    call->patience_us = 6 * WORLD_SECOND;
    return call;
}

/* --- The way back. --- */

static void answer_arrives(void *data) {
    struct call *call = data;
    if (call->is_answered) {
        return; /* nobody waits any more */
    }
    call->is_answered = true;
    n_succeeded[call->type] += call->status == STATUS_OK;
    call->answered(call);
}

static void answer(struct call *call, uint64_t at_us, enum status status) {
    call->status = status;
    world_at(at_us + random_delay(typical_delay_us, worst_delay_us), answer_arrives, call);
}

static void patience_ends(void *data) {
    struct call *call = data;
    if (!call->is_answered) {
        call->is_answered = true;
        call->status = STATUS_TIMED_OUT;
        call->is_certain = false;
        call->answered(call);
    }
}

/* --- At the node. --- */

static void applied(struct service_request *request, const struct outcome *outcome) {
    struct call *call = list_entry(request, struct call, request);
    if (call->is_answered) {
        return;
    }
    call->revision = outcome->revision;
    if (outcome->status == STATUS_OK && call->type == CALL_GRANT) {
        call->lease_id = outcome->grant.id;
        call->ttl_ms = outcome->grant.ttl_ms;
    }
    if (outcome->status == STATUS_OK && call->type == CALL_RULE) {
        struct bytes answer = outcome->rule.answer;
        call->rule_answer_size =
            answer.size < sizeof call->rule_answer ? answer.size : sizeof call->rule_answer;
        if (answer.size > 0) {
            memcpy(call->rule_answer, answer.data, call->rule_answer_size);
        }
    }
    call->succeeded =
        call->type != CALL_LOCK || (outcome->status == STATUS_OK && outcome->txn.succeeded);
    call->done_us = node_now_us(call->node);
    if (call->look != NULL && outcome->status == STATUS_OK) {
        call->look(call);
    }
    /* An outcome of the state machine is certain; what failed to commit may yet. */
    call->is_certain = outcome->status == STATUS_OK || outcome->revision != 0;
    answer(call, node_now_us(call->node), outcome->status);
}

static void submit(struct call *call) {
    struct command command = {0};
    struct bytes key = bytes_from_text(call->key);
    static uint8_t bytes[sizeof call->value + PADDING_MAX];
    memcpy(bytes, &call->value, sizeof call->value);
    assert(call->padding <= PADDING_MAX);
    struct bytes value = bytes_of(bytes, sizeof call->value + call->padding);
    struct compare compare = {
        .key = key, .result = COMPARE_EQUAL, .target = COMPARE_CREATE, .number = 0};
    struct operation put = {.type = OPERATION_PUT,
                            .put = {.key = key, .value = value, .lease_id = call->lease_id}};
    struct operation delete = {.type = OPERATION_DELETE, .delete = {.key = key}};
    switch (call->type) {
    case CALL_GRANT:
        command.type = COMMAND_LEASE_GRANT;
        command.grant.ttl_ms = call->ttl_ms;
        break;
    case CALL_REVOKE:
        command.type = COMMAND_LEASE_REVOKE;
        command.revoke.id = call->lease_id;
        break;
    case CALL_LOCK:
        command.type = COMMAND_TXN;
        command.txn.n_compares = 1;
        command.txn.compares = &compare;
        command.txn.n_success = 1;
        command.txn.success = &put;
        break;
    case CALL_COMPACT:
        command.type = COMMAND_COMPACT;
        command.compact.revision = call->revision;
        break;
    case CALL_RULE:
        command.type = COMMAND_RULE;
        command.rule.number = call->rule_number;
        command.rule.request = bytes_of(call->rule_request.data, call->rule_request.size);
        break;
    case CALL_AUTH:
        command.type = COMMAND_AUTH;
        command.auth = *call->auth_change;
        break;
    case CALL_UNLOCK:
        compare.number = call->revision;
        command.type = COMMAND_TXN;
        command.txn.n_compares = 1;
        command.txn.compares = &compare;
        command.txn.n_success = 1;
        command.txn.success = &delete;
        break;
    default:
        command.type = COMMAND_PUT;
        command.put = put.put;
        break;
    }
    call->request.done = applied;
    const struct caller *caller = call->type == CALL_AUTH ? users_root()
                                  : call->caller != NULL  ? call->caller
                                                          : users_worker();
    service_submit(call->node->service, caller, &call->request, &command);
    buffer_clear(&call->rule_request);
}

struct first {
    int64_t create_revision;
    bool is_behind;
};

static bool look_for_earlier(void *context, const struct record *record) {
    struct first *first = context;
    first->is_behind = record->create_revision < first->create_revision;
    return !first->is_behind;
}

static void look_who_is_first(struct call *call) {
    const struct key_store *keys = state_view_keys(service_view(call->node->service));
    const struct record *record = key_store_find(keys, KEY_SPACE_ETCD, bytes_from_text(call->key));
    const char from[] = {call->key[0], '/'};
    const char to[] = {call->key[0], '/' + 1};
    struct first first = {.create_revision = record == NULL ? 0 : record->create_revision};
    key_store_visit(keys, KEY_SPACE_ETCD, bytes_of(from, 2), bytes_of(to, 2), look_for_earlier,
                    &first);
    call->revision = first.create_revision;
    call->succeeded = record != NULL && !first.is_behind;
    answer(call, node_now_us(call->node), STATUS_OK);
}

static void look_up(struct call *call) {
    if (call->type == CALL_IS_FIRST) {
        look_who_is_first(call);
        return;
    }
    if (call->type == CALL_LOOK) {
        call->look(call);
        answer(call, node_now_us(call->node), STATUS_OK);
        return;
    }
    const struct key_store *keys = state_view_keys(service_view(call->node->service));
    const struct record *record = key_store_find(keys, KEY_SPACE_ETCD, bytes_from_text(call->key));
    call->found = 0;
    if (record != NULL) {
        memcpy(&call->found, record_value(record).data, sizeof call->found);
    }
    call->revision = key_store_revision(keys);
    answer(call, node_now_us(call->node), STATUS_OK);
}

static void read_ready(struct service_read *read, enum status status) {
    struct call *call = list_entry(read, struct call, read);
    if (status == STATUS_OK) {
        look_up(call);
    } else {
        answer(call, node_now_us(call->node), status);
    }
}

static void renewed(struct service_renewal *renewal, enum status status, int64_t ttl_ms) {
    struct call *call = list_entry(renewal, struct call, renewal);
    call->ttl_ms = ttl_ms;
    if (status == STATUS_LEASE_NOT_FOUND && call->type == CALL_RENEW && call->arrived_term != 0 &&
        call->arrived_term == node_leads_term(call->node)) {
        checks_renewal_refused(call->lease_id, call->arrived_us);
    }
    answer(call, node_now_us(call->node), status);
}

static void moved(struct service_transfer *transfer, enum status status) {
    struct call *call = list_entry(transfer, struct call, transfer);
    answer(call, node_now_us(call->node), status);
}

static void changed(struct service_change *change, enum status status) {
    struct call *call = list_entry(change, struct call, change);
    call->member_id = change->id;
    answer(call, node_now_us(call->node), status);
}

/* What the client gets can be restored. */
static void snapshot_run(struct service_scan *scan) {
    struct call *call = list_entry(scan, struct call, snapshot);
    snapshot_view_write(scan->view, &call->snapshot_bytes);
}

static void snapshot_made(struct service_scan *scan) {
    struct call *call = list_entry(scan, struct call, snapshot);
    struct bytes bytes = bytes_of(call->snapshot_bytes.data, call->snapshot_bytes.size);
    struct state_machine *machine =
        state_machine_create(&(struct state_machine_options){.rules = clients_rules()});
    enum status restored = state_machine_restore(machine, bytes);
    if (restored != STATUS_OK) {
        check_failed("snapshot", "%s gave a client a snapshot that cannot be restored: %s",
                     call->node->name, status_text(restored));
    }
    state_machine_destroy(machine);
    buffer_clear(&call->snapshot_bytes);
    bool is_ended = service_scan_end(scan);
    assert(is_ended);
    answer(call, node_now_us(call->node), STATUS_OK);
}

static void snapshot_revoked(struct service_scan *scan, enum status status) {
    struct call *call = list_entry(scan, struct call, snapshot);
    bool is_ended = service_scan_end(scan);
    assert(is_ended);
    buffer_clear(&call->snapshot_bytes);
    answer(call, node_now_us(call->node), status);
}

static void call_read(struct node *node, void *data) {
    struct call *call = data;
    struct service *service = node->service;
    enum status status;
    int64_t ttl_ms = 0;
    const struct caller *caller = call->caller != NULL ? call->caller : users_worker();
    switch (call->type) {
    case CALL_RENEW:
    case CALL_TIME_LEFT:
        call->renewal.id = call->lease_id;
        call->renewal.owner =
            key_space_is_valid(call->lease_owner) ? call->lease_owner : KEY_SPACE_ETCD;
        call->renewal.done = renewed;
        status = call->type == CALL_RENEW
                     ? service_renew(service, caller, &call->renewal, &ttl_ms)
                     : service_time_left(service, caller, &call->renewal, &ttl_ms);
        if (status != STATUS_PENDING) {
            renewed(&call->renewal, status, ttl_ms);
        }
        return;
    case CALL_GET:
    case CALL_IS_FIRST:
    case CALL_LOOK:
        call->read.ready = read_ready;
        status = service_read(service, caller, &call->read, NULL, 0);
        if (status != STATUS_PENDING) {
            read_ready(&call->read, status);
        }
        return;
    case CALL_MOVE_LEADER:
        call->transfer.done = moved;
        status = service_move_leader(service, users_root(), &call->transfer, call->member_id);
        if (status != STATUS_PENDING) {
            moved(&call->transfer, status);
        }
        return;
    case CALL_CHANGE_MEMBERS:
        call->change.done = changed;
        call->facts.id = call->member_id;
        service_change_members(service, users_root(), &call->change, call->action, &call->facts);
        return;
    case CALL_SNAPSHOT:
        buffer_init(&call->snapshot_bytes);
        call->snapshot = (struct service_scan){.run = snapshot_run,
                                               .ran = snapshot_made,
                                               .revoked = snapshot_revoked,
                                               .is_whole = true};
        status = service_scan_start(service, users_root(), &call->snapshot, NULL, 0);
        if (status != STATUS_PENDING) {
            answer(call, node_now_us(call->node), status);
        }
        return;
    default:
        submit(call);
        return;
    }
}

/* The process ended before it read the call. */
static void call_drop(void *data) {
    struct call *call = data;
    call->is_certain = true;
    answer(call, world_now_us(), STATUS_STOPPED);
}

static void call_arrives(void *data) {
    struct call *call = data;
    if (!call->node->is_up || call->node->service == NULL) {
        call_drop(call);
        return;
    }
    call->arrived_us = world_now_us();
    call->arrived_term = node_leads_term(call->node);
    node_deliver(call->node, call_read, call_drop, call);
}

void call_send(struct call *call, struct node *node) {
    call->node = node;
    call->sent_us = world_now_us();
    world_at(call->sent_us + random_delay(typical_delay_us, worst_delay_us), call_arrives, call);
    world_at(call->sent_us + call->patience_us, patience_ends, call);
}
