#include "doors/redis/redis_topics.h"

#include "doors/redis/redis_door_internal.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

enum {
    BUCKETS_FIRST = 64,
    FREED_MUCH = 32 * 1024 * 1024 /* so much is worth a search for pages to give back */
};

/* A table of lists, which doubles. */
struct table {
    struct list *buckets;
    size_t n_buckets;
    size_t n;
};

struct redis_topics {
    const struct hash_key *hash_key;
    struct table by_name;       /* struct redis_topic */
    struct table subscriptions; /* struct redis_subscription, by connection and topic */
    struct list kinds[3];
    size_t n_kinds[3];
    size_t n_of_keys;
    size_t bytes;
    size_t freed; /* since memory was last given back */
};

/* --- Tables. --- */

static void table_make(struct table *table, size_t n_buckets) {
    table->buckets = malloc(n_buckets * sizeof table->buckets[0]);
    if (table->buckets == NULL) {
        abort();
    }
    table->n_buckets = n_buckets;
    for (size_t i = 0; i < n_buckets; i++) {
        list_init(&table->buckets[i]);
    }
}

/* Nothing is in it. */
static void table_shrink(struct table *table) {
    if (table->n_buckets > BUCKETS_FIRST) {
        free(table->buckets);
        table_make(table, BUCKETS_FIRST);
    }
}

static struct list *table_bucket(const struct table *table, uint64_t hash) {
    return &table->buckets[hash & (table->n_buckets - 1)];
}

static void table_add(struct table *table, struct list *node, uint64_t hash,
                      uint64_t (*hash_of)(const struct redis_topics *, const struct list *),
                      const struct redis_topics *topics) {
    if (table->n == table->n_buckets) {
        struct table old = *table;
        table_make(table, 2 * old.n_buckets);
        for (size_t i = 0; i < old.n_buckets; i++) {
            for (struct list *each; (each = list_pop_first(&old.buckets[i])) != NULL;) {
                list_append(table_bucket(table, hash_of(topics, each)), each);
            }
        }
        free(old.buckets);
    }
    list_append(table_bucket(table, hash), node);
    table->n++;
}

/* --- Hashes. --- */

static uint64_t hash_name(const struct redis_topics *topics, enum redis_topic_kind kind,
                          struct bytes name) {
    return keyed_hash_bytes(topics->hash_key, name) + kind;
}

static uint64_t hash_pair(const struct redis_topics *topics,
                          const struct redis_connection *connection,
                          const struct redis_topic *topic) {
    return keyed_hash_number(topics->hash_key, (uint64_t)(uintptr_t)topic ^
                                                   connection->id * UINT64_C(0x9e3779b97f4a7c15));
}

static uint64_t hash_topic(const struct redis_topics *topics, const struct list *node) {
    const struct redis_topic *topic = list_entry(node, struct redis_topic, in_bucket);
    return hash_name(topics, topic->kind, redis_topic_name(topic));
}

static uint64_t hash_subscription(const struct redis_topics *topics, const struct list *node) {
    const struct redis_subscription *subscription =
        list_entry(node, struct redis_subscription, in_bucket);
    return hash_pair(topics, subscription->connection, subscription->topic);
}

/* --- Finding. --- */

struct list *redis_topics_of(struct redis_topics *topics, enum redis_topic_kind kind) {
    return &topics->kinds[kind];
}

size_t redis_topics_count(const struct redis_topics *topics, enum redis_topic_kind kind) {
    return topics->n_kinds[kind];
}

size_t redis_topics_count_of_keys(const struct redis_topics *topics) {
    return topics->n_of_keys;
}

struct redis_topic *redis_topics_find(struct redis_topics *topics, enum redis_topic_kind kind,
                                      struct bytes name) {
    struct list *bucket = table_bucket(&topics->by_name, hash_name(topics, kind, name));
    for (struct list *node = bucket->next; node != bucket; node = node->next) {
        struct redis_topic *topic = list_entry(node, struct redis_topic, in_bucket);
        if (topic->kind == kind && bytes_equal(redis_topic_name(topic), name)) {
            return topic;
        }
    }
    return NULL;
}

static struct redis_subscription *find_pair(struct redis_topics *topics,
                                            const struct redis_connection *connection,
                                            const struct redis_topic *topic) {
    struct list *bucket =
        table_bucket(&topics->subscriptions, hash_pair(topics, connection, topic));
    for (struct list *node = bucket->next; node != bucket; node = node->next) {
        struct redis_subscription *subscription =
            list_entry(node, struct redis_subscription, in_bucket);
        if (subscription->connection == connection && subscription->topic == topic) {
            return subscription;
        }
    }
    return NULL;
}

struct redis_subscription *redis_topics_find_subscription(struct redis_topics *topics,
                                                          struct redis_connection *connection,
                                                          enum redis_topic_kind kind,
                                                          struct bytes name) {
    const struct redis_topic *topic = redis_topics_find(topics, kind, name);
    return topic == NULL ? NULL : find_pair(topics, connection, topic);
}

/* --- Changing. --- */

static bool is_of_keys(const struct redis_topic *topic) {
    return topic->kind == REDIS_TOPIC_PATTERN ||
           (topic->name_size > 5 && memcmp(topic->name, "__key", 5) == 0);
}

/* What a subscription is counted as, whether or not others share its topic. */
static size_t size_of(size_t name_size) {
    return sizeof(struct redis_topic) + sizeof(struct redis_subscription) +
           2 * sizeof(struct list) + name_size;
}

static bool has_room(const struct redis_topics *topics, const struct redis_connection *connection,
                     size_t size) {
    size_t n = connection->n_subscriptions[0] + connection->n_subscriptions[1] +
               connection->n_subscriptions[2];
    return n < REDIS_SUBSCRIPTIONS_MAX &&
           connection->subscription_bytes + size <= REDIS_SUBSCRIPTION_BYTES_MAX &&
           topics->bytes + size <= REDIS_SUBSCRIPTION_BYTES_ALL_MAX;
}

static struct redis_topic *create_topic(struct redis_topics *topics, enum redis_topic_kind kind,
                                        struct bytes name) {
    struct redis_topic *topic = calloc(1, sizeof *topic + name.size);
    if (topic == NULL) {
        abort();
    }
    topic->kind = kind;
    topic->name_size = name.size;
    if (name.size > 0) {
        memcpy(topic->name, name.data, name.size);
    }
    list_init(&topic->subscriptions);
    table_add(&topics->by_name, &topic->in_bucket, hash_name(topics, kind, name), hash_topic,
              topics);
    list_append(&topics->kinds[kind], &topic->in_kind);
    topics->n_kinds[kind]++;
    topics->n_of_keys += is_of_keys(topic);
    return topic;
}

bool redis_topics_subscribe(struct redis_topics *topics, struct redis_connection *connection,
                            enum redis_topic_kind kind, struct bytes name) {
    struct redis_topic *topic = redis_topics_find(topics, kind, name);
    if (topic != NULL && find_pair(topics, connection, topic) != NULL) {
        return true;
    }
    size_t size = size_of(name.size);
    if (!has_room(topics, connection, size)) {
        return false;
    }
    struct redis_subscription *subscription = calloc(1, sizeof *subscription);
    if (subscription == NULL) {
        abort();
    }
    topic = topic != NULL ? topic : create_topic(topics, kind, name);
    subscription->topic = topic;
    subscription->connection = connection;
    table_add(&topics->subscriptions, &subscription->in_bucket,
              hash_pair(topics, connection, topic), hash_subscription, topics);
    list_append(&topic->subscriptions, &subscription->in_topic);
    list_append(&connection->subscriptions, &subscription->in_connection);
    topic->n++;
    connection->n_subscriptions[kind]++;
    connection->subscription_bytes += size;
    topics->bytes += size;
    return true;
}

void redis_topics_unsubscribe(struct redis_topics *topics,
                              struct redis_subscription *subscription) {
    struct redis_topic *topic = subscription->topic;
    size_t size = size_of(topic->name_size);
    subscription->connection->n_subscriptions[topic->kind]--;
    subscription->connection->subscription_bytes -= size;
    topics->bytes -= size;
    topics->freed += size;
    list_remove(&subscription->in_bucket);
    list_remove(&subscription->in_topic);
    list_remove(&subscription->in_connection);
    topics->subscriptions.n--;
    free(subscription);
    if (--topic->n == 0) {
        list_remove(&topic->in_bucket);
        list_remove(&topic->in_kind);
        topics->by_name.n--;
        topics->n_kinds[topic->kind]--;
        topics->n_of_keys -= is_of_keys(topic);
        free(topic);
    }
}

/* The server looks for such memory by itself, but counts what was held during the last search as
 * usual. */
void redis_topics_give_memory_back(struct redis_topics *topics) {
    if (topics->freed < FREED_MUCH) {
        return;
    }
    topics->freed = 0;
    if (topics->subscriptions.n == 0) {
        table_shrink(&topics->by_name);
        table_shrink(&topics->subscriptions);
    }
    malloc_trim(0);
}

/* --- Life. --- */

struct redis_topics *redis_topics_create(const struct hash_key *hash_key) {
    struct redis_topics *topics = calloc(1, sizeof *topics);
    if (topics == NULL) {
        abort();
    }
    topics->hash_key = hash_key;
    table_make(&topics->by_name, BUCKETS_FIRST);
    table_make(&topics->subscriptions, BUCKETS_FIRST);
    for (size_t i = 0; i < 3; i++) {
        list_init(&topics->kinds[i]);
    }
    return topics;
}

void redis_topics_destroy(struct redis_topics *topics) {
    free(topics->by_name.buckets);
    free(topics->subscriptions.buckets);
    free(topics);
}
