/*
 * Snapshots. The checksum is put right first, so that what lies behind it is reached. What is
 * refused changes nothing; what is taken must be sound, must give the same bytes again, and must
 * survive the end of every lease.
 */
#include "base/crc32.h"
#include "core/state_machine.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { MAGIC_AND_VERSION_SIZE = 12, CHECKSUM_SIZE = 4, LEASES_ENDED_MAX = 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void validate(struct state_machine *machine) {
    key_store_validate(state_machine_keys(machine));
    lease_table_validate(state_machine_leases(machine));
    watch_hub_validate(state_machine_watches(machine));
}

static void take(struct state_machine *machine, struct buffer *buffer) {
    struct snapshot_view *view = snapshot_view_open(machine);
    snapshot_view_write(view, buffer);
    snapshot_view_close(view);
}

static void use(struct state_machine *machine) {
    struct apply_context context = {.term = 1};
    struct arena arena;
    arena_init(&arena);
    size_t n;
    int64_t *ids = lease_table_ids(state_machine_leases(machine), &n);
    lease_table_lead(state_machine_leases(machine), 0);
    for (size_t i = 0; i < n && i < LEASES_ENDED_MAX; i++) {
        struct command command = {.type = COMMAND_LEASE_REVOKE, .revoke = {.id = ids[i]}};
        struct outcome outcome;
        /* The revisions of a store that was all but full cannot go up any more. */
        if (key_store_revision(state_machine_keys(machine)) > INT64_MAX - 1000) {
            break;
        }
        state_machine_apply(machine, &command, &context, &arena, &outcome);
    }
    validate(machine);
    free(ids);
    arena_clear(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct buffer snapshot;
    struct buffer again;
    buffer_init(&snapshot);
    buffer_init(&again);
    buffer_append(&snapshot, data, size > CHECKSUM_SIZE ? size - CHECKSUM_SIZE : 0);
    buffer_put_u32(&snapshot, crc32c(0, snapshot.data, snapshot.size));
    struct state_machine *machine = state_machine_create(NULL);
    enum status status = state_machine_restore(machine, bytes_of(snapshot.data, snapshot.size));
    validate(machine);
    if (status == STATUS_OK) {
        take(machine, &again);
        /* What an older version wrote is written anew as we do it today. */
        if (memcmp(again.data, snapshot.data, MAGIC_AND_VERSION_SIZE) == 0) {
            assert(again.size == snapshot.size);
            assert(memcmp(again.data, snapshot.data, again.size) == 0);
        }
        use(machine);
    } else {
        assert(status == STATUS_CORRUPT || status == STATUS_UNSUPPORTED);
        assert(key_store_revision(state_machine_keys(machine)) == 1);
        assert(lease_table_count(state_machine_leases(machine)) == 0);
    }
    state_machine_destroy(machine);
    buffer_clear(&snapshot);
    buffer_clear(&again);
    return 0;
}
