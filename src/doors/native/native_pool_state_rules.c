#include "doors/native/native_pool_state_rules.h"

#include "doors/native/native_keys.h"

#include <assert.h>
#include <stdlib.h>

/* What a record may cost that is looked at while a family of leases ends. */
enum { RECORDS_A_VISIT = 4 };

static int compare_bytes(const void *a, const void *b) {
    return bytes_compare(*(const struct bytes *)a, *(const struct bytes *)b);
}

/* --- Gathering. --- */

struct gathering {
    struct rule_run *run;
    struct native_pool_state *state;
    struct bytes *owners; /* of each slot that is taken, then of each place */
    size_t n_taken;
    size_t n_passed; /* of the slots by name: before the one that was seen last as taken */
    size_t capacity; /* of owners */
    size_t places_capacity;
    size_t records_kept;
    bool is_too_much;
};

static void *grown(struct arena *arena, void *array, size_t n, size_t *capacity, size_t size) {
    if (n < *capacity) {
        return array;
    }
    size_t larger = *capacity == 0 ? 16 : *capacity * 2;
    uint8_t *copy = arena_alloc(arena, larger * size);
    if (n > 0) {
        memcpy(copy, array, n * size);
    }
    *capacity = larger;
    return copy;
}

static bool note_room(struct gathering *gathering) {
    gathering->is_too_much =
        gathering->is_too_much ||
        rule_records_left(gathering->run) < gathering->records_kept + RECORDS_A_VISIT;
    return !gathering->is_too_much;
}

static void add_owner(struct gathering *gathering, size_t at, struct bytes owner) {
    gathering->owners = grown(rule_arena(gathering->run), gathering->owners, at,
                              &gathering->capacity, sizeof gathering->owners[0]);
    gathering->owners[at] = owner;
}

/* The slot of that name, or NULL. Names come in their order. */
static struct bytes *find_slot(struct gathering *gathering, struct bytes name) {
    const struct native_pool *config = &gathering->state->config;
    while (gathering->n_passed < config->n_slots) {
        struct bytes *slot = config->sorted[gathering->n_passed];
        int order = bytes_compare(*slot, name);
        if (order >= 0) {
            return order == 0 ? slot : NULL;
        }
        gathering->n_passed++;
    }
    return NULL;
}

static bool gather_taken(void *context, const struct record *record) {
    struct gathering *gathering = context;
    struct native_pool_state *state = gathering->state;
    struct native_key key = native_key_read(record);
    struct native_taken taken;
    if (key.kind == NATIVE_KEY_TAKEN && native_taken_decode(record_value(record), &taken)) {
        add_owner(gathering, gathering->n_taken++, taken.owner);
        struct bytes *slot = find_slot(gathering, key.slot);
        if (slot != NULL) {
            state->is_taken[slot - state->config.slots] = true;
            state->n_free--;
        }
    }
    return note_room(gathering);
}

static bool gather_place(void *context, const struct record *record) {
    struct gathering *gathering = context;
    struct native_pool_state *state = gathering->state;
    struct native_key key = native_key_read(record);
    struct native_pool_waiter waiter;
    if (key.kind == NATIVE_KEY_POOL_WAITER &&
        native_pool_waiter_decode(record_value(record), &waiter)) {
        add_owner(gathering, gathering->n_taken + state->n_places, waiter.owner);
        state->places = grown(rule_arena(gathering->run), state->places, state->n_places,
                              &gathering->places_capacity, sizeof state->places[0]);
        state->places[state->n_places++] =
            (struct native_pool_place){.id = key.id,
                                       .n_slots = waiter.n_slots,
                                       .waits_for_pool_alone = waiter.waits_for_pool_alone,
                                       .owner_name = waiter.owner};
    }
    return note_room(gathering);
}

/* --- Owners. --- */

static uint32_t weight_of(const struct native_pool *config, struct bytes owner) {
    size_t low = 0;
    size_t high = config->n_shares; /* by owner: see run_pool_set() */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int order = bytes_compare(config->shares[middle].owner, owner);
        if (order == 0) {
            return config->shares[middle].weight;
        }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return 1;
}

static size_t seek_owner(const struct native_pool_state *state, struct bytes name) {
    size_t low = 0;
    size_t high = state->n_owners;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (bytes_compare(state->owners[middle].name, name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool is_owner(const struct native_pool_state *state, size_t at, struct bytes name) {
    return at < state->n_owners && bytes_equal(state->owners[at].name, name);
}

/* Room for one more is left: native_pool_state_join() may bring a new one. */
static void make_owners(struct gathering *gathering) {
    struct native_pool_state *state = gathering->state;
    struct arena *arena = rule_arena(gathering->run);
    size_t n = gathering->n_taken + state->n_places;
    size_t n_sorted = 0;
    struct bytes *sorted = arena_alloc(arena, (n + 1) * sizeof sorted[0]);
    for (size_t i = 0; i < n; i++) {
        /* Slots of one acquisition have one owner. */
        if (i == 0 || !bytes_equal(gathering->owners[i - 1], gathering->owners[i])) {
            sorted[n_sorted++] = gathering->owners[i];
        }
    }
    qsort(sorted, n_sorted, sizeof sorted[0], compare_bytes);
    state->owners = arena_alloc(arena, (n_sorted + 1) * sizeof state->owners[0]);
    for (size_t i = 0; i < n_sorted; i++) {
        if (i == 0 || !bytes_equal(sorted[i - 1], sorted[i])) {
            state->owners[state->n_owners++] = (struct native_pool_owner){
                .name = sorted[i], .weight = weight_of(&state->config, sorted[i])};
        }
    }
    for (size_t i = 0; i < gathering->n_taken; i++) {
        state->owners[seek_owner(state, gathering->owners[i])].n_held++;
    }
    for (size_t i = 0; i < state->n_places; i++) {
        size_t owner = seek_owner(state, state->places[i].owner_name);
        state->places[i].owner = owner;
        state->owners[owner].n_waiting++;
    }
}

enum native_pool_load native_pool_state_load(struct native_pool_state *state, struct rule_run *run,
                                             size_t records_kept) {
    struct arena *arena = rule_arena(run);
    struct gathering gathering = {.run = run, .state = state, .records_kept = records_kept};
    if (state->is_loaded) {
        return NATIVE_POOL_LOADED;
    }
    if (!note_room(&gathering)) {
        return NATIVE_POOL_TOO_MUCH;
    }
    const struct record *record =
        rule_get(run, KEY_SPACE_NATIVE, native_key_pool(arena, state->name));
    struct native_pool config;
    if (record == NULL || !native_pool_decode(record_value(record), arena, &config)) {
        return NATIVE_POOL_MISSING;
    }
    *state = (struct native_pool_state){.next = state->next,
                                        .name = state->name,
                                        .is_unsettled = state->is_unsettled,
                                        .config = config,
                                        .n_free = config.n_slots};
    state->is_taken = arena_calloc(arena, config.n_slots, sizeof state->is_taken[0]);
    struct key_range taken = native_taken_slots(arena, state->name);
    struct key_range places = native_pool_waiters(arena, state->name);
    if (note_room(&gathering)) {
        (void)rule_visit(run, taken.space, taken.key, taken.range_end, gather_taken, &gathering);
    }
    if (note_room(&gathering)) {
        (void)rule_visit(run, places.space, places.key, places.range_end, gather_place, &gathering);
    }
    rule_add_work(run,
                  NATIVE_POOL_WORK_A_SLOT * (config.n_slots + gathering.n_taken + state->n_places));
    if (gathering.is_too_much) {
        return NATIVE_POOL_TOO_MUCH;
    }
    make_owners(&gathering);
    state->is_loaded = true;
    return NATIVE_POOL_LOADED;
}

void native_pool_state_join(struct native_pool_state *state, struct arena *arena, int64_t id,
                            const struct native_pool_waiter *waiter) {
    assert(state->is_loaded);
    size_t at = seek_owner(state, waiter->owner);
    if (!is_owner(state, at, waiter->owner)) {
        memmove(state->owners + at + 1, state->owners + at,
                (state->n_owners - at) * sizeof state->owners[0]);
        state->owners[at] = (struct native_pool_owner){
            .name = waiter->owner, .weight = weight_of(&state->config, waiter->owner)};
        state->n_owners++;
        for (size_t i = 0; i < state->n_places; i++) {
            state->places[i].owner += state->places[i].owner >= at;
        }
    }
    state->owners[at].n_waiting++;
    struct native_pool_place *places = arena_alloc(arena, (state->n_places + 1) * sizeof places[0]);
    if (state->n_places > 0) {
        memcpy(places, state->places, state->n_places * sizeof places[0]);
    }
    places[state->n_places++] =
        (struct native_pool_place){.id = id,
                                   .n_slots = waiter->n_slots,
                                   .waits_for_pool_alone = waiter->waits_for_pool_alone,
                                   .owner_name = waiter->owner,
                                   .owner = at};
    state->places = places;
}

/* --- The order. --- */

static uint64_t sum_of_weights(const struct native_pool_state *state) {
    uint64_t sum = 0;
    for (size_t i = 0; i < state->n_owners; i++) {
        if (state->owners[i].n_held > 0 || state->owners[i].n_waiting > 0) {
            sum += state->owners[i].weight;
        }
    }
    return sum;
}

static bool is_below_share(const struct native_pool_state *state, uint64_t sum, size_t owner) {
    const struct native_pool_owner *of = &state->owners[owner];
    uint64_t share = sum == 0 ? 0 : (uint64_t)state->config.n_slots * of->weight / sum;
    return of->n_held < (share > 0 ? share : 1);
}

const struct native_pool_place *native_pool_state_first(const struct native_pool_state *state) {
    const struct native_pool_place *oldest = NULL;
    uint64_t sum = sum_of_weights(state);
    for (size_t i = 0; i < state->n_places; i++) {
        const struct native_pool_place *place = &state->places[i];
        /* More than there are, since the pool was made smaller: it waits until it is larger, and
         * holds nobody back. */
        if (place->is_gone || place->n_slots > state->config.n_slots) {
            continue;
        }
        if (place->waits_for_pool_alone && is_below_share(state, sum, place->owner)) {
            return place;
        }
        oldest = oldest == NULL ? place : oldest;
    }
    return oldest;
}

bool native_pool_state_fits(const struct native_pool_state *state, int64_t id) {
    const struct native_pool_place *first = native_pool_state_first(state);
    return first != NULL && first->id == id && first->n_slots <= state->n_free;
}

/* --- Changes. --- */

void native_pool_state_leave(struct native_pool_state *state, int64_t id) {
    for (size_t i = 0; i < state->n_places; i++) {
        if (state->places[i].id == id && !state->places[i].is_gone) {
            state->places[i].is_gone = true;
            state->owners[state->places[i].owner].n_waiting--;
        }
    }
}

size_t native_pool_state_take(struct native_pool_state *state, struct bytes owner) {
    size_t slot = 0;
    size_t at = seek_owner(state, owner);
    while (slot < state->config.n_slots && state->is_taken[slot]) {
        slot++;
    }
    assert(slot < state->config.n_slots);
    assert(is_owner(state, at, owner));
    state->is_taken[slot] = true;
    state->n_free--;
    state->owners[at].n_held++;
    return slot;
}
