#include "doors/etcd/etcd_watch_table.h"

#include <assert.h>
#include <stdlib.h>

enum { BUCKETS_MIN = 8 };

void etcd_watch_table_init(struct etcd_watch_table *table, const struct hash_key *key) {
    *table = (struct etcd_watch_table){.key = key};
}

void etcd_watch_table_clear(struct etcd_watch_table *table) {
    free(table->buckets);
    etcd_watch_table_init(table, table->key);
}

/* Ids are chosen by clients if they like: no choice makes one long bucket out of many. */
static size_t bucket_of(const struct etcd_watch_table *table, int64_t id, size_t n_buckets) {
    return (size_t)keyed_hash_number(table->key, (uint64_t)id) & (n_buckets - 1);
}

static void link_node(const struct etcd_watch_table *table, struct etcd_watch_node **buckets,
                      size_t n_buckets, struct etcd_watch_node *node) {
    size_t bucket = bucket_of(table, node->id, n_buckets);
    node->next = buckets[bucket];
    buckets[bucket] = node;
}

static bool grow(struct etcd_watch_table *table) {
    size_t n_buckets = table->n_buckets == 0 ? BUCKETS_MIN : table->n_buckets * 2;
    struct etcd_watch_node **buckets = calloc(n_buckets, sizeof *buckets);
    if (buckets == NULL) {
        return false;
    }
    for (size_t i = 0; i < table->n_buckets; i++) {
        struct etcd_watch_node *node = table->buckets[i];
        while (node != NULL) {
            struct etcd_watch_node *next = node->next;
            link_node(table, buckets, n_buckets, node);
            node = next;
        }
    }
    free(table->buckets);
    table->buckets = buckets;
    table->n_buckets = n_buckets;
    return true;
}

bool etcd_watch_table_add(struct etcd_watch_table *table, struct etcd_watch_node *node) {
    assert(etcd_watch_table_find(table, node->id) == NULL);
    if (table->count >= table->n_buckets && !grow(table)) {
        return false;
    }
    link_node(table, table->buckets, table->n_buckets, node);
    table->count++;
    return true;
}

struct etcd_watch_node *etcd_watch_table_find(const struct etcd_watch_table *table, int64_t id) {
    if (table->n_buckets == 0) {
        return NULL;
    }
    struct etcd_watch_node *node = table->buckets[bucket_of(table, id, table->n_buckets)];
    while (node != NULL && node->id != id) {
        node = node->next;
    }
    return node;
}

void etcd_watch_table_remove(struct etcd_watch_table *table, struct etcd_watch_node *node) {
    struct etcd_watch_node **at = &table->buckets[bucket_of(table, node->id, table->n_buckets)];
    while (*at != node) {
        assert(*at != NULL);
        at = &(*at)->next;
    }
    *at = node->next;
    table->count--;
}
