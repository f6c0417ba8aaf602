#include "core/key_tree_node.h"

#include <assert.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "key_tree_head() swaps bytes");

/* Compares what follows the bytes that both are known to share. */
static int compare_after(struct bytes key, const struct record *record, size_t skip) {
    return bytes_compare(bytes_of(key.data + skip, key.size - skip),
                         bytes_of(record->bytes + skip, record->key_size - skip));
}

/* The first slot whose head is not below `head`. */
static unsigned first_head(const struct key_tree_node *node, uint32_t head) {
    /* All lines of the array are asked for at once, not one after the other. */
    for (unsigned i = 0; i < KEY_TREE_FAN; i += 64 / sizeof node->heads[0]) {
        __builtin_prefetch(&node->heads[i]);
    }
    unsigned low = 0;
    for (unsigned span = node->n; span > 0;) {
        unsigned half = span / 2;
        bool is_below = node->heads[low + half] < head;
        low = is_below ? low + half + 1 : low;
        span = is_below ? span - half - 1 : half;
    }
    return low;
}

/* The first slot at or after `low` whose head is above `head`; no head at or after `low` is below
 * it. */
static unsigned after_head(const struct key_tree_node *node, uint32_t head, unsigned low) {
    if (low == node->n || node->heads[low] != head) {
        return low;
    }
    if (low + 1 == node->n || node->heads[low + 1] != head) {
        return low + 1; /* as a rule */
    }
    return head == UINT32_MAX ? node->n : first_head(node, head + 1);
}

/* The key has the bytes that the node skips, which are not compared. */
static unsigned search_heads(const struct key_tree_node *node, struct bytes key, bool *out_equal) {
    uint32_t head = key_tree_head(key, node->skip);
    unsigned low = first_head(node, head);
    unsigned high = after_head(node, head, low);
    while (low < high) {
        unsigned middle = (low + high) / 2;
        int order = compare_after(key, node->records[middle], node->skip);
        if (order == 0) {
            *out_equal = true;
            return middle;
        }
        if (order > 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

unsigned key_tree_node_search(const struct key_tree_node *node, struct bytes key, bool *out_equal) {
    unsigned n = node->n;
    size_t skip = node->skip;
    *out_equal = false;
    if (key.size == 0) {
        return 0; /* below every key, and its data may be NULL */
    }
    if (skip > 0) {
        size_t shared = key.size < skip ? key.size : skip;
        int order = memcmp(key.data, node->records[0]->bytes, shared);
        if (order != 0) {
            return order < 0 ? 0 : n;
        }
        if (key.size < skip) {
            return 0;
        }
    }
    return search_heads(node, key, out_equal);
}

bool key_tree_leaf_find(const struct key_tree_node *node, struct bytes key, unsigned *out_index) {
    if (key.size < node->skip || key.size == 0) {
        return false;
    }
    /* The skipped bytes are not compared at first: without a slot that agrees in the others, the
     * key is not here whatever its first bytes are. */
    bool is_equal = false;
    unsigned index = search_heads(node, key, &is_equal);
    if (!is_equal || memcmp(key.data, node->records[index]->bytes, node->skip) != 0) {
        return false;
    }
    *out_index = index;
    return true;
}

struct record *key_tree_find(const struct key_tree_node *root, struct bytes key) {
    const struct key_tree_node *node = root;
    if (node == NULL) {
        return NULL;
    }
    while (node->height > 0) {
        node = key_tree_inner(node)->children[key_tree_node_child(node, key)];
    }
    unsigned index;
    return key_tree_leaf_find(node, key, &index) ? node->records[index] : NULL;
}

size_t key_tree_live(const struct key_tree_node *root) {
    if (root == NULL) {
        return 0;
    }
    if (root->height == 0) {
        return (size_t)__builtin_popcountll(key_tree_leaf(root)->live);
    }
    size_t live = 0;
    for (unsigned i = 0; i < root->n; i++) {
        live += key_tree_inner(root)->counts[i];
    }
    return live;
}

size_t key_tree_live_below(const struct key_tree_node *root, struct bytes key) {
    const struct key_tree_node *node = root;
    size_t live = 0;
    if (node == NULL) {
        return 0;
    }
    while (node->height > 0) {
        const struct key_tree_inner *inner = key_tree_inner(node);
        unsigned child = key_tree_node_child(node, key);
        for (unsigned i = 0; i < child; i++) {
            live += inner->counts[i];
        }
        node = inner->children[child];
    }
    bool equal;
    unsigned position = key_tree_node_search(node, key, &equal);
    uint64_t below = position == KEY_TREE_FAN ? UINT64_MAX : (UINT64_C(1) << position) - 1;
    return live + (size_t)__builtin_popcountll(key_tree_leaf(node)->live & below);
}

/* The first slot from `index` on that the cursor wants; n when there is none. */
static unsigned wanted_slot(const struct key_tree_node *node, unsigned index, bool live_only) {
    if (index >= node->n || !live_only) {
        return index < node->n ? index : node->n;
    }
    if (node->height == 0) {
        uint64_t live = key_tree_leaf(node)->live >> index;
        return live == 0 ? node->n : index + (unsigned)__builtin_ctzll(live);
    }
    while (index < node->n && key_tree_inner(node)->counts[index] == 0) {
        index++;
    }
    return index;
}

/* Moves to the first wanted slot at or after where the path points. */
static void cursor_settle(struct key_tree_cursor *cursor) {
    while (cursor->depth > 0) {
        unsigned level = cursor->depth - 1;
        const struct key_tree_node *node = cursor->path[level].node;
        unsigned index = wanted_slot(node, cursor->path[level].index, cursor->live_only);
        cursor->path[level].index = index;
        if (index == node->n) {
            cursor->depth--;
            if (cursor->depth > 0) {
                cursor->path[cursor->depth - 1].index++;
            }
            continue;
        }
        if (node->height == 0) {
            return;
        }
        cursor->path[cursor->depth].node = key_tree_inner(node)->children[index];
        cursor->path[cursor->depth].index = 0;
        cursor->depth++;
    }
}

void key_tree_seek(const struct key_tree_node *root, struct bytes key, bool live_only,
                   struct key_tree_cursor *out_cursor) {
    struct key_tree_cursor *cursor = out_cursor;
    const struct key_tree_node *node = root;
    cursor->live_only = live_only;
    cursor->depth = 0;
    while (node != NULL) {
        assert(cursor->depth < KEY_TREE_HEIGHT_MAX);
        bool equal;
        cursor->path[cursor->depth].node = node;
        cursor->path[cursor->depth].index = node->height == 0
                                                ? key_tree_node_search(node, key, &equal)
                                                : key_tree_node_child(node, key);
        unsigned index = cursor->path[cursor->depth].index;
        cursor->depth++;
        if (node->height == 0) {
            break;
        }
        node = key_tree_inner(node)->children[index];
    }
    cursor_settle(cursor);
}

struct record *key_tree_cursor_record(const struct key_tree_cursor *cursor) {
    if (cursor->depth == 0) {
        return NULL;
    }
    unsigned level = cursor->depth - 1;
    return cursor->path[level].node->records[cursor->path[level].index];
}

void key_tree_cursor_next(struct key_tree_cursor *cursor) {
    assert(cursor->depth > 0);
    cursor->path[cursor->depth - 1].index++;
    cursor_settle(cursor);
}

static void validate_leaf(const struct key_tree_leaf *leaf) {
    const struct key_tree_node *node = &leaf->node;
    for (unsigned i = 0; i < KEY_TREE_FAN; i++) {
        bool is_live = (leaf->live >> i & 1) != 0;
        assert(is_live == (i < node->n && !record_is_tombstone(node->records[i])));
    }
}

/* Returns the slots below. Nodes on the right edge, the root among them, may be less full. */
static size_t validate_node(const struct key_tree *tree, const struct key_tree_node *node,
                            bool is_right_edge) {
    assert(node->n > 0);
    assert(node->n <= KEY_TREE_FAN);
    assert(is_right_edge || node->n >= KEY_TREE_FILL_MIN);
    assert(node->epoch <= tree->epoch);
    for (unsigned i = 0; i < node->n; i++) {
        struct bytes key = record_stored_key(node->records[i]);
        assert(key.size >= node->skip);
        assert(memcmp(key.data, node->records[0]->bytes, node->skip) == 0);
        assert(node->heads[i] == key_tree_head(key, node->skip));
        assert(i == 0 || bytes_compare(record_stored_key(node->records[i - 1]), key) < 0);
    }
    if (node->height == 0) {
        validate_leaf(key_tree_leaf(node));
        return node->n;
    }
    const struct key_tree_inner *inner = key_tree_inner(node);
    size_t slots = 0;
    for (unsigned i = 0; i < node->n; i++) {
        const struct key_tree_node *child = inner->children[i];
        assert(child->height == node->height - 1);
        assert(child->records[0] == node->records[i]);
        assert(inner->counts[i] == key_tree_live(child));
        slots += validate_node(tree, child, is_right_edge && i + 1 == node->n);
        assert(i + 1 == node->n || bytes_compare(record_stored_key(child->records[child->n - 1]),
                                                 record_stored_key(node->records[i + 1])) < 0);
    }
    return slots;
}

void key_tree_validate(const struct key_tree *tree) {
    size_t slots = tree->root == NULL ? 0 : validate_node(tree, tree->root, true);
    assert(slots == tree->slots);
    assert(tree->root == NULL || tree->root->height == 0 || tree->root->n > 1);
    assert(tree->epoch_shared < tree->epoch);
    if (tree->epoch_shared == 0) {
        assert(tree->retired_first == NULL);
    }
    assert((tree->retired_first == NULL) == (tree->retired_last == NULL));
}
