/*
 * Commands from the log: what decodes must encode to the same bytes, and what command_check() lets
 * through must be applied without a broken invariant, one command after the other.
 */
#include "core/cluster_version.h"
#include "core/state_machine.h"
#include "trial_rules.h"

#include <assert.h>
#include <string.h>

enum { COMMANDS_MAX = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void raise_version(struct state_machine *machine, const struct apply_context *context,
                          struct arena *arena) {
    struct command command = {.type = COMMAND_CLUSTER_VERSION,
                              .cluster_version = {.version = CLUSTER_VERSION_KNOWN}};
    struct outcome outcome;
    state_machine_apply(machine, &command, context, arena, &outcome);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct state_machine *machine =
        state_machine_create(&(struct state_machine_options){.rules = &trial_rules});
    struct apply_context context = {.term = 1, .now_ms = 1000};
    struct arena arena;
    struct buffer again;
    struct reader reader;
    arena_init(&arena);
    buffer_init(&again);
    reader_init(&reader, bytes_of(data, size));
    lease_table_lead(state_machine_leases(machine), context.now_ms);
    raise_version(machine, &context, &arena);
    for (unsigned i = 0; i < COMMANDS_MAX && reader_left(&reader) > 0; i++) {
        struct command command;
        struct outcome outcome;
        size_t start = reader.position;
        if (command_decode(&reader, &arena, &command) != STATUS_OK) {
            break;
        }
        again.size = 0;
        command_encode(&again, &command);
        assert(again.size == reader.position - start);
        assert(memcmp(again.data, data + start, again.size) == 0);
        if (command_check(&command) != STATUS_OK || !state_machine_knows(machine, &command)) {
            continue;
        }
        state_machine_apply(machine, &command, &context, &arena, &outcome);
        assert(outcome.status < STATUS_COUNT);
        assert(outcome.revision == key_store_revision(state_machine_keys(machine)));
        key_store_validate(state_machine_keys(machine));
        lease_table_validate(state_machine_leases(machine));
        watch_hub_publish(state_machine_watches(machine));
        key_store_reclaim(state_machine_keys(machine), 1);
        arena_reset(&arena);
        context.now_ms += 100;
    }
    buffer_clear(&again);
    arena_clear(&arena);
    state_machine_destroy(machine);
    return 0;
}
