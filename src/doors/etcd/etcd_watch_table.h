/*
 * The watches of one stream, found by their id. The watches belong to the caller; the table links
 * them.
 */
#ifndef LEASED_DOORS_ETCD_ETCD_WATCH_TABLE_H
#define LEASED_DOORS_ETCD_ETCD_WATCH_TABLE_H

#include "base/keyed_hash.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct etcd_watch_node {
    int64_t id;
    struct etcd_watch_node *next; /* in the same bucket */
};

struct etcd_watch_table {
    const struct hash_key *key;
    struct etcd_watch_node **buckets;
    size_t n_buckets; /* a power of two, or 0 */
    size_t count;
};

/* The key outlives the table. */
void etcd_watch_table_init(struct etcd_watch_table *table, const struct hash_key *key);
/* Leaves the watches alone. */
void etcd_watch_table_clear(struct etcd_watch_table *table);
/* False when memory is out. The id must be new. */
bool etcd_watch_table_add(struct etcd_watch_table *table, struct etcd_watch_node *node);
/* NULL: no such watch. */
struct etcd_watch_node *etcd_watch_table_find(const struct etcd_watch_table *table, int64_t id);
void etcd_watch_table_remove(struct etcd_watch_table *table, struct etcd_watch_node *node);

#endif
