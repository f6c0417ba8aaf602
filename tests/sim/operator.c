#include "operator.h"

#include "call.h"
#include "node.h"
#include "replication/service_internal.h"
#include "world.h"

#include <stdlib.h>
#include <string.h>

enum {
    LOOK_US = 300 * WORLD_MS,
    CHANGE_US_MIN = 300 * WORLD_MS,
    CHANGE_US_MAX = 5 * WORLD_SECOND,
    MEMBERS_AT_MOST = 5,
    RETIRE_US_MAX = 5 * WORLD_SECOND
};

static bool is_started;
static bool is_stopped;
static size_t n_asked; /* and not answered yet */

/* --- Who there is. --- */

static struct node *leader(void) {
    for (size_t i = 0; i < nodes_count(); i++) {
        if (node_is_authority(node_at(i))) {
            return node_at(i);
        }
    }
    return NULL;
}

static const struct member_table *table_at(const struct node *node) {
    return state_machine_members(node->service->machine);
}

static struct node *machine_of(const struct member *member) {
    for (size_t i = 0; i < nodes_count(); i++) {
        if (strcmp(node_at(i)->url, member->peer_urls[0]) == 0) {
            return node_at(i);
        }
    }
    return NULL;
}

static bool has_place(const struct member_table *table, const struct node *node) {
    struct bytes url = bytes_from_text(node->url);
    return node->is_in_service || member_table_by_urls(table, &url, 1) != NULL;
}

/* --- Machines follow the table. --- */

static void start_if_down(void *data) {
    struct node *node = data;
    if (node->is_in_service && !node->is_dead && !node->is_up) {
        node_start(node);
    }
}

static void commission(const struct member_table *table, const struct member *member) {
    struct node *node = machine_of(member);
    if (node == NULL || node->is_in_service) {
        return;
    }
    struct replication_member told[NODES_MAX];
    size_t n = 0;
    for (size_t i = 0; i < member_table_count(table) && n < NODES_MAX; i++) {
        const struct member *known = member_table_at(table, i);
        const struct node *machine = machine_of(known);
        if (machine != NULL) {
            told[n++] = (struct replication_member){.id = known->facts.id,
                                                    .name = machine->name,
                                                    .address = machine->address,
                                                    .peer_urls = machine->urls};
        }
    }
    node_commission(node, member->facts.id, told, n);
    world_at(world_now_us() + random_delay(100 * WORLD_MS, 3 * WORLD_SECOND), start_if_down, node);
}

static bool is_out_of_raft(const struct node *from, uint64_t id) {
    return raft_config_find(raft_engine_configuration(from->service->engine), id) == NULL &&
           !raft_engine_has_uncommitted_change(from->service->engine);
}

static void retire_if_due(const struct node *from, struct node *node) {
    if (!node->is_in_service || !member_table_is_removed(table_at(from), node->id)) {
        return;
    }
    if (node->retire_us == 0 && is_out_of_raft(from, node->id)) {
        node->retire_us = world_now_us() + 1 + random_below(RETIRE_US_MAX);
    }
    if (node->retire_us != 0 && node->retire_us <= world_now_us()) {
        node_retire(node);
    }
}

static void look(void *data) {
    struct node *from;
    (void)data;
    for (size_t i = 0; i < nodes_count() && (from = leader()) != NULL; i++) {
        retire_if_due(from, node_at(i));
    }
    from = leader();
    if (from != NULL) {
        const struct member_table *table = table_at(from);
        for (size_t i = 0; i < member_table_count(table); i++) {
            commission(table, member_table_at(table, i));
        }
    }
    world_at(world_now_us() + LOOK_US, look, NULL);
}

bool operator_is_done(void) {
    const struct node *from = leader();
    if (!is_started) {
        return true;
    }
    if (from == NULL || n_asked > 0 || member_table_count(table_at(from)) == 0) {
        return false;
    }
    const struct member_table *table = table_at(from);
    for (size_t i = 0; i < nodes_count(); i++) {
        const struct node *node = node_at(i);
        if (node->is_in_service && member_table_find(table, node->id) == NULL) {
            return false;
        }
    }
    for (size_t i = 0; i < member_table_count(table); i++) {
        const struct member *member = member_table_at(table, i);
        const struct node *node = machine_of(member);
        if (node == NULL || !node->is_in_service || node->id != member->facts.id || !node->is_up) {
            return false;
        }
    }
    return true;
}

/* --- Changes. --- */

static void changed(struct call *call) {
    n_asked--;
    trace("changing members (%d, %016llx): %s", (int)call->action,
          (unsigned long long)call->member_id, status_text(call->status));
}

static void ask(enum member_action action, uint64_t id, const struct member_facts *facts) {
    struct call *call = call_make(CALL_CHANGE_MEMBERS);
    call->action = action;
    call->member_id = id;
    if (facts != NULL) {
        call->facts = *facts;
    }
    call->answered = changed;
    struct node *node = leader();
    if (node == NULL || random_chance(300)) {
        node = node_at(random_below(nodes_count()));
    }
    trace("the operator asks %s for change %d of %016llx", node->name, (int)action,
          (unsigned long long)id);
    n_asked++;
    call_send(call, node);
}

static void add(const struct member_table *table) {
    size_t first = random_below(nodes_count());
    for (size_t i = 0; i < nodes_count(); i++) {
        struct node *node = node_at((first + i) % nodes_count());
        if (has_place(table, node)) {
            continue;
        }
        struct member_facts facts = {.id = 1,
                                     .role = random_chance(500) ? MEMBER_LEARNER : MEMBER_VOTER,
                                     .n_peer_urls = 1,
                                     .peer_urls = {bytes_from_text(node->url)}};
        ask(MEMBER_ADD, 0, &facts);
        return;
    }
}

static struct node *dead_member(void) {
    for (size_t i = 0; i < nodes_count(); i++) {
        if (node_at(i)->is_in_service && node_at(i)->is_dead) {
            return node_at(i);
        }
    }
    return NULL;
}

/* Everybody is up and raft's majority is large enough: one may die for good. */
static bool can_bear_a_death(const struct node *from) {
    const struct raft_config *configuration = raft_engine_configuration(from->service->engine);
    for (size_t i = 0; i < nodes_count(); i++) {
        if (node_at(i)->is_in_service &&
            (!node_at(i)->is_up || member_table_find(table_at(from), node_at(i)->id) == NULL)) {
            return false;
        }
    }
    size_t n_voters = 0;
    for (size_t i = 0; i < configuration->n; i++) {
        n_voters += configuration->servers[i].role == CONFIG_VOTER;
    }
    return n_voters >= 3 && n_voters == member_table_count(table_at(from)) &&
           !raft_engine_is_changing(from->service->engine);
}

static void bury(void *data) {
    struct node *node = dead_member();
    (void)data;
    if (node != NULL) {
        ask(MEMBER_REMOVE, node->id, NULL);
        world_at(world_now_us() + random_between(CHANGE_US_MIN, CHANGE_US_MAX), bury, NULL);
    }
}

/* As often as not somebody else is to go, too: mostly the leader, so that whoever follows it has
 * never heard of the dead one. */
static void lose_for_good(struct node *node, const struct node *from) {
    trace("%s is dead", node->name);
    node->is_dead = true;
    node_crash(node, true);
    if (node != from && member_table_voters(table_at(from)) > 3 && random_chance(500)) {
        ask(MEMBER_REMOVE, from->id, NULL);
    }
    world_at(world_now_us() + random_below(2 * WORLD_SECOND), bury, NULL);
}

static void change(void *data) {
    const struct node *from = leader();
    (void)data;
    if (is_stopped) {
        return;
    }
    world_at(world_now_us() + random_between(CHANGE_US_MIN, CHANGE_US_MAX), change, NULL);
    if (from == NULL || member_table_count(table_at(from)) == 0) {
        return;
    }
    const struct member_table *table = table_at(from);
    size_t n = member_table_count(table);
    const struct member *member = member_table_at(table, random_below(n));
    if (random_chance(150) && can_bear_a_death(from)) {
        lose_for_good(machine_of(member), from);
    } else if (member->facts.role == MEMBER_LEARNER) {
        ask(random_chance(800) ? MEMBER_PROMOTE : MEMBER_REMOVE, member->facts.id, NULL);
    } else if (n < MEMBERS_AT_MOST && random_chance(n < 3 ? 800 : 500)) {
        add(table);
    } else if (n > 2 || random_chance(100)) {
        ask(MEMBER_REMOVE, random_chance(300) ? from->id : member->facts.id, NULL);
    }
}

void operator_start(void) {
    is_started = true;
    world_at(LOOK_US, look, NULL);
    world_at(random_between(1, 3) * WORLD_SECOND, change, NULL);
}

void operator_stop(void) {
    is_stopped = true;
}
