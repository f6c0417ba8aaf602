/* What the rules of the registry are given, and what its decoders read. The first byte chooses. */
#include "core/cluster_version.h"
#include "core/state_machine.h"
#include "registry/registry_keys.h"
#include "registry/registry_request_model.h"
#include "registry/registry_view.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RECORDS = 6 };

static void apply(struct state_machine *machine, struct arena *arena, uint32_t number,
                  struct bytes request) {
    const struct apply_context context = {.term = 1};
    const struct command command = {.type = COMMAND_RULE,
                                    .rule = {.number = number, .request = request}};
    struct outcome outcome;
    state_machine_apply(machine, &command, &context, arena, &outcome);
}

static void add(struct state_machine *machine, struct arena *arena, const char *id) {
    const struct registry_check check = {.id = bytes_from_text("c"),
                                         .kind = REGISTRY_CHECK_TTL,
                                         .origin = REGISTRY_ORIGIN_CONSUL,
                                         .ttl_ms = 5000,
                                         .deregister_after_ms = 60000};
    const struct registry_register request = {.instance = {.service = bytes_from_text("web"),
                                                           .id = bytes_from_text(id),
                                                           .origin = REGISTRY_ORIGIN_NATIVE,
                                                           .state = REGISTRY_UP,
                                                           .weight = 1,
                                                           .ttl_ms = 10000},
                                              .checks = &check,
                                              .n_checks = 1};
    struct buffer buffer;
    buffer_init(&buffer);
    registry_register_encode(&buffer, &request);
    apply(machine, arena, REGISTRY_RULE_REGISTER, bytes_of(buffer.data, buffer.size));
    buffer_clear(&buffer);
}

static struct state_machine *begin(struct arena *arena) {
    static const struct rule_set set = {registry_rules, REGISTRY_N_RULES};
    const struct command raise = {.type = COMMAND_CLUSTER_VERSION,
                                  .cluster_version = {.version = CLUSTER_VERSION_RULES}};
    const struct apply_context context = {.term = 1};
    struct state_machine *machine =
        state_machine_create(&(struct state_machine_options){.rules = &set});
    struct outcome outcome;
    state_machine_apply(machine, &raise, &context, arena, &outcome);
    add(machine, arena, "a");
    add(machine, arena, "b");
    add(machine, arena, "c");
    return machine;
}

static bool look(void *context, const struct registry_entry *entry) {
    (void)context;
    assert(registry_name_is_valid(entry->instance.id));
    assert(entry->n_checks <= REGISTRY_CHECKS_MAX);
    return true;
}

static bool look_at(void *context, struct bytes service) {
    struct state_machine *machine = context;
    struct arena arena;
    arena_init(&arena);
    (void)registry_view_visit(state_machine_keys(machine), &arena, service, look, NULL);
    arena_clear(&arena);
    return true;
}

/* Ends every lease that there is, one command each, until nothing is left of any service. */
static void end_all(struct state_machine *machine) {
    const struct apply_context context = {.term = 1};
    for (int rounds = 0; rounds < 16; rounds++) {
        size_t n = 0;
        int64_t *ids = lease_table_ids(state_machine_leases(machine), &n);
        for (size_t i = 0; i < n; i++) {
            struct arena arena;
            struct lease_facts facts;
            struct outcome outcome;
            if (!lease_table_find(state_machine_leases(machine), ids[i], &facts)) {
                continue;
            }
            const struct command command = {
                .type = COMMAND_LEASE_EXPIRE,
                .expire = {.term = 1, .n = 1, .ids = &ids[i], .epochs = &facts.epoch}};
            arena_init(&arena);
            state_machine_apply(machine, &command, &context, &arena, &outcome);
            arena_clear(&arena);
        }
        free(ids);
    }
    assert(lease_table_count(state_machine_leases(machine)) == 0);
}

/* Whatever the bytes are, the structures stay sound, and what they left ends by itself. */
static void try_rule(uint32_t number, struct bytes request) {
    struct arena arena;
    arena_init(&arena);
    struct state_machine *machine = begin(&arena);
    apply(machine, &arena, number, request);
    apply(machine, &arena, number, request);
    registry_view_visit_services(state_machine_keys(machine), &arena, bytes_of("", 0), look_at,
                                 machine);
    key_store_validate(state_machine_keys(machine));
    lease_table_validate(state_machine_leases(machine));
    if (number != REGISTRY_RULE_SETTINGS) {
        end_all(machine);
        struct key_range all = registry_prefix_range(&arena, bytes_of("", 0));
        /* An instance without end may have been registered, and no lease of ours ends it here: all
         * were expired. */
        assert(key_store_count(state_machine_keys(machine), all.space, all.key, all.range_end) ==
               0);
        assert(key_store_count(state_machine_keys(machine), KEY_SPACE_ETCD, bytes_of("", 1),
                               bytes_of("", 1)) == 0);
    }
    arena_clear(&arena);
    state_machine_destroy(machine);
}

static void try_decoder(unsigned which, struct bytes value) {
    struct arena arena;
    struct registry_instance instance;
    struct registry_check check;
    struct registry_service service;
    struct registry_event event;
    struct registry_lost lost;
    struct registry_registered registered;
    arena_init(&arena);
    switch (which) {
    case 0:
        (void)registry_instance_decode(value, &arena, &instance);
        break;
    case 1:
        (void)registry_check_decode(value, &arena, &check);
        break;
    case 2:
        (void)registry_service_decode(value, &service);
        break;
    case 3:
        (void)registry_event_decode(value, &event);
        break;
    case 4:
        (void)registry_lost_decode(value, &arena, &lost);
        break;
    default:
        (void)registry_registered_decode(value, &registered);
        break;
    }
    arena_clear(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    unsigned which = data[0] % (REGISTRY_N_RULES + RECORDS);
    struct bytes rest = bytes_of(data + 1, size - 1);
    if (which < REGISTRY_N_RULES) {
        try_rule(REGISTRY_RULE_REGISTER + which, rest);
    } else {
        try_decoder(which - REGISTRY_N_RULES, rest);
    }
    return 0;
}
