#include "doors/zookeeper/zk_tree_rules.h"

#include "base/keyed_hash.h"
#include "doors/zookeeper/zk_keys.h"
#include "doors/zookeeper/zk_rules.h"

void zk_tree_init(struct zk_tree *tree, struct rule_run *run) {
    *tree = (struct zk_tree){.run = run};
}

/* --- Loading. --- */

/* The revision is part of the key, so that nobody can choose paths beforehand that meet in one
 * bucket. Nothing but time depends on it. */
static uint64_t hash_of(const struct zk_tree *tree, struct bytes path) {
    struct hash_key key = hash_key_fixed;
    key.words[0] ^= (uint64_t)rule_revision(tree->run);
    return keyed_hash_bytes(&key, path);
}

static void load(struct zk_tree *tree, struct zk_tree_node *node) {
    struct arena *arena = rule_arena(tree->run);
    const struct record *record =
        rule_get(tree->run, KEY_SPACE_ZOOKEEPER, zk_key_node(arena, node->path));
    node->existed = record != NULL && zk_node_decode(record, &node->node);
    node->exists = node->existed;
    node->n_children_before = node->exists ? -1 : 0;
    if (!node->exists) {
        return;
    }
    record = rule_get(tree->run, KEY_SPACE_ZOOKEEPER, zk_key_children(arena, node->path));
    node->children_existed =
        record != NULL && zk_children_decode(record_value(record), &node->children);
}

static void append(struct zk_tree *tree, struct zk_tree_node *node) {
    node->previous = tree->last;
    node->next = NULL;
    *(tree->last == NULL ? &tree->first : &tree->last->next) = node;
    tree->last = node;
}

static void take_out(struct zk_tree *tree, struct zk_tree_node *node) {
    *(node->previous == NULL ? &tree->first : &node->previous->next) = node->next;
    *(node->next == NULL ? &tree->last : &node->next->previous) = node->previous;
}

struct zk_tree_node *zk_tree_find(struct zk_tree *tree, struct bytes path) {
    uint64_t hash = hash_of(tree, path);
    struct zk_tree_node **bucket = &tree->buckets[hash % ZK_TREE_BUCKETS];
    for (struct zk_tree_node *node = *bucket; node != NULL; node = node->next_in_bucket) {
        if (node->hash == hash && bytes_equal(node->path, path)) {
            return node;
        }
    }
    struct zk_tree_node *node = arena_calloc(rule_arena(tree->run), 1, sizeof *node);
    node->path = path;
    node->hash = hash;
    load(tree, node);
    node->next_in_bucket = *bucket;
    *bucket = node;
    append(tree, node);
    return node;
}

int64_t zk_tree_n_children(struct zk_tree *tree, struct zk_tree_node *node) {
    if (node->n_children_before < 0) {
        struct bytes begin;
        struct bytes end;
        zk_key_children_range(rule_arena(tree->run), node->path, &begin, &end);
        node->n_children_before = (int64_t)rule_count(tree->run, KEY_SPACE_ZOOKEEPER, begin, end);
    }
    return node->n_children_before + node->n_children_added;
}

/* --- Changing. --- */

void zk_tree_changed(struct zk_tree *tree, struct zk_tree_node *node) {
    node->is_changed = true;
    take_out(tree, node);
    append(tree, node);
}

void zk_tree_create(struct zk_tree *tree, struct zk_tree_node *node, struct zk_tree_node *parent,
                    const struct zk_node *content) {
    node->exists = true;
    node->is_new = true;
    zk_tree_changed(tree, node);
    node->node = *content;
    node->node.czxid = rule_revision(tree->run);
    node->node.mzxid = node->node.czxid;
    node->node.ctime_ms = rule_wall_ms(tree->run);
    node->node.mtime_ms = node->node.ctime_ms;
    /* All that was below it has been deleted before. */
    node->children = (struct zk_children){0};
    node->n_children_before = 0;
    node->n_children_added = 0;
    node->children_changed = false;
    node->rearms_ttl = content->flags & ZK_NODE_TTL;
    parent->children.creates++;
    parent->children.pzxid = node->node.czxid;
    parent->children_changed = true;
    parent->n_children_added++;
    parent->wants_sweep = false;
}

/* Containers that had children, and nodes whose TTL has passed, go when they are empty. */
static bool goes_when_empty(const struct zk_node *node) {
    return node->flags & ZK_NODE_CONTAINER || (node->flags & ZK_NODE_TTL && node->ttl_lease == 0);
}

static void look_whether_empty(struct zk_tree *tree, struct zk_tree_node *parent) {
    parent->children.pzxid = rule_revision(tree->run);
    parent->children_changed = true;
    parent->wants_sweep = goes_when_empty(&parent->node) && zk_tree_n_children(tree, parent) == 0;
}

void zk_tree_delete(struct zk_tree *tree, struct zk_tree_node *node, struct zk_tree_node *parent) {
    if (node->node.flags & ZK_NODE_TTL && node->node.ttl_lease != 0) {
        node->ttl_lease_over = node->node.ttl_lease;
    }
    node->exists = false;
    node->is_new = false;
    zk_tree_changed(tree, node);
    node->children_changed = false;
    node->rearms_ttl = false;
    node->wants_sweep = false;
    parent->n_children_added--;
    look_whether_empty(tree, parent);
}

void zk_tree_lost_child(struct zk_tree *tree, struct zk_tree_node *parent) {
    if (parent->exists) {
        look_whether_empty(tree, parent);
    }
}

/* --- Writing. --- */

static struct bytes request_of_timer(struct zk_tree *tree, const struct zk_tree_node *node) {
    struct arena *arena = rule_arena(tree->run);
    struct buffer request;
    buffer_init(&request);
    buffer_put_zigzag(&request, node->node.czxid);
    buffer_put_bytes(&request, node->path);
    struct bytes bytes = bytes_of(arena_copy(arena, request.data, request.size), request.size);
    buffer_clear(&request);
    return bytes;
}

/* A lease whose end looks at the node. A path that is too long for a hook has none: such a node
 * stays until a client deletes it. */
static enum status grant_timer(struct zk_tree *tree, const struct zk_tree_node *node,
                               int64_t ttl_ms, int64_t *out_lease) {
    const struct rule_lease lease = {.ttl_ms = ttl_ms};
    struct bytes request = request_of_timer(tree, node);
    *out_lease = 0;
    if (request.size > RULE_HOOK_REQUEST_SIZE_MAX) {
        return STATUS_OK;
    }
    enum status status = rule_lease_grant(tree->run, &lease, out_lease);
    return status != STATUS_OK ? status
                               : rule_on_lease_end(tree->run, *out_lease, ZK_RULE_TIMER, request);
}

/* A node whose TTL has passed goes soon after its last child. */
static int64_t sweep_ms(const struct zk_node *node) {
    return node->flags & ZK_NODE_CONTAINER && node->ttl_ms > 0 ? node->ttl_ms : 1;
}

static enum status arm(struct zk_tree *tree, struct zk_tree_node *node) {
    if (node->rearms_ttl && node->node.ttl_lease != 0 &&
        rule_lease_set_ttl(tree->run, node->node.ttl_lease, node->node.ttl_ms) == STATUS_OK) {
        return STATUS_OK;
    }
    if (node->rearms_ttl) {
        return grant_timer(tree, node, node->node.ttl_ms, &node->node.ttl_lease);
    }
    struct lease_facts facts;
    if (node->wants_sweep && !rule_lease_find(tree->run, node->children.sweep_lease, &facts)) {
        return grant_timer(tree, node, sweep_ms(&node->node), &node->children.sweep_lease);
    }
    return STATUS_OK;
}

static void put_node(struct zk_tree *tree, const struct zk_tree_node *node, struct bytes key) {
    struct buffer value;
    buffer_init(&value);
    zk_node_encode(&value, &node->node);
    (void)rule_put(tree->run, KEY_SPACE_ZOOKEEPER, key, bytes_of(value.data, value.size),
                   node->node.owner);
    buffer_clear(&value);
}

static void put_children(struct zk_tree *tree, const struct zk_tree_node *node, struct bytes key) {
    struct buffer value;
    buffer_init(&value);
    zk_children_encode(&value, &node->children);
    (void)rule_put(tree->run, KEY_SPACE_ZOOKEEPER, key, bytes_of(value.data, value.size), 0);
    buffer_clear(&value);
}

static enum status flush_node(struct zk_tree *tree, struct zk_tree_node *node) {
    struct arena *arena = rule_arena(tree->run);
    struct bytes key = zk_key_node(arena, node->path);
    struct bytes children_key = zk_key_children(arena, node->path);
    bool was_deleted = node->existed && (!node->exists || node->is_new);
    if (node->ttl_lease_over != 0) {
        (void)rule_lease_end(tree->run, node->ttl_lease_over, LEASE_END_REVOKED);
    }
    if (node->is_changed && was_deleted) {
        (void)rule_delete(tree->run, KEY_SPACE_ZOOKEEPER, key);
        if (node->children_existed) {
            (void)rule_delete(tree->run, KEY_SPACE_ZOOKEEPER, children_key);
        }
    }
    if (!node->exists) {
        return STATUS_OK;
    }
    enum status status = arm(tree, node);
    if (node->is_changed) {
        put_node(tree, node, key);
    }
    if (node->children_changed) {
        put_children(tree, node, children_key);
    }
    return status;
}

enum status zk_tree_flush(struct zk_tree *tree) {
    for (struct zk_tree_node *node = tree->first; node != NULL; node = node->next) {
        enum status status = flush_node(tree, node);
        if (status != STATUS_OK) {
            return status;
        }
    }
    return STATUS_OK;
}
