#include "core/key_tree_node.h"

#include <assert.h>
#include <stdlib.h>

/* --- Nodes: making, sharing, retiring. --- */

static struct key_tree_node *node_create(struct key_tree *tree, unsigned height) {
    assert(height < KEY_TREE_HEIGHT_MAX);
    struct key_tree_node *node = malloc(key_tree_node_size(height));
    if (node == NULL) {
        abort();
    }
    node->epoch = tree->epoch;
    node->next_retired = NULL;
    node->n = 0;
    node->height = (uint16_t)height;
    node->skip = 0;
    if (height == 0) {
        key_tree_leaf(node)->live = 0;
    }
    tree->bytes += key_tree_node_size(height);
    return node;
}

static void node_free(struct key_tree *tree, struct key_tree_node *node) {
    tree->bytes -= key_tree_node_size(node->height);
    free(node);
}

/* The tree needs the node no more; a view may. */
static void node_retire(struct key_tree *tree, struct key_tree_node *node) {
    if (node->epoch > tree->epoch_shared) {
        node_free(tree, node);
        return;
    }
    node->epoch = tree->epoch;
    node->next_retired = NULL;
    if (tree->retired_last == NULL) {
        tree->retired_first = node;
    } else {
        tree->retired_last->next_retired = node;
    }
    tree->retired_last = node;
}

/* The node itself when no view shares it, else a copy that takes its place. */
static struct key_tree_node *node_own(struct key_tree *tree, struct key_tree_node *node) {
    if (node->epoch > tree->epoch_shared) {
        return node;
    }
    struct key_tree_node *copy = node_create(tree, node->height);
    memcpy(copy, node, key_tree_node_size(node->height));
    copy->epoch = tree->epoch;
    node_retire(tree, node);
    return copy;
}

/* --- Nodes: their slots. --- */

static uint32_t shared_size(const struct record *a, const struct record *b) {
    uint32_t limit = a->key_size < b->key_size ? a->key_size : b->key_size;
    uint32_t size = 0;
    while (size < limit && a->bytes[size] == b->bytes[size]) {
        size++;
    }
    return size;
}

/* What all keys share is what the first and the last share. */
static uint32_t node_shared_size(const struct key_tree_node *node) {
    return node->n < 2 ? 0 : shared_size(node->records[0], node->records[node->n - 1]);
}

static void node_reframe(struct key_tree_node *node) {
    node->skip = node_shared_size(node);
    for (unsigned i = 0; i < node->n; i++) {
        node->heads[i] = key_tree_head(record_stored_key(node->records[i]), node->skip);
    }
}

/* Heads distinguish more, the more of the shared bytes is skipped; they are right in any case. */
static void node_tighten(struct key_tree_node *node) {
    if (node->n < 2 || node_shared_size(node) > node->skip) {
        node_reframe(node);
    }
}

/* Writes the record of a slot that is counted in `n` already. */
static void node_place(struct key_tree_node *node, unsigned index, struct record *record) {
    node->records[index] = record;
    if (node->n == 1) {
        node_reframe(node);
        return;
    }
    const struct record *other = node->records[index == 0 ? 1 : 0];
    if (record->key_size < node->skip || memcmp(record->bytes, other->bytes, node->skip) != 0) {
        node_reframe(node);
        return;
    }
    node->heads[index] = key_tree_head(record_stored_key(record), node->skip);
}

/* Moves `n` slots between nodes of equal height, or within one. Counts and frames are the
 * caller's. */
static void node_move(struct key_tree_node *to, unsigned to_index, const struct key_tree_node *from,
                      unsigned from_index, unsigned n) {
    memmove(to->heads + to_index, from->heads + from_index, n * sizeof to->heads[0]);
    memmove(to->records + to_index, from->records + from_index, n * sizeof(to->records[0]));
    if (to->height > 0) {
        struct key_tree_inner *inner_to = key_tree_inner(to);
        const struct key_tree_inner *inner_from = key_tree_inner(from);
        memmove(inner_to->children + to_index, inner_from->children + from_index,
                n * sizeof(inner_to->children[0]));
        memmove(inner_to->counts + to_index, inner_from->counts + from_index,
                n * sizeof inner_to->counts[0]);
    }
}

/* The lowest `n` bits. */
static uint64_t low_bits(unsigned n) {
    return n >= 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1;
}

/* Makes an empty slot; the node must not be full. */
static void node_open_slot(struct key_tree_node *node, unsigned index) {
    assert(node->n < KEY_TREE_FAN);
    node_move(node, index + 1, node, index, node->n - index);
    if (node->height == 0) {
        uint64_t *live = &key_tree_leaf(node)->live;
        *live = (*live & low_bits(index)) | ((*live & ~low_bits(index)) << 1);
    }
    node->n++;
}

static void node_close_slot(struct key_tree_node *node, unsigned index) {
    node_move(node, index, node, index + 1, node->n - index - 1);
    if (node->height == 0) {
        uint64_t *live = &key_tree_leaf(node)->live;
        *live = (*live & low_bits(index)) | ((*live >> 1) & ~low_bits(index));
    }
    node->n--;
    if (node->n == 1) {
        node_reframe(node);
    }
}

/* Moves everything from `index` on to an empty node. */
static void node_move_tail(struct key_tree_node *from, unsigned index, struct key_tree_node *to) {
    node_move(to, 0, from, index, from->n - index);
    if (from->height == 0) {
        key_tree_leaf(to)->live = index < 64 ? key_tree_leaf(from)->live >> index : 0;
        key_tree_leaf(from)->live &= low_bits(index);
    }
    to->skip = from->skip;
    to->n = (uint16_t)(from->n - index);
    from->n = (uint16_t)index;
}

/* Moves everything of `right` to the end of `left`. */
static void node_move_all(struct key_tree_node *left, struct key_tree_node *right) {
    assert(left->n + right->n <= KEY_TREE_FAN);
    node_move(left, left->n, right, 0, right->n);
    if (left->height == 0 && right->n > 0) {
        key_tree_leaf(left)->live |= key_tree_leaf(right)->live << left->n;
        key_tree_leaf(right)->live = 0;
    }
    left->n = (uint16_t)(left->n + right->n);
    right->n = 0;
    node_reframe(left);
}

/* Notes what the child at `index` has become. */
static void inner_refresh(struct key_tree_inner *inner, unsigned index) {
    const struct key_tree_node *child = inner->children[index];
    inner->counts[index] = key_tree_live(child);
    if (inner->node.records[index] != child->records[0]) {
        node_place(&inner->node, index, child->records[0]);
    }
}

/* --- Setting. --- */

struct change {
    struct key_tree *tree;
    struct record *record;
    struct record *replaced;
    struct key_tree_node *split; /* the new right neighbour of the node just changed, or NULL */
    bool is_right_edge;
    int live_change;
};

/* Opens a slot at `index`, splitting a full node; returns the node that has the slot and its index
 * there. Keys that only ever grow fill nodes to the brim: at the right edge the new node starts
 * with nothing but the new slot. */
static struct key_tree_node *node_make_room(struct change *change, struct key_tree_node *node,
                                            unsigned *index) {
    if (node->n == KEY_TREE_FAN) {
        bool is_appending = change->is_right_edge && *index == node->n;
        unsigned at = is_appending ? KEY_TREE_FAN : KEY_TREE_FAN / 2;
        struct key_tree_node *right = node_create(change->tree, node->height);
        node_move_tail(node, at, right);
        node_tighten(node);
        node_tighten(right);
        change->split = right;
        if (is_appending || *index > at) {
            *index -= at;
            node = right;
        }
    }
    node_open_slot(node, *index);
    return node;
}

/* Skips more where the node has doubled, so that the cost stays constant a slot. */
static void node_after_insert(struct key_tree_node *node) {
    if ((node->n & (node->n - 1)) == 0) {
        node_tighten(node);
    }
}

static void leaf_set(struct change *change, struct key_tree_node *node) {
    bool is_live = !record_is_tombstone(change->record);
    struct bytes key = record_stored_key(change->record);
    unsigned index;
    if (!key_tree_leaf_find(node, key, &index)) {
        bool equal;
        index = key_tree_node_search(node, key, &equal);
        node = node_make_room(change, node, &index);
        node_place(node, index, change->record);
        node_after_insert(node);
        change->tree->slots++;
    } else {
        change->replaced = node->records[index];
        node->records[index] = change->record;
        change->live_change -= !record_is_tombstone(change->replaced);
    }
    uint64_t bit = UINT64_C(1) << index;
    uint64_t *live = &key_tree_leaf(node)->live;
    *live = is_live ? *live | bit : *live & ~bit;
    change->live_change += is_live;
}

static void inner_insert(struct change *change, struct key_tree_node *node, unsigned index,
                         struct key_tree_node *child) {
    node = node_make_room(change, node, &index);
    struct key_tree_inner *inner = key_tree_inner(node);
    inner->children[index] = child;
    inner->counts[index] = key_tree_live(child);
    node_place(node, index, child->records[0]);
    node_after_insert(node);
}

/* Returns the node that now stands where `node` stood. */
static struct key_tree_node *node_set(struct change *change, struct key_tree_node *node) {
    node = node_own(change->tree, node);
    if (node->height == 0) {
        leaf_set(change, node);
        return node;
    }
    struct key_tree_inner *inner = key_tree_inner(node);
    unsigned index = key_tree_node_child(node, record_stored_key(change->record));
    bool is_right_edge = change->is_right_edge;
    change->is_right_edge = is_right_edge && index + 1 == node->n;
    inner->children[index] = node_set(change, inner->children[index]);
    change->is_right_edge = is_right_edge;
    struct key_tree_node *split = change->split;
    if (split == NULL) {
        inner->counts[index] += (size_t)change->live_change;
        if (node->records[index] != inner->children[index]->records[0]) {
            node_place(node, index, inner->children[index]->records[0]);
        }
        return node;
    }
    inner_refresh(inner, index);
    change->split = NULL;
    inner_insert(change, node, index + 1, split);
    return node;
}

struct record *key_tree_set(struct key_tree *tree, struct record *record) {
    struct change change = {.tree = tree, .record = record, .is_right_edge = true};
    if (tree->root == NULL) {
        tree->root = node_create(tree, 0);
    }
    tree->root = node_set(&change, tree->root);
    if (change.split != NULL) {
        struct key_tree_node *root = node_create(tree, tree->root->height + 1U);
        struct key_tree_node *left = tree->root;
        struct change grow = {.tree = tree};
        inner_insert(&grow, root, 0, left);
        inner_insert(&grow, root, 1, change.split);
        tree->root = root;
    }
    return change.replaced;
}

/* --- Removing. --- */

/* Brings a child that has become too small together with a neighbour. */
static void inner_rebalance(struct key_tree *tree, struct key_tree_inner *inner, unsigned index) {
    if (inner->node.n == 1) {
        /* Only at the right edge: an empty child goes, a small one may stay. */
        if (inner->children[0]->n == 0) {
            node_retire(tree, inner->children[0]);
            node_close_slot(&inner->node, 0);
        } else {
            inner_refresh(inner, 0);
        }
        return;
    }
    unsigned left_index = index == 0 ? 0 : index - 1;
    struct key_tree_node *left = node_own(tree, inner->children[left_index]);
    struct key_tree_node *right = node_own(tree, inner->children[left_index + 1]);
    inner->children[left_index] = left;
    inner->children[left_index + 1] = right;
    unsigned total = left->n + (unsigned)right->n;
    if (total <= KEY_TREE_FAN) {
        node_move_all(left, right);
        node_retire(tree, right);
        node_close_slot(&inner->node, left_index + 1);
        inner_refresh(inner, left_index);
        return;
    }
    unsigned half = total / 2;
    if (left->n > half) {
        struct key_tree_node *tail = node_create(tree, left->height);
        node_move_tail(left, half, tail);
        node_move_all(tail, right);
        node_tighten(left);
        node_retire(tree, right);
        inner->children[left_index + 1] = tail;
    } else {
        struct key_tree_node *tail = node_create(tree, left->height);
        node_move_tail(right, half - left->n, tail);
        node_move_all(left, right);
        node_tighten(tail);
        node_retire(tree, right);
        inner->children[left_index + 1] = tail;
    }
    inner_refresh(inner, left_index);
    inner_refresh(inner, left_index + 1);
}

static struct key_tree_node *node_remove(struct key_tree *tree, struct key_tree_node *node,
                                         struct bytes key) {
    node = node_own(tree, node);
    if (node->height == 0) {
        bool equal;
        unsigned index = key_tree_node_search(node, key, &equal);
        assert(equal);
        node_close_slot(node, index);
        return node;
    }
    struct key_tree_inner *inner = key_tree_inner(node);
    unsigned index = key_tree_node_child(node, key);
    struct key_tree_node *child = node_remove(tree, inner->children[index], key);
    inner->children[index] = child;
    if (child->n < KEY_TREE_FILL_MIN) {
        inner_rebalance(tree, inner, index);
    } else {
        inner_refresh(inner, index);
    }
    return node;
}

void key_tree_remove(struct key_tree *tree, struct bytes key) {
    assert(tree->root != NULL);
    tree->root = node_remove(tree, tree->root, key);
    tree->slots--;
    while (tree->root != NULL && tree->root->n <= 1) {
        struct key_tree_node *root = tree->root;
        if (root->height == 0 && root->n == 1) {
            return;
        }
        tree->root = root->n == 0 ? NULL : key_tree_inner(root)->children[0];
        node_retire(tree, root);
    }
}

/* --- Life and views. --- */

void key_tree_init(struct key_tree *tree) {
    *tree = (struct key_tree){.epoch = 1};
}

static void node_free_all(struct key_tree *tree, struct key_tree_node *node) {
    if (node->height > 0) {
        for (unsigned i = 0; i < node->n; i++) {
            node_free_all(tree, key_tree_inner(node)->children[i]);
        }
    }
    node_free(tree, node);
}

void key_tree_clear(struct key_tree *tree) {
    assert(tree->epoch_shared == 0);
    if (tree->root != NULL) {
        node_free_all(tree, tree->root);
    }
    assert(tree->bytes == 0);
    key_tree_init(tree);
}

uint64_t key_tree_share(struct key_tree *tree) {
    tree->epoch_shared = tree->epoch;
    tree->epoch++;
    return tree->epoch_shared;
}

void key_tree_unshare(struct key_tree *tree, uint64_t epoch_oldest, uint64_t epoch_newest) {
    assert(epoch_oldest <= epoch_newest);
    tree->epoch_shared = epoch_newest;
    while (tree->retired_first != NULL) {
        struct key_tree_node *node = tree->retired_first;
        /* Views opened in the epoch of its retirement or later never met it. */
        if (epoch_oldest != 0 && node->epoch > epoch_oldest) {
            return;
        }
        tree->retired_first = node->next_retired;
        node_free(tree, node);
    }
    tree->retired_last = NULL;
}
