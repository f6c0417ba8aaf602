#include "doors/zookeeper/zk_hash.h"

#include <assert.h>
#include <stdlib.h>

enum { BUCKETS_MIN = 64 };

void zk_hash_clear(struct zk_hash *table) {
    free(table->buckets);
    *table = (struct zk_hash){0};
}

static void resize(struct zk_hash *table, size_t n_buckets) {
    struct zk_hash_node **buckets = calloc(n_buckets, sizeof *buckets);
    if (buckets == NULL) {
        abort();
    }
    for (size_t i = 0; i < table->n_buckets; i++) {
        for (struct zk_hash_node *node = table->buckets[i], *next; node != NULL; node = next) {
            struct zk_hash_node **bucket = &buckets[node->hash & (n_buckets - 1)];
            next = node->next;
            node->next = *bucket;
            *bucket = node;
        }
    }
    free(table->buckets);
    table->buckets = buckets;
    table->n_buckets = n_buckets;
}

void zk_hash_add(struct zk_hash *table, struct zk_hash_node *node, uint64_t hash) {
    if (table->n >= table->n_buckets) {
        resize(table, table->n_buckets == 0 ? BUCKETS_MIN : 2 * table->n_buckets);
    }
    struct zk_hash_node **bucket = &table->buckets[hash & (table->n_buckets - 1)];
    node->hash = hash;
    node->next = *bucket;
    *bucket = node;
    table->n++;
}

void zk_hash_remove(struct zk_hash *table, struct zk_hash_node *node) {
    struct zk_hash_node **at = &table->buckets[node->hash & (table->n_buckets - 1)];
    while (*at != node) {
        assert(*at != NULL);
        at = &(*at)->next;
    }
    *at = node->next;
    node->next = NULL;
    table->n--;
}

struct zk_hash_node *zk_hash_first(const struct zk_hash *table, uint64_t hash) {
    return table->n_buckets == 0 ? NULL : table->buckets[hash & (table->n_buckets - 1)];
}
