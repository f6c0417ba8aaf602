#include "core/state_machine.h"

#include "core/auth_command.h"
#include "core/cluster_version.h"
#include "core/rule_hook_key.h"
#include "core/rule_scope.h"
#include "core/snapshot.h"
#include "core/state_view.h"
#include "core/txn.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct state_view {
    const struct state_machine *machine;
};

struct state_machine {
    struct state_view view;
    uint32_t cluster_version;
    uint32_t cluster_version_known;
    struct hash_key hash_key;
    struct rule_index *rules;
    struct buffer answer; /* scratch of rules */
    struct key_store *keys;
    struct lease_table *leases;
    struct watch_hub *watches;
    struct member_table *members;
    struct auth *auth;
    size_t n_alarms;
    struct alarm_entry alarms[STATE_MACHINE_ALARMS_MAX]; /* by member, then alarm */
};

struct state_machine *state_machine_create(const struct state_machine_options *options) {
    struct state_machine *machine = calloc(1, sizeof *machine);
    if (machine == NULL) {
        abort();
    }
    machine->view.machine = machine;
    machine->cluster_version = CLUSTER_VERSION_FIRST;
    machine->cluster_version_known = options != NULL && options->cluster_version_known != 0
                                         ? options->cluster_version_known
                                         : CLUSTER_VERSION_KNOWN;
    machine->keys = key_store_create();
    machine->hash_key =
        options != NULL && options->hash_key != NULL ? *options->hash_key : hash_key_fixed;
    machine->leases = lease_table_create(&machine->hash_key);
    machine->watches = watch_hub_create(machine->keys, &machine->hash_key);
    machine->members = member_table_create();
    machine->auth = auth_create();
    machine->rules = rule_index_create(options != NULL ? options->rules : NULL);
    buffer_init(&machine->answer);
    return machine;
}

void state_machine_destroy(struct state_machine *machine) {
    if (machine == NULL) {
        return;
    }
    auth_destroy(machine->auth);
    buffer_clear(&machine->answer);
    rule_index_destroy(machine->rules);
    member_table_destroy(machine->members);
    watch_hub_destroy(machine->watches);
    lease_table_destroy(machine->leases);
    key_store_destroy(machine->keys);
    free(machine);
}

struct key_store *state_machine_keys(struct state_machine *machine) {
    return machine->keys;
}

struct lease_table *state_machine_leases(struct state_machine *machine) {
    return machine->leases;
}

struct watch_hub *state_machine_watches(struct state_machine *machine) {
    return machine->watches;
}

const struct member_table *state_machine_members(const struct state_machine *machine) {
    return machine->members;
}

const struct auth *state_machine_auth(const struct state_machine *machine) {
    return machine->auth;
}

/* --- To be looked at. --- */

const struct state_view *state_machine_view(const struct state_machine *machine) {
    return &machine->view;
}

const struct key_store *state_view_keys(const struct state_view *view) {
    return view->machine->keys;
}

const struct lease_table *state_view_leases(const struct state_view *view) {
    return view->machine->leases;
}

const struct auth *state_view_auth(const struct state_view *view) {
    return view->machine->auth;
}

const struct watch_hub *state_view_watches(const struct state_view *view) {
    return view->machine->watches;
}

size_t state_view_alarms(const struct state_view *view,
                         struct alarm_entry out_alarms[STATE_MACHINE_ALARMS_MAX]) {
    return state_machine_alarms(view->machine, out_alarms);
}

uint32_t state_machine_cluster_version(const struct state_machine *machine) {
    return machine->cluster_version;
}

static bool is_full(const struct state_machine *machine) {
    for (size_t i = 0; i < machine->n_alarms; i++) {
        if (machine->alarms[i].alarm == ALARM_NO_SPACE) {
            return true;
        }
    }
    return false;
}

/* --- Leases. --- */

static bool lease_is_of(const struct state_machine *machine, int64_t id,
                        struct key_space_id owner) {
    struct lease_facts facts;
    return lease_table_find(machine->leases, id, &facts) && key_space_equal(facts.owner, owner);
}

static enum status apply_grant(struct state_machine *machine, const struct command *command,
                               const struct apply_context *context, struct outcome *outcome) {
    struct lease_facts facts = command->grant;
    facts.owner = KEY_SPACE_ETCD;
    outcome->grant.id = facts.id;
    outcome->grant.ttl_ms = facts.ttl_ms;
    struct lease_facts parent;
    if (facts.parent_id != 0 && lease_table_find(machine->leases, facts.parent_id, &parent) &&
        !key_space_equal(parent.owner, facts.owner)) {
        return STATUS_LEASE_NOT_FOUND;
    }
    return lease_table_grant(machine->leases, &facts, context->now_ms);
}

static struct rule_scope scope_of(struct state_machine *machine,
                                  const struct apply_context *context, struct arena *arena) {
    return (struct rule_scope){.keys = machine->keys,
                               .leases = machine->leases,
                               .rules = machine->rules,
                               .cluster_version = machine->cluster_version,
                               .is_full = is_full(machine),
                               .context = context,
                               .auth = machine->auth,
                               .caller = &caller_server,
                               .arena = arena,
                               .answer = &machine->answer};
}

/* True when the lease is the very one that a leader meant: it may have ended, been granted anew
 * under the same id, or been given another TTL by commands that were on their way before. */
static bool lease_is_meant(const struct state_machine *machine, int64_t id, uint32_t epoch) {
    struct lease_facts facts;
    return lease_table_find(machine->leases, id, &facts) && facts.epoch == epoch;
}

static enum status apply_revoke(struct state_machine *machine, const struct command *command,
                                const struct apply_context *context, struct arena *arena,
                                struct outcome *outcome) {
    if (!lease_is_of(machine, command->revoke.id, KEY_SPACE_ETCD)) {
        return STATUS_LEASE_NOT_FOUND;
    }
    struct rule_scope scope = scope_of(machine, context, arena);
    enum status status = rule_scope_end_lease(&scope, command->revoke.id, LEASE_END_REVOKED);
    outcome->work = scope.work;
    return status;
}

static void apply_expire(struct state_machine *machine, const struct command *command,
                         const struct apply_context *context, struct arena *arena,
                         struct outcome *outcome) {
    outcome->expire.n_ended = 0;
    /* Only the leader of this very term may say that time is up (safety rule 7). */
    if (command->expire.term != context->term) {
        return;
    }
    struct rule_scope scope = scope_of(machine, context, arena);
    /* What is left when hooks have done much is still due, and the leader proposes it again. */
    for (size_t i = 0; i < command->expire.n && scope.work < RULE_SCOPE_WORK_MUCH; i++) {
        if (lease_is_meant(machine, command->expire.ids[i], command->expire.epochs[i])) {
            rule_scope_end_lease(&scope, command->expire.ids[i], LEASE_END_EXPIRED);
            outcome->expire.n_ended++;
        }
    }
    outcome->work = scope.work;
}

/* Whoever says how much time is left said it before this. */
static uint64_t written_ms(const struct apply_context *context) {
    return context->written_ms != 0 ? context->written_ms : context->now_ms;
}

static void apply_checkpoint(struct state_machine *machine, const struct command *command,
                             const struct apply_context *context) {
    if (command->checkpoint.term != context->term) {
        return;
    }
    for (size_t i = 0; i < command->checkpoint.n; i++) {
        if (lease_is_meant(machine, command->checkpoint.ids[i], command->checkpoint.epochs[i])) {
            (void)lease_table_checkpoint(machine->leases, command->checkpoint.ids[i],
                                         command->checkpoint.remaining_ms[i], written_ms(context));
        }
    }
}

/* --- Alarms. --- */

static bool alarm_is_after(const struct alarm_entry *a, uint64_t member_id, enum alarm_type alarm) {
    return a->member_id > member_id || (a->member_id == member_id && a->alarm > alarm);
}

static enum status apply_auth(struct state_machine *machine, const struct command *command,
                              struct outcome *outcome) {
    if (machine->cluster_version < CLUSTER_VERSION_RULES) {
        return STATUS_UNSUPPORTED;
    }
    size_t work = auth_change_work(machine->auth, &command->auth);
    enum status status = auth_apply(machine->auth, &command->auth);
    outcome->work = status == STATUS_OK ? work : 0;
    return status;
}

static enum status apply_alarm(struct state_machine *machine, const struct command *command) {
    uint64_t member_id = command->alarm.member_id;
    enum alarm_type alarm = command->alarm.alarm;
    size_t i = 0;
    while (i < machine->n_alarms && !alarm_is_after(&machine->alarms[i], member_id, alarm)) {
        if (machine->alarms[i].member_id == member_id && machine->alarms[i].alarm == alarm) {
            if (!command->alarm.activate) {
                memmove(&machine->alarms[i], &machine->alarms[i + 1],
                        (machine->n_alarms - i - 1) * sizeof machine->alarms[0]);
                machine->n_alarms--;
            }
            return STATUS_OK;
        }
        i++;
    }
    if (!command->alarm.activate) {
        return STATUS_OK;
    }
    if (machine->n_alarms == STATE_MACHINE_ALARMS_MAX) {
        return STATUS_TOO_MANY_REQUESTS;
    }
    memmove(&machine->alarms[i + 1], &machine->alarms[i],
            (machine->n_alarms - i) * sizeof machine->alarms[0]);
    machine->alarms[i] = (struct alarm_entry){.member_id = member_id, .alarm = alarm};
    machine->n_alarms++;
    return STATUS_OK;
}

size_t state_machine_alarms(const struct state_machine *machine,
                            struct alarm_entry out_alarms[STATE_MACHINE_ALARMS_MAX]) {
    memcpy(out_alarms, machine->alarms, machine->n_alarms * sizeof machine->alarms[0]);
    return machine->n_alarms;
}

static bool has_puts(const struct operation *operations, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const struct txn_request *txn = &operations[i].txn;
        if (operations[i].type == OPERATION_PUT ||
            (operations[i].type == OPERATION_TXN &&
             (has_puts(txn->success, txn->n_success) || has_puts(txn->failure, txn->n_failure)))) {
            return true;
        }
    }
    return false;
}

/* While the space alarm stands, what could make the state larger is refused, whichever branch a
 * transaction would take; deleting, revoking and compacting go on, because they make room. A rule
 * is refused when it turns out to put or grant something. */
static bool is_refused_for_space(const struct state_machine *machine,
                                 const struct command *command) {
    if (!is_full(machine)) {
        return false;
    }
    switch (command->type) {
    case COMMAND_PUT:
    case COMMAND_LEASE_GRANT:
        return true;
    case COMMAND_TXN:
        return has_puts(command->txn.success, command->txn.n_success) ||
               has_puts(command->txn.failure, command->txn.n_failure);
    default:
        return false;
    }
}

/* --- Commands. --- */

/* A command of a client came with its caller, or was submitted before authentication was on. */
static enum status authorize(const struct state_machine *machine, const struct command *command) {
    if (command->type == COMMAND_AS) {
        return auth_check_command(machine->auth, machine->leases, &command->as.caller,
                                  command->as.command);
    }
    return auth_is_enabled(machine->auth) && !auth_is_server_command(command) ? STATUS_USER_EMPTY
                                                                              : STATUS_OK;
}

static enum status apply_rule(struct state_machine *machine, const struct command *command,
                              const struct caller *caller, const struct apply_context *context,
                              struct arena *arena, struct outcome *outcome) {
    struct rule_scope scope = scope_of(machine, context, arena);
    scope.caller = caller;
    enum status status =
        rule_scope_run(&scope, command->rule.number, command->rule.request, &outcome->rule.answer);
    outcome->work = scope.work;
    return status;
}

/* A member that was added after the others were heard may not know the version: it is heard
 * first. */
static enum status apply_cluster_version(struct state_machine *machine,
                                         const struct command *command) {
    for (size_t i = 0; i < member_table_count(machine->members); i++) {
        uint64_t id = member_table_at(machine->members, i)->facts.id;
        size_t at = 0;
        while (at < command->cluster_version.n && command->cluster_version.member_ids[at] != id) {
            at++;
        }
        if (at == command->cluster_version.n) {
            return STATUS_UNSUPPORTED;
        }
    }
    if (command->cluster_version.version > machine->cluster_version) {
        machine->cluster_version = command->cluster_version.version;
    }
    return STATUS_OK;
}

bool state_machine_knows(const struct state_machine *machine, const struct command *command) {
    if (command_since_version(command->type) > machine->cluster_version_known) {
        return false;
    }
    command = command_inner(command);
    switch (command->type) {
    case COMMAND_RULE:
        return rule_index_find(machine->rules, command->rule.number) != NULL;
    case COMMAND_CLUSTER_VERSION:
        return command->cluster_version.version <= machine->cluster_version_known;
    default:
        return true;
    }
}

bool state_machine_allows(const struct state_machine *machine, const struct command *command) {
    uint32_t since = command_since_version(command->type);
    command = command_inner(command);
    if (command->type == COMMAND_RULE) {
        const struct rule *rule = rule_index_find(machine->rules, command->rule.number);
        if (rule == NULL) {
            return false;
        }
        since = rule->since_version > since ? rule->since_version : since;
    }
    if (machine->cluster_version == CLUSTER_VERSION_FIRST &&
        !command_is_of_first_version(command)) {
        return false;
    }
    return since <= machine->cluster_version;
}

size_t state_machine_rule_work(struct state_machine *machine, const struct command *command) {
    const struct rule *rule = rule_index_find(machine->rules, command->rule.number);
    return rule == NULL || rule->estimate == NULL
               ? 0
               : rule->estimate(state_machine_keys(machine), state_machine_leases(machine),
                                command->rule.request);
}

void state_machine_apply(struct state_machine *machine, const struct command *command,
                         const struct apply_context *context, struct arena *arena,
                         struct outcome *out_outcome) {
    struct outcome outcome = {.status = authorize(machine, command)};
    const struct caller *caller =
        command->type == COMMAND_AS ? &command->as.caller : &caller_anonymous;
    command = command_inner(command);
    if (outcome.status == STATUS_OK && is_refused_for_space(machine, command)) {
        outcome.status = STATUS_NO_SPACE;
    }
    if (outcome.status != STATUS_OK) {
        outcome.revision = key_store_revision(machine->keys);
        *out_outcome = outcome;
        return;
    }
    /* Commands that name no space are of etcd's: other spaces are changed by rules. */
    const struct txn_target etcd = {.keys = machine->keys,
                                    .leases = machine->leases,
                                    .space = KEY_SPACE_ETCD,
                                    .is_counted = machine->cluster_version >= CLUSTER_VERSION_RULES,
                                    .has_reserved_keys =
                                        machine->cluster_version >= CLUSTER_VERSION_RULES,
                                    .work = &outcome.work};
    lease_table_set_index(machine->leases, context->index);
    switch (command->type) {
    case COMMAND_PUT:
        outcome.status = txn_put(&etcd, &command->put, &outcome.put);
        break;
    case COMMAND_DELETE:
        outcome.status = txn_delete(&etcd, &command->delete, arena, &outcome.delete);
        break;
    case COMMAND_TXN:
        outcome.status = txn_run(&etcd, &command->txn, arena, &outcome.txn);
        break;
    case COMMAND_COMPACT:
        outcome.status = key_store_compact(machine->keys, command->compact.revision);
        break;
    case COMMAND_LEASE_GRANT:
        outcome.status = apply_grant(machine, command, context, &outcome);
        break;
    case COMMAND_LEASE_REVOKE:
        outcome.status = apply_revoke(machine, command, context, arena, &outcome);
        break;
    case COMMAND_LEASE_EXPIRE:
        apply_expire(machine, command, context, arena, &outcome);
        break;
    case COMMAND_LEASE_CHECKPOINT:
        apply_checkpoint(machine, command, context);
        break;
    case COMMAND_LEASE_SET_TTL:
        outcome.status = lease_is_of(machine, command->set_ttl.id, KEY_SPACE_ETCD)
                             ? lease_table_set_ttl(machine->leases, command->set_ttl.id,
                                                   command->set_ttl.ttl_ms, context->now_ms)
                             : STATUS_LEASE_NOT_FOUND;
        break;
    case COMMAND_ALARM:
        outcome.status = apply_alarm(machine, command);
        break;
    case COMMAND_BARRIER:
        if (command->barrier.term == context->term) {
            lease_table_checkpoint_all(machine->leases, command->barrier.committed,
                                       written_ms(context), context->now_ms);
        }
        break;
    case COMMAND_MEMBERS_BEGIN:
        outcome.status =
            member_table_begin(machine->members, command->members_begin.token_hash,
                               command->members_begin.members, command->members_begin.n);
        break;
    case COMMAND_MEMBER:
        outcome.status =
            member_table_change(machine->members, command->member.action, command->member.facts);
        break;
    case COMMAND_RULE:
        outcome.status = apply_rule(machine, command, caller, context, arena, &outcome);
        break;
    case COMMAND_CLUSTER_VERSION:
        outcome.status = apply_cluster_version(machine, command);
        break;
    case COMMAND_AUTH:
        outcome.status = apply_auth(machine, command, &outcome);
        break;
    case COMMAND_AS:
        assert(!"a command in a command in a command");
        break;
    }
    outcome.revision = key_store_revision(machine->keys);
    *out_outcome = outcome;
}

/* --- Snapshots. --- */

struct snapshot_view {
    uint32_t cluster_version;
    struct key_view *keys;
    struct lease_view *leases;
    size_t n_alarms;
    struct alarm_entry alarms[STATE_MACHINE_ALARMS_MAX];
    struct buffer members; /* small: encoded at once */
    struct buffer auth;    /* the same */
};

struct snapshot_view *snapshot_view_open(struct state_machine *machine) {
    struct snapshot_view *view = malloc(sizeof *view);
    if (view == NULL) {
        abort();
    }
    view->cluster_version = machine->cluster_version;
    view->keys = key_view_open(machine->keys);
    view->leases = lease_view_open(machine->leases);
    view->n_alarms = state_machine_alarms(machine, view->alarms);
    buffer_init(&view->members);
    member_table_encode(machine->members, &view->members);
    buffer_init(&view->auth);
    auth_encode(machine->auth, &view->auth);
    return view;
}

const struct key_view *snapshot_view_keys(const struct snapshot_view *view) {
    return view->keys;
}

const struct lease_view *snapshot_view_leases(const struct snapshot_view *view) {
    return view->leases;
}

struct bytes snapshot_view_auth(const struct snapshot_view *view) {
    return bytes_of(view->auth.data, view->auth.size);
}

static struct snapshot_parts parts_of(const struct snapshot_view *view) {
    return (struct snapshot_parts){.cluster_version = view->cluster_version,
                                   .keys = view->keys,
                                   .leases = view->leases,
                                   .alarms = view->alarms,
                                   .n_alarms = view->n_alarms,
                                   .members = bytes_of(view->members.data, view->members.size),
                                   .auth = bytes_of(view->auth.data, view->auth.size)};
}

void snapshot_view_stream(const struct snapshot_view *view, const struct snapshot_sink *sink) {
    const struct snapshot_parts parts = parts_of(view);
    snapshot_encode(sink, &parts);
}

struct snapshot_encoder *snapshot_view_encoder_without(const struct snapshot_view *view,
                                                       struct key_space_id left_out,
                                                       struct bytes auth) {
    struct snapshot_parts parts = parts_of(view);
    parts.left_out = left_out;
    parts.auth = auth;
    return snapshot_encoder_create(&parts);
}

static void append_to_buffer(void *data, struct bytes bytes) {
    buffer_append(data, bytes.data, bytes.size);
}

void snapshot_view_write(const struct snapshot_view *view, struct buffer *buffer) {
    const struct snapshot_sink sink = {.write = append_to_buffer, .data = buffer};
    snapshot_view_stream(view, &sink);
}

void snapshot_view_close(struct snapshot_view *view) {
    key_view_close(view->keys);
    lease_view_close(view->leases);
    buffer_clear(&view->members);
    buffer_clear(&view->auth);
    free(view);
}

/* Every replica must be able to run every hook when its lease ends. */
struct hook_check {
    const struct rule_index *rules;
    enum status status;
};

static bool check_hook(void *context, const struct record *record) {
    struct hook_check *check = context;
    uint32_t number;
    struct bytes ignored;
    if (!rule_hook_key_decode(record_key(record), &number, &ignored)) {
        check->status = STATUS_CORRUPT;
    } else if (rule_index_find(check->rules, number) == NULL) {
        check->status = STATUS_UNSUPPORTED;
    }
    return check->status == STATUS_OK;
}

static enum status check_hooks(const struct state_machine *machine, const struct key_store *keys) {
    struct hook_check check = {.rules = machine->rules, .status = STATUS_OK};
    key_store_visit(keys, KEY_SPACE_LEASE_HOOKS, bytes_of("", 1), bytes_of("", 1), check_hook,
                    &check);
    return check.status;
}

enum status state_machine_restore(struct state_machine *machine, struct bytes snapshot) {
    struct snapshot_target restored = {.keys = key_store_create(),
                                       .leases = lease_table_create(&machine->hash_key),
                                       .members = member_table_create(),
                                       .auth = auth_create()};
    enum status status = snapshot_decode(snapshot, &restored);
    if (status == STATUS_OK && restored.cluster_version > machine->cluster_version_known) {
        status = STATUS_UNSUPPORTED;
    }
    if (status == STATUS_OK) {
        status = check_hooks(machine, restored.keys);
    }
    if (status != STATUS_OK) {
        auth_destroy(restored.auth);
        member_table_destroy(restored.members);
        lease_table_destroy(restored.leases);
        key_store_destroy(restored.keys);
        return status;
    }
    watch_hub_set_store(machine->watches, restored.keys);
    lease_table_destroy(machine->leases);
    key_store_destroy(machine->keys);
    member_table_succeed(restored.members, machine->members);
    auth_succeed(restored.auth, machine->auth);
    machine->cluster_version = restored.cluster_version;
    machine->keys = restored.keys;
    machine->leases = restored.leases;
    machine->members = restored.members;
    machine->auth = restored.auth;
    machine->n_alarms = restored.n_alarms;
    memcpy(machine->alarms, restored.alarms, restored.n_alarms * sizeof restored.alarms[0]);
    return STATUS_OK;
}
