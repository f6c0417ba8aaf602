/*
 * A table of nodes that are members of other structs, found by a hash that the caller computes with
 * a secret key. Grows with its nodes.
 */
#ifndef LEASED_DOORS_ZOOKEEPER_ZK_HASH_H
#define LEASED_DOORS_ZOOKEEPER_ZK_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct zk_hash_node {
    struct zk_hash_node *next;
    uint64_t hash;
};

struct zk_hash {
    struct zk_hash_node **buckets;
    size_t n_buckets; /* a power of two, or 0 */
    size_t n;
};

/* Zeroed is empty. */
void zk_hash_clear(struct zk_hash *table);
/* Aborts when memory is out. */
void zk_hash_add(struct zk_hash *table, struct zk_hash_node *node, uint64_t hash);
/* The node is in the table. */
void zk_hash_remove(struct zk_hash *table, struct zk_hash_node *node);
/* The first node that may have this hash; more follow by `next`, and some have other hashes. */
struct zk_hash_node *zk_hash_first(const struct zk_hash *table, uint64_t hash);

#endif
