/* Clients of locks by Consul's API: a session with a TTL, a key that it acquires, whose ModifyIndex
 * is the token. Sessions are renewed, destroyed, or just end, and take their keys with them or give
 * them back; then nobody else may have the key for its lock-delay, whoever leads. Nobody holds a
 * lock while another relies on it, by its own session; ModifyIndex grows; what is written only
 * while a lock is held is written by nobody who has lost it; and on no node does a session that has
 * ended hold a key, or is a key left that should have gone with it. */
#include "actor.h"
#include "checks.h"
#include "clients.h"
#include "doors/consul/consul_keys.h"
#include "doors/consul/consul_rules.h"
#include "faults.h"
#include "node.h"
#include "world.h"

#include "core/state_view.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    LOCKS = 2,
    TTL_MS_MIN = 1000,
    TTL_MS_MAX = 4000,
    DELAY_MS_MIN = 300,
    DELAY_MS_MAX = 3000,
    DELAYS_MAX = 64
};

static const char *const names[LOCKS] = {"lock/x", "lock/y"};
static const char *const works[LOCKS] = {"work/x", "work/y"};

struct consul_locker {
    struct actor actor;
    size_t lock;
    char id[CONSUL_UUID_SIZE + 1];
    char previous[CONSUL_UUID_SIZE + 1]; /* its last session; empty: none */
    char value[CONSUL_UUID_SIZE + 2];    /* D or R, for what its end does, and the id */
    int64_t ttl_ms;
    int64_t delay_ms;
    bool deletes;
    int64_t lease_id; /* 0: it does not know its session */
    uint64_t until_us;
    uint64_t token; /* 0: it has no lock */
    bool renews;
    unsigned n_tries;
};

/* A session that held a lock to its end. */
struct delay {
    size_t lock;
    char id[CONSUL_UUID_SIZE + 1];
    int64_t lease_id;
    int64_t delay_ms;
    uint64_t token;
    uint64_t destroyed_us; /* it asked for it then; 0: never */
};

static struct consul_locker lockers[CONSUL_LOCKERS_MAX];
static size_t n_lockers;
static struct delay delays[DELAYS_MAX]; /* the last ones */
static size_t n_delays;
static uint64_t newest_index[LOCKS]; /* of the key, that anybody was told */
static uint64_t n_acquired;
static uint64_t n_delayed;

static struct consul_locker *locker_of(struct actor *actor) {
    return list_entry(actor, struct consul_locker, actor);
}

static void begin(struct actor *actor);

/* --- What must be true of every state. --- */

struct reading {
    const struct node *node;
    const struct key_store *keys;
    struct arena arena;
    size_t n_held;
};

static bool check_entry(void *context, const struct consul_entry *entry) {
    struct reading *reading = context;
    struct consul_session session;
    struct bytes holder = entry->lock.session;
    struct bytes value = entry->value.value;
    if (holder.size > 0) {
        struct bytes held = consul_key_held(&reading->arena, holder, entry->key);
        reading->n_held++;
        if (!consul_keys_session(reading->keys, &reading->arena, holder, &session) ||
            key_store_find(reading->keys, KEY_SPACE_CONSUL_RECORDS, held) == NULL) {
            check_failed("consul", "on %s a session that has ended holds %.*s", reading->node->name,
                         (int)entry->key.size, (const char *)entry->key.data);
        }
    }
    if (value.size > CONSUL_UUID_SIZE && value.data[0] == 'D' &&
        !consul_keys_session(reading->keys, &reading->arena,
                             bytes_of(value.data + 1, CONSUL_UUID_SIZE), &session)) {
        check_failed("consul", "on %s %.*s is left of a session that should have deleted it",
                     reading->node->name, (int)entry->key.size, (const char *)entry->key.data);
    }
    return true;
}

static void check_state(const struct node *node) {
    struct reading reading = {.node = node};
    if (!node->is_up || node->service == NULL) {
        return;
    }
    reading.keys = state_view_keys(service_view(node->service));
    arena_init(&reading.arena);
    struct key_range range = consul_prefix_range(&reading.arena, bytes_from_text("lock/"));
    consul_keys_visit(reading.keys, &range, check_entry, &reading);
    struct key_range held = consul_held_range(&reading.arena, bytes_of("", 0));
    size_t n = key_store_count(reading.keys, held.space, held.key, held.range_end);
    arena_clear(&reading.arena);
    if (n != reading.n_held) {
        check_failed("consul", "on %s sessions hold %zu keys, and %zu say so", node->name,
                     reading.n_held, n);
    }
}

/* Nobody acquires a key while the lock-delay of an earlier holder lasts. That begins when the
 * session ends: at a moment that is known for its expiry, and not before it was asked for
 * otherwise. */
static void check_delays(const struct consul_locker *locker, const struct call *call) {
    for (size_t i = 0; i < DELAYS_MAX; i++) {
        const struct delay *delay = &delays[i];
        uint64_t ended_us = checks_lease_ended_us(delay->lease_id);
        ended_us = ended_us != 0 ? ended_us : delay->destroyed_us;
        if (delay->lease_id == 0 || delay->lock != locker->lock || delay->token > locker->token ||
            ended_us == 0) {
            continue;
        }
        if (call->done_us < ended_us + checks_shortest_us(delay->delay_ms)) {
            check_failed("delay",
                         "client %zu acquired %s at %.3f s; its lock-delay of %" PRId64
                         " ms began at %.3f s",
                         locker->actor.number, names[locker->lock],
                         (double)call->done_us / WORLD_SECOND, delay->delay_ms,
                         (double)ended_us / WORLD_SECOND);
        }
    }
}

/* It keeps the lock to the end of its session, which begins a lock-delay. */
static void note_delay(const struct consul_locker *locker, uint64_t destroyed_us) {
    struct delay *delay = &delays[n_delays++ % DELAYS_MAX];
    *delay = (struct delay){.lock = locker->lock,
                            .lease_id = locker->lease_id,
                            .delay_ms = locker->delay_ms,
                            .token = locker->token,
                            .destroyed_us = destroyed_us};
    memcpy(delay->id, locker->id, sizeof delay->id);
}

/* A client says that it was the holder, and need not wait. */
static void drop_delay(const struct consul_locker *locker) {
    for (size_t i = 0; i < DELAYS_MAX; i++) {
        if (delays[i].lock == locker->lock && strcmp(delays[i].id, locker->previous) == 0) {
            delays[i] = (struct delay){0};
        }
    }
}

/* --- Calls. --- */

static struct bytes text(const char *chars) {
    return bytes_from_text(chars);
}

static struct call *make_ops(const struct consul_locker *locker, const struct consul_op *ops,
                             size_t n) {
    struct call *call = call_make(CALL_RULE);
    call->rule_number = CONSUL_RULE_KV;
    call->value = newest_index[locker->lock];
    consul_ops_encode(&call->rule_request, ops, n);
    return call;
}

/* The first failure, or 0 and the ModifyIndex of what the first operation wrote. */
static enum consul_failure read_results(const struct consul_locker *locker, const struct call *call,
                                        uint64_t *out_index) {
    struct consul_results results;
    struct arena arena;
    enum consul_failure failure = 0;
    arena_init(&arena);
    if (!consul_results_decode(bytes_of(call->rule_answer, call->rule_answer_size), &arena,
                               &results)) {
        check_failed("consul", "client %zu cannot read its answer", locker->actor.number);
    }
    *out_index = 0;
    if (results.is_failed) {
        failure = (enum consul_failure)results.results[0].failure;
    } else if (results.n > 0) {
        *out_index = (uint64_t)results.results[0].entry.modify_index;
    }
    arena_clear(&arena);
    return failure;
}

/* A write of the key was answered. */
static void check_index(const struct consul_locker *locker, const struct call *call,
                        uint64_t index) {
    uint64_t *newest = &newest_index[locker->lock];
    if (index <= call->value) {
        check_failed("consul", "%s was written with ModifyIndex %" PRIu64 " after %" PRIu64,
                     names[locker->lock], index, call->value);
    }
    *newest = index > *newest ? index : *newest;
}

static void start_over(struct consul_locker *locker) {
    checks_lock_released(LOCKS_CONSUL + locker->lock, locker->actor.number);
    locker->actor.round++;
    locker->renews = false;
    actor_later(&locker->actor, random_delay(20 * WORLD_MS, WORLD_SECOND), begin);
}

/* It was told that its session is gone. */
static void lost(struct consul_locker *locker) {
    checks_lease_not_found(locker->lease_id);
    if (locker->renews) {
        actor_lost(&locker->actor, "a session of Consul");
    }
    if (locker->token != 0) {
        note_delay(locker, 0);
    }
    start_over(locker);
}

/* --- Renewing. --- */

static void rely_from(struct consul_locker *locker, const struct call *call) {
    uint64_t until_us = actor_relies_until_us(&locker->actor, call, locker->ttl_ms);
    locker->until_us = until_us > locker->until_us ? until_us : locker->until_us;
    checks_lease_stands(locker->lease_id, locker->ttl_ms, locker->until_us);
    if (locker->token != 0) {
        checks_lock_held(LOCKS_CONSUL + locker->lock, locker->actor.number, locker->token,
                         locker->until_us);
    }
}

static void renewed(struct actor *actor, struct call *call) {
    struct consul_locker *locker = locker_of(actor);
    if (!locker->renews) {
        return;
    }
    if (call->status == STATUS_OK) {
        rely_from(locker, call);
    } else if (call->status == STATUS_LEASE_NOT_FOUND) {
        lost(locker);
    } else {
        actor->node = clients_choose_node();
    }
}

static void renew(struct actor *actor) {
    struct consul_locker *locker = locker_of(actor);
    if (locker->renews) {
        struct call *call = call_make(CALL_RENEW);
        call->lease_id = locker->lease_id;
        call->lease_owner = KEY_SPACE_CONSUL;
        call->ttl_ms = locker->ttl_ms;
        call->caller = &caller_server;
        call->patience_us = (uint64_t)locker->ttl_ms * 1000;
        actor_ask(actor, call, renewed);
        actor_later(actor, (uint64_t)locker->ttl_ms * 333, renew);
    }
}

/* --- The end. --- */

static void ended(struct actor *actor, struct call *call) {
    check_state(call->node);
    start_over(locker_of(actor));
}

static void stop_relying(struct consul_locker *locker) {
    checks_lock_released(LOCKS_CONSUL + locker->lock, locker->actor.number);
    checks_lease_given_up(locker->lease_id);
    locker->renews = false;
}

static void destroy(struct consul_locker *locker) {
    const struct consul_session_destroy request = {.id = text(locker->id)};
    struct call *call = call_make(CALL_RULE);
    call->rule_number = CONSUL_RULE_SESSION_DESTROY;
    consul_session_destroy_encode(&call->rule_request, &request);
    stop_relying(locker);
    if (locker->token != 0) {
        note_delay(locker, world_now_us());
    }
    actor_ask(&locker->actor, call, ended);
}

static void unlocked(struct actor *actor, struct call *call) {
    struct consul_locker *locker = locker_of(actor);
    uint64_t index;
    check_state(call->node);
    if (call->status == STATUS_OK && read_results(locker, call, &index) == 0) {
        check_index(locker, call, index);
    }
    start_over(locker);
}

/* No lock-delay follows. Its session ends by itself. */
static void unlock(struct consul_locker *locker) {
    const struct consul_op op = {.verb = CONSUL_UNLOCK,
                                 .key = text(names[locker->lock]),
                                 .value = text("free"),
                                 .session = text(locker->id)};
    stop_relying(locker);
    actor_ask(&locker->actor, make_ops(locker, &op, 1), unlocked);
}

static void stopped(struct actor *actor) {
    struct consul_locker *locker = locker_of(actor);
    note_delay(locker, 0);
    begin(actor);
}

static void release(struct actor *actor) {
    struct consul_locker *locker = locker_of(actor);
    uint64_t now_us = world_now_us();
    if (faults_want_quiet()) {
        actor_later(actor, 200 * WORLD_MS, release);
        return;
    }
    switch (random_below(3)) {
    case 0:
        unlock(locker);
        break;
    case 1:
        destroy(locker);
        break;
    default: /* it just stops, and relies on what it has to the last moment */
        locker->renews = false;
        actor_later(actor,
                    (locker->until_us > now_us ? locker->until_us - now_us : 0) +
                        random_below(WORLD_SECOND),
                    stopped);
        break;
    }
}

/* --- Holding. --- */

static void worked(struct actor *actor, struct call *call) {
    struct consul_locker *locker = locker_of(actor);
    uint64_t index;
    check_state(call->node);
    if (call->status != STATUS_OK) {
        return;
    }
    enum consul_failure failure = read_results(locker, call, &index);
    if (failure == 0 && call->value > locker->token) {
        check_failed(
            "consul", "client %zu (token %" PRIu64 ") wrote %s after %" PRIu64 " was told of %s",
            actor->number, locker->token, works[locker->lock], call->value, names[locker->lock]);
    }
    if (failure != 0 && locker->renews && locker->until_us > world_now_us() &&
        !checks_leases_are_stretched()) {
        check_failed("consul", "client %zu holds %s until %.3f s, and was told that it does not",
                     actor->number, names[locker->lock], (double)locker->until_us / WORLD_SECOND);
    }
}

/* Only while it holds the lock, all or nothing. */
static void work(struct actor *actor) {
    struct consul_locker *locker = locker_of(actor);
    char value[24];
    snprintf(value, sizeof value, "%" PRIu64, random_next());
    const struct consul_op ops[] = {
        {.verb = CONSUL_SET, .key = text(works[locker->lock]), .value = text(value)},
        {.verb = CONSUL_CHECK_SESSION,
         .key = text(names[locker->lock]),
         .session = text(locker->id)}};
    if (!faults_want_quiet()) {
        actor_ask(actor, make_ops(locker, ops, 2), worked);
    }
    actor_later(actor, random_delay(300 * WORLD_MS, 3 * WORLD_SECOND), work);
}

/* --- Acquiring. --- */

static void try(struct actor *actor);

static void swept(struct actor *actor, struct call *call) {
    (void)call;
    actor_later(actor, random_between(10, 200) * WORLD_MS, try);
}

/* Deletes the key while nobody has it; a lock-delay lasts on. */
static void sweep(struct actor *actor) {
    struct consul_locker *locker = locker_of(actor);
    const struct consul_op ops[] = {
        {.verb = CONSUL_CHECK_SESSION, .key = text(names[locker->lock])},
        {.verb = CONSUL_DELETE, .key = text(names[locker->lock])}};
    actor_ask(actor, make_ops(locker, ops, 2), swept);
}

static void acquired(struct consul_locker *locker, const struct call *call, uint64_t index) {
    size_t lock = LOCKS_CONSUL + locker->lock;
    checks_token(lock, index, call->value);
    check_index(locker, call, index);
    n_acquired++;
    locker->token = index;
    check_delays(locker, call);
    if (locker->until_us <= world_now_us()) {
        note_delay(locker, 0);
        start_over(locker); /* too late to rely on it */
        return;
    }
    checks_lock_held(lock, locker->actor.number, locker->token, locker->until_us);
    actor_later(&locker->actor, random_delay(500 * WORLD_MS, 8 * WORLD_SECOND), release);
    actor_later(&locker->actor, random_below(WORLD_SECOND), work);
}

static void tried(struct actor *actor, struct call *call) {
    struct consul_locker *locker = locker_of(actor);
    uint64_t index;
    check_state(call->node);
    if (call->status != STATUS_OK) { /* it may have got it without knowing */
        actor->node = clients_choose_node();
        start_over(locker);
        return;
    }
    enum consul_failure failure = read_results(locker, call, &index);
    n_delayed += failure == CONSUL_FAILED_DELAYED;
    if (failure == 0) {
        acquired(locker, call, index);
    } else if (failure == CONSUL_FAILED_NO_SESSION) {
        lost(locker);
    } else if (failure != CONSUL_FAILED_HELD && failure != CONSUL_FAILED_DELAYED) {
        check_failed("consul", "client %zu cannot acquire %s: %d", actor->number,
                     names[locker->lock], failure);
    } else if (++locker->n_tries > 40) {
        destroy(locker);
    } else if (random_chance(100)) {
        sweep(actor);
    } else {
        actor_later(actor, random_between(10, 250) * WORLD_MS, try);
    }
}

static void try(struct actor *actor) {
    struct consul_locker *locker = locker_of(actor);
    bool names_previous = locker->previous[0] != '\0' && random_chance(200);
    const struct consul_op op = {.verb = CONSUL_LOCK,
                                 .key = text(names[locker->lock]),
                                 .value = text(locker->value),
                                 .session = text(locker->id),
                                 .previous = text(names_previous ? locker->previous : "")};
    if (faults_want_quiet()) {
        actor_later(actor, 200 * WORLD_MS, try);
        return;
    }
    if (names_previous) {
        drop_delay(locker);
    }
    actor_ask(actor, make_ops(locker, &op, 1), tried);
}

/* --- Sessions. --- */

/* At the node. */
static void see_session(struct call *call) {
    struct consul_session session;
    struct arena arena;
    arena_init(&arena);
    bool is_there = consul_keys_session(state_view_keys(service_view(call->node->service)), &arena,
                                        text(call->key), &session);
    call->lease_id = is_there ? session.lease_id : 0;
    arena_clear(&arena);
}

static void created(struct actor *actor, struct call *call) {
    struct consul_locker *locker = locker_of(actor);
    if (call->status != STATUS_OK || call->lease_id == 0) {
        actor->node = clients_choose_node();
        start_over(locker);
        return;
    }
    locker->lease_id = call->lease_id;
    rely_from(locker, call);
    locker->renews = true;
    actor_later(actor, (uint64_t)locker->ttl_ms * 333, renew);
    try(actor);
}

static void choose_session(struct consul_locker *locker) {
    memcpy(locker->previous, locker->id, sizeof locker->previous);
    uint64_t high = random_next();
    uint64_t low = random_next();
    snprintf(locker->id, sizeof locker->id,
             "%08" PRIx32 "-%04" PRIx16 "-%04" PRIx16 "-%04" PRIx16 "-%012" PRIx64,
             (uint32_t)(high >> 32), (uint16_t)(high >> 16), (uint16_t)high, (uint16_t)(low >> 48),
             low & UINT64_C(0xffffffffffff));
    locker->deletes = random_chance(400);
    locker->ttl_ms = (int64_t)random_between(TTL_MS_MIN, TTL_MS_MAX);
    locker->delay_ms = random_chance(200) ? 0 : (int64_t)random_between(DELAY_MS_MIN, DELAY_MS_MAX);
    snprintf(locker->value, sizeof locker->value, "%c%s", locker->deletes ? 'D' : 'R', locker->id);
}

static void begin(struct actor *actor) {
    struct consul_locker *locker = locker_of(actor);
    if (faults_want_quiet()) {
        actor_later(actor, 200 * WORLD_MS, begin);
        return;
    }
    checks_lock_released(LOCKS_CONSUL + locker->lock, actor->number);
    actor->round++;
    choose_session(locker);
    locker->lock = random_below(LOCKS);
    locker->lease_id = 0;
    locker->until_us = 0;
    locker->token = 0;
    locker->n_tries = 0;
    const struct consul_session session = {.id = text(locker->id),
                                           .node = text("n1"),
                                           .deletes = locker->deletes,
                                           .ttl_ms = locker->ttl_ms,
                                           .lock_delay_ms = locker->delay_ms};
    struct call *call = call_make(CALL_RULE);
    call->rule_number = CONSUL_RULE_SESSION_CREATE;
    call->look = see_session;
    snprintf(call->key, sizeof call->key, "%s", locker->id);
    consul_session_create_encode(&call->rule_request, &session);
    actor_ask(actor, call, created);
}

void consul_locks_start(size_t n) {
    n_lockers = n;
    for (size_t i = 0; i < n; i++) {
        actor_init(&lockers[i].actor, i);
        actor_later(&lockers[i].actor, random_below(WORLD_SECOND), begin);
    }
}

void consul_locks_check(void) {
    for (size_t i = 0; n_lockers > 0 && i < nodes_count(); i++) {
        const struct node *node = node_at(i);
        check_state(node);
        if (!node->is_up || node->service == NULL) {
            continue;
        }
        struct arena arena;
        arena_init(&arena);
        struct key_range all = consul_sessions_range(&arena, bytes_of("", 0));
        size_t n = key_store_count(state_view_keys(service_view(node->service)), all.space, all.key,
                                   all.range_end);
        arena_clear(&arena);
        if (n > 0) {
            check_failed("consul", "on %s %zu sessions are left", node->name, n);
        }
    }
    if (n_lockers > 0) {
        trace("%" PRIu64 " locks of Consul, %" PRIu64 " times delayed", n_acquired, n_delayed);
    }
}
