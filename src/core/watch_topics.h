/*
 * What is watched. Watchers of the same key or the same range share a topic, so that an event is
 * matched once for all of them. Topics of one key are found by hash, topics of a range by interval.
 * Keys are stored keys (stored_key.h), so a topic never reaches beyond its space.
 */
#ifndef LEASED_CORE_WATCH_TOPICS_H
#define LEASED_CORE_WATCH_TOPICS_H

#include "base/bytes.h"
#include "base/keyed_hash.h"
#include "base/list.h"
#include "core/key_space.h"
#include "core/permission.h"
#include "core/watch_interval.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct watch_topic {
    struct watch_interval interval; /* of one key: low alone counts */
    bool is_one_key;
    uint64_t hash;            /* of the key */
    struct watch_topic *next; /* in the chain of its hash */
    struct list link;         /* among all topics */
    size_t references;
    struct list watchers; /* those that are up to date; kept by the hub */
    /* Scratch of one publication, kept by the hub. */
    size_t n_matches;
    size_t n_placed;
    bool is_overflown;
    struct watch_topic *next_idle; /* among those that watch_topics_sleep() is given */
    uint8_t bytes[];               /* the stored key, then the end of the range */
};

struct watch_topics {
    struct hash_key key;
    struct watch_topic **buckets;
    size_t n_buckets; /* a power of two, or 0 */
    size_t n_keys;
    size_t n_ranges;
    struct watch_interval *ranges;
    struct list all;
};

void watch_topics_init(struct watch_topics *topics, const struct hash_key *key);
/* Frees every topic that is left. */
void watch_topics_clear(struct watch_topics *topics);

/* Finds or makes a topic, and takes a reference on it. */
struct watch_topic *watch_topics_get(struct watch_topics *topics, struct key_space_id space,
                                     struct bytes key, struct bytes range_end);
/* Gives the reference back; the last one frees the topic. */
void watch_topics_release(struct watch_topics *topics, struct watch_topic *topic);

/* As it was asked for. */
struct key_range watch_topic_range(const struct watch_topic *topic);
bool watch_topic_contains(const struct watch_topic *topic, struct bytes stored_key);

/* A range that nobody is to be told of need not be visited: it sleeps until it is woken. New ones
 * are awake, and so is a topic of one key always, which costs no more than a look. `idle` is a
 * chain of `n`; its links may be used again. */
void watch_topics_sleep(struct watch_topics *topics, struct watch_topic *idle, size_t n);
void watch_topics_wake(struct watch_topics *topics, struct watch_topic *topic);

/* Calls `visit` for every topic that is awake and contains the key. */
void watch_topics_visit(const struct watch_topics *topics, struct bytes stored_key,
                        void (*visit)(void *context, struct watch_topic *topic), void *context);

void watch_topics_validate(const struct watch_topics *topics);

#endif
