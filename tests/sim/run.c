#include "run.h"

#include "actor.h"
#include "bounds_sim.h"
#include "call.h"
#include "checks.h"
#include "clients.h"
#include "faults.h"
#include "network.h"
#include "node.h"
#include "operator.h"
#include "users.h"
#include "world.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    /* The leader's lease allows for twice as much between two clocks: a tenth. */
    DRIFT_PERMILLE_MAX = 45,
    FAULTS_US = 35 * WORLD_SECOND,
    /* From the end of all faults until every node must serve again. */
    RECOVERY_US = 15 * WORLD_SECOND,
    TTL_MS_MAX = 6000,
    LATE_SLACK_US = 3 * WORLD_SECOND,
    SETTLE_US = 10 * WORLD_SECOND
};

/* --- Does every node serve? --- */

static bool serves[NODES_MAX];
static bool is_probed[NODES_MAX];

static void probe(void *data);

static void probed(struct call *call) {
    if (call->status == STATUS_OK) {
        serves[call->node->index] = true;
    } else {
        trace("%s does not serve: %s", call->node->name, status_text(call->status));
        world_at(world_now_us() + 100 * WORLD_MS, probe, call->node);
    }
}

static void probe(void *data) {
    struct node *node = data;
    struct call *call = call_make(CALL_PUT);
    snprintf(call->key, sizeof call->key, "probe%zu", node->index);
    call->answered = probed;
    call_send(call, node);
}

static void trace_states(void) {
    for (size_t i = 0; i < nodes_count(); i++) {
        node_trace_state(node_at(i));
    }
}

static void must_be_settled(void) {
    uint64_t end_us = world_now_us() + RECOVERY_US;
    while (!operator_is_done()) {
        world_run_until(world_now_us() + 100 * WORLD_MS);
        if (world_now_us() > end_us) {
            trace_states();
            check_failed("recovery", "members do not settle %.0f s after everything was mended",
                         (double)RECOVERY_US / WORLD_SECOND);
        }
    }
}

static bool must_serve(size_t i) {
    if (node_at(i)->is_in_service && !is_probed[i]) {
        is_probed[i] = true;
        probe(node_at(i));
    }
    return node_at(i)->is_in_service;
}

static void must_serve_again(void) {
    uint64_t end_us = world_now_us() + RECOVERY_US;
    for (bool is_done = false; !is_done;) {
        is_done = true;
        for (size_t i = 0; i < nodes_count(); i++) {
            bool is_served = !must_serve(i) || serves[i];
            is_done &= is_served;
            if (!is_served && world_now_us() > end_us) {
                trace_states();
                check_failed("recovery", "%s serves nobody %.0f s after everything was mended",
                             node_at(i)->name, (double)RECOVERY_US / WORLD_SECOND);
            }
        }
        world_run_until(world_now_us() + 100 * WORLD_MS);
    }
}

/* --- The whole. --- */

static void set_up(const struct run_options *options, enum plan plan) {
    static const struct {
        uint32_t heartbeat_ms;
        uint32_t election_ms;
    } timeouts[] = {{100, 1000}, {50, 300}, {100, 500}};
    size_t pace = plan_is_slow(plan) ? 0 : random_below(3);
    size_t n_first = options->n_nodes != 0 ? options->n_nodes : random_chance(600) ? 3 : 5;
    struct node_options nodes = {
        .n_nodes = n_first + (plan_changes_members(plan) ? 3 : 0),
        .n_first = n_first,
        .has_mixed_timers = random_chance(150) && !plan_is_slow(plan),
        .has_worst_timers = random_chance(500) && plan_wants_worst_timers(plan),
        .heartbeat_ms = timeouts[pace].heartbeat_ms,
        .election_ms = timeouts[pace].election_ms,
        /* Small, so that snapshots are taken and sent. */
        .log_bytes_max = random_chance(500) ? random_between(8, 64) * 1024 : 0,
        .strict_reads = random_chance(100) || plan_stretches_leases(plan)};
    bool is_far_off = nodes.has_worst_timers || random_chance(300);
    nodes.drift_permille = is_far_off ? DRIFT_PERMILLE_MAX : 10;
    struct network_options network = {.delay_us = random_between(50, 2000),
                                      .worst_delay_us = random_between(2, 100) * WORLD_MS,
                                      .repeat_permille = 20,
                                      /* Streams rely on the order of a link: where it is broken,
                                       * entries wait for a second or two until they are sent again,
                                       * and leases may be lost meanwhile. */
                                      .is_hostile = random_chance(300) && !plan_is_gentle(plan)};
    bounds_sim_init();
    machine_disks_skip_sync(options->skipped_sync);
    if (plan_stretches_leases(plan)) {
        checks_leases_stretch();
    }
    network_init(&network);
    nodes_init(&nodes);
    bool is_near = plan_is_gentle(plan) || plan_is_slow(plan);
    call_set_delays(random_between(100, 3000), random_between(5, is_near ? 50 : 1500) * WORLD_MS);
    trace("plan %s, %zu nodes, election %u ms, clocks drift by %u permille%s", plan_name(plan),
          n_first, nodes.election_ms, nodes.drift_permille,
          network.is_hostile ? ", a hostile network" : "");
}

/* Which clients there are besides the usual ones. */
struct guests {
    bool has_natives;
    bool has_registrars;
    bool has_pipelines;
    bool has_doors;
};

static void start_clients(enum plan plan, const struct guests *guests) {
    struct lockers_options lockers = {.n = random_between(2, 6),
                                      .n_locks = random_between(1, 3),
                                      .ttl_ms_min = random_chance(500) ? 1000 : 2000,
                                      .ttl_ms_max = TTL_MS_MAX,
                                      .abandons = random_chance(800),
                                      .keeps_what_it_renews = plan_is_gentle(plan)};
    if (plan_is_slow(plan) || random_chance(300)) {
        lockers.ttl_ms_max = lockers.ttl_ms_min;
    }
    lockers_start(&lockers);
    registers_start(random_between(1, 4), random_between(1, 2));
    watchers_start(random_between(1, 3));
    struct upkeep_options upkeep = {.backs_up = random_chance(400),
                                    .compacts = random_chance(400),
                                    .has_ballast = random_chance(120)};
    upkeep_start(&upkeep);
    tickets_start(random_below(4));
    queuers_start(random_below(4));
    mutexes_start(random_below(6));
    if (guests->has_natives) {
        natives_start(random_between(2, NATIVES_MAX));
    }
    if (guests->has_registrars) {
        registrars_start(random_between(3, REGISTRARS_MAX));
    }
    if (guests->has_pipelines) {
        pipelines_start(random_between(1, PIPELINES_MAX));
    }
    if (guests->has_doors && plan_is_gentle(plan)) {
        actors_keep_what_they_renew();
    }
    if (guests->has_doors) {
        redis_locks_start(random_between(2, REDIS_LOCKERS_MAX));
        zk_locks_start(random_between(2, ZK_LOCKERS_MAX));
        consul_locks_start(random_between(2, CONSUL_LOCKERS_MAX));
    }
    users_start(guests->has_doors);
}

/* Everything ends by itself, in time. */
static void wind_down(const struct guests *guests) {
    lockers_stop();
    registers_stop();
    upkeep_stop();
    tickets_stop();
    queuers_stop();
    mutexes_stop();
    natives_stop();
    registrars_stop();
    pipelines_stop();
    actors_stop();
    users_stop();
    checks_healed();
    uint64_t end_us = world_now_us() + TTL_MS_MAX * WORLD_MS + LATE_SLACK_US + 2 * WORLD_SECOND;
    /* What is lost now is counted and kept for some seconds more. */
    end_us += guests->has_registrars ? 14 * WORLD_SECOND : 0;
    /* A session's end begins a lock-delay. */
    end_us += guests->has_doors ? 5 * WORLD_SECOND : 0;
    while (world_now_us() < end_us) {
        world_run_until(world_now_us() + 500 * WORLD_MS);
        checks_no_lease_is_late(103, LATE_SLACK_US);
    }
    watchers_stop();
    end_us = world_now_us() + SETTLE_US;
    while (!checks_nodes_are_level() || !watchers_are_done()) {
        if (world_now_us() > end_us) {
            trace_states();
            check_failed("recovery", "nodes or watchers do not come to an end");
        }
        world_run_until(world_now_us() + 100 * WORLD_MS);
    }
    checks_no_lease_is_left();
    checks_nodes_are_equal();
    watchers_check();
    registers_check();
    queuers_check();
    mutexes_check();
    natives_check();
    registrars_check();
    redis_locks_check();
    zk_locks_check();
    consul_locks_check();
}

void run(const struct run_options *options) {
    world_init(options->seed, options->is_verbose);
    world_catch_aborts();
    enum plan plan =
        (enum plan)(options->plan >= 0 ? (uint64_t)options->plan : random_below(PLAN_COUNT));
    set_up(options, plan);
    for (size_t i = 0; i < nodes_count(); i++) {
        if (node_at(i)->is_in_service) {
            node_start(node_at(i));
        }
    }
    if (plan_changes_members(plan)) {
        operator_start();
    }
    /* In few seeds without being asked: one client more draws other numbers, and seeds that are
     * known to tell something would not. */
    const struct guests guests = {.has_natives = options->has_natives || options->seed % 10 == 9,
                                  .has_registrars = options->has_registrars,
                                  .has_pipelines =
                                      options->has_pipelines || options->seed % 10 == 7,
                                  .has_doors = options->has_doors || options->seed % 10 == 8};
    start_clients(plan, &guests);
    faults_start(plan);
    while (world_now_us() < FAULTS_US) {
        world_run_until(world_now_us() + 500 * WORLD_MS);
        if (plan_is_gentle(plan)) {
            /* However often the leader changes: half of a TTL late at most. */
            checks_no_lease_is_late(152, LATE_SLACK_US);
        }
    }
    operator_stop();
    faults_heal();
    must_be_settled();
    must_serve_again();
    wind_down(&guests);
    trace("%llu grants, %llu renewals, %llu puts, %llu gets, %llu tickets",
          (unsigned long long)calls_succeeded(CALL_GRANT),
          (unsigned long long)calls_succeeded(CALL_RENEW),
          (unsigned long long)calls_succeeded(CALL_PUT),
          (unsigned long long)calls_succeeded(CALL_GET),
          (unsigned long long)calls_succeeded(CALL_RULE));
}
