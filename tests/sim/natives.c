/* Clients of the native API: each wants a resource, alone or shared, two at once, slots of a pool,
 * or a resource and a slot, in a session of its own that nobody renews. Whoever waits asks again
 * until it has what it wants. Nobody is told that it has something while another relies on it,
 * tokens grow, a fence refuses a token that is older than one it has seen and nobody who relies on
 * what it has, and every state of every node is one in which nobody waits that could be granted:
 * looked at with tests/rules/native_reference.h. */
#include "call.h"
#include "checks.h"
#include "clients.h"
#include "doors/native/native_keys.h"
#include "doors/native/native_rules.h"
#include "faults.h"
#include "native_reference.h"
#include "node.h"
#include "world.h"

#include "core/state_view.h"

#include <inttypes.h>
#include <stdio.h>

enum { SHOWINGS_MAX = 32 };
enum { RESOURCES = 2, TTL_MS_MIN = 1000, TTL_MS_MAX = 5000, HOLD_LIMIT_MS = 1500 };

static const char *const resource_names[RESOURCES] = {"x", "y"};
static const char *const slot_names[REF_SLOTS] = {"0", "1", "2", "3", "4"};
static const char *const owner_names[NATIVES_MAX] = {"c0", "c1", "c2", "c3", "c4", "c5"};

struct native {
    size_t number;
    struct node *node;
    struct native_acquire acquire;
    int64_t ttl_ms;
    int64_t acquisition_id;
    uint64_t session_until_us;    /* it relies on its session until then */
    uint64_t last_queued_sent_us; /* it asked then, and did not have it */
    /* What it relies on. */
    bool relies;
    uint64_t until_us;
    bool is_held[RESOURCES];
    bool is_shared[RESOURCES];
    uint32_t slots;
    int64_t token;
};

/* A token that is to be shown to the fence of a resource. */
struct showing {
    bool is_used;
    const struct native *native;
    size_t resource;
    int64_t token;
    int64_t accepted_before; /* the highest one that was, when this one was sent */
};

static struct native natives[NATIVES_MAX];
static struct showing showings[SHOWINGS_MAX];
static size_t n_natives;
static int64_t newest_token[RESOURCES];     /* of any that was told */
static int64_t newest_exclusive[RESOURCES]; /* of an exclusive one */
static int64_t fence_shown[RESOURCES];      /* the highest token that anybody sent to it */
static int64_t fence_accepted[RESOURCES];   /* the highest one that was accepted */
static bool is_stopped;

static void next(void *data);
static void ask(void *data);

static void again(struct native *native) {
    native->relies = false;
    native->node = clients_choose_node();
    world_at(world_now_us() + random_delay(50 * WORLD_MS, WORLD_SECOND), next, native);
}

static struct call *make(struct native *native, uint32_t rule,
                         void (*answered)(struct call *call)) {
    struct call *call = call_make(CALL_RULE);
    call->rule_number = rule;
    call->answered = answered;
    call->data = native;
    return call;
}

/* In the other half of the seeds the order of resources is looked at. */
static bool has_transfers(void) {
    return world_seed() % 2 == 0;
}

/* --- What must be true of every state. --- */

struct reading {
    const struct node *node;
    struct arena arena;
    struct ref ref;
    size_t n;
    bool is_too_much;
};

static size_t thing_of(const struct native_want *want) {
    return want->is_pool ? 0 : want->name.data[0] == 'x' ? 0 : 1;
}

static uint32_t bit_of(struct bytes slot) {
    return UINT32_C(1) << (slot.data[0] - '0');
}

static bool read_acquisition(void *context, const struct record *record) {
    struct reading *reading = context;
    struct native_acquisition real;
    if (reading->n == REF_ACQUISITIONS) {
        reading->is_too_much = true;
        return false;
    }
    if (!native_acquisition_decode(record_value(record), &reading->arena, &real)) {
        check_failed("native", "%s has an acquisition that cannot be read", reading->node->name);
        return false;
    }
    struct ref_acquisition *a = &reading->ref.all[reading->n];
    *a = (struct ref_acquisition){.exists = true,
                                  .is_held = real.stage == NATIVE_ACQUIRED,
                                  .id = real.id,
                                  .session = reading->n,
                                  .n_wants = real.n_wants};
    reading->ref.sessions[reading->n] =
        (struct ref_session){.is_alive = true, .owner = (size_t)(real.owner.data[1] - '0')};
    for (size_t w = 0; w < real.n_wants; w++) {
        a->wants[w] = (struct ref_want){.is_pool = real.wants[w].is_pool,
                                        .is_shared = real.wants[w].mode == NATIVE_SHARED,
                                        .thing = thing_of(&real.wants[w]),
                                        .n_slots = real.wants[w].n_slots};
    }
    for (size_t i = 0; i < real.n_slots; i++) {
        a->slots[real.slots[i].want] |= bit_of(real.slots[i].name);
    }
    reading->n++;
    return true;
}

static void read_pool(struct reading *reading, const struct key_store *keys) {
    struct native_pool pool;
    const struct record *record = key_store_find(
        keys, KEY_SPACE_NATIVE, native_key_pool(&reading->arena, bytes_from_text("p")));
    if (record == NULL || !native_pool_decode(record_value(record), &reading->arena, &pool)) {
        return;
    }
    for (size_t i = 0; i < pool.n_slots; i++) {
        reading->ref.pools[0].slots |= bit_of(pool.slots[i]);
    }
    for (size_t i = 0; i < REF_OWNERS; i++) {
        reading->ref.pools[0].weights[i] = 1;
    }
}

static void check_conflicts(const struct reading *reading) {
    const struct ref *ref = &reading->ref;
    for (size_t i = 0; i < reading->n; i++) {
        for (size_t j = 0; j < i; j++) {
            const struct ref_acquisition *a = &ref->all[i];
            const struct ref_acquisition *b = &ref->all[j];
            for (size_t w = 0; a->is_held && b->is_held && w < a->n_wants; w++) {
                const struct ref_want *other = ref_want_of(b, false, a->wants[w].thing);
                if (!a->wants[w].is_pool && other != NULL &&
                    (!a->wants[w].is_shared || !other->is_shared)) {
                    check_failed("native", "on %s both %" PRId64 " and %" PRId64 " have %s",
                                 reading->node->name, a->id, b->id,
                                 resource_names[a->wants[w].thing]);
                }
            }
        }
    }
}

static const struct ref_acquisition *find_in(const struct ref *ref, int64_t id) {
    for (size_t i = 0; i < REF_ACQUISITIONS; i++) {
        if (ref->all[i].exists && ref->all[i].id == id) {
            return &ref->all[i];
        }
    }
    return NULL;
}

/* Whoever got something since this node was last looked at did not overtake one that came earlier,
 * waited for the same then and waits still. Only transfers may. */
static void check_order(const struct reading *reading, const struct ref *before) {
    for (size_t i = 0; i < reading->n && !has_transfers(); i++) {
        const struct ref_acquisition *a = &reading->ref.all[i];
        const struct ref_acquisition *then = find_in(before, a->id);
        for (size_t j = 0; a->is_held && then != NULL && !then->is_held && j < reading->n; j++) {
            const struct ref_acquisition *b = &reading->ref.all[j];
            if (b->is_held || b->id >= a->id || find_in(before, b->id) == NULL) {
                continue;
            }
            for (size_t w = 0; w < a->n_wants; w++) {
                const struct ref_want *other = ref_want_of(b, false, a->wants[w].thing);
                if (!a->wants[w].is_pool && other != NULL &&
                    (!a->wants[w].is_shared || !other->is_shared)) {
                    check_failed("native", "on %s %" PRId64 " got %s before %" PRId64,
                                 reading->node->name, a->id, resource_names[a->wants[w].thing],
                                 b->id);
                }
            }
        }
    }
}

static void check_state(const struct node *node) {
    static struct reading reading;
    static struct ref before[NODES_MAX];
    if (!node->is_up || node->service == NULL) {
        return;
    }
    const struct key_store *keys = state_view_keys(service_view(node->service));
    struct key_range left = native_records('m');
    struct key_range all = native_records('a');
    memset(&reading, 0, sizeof reading);
    reading.node = node;
    arena_init(&reading.arena);
    read_pool(&reading, keys);
    key_store_visit(keys, all.space, all.key, all.range_end, read_acquisition, &reading);
    if (key_store_count(keys, left.space, left.key, left.range_end) == 0 && !reading.is_too_much) {
        check_conflicts(&reading);
        check_order(&reading, &before[node->index]);
        (void)ref_taken(&reading.ref, 0);
        for (size_t i = 0; i < reading.n; i++) {
            if (!reading.ref.all[i].is_held && ref_fits(&reading.ref, &reading.ref.all[i])) {
                check_failed("native", "on %s %" PRId64 " waits for what is free", node->name,
                             reading.ref.all[i].id);
            }
        }
    }
    before[node->index] = reading.ref;
    arena_clear(&reading.arena);
}

/* --- Fences. --- */

static bool relies_alone(const struct showing *showing) {
    const struct native *native = showing->native;
    return native->relies && world_now_us() < native->until_us && native->token == showing->token &&
           native->is_held[showing->resource] && !native->is_shared[showing->resource];
}

static void check_showing(const struct showing *showing, bool is_accepted) {
    const char *name = resource_names[showing->resource];
    if (is_accepted && showing->token < showing->accepted_before) {
        check_failed("native", "the fence of %s accepted %" PRId64 " after %" PRId64, name,
                     showing->token, showing->accepted_before);
    }
    if (!is_accepted &&
        (fence_shown[showing->resource] <= showing->token || relies_alone(showing))) {
        check_failed("native", "the fence of %s refused %" PRId64 ", and nobody has a newer one",
                     name, showing->token);
    }
}

static void shown(struct call *call) {
    struct showing *showing = call->data;
    struct native_fence_checked checked;
    showing->is_used = false;
    if (call->status != STATUS_OK) {
        return; /* whether it was seen is not known */
    }
    if (!native_fence_checked_decode(bytes_of(call->rule_answer, call->rule_answer_size),
                                     &checked)) {
        check_failed("native", "a fence's answer cannot be read");
        return;
    }
    check_showing(showing, checked.is_accepted);
    int64_t *accepted = &fence_accepted[showing->resource];
    if (checked.is_accepted && showing->token > *accepted) {
        *accepted = showing->token;
    }
}

static void show(void *data) {
    struct showing *showing = data;
    int64_t *newest = &fence_shown[showing->resource];
    if (is_stopped) {
        return;
    }
    showing->accepted_before = fence_accepted[showing->resource];
    *newest = showing->token > *newest ? showing->token : *newest;
    struct call *call = call_make(CALL_RULE);
    call->rule_number = NATIVE_RULE_FENCE_CHECK;
    call->answered = shown;
    call->data = showing;
    native_fence_check_encode(
        &call->rule_request,
        &(struct native_fence_check){.resource = bytes_from_text(resource_names[showing->resource]),
                                     .token = showing->token});
    call_send(call, clients_choose_node());
}

/* Shows what it was given: soon, or when it may be another's. */
static void show_later(const struct native *native, size_t resource, uint64_t delay_us) {
    for (size_t i = 0; i < SHOWINGS_MAX; i++) {
        if (!showings[i].is_used) {
            showings[i] = (struct showing){
                .is_used = true, .native = native, .resource = resource, .token = native->token};
            world_at(world_now_us() + delay_us, show, &showings[i]);
            return;
        }
    }
}

/* --- The end. --- */

static void ended(struct call *call) {
    struct native *native = call->data;
    check_state(native->node);
    again(native);
}

/* It stops to rely on what it has before it says so. */
static void let_go(void *data) {
    struct native *native = data;
    struct call *call;
    native->relies = false;
    if (is_stopped) {
        return;
    }
    uint64_t way = random_below(5);
    switch (way == 2 && !has_transfers() ? 0 : way) {
    case 0:
        call = make(native, NATIVE_RULE_RELEASE, ended);
        native_release_encode(&call->rule_request,
                              &(struct native_release){.acquisition_id = native->acquisition_id,
                                                       .session_id = native->acquire.session_id,
                                                       .end_session = random_chance(700)});
        break;
    case 1:
        call = make(native, NATIVE_RULE_SESSION_END, ended);
        native_session_end_encode(
            &call->rule_request,
            &(struct native_session_end){.session_id = native->acquire.session_id});
        break;
    case 2:
        call = make(native, NATIVE_RULE_TRANSFER, ended);
        native_transfer_encode(
            &call->rule_request,
            &(struct native_transfer){.acquisition_id = native->acquisition_id,
                                      .session_id = native->acquire.session_id,
                                      .to_owner =
                                          bytes_from_text(owner_names[random_below(n_natives)])});
        break;
    default:
        again(native); /* the session runs out, or the hold limit */
        return;
    }
    call_send(call, native->node);
}

/* --- Holding. --- */

static void check_token(const struct native *native, size_t resource, int64_t token) {
    int64_t before =
        native->is_shared[resource] ? newest_exclusive[resource] : newest_token[resource];
    if (token <= before) {
        check_failed("native", "%s was given by token %" PRId64 " after token %" PRId64,
                     resource_names[resource], token, before);
    }
    newest_token[resource] = token > newest_token[resource] ? token : newest_token[resource];
    if (!native->is_shared[resource]) {
        newest_exclusive[resource] = token;
    }
}

static void check_others(const struct native *native) {
    uint64_t now_us = world_now_us();
    for (size_t i = 0; i < n_natives; i++) {
        const struct native *other = &natives[i];
        bool conflicts = (other->slots & native->slots) != 0;
        for (size_t r = 0; r < RESOURCES; r++) {
            conflicts |= other->is_held[r] && native->is_held[r] &&
                         !(other->is_shared[r] && native->is_shared[r]);
        }
        if (other != native && other->relies && other->until_us > now_us && conflicts) {
            check_failed("native", "client %zu has what client %zu relies on", native->number,
                         other->number);
        }
    }
}

static void hold(struct native *native, const struct native_acquisition *acquisition) {
    uint64_t until_us = native->session_until_us;
    if (acquisition->hold_limit_ms > 0) {
        uint64_t limit_us =
            native->last_queued_sent_us +
            (uint64_t)acquisition->hold_limit_ms * (1000 - checks_drift_allowance_permille());
        until_us = limit_us < until_us ? limit_us : until_us;
    }
    if (until_us <= world_now_us()) {
        again(native); /* too late to rely on it */
        return;
    }
    memset(native->is_held, 0, sizeof native->is_held);
    native->slots = 0;
    for (size_t w = 0; w < acquisition->n_wants; w++) {
        const struct native_want *want = &acquisition->wants[w];
        if (!want->is_pool) {
            native->is_held[thing_of(want)] = true;
            native->is_shared[thing_of(want)] = want->mode == NATIVE_SHARED;
            check_token(native, thing_of(want), acquisition->token);
        }
    }
    for (size_t i = 0; i < acquisition->n_slots; i++) {
        native->slots |= bit_of(acquisition->slots[i].name);
    }
    native->token = acquisition->token;
    native->relies = true;
    native->until_us = until_us;
    check_others(native);
    world_at(world_now_us() + random_below(TTL_MS_MAX * WORLD_MS), let_go, native);
    for (size_t r = 0; r < RESOURCES; r++) {
        if (native->is_held[r] && random_chance(500)) {
            show_later(native, r, random_below(300 * WORLD_MS));
            show_later(native, r, random_below(2 * TTL_MS_MAX * WORLD_MS));
        }
    }
}

/* --- Asking. --- */

static void asked(struct call *call) {
    struct native *native = call->data;
    struct native_acquired acquired;
    struct arena arena;
    check_state(native->node);
    if (is_stopped) {
        return;
    }
    if (call->status != STATUS_OK) {
        /* What came of it is not known: the session of a first call is lost, and runs out. */
        if (native->acquire.session_id == 0 || call->status == STATUS_LEASE_NOT_FOUND) {
            again(native);
            return;
        }
        native->node = clients_choose_node();
        world_at(world_now_us() + random_delay(20 * WORLD_MS, 200 * WORLD_MS), ask, native);
        return;
    }
    arena_init(&arena);
    if (!native_acquired_decode(bytes_of(call->rule_answer, call->rule_answer_size), &arena,
                                &acquired)) {
        check_failed("native", "client %zu cannot read its answer", native->number);
    } else if (acquired.result == NATIVE_RESULT_REFUSED) {
        again(native);
    } else {
        if (native->acquire.session_id == 0) {
            native->session_until_us =
                call->sent_us +
                (uint64_t)native->ttl_ms * (1000 - checks_drift_allowance_permille());
            native->last_queued_sent_us = call->sent_us;
            native->acquisition_id = acquired.acquisition.id;
        } else if (acquired.acquisition.id != native->acquisition_id) {
            /* Its hold limit has passed meanwhile: this is a new place. */
            native->acquisition_id = acquired.acquisition.id;
            native->last_queued_sent_us = call->sent_us;
        }
        native->acquire.session_id = acquired.session_id;
        if (acquired.result == NATIVE_RESULT_ACQUIRED) {
            hold(native, &acquired.acquisition);
        } else {
            native->last_queued_sent_us = call->sent_us;
            world_at(world_now_us() + random_delay(20 * WORLD_MS, 200 * WORLD_MS), ask, native);
        }
    }
    arena_clear(&arena);
}

static void ask(void *data) {
    struct native *native = data;
    if (is_stopped) {
        return;
    }
    if (native->acquire.session_id != 0 && world_now_us() > native->session_until_us) {
        again(native);
        return;
    }
    struct call *call = make(native, NATIVE_RULE_ACQUIRE, asked);
    native_acquire_encode(&call->rule_request, &native->acquire);
    call_send(call, native->node);
}

static struct native_want resource(size_t at, bool is_shared) {
    return (struct native_want){.name = bytes_from_text(resource_names[at]),
                                .mode = is_shared ? NATIVE_SHARED : NATIVE_EXCLUSIVE};
}

static void choose_wants(struct native_acquire *acquire) {
    const struct native_want slots = {
        .is_pool = true, .name = bytes_from_text("p"), .n_slots = (uint32_t)random_between(1, 2)};
    acquire->n_wants = 1;
    switch (random_below(5)) {
    case 0:
        acquire->wants[0] = resource(random_below(RESOURCES), false);
        break;
    case 1:
        acquire->wants[0] = resource(0, true);
        break;
    case 2:
        acquire->n_wants = 2;
        acquire->wants[0] = resource(0, random_chance(500));
        acquire->wants[1] = resource(1, false);
        break;
    case 3:
        acquire->wants[0] = slots;
        break;
    default:
        acquire->n_wants = 2;
        acquire->wants[0] = slots;
        acquire->wants[1] = resource(1, random_chance(500));
        break;
    }
}

static void set_pool(struct native *native) {
    struct bytes slots[REF_SLOTS];
    struct native_pool_set set = {
        .name = bytes_from_text("p"),
        .pool = {.n_slots = random_between(2, REF_SLOTS), .slots = slots}};
    for (size_t i = 0; i < set.pool.n_slots; i++) {
        slots[i] = bytes_from_text(slot_names[i]);
    }
    struct call *call = make(native, NATIVE_RULE_POOL_SET, ended);
    native_pool_set_encode(&call->rule_request, &set);
    call_send(call, native->node);
}

static void next(void *data) {
    struct native *native = data;
    if (is_stopped) {
        return;
    }
    if (faults_want_quiet()) {
        again(native);
        return;
    }
    if (random_chance(100)) {
        set_pool(native);
        return;
    }
    native->ttl_ms = (int64_t)random_between(TTL_MS_MIN, TTL_MS_MAX);
    native->acquire =
        (struct native_acquire){.session = {.owner = bytes_from_text(owner_names[native->number]),
                                            .ttl_ms = native->ttl_ms},
                                .waits = random_chance(900),
                                .hold_limit_ms = random_chance(200) ? HOLD_LIMIT_MS : 0};
    choose_wants(&native->acquire);
    ask(native);
}

/* --- Beginning and end. --- */

static void begin(void *data) {
    set_pool(data);
}

void natives_start(size_t n) {
    n_natives = n;
    for (size_t i = 0; i < n; i++) {
        natives[i] = (struct native){.number = i, .node = clients_choose_node()};
        world_at(random_below(WORLD_SECOND), i == 0 ? begin : next, &natives[i]);
    }
}

void natives_stop(void) {
    is_stopped = true;
}

void natives_check(void) {
    for (size_t i = 0; i < nodes_count() && n_natives > 0; i++) {
        const struct node *node = node_at(i);
        if (!node->is_up || node->service == NULL) {
            continue;
        }
        check_state(node);
        const struct key_store *keys = state_view_keys(service_view(node->service));
        struct key_range range = native_records('a');
        if (key_store_count(keys, range.space, range.key, range.range_end) > 0 ||
            key_store_count(keys, KEY_SPACE_NATIVE, bytes_of("", 1), bytes_of("", 1)) > 1) {
            check_failed("native", "on %s something is left of sessions that have ended",
                         node->name);
        }
    }
}
