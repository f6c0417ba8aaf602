/*
 * Who has subscribed to what: channels, patterns, sharded channels. Finding a topic, or the
 * subscription of a connection to it, takes the same time however many there are, and what all of
 * them hold is bounded.
 */
#ifndef LEASED_DOORS_REDIS_REDIS_TOPICS_H
#define LEASED_DOORS_REDIS_REDIS_TOPICS_H

#include "base/bytes.h"
#include "base/keyed_hash.h"
#include "base/list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    REDIS_SUBSCRIPTIONS_MAX = 64 * 1024,                  /* of one connection */
    REDIS_SUBSCRIPTION_BYTES_MAX = 32 * 1024 * 1024,      /* the same */
    REDIS_SUBSCRIPTION_BYTES_ALL_MAX = 128 * 1024 * 1024, /* of all */
    REDIS_PATTERN_SIZE_MAX = 1024
};

enum redis_topic_kind { REDIS_TOPIC_CHANNEL, REDIS_TOPIC_PATTERN, REDIS_TOPIC_SHARD };

/* Messages of two sources are delivered in parts: see redis_pubsub.c. */
enum { REDIS_TOPIC_SOURCES = 2 };

struct redis_connection;

/* A channel or a pattern that somebody has subscribed to. */
struct redis_topic {
    struct list in_bucket;
    struct list in_kind; /* of all of its kind, oldest first */
    enum redis_topic_kind kind;
    struct list subscriptions; /* struct redis_subscription, oldest first */
    size_t n;
    uint64_t matched[REDIS_TOPIC_SOURCES]; /* the message that a pattern was last compared with */
    size_t name_size;
    uint8_t name[];
};

struct redis_subscription {
    struct list in_bucket;
    struct list in_topic;
    struct list in_connection; /* oldest first */
    struct redis_topic *topic;
    struct redis_connection *connection;
    uint64_t pushed[REDIS_TOPIC_SOURCES]; /* the message that it was last given */
};

static inline struct bytes redis_topic_name(const struct redis_topic *topic) {
    return bytes_of(topic->name, topic->name_size);
}

struct redis_topics;

/* The key is borrowed. */
struct redis_topics *redis_topics_create(const struct hash_key *hash_key);
void redis_topics_destroy(struct redis_topics *topics);

/* All of one kind: struct redis_topic by in_kind. */
struct list *redis_topics_of(struct redis_topics *topics, enum redis_topic_kind kind);
size_t redis_topics_count(const struct redis_topics *topics, enum redis_topic_kind kind);
/* How many of them may be told of expiry. */
size_t redis_topics_count_of_keys(const struct redis_topics *topics);
/* NULL: nobody has subscribed to it. */
struct redis_topic *redis_topics_find(struct redis_topics *topics, enum redis_topic_kind kind,
                                      struct bytes name);
/* NULL: the connection has not. */
struct redis_subscription *redis_topics_find_subscription(struct redis_topics *topics,
                                                          struct redis_connection *connection,
                                                          enum redis_topic_kind kind,
                                                          struct bytes name);
/* False: there is no room for it, for this connection or for any. Harmless when there is one. */
bool redis_topics_subscribe(struct redis_topics *topics, struct redis_connection *connection,
                            enum redis_topic_kind kind, struct bytes name);
/* Frees it, and its topic when it was the last. */
void redis_topics_unsubscribe(struct redis_topics *topics, struct redis_subscription *subscription);
/* After many have gone: small pieces between others are not given back by themselves. */
void redis_topics_give_memory_back(struct redis_topics *topics);

#endif
