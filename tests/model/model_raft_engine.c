/* Random runs of a cluster of engines against an oracle: one leader a term, all nodes apply the
 * same, nothing that was committed is lost, promises not to vote are kept, and once everything is
 * well again all members come to the same state.
 *
 *   model_raft_engine [first seed] [number of seeds] [guards to switch off] */
#include "../storage/thorough.h"
#include "raft/raft_guards.h"
#include "raft_world.h"

enum { CHAOS_MS = 12000, CONVERGE_MS = 60000, SEEDS = THOROUGH(120) };

static void run_ops(struct node *node) {
    while (node->engine != NULL && node->ops != NULL && node->ops->at_ms <= world.now_ms) {
        struct disk_op *op = node->ops;
        node->ops = op->next;
        carry_out(node, op, op->n, true);
        bool is_append = op->items != NULL;
        free_op(op);
        if (is_append) {
            raft_engine_written(node->engine, world.now_ms);
        } else {
            raft_engine_installed(node->engine, world.now_ms);
        }
    }
}

static void take_snapshot(struct node *node) {
    if (!node->is_taking) {
        uint64_t behind = raft_engine_applied_index(node->engine) - node->snapshot.index;
        if (behind > 100 && random_one_in(50) &&
            raft_engine_snapshot_begin(node->engine, &node->taking)) {
            node->taking.size = node->hash;
            node->is_taking = true;
            node->take_at_ms = world.now_ms + 1 + random_below(150);
        }
        return;
    }
    if (node->take_at_ms > world.now_ms) {
        return;
    }
    node->is_taking = false;
    if (raft_engine_snapshot_is_stale(node->engine) || random_one_in(20)) {
        raft_engine_snapshot_abandoned(node->engine);
        return;
    }
    node->snapshot = node->taking;
    totals.snapshots++;
    raft_engine_snapshot_taken(node->engine, node->taking.size, TRAILING, world.now_ms);
}

static void change_members(struct node *node) {
    const struct raft_config *config = raft_engine_configuration(node->engine);
    uint64_t id = 1 + random_below(NODES);
    const struct raft_config_server *server = raft_config_find(config, id);
    char address[16];
    snprintf(address, sizeof address, "n%" PRIu64, id);
    enum status status;
    if (server == NULL) {
        status = raft_engine_change(node->engine, ENGINE_ADD, id, address, world.now_ms);
    } else if (server->role != CONFIG_VOTER && !random_one_in(4)) {
        status = raft_engine_change(node->engine, ENGINE_PROMOTE, id, NULL, world.now_ms);
        totals.promotions += status == STATUS_OK;
    } else {
        /* Down to a single voter in some runs. */
        size_t n_min = world.has_sole_voters ? 1 : 2;
        if (server->role == CONFIG_VOTER && raft_config_count_voters(config) <= n_min) {
            return;
        }
        status = raft_engine_change(node->engine, ENGINE_REMOVE, id, NULL, world.now_ms);
    }
    totals.changes += status == STATUS_OK;
}

static void run_leader(struct node *node) {
    if (random_one_in(world.propose_every)) {
        for (uint64_t n = 1 + random_below(20); n > 0; n--) {
            propose(node);
        }
    }
    if (random_one_in(world.change_every)) {
        change_members(node);
    }
    if (random_one_in(2500)) {
        uint64_t to_id = random_one_in(2) ? 0 : 1 + random_below(NODES);
        totals.transfers += raft_engine_transfer(node->engine, to_id, world.now_ms) == STATUS_OK;
    }
    if (random_one_in(20)) {
        raft_engine_announce_commit(node->engine, 1 + random_below(NODES));
    }
}

static void tick(void) {
    world.now_ms++;
    struct list due;
    list_init(&due);
    list_append_all(&due, &world.slots[world.now_ms % SLOTS]);
    for (struct list *node; (node = list_pop_first(&due)) != NULL;) {
        deliver(list_entry(node, struct packet, in_slot));
    }
    for (size_t i = 0; i < NODES; i++) {
        struct node *node = &world.nodes[i];
        if (node->engine == NULL) {
            continue;
        }
        run_ops(node);
        take_snapshot(node);
        if (raft_engine_deadline_ms(node->engine, world.now_ms) <= world.now_ms ||
            random_one_in(20)) {
            raft_engine_poll(node->engine, world.now_ms);
        }
        if (!world.is_quiet && raft_engine_role(node->engine) == ENGINE_LEADER) {
            run_leader(node);
        }
    }
}

static void cut(void) {
    memset(world.is_cut, 0, sizeof world.is_cut);
    world.drop_percent = random_one_in(3) ? (unsigned)random_below(20) : 0;
    uint64_t kind = random_below(5);
    uint64_t mask = kind == 0 ? random_below(1 << NODES) : UINT64_C(1) << random_below(NODES);
    if (kind == 1) {
        world.is_cut[random_below(NODES)][random_below(NODES)] = true; /* one way */
        return;
    }
    for (size_t i = 0; kind >= 2 && kind < 4 && i < NODES; i++) {
        const struct raft_engine *engine = world.nodes[i].engine;
        if (engine != NULL && raft_engine_role(engine) == ENGINE_LEADER && !random_one_in(4)) {
            mask = UINT64_C(1) << i;
        }
    }
    for (size_t i = 0; kind < 4 && i < NODES; i++) {
        for (size_t j = 0; j < NODES; j++) {
            world.is_cut[i][j] = ((mask >> i) & 1) != ((mask >> j) & 1);
        }
    }
}

static void make_world(uint64_t seed) {
    random_state = seed * UINT64_C(0x9e3779b97f4a7c15) + 12345;
    world.seed = seed;
    world.is_chaotic = random_one_in(2);
    world.has_promises = !random_one_in(3);
    world.has_sole_voters = random_one_in(3);
    world.crash_every = 300 + random_below(2000);
    world.cut_every = 200 + random_below(2000);
    world.propose_every = 3 + random_below(60);
    world.change_every = 50 + random_below(500);
    struct raft_config config = {0};
    uint64_t n_voters = random_one_in(3) ? 1 + random_below(2) : 3;
    for (uint64_t id = 1; id <= n_voters; id++) {
        char address[16];
        snprintf(address, sizeof address, "n%" PRIu64, id);
        raft_config_add(&config, id, address, CONFIG_VOTER);
    }
    struct buffer buffer;
    buffer_init(&buffer);
    raft_config_encode(&buffer, &config);
    struct log_item *first = log_item_create(LOG_CHANGE, 1, 1, buffer.data, buffer.size);
    for (size_t i = 0; i < SLOTS; i++) {
        list_init(&world.slots[i]);
    }
    for (size_t i = 0; i < NODES; i++) {
        struct node *node = &world.nodes[i];
        node->id = i + 1;
        node->log.first = 1;
        if (i < n_voters) {
            node->term = 1;
            disk_append(node, first);
        }
    }
    log_item_release(first);
}

static void free_world(void) {
    for (size_t i = 0; i < SLOTS; i++) {
        for (struct list *node; (node = list_pop_first(&world.slots[i])) != NULL;) {
            free_packet(list_entry(node, struct packet, in_slot));
        }
    }
    for (size_t i = 0; i < NODES; i++) {
        crash_node(&world.nodes[i]);
        disk_reset(&world.nodes[i].log, 1);
        free(world.nodes[i].log.items);
    }
    totals.committed += world.n_committed;
    free(world.committed);
    memset(&world, 0, sizeof world);
}

/* Has everybody in the configuration what was committed? */
static bool has_converged(void) {
    const struct node *leader = NULL;
    for (size_t i = 0; i < NODES; i++) {
        const struct node *node = &world.nodes[i];
        if (raft_engine_role(node->engine) == ENGINE_LEADER &&
            (leader == NULL || raft_engine_term(node->engine) > raft_engine_term(leader->engine))) {
            leader = node;
        }
    }
    if (leader == NULL ||
        raft_engine_applied_index(leader->engine) != raft_engine_last_index(leader->engine) ||
        raft_engine_applied_index(leader->engine) + 1 < world.n_committed) {
        return false;
    }
    const struct raft_config *config = raft_engine_configuration(leader->engine);
    for (size_t i = 0; i < config->n; i++) {
        const struct node *node = &world.nodes[config->servers[i].id - 1];
        if (node->hash != leader->hash ||
            raft_engine_applied_index(node->engine) != raft_engine_applied_index(leader->engine)) {
            return false;
        }
    }
    return true;
}

static void show_nodes(void) {
    for (size_t i = 0; i < NODES; i++) {
        const struct raft_engine *engine = world.nodes[i].engine;
        printf("  n%zu role %d term %" PRIu64 " leader %" PRIu64 " last %" PRIu64
               " applied %" PRIu64 " snapshot %" PRIu64 " installing %d members",
               i + 1, raft_engine_role(engine), raft_engine_term(engine),
               raft_engine_leader_id(engine), raft_engine_last_index(engine),
               raft_engine_applied_index(engine), world.nodes[i].snapshot.index,
               raft_engine_is_installing(engine));
        const struct raft_config *config = raft_engine_configuration(engine);
        for (size_t j = 0; j < config->n; j++) {
            printf(" %" PRIu64 "%s", config->servers[j].id,
                   config->servers[j].role == CONFIG_VOTER ? "v" : "");
        }
        printf("\n");
    }
}

static void run(uint64_t seed) {
    make_world(seed);
    for (size_t i = 0; i < NODES; i++) {
        start_node(&world.nodes[i]);
    }
    while (world.now_ms < CHAOS_MS) {
        struct node *node = &world.nodes[random_below(NODES)];
        if (random_one_in(world.crash_every) && node->engine != NULL) {
            crash_node(node);
        } else if (random_one_in(80) && node->engine == NULL) {
            start_node(node);
        }
        if (random_one_in(world.cut_every)) {
            cut();
        }
        tick();
    }
    world.is_quiet = true;
    world.is_chaotic = false;
    world.drop_percent = 0;
    memset(world.is_cut, 0, sizeof world.is_cut);
    for (size_t i = 0; i < NODES; i++) {
        if (world.nodes[i].engine == NULL) {
            start_node(&world.nodes[i]);
        }
    }
    uint64_t until_ms = world.now_ms + CONVERGE_MS;
    while (world.now_ms % 50 != 0 || !has_converged()) {
        tick();
        if (world.now_ms > until_ms) {
            show_nodes();
            violation("no agreement after %d ms of peace", CONVERGE_MS);
        }
    }
    free_world();
}

static uint64_t argument(int argc, char **argv, int i, uint64_t otherwise) {
    return argc > i ? strtoull(argv[i], NULL, 0) : otherwise;
}

int main(int argc, char **argv) {
    random_seed(argc, argv);
    uint64_t seed = random_state;
    uint64_t n = argument(argc, argv, 2, SEEDS);
    raft_guards_disabled = (unsigned)argument(argc, argv, 3, 0);
    for (uint64_t i = 0; i < n; i++) {
        run(seed + i);
    }
    printf("%" PRIu64 " runs: committed %" PRIu64 " elections %" PRIu64 " restarts %" PRIu64
           " snapshots %" PRIu64 " installs %" PRIu64 " truncations %" PRIu64 " changes %" PRIu64
           " promotions %" PRIu64 " transfers %" PRIu64 " messages %" PRIu64 "\n",
           n, totals.committed, totals.elections, totals.restarts, totals.snapshots,
           totals.installs, totals.truncations, totals.changes, totals.promotions, totals.transfers,
           totals.messages);
    return 0;
}
