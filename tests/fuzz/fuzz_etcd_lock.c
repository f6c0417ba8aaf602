/* Requests of the Lock and Election services, and what their rules are given. The first byte
 * chooses. */
#include "core/cluster_version.h"
#include "core/state_machine.h"
#include "doors/etcd/etcd_lock_request.h"
#include "doors/etcd/etcd_queue_rules.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whatever the bytes are, the structures stay sound. */
static void try_rule(uint32_t number, struct bytes request) {
    static const struct rule *const rules[] = {&etcd_rule_join, &etcd_rule_withdraw,
                                               &etcd_rule_release, &etcd_rule_proclaim};
    static const struct rule_set set = {rules, sizeof rules / sizeof rules[0]};
    struct state_machine *machine =
        state_machine_create(&(struct state_machine_options){.rules = &set});
    const struct apply_context context = {.term = 1};
    struct arena arena;
    struct outcome outcome;
    arena_init(&arena);
    const struct command commands[] = {
        {.type = COMMAND_CLUSTER_VERSION, .cluster_version = {.version = CLUSTER_VERSION_RULES}},
        {.type = COMMAND_LEASE_GRANT, .grant = {.id = 1, .ttl_ms = 60000}},
        {.type = COMMAND_PUT, .put = {.key = bytes_from_text("n/1"), .lease_id = 1}},
        {.type = COMMAND_RULE, .rule = {.number = number, .request = request}},
    };
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        state_machine_apply(machine, &commands[i], &context, &arena, &outcome);
    }
    struct etcd_joined joined;
    assert(outcome.status != STATUS_OK || number != ETCD_RULE_JOIN ||
           etcd_joined_decode(outcome.rule.answer, &joined));
    key_store_validate(state_machine_keys(machine));
    lease_table_validate(state_machine_leases(machine));
    arena_clear(&arena);
    state_machine_destroy(machine);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    struct bytes message = bytes_of(data + 1, size - 1);
    struct etcd_queue_request queue;
    struct etcd_unlock_request unlock;
    struct etcd_leadership_request leadership;
    switch (data[0] % 7) {
    case 0:
        (void)etcd_request_queue(message, &queue);
        break;
    case 1:
        (void)etcd_request_unlock(message, &unlock);
        break;
    case 2:
        (void)etcd_request_leadership(message, &leadership);
        break;
    default:
        try_rule(ETCD_RULE_JOIN + data[0] % 7 - 3, message);
        break;
    }
    return 0;
}
