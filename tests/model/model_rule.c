/*
 * Random commands of the trial rules (tests/rules) against plain lists of who holds which lock and
 * who waits for it, on two machines: one that lives through everything, one that is restored from
 * snapshots now and then and reclaims at other times. Both must be equal to the byte, and rules
 * that misbehave must change nothing. The seed is printed; give it as the first argument to replay
 * a run.
 */
#include "../storage/thorough.h"
#include "model_machines.h"
#include "model_random.h"
#include "trial_rules.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LOCKS = 3,
    LEASES = 12,
    WAITERS_MAX = 64,
    STEPS = 4000,
    ROUNDS = THOROUGH(10),
    TTL_MS = 1000
};

/* Leases are numbered from 1; 0 is nobody. */
struct lock {
    int64_t holder;
    size_t n_waiting;
    int64_t waiting[WAITERS_MAX];
};

static const char *const names[LOCKS] = {"a", "b", "c"};
static struct lock locks[LOCKS];
static bool is_alive[LEASES + 1];
static int64_t counted;

/* --- What should come of it. --- */

static void expect_handover(struct lock *lock) {
    lock->holder = 0;
    if (lock->n_waiting > 0) {
        lock->holder = lock->waiting[0];
        lock->n_waiting--;
        memmove(lock->waiting, lock->waiting + 1, lock->n_waiting * sizeof lock->waiting[0]);
    }
}

static void expect_end(int64_t lease) {
    is_alive[lease] = false;
    for (size_t i = 0; i < LOCKS; i++) {
        size_t n = 0;
        for (size_t j = 0; j < locks[i].n_waiting; j++) {
            if (locks[i].waiting[j] != lease) {
                locks[i].waiting[n++] = locks[i].waiting[j];
            }
        }
        locks[i].n_waiting = n;
        if (locks[i].holder == lease) {
            expect_handover(&locks[i]);
        }
    }
}

static void check(void) {
    const struct key_store *keys = state_machine_keys(machine);
    size_t n_hooks = 0;
    for (size_t i = 0; i < LOCKS; i++) {
        char key[32];
        char end[32];
        snprintf(key, sizeof key, "holder/%s", names[i]);
        const struct record *holder = key_store_find(keys, TRIAL_SPACE, bytes_from_text(key));
        assert((holder == NULL ? 0 : holder->lease_id) == locks[i].holder);
        snprintf(key, sizeof key, "queue/%s/", names[i]);
        snprintf(end, sizeof end, "queue/%s0", names[i]);
        assert(key_store_count(keys, TRIAL_SPACE, bytes_from_text(key), bytes_from_text(end)) ==
               locks[i].n_waiting);
        n_hooks += locks[i].holder != 0;
    }
    assert(key_store_count(keys, KEY_SPACE_LEASE_HOOKS, bytes_of("", 1), bytes_of("", 1)) ==
           n_hooks);
    size_t n_alive = 0;
    for (int64_t i = 1; i <= LEASES; i++) {
        n_alive += is_alive[i];
    }
    assert(lease_table_count(state_machine_leases(machine)) == n_alive);
}

/* --- Steps. --- */

static void step_lock(void) {
    struct buffer request;
    struct trial_locked answer;
    int64_t lease = 1 + (int64_t)random_below(LEASES);
    struct lock *lock = &locks[random_below(LOCKS)];
    if (lock->n_waiting == WAITERS_MAX) {
        return;
    }
    buffer_init(&request);
    trial_request_lock(&request, names[lock - locks], lease, TTL_MS);
    struct outcome outcome = run_rule(TRIAL_LOCK, &request);
    assert(outcome.status == STATUS_OK);
    assert(trial_answer_locked(outcome.rule.answer, &answer));
    assert(answer.is_held == (lock->holder == 0));
    assert(!answer.is_held || answer.token == outcome.revision);
    is_alive[lease] = true;
    if (lock->holder == 0) {
        lock->holder = lease;
    } else {
        lock->waiting[lock->n_waiting++] = lease;
    }
}

static void step_unlock(void) {
    struct buffer request;
    int64_t lease = 1 + (int64_t)random_below(LEASES);
    struct lock *lock = &locks[random_below(LOCKS)];
    buffer_init(&request);
    trial_request_unlock(&request, names[lock - locks], lease);
    enum status status = run_rule(TRIAL_UNLOCK, &request).status;
    assert(status == (lock->holder == lease ? STATUS_OK : STATUS_KEY_NOT_FOUND));
    if (status == STATUS_OK) {
        expect_handover(lock);
    }
}

static void step_end(void) {
    struct buffer request;
    int64_t lease = 1 + (int64_t)random_below(LEASES);
    buffer_init(&request);
    trial_request_end(&request, lease);
    enum status status = run_rule(TRIAL_END, &request).status;
    assert(status == (is_alive[lease] ? STATUS_OK : STATUS_LEASE_NOT_FOUND));
    if (status == STATUS_OK) {
        expect_end(lease);
    }
}

static void step_expire(void) {
    int64_t ids[LEASES];
    uint32_t epochs[LEASES];
    size_t n = 0;
    for (int64_t id = 1; id <= LEASES; id++) {
        struct lease_facts facts;
        if (random_one_in(4) && lease_table_find(state_machine_leases(machine), id, &facts)) {
            ids[n] = id;
            epochs[n++] = facts.epoch;
        }
    }
    const struct command command = {
        .type = COMMAND_LEASE_EXPIRE,
        .expire = {.term = context.term, .n = n, .ids = ids, .epochs = epochs}};
    assert(apply(&command).expire.n_ended == n);
    for (size_t i = 0; i < n; i++) {
        expect_end(ids[i]);
    }
}

static void step_count(void) {
    struct buffer request;
    int64_t number;
    buffer_init(&request);
    trial_request_name(&request, "n");
    struct outcome outcome = run_rule(TRIAL_COUNT, &request);
    assert(trial_answer_number(outcome.rule.answer, &number));
    assert(number == ++counted);
}

/* Refused, and nothing has changed: check() and the comparison of snapshots would tell. */
static void step_bad(void) {
    static const enum trial_fault faults[] = {TRIAL_FAILS_HALF_WAY, TRIAL_FAILS_AFTER_PUTS,
                                              TRIAL_LEAVES_ITS_SPACE, TRIAL_READS_OTHERS,
                                              TRIAL_ATTACHES_TO_NOTHING};
    struct buffer request;
    int64_t revision = key_store_revision(state_machine_keys(machine));
    buffer_init(&request);
    trial_request_bad(&request, faults[random_below(sizeof faults / sizeof faults[0])], 1000);
    struct outcome outcome = run_rule(TRIAL_BAD, &request);
    assert(outcome.status != STATUS_OK);
    assert(outcome.revision == revision);
}

static void step_compact(void) {
    int64_t revision = key_store_revision(state_machine_keys(machine));
    const struct command command = {.type = COMMAND_COMPACT, .compact = {.revision = revision}};
    (void)apply(&command);
    key_store_reclaim(state_machine_keys(random_one_in(2) ? machine : second), random_below(200));
}

static void step(void) {
    uint64_t choice = random_below(1000);
    if (choice < 400) {
        step_lock();
    } else if (choice < 600) {
        step_unlock();
    } else if (choice < 750) {
        step_end();
    } else if (choice < 800) {
        step_expire();
    } else if (choice < 850) {
        step_count();
    } else if (choice < 930) {
        step_bad();
    } else if (choice < 960) {
        step_compact();
    } else {
        machines_compare(random_one_in(2));
    }
    check();
    arena_reset(&arena);
}

static void run(void) {
    machines_open(&trial_rules);
    memset(locks, 0, sizeof locks);
    memset(is_alive, 0, sizeof is_alive);
    counted = 0;
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
