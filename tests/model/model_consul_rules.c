/*
 * Random transactions and sessions of the Consul API against a plain table of keys, on two
 * machines: one that lives through everything, one that is restored from snapshots now and then.
 * Both must be equal to the byte. After every step every key has the value, the holder, the indexes
 * and the lock-delay that the table says, no session that has ended holds anything, and there are
 * no leases but those of sessions and lock-delays. The seed is printed; give it as the first
 * argument to replay a run.
 */
#include "../storage/thorough.h"
#include "doors/consul/consul_keys.h"
#include "doors/consul/consul_rules.h"
#include "model_machines.h"
#include "model_random.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 3000, ROUNDS = THOROUGH(6), KEYS = 6, SESSIONS = 4, OPS = 5, DELAYS_MAX = 4096 };

static const char *const names[KEYS] = {"a", "a/b", "a/c", "ab", "b", "b/a"};
static const char *const prefixes[] = {"", "a", "a/", "b/", "z"};
static const char *const values[] = {"", "1", "2"};

/* --- The reference. --- */

struct ref_key {
    bool exists;
    const char *value;
    uint64_t flags;
    int session; /* who holds it; -1: nobody */
    uint64_t lock_index;
    int64_t create_index;
    int64_t modify_index;
    int delay; /* -1: none */
};
struct ref_session {
    bool is_alive;
    char id[CONSUL_UUID_SIZE + 1];
    int64_t lease_id;
    int64_t delay_ms;
    bool deletes;
};
struct ref_delay {
    bool is_on;
    int64_t lease_id;
    char id[CONSUL_UUID_SIZE + 1]; /* of the session whose end began it */
};

static struct ref_key keys[KEYS];
static struct ref_session sessions[SESSIONS];
static struct ref_delay delays[DELAYS_MAX];
static size_t n_delays;
static uint64_t n_sessions; /* ever */

/* What one transaction would make of the keys. */
struct attempt {
    struct ref_key keys[KEYS];
    int64_t revision;
    size_t n_failures;
    struct consul_result failures[OPS];
    size_t n_entries;
};

static bool is_delayed(const struct ref_key *key, const struct consul_op *op) {
    return key->delay >= 0 && delays[key->delay].is_on &&
           !bytes_equal(op->previous, bytes_from_text(delays[key->delay].id));
}

static void ref_set(struct attempt *attempt, struct ref_key *key, const struct consul_op *op) {
    if (!key->exists || key->flags != op->flags ||
        !bytes_equal(bytes_from_text(key->value), op->value)) {
        key->create_index = key->exists ? key->create_index : attempt->revision;
        key->modify_index = attempt->revision;
        key->exists = true;
        key->flags = op->flags;
        key->value = (const char *)op->value.data;
    }
    attempt->n_entries++;
}

static void ref_delete(struct ref_key *key) {
    if (key->exists) {
        int delay = key->delay >= 0 && delays[key->delay].is_on ? key->delay : -1;
        *key = (struct ref_key){.session = -1, .delay = delay};
    }
}

static int session_of(struct bytes id) {
    for (int i = 0; i < SESSIONS; i++) {
        if (sessions[i].is_alive && bytes_equal(bytes_from_text(sessions[i].id), id)) {
            return i;
        }
    }
    return -1;
}

/* 0: done. */
static enum consul_failure ref_lock(struct attempt *attempt, struct ref_key *key,
                                    const struct consul_op *op) {
    int session = session_of(op->session);
    if (session < 0) {
        return CONSUL_FAILED_NO_SESSION;
    }
    if (key->session != session) {
        if (key->session >= 0) {
            return CONSUL_FAILED_HELD;
        }
        if (is_delayed(key, op)) {
            return CONSUL_FAILED_DELAYED;
        }
        key->session = session;
        key->delay = -1;
        key->lock_index++;
        key->modify_index = attempt->revision;
    }
    ref_set(attempt, key, op);
    return 0;
}

static enum consul_failure ref_unlock(struct attempt *attempt, struct ref_key *key,
                                      const struct consul_op *op) {
    int session = session_of(op->session);
    if (!key->exists || session < 0 || key->session != session) {
        return CONSUL_FAILED_NOT_HELD;
    }
    key->session = -1;
    key->modify_index = attempt->revision;
    ref_set(attempt, key, op);
    return 0;
}

static enum consul_failure ref_check(struct attempt *attempt, const struct ref_key *key,
                                     const struct consul_op *op) {
    if (!key->exists) {
        return CONSUL_FAILED_MISSING;
    }
    const char *holder = key->session >= 0 ? sessions[key->session].id : "";
    if (op->verb == CONSUL_CHECK_SESSION && !bytes_equal(bytes_from_text(holder), op->session)) {
        return CONSUL_FAILED_SESSION;
    }
    if (op->verb == CONSUL_CHECK_INDEX && (uint64_t)key->modify_index != op->index) {
        return CONSUL_FAILED_INDEX;
    }
    attempt->n_entries++;
    return 0;
}

static void ref_tree(struct attempt *attempt, const struct consul_op *op) {
    for (size_t i = 0; i < KEYS; i++) {
        if (!attempt->keys[i].exists ||
            strncmp(names[i], (const char *)op->key.data, op->key.size) != 0) {
            continue;
        }
        if (op->verb == CONSUL_DELETE_TREE) {
            ref_delete(&attempt->keys[i]);
        } else {
            attempt->n_entries++;
        }
    }
}

static enum consul_failure ref_op(struct attempt *attempt, struct ref_key *key,
                                  const struct consul_op *op) {
    bool is_current =
        op->index == 0 ? !key->exists : key->exists && (uint64_t)key->modify_index == op->index;
    switch (op->verb) {
    case CONSUL_SET:
        ref_set(attempt, key, op);
        return 0;
    case CONSUL_CAS:
        if (is_current) {
            ref_set(attempt, key, op);
        }
        return is_current ? 0 : CONSUL_FAILED_STALE;
    case CONSUL_LOCK:
        return ref_lock(attempt, key, op);
    case CONSUL_UNLOCK:
        return ref_unlock(attempt, key, op);
    case CONSUL_DELETE_CAS:
        if (key->exists && (uint64_t)key->modify_index != op->index) {
            return CONSUL_FAILED_STALE;
        }
        ref_delete(key);
        return 0;
    case CONSUL_DELETE:
        ref_delete(key);
        return 0;
    case CONSUL_GET_OR_EMPTY:
        attempt->n_entries++;
        return 0;
    case CONSUL_CHECK_NOT_EXISTS:
        return key->exists ? CONSUL_FAILED_EXISTS : 0;
    default:
        return ref_check(attempt, key, op);
    }
}

static void ref_run(struct attempt *attempt, const struct consul_op *ops, const size_t *places,
                    size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (ops[i].verb == CONSUL_DELETE_TREE || ops[i].verb == CONSUL_GET_TREE) {
            ref_tree(attempt, &ops[i]);
            continue;
        }
        enum consul_failure failure = ref_op(attempt, &attempt->keys[places[i]], &ops[i]);
        if (failure != 0) {
            attempt->failures[attempt->n_failures++] =
                (struct consul_result){.op = i, .failure = (uint8_t)failure};
        }
    }
}

static const struct rule_set rules = {consul_rules, CONSUL_N_RULES};

static const struct key_store *store(void) {
    return state_machine_keys(machine);
}

static bool has_lease(int64_t id) {
    struct lease_facts ignored;
    return lease_table_find(state_machine_leases(machine), id, &ignored);
}

/* --- What is there. --- */

struct listing {
    bool is_seen[KEYS];
};

static size_t place_of(struct bytes name) {
    for (size_t i = 0; i < KEYS; i++) {
        if (bytes_equal(name, bytes_from_text(names[i]))) {
            return i;
        }
    }
    assert(!"a key that nobody wrote");
    return 0;
}

static bool check_entry(void *data, const struct consul_entry *entry) {
    struct listing *listing = data;
    size_t place = place_of(entry->key);
    const struct ref_key *key = &keys[place];
    const char *holder = key->session >= 0 ? sessions[key->session].id : "";
    listing->is_seen[place] = true;
    assert(key->exists);
    assert(bytes_equal(entry->value.value, bytes_from_text(key->value)));
    assert(entry->value.flags == key->flags);
    assert(bytes_equal(entry->lock.session, bytes_from_text(holder)));
    assert(entry->lock.lock_index == key->lock_index);
    assert(entry->create_index == key->create_index);
    assert(entry->modify_index == key->modify_index);
    return true;
}

/* Also of a key that is not there. */
static void check_delay(size_t place) {
    struct consul_lock lock = {0};
    const struct record *record = key_store_find(
        store(), KEY_SPACE_CONSUL, consul_key_lock(&arena, bytes_from_text(names[place])));
    assert(record == NULL || consul_lock_decode(record_value(record), &lock));
    int delay = keys[place].delay;
    bool is_on = delay >= 0 && delays[delay].is_on;
    assert(is_on == (lock.delay_lease_id != 0 && has_lease(lock.delay_lease_id)));
    assert(!is_on || lock.delay_lease_id == delays[delay].lease_id);
    assert(keys[place].exists || is_on == (record != NULL));
}

static void check(void) {
    struct listing listing = {0};
    struct key_range all = consul_prefix_range(&arena, bytes_of("", 0));
    struct key_range held = consul_held_range(&arena, bytes_of("", 0));
    struct key_range alive = consul_sessions_range(&arena, bytes_of("", 0));
    size_t n_held = 0;
    size_t n_alive = 0;
    size_t n_leases = 0;
    consul_keys_visit(store(), &all, check_entry, &listing);
    for (size_t i = 0; i < KEYS; i++) {
        assert(listing.is_seen[i] == keys[i].exists);
        assert(keys[i].session < 0 || sessions[keys[i].session].is_alive);
        n_held += keys[i].session >= 0;
        check_delay(i);
    }
    for (size_t i = 0; i < SESSIONS; i++) {
        n_alive += sessions[i].is_alive;
    }
    for (size_t i = 0; i < n_delays; i++) {
        n_leases += delays[i].is_on;
    }
    assert(key_store_count(store(), held.space, held.key, held.range_end) == n_held);
    assert(key_store_count(store(), alive.space, alive.key, alive.range_end) == n_alive);
    assert(lease_table_count(state_machine_leases(machine)) == n_alive + n_leases);
    assert(key_store_count(store(), KEY_SPACE_LEASE_HOOKS, bytes_of("", 1), bytes_of("", 1)) ==
           n_alive);
}

/* --- Steps. --- */

static struct bytes some_session(void) {
    const char *id = sessions[random_below(SESSIONS)].id;
    return bytes_from_text(id[0] != '\0' ? id : "00000000-0000-0000-0000-000000000000");
}

static struct consul_op random_op(size_t place) {
    static const uint8_t verbs[] = {CONSUL_SET,  CONSUL_LOCK,   CONSUL_LOCK,  CONSUL_LOCK,
                                    CONSUL_LOCK, CONSUL_UNLOCK, CONSUL_UNLOCK};
    uint8_t verb =
        random_one_in(2) ? verbs[random_below(sizeof verbs)] : (uint8_t)random_below(CONSUL_VERBS);
    struct consul_op op = {.verb = verb,
                           .key = bytes_from_text(names[place]),
                           .value = bytes_from_text(values[random_below(3)]),
                           .flags = random_below(2),
                           .index = random_one_in(3) ? 0 : (uint64_t)keys[place].modify_index};
    if (verb == CONSUL_DELETE_TREE || verb == CONSUL_GET_TREE) {
        op.key = bytes_from_text(prefixes[random_below(sizeof prefixes / sizeof prefixes[0])]);
    }
    if (verb == CONSUL_LOCK || verb == CONSUL_UNLOCK || verb == CONSUL_CHECK_SESSION) {
        bool is_holder = keys[place].session >= 0 && random_one_in(2);
        op.session = is_holder ? bytes_from_text(sessions[keys[place].session].id) : some_session();
    }
    if (verb == CONSUL_LOCK && keys[place].delay >= 0 && random_one_in(3)) {
        op.previous = bytes_from_text(delays[keys[place].delay].id);
    }
    return op;
}

static void step_ops(void) {
    struct consul_op ops[OPS];
    size_t places[OPS];
    struct consul_results results;
    struct buffer request;
    size_t n = random_one_in(2) ? 1 : 1 + random_below(OPS);
    int64_t before = key_store_revision(store());
    struct attempt attempt = {.revision = before + 1};
    memcpy(attempt.keys, keys, sizeof keys);
    for (size_t i = 0; i < n; i++) {
        places[i] = random_below(KEYS);
        ops[i] = random_op(places[i]);
    }
    ref_run(&attempt, ops, places, n);
    buffer_init(&request);
    consul_ops_encode(&request, ops, n);
    struct outcome outcome = run_rule(CONSUL_RULE_KV, &request);
    assert(outcome.status == STATUS_OK);
    assert(consul_results_decode(outcome.rule.answer, &arena, &results));
    assert(results.is_failed == (attempt.n_failures > 0));
    assert(results.n == (results.is_failed ? attempt.n_failures : attempt.n_entries));
    if (results.is_failed) {
        assert(outcome.revision == before);
        for (size_t i = 0; i < results.n; i++) {
            assert(results.results[i].op == attempt.failures[i].op);
            assert(results.results[i].failure == attempt.failures[i].failure);
        }
        return;
    }
    memcpy(keys, attempt.keys, sizeof keys);
}

static void step_create(size_t place) {
    struct ref_session *session = &sessions[place];
    struct buffer request;
    buffer_init(&request);
    if (session->is_alive) {
        return;
    }
    *session = (struct ref_session){
        .is_alive = true, .delay_ms = random_one_in(4) ? 0 : 1000, .deletes = random_one_in(2)};
    snprintf(session->id, sizeof session->id, "%08llx-0000-0000-0000-000000000000",
             (unsigned long long)++n_sessions);
    struct consul_session real = {.id = bytes_from_text(session->id),
                                  .deletes = session->deletes,
                                  .ttl_ms = random_one_in(5) ? 0 : 5000,
                                  .lock_delay_ms = session->delay_ms};
    consul_session_create_encode(&request, &real);
    assert(run_rule(CONSUL_RULE_SESSION_CREATE, &request).status == STATUS_OK);
    assert(consul_keys_session(store(), &arena, bytes_from_text(session->id), &real));
    session->lease_id = real.lease_id;
}

static void end_in_reference(size_t place) {
    struct ref_session *session = &sessions[place];
    int delay = -1;
    session->is_alive = false;
    for (size_t i = 0; i < KEYS; i++) {
        if (keys[i].session != (int)place) {
            continue;
        }
        if (delay < 0 && session->delay_ms > 0) {
            assert(n_delays < DELAYS_MAX);
            delay = (int)n_delays++;
            delays[delay] = (struct ref_delay){.is_on = true};
            memcpy(delays[delay].id, session->id, sizeof session->id);
        }
        keys[i].session = -1;
        keys[i].modify_index = key_store_revision(store());
        keys[i].delay = delay;
        if (session->deletes) {
            keys[i] = (struct ref_key){.session = -1, .delay = delay};
        }
    }
    if (delay >= 0) { /* the one that nobody knows yet */
        size_t n = 0;
        int64_t *ids = lease_table_ids(state_machine_leases(machine), &n);
        for (size_t i = 0; i < n; i++) {
            bool is_known = false;
            for (size_t j = 0; j < SESSIONS; j++) {
                is_known |= sessions[j].is_alive && sessions[j].lease_id == ids[i];
            }
            for (size_t j = 0; j < n_delays; j++) {
                is_known |= delays[j].is_on && delays[j].lease_id == ids[i];
            }
            delays[delay].lease_id = is_known ? delays[delay].lease_id : ids[i];
        }
        free(ids);
        assert(delays[delay].lease_id != 0);
    }
}

static void step_destroy(size_t place) {
    struct buffer request;
    int64_t before = key_store_revision(store());
    const struct consul_session_destroy destroy = {.id = some_session()};
    if (sessions[place].is_alive) {
        struct consul_session_destroy real = {.id = bytes_from_text(sessions[place].id)};
        buffer_init(&request);
        consul_session_destroy_encode(&request, &real);
        struct outcome outcome = run_rule(CONSUL_RULE_SESSION_DESTROY, &request);
        assert(outcome.status == STATUS_OK);
        assert(outcome.revision == before + 1);
        end_in_reference(place);
    } else if (session_of(destroy.id) < 0) {
        buffer_init(&request);
        consul_session_destroy_encode(&request, &destroy);
        assert(run_rule(CONSUL_RULE_SESSION_DESTROY, &request).revision == before);
    }
}

static void step_expire(void) {
    size_t n = 0;
    struct lease_facts facts;
    int64_t *ids = lease_table_ids(state_machine_leases(machine), &n);
    if (n > 0) {
        int64_t id = ids[random_below(n)];
        assert(lease_table_find(state_machine_leases(machine), id, &facts));
        const struct command command = {
            .type = COMMAND_LEASE_EXPIRE,
            .expire = {.term = 1, .n = 1, .ids = &id, .epochs = &facts.epoch}};
        assert(apply(&command).expire.n_ended == 1);
        for (size_t i = 0; i < SESSIONS; i++) {
            if (sessions[i].is_alive && sessions[i].lease_id == id) {
                end_in_reference(i);
            }
        }
        for (size_t i = 0; i < n_delays; i++) {
            delays[i].is_on = delays[i].is_on && delays[i].lease_id != id;
        }
    }
    free(ids);
}

static void step(void) {
    size_t place = random_below(SESSIONS);
    switch (random_below(20)) {
    case 0:
    case 1:
    case 2:
        step_create(place);
        break;
    case 3:
        step_destroy(place);
        break;
    case 4:
    case 5:
        step_expire();
        break;
    default:
        step_ops();
        break;
    }
    check();
    if (random_one_in(60)) {
        machines_compare(true);
    }
    arena_reset(&arena);
}

static void begin_round(void) {
    memset(keys, 0, sizeof keys);
    memset(sessions, 0, sizeof sessions);
    n_delays = 0;
    n_sessions = 0;
    for (size_t i = 0; i < KEYS; i++) {
        keys[i].session = -1;
        keys[i].delay = -1;
    }
    machines_open(&rules);
}

int main(int argc, char **argv) {
    random_seed(argc, argv);
    arena_init(&arena);
    for (size_t round = 0; round < ROUNDS; round++) {
        begin_round();
        for (size_t i = 0; i < STEPS; i++) {
            step();
        }
        machines_close();
    }
    arena_clear(&arena);
    return 0;
}
