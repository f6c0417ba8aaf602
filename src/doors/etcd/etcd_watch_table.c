#include "doors/etcd/etcd_watch_table.h"

#include <assert.h>
#include <stdlib.h>

enum { BUCKETS_MIN = 8 };

void etcd_watch_table_init(struct etcd_watch_table *table) {
    *table = (struct etcd_watch_table){0};
}

void etcd_watch_table_clear(struct etcd_watch_table *table) {
    free(table->buckets);
    etcd_watch_table_init(table);
}

/* Ids are chosen by clients if they like: spread them, so that no choice makes one long bucket
 * out of many by accident. */
static size_t bucket_of(int64_t id, size_t n_buckets) {
    uint64_t spread = (uint64_t)id * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(spread >> 32) & (n_buckets - 1);
}

static void link_node(struct etcd_watch_node **buckets, size_t n_buckets,
                      struct etcd_watch_node *node) {
    size_t bucket = bucket_of(node->id, n_buckets);
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
            link_node(buckets, n_buckets, node);
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
    link_node(table->buckets, table->n_buckets, node);
    table->count++;
    return true;
}

struct etcd_watch_node *etcd_watch_table_find(const struct etcd_watch_table *table, int64_t id) {
    if (table->n_buckets == 0) {
        return NULL;
    }
    struct etcd_watch_node *node = table->buckets[bucket_of(id, table->n_buckets)];
    while (node != NULL && node->id != id) {
        node = node->next;
    }
    return node;
}

void etcd_watch_table_remove(struct etcd_watch_table *table, struct etcd_watch_node *node) {
    struct etcd_watch_node **at = &table->buckets[bucket_of(node->id, table->n_buckets)];
    while (*at != node) {
        assert(*at != NULL);
        at = &(*at)->next;
    }
    *at = node->next;
    table->count--;
}
