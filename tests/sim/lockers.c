#include "call.h"
#include "checks.h"
#include "clients.h"
#include "faults.h"
#include "node.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>

enum { LOCKERS_MAX = 8 };

/* A round: a lease, a lock tied to it, some work, and the end of both. */
struct locker {
    size_t number;
    int64_t rate_ppm; /* of its clock */
    uint64_t round;   /* answers of earlier rounds are of no interest */
    struct node *node;
    size_t lock;
    int64_t lease_id;
    int64_t ttl_ms;
    uint64_t until_us; /* it relies on the lease until then, by its own clock */
    uint64_t token;    /* 0: it has no lock */
    bool renews;
    bool is_sleepy;   /* renews about when the lease ends */
    bool is_renewing; /* a renewal is on its way */
    unsigned n_tries;
};

static struct lockers_options the_options;
static struct locker lockers[LOCKERS_MAX];
static bool is_stopped;

/* An event of one round of one locker. */
struct moment {
    struct locker *locker;
    uint64_t round;
    void (*act)(struct locker *locker);
};

static void moment_comes(void *data) {
    struct moment moment = *(struct moment *)data;
    free(data);
    if (moment.locker->round == moment.round && !is_stopped) {
        moment.act(moment.locker);
    }
}

static void later(struct locker *locker, uint64_t delay_us, void (*act)(struct locker *locker)) {
    struct moment *moment = malloc(sizeof *moment);
    if (moment == NULL) {
        abort();
    }
    *moment = (struct moment){.locker = locker, .round = locker->round, .act = act};
    world_at(world_now_us() + delay_us, moment_comes, moment);
}

struct node *clients_choose_node(void) {
    return node_at(random_below(nodes_count()));
}

/* --- Calls. --- */

struct locker_call {
    struct locker *locker;
    uint64_t round;
    void (*answered)(struct locker *locker, struct call *call);
    uint64_t newest_token;
};

static void call_answered(struct call *call) {
    struct locker_call *ours = call->data;
    if (!is_stopped && ours->locker->round == ours->round) {
        ours->answered(ours->locker, call);
    }
}

static struct call *ask(struct locker *locker, enum call_type type,
                        void (*answered)(struct locker *locker, struct call *call)) {
    struct call *call = call_make(type);
    struct locker_call *ours = malloc(sizeof *ours);
    if (ours == NULL) {
        abort();
    }
    *ours = (struct locker_call){.locker = locker,
                                 .round = locker->round,
                                 .answered = answered,
                                 .newest_token = checks_newest_token(locker->lock)};
    call->answered = call_answered;
    call->data = ours;
    call->lease_id = locker->lease_id;
    call->ttl_ms = locker->ttl_ms;
    call->value = locker->number + 1;
    snprintf(call->key, sizeof call->key, "l%zu", locker->lock);
    return call;
}

static void ignore(struct locker *locker, struct call *call) {
    (void)locker;
    (void)call;
}

static void begin(struct locker *locker);

static void start_over(struct locker *locker, uint64_t delay_us) {
    if (locker->token != 0) {
        checks_lock_released(locker->lock, locker->number);
    }
    locker->round++;
    locker->token = 0;
    locker->renews = false;
    locker->is_renewing = false;
    later(locker, delay_us, begin);
}

/* --- Leases. --- */

/* Rule 2, the holder's half: it counts from the moment it asked. */
static uint64_t relies_until_us(const struct locker *locker, const struct call *call) {
    uint64_t local_us = (uint64_t)call->ttl_ms * (1000 - checks_drift_allowance_permille());
    return call->sent_us + local_us * 1000000 / (uint64_t)(1000000 + locker->rate_ppm);
}

static void lease_stands(struct locker *locker, const struct call *call) {
    uint64_t until_us = relies_until_us(locker, call);
    if (until_us > locker->until_us) {
        locker->until_us = until_us;
    }
    checks_lease_stands(locker->lease_id, call->ttl_ms, until_us);
    if (locker->token != 0) {
        checks_lock_held(locker->lock, locker->number, locker->token, locker->until_us);
    }
}

static void renew(struct locker *locker);

static void renewed(struct locker *locker, struct call *call) {
    locker->is_renewing = false;
    if (call->status == STATUS_OK) {
        lease_stands(locker, call);
    } else if (call->status == STATUS_LEASE_NOT_FOUND) {
        checks_lease_not_found(locker->lease_id);
        trace("client %zu has lost its lease", locker->number);
        if (the_options.keeps_what_it_renews && !locker->is_sleepy) {
            check_failed("lost", "client %zu renewed lease %llx in time and lost it",
                         locker->number, (unsigned long long)locker->lease_id);
        }
        start_over(locker, random_between(1, 500) * WORLD_MS);
    } else {
        locker->node = clients_choose_node();
        later(locker, random_between(20, 200) * WORLD_MS, renew);
    }
}

static void renew(struct locker *locker) {
    if (!locker->renews || locker->is_renewing) {
        return;
    }
    locker->is_renewing = true;
    struct call *call = ask(locker, CALL_RENEW, renewed);
    call->patience_us = (uint64_t)locker->ttl_ms * 1000;
    call_send(call, locker->node);
}

static uint64_t renewal_interval_us(const struct locker *locker) {
    return (uint64_t)locker->ttl_ms * (locker->is_sleepy ? random_between(970, 1030) : 333);
}

static void renew_regularly(struct locker *locker) {
    if (locker->renews) {
        renew(locker);
        later(locker, renewal_interval_us(locker), renew_regularly);
    }
}

/* --- The lock. --- */

static void release(struct locker *locker) {
    if (faults_want_quiet()) {
        later(locker, 200 * WORLD_MS, release);
        return;
    }
    unsigned way = (unsigned)random_below(100);
    if (way < 40 || !the_options.abandons) {
        /* It stops to rely on the lease before it says so. */
        checks_lease_given_up(locker->lease_id);
        checks_lock_released(locker->lock, locker->number);
        locker->token = 0;
        call_send(ask(locker, CALL_REVOKE, ignore), locker->node);
        start_over(locker, random_between(1, 800) * WORLD_MS);
    } else if (way < 60) {
        struct call *call = ask(locker, CALL_UNLOCK, ignore);
        call->revision = (int64_t)locker->token;
        checks_lock_released(locker->lock, locker->number);
        locker->token = 0;
        call_send(call, locker->node);
        checks_lease_given_up(locker->lease_id);
        start_over(locker, random_between(1, 800) * WORLD_MS);
    } else {
        /* It just stops to renew, and relies on what it has to the last moment. */
        locker->renews = false;
        uint64_t now_us = world_now_us();
        uint64_t left_us = locker->until_us > now_us ? locker->until_us - now_us : 0;
        struct moment *moment = malloc(sizeof *moment);
        if (moment == NULL) {
            abort();
        }
        *moment = (struct moment){.locker = locker, .round = locker->round, .act = begin};
        world_at(now_us + left_us + random_below(WORLD_SECOND), moment_comes, moment);
    }
}

static void take_lock(struct locker *locker);

static void lock_answered(struct locker *locker, struct call *call) {
    const struct locker_call *ours = call->data;
    if (call->status == STATUS_OK && call->succeeded) {
        checks_token(locker->lock, (uint64_t)call->revision, ours->newest_token);
        if (locker->until_us <= world_now_us()) {
            start_over(locker, random_between(1, 500) * WORLD_MS);
            return;
        }
        locker->token = (uint64_t)call->revision;
        trace("client %zu holds lock %zu by token %llu", locker->number, locker->lock,
              (unsigned long long)locker->token);
        checks_lock_held(locker->lock, locker->number, locker->token, locker->until_us);
        later(locker, random_delay(500 * WORLD_MS, 15 * WORLD_SECOND), release);
    } else if (call->status == STATUS_OK) {
        if (++locker->n_tries > 40) {
            checks_lease_given_up(locker->lease_id);
            call_send(ask(locker, CALL_REVOKE, ignore), locker->node);
            start_over(locker, random_between(1, 300) * WORLD_MS);
            return;
        }
        later(locker, random_between(10, 250) * WORLD_MS, take_lock);
    } else {
        if (call->status == STATUS_LEASE_NOT_FOUND) {
            checks_lease_not_found(locker->lease_id);
        }
        /* It may have got the lock without knowing; the lease will end and with it the lock. */
        locker->node = clients_choose_node();
        start_over(locker, random_between(10, 500) * WORLD_MS);
    }
}

static void take_lock(struct locker *locker) {
    if (faults_want_quiet()) {
        later(locker, 200 * WORLD_MS, take_lock);
        return;
    }
    call_send(ask(locker, CALL_LOCK, lock_answered), locker->node);
}

static void granted(struct locker *locker, struct call *call) {
    if (call->status != STATUS_OK) {
        locker->node = clients_choose_node();
        start_over(locker, random_between(50, 500) * WORLD_MS);
        return;
    }
    locker->lease_id = call->lease_id;
    lease_stands(locker, call);
    locker->renews = true;
    locker->is_sleepy = random_chance(120);
    later(locker, renewal_interval_us(locker), renew_regularly);
    take_lock(locker);
}

static void begin(struct locker *locker) {
    if (faults_want_quiet()) {
        later(locker, 200 * WORLD_MS, begin);
        return;
    }
    if (locker->token != 0) {
        checks_lock_released(locker->lock, locker->number);
    }
    locker->round++;
    locker->token = 0;
    locker->renews = false;
    locker->is_renewing = false;
    locker->lease_id = 0;
    locker->until_us = 0;
    locker->n_tries = 0;
    locker->lock = random_below(the_options.n_locks);
    locker->ttl_ms =
        (int64_t)random_between((uint64_t)the_options.ttl_ms_min, (uint64_t)the_options.ttl_ms_max);
    if (random_chance(300)) {
        locker->node = clients_choose_node();
    }
    call_send(ask(locker, CALL_GRANT, granted), locker->node);
}

void lockers_start(const struct lockers_options *options) {
    the_options = *options;
    for (size_t i = 0; i < options->n; i++) {
        lockers[i] = (struct locker){
            .number = i, .rate_ppm = nodes_random_rate_ppm(), .node = clients_choose_node()};
        later(&lockers[i], random_below(WORLD_SECOND), begin);
    }
}

void lockers_stop(void) {
    is_stopped = true;
}
