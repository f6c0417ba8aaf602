/* Two machines that apply the same commands: one lives through everything, the other is restored
 * from the first one's snapshots now and then. What either answers, and the bytes of their
 * snapshots, must be the same. */
#ifndef LEASED_TESTS_MODEL_MACHINES_H
#define LEASED_TESTS_MODEL_MACHINES_H

#include "core/cluster_version.h"
#include "core/state_machine.h"

#include <assert.h>

static struct state_machine *machine;
static struct state_machine *second;
static struct arena arena; /* of a step: the test resets it */
static struct apply_context context;

static inline struct outcome apply(const struct command *command) {
    struct outcome outcome;
    struct outcome other;
    context.index++;
    state_machine_apply(second, command, &context, &arena, &other);
    state_machine_apply(machine, command, &context, &arena, &outcome);
    assert(outcome.status == other.status);
    assert(outcome.revision == other.revision);
    assert(outcome.work == other.work);
    if (command->type == COMMAND_RULE && outcome.status == STATUS_OK) {
        assert(bytes_equal(outcome.rule.answer, other.rule.answer));
    }
    return outcome;
}

/* Clears the request. */
static inline struct outcome run_rule(uint32_t number, struct buffer *request) {
    const struct command command = {
        .type = COMMAND_RULE,
        .rule = {.number = number, .request = bytes_of(request->data, request->size)}};
    struct outcome outcome = apply(&command);
    buffer_clear(request);
    return outcome;
}

/* Both are empty, and know the rules. */
static inline void machines_open(const struct rule_set *rules) {
    const struct state_machine_options options = {.rules = rules};
    const struct command raise = {.type = COMMAND_CLUSTER_VERSION,
                                  .cluster_version = {.version = CLUSTER_VERSION_RULES}};
    machine = state_machine_create(&options);
    second = state_machine_create(&options);
    context = (struct apply_context){.term = 1, .now_ms = 1000, .wall_ms = 1700000000000};
    assert(apply(&raise).status == STATUS_OK);
    lease_table_lead(state_machine_leases(machine), context.now_ms);
}

static inline void machines_snapshot(struct state_machine *from, struct buffer *out_snapshot) {
    struct snapshot_view *view = snapshot_view_open(from);
    buffer_init(out_snapshot);
    snapshot_view_write(view, out_snapshot);
    snapshot_view_close(view);
}

static inline void machines_compare(bool restores_second) {
    struct buffer first;
    struct buffer other;
    machines_snapshot(machine, &first);
    machines_snapshot(second, &other);
    assert(bytes_equal(bytes_of(first.data, first.size), bytes_of(other.data, other.size)));
    if (restores_second) {
        assert(state_machine_restore(second, bytes_of(first.data, first.size)) == STATUS_OK);
    }
    buffer_clear(&first);
    buffer_clear(&other);
}

static inline void machines_close(void) {
    machines_compare(false);
    key_store_validate(state_machine_keys(machine));
    lease_table_validate(state_machine_leases(machine));
    state_machine_destroy(machine);
    state_machine_destroy(second);
}

#endif
