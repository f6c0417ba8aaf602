/* Subscriptions of this member's clients. PUBLISH on any member is a key that is put and deleted
 * (redis_events_rules.h); a member with subscribers watches those keys. Expiry is seen as a
 * tombstone behind a version that had a lease. */
#include "core/key_store.h"
#include "doors/redis/redis_door_internal.h"
#include "doors/redis/redis_events_rules.h"
#include "doors/redis/redis_glob_model.h"
#include "doors/redis/redis_keys.h"
#include "doors/redis/redis_reply.h"
#include "doors/redis/redis_run_rules.h"

#include <stdlib.h>
#include <string.h>

enum kind { CHANNEL, PATTERN, SHARD };

enum { BUCKETS = 1024, SUBSCRIPTIONS_MAX = 64 * 1024 /* of one connection */ };

/* A channel or a pattern that somebody has subscribed to. */
struct topic {
    struct list link; /* of its bucket, or of all patterns */
    enum kind kind;
    struct list subscriptions;
    size_t n;
    size_t name_size;
    uint8_t name[];
};

struct subscription {
    struct list in_topic;
    struct list in_connection;
    struct topic *topic;
    struct redis_connection *connection;
};

struct redis_pubsub {
    struct redis_door *door;
    struct list buckets[BUCKETS]; /* of channels and sharded channels */
    struct list patterns;
    size_t n_topics[3];
    size_t n_key_topics; /* that may be told of expiry */
    struct service_watch messages;
    struct service_watch expiry;
    struct buffer push;
};

static struct bytes name_of(const struct topic *topic) {
    return bytes_of(topic->name, topic->name_size);
}

static struct list *bucket_of(struct redis_pubsub *pubsub, enum kind kind, struct bytes name) {
    if (kind == PATTERN) {
        return &pubsub->patterns;
    }
    return &pubsub->buckets[(keyed_hash_bytes(&pubsub->door->hash_key, name) + kind) % BUCKETS];
}

static struct topic *find(struct redis_pubsub *pubsub, enum kind kind, struct bytes name) {
    struct list *bucket = bucket_of(pubsub, kind, name);
    for (struct list *node = bucket->next; node != bucket; node = node->next) {
        struct topic *topic = list_entry(node, struct topic, link);
        if (topic->kind == kind && bytes_equal(name_of(topic), name)) {
            return topic;
        }
    }
    return NULL;
}

/* --- Messages. --- */

static void push_to(struct redis_pubsub *pubsub, const struct topic *topic) {
    for (struct list *node = topic->subscriptions.next; node != &topic->subscriptions;
         node = node->next) {
        struct subscription *subscription = list_entry(node, struct subscription, in_topic);
        redis_connection_push(subscription->connection,
                              bytes_of(pubsub->push.data, pubsub->push.size));
        pubsub->door->stats.messages++;
    }
}

static void publish(struct redis_pubsub *pubsub, enum kind kind, struct bytes channel,
                    struct bytes message) {
    struct topic *topic = find(pubsub, kind, channel);
    if (topic != NULL) {
        pubsub->push.size = 0;
        redis_reply_push(&pubsub->push, 3);
        redis_reply_bulk(&pubsub->push, bytes_from_text(kind == SHARD ? "smessage" : "message"));
        redis_reply_bulk(&pubsub->push, channel);
        redis_reply_bulk(&pubsub->push, message);
        push_to(pubsub, topic);
    }
    if (kind == SHARD) {
        return;
    }
    for (struct list *node = pubsub->patterns.next; node != &pubsub->patterns; node = node->next) {
        topic = list_entry(node, struct topic, link);
        if (redis_glob_match(name_of(topic), channel)) {
            pubsub->push.size = 0;
            redis_reply_push(&pubsub->push, 4);
            redis_reply_bulk(&pubsub->push, bytes_from_text("pmessage"));
            redis_reply_bulk(&pubsub->push, name_of(topic));
            redis_reply_bulk(&pubsub->push, channel);
            redis_reply_bulk(&pubsub->push, message);
            push_to(pubsub, topic);
        }
    }
}

size_t redis_pubsub_receivers(struct redis_pubsub *pubsub, bool is_sharded, struct bytes channel) {
    const struct topic *topic = find(pubsub, is_sharded ? SHARD : CHANNEL, channel);
    size_t n = topic == NULL ? 0 : topic->n;
    if (is_sharded) {
        return n;
    }
    for (struct list *node = pubsub->patterns.next; node != &pubsub->patterns; node = node->next) {
        topic = list_entry(node, struct topic, link);
        n += redis_glob_match(name_of(topic), channel) ? topic->n : 0;
    }
    return n;
}

static bool deliver_messages(struct service_watch *watch, const struct watch_batch *batch) {
    struct redis_pubsub *pubsub = list_entry(watch, struct redis_pubsub, messages);
    for (size_t i = 0; i < batch->n_events; i++) {
        const struct record *record = batch->events[i];
        struct bytes key = record_key(record);
        if (!record_is_tombstone(record) && key.size > 0) {
            publish(pubsub, key.data[0] == 'q' ? SHARD : CHANNEL,
                    bytes_of(key.data + 1, key.size - 1), record_value(record));
        }
    }
    return true;
}

/* --- Expiry. --- */

static uint32_t events_wanted(const struct redis_door *door) {
    const struct key_store *keys = state_view_keys(service_view(door->service));
    const struct record *record =
        key_store_find(keys, KEY_SPACE_REDIS_RECORDS, bytes_from_text("cnotify-keyspace-events"));
    uint32_t events = 0;
    if (record != NULL) {
        (void)redis_events_parse(record_value(record), &events);
    }
    return (events & REDIS_EVENT_EXPIRED) != 0 ? events : 0;
}

static void tell_expired(struct redis_pubsub *pubsub, uint32_t events,
                         const struct record *record) {
    struct bytes key = redis_key_of(record);
    unsigned db = record_key(record).data[0];
    uint8_t channel[REDIS_EVENT_PREFIX_SIZE + REDIS_KEY_SIZE_MAX];
    struct bytes expired = bytes_from_text("expired");
    if ((events & REDIS_EVENT_KEYSPACE) != 0 && key.size <= REDIS_KEY_SIZE_MAX) {
        size_t size = redis_event_prefix(true, db, channel);
        memcpy(channel + size, key.data, key.size);
        publish(pubsub, CHANNEL, bytes_of(channel, size + key.size), expired);
    }
    if ((events & REDIS_EVENT_KEYEVENT) != 0) {
        size_t size = redis_event_prefix(false, db, channel);
        memcpy(channel + size, expired.data, expired.size);
        publish(pubsub, CHANNEL, bytes_of(channel, size + expired.size), key);
    }
}

static bool deliver_expiry(struct service_watch *watch, const struct watch_batch *batch) {
    struct redis_pubsub *pubsub = list_entry(watch, struct redis_pubsub, expiry);
    const struct key_store *keys = state_view_keys(service_view(pubsub->door->service));
    uint32_t events = events_wanted(pubsub->door);
    for (size_t i = 0; i < batch->n_events && events != 0; i++) {
        const struct record *record = batch->events[i];
        const struct record *previous = key_store_previous(keys, record);
        if (record_is_tombstone(record) && previous != NULL && previous->lease_id != 0) {
            tell_expired(pubsub, events, record);
        }
    }
    return true;
}

/* --- Watches. --- */

static void begin(struct redis_pubsub *pubsub, struct service_watch *watch) {
    struct service_watch_options options = {.start_revision = 0};
    if (watch == &pubsub->messages) {
        options.range = redis_range_records('p');
        options.range.range_end = redis_range_records('q').range_end;
        options.without_deletes = true;
    } else {
        /* All databases: their numbers are the first bytes. */
        static const uint8_t first[] = {0};
        static const uint8_t end[] = {REDIS_DATABASES};
        options.range = (struct key_range){
            .space = KEY_SPACE_REDIS, .key = bytes_of(first, 1), .range_end = bytes_of(end, 1)};
        options.without_puts = true;
    }
    (void)service_watch(pubsub->door->service, &caller_server, watch, &options);
}

static void compacted_messages(struct service_watch *watch, int64_t compacted_revision) {
    (void)compacted_revision;
    begin(list_entry(watch, struct redis_pubsub, messages), watch);
}

static void compacted_expiry(struct service_watch *watch, int64_t compacted_revision) {
    (void)compacted_revision;
    begin(list_entry(watch, struct redis_pubsub, expiry), watch);
}

/* The server itself watches: nobody takes its rights away. */
static void revoked(struct service_watch *watch, enum status status) {
    (void)watch;
    (void)status;
}

/* As long as somebody listens. */
static void set_watch(struct redis_pubsub *pubsub, struct service_watch *watch, bool is_wanted) {
    bool is_there = watch->private.watcher != NULL;
    if (is_wanted && !is_there) {
        begin(pubsub, watch);
    } else if (!is_wanted && is_there) {
        service_unwatch(pubsub->door->service, watch);
    }
}

static void set_watches(struct redis_pubsub *pubsub) {
    size_t n = pubsub->n_topics[CHANNEL] + pubsub->n_topics[PATTERN] + pubsub->n_topics[SHARD];
    set_watch(pubsub, &pubsub->messages, n > 0);
    set_watch(pubsub, &pubsub->expiry, pubsub->n_key_topics > 0);
}

/* --- Subscriptions. --- */

static bool is_of_keys(const struct topic *topic) {
    return topic->kind == PATTERN || (topic->name_size > 5 && memcmp(topic->name, "__key", 5) == 0);
}

static struct topic *create_topic(struct redis_pubsub *pubsub, enum kind kind, struct bytes name) {
    struct topic *topic = calloc(1, sizeof *topic + name.size);
    if (topic == NULL) {
        abort();
    }
    topic->kind = kind;
    topic->name_size = name.size;
    memcpy(topic->name, name.data, name.size);
    list_init(&topic->subscriptions);
    list_append(bucket_of(pubsub, kind, name), &topic->link);
    pubsub->n_topics[kind]++;
    pubsub->n_key_topics += is_of_keys(topic);
    return topic;
}

static struct subscription *find_subscription(struct redis_connection *connection, enum kind kind,
                                              struct bytes name) {
    for (struct list *node = connection->subscriptions.next; node != &connection->subscriptions;
         node = node->next) {
        struct subscription *subscription = list_entry(node, struct subscription, in_connection);
        if (subscription->topic->kind == kind && bytes_equal(name_of(subscription->topic), name)) {
            return subscription;
        }
    }
    return NULL;
}

/* True when it is not subscribed yet, or the topic is known to be new. */
static void subscribe(struct redis_connection *connection, enum kind kind, struct bytes name) {
    struct redis_pubsub *pubsub = connection->door->pubsub;
    struct topic *topic = find(pubsub, kind, name);
    if (topic != NULL && find_subscription(connection, kind, name) != NULL) {
        return;
    }
    struct subscription *subscription = calloc(1, sizeof *subscription);
    if (subscription == NULL) {
        abort();
    }
    topic = topic != NULL ? topic : create_topic(pubsub, kind, name);
    subscription->topic = topic;
    subscription->connection = connection;
    list_append(&topic->subscriptions, &subscription->in_topic);
    list_append(&connection->subscriptions, &subscription->in_connection);
    topic->n++;
    connection->n_subscriptions[kind]++;
}

static void unsubscribe(struct redis_pubsub *pubsub, struct subscription *subscription) {
    struct topic *topic = subscription->topic;
    subscription->connection->n_subscriptions[topic->kind]--;
    list_remove(&subscription->in_topic);
    list_remove(&subscription->in_connection);
    free(subscription);
    if (--topic->n == 0) {
        list_remove(&topic->link);
        pubsub->n_topics[topic->kind]--;
        pubsub->n_key_topics -= is_of_keys(topic);
        free(topic);
    }
}

void redis_pubsub_leave(struct redis_connection *connection) {
    while (!list_is_empty(&connection->subscriptions)) {
        unsubscribe(connection->door->pubsub,
                    list_entry(connection->subscriptions.next, struct subscription, in_connection));
    }
    set_watches(connection->door->pubsub);
}

/* --- Commands. --- */

static void reply_change(struct redis_connection *connection, enum kind kind, bool is_subscribed,
                         const struct bytes *name, struct buffer *out) {
    static const char *const words[2][3] = {{"unsubscribe", "punsubscribe", "sunsubscribe"},
                                            {"subscribe", "psubscribe", "ssubscribe"}};
    size_t n = kind == SHARD
                   ? connection->n_subscriptions[SHARD]
                   : connection->n_subscriptions[CHANNEL] + connection->n_subscriptions[PATTERN];
    redis_reply_push(out, 3);
    redis_reply_bulk(out, bytes_from_text(words[is_subscribed][kind]));
    if (name == NULL) {
        redis_reply_null(out);
    } else {
        redis_reply_bulk(out, *name);
    }
    redis_reply_integer(out, (int64_t)n);
}

static void run_subscribe(struct redis_connection *connection, enum kind kind,
                          const struct bytes *names, size_t n, struct buffer *out) {
    size_t total = connection->n_subscriptions[0] + connection->n_subscriptions[1] +
                   connection->n_subscriptions[2];
    if (total + n > SUBSCRIPTIONS_MAX) {
        redis_reply_error_text(out, "ERR too many subscriptions");
        return;
    }
    for (size_t i = 0; i < n; i++) {
        subscribe(connection, kind, names[i]);
        reply_change(connection, kind, true, &names[i], out);
    }
}

static void run_unsubscribe(struct redis_connection *connection, enum kind kind,
                            const struct bytes *names, size_t n, struct buffer *out) {
    struct redis_pubsub *pubsub = connection->door->pubsub;
    if (n == 0 && connection->n_subscriptions[kind] == 0) {
        reply_change(connection, kind, false, NULL, out);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        struct subscription *subscription = find_subscription(connection, kind, names[i]);
        if (subscription != NULL) {
            unsubscribe(pubsub, subscription);
        }
        reply_change(connection, kind, false, &names[i], out);
    }
    struct list *node = connection->subscriptions.next;
    while (n == 0 && node != &connection->subscriptions) {
        struct subscription *subscription = list_entry(node, struct subscription, in_connection);
        node = node->next;
        if (subscription->topic->kind == kind) {
            struct bytes name = name_of(subscription->topic);
            uint8_t *copy = arena_copy(&connection->door->arena, name.data, name.size);
            name.data = copy;
            unsubscribe(pubsub, subscription);
            reply_change(connection, kind, false, &name, out);
        }
    }
}

static void list_channels(struct redis_pubsub *pubsub, enum kind kind, const struct bytes *pattern,
                          struct buffer *out) {
    size_t n = 0;
    size_t before = out->size;
    for (unsigned pass = 0; pass < 2; pass++) {
        if (pass == 1) {
            out->size = before;
            redis_reply_array(out, n);
        }
        for (size_t i = 0; i < BUCKETS; i++) {
            struct list *bucket = &pubsub->buckets[i];
            for (struct list *node = bucket->next; node != bucket; node = node->next) {
                struct topic *topic = list_entry(node, struct topic, link);
                if (topic->kind == kind &&
                    (pattern == NULL || redis_glob_match(*pattern, name_of(topic)))) {
                    n += pass == 0;
                    if (pass == 1) {
                        redis_reply_bulk(out, name_of(topic));
                    }
                }
            }
        }
    }
}

static void count_subscribers(struct redis_pubsub *pubsub, enum kind kind,
                              const struct bytes *names, size_t n, struct buffer *out) {
    redis_reply_array(out, 2 * n);
    for (size_t i = 0; i < n; i++) {
        const struct topic *topic = find(pubsub, kind, names[i]);
        redis_reply_bulk(out, names[i]);
        redis_reply_integer(out, topic == NULL ? 0 : (int64_t)topic->n);
    }
}

static void run_pubsub(struct redis_pubsub *pubsub, const struct bytes *argv, size_t argc,
                       struct buffer *out) {
    bool is_shard =
        redis_word_is(argv[1], "shardchannels") || redis_word_is(argv[1], "shardnumsub");
    enum kind kind = is_shard ? SHARD : CHANNEL;
    if (argc <= 3 &&
        (redis_word_is(argv[1], "channels") || redis_word_is(argv[1], "shardchannels"))) {
        list_channels(pubsub, kind, argc == 3 ? &argv[2] : NULL, out);
    } else if (redis_word_is(argv[1], "numsub") || redis_word_is(argv[1], "shardnumsub")) {
        count_subscribers(pubsub, kind, argv + 2, argc - 2, out);
    } else if (argc == 2 && redis_word_is(argv[1], "numpat")) {
        redis_reply_integer(out, (int64_t)pubsub->n_topics[PATTERN]);
    } else {
        redis_reply_error_text(
            out, "ERR unknown subcommand or wrong number of arguments for 'pubsub' command");
    }
}

void redis_pubsub_run(struct redis_connection *connection, const struct redis_exec_command *command,
                      struct buffer *out) {
    const struct bytes *names = command->argv + 1;
    size_t n = command->argc - 1;
    switch (command->command->id) {
    case REDIS_CMD_SUBSCRIBE:
        run_subscribe(connection, CHANNEL, names, n, out);
        break;
    case REDIS_CMD_PSUBSCRIBE:
        run_subscribe(connection, PATTERN, names, n, out);
        break;
    case REDIS_CMD_SSUBSCRIBE:
        run_subscribe(connection, SHARD, names, n, out);
        break;
    case REDIS_CMD_UNSUBSCRIBE:
        run_unsubscribe(connection, CHANNEL, names, n, out);
        break;
    case REDIS_CMD_PUNSUBSCRIBE:
        run_unsubscribe(connection, PATTERN, names, n, out);
        break;
    case REDIS_CMD_SUNSUBSCRIBE:
        run_unsubscribe(connection, SHARD, names, n, out);
        break;
    default:
        run_pubsub(connection->door->pubsub, command->argv, command->argc, out);
        break;
    }
    set_watches(connection->door->pubsub);
}

/* --- Life. --- */

struct redis_pubsub *redis_pubsub_create(struct redis_door *door) {
    struct redis_pubsub *pubsub = calloc(1, sizeof *pubsub);
    if (pubsub == NULL) {
        abort();
    }
    pubsub->door = door;
    for (size_t i = 0; i < BUCKETS; i++) {
        list_init(&pubsub->buckets[i]);
    }
    list_init(&pubsub->patterns);
    buffer_init(&pubsub->push);
    pubsub->messages = (struct service_watch){
        .deliver = deliver_messages, .compacted = compacted_messages, .revoked = revoked};
    pubsub->expiry = (struct service_watch){
        .deliver = deliver_expiry, .compacted = compacted_expiry, .revoked = revoked};
    return pubsub;
}

void redis_pubsub_destroy(struct redis_pubsub *pubsub) {
    service_unwatch(pubsub->door->service, &pubsub->messages);
    service_unwatch(pubsub->door->service, &pubsub->expiry);
    buffer_clear(&pubsub->push);
    free(pubsub);
}
