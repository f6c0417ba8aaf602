#include "doors/native/native_grant_rules.h"

#include "doors/native/native_rules.h"

#include <assert.h>

/* What is looked at and changed, at most, for one acquisition of so many wants and slots. */
enum {
    RECORDS_A_GRANT = 32,
    RECORDS_A_WANT = 64,
    RECORDS_A_SLOT = 8,
    CHANGES_A_GRANT = 4,
    CHANGES_A_WANT = 2,
    BYTES_A_GRANT = 8192,
    BYTES_A_WANT = 1024,
    BYTES_A_SLOT = 1024, /* the key, with the name of the pool, and its part of the record */
    WAITERS_A_BATCH = 64,
    /* Slots of the pools that one run reads: a pool is one record, however many it has. Some ten
     * milliseconds; more than the pools of one acquisition have, so that each run gets further. */
    SLOTS_READ_MAX = 64 * NATIVE_POOL_SLOTS_MAX
};
static_assert(SLOTS_READ_MAX >= 2 * NATIVE_WANTS_MAX * NATIVE_POOL_SLOTS_MAX,
              "a run can read the pools of any acquisition");

static size_t slots_wanted(const struct native_acquisition *acquisition) {
    size_t n = 0;
    for (size_t i = 0; i < acquisition->n_wants; i++) {
        n += acquisition->wants[i].n_slots;
    }
    return n;
}

static size_t records_for(size_t n_wants, size_t n_slots) {
    return RECORDS_A_GRANT + RECORDS_A_WANT * n_wants + RECORDS_A_SLOT * n_slots;
}

static bool has_room(const struct native_work *work, size_t n_wants, size_t n_slots) {
    return native_work_has_room(work, records_for(n_wants, n_slots),
                                CHANGES_A_GRANT + CHANGES_A_WANT * n_wants + n_slots,
                                BYTES_A_GRANT + BYTES_A_WANT * n_wants + BYTES_A_SLOT * n_slots);
}

/* --- Whether it fits. --- */

static bool is_empty(struct native_work *work, const struct key_range *range) {
    int64_t ignored;
    return !native_work_first(work, range, &ignored);
}

static bool resource_fits(struct native_work *work, const struct native_want *want, int64_t id) {
    struct arena *arena = work->arena;
    struct key_range holders = want->mode == NATIVE_SHARED
                                   ? native_holders_of(arena, want->name, NATIVE_EXCLUSIVE)
                                   : native_holders(arena, want->name);
    struct key_range exclusive =
        native_waiters_between(arena, want->name, NATIVE_EXCLUSIVE, INT64_MIN, id);
    if (!is_empty(work, &holders) || !is_empty(work, &exclusive)) {
        return false;
    }
    struct key_range shared =
        native_waiters_between(arena, want->name, NATIVE_SHARED, INT64_MIN, id);
    return want->mode == NATIVE_SHARED || is_empty(work, &shared);
}

/* Leaves room for a grant of so much. */
static enum native_pool_load load(struct native_work *work, struct native_pool_state *state,
                                  size_t n_wants, size_t n_slots) {
    if (state->is_loaded) {
        return NATIVE_POOL_LOADED;
    }
    if (work->n_slots_read >= SLOTS_READ_MAX) {
        return NATIVE_POOL_TOO_MUCH;
    }
    enum native_pool_load result = native_pool_state_load(
        state, work->run, native_work_records_kept() + records_for(n_wants, n_slots));
    work->n_slots_read += result == NATIVE_POOL_LOADED ? state->config.n_slots : 0;
    return result;
}

static bool pool_fits(struct native_work *work, const struct native_acquisition *acquisition,
                      const struct native_want *want) {
    struct native_pool_state *state = native_work_pool(work, want->name);
    switch (load(work, state, acquisition->n_wants, slots_wanted(acquisition))) {
    case NATIVE_POOL_LOADED:
        return native_pool_state_fits(state, acquisition->id);
    case NATIVE_POOL_TOO_MUCH:
        state->is_unsettled = true;
        return false;
    case NATIVE_POOL_MISSING:
        break;
    }
    return false;
}

bool native_grant_fits(struct native_work *work, const struct native_acquisition *acquisition) {
    bool fits = true;
    for (size_t i = 0; i < acquisition->n_wants && fits; i++) {
        const struct native_want *want = &acquisition->wants[i];
        fits = want->is_pool ? pool_fits(work, acquisition, want)
                             : resource_fits(work, want, acquisition->id);
    }
    return fits;
}

/* --- Granting. --- */

static void put(struct native_work *work, struct bytes key, struct bytes value, int64_t lease_id) {
    (void)rule_put(work->run, KEY_SPACE_NATIVE, key, value, lease_id);
}

static void remove_key(struct native_work *work, struct bytes key) {
    (void)rule_delete(work->run, KEY_SPACE_NATIVE, key);
}

void native_grant_write(struct native_work *work, const struct native_acquisition *acquisition) {
    struct buffer value;
    buffer_init(&value);
    native_acquisition_encode(&value, acquisition);
    (void)rule_put(work->run, KEY_SPACE_NATIVE_RECORDS,
                   native_key_acquisition(work->arena, acquisition->id),
                   bytes_of(value.data, value.size), acquisition->session_id);
    buffer_clear(&value);
}

static void put_taken(struct native_work *work, const struct native_acquisition *acquisition,
                      const struct native_slot *slot) {
    struct buffer value;
    const struct native_taken taken = {.acquisition_id = acquisition->id,
                                       .owner = acquisition->owner};
    buffer_init(&value);
    native_taken_encode(&value, &taken);
    put(work, native_key_taken(work->arena, acquisition->wants[slot->want].name, slot->name),
        bytes_of(value.data, value.size), acquisition->session_id);
    buffer_clear(&value);
}

/* The first free slots of its pools. */
static void choose_slots(struct native_work *work, struct native_acquisition *acquisition) {
    acquisition->slots =
        arena_alloc(work->arena, slots_wanted(acquisition) * sizeof acquisition->slots[0]);
    for (size_t i = 0; i < acquisition->n_wants; i++) {
        const struct native_want *want = &acquisition->wants[i];
        if (!want->is_pool) {
            continue;
        }
        struct native_pool_state *state = native_work_pool(work, want->name);
        assert(state->is_loaded);
        for (size_t n = 0; n < want->n_slots; n++) {
            size_t slot = native_pool_state_take(state, acquisition->owner);
            acquisition->slots[acquisition->n_slots++] =
                (struct native_slot){.want = (uint32_t)i, .name = state->config.slots[slot]};
        }
    }
}

static void limit(int64_t *limit_ms, int64_t other_ms) {
    if (other_ms > 0 && (*limit_ms == 0 || other_ms < *limit_ms)) {
        *limit_ms = other_ms;
    }
}

struct bytes native_hold_limit_request(struct arena *arena, int64_t acquisition_id) {
    return native_key_acquisition(arena, acquisition_id);
}

/* A lease under that of the session, which nobody renews. */
static void begin_hold_limit(struct native_work *work, struct native_acquisition *acquisition) {
    if (acquisition->hold_limit_ms == 0) {
        return;
    }
    const struct rule_lease lease = {.ttl_ms = acquisition->hold_limit_ms,
                                     .parent_id = acquisition->session_id,
                                     .class = NATIVE_CLASS_HOLD_LIMIT};
    if (rule_lease_grant(work->run, &lease, &acquisition->hold_lease_id) == STATUS_OK) {
        (void)rule_on_lease_end(work->run, acquisition->hold_lease_id, NATIVE_RULE_HOLD_LIMIT,
                                native_hold_limit_request(work->arena, acquisition->id));
    }
}

static void leave_pool(struct native_work *work, const struct native_acquisition *acquisition,
                       const struct native_want *want) {
    remove_key(work, native_key_pool_waiter(work->arena, want->name, acquisition->id));
    struct native_pool_state *state = native_work_pool(work, want->name);
    if (state->is_loaded) {
        native_pool_state_leave(state, acquisition->id);
    }
}

static int64_t hold_limit_of(struct native_work *work, const struct native_pool_state *state) {
    struct native_pool config;
    if (state->is_loaded) {
        return state->config.hold_limit_ms;
    }
    const struct record *record =
        rule_get(work->run, KEY_SPACE_NATIVE, native_key_pool(work->arena, state->name));
    return record != NULL && native_pool_decode(record_value(record), work->arena, &config)
               ? config.hold_limit_ms
               : 0;
}

/* Whoever comes after it in a pool may be next now. */
static void hold_wants(struct native_work *work, struct native_acquisition *acquisition) {
    struct arena *arena = work->arena;
    for (size_t i = 0; i < acquisition->n_wants; i++) {
        const struct native_want *want = &acquisition->wants[i];
        if (want->is_pool) {
            struct native_pool_state *state = native_work_pool(work, want->name);
            leave_pool(work, acquisition, want);
            limit(&acquisition->hold_limit_ms, hold_limit_of(work, state));
            state->is_unsettled = true;
        } else {
            remove_key(work, native_key_waiter(arena, want->name, want->mode, acquisition->id));
            put(work, native_key_holder(arena, want->name, want->mode, acquisition->id),
                bytes_of(NULL, 0), acquisition->session_id);
        }
    }
}

void native_grant(struct native_work *work, struct native_acquisition *acquisition,
                  const struct native_slot *slots, size_t n_slots) {
    hold_wants(work, acquisition);
    acquisition->n_slots = 0;
    if (slots == NULL) {
        choose_slots(work, acquisition);
    } else {
        acquisition->slots = arena_copy(work->arena, slots, n_slots * sizeof slots[0]);
        acquisition->n_slots = n_slots;
    }
    for (size_t i = 0; i < acquisition->n_slots; i++) {
        put_taken(work, acquisition, &acquisition->slots[i]);
    }
    begin_hold_limit(work, acquisition);
    acquisition->stage = NATIVE_ACQUIRED;
    acquisition->token = rule_revision(work->run);
    acquisition->acquired_wall_ms = rule_wall_ms(work->run);
    native_grant_write(work, acquisition);
}

void native_grant_queue(struct native_work *work, const struct native_acquisition *acquisition) {
    for (size_t i = 0; i < acquisition->n_wants; i++) {
        const struct native_want *want = &acquisition->wants[i];
        if (!want->is_pool) {
            put(work, native_key_waiter(work->arena, want->name, want->mode, acquisition->id),
                bytes_of(NULL, 0), acquisition->session_id);
            continue;
        }
        const struct native_pool_waiter waiter = {.n_slots = want->n_slots,
                                                  .waits_for_pool_alone = acquisition->n_wants == 1,
                                                  .owner = acquisition->owner};
        struct buffer value;
        buffer_init(&value);
        native_pool_waiter_encode(&value, &waiter);
        put(work, native_key_pool_waiter(work->arena, want->name, acquisition->id),
            bytes_of(value.data, value.size), acquisition->session_id);
        buffer_clear(&value);
    }
    native_grant_write(work, acquisition);
}

void native_grant_put_request(struct native_work *work,
                              const struct native_acquisition *acquisition) {
    uint8_t value[8];
    for (size_t i = 0; i < sizeof value; i++) {
        value[i] = (uint8_t)((uint64_t)acquisition->id >> (56 - 8 * i));
    }
    (void)rule_put(work->run, KEY_SPACE_NATIVE_RECORDS,
                   native_key_request(work->arena, acquisition->session_id, acquisition->request_id,
                                      acquisition->wants, acquisition->n_wants),
                   bytes_of(value, sizeof value), acquisition->session_id);
}

/* --- Taking away. --- */

static void end_hold_limit(struct native_work *work, const struct native_acquisition *acquisition) {
    struct lease_facts facts;
    if (acquisition->hold_lease_id == 0 ||
        !rule_lease_find(work->run, acquisition->hold_lease_id, &facts)) {
        return;
    }
    (void)rule_cancel_on_lease_end(work->run, acquisition->hold_lease_id, NATIVE_RULE_HOLD_LIMIT,
                                   native_hold_limit_request(work->arena, acquisition->id));
    (void)rule_lease_end(work->run, acquisition->hold_lease_id, LEASE_END_REVOKED);
}

void native_grant_remove(struct native_work *work, const struct native_acquisition *acquisition) {
    struct arena *arena = work->arena;
    bool is_held = acquisition->stage == NATIVE_ACQUIRED;
    for (size_t i = 0; i < acquisition->n_wants; i++) {
        const struct native_want *want = &acquisition->wants[i];
        if (!want->is_pool) {
            remove_key(work,
                       is_held ? native_key_holder(arena, want->name, want->mode, acquisition->id)
                               : native_key_waiter(arena, want->name, want->mode, acquisition->id));
        } else if (!is_held) {
            leave_pool(work, acquisition, want);
        }
        native_work_touch(work, want);
    }
    for (size_t i = 0; i < acquisition->n_slots; i++) {
        const struct native_slot *slot = &acquisition->slots[i];
        remove_key(work, native_key_taken(arena, acquisition->wants[slot->want].name, slot->name));
    }
    end_hold_limit(work, acquisition);
    (void)rule_delete(work->run, KEY_SPACE_NATIVE_RECORDS,
                      native_key_request(arena, acquisition->session_id, acquisition->request_id,
                                         acquisition->wants, acquisition->n_wants));
    (void)rule_delete(work->run, KEY_SPACE_NATIVE_RECORDS,
                      native_key_acquisition(arena, acquisition->id));
}

/* --- What has become free. --- */

enum attempt { GRANTED, WAITS, NO_ROOM };

/* A place whose acquisition cannot be read is nobody's. */
static enum attempt try_grant(struct native_work *work, int64_t id, struct bytes place) {
    struct native_acquisition acquisition;
    if (!has_room(work, 1, 0)) {
        return NO_ROOM;
    }
    if (!native_work_find(work, id, &acquisition) || acquisition.stage != NATIVE_QUEUED) {
        remove_key(work, place);
        return GRANTED;
    }
    if (!has_room(work, acquisition.n_wants, slots_wanted(&acquisition))) {
        return NO_ROOM;
    }
    if (!native_grant_fits(work, &acquisition)) {
        return WAITS;
    }
    native_grant(work, &acquisition, NULL, 0);
    return GRANTED;
}

struct batch {
    int64_t ids[WAITERS_A_BATCH];
    size_t n;
};

static bool add_to_batch(void *context, const struct record *record) {
    struct batch *batch = context;
    batch->ids[batch->n++] = native_key_read(record).id;
    return batch->n < WAITERS_A_BATCH;
}

/* Shared waiters that are before the first exclusive one. False: no room. */
static bool settle_shared(struct native_work *work, struct native_queue *queue, int64_t before) {
    struct batch batch;
    do {
        batch.n = 0;
        if (!native_work_has_room(work, 4 * WAITERS_A_BATCH, 0, 0)) {
            return false;
        }
        struct key_range range =
            native_waiters_between(work->arena, queue->name, NATIVE_SHARED, queue->after, before);
        (void)rule_visit(work->run, range.space, range.key, range.range_end, add_to_batch, &batch);
        for (size_t i = 0; i < batch.n; i++) {
            struct bytes place =
                native_key_waiter(work->arena, queue->name, NATIVE_SHARED, batch.ids[i]);
            if (try_grant(work, batch.ids[i], place) == NO_ROOM) {
                return false;
            }
            queue->after = batch.ids[i];
        }
    } while (batch.n == WAITERS_A_BATCH);
    return true;
}

bool native_grant_settle_queue(struct native_work *work, struct native_queue *queue) {
    struct arena *arena = work->arena;
    struct key_range holders = native_holders_of(arena, queue->name, NATIVE_EXCLUSIVE);
    struct key_range exclusive = native_waiters_of(arena, queue->name, NATIVE_EXCLUSIVE);
    enum attempt attempt = GRANTED;
    while (attempt == GRANTED) {
        int64_t first = INT64_MAX;
        if (!native_work_has_room(work, RECORDS_A_WANT, 0, 0)) {
            return false;
        }
        if (!is_empty(work, &holders)) {
            return true;
        }
        bool has_exclusive = native_work_first(work, &exclusive, &first);
        if (!settle_shared(work, queue, first)) {
            return false;
        }
        /* Whether anybody holds it or waits before is asked there. */
        attempt = has_exclusive
                      ? try_grant(work, first,
                                  native_key_waiter(arena, queue->name, NATIVE_EXCLUSIVE, first))
                      : WAITS;
    }
    return attempt != NO_ROOM;
}

bool native_grant_settle_pool(struct native_work *work, struct native_pool_state *state) {
    enum attempt attempt = GRANTED;
    while (attempt == GRANTED) {
        if (!has_room(work, 1, 0)) {
            return false;
        }
        switch (load(work, state, 1, 0)) {
        case NATIVE_POOL_MISSING:
            return true;
        case NATIVE_POOL_TOO_MUCH:
            return false;
        case NATIVE_POOL_LOADED:
            break;
        }
        const struct native_pool_place *first = native_pool_state_first(state);
        if (first == NULL || first->n_slots > state->n_free) {
            return true;
        }
        int64_t id = first->id;
        attempt = try_grant(work, id, native_key_pool_waiter(work->arena, state->name, id));
        if (attempt == GRANTED) {
            native_pool_state_leave(state, id);
        }
    }
    return attempt != NO_ROOM;
}
