/* What the rules of the native API are given, and what its decoders read. The first byte
 * chooses. */
#include "core/cluster_version.h"
#include "core/state_machine.h"
#include "doors/native/native_keys.h"
#include "doors/native/native_rules.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { SESSION_ID = 1, RECORDS = 6 };

static void apply(struct state_machine *machine, struct arena *arena, uint32_t number,
                  struct bytes request) {
    const struct apply_context context = {.term = 1};
    const struct command command = {.type = COMMAND_RULE,
                                    .rule = {.number = number, .request = request}};
    struct outcome outcome;
    state_machine_apply(machine, &command, &context, arena, &outcome);
}

/* A session with a lock, and a pool. */
static struct state_machine *begin(struct arena *arena) {
    static const struct rule_set set = {native_rules, NATIVE_N_RULES};
    const struct command raise = {.type = COMMAND_CLUSTER_VERSION,
                                  .cluster_version = {.version = CLUSTER_VERSION_RULES}};
    const struct apply_context context = {.term = 1};
    struct state_machine *machine =
        state_machine_create(&(struct state_machine_options){.rules = &set});
    struct outcome outcome;
    struct buffer request;
    state_machine_apply(machine, &raise, &context, arena, &outcome);
    buffer_init(&request);
    native_session_create_encode(
        &request, &(struct native_session_create){
                      .owner = bytes_from_text("o"), .id = SESSION_ID, .ttl_ms = 60000});
    apply(machine, arena, NATIVE_RULE_SESSION_CREATE, bytes_of(request.data, request.size));
    request.size = 0;
    native_acquire_encode(&request,
                          &(struct native_acquire){.session_id = SESSION_ID,
                                                   .n_wants = 1,
                                                   .wants = {{.name = bytes_from_text("lock")}}});
    apply(machine, arena, NATIVE_RULE_ACQUIRE, bytes_of(request.data, request.size));
    request.size = 0;
    struct bytes slots[] = {bytes_from_text("0"), bytes_from_text("1")};
    native_pool_set_encode(&request,
                           &(struct native_pool_set){.name = bytes_from_text("pool"),
                                                     .pool = {.n_slots = 2, .slots = slots}});
    apply(machine, arena, NATIVE_RULE_POOL_SET, bytes_of(request.data, request.size));
    buffer_clear(&request);
    return machine;
}

/* Whatever the bytes are, the structures stay sound, and what they left can be ended. */
static void try_rule(uint32_t number, struct bytes request) {
    struct arena arena;
    struct buffer end;
    arena_init(&arena);
    buffer_init(&end);
    struct state_machine *machine = begin(&arena);
    apply(machine, &arena, number, request);
    apply(machine, &arena, number, request);
    native_session_end_encode(&end, &(struct native_session_end){.session_id = SESSION_ID});
    apply(machine, &arena, NATIVE_RULE_SESSION_END, bytes_of(end.data, end.size));
    key_store_validate(state_machine_keys(machine));
    lease_table_validate(state_machine_leases(machine));
    buffer_clear(&end);
    arena_clear(&arena);
    state_machine_destroy(machine);
}

static void try_decoder(unsigned which, struct bytes value) {
    struct arena arena;
    struct native_session session;
    struct native_acquisition acquisition;
    struct native_pool pool;
    struct native_ended ended;
    struct native_pool_waiter waiter;
    struct native_taken taken;
    arena_init(&arena);
    switch (which) {
    case 0:
        (void)native_session_decode(value, &session);
        break;
    case 1:
        (void)native_acquisition_decode(value, &arena, &acquisition);
        break;
    case 2:
        (void)native_pool_decode(value, &arena, &pool);
        break;
    case 3:
        (void)native_ended_decode(value, &arena, &ended);
        break;
    case 4:
        (void)native_pool_waiter_decode(value, &waiter);
        break;
    default:
        (void)native_taken_decode(value, &taken);
        break;
    }
    arena_clear(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    unsigned which = data[0] % (NATIVE_N_RULES + RECORDS);
    struct bytes rest = bytes_of(data + 1, size - 1);
    if (which < NATIVE_N_RULES) {
        try_rule(NATIVE_RULE_SESSION_CREATE + which, rest);
    } else {
        try_decoder(which - NATIVE_N_RULES, rest);
    }
    return 0;
}
