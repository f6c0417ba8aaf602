/* A cluster of raft engines in one process: disks that lose what was being written, a network that
 * delays, drops, repeats and reorders, virtual time, and an oracle that knows what was committed.
 */
#ifndef LEASED_TESTS_RAFT_WORLD_H
#define LEASED_TESTS_RAFT_WORLD_H

#include "base/list.h"
#include "model_random.h"
#include "raft/raft_engine.h"

#include <stdarg.h>
#include <string.h>

enum {
    NODES = 6,
    HEARTBEAT_MS = 100,
    ELECTION_MS = 1000,
    SLOTS = 8192, /* of milliseconds in which packets arrive */
    TRAILING = 40,
    TERMS_MAX = 100000
};

struct disk_log {
    uint64_t first;
    size_t n;
    size_t capacity;
    struct log_item **items;
};

/* One write under way. */
struct disk_op {
    struct disk_op *next;
    uint64_t at_ms;
    struct log_item **items; /* NULL: an install */
    size_t n;
    struct snapshot_meta meta;
};

struct node {
    uint64_t id;
    struct raft_engine *engine; /* NULL: it is down */
    /* What survives. The size of a snapshot stands for its payload: the state's hash. */
    uint64_t term;
    uint64_t vote;
    struct disk_log log;
    struct snapshot_meta snapshot;
    /* What does not. */
    uint64_t hash;
    struct disk_op *ops;
    uint64_t ops_until_ms;
    bool is_taking;
    uint64_t take_at_ms;
    struct snapshot_meta taking;
    uint64_t promised_id;
    uint64_t promised_until_ms;
    uint64_t fifo_ms[NODES];
};

struct packet {
    struct list in_slot;
    uint64_t from_id;
    uint64_t to_id;
    struct raft_message_view view;
    struct log_item **items;
    struct snapshot_meta *meta;
};

static struct {
    uint64_t seed;
    uint64_t now_ms;
    bool is_chaotic;      /* packets overtake each other and come twice */
    bool is_quiet;        /* the end of a run: nothing is proposed or changed */
    bool has_promises;    /* members promise their leader not to vote */
    bool has_sole_voters; /* voters are removed down to one */
    /* About how many milliseconds lie between two of each. */
    uint64_t crash_every, cut_every, propose_every, change_every;
    unsigned drop_percent;
    bool is_cut[NODES][NODES];
    struct node nodes[NODES];
    struct list slots[SLOTS];
    /* The oracle. */
    struct committed {
        uint64_t term;
        uint64_t hash;
    } * committed;
    size_t n_committed; /* index of the last + 1 */
    size_t committed_capacity;
    uint64_t leader_of_term[TERMS_MAX];
    uint64_t n_proposed;
} world;

static struct {
    uint64_t elections, restarts, installs, snapshots, truncations, changes, promotions, transfers,
        proposals, messages, committed;
} totals;

__attribute__((format(printf, 1, 2), noreturn)) static void violation(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    printf("VIOLATION seed %" PRIu64 " at %" PRIu64 " ms: ", world.seed, world.now_ms);
    vprintf(format, arguments);
    printf("\n");
    va_end(arguments);
    fflush(stdout);
    _Exit(1);
}

static uint64_t mix(uint64_t hash, uint64_t value) {
    hash ^= value + UINT64_C(0x9e3779b97f4a7c15) + (hash << 6) + (hash >> 2);
    return hash * UINT64_C(0xff51afd7ed558ccd);
}

/* --- The disk. --- */

static uint64_t disk_last(const struct disk_log *log) {
    return log->first + log->n - 1;
}

static struct log_item *disk_get(const struct disk_log *log, uint64_t index) {
    return index >= log->first && index - log->first < log->n ? log->items[index - log->first]
                                                              : NULL;
}

static void disk_truncate(struct disk_log *log, uint64_t from) {
    while (log->n > 0 && disk_last(log) >= from) {
        log_item_release(log->items[--log->n]);
    }
}

static void disk_reset(struct disk_log *log, uint64_t first) {
    disk_truncate(log, 0);
    log->first = first;
}

static void disk_trim(struct disk_log *log, uint64_t upto) {
    size_t k = 0;
    while (k < log->n && log->first + k <= upto) {
        log_item_release(log->items[k++]);
    }
    memmove(log->items, log->items + k, (log->n - k) * sizeof log->items[0]);
    log->n -= k;
    log->first += k;
}

static void disk_append(struct node *node, struct log_item *item) {
    struct disk_log *log = &node->log;
    if (item->index <= disk_last(log)) {
        totals.truncations++;
        disk_truncate(log, item->index);
    }
    if (item->index != disk_last(log) + 1) {
        violation("node %" PRIu64 " writes entry %" PRIu64 " behind %" PRIu64, node->id,
                  item->index, disk_last(log));
    }
    if (log->n == log->capacity) {
        log->capacity = log->capacity == 0 ? 256 : log->capacity * 2;
        log->items = realloc(log->items, log->capacity * sizeof log->items[0]);
    }
    log->items[log->n++] = log_item_reference(item);
}

static void queue_op(struct node *node, struct disk_op *op) {
    uint64_t at_ms = world.now_ms + 1 + random_below(random_one_in(20) ? 200 : 6);
    if (at_ms < node->ops_until_ms) {
        at_ms = node->ops_until_ms;
    }
    node->ops_until_ms = op->at_ms = at_ms;
    struct disk_op **end = &node->ops;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = op;
}

static void free_op(struct disk_op *op) {
    for (size_t i = 0; i < op->n; i++) {
        log_item_release(op->items[i]);
    }
    free(op->items);
    free(op);
}

/* The first n items of it, or of an install the snapshot and perhaps not the log, reach the disk.
 */
static void carry_out(struct node *node, const struct disk_op *op, size_t n, bool is_whole) {
    if (op->items != NULL) {
        for (size_t i = 0; i < n; i++) {
            disk_append(node, op->items[i]);
        }
        return;
    }
    node->snapshot = op->meta;
    if (is_whole) {
        disk_reset(&node->log, op->meta.index + 1);
    }
}

/* --- The oracle. --- */

static void oracle_applied(struct node *node, uint64_t index, uint64_t term) {
    if (index >= world.committed_capacity) {
        size_t capacity = index * 2 + 1024;
        world.committed = realloc(world.committed, capacity * sizeof world.committed[0]);
        memset(world.committed + world.committed_capacity, 0,
               (capacity - world.committed_capacity) * sizeof world.committed[0]);
        world.committed_capacity = capacity;
    }
    struct committed *known = &world.committed[index];
    if (known->term == 0) {
        *known = (struct committed){.term = term, .hash = node->hash};
        world.n_committed = index + 1 > world.n_committed ? index + 1 : world.n_committed;
    } else if (known->term != term || known->hash != node->hash) {
        violation("node %" PRIu64 " applied another entry %" PRIu64 " (term %" PRIu64
                  ", committed was term %" PRIu64 ")",
                  node->id, index, term, known->term);
    }
}

/* --- What an engine asks for. --- */

static enum status on_store_vote(void *data, uint64_t term, uint64_t vote) {
    struct node *node = data;
    if (term < node->term || (term == node->term && node->vote != 0 && vote != node->vote)) {
        violation("node %" PRIu64 " takes a vote back", node->id);
    }
    node->term = term;
    node->vote = vote;
    return STATUS_OK;
}

static void on_append(void *data, struct log_item *const *items, size_t n) {
    struct disk_op *op = calloc(1, sizeof *op);
    op->items = malloc(n * sizeof items[0]);
    op->n = n;
    memcpy(op->items, items, n * sizeof items[0]);
    queue_op(data, op);
}

static void on_install(void *data, const struct snapshot_meta *meta) {
    struct disk_op *op = calloc(1, sizeof *op);
    op->meta = *meta;
    totals.installs++;
    queue_op(data, op);
}

static void on_trim(void *data, uint64_t upto) {
    struct node *node = data;
    disk_trim(&node->log, upto);
}

static void on_restore(void *data, const struct snapshot_meta *meta) {
    struct node *node = data;
    node->hash = meta->size;
    if (meta->index < world.n_committed && world.committed[meta->index].term != 0 &&
        world.committed[meta->index].hash != node->hash) {
        violation("node %" PRIu64 " installed another snapshot %" PRIu64, node->id, meta->index);
    }
}

static void propose(struct node *node) {
    size_t size = 8 + random_below(64);
    uint8_t *bytes = calloc(1, size);
    memcpy(bytes, &world.n_proposed, sizeof world.n_proposed);
    world.n_proposed++;
    if (raft_engine_propose(node->engine, bytes, size, world.now_ms) == STATUS_OK) {
        totals.proposals++;
    } else {
        free(bytes);
    }
}

static void on_apply(void *data, const struct log_item *item) {
    struct node *node = data;
    uint64_t hash = item->size;
    for (size_t i = 0; i < item->size; i++) {
        hash = mix(hash, item->bytes[i]);
    }
    node->hash = mix(mix(node->hash, hash), (uint64_t)item->type * 31 + item->term);
    oracle_applied(node, item->index, item->term);
    if (!world.is_quiet && random_one_in(50)) {
        propose(node);
    }
}

static void on_role_changed(void *data) {
    struct node *node = data;
    uint64_t term = raft_engine_term(node->engine);
    if (raft_engine_role(node->engine) != ENGINE_LEADER || term >= TERMS_MAX) {
        return;
    }
    uint64_t *leader_id = &world.leader_of_term[term];
    if (*leader_id != 0 && *leader_id != node->id) {
        violation("nodes %" PRIu64 " and %" PRIu64 " both lead term %" PRIu64, *leader_id, node->id,
                  term);
    }
    totals.elections += *leader_id == 0;
    *leader_id = node->id;
}

static void on_configuration_changed(void *data) {
    (void)data;
}

static bool on_may_vote(void *data, uint64_t candidate_id) {
    const struct node *node = data;
    return world.now_ms >= node->promised_until_ms || candidate_id == node->promised_id;
}

static bool on_is_leaderless(void *data) {
    const struct node *node = data;
    return raft_engine_role(node->engine) != ENGINE_LEADER &&
           world.now_ms - raft_engine_heard_ms(node->engine) >= ELECTION_MS;
}

static void on_failed(void *data, const char *reason) {
    const struct node *node = data;
    violation("node %" PRIu64 " failed: %s", node->id, reason);
}

/* --- The network. --- */

static void free_packet(struct packet *packet) {
    if (packet->items != NULL) {
        for (uint32_t i = 0; i < packet->view.append.n_entries; i++) {
            log_item_release(packet->items[i]);
        }
        free(packet->items);
    }
    free(packet->meta);
    free(packet);
}

static void put(struct packet *packet, uint64_t at_ms) {
    list_append(&world.slots[at_ms % SLOTS], &packet->in_slot);
}

static struct packet *copy_of(const struct packet *packet) {
    struct packet *copy = malloc(sizeof *copy);
    *copy = *packet;
    if (packet->items != NULL) {
        size_t n = packet->view.append.n_entries;
        copy->items = malloc(n * sizeof copy->items[0]);
        for (size_t i = 0; i < n; i++) {
            copy->items[i] = log_item_reference(packet->items[i]);
        }
        copy->view.append.items = copy->items;
    }
    if (packet->meta != NULL) {
        copy->meta = malloc(sizeof *copy->meta);
        *copy->meta = *packet->meta;
        copy->view.snapshot.meta = copy->meta;
    }
    return copy;
}

static void post(struct node *node, struct packet *packet) {
    totals.messages++;
    size_t to = packet->to_id - 1;
    if (packet->to_id > NODES || world.is_cut[node->id - 1][to] ||
        random_below(100) < world.drop_percent) {
        free_packet(packet);
        return;
    }
    uint64_t at_ms = world.now_ms + 1 + random_below(8);
    if (!world.is_chaotic) {
        if (at_ms < node->fifo_ms[to]) {
            at_ms = node->fifo_ms[to];
        }
        node->fifo_ms[to] = at_ms;
    } else {
        at_ms += random_one_in(10) ? random_below(3000) : 0;
        if (random_one_in(20)) {
            put(copy_of(packet), world.now_ms + 1 + random_below(5000));
        }
    }
    put(packet, at_ms);
}

/* As the sender does: entries from memory, or from disk where they have left it. False: trimmed. */
static bool fill_items(struct node *node, struct packet *packet) {
    struct message_append *append = &packet->view.append;
    uint32_t n = append->n_entries;
    append->n_entries = 0;
    packet->items = append->items = n == 0 ? NULL : malloc(n * sizeof packet->items[0]);
    for (; append->n_entries < n; append->n_entries++) {
        uint64_t index = append->prev_index + 1 + append->n_entries;
        struct log_item *item = raft_engine_item(node->engine, index);
        if (item == NULL) {
            item = disk_get(&node->log, index);
        }
        if (item == NULL) {
            return false;
        }
        packet->items[append->n_entries] = log_item_reference(item);
    }
    return true;
}

static void check_promise(struct node *node, const struct raft_message_view *view, uint64_t to_id) {
    if (view->kind == MESSAGE_VOTE_RESULT && view->vote_result.is_granted &&
        !on_may_vote(node, to_id)) {
        violation("node %" PRIu64 " breaks its promise by a vote", node->id);
    }
    if (view->kind == MESSAGE_VOTE && !on_may_vote(node, node->id)) {
        violation("node %" PRIu64 " breaks its promise by asking for votes", node->id);
    }
}

static void on_send(void *data, uint64_t to_id, const struct raft_message_view *view) {
    struct node *node = data;
    check_promise(node, view, to_id);
    struct packet *packet = calloc(1, sizeof *packet);
    packet->from_id = node->id;
    packet->to_id = to_id;
    packet->view = *view;
    if (view->kind == MESSAGE_SNAPSHOT) {
        packet->meta = malloc(sizeof *packet->meta);
        *packet->meta = *view->snapshot.meta;
        packet->view.snapshot.meta = packet->meta;
    }
    if (view->kind == MESSAGE_APPEND && !fill_items(node, packet)) {
        free_packet(packet);
        return;
    }
    if (view->kind == MESSAGE_APPEND && view->append.n_entries > 1 && random_one_in(3)) {
        /* Cut in two, as for its size. */
        struct packet *head = copy_of(packet);
        uint32_t k = 1 + (uint32_t)random_below(view->append.n_entries - 1);
        for (uint32_t i = k; i < view->append.n_entries; i++) {
            log_item_release(head->items[i]);
        }
        head->view.append.n_entries = k;
        post(node, head);
        struct message_append *rest = &packet->view.append;
        rest->prev_index += k;
        rest->prev_term = packet->items[k - 1]->term;
        for (uint32_t i = 0; i < k; i++) {
            log_item_release(packet->items[i]);
        }
        rest->n_entries -= k;
        memmove(packet->items, packet->items + k, rest->n_entries * sizeof packet->items[0]);
    }
    post(node, packet);
}

static void deliver(struct packet *packet) {
    struct node *node = &world.nodes[packet->to_id - 1];
    if (node->engine != NULL && !world.is_cut[packet->from_id - 1][packet->to_id - 1]) {
        uint64_t heard_ms = raft_engine_heard_ms(node->engine);
        (void)raft_engine_receive(node->engine, packet->from_id, &packet->view, world.now_ms);
        if (world.has_promises && raft_engine_heard_ms(node->engine) != heard_ms) {
            node->promised_id = packet->from_id;
            node->promised_until_ms = world.now_ms + ELECTION_MS * 9 / 10;
        }
    }
    free_packet(packet);
}

/* --- Nodes. --- */

static const struct raft_engine_calls node_calls = {
    .store_vote = on_store_vote,
    .append = on_append,
    .install = on_install,
    .trim = on_trim,
    .send = on_send,
    .apply = on_apply,
    .restore = on_restore,
    .role_changed = on_role_changed,
    .configuration_changed = on_configuration_changed,
    .may_vote = on_may_vote,
    .is_leaderless = on_is_leaderless,
    .failed = on_failed,
};

/* A log that neither holds the snapshot's last entry nor begins behind it was to be reset. */
static void recover(struct node *node) {
    uint64_t index = node->snapshot.index;
    const struct log_item *item = disk_get(&node->log, index);
    if (index != 0 && (item == NULL || item->term != node->snapshot.term) &&
        node->log.first != index + 1) {
        disk_reset(&node->log, index + 1);
    }
}

static void start_node(struct node *node) {
    struct raft_engine_options options = {.self_id = node->id,
                                          .heartbeat_ms = HEARTBEAT_MS,
                                          .election_ms = ELECTION_MS,
                                          .seed = (unsigned)random_next(),
                                          .recent_bytes_max = 4000};
    recover(node);
    node->hash = node->snapshot.index != 0 ? node->snapshot.size : 0;
    /* It may have promised just before it went down. */
    node->promised_id = 0;
    node->promised_until_ms = world.has_promises ? world.now_ms + ELECTION_MS : 0;
    node->engine = raft_engine_create(&options, &node_calls, node);
    struct raft_engine_loaded loaded = {.term = node->term,
                                        .vote = node->vote,
                                        .snapshot = &node->snapshot,
                                        .first_index = node->log.first,
                                        .items = node->log.items,
                                        .n_items = node->log.n};
    char error[256];
    if (raft_engine_start(node->engine, &loaded, world.now_ms, error, sizeof error) != STATUS_OK) {
        violation("node %" PRIu64 " does not start: %s", node->id, error);
    }
    totals.restarts++;
}

/* Of what was being written a part is there, in order; the last write perhaps in part. */
static void crash_node(struct node *node) {
    raft_engine_destroy(node->engine);
    node->engine = NULL;
    bool is_lost = false;
    for (struct disk_op *op = node->ops, *next; op != NULL; op = next) {
        next = op->next;
        uint64_t what = is_lost ? 0 : random_below(3);
        if (what == 1) {
            carry_out(node, op, op->n, true);
        } else {
            if (what == 2) {
                carry_out(node, op, op->items != NULL ? random_below(op->n + 1) : 0, false);
            }
            is_lost = true;
        }
        free_op(op);
    }
    node->ops = NULL;
    node->ops_until_ms = 0;
    node->is_taking = false;
}

#endif
