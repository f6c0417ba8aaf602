#include "faults.h"

#include "call.h"
#include "network.h"
#include "node.h"
#include "world.h"

#include <stdlib.h>

enum fault {
    FAULT_KILL,
    FAULT_POWER,
    FAULT_STOP,
    FAULT_STALL,
    FAULT_SLEEP,
    FAULT_ISOLATE,
    FAULT_SPLIT,
    FAULT_ONE_WAY,
    FAULT_FLAP,
    FAULT_DEAF,
    FAULT_LOSS,
    FAULT_SLOW_DISK,
    FAULT_BAD_DISK,
    FAULT_FULL_DISK,
    FAULT_WALL_JUMP,
    FAULT_MOVE,
    FAULT_VOTER,
    FAULT_ORPHAN,
    FAULT_NAP,
    FAULT_FREEZE,     /* whoever does not lead */
    FAULT_FREEZE_ANY, /* leaders, too */
    FAULT_COUNT
};

struct plan_facts {
    const char *name;
    unsigned weights[FAULT_COUNT];
    uint64_t pause_us_min;
    uint64_t pause_us_max;
};

static const struct plan_facts plans[PLAN_COUNT] = {
    [PLAN_CALM] = {"calm", {[FAULT_WALL_JUMP] = 1}, 2 * WORLD_SECOND, 5 * WORLD_SECOND},
    [PLAN_MIXED] = {"mixed",
                    {[FAULT_KILL] = 6,
                     [FAULT_POWER] = 2,
                     [FAULT_STOP] = 3,
                     [FAULT_STALL] = 6,
                     [FAULT_SLEEP] = 2,
                     [FAULT_FREEZE] = 2,
                     [FAULT_ISOLATE] = 5,
                     [FAULT_SPLIT] = 2,
                     [FAULT_ONE_WAY] = 4,
                     [FAULT_FLAP] = 3,
                     [FAULT_DEAF] = 3,
                     [FAULT_LOSS] = 3,
                     [FAULT_SLOW_DISK] = 3,
                     [FAULT_BAD_DISK] = 1,
                     [FAULT_FULL_DISK] = 1,
                     [FAULT_WALL_JUMP] = 2,
                     [FAULT_MOVE] = 3},
                    100 * WORLD_MS,
                    4 * WORLD_SECOND},
    [PLAN_CRASHES] = {"crashes",
                      {[FAULT_KILL] = 10,
                       [FAULT_POWER] = 4,
                       [FAULT_STOP] = 3,
                       [FAULT_LOSS] = 1,
                       [FAULT_WALL_JUMP] = 1},
                      50 * WORLD_MS,
                      3 * WORLD_SECOND},
    [PLAN_PARTITIONS] = {"partitions",
                         {[FAULT_ISOLATE] = 6,
                          [FAULT_SPLIT] = 3,
                          [FAULT_ONE_WAY] = 6,
                          [FAULT_FLAP] = 4,
                          [FAULT_DEAF] = 4,
                          [FAULT_LOSS] = 2},
                         200 * WORLD_MS,
                         4 * WORLD_SECOND},
    [PLAN_STALLS] =
        {"stalls",
         {[FAULT_STALL] = 10, [FAULT_SLEEP] = 4, [FAULT_FREEZE] = 3, [FAULT_SLOW_DISK] = 2},
         100 * WORLD_MS,
         4 * WORLD_SECOND},
    [PLAN_DISKS] = {"disks",
                    {[FAULT_SLOW_DISK] = 8,
                     [FAULT_BAD_DISK] = 3,
                     [FAULT_FULL_DISK] = 3,
                     [FAULT_KILL] = 2,
                     [FAULT_POWER] = 2},
                    200 * WORLD_MS,
                    4 * WORLD_SECOND},
    [PLAN_CHURN] = {"churn",
                    {[FAULT_MOVE] = 20, [FAULT_WALL_JUMP] = 1},
                    200 * WORLD_MS,
                    2500 * WORLD_MS},
    [PLAN_DEAF] = {"deaf",
                   {[FAULT_DEAF] = 20, [FAULT_WALL_JUMP] = 1},
                   1 * WORLD_SECOND,
                   4 * WORLD_SECOND},
    [PLAN_VOTERS] = {"voters", {[FAULT_VOTER] = 1}, 5 * WORLD_SECOND, 7 * WORLD_SECOND},
    [PLAN_MOVES] = {"moves", {[FAULT_MOVE] = 1}, 1500 * WORLD_MS, 4 * WORLD_SECOND},
    [PLAN_ORPHANS] = {"orphans", {[FAULT_ORPHAN] = 1}, 3 * WORLD_SECOND, 7 * WORLD_SECOND},
    [PLAN_FROZEN] = {"frozen",
                     {[FAULT_FREEZE_ANY] = 10, [FAULT_FREEZE] = 2, [FAULT_KILL] = 2},
                     300 * WORLD_MS,
                     4 * WORLD_SECOND},
    [PLAN_MEMBERS] = {"members",
                      {[FAULT_KILL] = 6,
                       [FAULT_POWER] = 2,
                       [FAULT_STOP] = 3,
                       [FAULT_STALL] = 3,
                       [FAULT_ISOLATE] = 3,
                       [FAULT_ONE_WAY] = 2,
                       [FAULT_LOSS] = 2,
                       [FAULT_SLOW_DISK] = 2,
                       [FAULT_MOVE] = 3},
                      500 * WORLD_MS,
                      6 * WORLD_SECOND},
    [PLAN_NAPS] = {"naps", {[FAULT_NAP] = 1}, 1200 * WORLD_MS, 2200 * WORLD_MS},
};

static enum plan the_plan;
static bool is_over;
static bool is_quiet;

bool plan_is_slow(enum plan plan) {
    return plan == PLAN_VOTERS || plan == PLAN_MOVES || plan == PLAN_ORPHANS || plan == PLAN_NAPS;
}

bool plan_wants_worst_timers(enum plan plan) {
    return plan == PLAN_ORPHANS || plan == PLAN_VOTERS;
}

bool plan_stretches_leases(enum plan plan) {
    return plan == PLAN_FROZEN;
}

bool plan_changes_members(enum plan plan) {
    return plan == PLAN_MEMBERS;
}

bool plan_is_gentle(enum plan plan) {
    return plan == PLAN_CALM || plan == PLAN_CHURN;
}

const char *plan_name(enum plan plan) {
    return plans[plan].name;
}

/* --- Whom it hits. --- */

static struct node *leader(void) {
    for (size_t i = 0; i < nodes_count(); i++) {
        if (node_is_authority(node_at(i))) {
            return node_at(i);
        }
    }
    for (size_t i = 0; i < nodes_count(); i++) {
        if (node_is_leader(node_at(i))) {
            return node_at(i);
        }
    }
    return NULL;
}

static struct node *victim(void) {
    struct node *node = random_chance(500) ? leader() : NULL;
    return node != NULL ? node : node_at(random_below(nodes_count()));
}

/* --- Processes. --- */

static void restart(void *data) {
    struct node *node = data;
    if (!node->is_in_service || node->is_dead) {
        return;
    }
    if (node->is_up) {
        if (node->is_stopping) {
            world_at(world_now_us() + 200 * WORLD_MS, restart, node);
        }
        return;
    }
    machine_disk_mend(&node->disk);
    node_start(node);
}

static uint64_t away_us(void) {
    return random_chance(300) ? random_between(20, 300) * WORLD_MS
                              : random_delay(WORLD_SECOND, 12 * WORLD_SECOND);
}

/* If it has not yet. */
static void lose_power(void *data) {
    struct node *node = data;
    if (node->is_up && !is_over && node->disk.is_power_loss_due) {
        node_crash(node, true);
    }
}

static void kill_node(bool is_power) {
    struct node *node = victim();
    if (is_power && node->is_up && random_chance(500)) {
        trace("%s will lose power during a call", node->name);
        machine_disk_lose_power_soon(&node->disk);
        world_at(world_now_us() + 2 * WORLD_SECOND, lose_power, node);
        world_at(world_now_us() + 2 * WORLD_SECOND + away_us(), restart, node);
        return;
    }
    node_crash(node, is_power);
    world_at(world_now_us() + away_us(), restart, node);
}

static void stop_node(void) {
    struct node *node = victim();
    node_stop(node);
    world_at(world_now_us() + away_us(), restart, node);
}

static void stall_node(bool is_asleep) {
    struct node *node = victim();
    uint64_t for_us = random_chance(700) ? random_between(50, 2500) * WORLD_MS
                                         : random_between(2, 25) * WORLD_SECOND;
    bool is_mid_turn = !is_asleep && for_us < 4 * WORLD_SECOND && random_chance(500);
    node_stall(node, for_us,
               is_asleep     ? STALL_ASLEEP
               : is_mid_turn ? STALL_MID_TURN
                             : STALL_STOPPED);
}

/* Who leads and does not know how long it was away goes on as if nothing had happened, for as long
 * as its own lease says: that is the one thing that the design cannot bear. */
static void freeze(bool is_leader_spared) {
    struct node *node = victim();
    if (is_leader_spared && node_is_leader(node)) {
        return;
    }
    node_stall(node,
               random_chance(700) ? random_between(50, 2500) * WORLD_MS
                                  : random_between(2, 15) * WORLD_SECOND,
               STALL_FROZEN);
}

/* --- The network. --- */

struct cut {
    size_t from;
    size_t to;
};

static void mend(void *data) {
    struct cut *cut = data;
    network_cut(cut->from, cut->to, false);
    free(cut);
}

static void cut_for(size_t from, size_t to, uint64_t for_us) {
    struct cut *cut = malloc(sizeof *cut);
    if (cut == NULL) {
        abort();
    }
    *cut = (struct cut){.from = from, .to = to};
    network_cut(from, to, true);
    world_at(world_now_us() + for_us, mend, cut);
}

static uint64_t cut_us(void) {
    return random_chance(500) ? random_between(100, 2500) * WORLD_MS
                              : random_between(1, 12) * WORLD_SECOND;
}

static void isolate(void) {
    size_t alone = victim()->index;
    uint64_t for_us = cut_us();
    for (size_t i = 0; i < nodes_count(); i++) {
        if (i != alone) {
            cut_for(alone, i, for_us);
            cut_for(i, alone, for_us);
        }
    }
}

static void split(void) {
    uint64_t side = random_below((uint64_t)1 << nodes_count());
    uint64_t for_us = cut_us();
    for (size_t a = 0; a < nodes_count(); a++) {
        for (size_t b = 0; b < nodes_count(); b++) {
            if (a != b && ((side >> a) & 1) != ((side >> b) & 1)) {
                cut_for(a, b, for_us);
            }
        }
    }
}

static void one_way(void) {
    size_t node = victim()->index;
    bool is_out = random_chance(500);
    uint64_t for_us = cut_us();
    for (size_t i = 0; i < nodes_count(); i++) {
        if (i != node && random_chance(700)) {
            cut_for(is_out ? node : i, is_out ? i : node, for_us);
        }
    }
}

/* The leader is heard and hears nobody: it loses its lease and keeps its followers. */
static void deafen(void) {
    struct node *node = leader();
    if (node == NULL) {
        return;
    }
    uint64_t for_us = random_between(300, 2200) * WORLD_MS;
    for (size_t i = 0; i < nodes_count(); i++) {
        if (i != node->index) {
            cut_for(i, node->index, for_us);
        }
    }
}

/* --- Plans of several steps. --- */

static void moved(struct call *call) {
    trace("moving the leader: %s", status_text(call->status));
}

static void move_leader_to(struct node *from, uint64_t id) {
    struct call *call = call_make(CALL_MOVE_LEADER);
    call->member_id = id;
    call->answered = moved;
    call_send(call, from);
}

/* Who has the longest timers should lead. True: it will. */
static bool is_leader_moved(struct node *from) {
    if (!nodes_have_worst_timers() || from == NULL || from->index == 0) {
        return false;
    }
    move_leader_to(from, node_at(0)->id);
    return true;
}

static void cut_off(size_t node, uint64_t for_us) {
    for (size_t i = 0; i < nodes_count(); i++) {
        if (i != node) {
            cut_for(i, node, for_us);
            cut_for(node, i, for_us);
        }
    }
}

/* Rule 4: whoever answered the leader's last ping has promised not to vote. It restarts, is cut off
 * from the leader like the others, and is asked for its vote while the leader still trusts it. */
static void restart_voters(void *data) {
    struct node *from = leader();
    (void)data;
    is_quiet = false;
    if (from == NULL || is_over) {
        return;
    }
    for (size_t i = 0; i < nodes_count(); i++) {
        struct node *node = node_at(i);
        if (node != from && !network_is_cut(from->index, i)) {
            node_crash(node, false);
            world_at(world_now_us() + random_between(1, 30) * WORLD_MS, restart, node);
        }
    }
    cut_off(from->index, random_between(1500, 3000) * WORLD_MS);
}

/* As many as the leader can spare do not hear it. They miss nothing: who is behind is not elected.
 */
static void deprive_leader(void *data) {
    struct node *from = leader();
    (void)data;
    if (from == NULL || is_over) {
        is_quiet = false;
        return;
    }
    size_t n_left = nodes_count() / 2;
    uint64_t for_us = random_between(2000, 4000) * WORLD_MS;
    for (size_t i = 0; i < nodes_count() && n_left > 0; i++) {
        if (i != from->index) {
            cut_for(i, from->index, for_us);
            cut_for(from->index, i, for_us);
            n_left--;
        }
    }
    world_at(world_now_us() + random_between(1000, 1900) * WORLD_MS, restart_voters, NULL);
}

static void calm_down(void) {
    if (is_leader_moved(leader())) {
        return;
    }
    is_quiet = true;
    world_at(world_now_us() + 400 * WORLD_MS, deprive_leader, NULL);
}

bool faults_want_quiet(void) {
    return is_quiet && !is_over;
}

/* Rule 8: what reached the sockets meanwhile is read before anything ends. */
static void nap(void) {
    struct node *node = leader();
    if (node != NULL) {
        node_stall(node, random_between(600, 850) * WORLD_MS, STALL_MID_TURN);
    }
}

void faults_handing_over(size_t from) {
    if (the_plan != PLAN_MOVES || is_over || random_chance(200)) {
        return;
    }
    uint64_t for_us = random_between(300, 1500) * WORLD_MS;
    for (size_t i = 0; i < nodes_count(); i++) {
        if (i != from) {
            cut_for(i, from, for_us);
        }
    }
}

static void orphan(void) {
    struct node *from = leader();
    if (from != NULL && !is_leader_moved(from)) {
        cut_off(from->index, random_between(1300, 4500) * WORLD_MS);
    }
}

static void flap(void *data) {
    uint64_t *left = data;
    if (*left == 0 || is_over) {
        free(left);
        return;
    }
    --*left;
    size_t a = random_below(nodes_count());
    size_t b = random_below(nodes_count());
    if (a != b) {
        uint64_t for_us = random_between(20, 400) * WORLD_MS;
        cut_for(a, b, for_us);
        cut_for(b, a, for_us);
    }
    world_at(world_now_us() + random_between(50, 500) * WORLD_MS, flap, left);
}

static void start_flapping(void) {
    uint64_t *left = malloc(sizeof *left);
    if (left == NULL) {
        abort();
    }
    *left = random_between(5, 25);
    flap(left);
}

static void loss_ends(void *data) {
    (void)data;
    network_set_loss(0);
}

static void lose_packets(void) {
    network_set_loss((unsigned)random_between(10, 300));
    world_at(world_now_us() + random_between(500, 5000) * WORLD_MS, loss_ends, NULL);
}

/* --- Disks. --- */

static void disk_is_fast(void *data) {
    struct node *node = data;
    machine_disk_set_fast(&node->disk);
}

static void slow_disk(void) {
    struct node *node = victim();
    machine_disk_set_slow(&node->disk);
    trace("%s has a slow disk", node->name);
    world_at(world_now_us() + random_between(500, 6000) * WORLD_MS, disk_is_fast, node);
}

/* Mended by whoever starts the node again. */
static void break_disk(bool is_full) {
    struct node *node = victim();
    if (!node->is_up) {
        return;
    }
    trace("%s has a %s disk", node->name, is_full ? "full" : "bad");
    machine_disk_break(&node->disk, is_full);
    world_at(world_now_us() + random_between(4, 10) * WORLD_SECOND, restart, node);
}

/* --- All of them. --- */

static void move_leader(void) {
    struct node *from = leader();
    if (from != NULL) {
        move_leader_to(from, node_at(random_below(nodes_count()))->id);
    }
}

static void strike(enum fault fault) {
    switch (fault) {
    case FAULT_KILL:
    case FAULT_POWER:
        kill_node(fault == FAULT_POWER);
        return;
    case FAULT_STOP:
        stop_node();
        return;
    case FAULT_STALL:
    case FAULT_SLEEP:
        stall_node(fault == FAULT_SLEEP);
        return;
    case FAULT_ISOLATE:
        isolate();
        return;
    case FAULT_SPLIT:
        split();
        return;
    case FAULT_ONE_WAY:
        one_way();
        return;
    case FAULT_FLAP:
        start_flapping();
        return;
    case FAULT_DEAF:
        deafen();
        return;
    case FAULT_LOSS:
        lose_packets();
        return;
    case FAULT_SLOW_DISK:
        slow_disk();
        return;
    case FAULT_BAD_DISK:
    case FAULT_FULL_DISK:
        break_disk(fault == FAULT_FULL_DISK);
        return;
    case FAULT_WALL_JUMP:
        victim()->wall_offset_ms += (int64_t)random_below(2 * 86400000) - 86400000;
        return;
    case FAULT_MOVE:
        move_leader();
        return;
    case FAULT_VOTER:
        calm_down();
        return;
    case FAULT_NAP:
        nap();
        return;
    case FAULT_ORPHAN:
        orphan();
        return;
    case FAULT_FREEZE:
    case FAULT_FREEZE_ANY:
        freeze(fault == FAULT_FREEZE);
        return;
    case FAULT_COUNT:
        return;
    }
}

static void next_fault(void *data) {
    const struct plan_facts *plan = &plans[the_plan];
    (void)data;
    if (is_over) {
        return;
    }
    unsigned total = 0;
    for (size_t i = 0; i < FAULT_COUNT; i++) {
        total += plan->weights[i];
    }
    unsigned roll = (unsigned)random_below(total);
    enum fault fault = FAULT_KILL;
    while (roll >= plan->weights[fault]) {
        roll -= plan->weights[fault];
        fault++;
    }
    strike(fault);
    world_at(world_now_us() + random_between(plan->pause_us_min, plan->pause_us_max), next_fault,
             NULL);
}

void faults_start(enum plan plan) {
    the_plan = plan;
    world_at(random_between(1, 4) * WORLD_SECOND, next_fault, NULL);
}

/* A node whose disk broke may not have noticed; its operator starts it again. */
static void heal_node(struct node *node) {
    disk_is_fast(node);
    if (node->is_up && (node->disk.is_failing || node->disk.is_full)) {
        node_crash(node, false);
    }
    machine_disk_mend(&node->disk);
    node->stall_us = 0;
    if (node->free_us > world_now_us() + 100 * WORLD_MS) {
        node_crash(node, false);
    }
    world_at(world_now_us() + 4 * WORLD_SECOND, restart, node); /* if it ends that late */
    restart(node);
}

void faults_heal(void) {
    is_over = true;
    trace("everything is mended");
    network_heal();
    network_set_loss(0);
    for (size_t i = 0; i < nodes_count(); i++) {
        if (node_at(i)->is_in_service) {
            heal_node(node_at(i));
        }
    }
}
