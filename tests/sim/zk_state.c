#include "zk_state.h"

#include "doors/zookeeper/zk_keys.h"
#include "doors/zookeeper/zk_model.h"
#include "node.h"
#include "world.h"

#include "core/state_view.h"

const char *const zk_state_parents[ZK_STATE_PARENTS] = {"/x", "/y", "/twins", "/twins2", "/timed"};

struct reading {
    const struct node *node;
    const struct key_store *keys;
    const struct lease_table *leases;
    struct arena arena;
    size_t n_ephemerals;
};

static bool check_node(void *context, const struct record *record) {
    struct reading *reading = context;
    uint8_t memory[ZK_SESSION_KEY_SIZE];
    struct zk_node node;
    struct bytes path;
    if (!zk_key_path(record_key(record), ZK_KEY_NODE, &path) || !zk_node_decode(record, &node)) {
        check_failed("zookeeper", "%s has a node that cannot be read", reading->node->name);
    }
    reading->n_ephemerals += node.owner != 0;
    if (node.owner != 0 && key_store_find(reading->keys, KEY_SPACE_ZOOKEEPER,
                                          zk_key_session(memory, node.owner)) == NULL) {
        check_failed("zookeeper", "on %s %.*s is left of a session that has ended",
                     reading->node->name, (int)path.size, (const char *)path.data);
    }
    struct lease_facts ignored;
    if (node.flags & ZK_NODE_TTL && !lease_table_find(reading->leases, node.ttl_lease, &ignored)) {
        check_failed("zookeeper", "on %s %.*s is left after its time", reading->node->name,
                     (int)path.size, (const char *)path.data);
    }
    return true;
}

static size_t check_children(struct reading *reading, const char *parent) {
    struct bytes begin_key;
    struct bytes end_key;
    reading->n_ephemerals = 0;
    zk_key_children_range(&reading->arena, bytes_from_text(parent), &begin_key, &end_key);
    key_store_visit(reading->keys, KEY_SPACE_ZOOKEEPER, begin_key, end_key, check_node, reading);
    return reading->n_ephemerals;
}

size_t zk_state_check(const struct node *node) {
    struct reading reading = {.node = node};
    size_t counts[ZK_STATE_PARENTS];
    size_t n = 0;
    if (!node->is_up || node->service == NULL) {
        return 0;
    }
    reading.keys = state_view_keys(service_view(node->service));
    reading.leases = state_view_leases(service_view(node->service));
    arena_init(&reading.arena);
    for (size_t i = 0; i < ZK_STATE_PARENTS; i++) {
        counts[i] = check_children(&reading, zk_state_parents[i]);
        n += counts[i];
    }
    arena_clear(&reading.arena);
    if (counts[ZK_STATE_LOCKS] != counts[ZK_STATE_LOCKS + 1]) {
        check_failed("zookeeper", "on %s there are %zu nodes of sessions and %zu of their twins",
                     node->name, counts[ZK_STATE_LOCKS], counts[ZK_STATE_LOCKS + 1]);
    }
    return n;
}
