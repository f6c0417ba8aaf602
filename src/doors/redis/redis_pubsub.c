/* Subscriptions of this member's clients. PUBLISH on any member is a key that is put and deleted
 * (redis_events_rules.h); a member with subscribers watches those keys. Expiry is seen as a
 * tombstone behind a version that had a lease.
 *
 * A message may be much work: thousands of patterns to compare with, thousands of clients to copy
 * it for. So delivery goes in parts: when a part has had its time, the batch is given back, and
 * comes again in the next iteration of the loop; topics and subscriptions remember which message
 * they were last given. */
#include "core/key_store.h"
#include "doors/redis/redis_door_internal.h"
#include "doors/redis/redis_events_rules.h"
#include "doors/redis/redis_glob_model.h"
#include "doors/redis/redis_keys.h"
#include "doors/redis/redis_reply.h"
#include "doors/redis/redis_run_rules.h"
#include "doors/redis/redis_topics.h"

#include <stdlib.h>
#include <string.h>

#define CHANNEL REDIS_TOPIC_CHANNEL
#define PATTERN REDIS_TOPIC_PATTERN
#define SHARD REDIS_TOPIC_SHARD

enum {
    /* Of one part of a delivery, in steps of redis_glob_match(): a few milliseconds. */
    PART_STEPS = 2 * 1024 * 1024,
    TOPIC_STEPS = 16,            /* of looking at a topic */
    PUSH_STEPS = 64,             /* of a message for one client … */
    BYTES_A_STEP = 8,            /* … and of its bytes */
    CHANNEL_BYTES_A_WORK = 16,   /* that are compared in a unit of core/key_work.h */
    MATCH_STEPS_MAX = 64 * 1024, /* of comparing one channel with one pattern */
    FULL_MS = 5,                 /* until subscribers are looked at again */
    BEHIND_MAX = 256             /* revisions */
};

/* Where the messages come from. */
enum source { MESSAGES, EXPIRY };

/* How far a source has been delivered: so many events of a revision, and of the next event so many
 * messages, are done. */
struct position {
    struct service_watch watch;
    int64_t revision;
    size_t n_events;
    unsigned n_messages;
    uint64_t message; /* a number for each, never 0 */
};

struct redis_pubsub {
    struct redis_door *door;
    struct redis_topics *topics;
    struct position sources[2];
    size_t steps_left; /* of this part */
    bool is_full;      /* it ended because subscribers have not taken enough */
    uv_timer_t *timer; /* for the next part */
    struct buffer push;
};

/* --- Messages. --- */

static void spend(struct redis_pubsub *pubsub, size_t steps) {
    pubsub->steps_left -= steps < pubsub->steps_left ? steps : pubsub->steps_left;
}

/* Users may have been removed, and authentication switched on, since it subscribed. */
static bool may_listen(struct redis_connection *connection) {
    return !redis_door_asks_who(connection->door) ||
           service_check_user(connection->door->service, redis_connection_caller(connection),
                              "messages of the Redis protocol") == STATUS_OK;
}

/* Gives what is in pubsub->push to those who have not got it yet. False: the rest comes later. */
static bool push_to(struct redis_pubsub *pubsub, enum source source, struct redis_topic *topic) {
    uint64_t message = pubsub->sources[source].message;
    for (struct list *node = topic->subscriptions.next; node != &topic->subscriptions;
         node = node->next) {
        struct redis_subscription *subscription =
            list_entry(node, struct redis_subscription, in_topic);
        if (subscription->pushed[source] == message) {
            spend(pubsub, 1);
            continue;
        }
        if (pubsub->steps_left == 0) {
            return false;
        }
        if (!redis_output_has_room_for_message(pubsub->door, pubsub->push.size)) {
            pubsub->is_full = true;
            return false;
        }
        if (!redis_output_takes_message(subscription->connection, pubsub->push.size)) {
            subscription->pushed[source] = message;
            continue;
        }
        if (!may_listen(subscription->connection)) {
            raw_connection_close(subscription->connection->raw);
            subscription->pushed[source] = message;
            continue;
        }
        redis_connection_push(subscription->connection,
                              bytes_of(pubsub->push.data, pubsub->push.size));
        subscription->pushed[source] = message;
        pubsub->door->stats.messages++;
        spend(pubsub, PUSH_STEPS + pubsub->push.size / BYTES_A_STEP);
    }
    return true;
}

static bool publish_to_channel(struct redis_pubsub *pubsub, enum source source,
                               enum redis_topic_kind kind, struct bytes channel,
                               struct bytes message) {
    struct redis_topic *topic = redis_topics_find(pubsub->topics, kind, channel);
    if (topic == NULL) {
        return true;
    }
    pubsub->push.size = 0;
    redis_reply_push(&pubsub->push, 3);
    redis_reply_bulk(&pubsub->push, bytes_from_text(kind == SHARD ? "smessage" : "message"));
    redis_reply_bulk(&pubsub->push, channel);
    redis_reply_bulk(&pubsub->push, message);
    return push_to(pubsub, source, topic);
}

/* Whether a pattern takes a channel; a comparison that is too much work is none. */
static bool matches(const struct redis_topic *topic, struct bytes channel, size_t *out_steps) {
    size_t left = MATCH_STEPS_MAX;
    bool is_match = redis_glob_match(redis_topic_name(topic), channel, &left);
    *out_steps = TOPIC_STEPS + MATCH_STEPS_MAX - left;
    return is_match;
}

static bool publish_to_pattern(struct redis_pubsub *pubsub, enum source source,
                               struct redis_topic *topic, struct bytes channel,
                               struct bytes message) {
    size_t steps;
    bool is_match = matches(topic, channel, &steps);
    spend(pubsub, steps);
    if (!is_match) {
        return true;
    }
    pubsub->push.size = 0;
    redis_reply_push(&pubsub->push, 4);
    redis_reply_bulk(&pubsub->push, bytes_from_text("pmessage"));
    redis_reply_bulk(&pubsub->push, redis_topic_name(topic));
    redis_reply_bulk(&pubsub->push, channel);
    redis_reply_bulk(&pubsub->push, message);
    return push_to(pubsub, source, topic);
}

/* False: not all of it was done, and it is to be published again. */
static bool publish(struct redis_pubsub *pubsub, enum source source, enum redis_topic_kind kind,
                    struct bytes channel, struct bytes message) {
    uint64_t number = pubsub->sources[source].message;
    if (!publish_to_channel(pubsub, source, kind, channel, message)) {
        return false;
    }
    struct list *patterns = redis_topics_of(pubsub->topics, PATTERN);
    for (struct list *node = patterns->next; kind != SHARD && node != patterns; node = node->next) {
        struct redis_topic *topic = list_entry(node, struct redis_topic, in_kind);
        if (topic->matched[source] == number) {
            continue;
        }
        if (pubsub->steps_left == 0 ||
            !publish_to_pattern(pubsub, source, topic, channel, message)) {
            return false;
        }
        topic->matched[source] = number;
    }
    pubsub->sources[source].message++;
    return true;
}

size_t redis_pubsub_receivers(struct redis_pubsub *pubsub, bool is_sharded, struct bytes channel) {
    const struct redis_topic *topic =
        redis_topics_find(pubsub->topics, is_sharded ? SHARD : CHANNEL, channel);
    size_t n = topic == NULL ? 0 : topic->n;
    size_t work =
        redis_topics_count(pubsub->topics, PATTERN) * (1 + channel.size / CHANNEL_BYTES_A_WORK);
    /* Information: those that there is no time to compare with are not counted. */
    size_t left = service_allow_work(pubsub->door->service, work) ? PART_STEPS : 0;
    struct list *patterns = redis_topics_of(pubsub->topics, PATTERN);
    for (struct list *node = patterns->next; !is_sharded && node != patterns && left > 0;
         node = node->next) {
        size_t steps;
        topic = list_entry(node, struct redis_topic, in_kind);
        n += matches(topic, channel, &steps) ? topic->n : 0;
        left -= steps < left ? steps : left;
    }
    return n;
}

bool redis_pubsub_is_behind(const struct redis_pubsub *pubsub) {
    const struct service_watch *watch = &pubsub->sources[MESSAGES].watch;
    struct service *service = pubsub->door->service;
    int64_t newest = key_store_revision(state_view_keys(service_view(service)));
    return watch->private.watcher != NULL && !service_watch_is_current(service, watch) &&
           newest - pubsub->sources[MESSAGES].revision > BEHIND_MAX;
}

bool redis_pubsub_is_unheard(const struct redis_pubsub *pubsub) {
    struct service_member member;
    return pubsub->sources[MESSAGES].watch.private.watcher == NULL &&
           service_members(pubsub->door->service, &member, 1) == 1;
}

size_t redis_pubsub_work(const struct redis_pubsub *pubsub) {
    enum { WORK_A_TOPIC = 8 };
    return WORK_A_TOPIC * (redis_topics_count(pubsub->topics, CHANNEL) +
                           redis_topics_count(pubsub->topics, SHARD));
}

/* --- Parts. --- */

static void next_part(uv_timer_t *timer) {
    struct redis_pubsub *pubsub = timer->data;
    for (size_t i = 0; i < 2; i++) {
        service_watch_resume(pubsub->door->service, &pubsub->sources[i].watch);
    }
}

/* Whether an event was delivered already, before its batch was given back. */
static bool is_done(struct position *position, const struct record *record, size_t *n_before) {
    if (record->mod_revision < position->revision) {
        return true;
    }
    if (record->mod_revision > position->revision) {
        position->revision = record->mod_revision;
        position->n_events = 0;
        position->n_messages = 0;
        *n_before = 0;
    }
    return (*n_before)++ < position->n_events;
}

static bool deliver(struct redis_pubsub *pubsub, enum source source,
                    const struct watch_batch *batch,
                    bool (*deliver_one)(struct redis_pubsub *pubsub, const struct record *record)) {
    struct position *position = &pubsub->sources[source];
    size_t n_before = 0;
    pubsub->steps_left = PART_STEPS;
    pubsub->is_full = false;
    for (size_t i = 0; i < batch->n_events; i++) {
        if (is_done(position, batch->events[i], &n_before)) {
            continue;
        }
        if (pubsub->steps_left == 0 || !deliver_one(pubsub, batch->events[i])) {
            uv_timer_start(pubsub->timer, next_part, pubsub->is_full ? FULL_MS : 0, 0);
            return false;
        }
        position->n_events++;
        position->n_messages = 0;
        spend(pubsub, TOPIC_STEPS);
    }
    return true;
}

static bool deliver_message(struct redis_pubsub *pubsub, const struct record *record) {
    struct bytes key = record_key(record);
    return record_is_tombstone(record) || key.size == 0 ||
           publish(pubsub, MESSAGES, key.data[0] == 'q' ? SHARD : CHANNEL,
                   bytes_of(key.data + 1, key.size - 1), record_value(record));
}

static bool deliver_messages(struct service_watch *watch, const struct watch_batch *batch) {
    struct position *position = list_entry(watch, struct position, watch);
    struct redis_pubsub *pubsub = list_entry(position - MESSAGES, struct redis_pubsub, sources[0]);
    return deliver(pubsub, MESSAGES, batch, deliver_message);
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

/* Two messages, which are counted, so that a part may end between them. */
static bool tell_expired(struct redis_pubsub *pubsub, uint32_t events,
                         const struct record *record) {
    struct bytes key = redis_key_of(record);
    unsigned db = record_key(record).data[0];
    uint8_t channel[REDIS_EVENT_PREFIX_SIZE + REDIS_KEY_SIZE_MAX];
    struct bytes expired = bytes_from_text("expired");
    unsigned *n_messages = &pubsub->sources[EXPIRY].n_messages;
    if (*n_messages == 0 && (events & REDIS_EVENT_KEYSPACE) != 0 &&
        key.size <= REDIS_KEY_SIZE_MAX) {
        size_t size = redis_event_prefix(true, db, channel);
        memcpy(channel + size, key.data, key.size);
        if (!publish(pubsub, EXPIRY, CHANNEL, bytes_of(channel, size + key.size), expired)) {
            return false;
        }
    }
    *n_messages = 1;
    if ((events & REDIS_EVENT_KEYEVENT) != 0) {
        size_t size = redis_event_prefix(false, db, channel);
        memcpy(channel + size, expired.data, expired.size);
        return publish(pubsub, EXPIRY, CHANNEL, bytes_of(channel, size + expired.size), key);
    }
    return true;
}

static bool deliver_expired(struct redis_pubsub *pubsub, const struct record *record) {
    const struct key_store *keys = state_view_keys(service_view(pubsub->door->service));
    uint32_t events = events_wanted(pubsub->door);
    const struct record *previous = events == 0 ? NULL : key_store_previous(keys, record);
    return !record_is_tombstone(record) || previous == NULL || previous->lease_id == 0 ||
           tell_expired(pubsub, events, record);
}

static bool deliver_expiry(struct service_watch *watch, const struct watch_batch *batch) {
    struct position *position = list_entry(watch, struct position, watch);
    struct redis_pubsub *pubsub = list_entry(position - EXPIRY, struct redis_pubsub, sources[0]);
    return deliver(pubsub, EXPIRY, batch, deliver_expired);
}

/* --- Watches. --- */

static void begin(struct redis_pubsub *pubsub, struct service_watch *watch) {
    struct service_watch_options options = {.start_revision = 0};
    if (watch == &pubsub->sources[MESSAGES].watch) {
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
    struct position *position = list_entry(watch, struct position, watch);
    (void)compacted_revision;
    begin(list_entry(position - MESSAGES, struct redis_pubsub, sources[0]), watch);
}

static void compacted_expiry(struct service_watch *watch, int64_t compacted_revision) {
    struct position *position = list_entry(watch, struct position, watch);
    (void)compacted_revision;
    begin(list_entry(position - EXPIRY, struct redis_pubsub, sources[0]), watch);
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
    const struct redis_topics *topics = pubsub->topics;
    size_t n = redis_topics_count(topics, CHANNEL) + redis_topics_count(topics, PATTERN) +
               redis_topics_count(topics, SHARD);
    set_watch(pubsub, &pubsub->sources[MESSAGES].watch, n > 0);
    set_watch(pubsub, &pubsub->sources[EXPIRY].watch, redis_topics_count_of_keys(topics) > 0);
}

void redis_pubsub_leave(struct redis_connection *connection) {
    struct redis_pubsub *pubsub = connection->door->pubsub;
    while (!list_is_empty(&connection->subscriptions)) {
        redis_topics_unsubscribe(
            pubsub->topics,
            list_entry(connection->subscriptions.next, struct redis_subscription, in_connection));
    }
    redis_topics_give_memory_back(pubsub->topics);
    set_watches(pubsub);
}

/* --- Commands. --- */

static void reply_change(struct redis_connection *connection, enum redis_topic_kind kind,
                         bool is_subscribed, const struct bytes *name, struct buffer *out) {
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

static void run_subscribe(struct redis_connection *connection, enum redis_topic_kind kind,
                          const struct bytes *names, size_t n, struct buffer *out) {
    struct redis_topics *topics = connection->door->pubsub->topics;
    for (size_t i = 0; i < n; i++) {
        if (kind == PATTERN && names[i].size > REDIS_PATTERN_SIZE_MAX) {
            redis_reply_error_text(out, "ERR a pattern has 1024 bytes at most");
            return;
        }
        if (!redis_topics_subscribe(topics, connection, kind, names[i])) {
            redis_reply_error_text(out, "ERR too many subscriptions");
            return;
        }
        reply_change(connection, kind, true, &names[i], out);
    }
}

static void run_unsubscribe(struct redis_connection *connection, enum redis_topic_kind kind,
                            const struct bytes *names, size_t n, struct buffer *out) {
    struct redis_topics *topics = connection->door->pubsub->topics;
    if (n == 0 && connection->n_subscriptions[kind] == 0) {
        reply_change(connection, kind, false, NULL, out);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        struct redis_subscription *subscription =
            redis_topics_find_subscription(topics, connection, kind, names[i]);
        if (subscription != NULL) {
            redis_topics_unsubscribe(topics, subscription);
        }
        reply_change(connection, kind, false, &names[i], out);
    }
    struct list *node = connection->subscriptions.next;
    while (n == 0 && node != &connection->subscriptions) {
        struct redis_subscription *subscription =
            list_entry(node, struct redis_subscription, in_connection);
        node = node->next;
        if (subscription->topic->kind == kind) {
            struct bytes name = redis_topic_name(subscription->topic);
            name.data = arena_copy(&connection->door->arena, name.data, name.size);
            redis_topics_unsubscribe(topics, subscription);
            reply_change(connection, kind, false, &name, out);
        }
    }
}

/* False: it is too much work. */
static bool list_channels(struct redis_pubsub *pubsub, enum redis_topic_kind kind,
                          const struct bytes *pattern, struct buffer *out) {
    struct list *all = redis_topics_of(pubsub->topics, kind);
    size_t left = REDIS_GLOB_STEPS_MAX;
    size_t n = 0;
    struct buffer names;
    buffer_init(&names);
    for (struct list *node = all->next;
         node != all && left > 0 && names.size <= REDIS_REPLY_BYTES_MAX; node = node->next) {
        struct bytes name = redis_topic_name(list_entry(node, struct redis_topic, in_kind));
        if (pattern == NULL || redis_glob_match(*pattern, name, &left)) {
            redis_reply_bulk(&names, name);
            n++;
        }
    }
    bool is_done = left > 0 && names.size <= REDIS_REPLY_BYTES_MAX;
    if (is_done) {
        redis_reply_array(out, n);
        buffer_append(out, names.data, names.size);
    }
    buffer_clear(&names);
    return is_done;
}

static void count_subscribers(struct redis_pubsub *pubsub, enum redis_topic_kind kind,
                              const struct bytes *names, size_t n, struct buffer *out) {
    redis_reply_array(out, 2 * n);
    for (size_t i = 0; i < n; i++) {
        const struct redis_topic *topic = redis_topics_find(pubsub->topics, kind, names[i]);
        redis_reply_bulk(out, names[i]);
        redis_reply_integer(out, topic == NULL ? 0 : (int64_t)topic->n);
    }
}

static void run_pubsub(struct redis_pubsub *pubsub, const struct bytes *argv, size_t argc,
                       struct buffer *out) {
    bool is_shard =
        redis_word_is(argv[1], "shardchannels") || redis_word_is(argv[1], "shardnumsub");
    enum redis_topic_kind kind = is_shard ? SHARD : CHANNEL;
    if (argc <= 3 &&
        (redis_word_is(argv[1], "channels") || redis_word_is(argv[1], "shardchannels"))) {
        if (!list_channels(pubsub, kind, argc == 3 ? &argv[2] : NULL, out)) {
            redis_reply_status(out, STATUS_REQUEST_TOO_LARGE);
        }
    } else if (redis_word_is(argv[1], "numsub") || redis_word_is(argv[1], "shardnumsub")) {
        count_subscribers(pubsub, kind, argv + 2, argc - 2, out);
    } else if (argc == 2 && redis_word_is(argv[1], "numpat")) {
        redis_reply_integer(out, (int64_t)redis_topics_count(pubsub->topics, PATTERN));
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

static void free_timer(uv_handle_t *handle) {
    free(handle);
}

struct redis_pubsub *redis_pubsub_create(struct redis_door *door) {
    struct redis_pubsub *pubsub = calloc(1, sizeof *pubsub);
    uv_timer_t *timer = calloc(1, sizeof *timer);
    if (pubsub == NULL || timer == NULL) {
        abort();
    }
    pubsub->door = door;
    pubsub->topics = redis_topics_create(&door->hash_key);
    pubsub->timer = timer;
    uv_timer_init(door->environment->loop, timer);
    timer->data = pubsub;
    buffer_init(&pubsub->push);
    pubsub->sources[MESSAGES] = (struct position){
        .watch = {.deliver = deliver_messages, .compacted = compacted_messages, .revoked = revoked},
        .message = 1};
    pubsub->sources[EXPIRY] = (struct position){
        .watch = {.deliver = deliver_expiry, .compacted = compacted_expiry, .revoked = revoked},
        .message = 1};
    return pubsub;
}

void redis_pubsub_destroy(struct redis_pubsub *pubsub) {
    service_unwatch(pubsub->door->service, &pubsub->sources[MESSAGES].watch);
    service_unwatch(pubsub->door->service, &pubsub->sources[EXPIRY].watch);
    uv_close((uv_handle_t *)pubsub->timer, free_timer);
    redis_topics_destroy(pubsub->topics);
    buffer_clear(&pubsub->push);
    free(pubsub);
}
