/*
 * Random requests of the native API against a plain list of who has and wants what
 * (native_reference.h), on two machines: one that lives through everything, one that is restored
 * from snapshots now and then. Both must be equal to the byte. After every step exactly those hold
 * what the reference says: never two holders, never a slot twice, all or nothing, nobody forgotten
 * who could be granted, the order kept, and tokens that grow. Fences refuse what is older than
 * what they have seen, and nothing else. The seed is printed; give it as the
 * first argument to replay a run.
 */
#include "../storage/thorough.h"
#include "doors/native/native_keys.h"
#include "doors/native/native_rules.h"
#include "model_machines.h"
#include "model_random.h"
#include "native_reference.h"

#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 1500, ROUNDS = THOROUGH(12), TTL_MS = 60 * 1000, OWNERS = 4, SESSIONS = 10 };

static const char *const resource_names[REF_RESOURCES] = {"a", "ab", "b", "c"};
static const char *const pool_names[REF_POOLS] = {"gpus", "a"};
static const char *const owner_names[OWNERS] = {"n", "o", "pp", "q"};
static const char *const slot_names[REF_SLOTS] = {"4", "1", "x", "10", "2"};

static struct ref ref;
static int64_t newest_token[REF_RESOURCES];
static int64_t highest_seen[REF_RESOURCES]; /* by the fences */
static int64_t last_revision;

/* --- What is there. --- */

static const struct record *find(struct key_space_id space, struct bytes key) {
    return key_store_find(state_machine_keys(machine), space, key);
}

static struct bytes name_of(const struct ref_want *want) {
    return bytes_from_text(want->is_pool ? pool_names[want->thing] : resource_names[want->thing]);
}

static bool stored(int64_t id, struct native_acquisition *out) {
    const struct record *record =
        find(KEY_SPACE_NATIVE_RECORDS, native_key_acquisition(&arena, id));
    return record != NULL && native_acquisition_decode(record_value(record), &arena, out);
}

static void check_holds(const struct ref_acquisition *a, const struct native_acquisition *real,
                        size_t *n_keys) {
    size_t n_slots = 0;
    for (size_t w = 0; w < a->n_wants; w++) {
        struct bytes name = name_of(&a->wants[w]);
        enum native_mode mode = a->wants[w].is_shared ? NATIVE_SHARED : NATIVE_EXCLUSIVE;
        for (size_t s = 0; a->wants[w].is_pool && s < REF_SLOTS; s++) {
            if ((a->slots[w] >> s & 1) != 0) {
                const struct record *slot =
                    find(KEY_SPACE_NATIVE,
                         native_key_taken(&arena, name, bytes_from_text(slot_names[s])));
                struct native_taken taken;
                assert(slot != NULL && slot->create_revision == real->token);
                assert(native_taken_decode(record_value(slot), &taken));
                assert(taken.acquisition_id == a->id);
                n_slots++;
            }
        }
        if (!a->wants[w].is_pool) {
            const struct record *holder =
                find(KEY_SPACE_NATIVE, native_key_holder(&arena, name, mode, a->id));
            assert(holder != NULL && holder->create_revision == real->token);
            assert(holder->lease_id == ref.sessions[a->session].id);
            (*n_keys)++;
        }
    }
    assert(real->n_slots == n_slots);
    *n_keys += n_slots;
}

/* A new token is that of this step, and greater than all that the resource has given before. */
static void check_token(const struct ref_acquisition *a, const struct native_acquisition *real) {
    for (size_t w = 0; w < a->n_wants; w++) {
        if (!a->wants[w].is_pool && real->token > last_revision) {
            size_t resource = a->wants[w].thing;
            /* Shared ones may be granted by several runs of one step, and come here in any order.
             */
            assert(a->wants[w].is_shared || real->token > newest_token[resource]);
            newest_token[resource] =
                real->token > newest_token[resource] ? real->token : newest_token[resource];
        }
    }
}

static void check(void) {
    const struct key_store *keys = state_machine_keys(machine);
    size_t n_keys = REF_POOLS;
    size_t n_acquisitions = 0;
    size_t n_sessions = 0;
    size_t n_hold_limits = 0;
    for (size_t i = 0; i < REF_POOLS; i++) {
        (void)ref_taken(&ref, i);
    }
    for (size_t i = 0; i < REF_ACQUISITIONS; i++) {
        const struct ref_acquisition *a = &ref.all[i];
        struct native_acquisition real;
        if (!a->exists) {
            continue;
        }
        n_acquisitions++;
        assert(stored(a->id, &real));
        assert((real.stage == NATIVE_ACQUIRED) == a->is_held);
        assert((real.token != 0) == a->is_held);
        assert(real.call == a->call);
        assert(real.session_id == ref.sessions[a->session].id);
        if (a->is_held) {
            assert(real.hold_limit_ms == a->hold_limit_ms);
            assert((real.hold_lease_id != 0) == (a->hold_limit_ms != 0));
            n_hold_limits += a->hold_limit_ms != 0;
            check_holds(a, &real, &n_keys);
            check_token(a, &real);
        } else {
            n_keys += a->n_wants;
        }
    }
    for (size_t i = 0; i < REF_SESSIONS; i++) {
        n_sessions += ref.sessions[i].is_alive;
    }
    struct key_range all = native_records('a');
    assert(key_store_count(keys, all.space, all.key, all.range_end) == n_acquisitions);
    all = native_records('s');
    assert(key_store_count(keys, all.space, all.key, all.range_end) == n_sessions);
    all = native_records('i');
    assert(key_store_count(keys, all.space, all.key, all.range_end) == n_acquisitions);
    assert(key_store_count(keys, KEY_SPACE_NATIVE, bytes_of("", 1), bytes_of("", 1)) == n_keys);
    assert(lease_table_count(state_machine_leases(machine)) == n_sessions + n_hold_limits);
    last_revision = key_store_revision(keys);
}

/* Whatever was left to do is done before the reference is asked. */
static void settle(void) {
    bool has_more = true;
    while (has_more) {
        struct buffer request;
        buffer_init(&request);
        struct outcome outcome = run_rule(NATIVE_RULE_SETTLE, &request);
        assert(outcome.status == STATUS_OK);
        assert(native_settled_decode(outcome.rule.answer, &has_more));
    }
}

/* --- Choices. --- */

static size_t any_session(void) {
    size_t alive[REF_SESSIONS];
    size_t n = 0;
    for (size_t i = 0; i < REF_SESSIONS; i++) {
        if (ref.sessions[i].is_alive) {
            alive[n++] = i;
        }
    }
    return n == 0 ? REF_SESSIONS : alive[random_below(n)];
}

static struct ref_acquisition *any_acquisition(bool is_held_only) {
    struct ref_acquisition *found[REF_ACQUISITIONS];
    size_t n = 0;
    for (size_t i = 0; i < REF_ACQUISITIONS; i++) {
        if (ref.all[i].exists && (ref.all[i].is_held || !is_held_only)) {
            found[n++] = &ref.all[i];
        }
    }
    return n == 0 ? NULL : found[random_below(n)];
}

static struct ref_acquisition *new_place(void) {
    for (size_t i = 0; i < REF_ACQUISITIONS; i++) {
        if (!ref.all[i].exists) {
            return &ref.all[i];
        }
    }
    return NULL;
}

/* --- Steps. --- */

static void step_session(void) {
    struct native_session_created created;
    struct buffer request;
    size_t at = 0;
    while (at < SESSIONS && ref.sessions[at].is_alive) {
        at++;
    }
    if (at == SESSIONS) {
        return;
    }
    size_t owner = random_below(OWNERS);
    size_t parent = random_one_in(4) ? any_session() : REF_SESSIONS;
    if (parent != REF_SESSIONS && ref.sessions[parent].parent != REF_SESSIONS) {
        parent = REF_SESSIONS;
    }
    const struct native_session_create create = {
        .owner = bytes_from_text(owner_names[owner]),
        .ttl_ms = TTL_MS,
        .parent_id = parent == REF_SESSIONS ? 0 : ref.sessions[parent].id};
    buffer_init(&request);
    native_session_create_encode(&request, &create);
    struct outcome outcome = run_rule(NATIVE_RULE_SESSION_CREATE, &request);
    assert(outcome.status == STATUS_OK);
    assert(native_session_created_decode(outcome.rule.answer, &created));
    ref.sessions[at] =
        (struct ref_session){.is_alive = true, .id = created.id, .owner = owner, .parent = parent};
}

static void choose_wants(struct ref_acquisition *a) {
    size_t n = random_one_in(3) ? 1 + random_below(REF_WANTS) : 1;
    a->n_wants = 0;
    for (size_t i = 0; i < n; i++) {
        struct ref_want want = {.is_pool = random_one_in(2)};
        want.thing = random_below(want.is_pool ? REF_POOLS : REF_RESOURCES);
        want.is_shared = !want.is_pool && random_one_in(2);
        unsigned n_slots = want.is_pool ? ref_count_bits(ref.pools[want.thing].slots) : 0;
        want.n_slots = want.is_pool ? 1 + (uint32_t)random_below(3) : 0;
        if (ref_want_of(a, want.is_pool, want.thing) == NULL && want.n_slots <= n_slots) {
            a->wants[a->n_wants++] = want;
        }
    }
}

/* Resources by name, then pools by name, as the names above are ordered: "a" of the pools is the
 * second. */
static size_t rank(const struct ref_want *want) {
    return want->is_pool ? REF_RESOURCES + (REF_POOLS - 1 - want->thing) : want->thing;
}

static void sort_wants(struct ref_acquisition *a) {
    for (size_t i = 1; i < a->n_wants; i++) {
        for (size_t j = i; j > 0 && rank(&a->wants[j]) < rank(&a->wants[j - 1]); j--) {
            struct ref_want other = a->wants[j];
            a->wants[j] = a->wants[j - 1];
            a->wants[j - 1] = other;
        }
    }
}

static struct native_acquire request_of(const struct ref_acquisition *a, char request_id[24]) {
    struct native_acquire acquire = {.session_id = ref.sessions[a->session].id,
                                     .n_wants = a->n_wants,
                                     .request_id = bytes_from_text(request_id),
                                     .hold_limit_ms = a->hold_limit_ms};
    for (size_t w = 0; w < a->n_wants; w++) {
        acquire.wants[w] =
            (struct native_want){.is_pool = a->wants[w].is_pool,
                                 .mode = a->wants[w].is_shared ? NATIVE_SHARED : NATIVE_EXCLUSIVE,
                                 .n_slots = a->wants[w].n_slots,
                                 .name = name_of(&a->wants[w])};
    }
    return acquire;
}

static void step_acquire(void) {
    struct ref_acquisition *a = new_place();
    size_t session = any_session();
    static uint64_t n_requests;
    char request_id[24];
    if (a == NULL || session == REF_SESSIONS) {
        return;
    }
    *a = (struct ref_acquisition){
        .session = session, .call = 1, .hold_limit_ms = random_one_in(4) ? 5000 : 0};
    choose_wants(a);
    if (a->n_wants == 0) {
        return;
    }
    snprintf(request_id, sizeof request_id, "r%" PRIu64, n_requests++);
    struct native_acquire acquire = request_of(a, request_id);
    acquire.waits = !random_one_in(4);
    sort_wants(a);
    struct native_acquired acquired;
    struct buffer request;
    buffer_init(&request);
    native_acquire_encode(&request, &acquire);
    struct outcome outcome = run_rule(NATIVE_RULE_ACQUIRE, &request);
    assert(outcome.status == STATUS_OK);
    assert(native_acquired_decode(outcome.rule.answer, &arena, &acquired));
    a->exists = true;
    a->id = last_revision + 1;
    bool fits = ref_fits(&ref, a);
    assert(acquired.result == (fits            ? NATIVE_RESULT_ACQUIRED
                               : acquire.waits ? NATIVE_RESULT_QUEUED
                                               : NATIVE_RESULT_REFUSED));
    a->exists = fits || acquire.waits;
    assert(!a->exists || acquired.acquisition.id == a->id);
    /* Asked again, it is the same. */
    if (a->exists && random_one_in(5)) {
        buffer_init(&request);
        native_acquire_encode(&request, &acquire);
        outcome = run_rule(NATIVE_RULE_ACQUIRE, &request);
        assert(native_acquired_decode(outcome.rule.answer, &arena, &acquired));
        assert(acquired.is_repeated);
        a->call += acquired.result != NATIVE_RESULT_REFUSED;
    }
    ref_settle(&ref);
}

static void step_release(void) {
    struct ref_acquisition *a = any_acquisition(random_one_in(2));
    struct native_released released;
    struct buffer request;
    if (a == NULL) {
        return;
    }
    bool is_stale = random_one_in(5);
    bool is_shared = random_one_in(5);
    struct native_release release = {.acquisition_id = a->id,
                                     .session_id = ref.sessions[a->session].id + is_stale,
                                     .call = is_shared ? a->call + 1 : 0};
    buffer_init(&request);
    native_release_encode(&request, &release);
    struct outcome outcome = run_rule(NATIVE_RULE_RELEASE, &request);
    assert(outcome.status == STATUS_OK);
    assert(native_released_decode(outcome.rule.answer, &released));
    assert(released.is_released == (!is_stale && !is_shared));
    if (released.is_released) {
        assert(released.was_acquired == a->is_held);
        a->exists = false;
        ref_settle(&ref);
    }
}

static void step_end(void) {
    size_t session = any_session();
    struct buffer request;
    if (session == REF_SESSIONS) {
        return;
    }
    buffer_init(&request);
    native_session_end_encode(&request,
                              &(struct native_session_end){.session_id = ref.sessions[session].id});
    assert(run_rule(NATIVE_RULE_SESSION_END, &request).status == STATUS_OK);
    ref_end_session(&ref, session);
}

static void expire(int64_t id) {
    struct lease_facts facts;
    assert(lease_table_find(state_machine_leases(machine), id, &facts));
    const struct command command = {
        .type = COMMAND_LEASE_EXPIRE,
        .expire = {.term = context.term, .n = 1, .ids = &id, .epochs = &facts.epoch}};
    assert(apply(&command).expire.n_ended == 1);
}

static void step_expire(void) {
    size_t session = any_session();
    if (session != REF_SESSIONS) {
        expire(ref.sessions[session].id);
        ref_end_session(&ref, session);
    }
}

static void step_hold_limit(void) {
    struct ref_acquisition *a = any_acquisition(true);
    struct native_acquisition real;
    if (a != NULL && stored(a->id, &real) && real.hold_lease_id != 0) {
        expire(real.hold_lease_id);
        a->exists = false;
        ref_settle(&ref);
    }
}

static bool wants_the_same(const struct ref_acquisition *a, const struct ref_acquisition *b) {
    bool is_same = a->n_wants == b->n_wants;
    for (size_t w = 0; w < a->n_wants && is_same; w++) {
        is_same = a->wants[w].is_pool == b->wants[w].is_pool &&
                  a->wants[w].is_shared == b->wants[w].is_shared &&
                  a->wants[w].thing == b->wants[w].thing &&
                  a->wants[w].n_slots == b->wants[w].n_slots;
    }
    return is_same;
}

/* Before everybody else, and with the very slots. */
static void step_transfer(void) {
    struct ref_acquisition *a = any_acquisition(true);
    size_t to = any_session();
    struct ref_acquisition *next = NULL;
    if (a == NULL || to == a->session || new_place() == NULL) {
        return;
    }
    for (size_t i = 0; i < REF_ACQUISITIONS; i++) {
        struct ref_acquisition *b = &ref.all[i];
        if (b->exists && !b->is_held && b->session == to && wants_the_same(a, b) &&
            (next == NULL || b->id < next->id)) {
            next = b;
        }
    }
    struct native_transfer transfer = {.acquisition_id = a->id,
                                       .session_id = ref.sessions[a->session].id,
                                       .to_session_id = ref.sessions[to].id};
    struct native_transferred done;
    struct buffer request;
    buffer_init(&request);
    native_transfer_encode(&request, &transfer);
    struct outcome outcome = run_rule(NATIVE_RULE_TRANSFER, &request);
    assert(outcome.status == STATUS_OK);
    assert(native_transferred_decode(outcome.rule.answer, &arena, &done));
    assert(done.acquisition.token == last_revision + 1);
    struct ref_acquisition old = *a;
    a->exists = false;
    if (next == NULL) {
        next = new_place();
        *next = old;
        next->exists = true;
        next->session = to;
        next->id = last_revision + 1;
        next->call = 1;
        next->hold_limit_ms = 0;
    }
    assert(done.acquisition.id == next->id);
    int64_t limit = next->hold_limit_ms;
    for (size_t w = 0; w < old.n_wants; w++) {
        int64_t of_pool = old.wants[w].is_pool ? ref.pools[old.wants[w].thing].hold_limit_ms : 0;
        limit = of_pool != 0 && (limit == 0 || of_pool < limit) ? of_pool : limit;
    }
    next->hold_limit_ms = limit;
    next->is_held = true;
    memcpy(next->slots, old.slots, sizeof next->slots);
    ref_settle(&ref);
}

static void set_pool(size_t pool) {
    struct bytes slots[REF_SLOTS];
    struct native_share shares[OWNERS];
    struct native_pool_set set = {.name = bytes_from_text(pool_names[pool]),
                                  .pool = {.slots = slots, .shares = shares}};
    struct buffer request;
    struct ref_pool *of = &ref.pools[pool];
    of->slots = (uint32_t)random_below(UINT32_C(1) << REF_SLOTS) | 1;
    of->hold_limit_ms = random_one_in(4) ? 7000 : 0;
    set.pool.hold_limit_ms = of->hold_limit_ms;
    for (size_t s = 0; s < REF_SLOTS; s++) {
        if ((of->slots >> s & 1) != 0) {
            slots[set.pool.n_slots++] = bytes_from_text(slot_names[s]);
        }
    }
    for (size_t o = 0; o < OWNERS; o++) {
        of->weights[o] = 1 + (uint32_t)random_below(3);
        if (of->weights[o] > 1 || random_one_in(2)) {
            shares[set.pool.n_shares++] = (struct native_share){
                .owner = bytes_from_text(owner_names[o]), .weight = of->weights[o]};
        }
    }
    buffer_init(&request);
    native_pool_set_encode(&request, &set);
    assert(run_rule(NATIVE_RULE_POOL_SET, &request).status == STATUS_OK);
    ref_settle(&ref);
}

/* A holder's token, one that somebody had, or one that was never given out. */
static void step_fence(void) {
    size_t at = random_below(REF_RESOURCES);
    struct native_fence_check check = {
        .resource = bytes_from_text(resource_names[at]),
        .token = random_one_in(2) && newest_token[at] > 0
                     ? newest_token[at]
                     : 1 + (int64_t)random_below((uint64_t)last_revision + 1)};
    struct native_fence_checked checked;
    struct buffer request;
    int64_t stored_highest = 0;
    buffer_init(&request);
    native_fence_check_encode(&request, &check);
    struct outcome outcome = run_rule(NATIVE_RULE_FENCE_CHECK, &request);
    assert(outcome.status == STATUS_OK);
    assert(native_fence_checked_decode(outcome.rule.answer, &checked));
    assert(checked.is_accepted == (check.token >= highest_seen[at]));
    if (check.token > highest_seen[at]) {
        highest_seen[at] = check.token;
    }
    assert(checked.highest == highest_seen[at]);
    /* What a transaction of the etcd API compares. */
    const struct record *record = find(KEY_SPACE_ETCD, native_fence_key(&arena, check.resource));
    assert(record != NULL);
    assert(native_fence_read(record_value(record), &stored_highest));
    assert(stored_highest == highest_seen[at]);
}

static void step(void) {
    uint64_t choice = random_below(1000);
    last_revision = key_store_revision(state_machine_keys(machine));
    if (choice < 150) {
        step_session();
    } else if (choice < 600) {
        step_acquire();
    } else if (choice < 790) {
        step_release();
    } else if (choice < 830) {
        step_end();
    } else if (choice < 870) {
        step_expire();
    } else if (choice < 910) {
        step_hold_limit();
    } else if (choice < 960) {
        step_transfer();
    } else if (choice < 970) {
        set_pool(random_below(REF_POOLS));
    } else if (choice < 985) {
        step_fence();
    } else {
        machines_compare(random_one_in(2));
    }
    settle();
    check();
    arena_reset(&arena);
}

static void run(void) {
    const struct rule_set rules = {native_rules, NATIVE_N_RULES};
    machines_open(&rules);
    memset(&ref, 0, sizeof ref);
    memset(newest_token, 0, sizeof newest_token);
    memset(highest_seen, 0, sizeof highest_seen);
    for (size_t i = 0; i < REF_POOLS; i++) {
        set_pool(i);
    }
    for (unsigned i = 0; i < STEPS; i++) {
        step();
    }
    machines_close();
}

int main(int argc, char **argv) {
    random_seed(argc, argv);
    arena_init(&arena);
    for (unsigned round = 0; round < ROUNDS; round++) {
        run();
    }
    arena_clear(&arena);
    return 0;
}
