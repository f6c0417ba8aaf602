/*
 * What a node of the key tree looks like, for the files of the key tree only.
 *
 * Leaf and inner node search alike: both have an ordered array of records, in an inner node the
 * first record of each child. Keys of one node share their first `skip` bytes; `heads` holds the
 * next four bytes of each as a big-endian number (zeros after a key's end), so that most searches
 * compare numbers and touch two records a node instead of six.
 */
#ifndef LEASED_CORE_KEY_TREE_NODE_H
#define LEASED_CORE_KEY_TREE_NODE_H

#include "core/key_tree.h"

enum {
    KEY_TREE_FAN = 64, /* one bit each in a leaf's `live` */
    KEY_TREE_FILL_MIN = KEY_TREE_FAN / 4
};

struct key_tree_node {
    uint64_t epoch; /* in which it was made; once retired, in which it was retired */
    struct key_tree_node *next_retired;
    uint16_t n;
    uint16_t height; /* 0: a leaf */
    uint32_t skip;   /* at most what all keys share; 0 in a node of one */
    uint32_t heads[KEY_TREE_FAN];
    struct record *records[KEY_TREE_FAN];
};

struct key_tree_leaf {
    struct key_tree_node node;
    uint64_t live; /* bit i: records[i] is no tombstone */
};

struct key_tree_inner {
    struct key_tree_node node;
    struct key_tree_node *children[KEY_TREE_FAN];
    size_t counts[KEY_TREE_FAN]; /* live keys of each child */
};

static inline struct key_tree_leaf *key_tree_leaf(const struct key_tree_node *node) {
    return (struct key_tree_leaf *)(uintptr_t)node;
}

static inline struct key_tree_inner *key_tree_inner(const struct key_tree_node *node) {
    return (struct key_tree_inner *)(uintptr_t)node;
}

static inline size_t key_tree_node_size(unsigned height) {
    return height == 0 ? sizeof(struct key_tree_leaf) : sizeof(struct key_tree_inner);
}

/* The four bytes after `skip`. The key has at least `skip` bytes. */
static inline uint32_t key_tree_head(struct bytes key, size_t skip) {
    uint32_t head = 0;
    size_t left = key.size - skip;
    const uint8_t *data = key.data + skip;
    if (left >= sizeof head) {
        memcpy(&head, data, sizeof head);
        return __builtin_bswap32(head);
    }
    for (size_t i = 0; i < left; i++) {
        head |= (uint32_t)data[i] << (24 - 8 * i);
    }
    return head;
}

/* The first slot whose key is not below `key`, and whether it is that very key. */
unsigned key_tree_node_search(const struct key_tree_node *node, struct bytes key, bool *out_equal);

/* The slot of a key in a leaf, if it has one: cheaper than searching for its place. */
bool key_tree_leaf_find(const struct key_tree_node *node, struct bytes key, unsigned *out_index);

/* The child in which `key` is or would be. */
static inline unsigned key_tree_node_child(const struct key_tree_node *node, struct bytes key) {
    bool equal;
    unsigned position = key_tree_node_search(node, key, &equal);
    return equal || position == 0 ? position : position - 1;
}

#endif
