/* The leader's deadlines: who is due, when to look again, and what a stall of this process does to
 * that. Only the leader proposes expiry, and a lease claimed for expiry can no longer be renewed
 * (safety rules 7 and 8). */
#include "base/clock.h"
#include "base/log.h"
#include "core/auth_command.h"
#include "core/cluster_version.h"
#include "core/key_work.h"
#include "core/rule_scope.h"
#include "replication/service_internal.h"

#include <stdlib.h>

enum {
    /* An iteration that took this much longer than the longest sleep is a stall. */
    STALL_MS = 300,
    /* After a stall or an election clients whose connections broke get this long to come back, or
     * as long as it took. */
    HOLD_MS_MAX = 1000,
    /* While no leader is seen, leases run out for so many election timeouts more: an election is
     * over by then. */
    PATIENCE_ELECTIONS = 3,
    /* CLOCK_BOOTTIME runs on while the machine sleeps and libuv's timers do not: look this often
     * at least. */
    SLEEP_MS_MAX = 1000,
    STALL_POLL_MS = 5,
    /* After leases whose end was much work, a millisecond for so many units of key_work.h: about
     * half as long as it took. What clients have sent meanwhile is written and answered before the
     * next are proposed. */
    PAUSE_WORK_A_MS = 100 * 1000,
    /* Bytes of long keys that end in a millisecond while history is too large: what is freed
     * meanwhile, as in quota.c. Nothing is while a snapshot or a scan reads the state. */
    LONG_BYTES_A_MS = 16 * 1024,
    LONG_BYTES_A_MS_READ = LONG_BYTES_A_MS / 4,
    US_A_MS = 1000,
    /* Leases beyond that are put off for so long at most, spread over it: however many there are,
     * few are looked at in a millisecond, and soon after history has been freed all have ended. */
    PUT_OFF_MS_MAX = 2000
};

const uint32_t service_lateness_bounds_ms[11] = {1, 2, 5, 10, 20, 50, 100, 200, 1000, 5000, 30000};

static void expiry_timer_fired(uv_timer_t *timer) {
    struct service *service = timer->data;
    /* The work is done after polling, when the sockets have been read. */
    service->expiry.timer_ms = UINT64_MAX;
}

static uint64_t patience_ms(const struct service *service) {
    return cluster_is_alone(service) ? UINT64_MAX
                                     : (uint64_t)service->options.election_ms * PATIENCE_ELECTIONS;
}

void expiry_init_clock(struct service *service) {
    lease_clock_init(&service->expiry.clock, patience_ms(service), clock_boottime_ms());
}

void expiry_has_company(struct service *service) {
    lease_clock_set_patience(&service->expiry.clock, patience_ms(service), clock_boottime_ms());
}

void expiry_init(struct service *service) {
    list_init(&service->expiry.waiting_renewals);
    service->expiry.loaded_ms = expiry_now_ms(service);
    service->expiry.iteration_ms = clock_boottime_ms();
    service->expiry.iteration_work_ms = clock_thread_ms();
    service->expiry.polled_ms = expiry_now_ms(service);
    service->expiry.timer_ms = UINT64_MAX;
    uv_timer_init(service->loop, &service->expiry.timer);
    service->expiry.timer.data = service;
    for (size_t i = 0; i < EXPIRY_IN_FLIGHT_MAX; i++) {
        service->expiry.batches[i] = calloc(1, sizeof *service->expiry.batches[i]);
        if (service->expiry.batches[i] == NULL) {
            abort();
        }
        service->expiry.batches[i]->service = service;
    }
}

void expiry_clear(struct service *service) {
    for (size_t i = 0; i < EXPIRY_IN_FLIGHT_MAX; i++) {
        free(service->expiry.batches[i]);
    }
}

uint64_t expiry_now_ms(const struct service *service) {
    return lease_clock_read(&service->expiry.clock, clock_boottime_ms());
}

static void hold(struct service *service, uint64_t now_ms, uint64_t away_ms) {
    uint64_t until_ms = now_ms + (away_ms < HOLD_MS_MAX ? away_ms : HOLD_MS_MAX);
    if (!service->expiry.is_held || until_ms > service->expiry.hold_until_ms) {
        service->expiry.hold_until_ms = until_ms;
    }
    service->expiry.is_held = true;
}

void expiry_leader_seen(struct service *service, uint64_t now_ms) {
    uint64_t unseen_ms = lease_clock_leader_seen(&service->expiry.clock, now_ms);
    /* Nobody could renew meanwhile. */
    if (unseen_ms >= service->options.election_ms) {
        hold(service, now_ms, unseen_ms);
    }
}

static uint32_t epoch_of(const struct lease_table *leases, int64_t id) {
    struct lease_facts facts = {0};
    (void)lease_table_find(leases, id, &facts);
    return facts.epoch;
}

/* --- Renewals. --- */

static struct allowed_renewal *allowed_renewal(struct service *service, int64_t id) {
    uint64_t mixed = ((uint64_t)id ^ service->proposals.incarnation) * UINT64_C(0x9e3779b97f4a7c15);
    return &service->expiry.allowed[mixed >> 32 & (ALLOWED_RENEWALS - 1)];
}

/* A client renews the same leases again and again. The keys of a lease are looked at once, until
 * there is another revision, or users or roles change. */
static bool is_known_to_be_allowed(struct service *service, const struct service_renewal *renewal) {
    const struct allowed_renewal *allowed = allowed_renewal(service, renewal->id);
    const struct caller *caller = &renewal->private.caller;
    return allowed->id == renewal->id && allowed->user_id == caller->user_id &&
           allowed->auth_version == caller->auth_version &&
           allowed->auth_generation == auth_generation(state_machine_auth(service->machine)) &&
           allowed->revision == key_store_revision(state_machine_keys(service->machine));
}

static void remember_allowed(struct service *service, const struct service_renewal *renewal) {
    const struct caller *caller = &renewal->private.caller;
    *allowed_renewal(service, renewal->id) = (struct allowed_renewal){
        .id = renewal->id,
        .user_id = caller->user_id,
        .auth_version = caller->auth_version,
        .auth_generation = auth_generation(state_machine_auth(service->machine)),
        .revision = key_store_revision(state_machine_keys(service->machine))};
}

/* By the leader, at the moment of the answer: however long the question has waited, and wherever it
 * came from. */
static enum status check_right(struct service *service, const struct service_renewal *renewal) {
    const struct auth *auth = state_machine_auth(service->machine);
    const struct caller *caller = &renewal->private.caller;
    bool needs_keys = !renewal->private.only_ask || renewal->shows_keys;
    bool is_client_renewal = !renewal->private.only_ask && caller->kind == CALLER_CLIENT;
    if (is_client_renewal && is_known_to_be_allowed(service, renewal)) {
        return STATUS_OK;
    }
    enum status status =
        needs_keys
            ? auth_check_lease(auth, state_machine_leases(service->machine), caller, renewal->id,
                               renewal->private.only_ask ? RIGHT_READ : RIGHT_WRITE)
            : auth_check_user(auth, caller);
    if (is_client_renewal && status == STATUS_OK) {
        remember_allowed(service, renewal);
    }
    return refusals_note(service, caller, status,
                         renewal->private.only_ask ? "time left of a lease" : "renewal");
}

enum status expiry_check_shown(struct service *service, const struct service_renewal *renewal,
                               enum status status) {
    return status == STATUS_OK && renewal->private.only_ask && renewal->shows_keys
               ? check_right(service, renewal)
               : status;
}

enum status expiry_answer(struct service *service, struct service_renewal *renewal,
                          uint64_t clock_ms, int64_t *out_ttl_ms) {
    struct lease_table *leases = state_machine_leases(service->machine);
    if (auth_is_enabled(state_machine_auth(service->machine))) {
        enum status allowed = check_right(service, renewal);
        if (allowed != STATUS_OK) {
            return allowed;
        }
    }
    if (!lease_table_is_of(leases, renewal->id, renewal->owner)) {
        return STATUS_LEASE_NOT_FOUND;
    }
    uint64_t now_ms = lease_clock_read(&service->expiry.clock, clock_ms);
    if (renewal->private.only_ask) {
        return lease_table_remaining(leases, renewal->id, now_ms, out_ttl_ms);
    }
    bool checkpointed = false;
    enum status status = lease_table_renew(leases, renewal->id, now_ms + ANSWER_MARGIN_MS,
                                           out_ttl_ms, &checkpointed);
    if (status == STATUS_OK && checkpointed) {
        checkpoints_clear(service, renewal, epoch_of(leases, renewal->id));
        return STATUS_PENDING;
    }
    if (status == STATUS_OK) {
        service->counters.renewals++;
    } else if (status == STATUS_PENDING) {
        list_append(&service->expiry.waiting_renewals, &renewal->private.link);
    }
    return status;
}

enum status service_ask(struct service *service, struct service_renewal *renewal,
                        int64_t *out_ttl_ms) {
    if (service->closing || service->failed) {
        return STATUS_STOPPED;
    }
    uint64_t clock_ms = clock_boottime_ms();
    if (cluster_is_authority(service, clock_ms)) {
        return expiry_answer(service, renewal, clock_ms, out_ttl_ms);
    }
    /* A leader of an older release could not read the question, and would close the link. */
    if (!key_space_equal(renewal->owner, KEY_SPACE_ETCD) &&
        state_machine_cluster_version(service->machine) < CLUSTER_VERSION_RULES) {
        return STATUS_UNSUPPORTED;
    }
    renewals_hold(service, renewal);
    return STATUS_PENDING;
}

enum status service_renew(struct service *service, const struct caller *caller,
                          struct service_renewal *renewal, int64_t *out_ttl_ms) {
    renewal->private.caller = *caller;
    renewal->private.only_ask = false;
    return service_ask(service, renewal, out_ttl_ms);
}

enum status service_time_left(struct service *service, const struct caller *caller,
                              struct service_renewal *question, int64_t *out_remaining_ms) {
    question->private.caller = *caller;
    question->private.only_ask = true;
    return service_ask(service, question, out_remaining_ms);
}

uint64_t service_now_ms(struct service *service) {
    (void)service;
    return clock_boottime_ms();
}

void expiry_fail_renewals(struct service *service, enum status status) {
    for (struct list *node; (node = list_pop_first(&service->expiry.waiting_renewals)) != NULL;) {
        struct service_renewal *renewal = list_entry(node, struct service_renewal, private.link);
        renewal->done(renewal, status, 0);
    }
}

/* An expiry was decided: renewals that waited for it get their answer. */
static void answer_waiting_renewals(struct service *service) {
    struct list waiting;
    list_init(&waiting);
    list_append_all(&waiting, &service->expiry.waiting_renewals);
    for (struct list *node; (node = list_pop_first(&waiting)) != NULL;) {
        struct service_renewal *renewal = list_entry(node, struct service_renewal, private.link);
        int64_t ttl_ms = 0;
        enum status status = service_ask(service, renewal, &ttl_ms);
        if (status != STATUS_PENDING) {
            renewal->done(renewal, status, ttl_ms);
        }
    }
}

/* --- Expiry. --- */

static void count_lateness(struct service *service, const struct expiry_batch *batch,
                           bool has_ended_all) {
    const struct lease_table *leases = state_machine_leases(service->machine);
    uint64_t now_ms = expiry_now_ms(service);
    for (size_t i = 0; i < batch->n; i++) {
        if (!has_ended_all && epoch_of(leases, batch->ids[i]) == batch->epochs[i]) {
            continue; /* it is proposed again */
        }
        uint64_t late_ms = batch->due_ms[i] < now_ms ? now_ms - batch->due_ms[i] : 0;
        size_t bucket = 0;
        while (bucket < LATENESS_BUCKETS - 1 && late_ms > service_lateness_bounds_ms[bucket]) {
            bucket++;
        }
        service->counters.lateness_buckets[bucket]++;
        service->counters.lateness_sum_ms += late_ms;
    }
}

static void expiry_done(struct service_request *request, const struct outcome *outcome) {
    struct expiry_batch *batch = list_entry(request, struct expiry_batch, request);
    struct service *service = batch->service;
    batch->in_flight = false;
    if (outcome->status == STATUS_OK) {
        service->counters.expired += outcome->expire.n_ended;
        count_lateness(service, batch, outcome->expire.n_ended == batch->n);
    }
    if (batch->work >= RULE_SCOPE_WORK_MUCH) {
        service->expiry.pause_until_ms = expiry_now_ms(service) + batch->work / PAUSE_WORK_A_MS;
    }
    /* Whatever still is what was meant was not ended: the proposal failed, or was of another term,
     * or the hooks of others were work enough for one entry. A newer lease of the same id is none
     * of this batch's business. */
    struct lease_table *leases = state_machine_leases(service->machine);
    for (size_t i = 0; i < batch->n; i++) {
        if (epoch_of(leases, batch->ids[i]) == batch->epochs[i]) {
            lease_table_unclaim(leases, batch->ids[i]);
        }
    }
    answer_waiting_renewals(service);
}

bool expiry_is_under_way(const struct service *service) {
    for (size_t i = 0; i < EXPIRY_IN_FLIGHT_MAX; i++) {
        if (service->expiry.batches[i]->in_flight) {
            return true;
        }
    }
    return false;
}

/* NULL: what is in flight is enough. One that is much work is alone: others are served between it
 * and the next. */
static struct expiry_batch *expiry_free_batch(struct service *service) {
    struct expiry_batch *free_batch = NULL;
    for (size_t i = 0; i < EXPIRY_IN_FLIGHT_MAX; i++) {
        struct expiry_batch *batch = service->expiry.batches[i];
        if (!batch->in_flight) {
            free_batch = batch;
        } else if (batch->work >= RULE_SCOPE_WORK_MUCH) {
            return NULL;
        }
    }
    return free_batch;
}

struct overdue {
    uint64_t due_ms;
    int64_t id;
};

static int compare_overdue(const void *left, const void *right) {
    const struct overdue *a = left;
    const struct overdue *b = right;
    if (a->due_ms != b->due_ms) {
        return a->due_ms < b->due_ms ? -1 : 1;
    }
    return a->id < b->id ? -1 : a->id > b->id;
}

/* Those that have been due for longest come first, whatever their ids: not all of the batch may
 * end. Only the leader asks for this order; what it proposes has it for every replica. */
static void order_by_age(const struct lease_table *leases, struct expiry_batch *batch) {
    struct overdue each[EXPIRY_BATCH_MAX];
    for (size_t i = 0; i < batch->n; i++) {
        each[i] = (struct overdue){.due_ms = lease_table_due_ms(leases, batch->ids[i]),
                                   .id = batch->ids[i]};
    }
    qsort(each, batch->n, sizeof each[0], compare_overdue);
    for (size_t i = 0; i < batch->n; i++) {
        batch->ids[i] = each[i].id;
    }
}

/* Long keys are repeated in tombstones. While there is too much of history they end at the pace at
 * which it is freed, one lease at least each time. 0: this one is among them. Otherwise when to
 * look again: the oldest one of those that wait in the first millisecond that has time for it, so
 * that no newer one comes before it; others after those that wait already. */
static uint64_t put_off_until_ms(struct service *service, size_t long_keys, uint64_t due_ms,
                                 uint64_t now_ms) {
    struct expiry *expiry = &service->expiry;
    uint64_t takes_us = (uint64_t)long_keys * US_A_MS /
                        (snapshots_are_read(service) ? LONG_BYTES_A_MS_READ : LONG_BYTES_A_MS);
    uint64_t now_us = now_ms * US_A_MS;
    if (expiry->long_until_us <= now_us + US_A_MS) {
        expiry->long_until_us =
            (expiry->long_until_us > now_us ? expiry->long_until_us : now_us) + takes_us;
        return 0;
    }
    /* One that was renewed or revoked meanwhile is not waited for any longer than that. */
    if (expiry->oldest_until_ms <= now_ms || due_ms < expiry->oldest_due_ms) {
        uint64_t free_ms = (expiry->long_until_us - 1) / US_A_MS;
        expiry->oldest_due_ms = due_ms;
        expiry->oldest_until_ms =
            free_ms < now_ms + PUT_OFF_MS_MAX ? free_ms : now_ms + PUT_OFF_MS_MAX;
        return expiry->oldest_until_ms;
    }
    uint64_t most_us = now_us + (uint64_t)PUT_OFF_MS_MAX * US_A_MS;
    uint64_t half_us = now_us + (uint64_t)PUT_OFF_MS_MAX * US_A_MS / 2;
    uint64_t first_us = expiry->long_until_us < half_us ? expiry->long_until_us : half_us;
    if (expiry->put_off_us < first_us || expiry->put_off_us > most_us) {
        expiry->put_off_us = first_us;
    }
    uint64_t until_ms = expiry->put_off_us / US_A_MS + 1;
    expiry->put_off_us += takes_us;
    return until_ms;
}

/* Ends the batch where applying it would end: the rest is due as before. */
static void cut_batch(struct service *service, struct lease_table *leases,
                      struct expiry_batch *batch, uint64_t now_ms) {
    bool is_pressed = service_history_pressure(service) != HISTORY_PRESSURE_NONE;
    size_t n = 0;
    batch->work = 0;
    if (is_pressed) {
        order_by_age(leases, batch);
    }
    for (size_t i = 0; i < batch->n; i++) {
        int64_t id = batch->ids[i];
        if (batch->work >= RULE_SCOPE_WORK_MUCH) {
            lease_table_unclaim(leases, id);
            continue;
        }
        size_t long_keys = is_pressed ? lease_table_long_keys(leases, id) : 0;
        uint64_t until_ms = 0;
        if (long_keys > 0) {
            until_ms = put_off_until_ms(service, long_keys, lease_table_due_ms(leases, id), now_ms);
        }
        if (until_ms > 0) {
            lease_table_put_off(leases, id, until_ms);
        } else {
            batch->work += lease_table_end_work(leases, id);
            batch->ids[n++] = id;
        }
    }
    batch->n = n;
}

static void expiry_propose(struct service *service, uint64_t now_ms) {
    struct lease_table *leases = state_machine_leases(service->machine);
    if (now_ms < service->expiry.pause_until_ms) {
        return;
    }
    /* As many as there are batches: those in which all were put off are work too. */
    for (size_t i = 0; i < EXPIRY_IN_FLIGHT_MAX; i++) {
        struct expiry_batch *batch = expiry_free_batch(service);
        if (batch == NULL) {
            return;
        }
        batch->n = lease_table_claim_expired(leases, now_ms, batch->ids, EXPIRY_BATCH_MAX);
        if (batch->n == 0) {
            return; /* what is due nevertheless comes in the next iteration */
        }
        cut_batch(service, leases, batch, now_ms);
        if (batch->n == 0) {
            continue;
        }
        for (size_t at = 0; at < batch->n; at++) {
            batch->due_ms[at] = lease_table_due_ms(leases, batch->ids[at]);
            batch->epochs[at] = epoch_of(leases, batch->ids[at]);
        }
        batch->in_flight = true;
        batch->request.done = expiry_done;
        struct command command = {.type = COMMAND_LEASE_EXPIRE};
        command.expire.term = raft_engine_term(service->engine);
        command.expire.n = batch->n;
        command.expire.ids = batch->ids;
        command.expire.epochs = batch->epochs;
        proposals_submit(service, &batch->request, &command);
    }
}

/* Notices a pause of the process. True while expiry must wait because of one: what clients sent
 * meanwhile has to be read first, and those that lost their connection need a moment. */
static bool expiry_update_hold(struct service *service, uint64_t now_ms) {
    uint64_t away_ms = now_ms - service->expiry.iteration_ms;
    /* A long iteration of our own work is no absence. Were it one, whoever keeps us busy would keep
     * dead holders' leases alive. */
    uint64_t work_ms = clock_thread_ms();
    uint64_t worked_ms = work_ms - service->expiry.iteration_work_ms;
    service->expiry.iteration_work_ms = work_ms;
    service->counters.slow_iterations += worked_ms >= SERVICE_SLOW_ITERATION_MS;
    if (worked_ms > service->counters.loop_cpu_ms_max) {
        service->counters.loop_cpu_ms_max = worked_ms;
    }
    away_ms -= worked_ms < away_ms ? worked_ms : away_ms;
    /* Raft's tick and the watch over the disk wake the loop. */
    uint64_t sleep_ms_max =
        service->options.heartbeat_ms < SLEEP_MS_MAX ? service->options.heartbeat_ms : SLEEP_MS_MAX;
    service->expiry.iteration_ms = now_ms;
    if (away_ms > sleep_ms_max + STALL_MS) {
        log_warning("stalled", LOG_NUMBER("ms", away_ms));
        hold(service, now_ms, away_ms);
        if (service->options.begin_catch_up != NULL) {
            service->options.begin_catch_up(service->options.data);
        }
    }
    if (!service->expiry.is_held) {
        return false;
    }
    bool caught_up = service->options.is_caught_up == NULL ||
                     service->options.is_caught_up(service->options.data);
    if (!caught_up || now_ms < service->expiry.hold_until_ms) {
        return true;
    }
    service->expiry.is_held = false;
    return false;
}

void expiry_run(struct service *service) {
    uint64_t now_ms = clock_boottime_ms();
    bool is_held = expiry_update_hold(service, now_ms);
    /* Who gets its authority back finds deadlines that passed while nobody could renew: not before
     * cluster_poll() has given every lease its time again (safety rule 9). */
    bool has_begun = cluster_is_alone(service) || service->cluster.was_authority;
    if (!is_held && !service->closing && !service->failed && has_begun &&
        cluster_is_authority(service, now_ms)) {
        /* The process may have been stopped since the sockets were read, for too short a time to be
         * noticed: only what was due before they were read is over for certain. */
        uint64_t lease_now_ms = expiry_now_ms(service);
        expiry_propose(service, lease_now_ms < service->expiry.polled_ms
                                    ? lease_now_ms
                                    : service->expiry.polled_ms);
    }
}

void expiry_arm(struct service *service) {
    service->expiry.polled_ms = expiry_now_ms(service);
    if (!service->leadership.serving || service->closing || service->failed) {
        return;
    }
    uint64_t now_ms = service->expiry.polled_ms;
    uint64_t next_ms = lease_table_next_ms(state_machine_leases(service->machine));
    if (next_ms == UINT64_MAX || expiry_free_batch(service) == NULL) {
        /* Nothing to wait for, or the end of a batch will bring us back. */
        return;
    }
    if (service->expiry.is_held && next_ms < now_ms + STALL_POLL_MS) {
        next_ms = now_ms + STALL_POLL_MS;
    }
    if (next_ms < service->expiry.pause_until_ms) {
        next_ms = service->expiry.pause_until_ms;
    }
    uint64_t sleep_ms = next_ms > now_ms ? next_ms - now_ms : 0;
    if (sleep_ms > SLEEP_MS_MAX) {
        sleep_ms = SLEEP_MS_MAX;
    }
    if (now_ms + sleep_ms < service->expiry.timer_ms) {
        service->expiry.timer_ms = now_ms + sleep_ms;
        uv_update_time(service->loop);
        uv_timer_start(&service->expiry.timer, expiry_timer_fired, sleep_ms, 0);
    }
}
