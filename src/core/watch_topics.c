#include "core/watch_topics.h"

#include "core/stored_key.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    BUCKETS_MIN = 64,
    /* When more than one range of so many falls asleep, the tree is looked through once. */
    RANGES_AN_UPDATE = 16
};

void watch_topics_init(struct watch_topics *topics, const struct hash_key *key) {
    *topics = (struct watch_topics){.key = *key};
    list_init(&topics->all);
}

void watch_topics_clear(struct watch_topics *topics) {
    struct list *link;
    while ((link = list_pop_first(&topics->all)) != NULL) {
        free(list_entry(link, struct watch_topic, link));
    }
    free(topics->buckets);
    struct hash_key key = topics->key;
    watch_topics_init(topics, &key);
}

static struct watch_topic **bucket_of(const struct watch_topics *topics, uint64_t hash) {
    return &topics->buckets[hash & (topics->n_buckets - 1)];
}

static struct watch_topic *find_key(const struct watch_topics *topics, struct bytes key,
                                    uint64_t hash) {
    if (topics->n_keys == 0) {
        return NULL;
    }
    struct watch_topic *topic = *bucket_of(topics, hash);
    while (topic != NULL && (topic->hash != hash || !bytes_equal(topic->interval.low, key))) {
        topic = topic->next;
    }
    return topic;
}

static void grow(struct watch_topics *topics) {
    struct watch_topics old = *topics;
    topics->n_buckets = old.n_buckets == 0 ? BUCKETS_MIN : old.n_buckets * 2;
    topics->buckets = calloc(topics->n_buckets, sizeof topics->buckets[0]);
    if (topics->buckets == NULL) {
        abort();
    }
    for (size_t i = 0; i < old.n_buckets; i++) {
        for (struct watch_topic *topic = old.buckets[i]; topic != NULL;) {
            struct watch_topic *next = topic->next;
            struct watch_topic **bucket = bucket_of(topics, topic->hash);
            topic->next = *bucket;
            *bucket = topic;
            topic = next;
        }
    }
    free(old.buckets);
}

static struct watch_topic *make(struct watch_topics *topics, const struct watch_interval *interval,
                                bool is_one_key) {
    struct bytes low = interval->low;
    struct bytes high = interval->high;
    struct watch_topic *topic = calloc(1, sizeof *topic + low.size + high.size);
    if (topic == NULL) {
        abort();
    }
    if (low.size > 0) {
        memcpy(topic->bytes, low.data, low.size);
    }
    if (high.size > 0) {
        memcpy(topic->bytes + low.size, high.data, high.size);
    }
    topic->interval.low = bytes_of(topic->bytes, low.size);
    topic->interval.high = bytes_of(topic->bytes + low.size, high.size);
    topic->is_one_key = is_one_key;
    list_init(&topic->watchers);
    list_append(&topics->all, &topic->link);
    return topic;
}

static struct watch_topic *get_key(struct watch_topics *topics, struct bytes key) {
    uint64_t hash = keyed_hash_bytes(&topics->key, key);
    struct watch_topic *topic = find_key(topics, key, hash);
    if (topic != NULL) {
        return topic;
    }
    if (topics->n_keys == topics->n_buckets) {
        grow(topics);
    }
    topic = make(topics, &(struct watch_interval){.low = key}, true);
    topic->hash = hash;
    struct watch_topic **bucket = bucket_of(topics, hash);
    topic->next = *bucket;
    *bucket = topic;
    topics->n_keys++;
    return topic;
}

static struct watch_topic *of_interval(struct watch_interval *interval) {
    return list_entry(interval, struct watch_topic, interval);
}

static struct watch_topic *get_range(struct watch_topics *topics, struct bytes low,
                                     struct bytes high) {
    struct watch_interval interval = {.low = low, .high = high};
    struct watch_interval *found = watch_interval_find(topics->ranges, &interval);
    if (found != NULL) {
        return of_interval(found);
    }
    struct watch_topic *topic = make(topics, &interval, false);
    watch_interval_insert(&topics->ranges, &topic->interval);
    topics->n_ranges++;
    return topic;
}

struct watch_topic *watch_topics_get(struct watch_topics *topics, struct key_space_id space,
                                     struct bytes key, struct bytes range_end) {
    assert(key_space_is_valid(space));
    struct watch_topic *topic;
    struct stored_key low;
    stored_key_init(&low, space, key);
    if (range_end.size == 0) {
        topic = get_key(topics, low.bytes);
    } else {
        struct stored_key high;
        stored_key_init_end(&high, space, range_end);
        topic = get_range(topics, low.bytes, high.bytes);
        stored_key_clear(&high);
    }
    stored_key_clear(&low);
    topic->references++;
    return topic;
}

void watch_topics_release(struct watch_topics *topics, struct watch_topic *topic) {
    assert(topic->references > 0);
    if (--topic->references > 0) {
        return;
    }
    assert(list_is_empty(&topic->watchers));
    if (topic->is_one_key) {
        struct watch_topic **place = bucket_of(topics, topic->hash);
        while (*place != topic) {
            assert(*place != NULL);
            place = &(*place)->next;
        }
        *place = topic->next;
        topics->n_keys--;
    } else {
        watch_interval_remove(&topics->ranges, &topic->interval);
        topics->n_ranges--;
    }
    list_remove(&topic->link);
    free(topic);
}

struct key_range watch_topic_range(const struct watch_topic *topic) {
    static const uint8_t to_the_end[1] = {0};
    struct bytes low = topic->interval.low;
    struct bytes high = topic->interval.high;
    struct key_range range = {.space = {.value = low.data[0]},
                              .key = bytes_of(low.data + 1, low.size - 1)};
    if (!topic->is_one_key) {
        /* The end of a space is the next space's byte. */
        range.range_end = high.data[0] == low.data[0] ? bytes_of(high.data + 1, high.size - 1)
                                                      : bytes_of(to_the_end, 1);
    }
    return range;
}

bool watch_topic_contains(const struct watch_topic *topic, struct bytes stored_key) {
    return topic->is_one_key ? bytes_equal(topic->interval.low, stored_key)
                             : watch_interval_contains(&topic->interval, stored_key);
}

void watch_topics_sleep(struct watch_topics *topics, struct watch_topic *idle, size_t n) {
    bool are_many = n > topics->n_ranges / RANGES_AN_UPDATE;
    for (struct watch_topic *topic = idle; topic != NULL; topic = topic->next_idle) {
        if (topic->is_one_key || topic->interval.is_asleep) {
            continue;
        }
        if (are_many) {
            topic->interval.is_asleep = true;
        } else {
            watch_interval_set_asleep(topics->ranges, &topic->interval, true);
        }
    }
    if (are_many) {
        watch_interval_refresh(topics->ranges);
    }
}

void watch_topics_wake(struct watch_topics *topics, struct watch_topic *topic) {
    if (!topic->is_one_key && topic->interval.is_asleep) {
        watch_interval_set_asleep(topics->ranges, &topic->interval, false);
    }
}

struct topic_visit {
    void (*visit)(void *context, struct watch_topic *topic);
    void *context;
};

static void visit_interval(void *context, struct watch_interval *interval) {
    struct topic_visit *of_topics = context;
    of_topics->visit(of_topics->context, of_interval(interval));
}

void watch_topics_visit(const struct watch_topics *topics, struct bytes stored_key,
                        void (*visit)(void *context, struct watch_topic *topic), void *context) {
    if (topics->n_keys > 0) {
        struct watch_topic *topic =
            find_key(topics, stored_key, keyed_hash_bytes(&topics->key, stored_key));
        if (topic != NULL) {
            visit(context, topic);
        }
    }
    struct topic_visit of_topics = {.visit = visit, .context = context};
    watch_interval_visit(topics->ranges, stored_key, visit_interval, &of_topics);
}

void watch_topics_validate(const struct watch_topics *topics) {
    assert(watch_interval_validate(topics->ranges) == topics->n_ranges);
    size_t n_keys = 0;
    size_t n_ranges = 0;
    for (struct list *link = topics->all.next; link != &topics->all; link = link->next) {
        struct watch_topic *topic = list_entry(link, struct watch_topic, link);
        assert(topic->references > 0);
        if (topic->is_one_key) {
            assert(topic->hash == keyed_hash_bytes(&topics->key, topic->interval.low));
            assert(find_key(topics, topic->interval.low, topic->hash) == topic);
            n_keys++;
        } else {
            assert(watch_interval_find(topics->ranges, &topic->interval) == &topic->interval);
            n_ranges++;
        }
    }
    assert(n_keys == topics->n_keys);
    assert(n_ranges == topics->n_ranges);
}
