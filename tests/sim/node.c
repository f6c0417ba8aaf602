#include "node.h"

#include "checks.h"
#include "clients.h"
#include "lane_sim.h"
#include "loop_sim.h"
#include "replication/replication.h"
#include "replication/service_internal.h"
#include "world.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    /* What a process reads from its sockets in one turn. */
    READS_A_TURN_MAX = 48,
    /* What a turn costs. */
    TURN_US_MIN = 10,
    TURN_US_MAX = 120,
    /* A stop in the middle of a turn comes at one of so many looks at the clock. */
    STALL_READS_MAX = 30,
    /* What the threads of a process that ends still ask of the disk. */
    CALLS_OF_THE_DYING_MAX = 16
};

struct node_item {
    struct node_item *next;
    void (*read)(struct node *node, void *data);
    void (*drop)(void *data);
    void *data;
};

static struct node_options the_options;
static struct node nodes[NODES_MAX];
static struct replication_member members[NODES_MAX];
static struct node *current;

/* --- Who is who. --- */

unsigned nodes_drift_permille(void) {
    return the_options.drift_permille;
}

int64_t nodes_random_rate_ppm(void) {
    uint64_t max = (uint64_t)the_options.drift_permille * 1000;
    /* The ends are where it matters. */
    uint64_t rate = random_chance(500) ? random_between(0, 2 * max) : random_below(2) * 2 * max;
    return (int64_t)rate - (int64_t)max;
}

void nodes_init(const struct node_options *options) {
    the_options = *options;
    for (size_t i = 0; i < options->n_nodes; i++) {
        struct node *node = &nodes[i];
        node->index = i;
        node->id = 101 + i;
        snprintf(node->name, sizeof node->name, "n%zu", i + 1);
        snprintf(node->address, sizeof node->address, "sim:%zu", i + 1);
        snprintf(node->data_dir, sizeof node->data_dir, "/sim/%zu", i + 1);
        snprintf(node->url, sizeof node->url, "http://%s", node->address);
        node->urls[0] = node->url;
        node->rate_ppm = nodes_random_rate_ppm();
        if (options->has_worst_timers) {
            int64_t max_ppm = (int64_t)options->drift_permille * 1000;
            node->rate_ppm = i == 0 ? -max_ppm : max_ppm;
        }
        node->boot_us = random_between(1, 5 * 86400) * WORLD_SECOND + random_below(WORLD_SECOND);
        node->wall_offset_ms = (int64_t)random_below(1000000);
        machine_disk_init(&node->disk);
        node->wake_us = UINT64_MAX;
        node->last_item = &node->first_item;
        node->is_in_service = i < options->n_first;
        node->data_dir_id = random_next() | 1;
        members[i] = (struct replication_member){
            .id = node->id, .name = node->name, .address = node->address, .peer_urls = node->urls};
    }
}

/* Every heartbeat is less than half of every election timeout. */
static const uint32_t mixed_heartbeats_ms[] = {50, 100, 140};
static const uint32_t mixed_elections_ms[] = {300, 500, 1000, 3000};

static void draw_timers(struct node *node) {
    node->heartbeat_ms = the_options.heartbeat_ms;
    node->election_ms = the_options.election_ms;
    if (the_options.has_mixed_timers) {
        node->heartbeat_ms = mixed_heartbeats_ms[random_below(3)];
        node->election_ms = mixed_elections_ms[random_below(4)];
    }
    if (the_options.has_worst_timers) {
        node->election_ms = mixed_elections_ms[node->index == 0 ? 3 : 0];
    }
    if (the_options.has_mixed_timers || the_options.has_worst_timers) {
        trace("%s runs with heartbeats of %u ms, elections of %u ms", node->name,
              node->heartbeat_ms, node->election_ms);
    }
}

bool nodes_have_worst_timers(void) {
    return the_options.has_worst_timers;
}

uint32_t nodes_election_ms(void) {
    return the_options.has_mixed_timers || the_options.has_worst_timers ? mixed_elections_ms[3]
                                                                        : the_options.election_ms;
}

size_t nodes_count(void) {
    return the_options.n_nodes;
}

struct node *node_at(size_t index) {
    return &nodes[index];
}

struct node *node_by_id(uint64_t id) {
    for (size_t i = 0; i < the_options.n_nodes; i++) {
        if (nodes[i].id == id) {
            return &nodes[i];
        }
    }
    return NULL;
}

struct node *node_by_address(const char *address) {
    for (size_t i = 0; i < the_options.n_nodes; i++) {
        if (strcmp(nodes[i].address, address) == 0) {
            return &nodes[i];
        }
    }
    return NULL;
}

struct node *node_of_loop(const uv_loop_t *loop) {
    return loop->data;
}

struct node *node_current(void) {
    return current;
}

bool node_is_leader(struct node *node) {
    return node->is_up && node->service != NULL &&
           raft_engine_role(node->service->engine) == ENGINE_LEADER;
}

uint64_t node_leads_term(struct node *node) {
    return node_is_leader(node) ? raft_engine_term(node->service->engine) : 0;
}

bool node_is_authority(struct node *node) {
    return node->is_up && node->service != NULL && !node->service->closing &&
           cluster_is_authority(node->service, node_boottime_us(node) / 1000);
}

void node_trace_state(const struct node *node) {
    if (!node->is_up || node->service == NULL) {
        trace("%s is %s", node->name, node->is_in_service ? "down" : "not in service");
        return;
    }
    const struct raft_engine *engine = node->service->engine;
    trace("%s (%llx): role %d, term %llu, leader %llx, applied %llu, commit %llu, last %llu, %zu "
          "members, %s",
          node->name, (unsigned long long)node->id, (int)raft_engine_role(engine),
          (unsigned long long)raft_engine_term(engine),
          (unsigned long long)raft_engine_leader_id(engine),
          (unsigned long long)raft_engine_applied_index(engine),
          (unsigned long long)raft_engine_commit_index(engine),
          (unsigned long long)raft_engine_last_index(engine), raft_engine_configuration(engine)->n,
          raft_engine_is_installing(engine) ? "installing" : "not installing");
}

/* --- Clocks. --- */

uint64_t node_now_us(const struct node *node) {
    return world_now_us() + node->elapsed_us;
}

static uint64_t by_rate(const struct node *node, uint64_t true_us) {
    return (uint64_t)((int64_t)true_us + (int64_t)true_us / 1000000 * node->rate_ppm +
                      (int64_t)(true_us % 1000000) * node->rate_ppm / 1000000);
}

/* Until now. */
static uint64_t frozen_us(const struct node *node) {
    uint64_t now_us = node_now_us(node);
    return node->frozen_us - (node->thaw_us > now_us ? node->thaw_us - now_us : 0);
}

uint64_t node_boottime_us(const struct node *node) {
    return node->boot_us + by_rate(node, node_now_us(node) - frozen_us(node));
}

uint64_t node_monotonic_us(const struct node *node) {
    return by_rate(node, node_now_us(node) - node->suspended_us - frozen_us(node)) + WORLD_SECOND;
}

uint64_t node_true_us(const struct node *node, uint64_t local_us) {
    return local_us * 1000000 / (uint64_t)(1000000 + node->rate_ppm) + 1;
}

/* Every look at the clock is a place where the process may be stopped. */
static struct node *look(void) {
    struct node *node = current;
    assert(node != NULL);
    if (node->stall_us > 0 && node->stall_reads-- == 0) {
        trace("%s stops in the middle of a turn for %llu ms", node->name,
              (unsigned long long)node->stall_us / WORLD_MS);
        node->elapsed_us += node->stall_us;
        node->stall_us = 0;
    }
    return node;
}

uint64_t clock_boottime_us(void) {
    return node_boottime_us(look());
}

/* Whatever is measured, runs stay as they are. */
uint64_t clock_stopwatch_us(void) {
    return current != NULL ? node_boottime_us(current) : 0;
}

uint64_t clock_boottime_ms(void) {
    return clock_boottime_us() / 1000;
}

int64_t clock_wall_ms(void) {
    struct node *node = look();
    return (int64_t)(node_now_us(node) / 1000) + node->wall_offset_ms;
}

uint64_t clock_thread_ms(void) {
    return look()->worked_us / 1000;
}

ssize_t getrandom(void *bytes, size_t size, unsigned flags) {
    (void)flags;
    for (size_t i = 0; i < size; i++) {
        ((uint8_t *)bytes)[i] = (uint8_t)random_next();
    }
    return (ssize_t)size;
}

/* --- Turns. --- */

static void node_turn(void *data);

void node_wake(struct node *node, uint64_t time_us) {
    if (!node->is_up) {
        return;
    }
    if (time_us < node->free_us) {
        time_us = node->free_us;
    }
    if (time_us < world_now_us()) {
        time_us = world_now_us();
    }
    if (time_us < node->wake_us) {
        node->wake_us = time_us;
        world_at(time_us, node_turn, node);
    }
}

void node_deliver(struct node *node, void (*read)(struct node *node, void *data),
                  void (*drop)(void *data), void *data) {
    assert(node->is_up);
    struct node_item *item = malloc(sizeof *item);
    if (item == NULL) {
        abort();
    }
    *item = (struct node_item){.read = read, .drop = drop, .data = data};
    *node->last_item = item;
    node->last_item = &item->next;
    node->n_arrived++;
    if (!node->is_in_turn) {
        node_wake(node, world_now_us());
    }
}

static void read_items(struct node *node) {
    uint64_t n_max = random_between(READS_A_TURN_MAX / 4, READS_A_TURN_MAX);
    for (uint64_t n = 0; n < n_max && node->first_item != NULL; n++) {
        struct node_item *item = node->first_item;
        node->first_item = item->next;
        if (node->first_item == NULL) {
            node->last_item = &node->first_item;
        }
        node->n_read++;
        struct node_item now = *item;
        free(item);
        now.read(node, now.data);
    }
}

static void plan_next(struct node *node) {
    uint64_t next_ms = loop_sim_next_ms(node->handles);
    if (node->first_item != NULL || loop_sim_is_busy(node->handles)) {
        node_wake(node, node->free_us);
    } else if (next_ms != UINT64_MAX) {
        uint64_t now_ms = node_monotonic_us(node) / 1000;
        uint64_t wait_us = next_ms > now_ms ? (next_ms - now_ms) * 1000 : 0;
        node_wake(node, node->free_us + node_true_us(node, wait_us));
    }
}

static void note_authority(struct node *node) {
    bool is_authority = node_is_authority(node);
    if (is_authority && !node->was_authority) {
        trace("%s has authority in term %llu", node->name,
              (unsigned long long)raft_engine_term(node->service->engine));
    }
    node->was_authority = is_authority;
}

/* From the end of polling to the next polling. */
static void run_turn(struct node *node) {
    loop_sim_set_time(node->handles, node_monotonic_us(node) / 1000);
    read_items(node);
    loop_sim_run_checks(node->handles);
    loop_sim_run_closing(node->handles);
    if (!node->is_up) {
        return;
    }
    loop_sim_set_time(node->handles, node_monotonic_us(node) / 1000);
    loop_sim_run_timers(node->handles);
    loop_sim_run_idles(node->handles);
    loop_sim_run_prepares(node->handles);
}

static void enter(struct node *node) {
    assert(current == NULL);
    current = node;
    node->is_in_turn = true;
    node->elapsed_us = 0;
}

static void leave(struct node *node) {
    current = NULL;
    node->is_in_turn = false;
    uint64_t work_us = random_between(TURN_US_MIN, TURN_US_MAX);
    node->worked_us += work_us;
    node->free_us = world_now_us() + node->elapsed_us + work_us;
    node->turn_end_us = node->free_us;
    node->elapsed_us = 0;
}

static void node_turn(void *data) {
    struct node *node = data;
    if (!node->is_up || node->wake_us != world_now_us()) {
        return; /* planned anew since */
    }
    if (node->free_us > world_now_us()) {
        node->wake_us = UINT64_MAX; /* stopped since */
        node_wake(node, node->free_us);
        return;
    }
    node->wake_us = UINT64_MAX;
    enter(node);
    if (setjmp(node->death) == 0) {
        run_turn(node);
        if (node->is_up) {
            note_authority(node);
        }
    } else {
        current = NULL;
        node_crash(node, machine_disk_has_lost_power(&node->disk));
    }
    leave(node);
    checks_presence();
    if (node->is_up) {
        plan_next(node);
    }
}

/* --- Life. --- */

static void begin_catch_up(void *data) {
    struct node *node = data;
    node->catch_up_until = node->n_arrived;
}

static bool is_caught_up(void *data) {
    struct node *node = data;
    return node->n_read >= node->catch_up_until;
}

void node_die(struct node *node) {
    longjmp(node->death, 1);
}

static void failed(void *data, enum status status, const char *reason) {
    struct node *node = data;
    trace("%s gives up: %s: %s", node->name, status_text(status), reason);
    if (!node->disk.is_full && !node->disk.is_failing) {
        check_failed("disk", "%s gave up although its disk is good: %s", node->name, reason);
    }
    node_die(node);
}

/* Its process stops, as the server's does. */
static void removed(void *data) {
    struct node *node = data;
    trace("%s learns that it was removed", node->name);
    node_stop(node);
}

static void open_process(struct node *node) {
    struct replication_options options = {.data_dir = node->data_dir,
                                          .name = node->name,
                                          .cluster_id = 4711,
                                          .member_id = node->id,
                                          .client_urls = node->urls,
                                          .peer_urls = node->urls,
                                          .peer_address = node->address,
                                          .members = node->is_joining ? node->told : members,
                                          .n_members =
                                              node->is_joining ? node->n_told : the_options.n_first,
                                          .is_joining = node->is_joining,
                                          .data_dir_id = node->data_dir_id,
                                          .peer_listen_host = "sim",
                                          .peer_listen_port = (uint16_t)(node->index + 1),
                                          .rules = clients_rules(),
                                          .strict_reads = the_options.strict_reads,
                                          .heartbeat_ms = node->heartbeat_ms,
                                          .election_ms = node->election_ms,
                                          .log_bytes_max = the_options.log_bytes_max,
                                          .begin_catch_up = begin_catch_up,
                                          .is_caught_up = is_caught_up,
                                          .failed = failed,
                                          .removed = removed,
                                          .data = node};
    char error[512] = "";
    loop_sim_set_time(node->handles, node_monotonic_us(node) / 1000);
    struct service *service = NULL;
    if (replication_open(node->loop, &options, &service, error, sizeof error) != STATUS_OK) {
        if (!node->disk.is_failing) {
            check_failed("start", "%s cannot start: %s", node->name, error);
        }
        node_die(node);
    }
    node->service = service;
    loop_sim_run_prepares(node->handles);
}

void node_commission(struct node *node, uint64_t id, const struct replication_member *told,
                     size_t n_told) {
    assert(!node->is_up);
    assert(n_told <= NODES_MAX);
    trace("%s joins as %016llx", node->name, (unsigned long long)id);
    node->id = id;
    node->data_dir_id = random_next() | 1;
    node->is_in_service = true;
    node->is_joining = true;
    memcpy(node->told, told, n_told * sizeof *told);
    node->n_told = n_told;
    node->retire_us = 0;
}

void node_retire(struct node *node) {
    node_crash(node, false);
    if (node->is_up) {
        return; /* in the middle of a turn: later */
    }
    trace("%s is retired", node->name);
    node->is_in_service = false;
    node->is_dead = false;
    disk_sim_destroy(node->disk.sim);
    machine_disk_init(&node->disk);
}

void node_start(struct node *node) {
    assert(!node->is_up);
    assert(node->is_in_service);
    node->is_up = true;
    node->is_stopping = false;
    node->generation++;
    node->service = NULL;
    node->was_authority = false;
    node->catch_up_until = 0;
    node->n_arrived = 0;
    node->n_read = 0;
    node->stall_us = 0;
    node->wake_us = UINT64_MAX;
    node->free_us = world_now_us();
    node->handles = loop_sim_create();
    node->loop = calloc(1, sizeof *node->loop);
    if (node->loop == NULL) {
        abort();
    }
    node->loop->data = node;
    trace("%s starts", node->name);
    draw_timers(node);
    enter(node);
    if (setjmp(node->death) == 0) {
        open_process(node);
    } else {
        current = NULL;
        node_crash(node, machine_disk_has_lost_power(&node->disk));
    }
    leave(node);
    if (node->is_up) {
        plan_next(node);
    }
}

static void drop_items(struct node *node) {
    while (node->first_item != NULL) {
        struct node_item *item = node->first_item;
        node->first_item = item->next;
        if (item->drop != NULL) {
            item->drop(item->data);
        }
        free(item);
    }
    node->last_item = &node->first_item;
}

/* What the process had in memory is left behind; one process of this program plays one seed. */
static void node_end(struct node *node) {
    node->is_up = false;
    node->service = NULL;
    node->was_authority = false;
    node->generation++;
    node->wake_us = UINT64_MAX;
    drop_items(node);
    checks_presence();
}

/* They were in the middle of something. */
static void node_end_threads(struct node *node) {
    disk_sim_stop_at(node->disk.sim, random_between(1, CALLS_OF_THE_DYING_MAX));
    if (random_chance(500)) {
        lanes_sim_crash(node);
        loop_sim_crash(node->handles);
    } else {
        loop_sim_crash(node->handles);
        lanes_sim_crash(node);
    }
}

static void crash_late(void *data) {
    node_crash(data, false);
}

void node_crash(struct node *node, bool is_power) {
    if (!node->is_up) {
        return;
    }
    if (!node->is_in_turn && node->turn_end_us > world_now_us()) {
        /* Stopped in the middle of a turn whose end has been played already. */
        world_at(node->turn_end_us, crash_late, node);
        return;
    }
    trace("%s %s", node->name, is_power ? "loses power" : "is killed");
    node_end_threads(node);
    machine_disk_crash(&node->disk, is_power);
    node_end(node);
    if (node->asleep_until_us > world_now_us()) {
        node->suspended_us -= node->asleep_until_us - world_now_us();
    }
    node->asleep_until_us = 0;
    if (node->thaw_us > world_now_us()) {
        node->frozen_us -= node->thaw_us - world_now_us();
    }
    node->thaw_us = 0;
    if (is_power) {
        node->boot_us = random_between(1, 60) * WORLD_SECOND;
        node->suspended_us = 0;
    }
}

static void closed(void *data) {
    struct node *node = data;
    trace("%s has stopped", node->name);
    node->lanes = NULL;
    node_end(node);
}

static void stop_read(struct node *node, void *data) {
    (void)data;
    replication_close(node->service, closed, node);
}

void node_stop(struct node *node) {
    if (!node->is_up || node->is_stopping) {
        return;
    }
    trace("%s is asked to stop", node->name);
    node->is_stopping = true;
    node_deliver(node, stop_read, NULL, NULL);
}

void node_stall(struct node *node, uint64_t for_us, enum stall stall) {
    if (!node->is_up || node->free_us > world_now_us()) {
        return;
    }
    if (stall == STALL_MID_TURN) {
        node->stall_us = for_us;
        node->stall_reads = random_below(STALL_READS_MAX);
        return;
    }
    trace("%s stops for %llu ms%s", node->name, (unsigned long long)for_us / WORLD_MS,
          stall == STALL_ASLEEP   ? ", asleep"
          : stall == STALL_FROZEN ? ", frozen"
                                  : "");
    uint64_t until_us = world_now_us() + for_us;
    node->free_us = until_us;
    if (stall == STALL_FROZEN) {
        node->thaw_us = until_us;
        node->frozen_us += for_us;
    } else if (stall == STALL_ASLEEP) {
        node->asleep_until_us = until_us;
        node->suspended_us += for_us;
    }
}
