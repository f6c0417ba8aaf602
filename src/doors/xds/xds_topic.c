/* The names that a stream is subscribed to, of one type. */
#include "doors/xds/xds_stream.h"

#include <assert.h>
#include <stdlib.h>

static const struct xds_error error_names = {GRPC_RESOURCE_EXHAUSTED,
                                             "too many names on one stream: use several streams"};
static const struct xds_error error_memory = {GRPC_RESOURCE_EXHAUSTED,
                                              "the client holds too much memory of the server"};

/* Memory of a subscription, here, in the watch and in what is shared, about. */
enum { SUBSCRIPTION_BYTES = 512, NAME_COPIES = 4, CAPACITY_MIN = 8 };

static size_t cost_of(size_t name_size) {
    return SUBSCRIPTION_BYTES + NAME_COPIES * name_size;
}

void xds_topic_init(struct xds_topic *topic, struct xds_stream *stream, enum xds_type type) {
    topic->stream = stream;
    topic->type = type;
    list_init(&topic->dirty);
}

/* --- The sorted array. --- */

/* Where the name is, or would be. */
static size_t place_of(const struct xds_topic *topic, struct bytes name) {
    size_t low = 0;
    size_t high = topic->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (bytes_compare(xds_subscription_text(topic->subscriptions[middle]), name) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

struct xds_subscription *xds_topic_find(const struct xds_topic *topic, struct bytes name) {
    size_t place = place_of(topic, name);
    if (place < topic->n && bytes_equal(xds_subscription_text(topic->subscriptions[place]), name)) {
        return topic->subscriptions[place];
    }
    return NULL;
}

static bool make_room(struct xds_topic *topic) {
    if (topic->n < topic->capacity) {
        return true;
    }
    size_t capacity = topic->capacity == 0 ? CAPACITY_MIN : 2 * topic->capacity;
    struct xds_subscription **grown =
        realloc(topic->subscriptions, capacity * sizeof *topic->subscriptions);
    if (grown == NULL) {
        return false;
    }
    topic->subscriptions = grown;
    topic->capacity = capacity;
    return true;
}

static struct xds_subscription *create(struct xds_topic *topic, struct bytes name) {
    struct xds_subscription *subscription = calloc(1, sizeof *subscription + name.size);
    if (subscription == NULL) {
        return NULL;
    }
    subscription->topic = topic;
    subscription->text_size = name.size;
    if (name.size > 0) {
        memcpy(subscription->text, name.data, name.size);
    }
    list_init(&subscription->in_dirty);
    subscription->is_missing =
        !xds_name_parse(xds_subscription_text(subscription), &subscription->name);
    return subscription;
}

/* NULL: the stream was ended. */
static struct xds_subscription *add(struct xds_topic *topic, struct bytes name) {
    struct xds_stream *stream = topic->stream;
    size_t cost = cost_of(name.size);
    if (topic->n >= XDS_NAMES_MAX + (topic->is_wildcard ? XDS_WILDCARD_MAX : 0)) {
        xds_stream_finish(stream, &error_names);
        return NULL;
    }
    if (!grpc_call_hold(stream->call, cost)) {
        xds_stream_finish(stream, &error_memory);
        return NULL;
    }
    struct xds_subscription *subscription = make_room(topic) ? create(topic, name) : NULL;
    if (subscription == NULL) {
        grpc_call_release(stream->call, cost);
        xds_stream_finish(stream, &error_memory);
        return NULL;
    }
    size_t place = place_of(topic, name);
    memmove(topic->subscriptions + place + 1, topic->subscriptions + place,
            (topic->n - place) * sizeof *topic->subscriptions);
    topic->subscriptions[place] = subscription;
    topic->n++;
    stream->door->stats.subscriptions++;
    return subscription;
}

static void destroy(struct xds_topic *topic, struct xds_subscription *subscription) {
    xds_subscription_end(subscription);
    list_remove(&subscription->in_dirty);
    topic->n_unread -= !subscription->is_read;
    grpc_call_release(topic->stream->call, cost_of(subscription->text_size));
    topic->stream->door->stats.subscriptions--;
    free(subscription);
}

void xds_topic_remove(struct xds_topic *topic, struct xds_subscription *subscription) {
    size_t place = place_of(topic, xds_subscription_text(subscription));
    assert(topic->subscriptions[place] == subscription);
    topic->n--;
    memmove(topic->subscriptions + place, topic->subscriptions + place + 1,
            (topic->n - place) * sizeof *topic->subscriptions);
    destroy(topic, subscription);
}

void xds_topic_clear(struct xds_topic *topic) {
    xds_topic_unlist(topic);
    for (size_t i = 0; i < topic->n; i++) {
        destroy(topic, topic->subscriptions[i]);
    }
    free(topic->subscriptions);
    topic->subscriptions = NULL;
    topic->n = 0;
}

/* --- One name. --- */

void xds_subscription_mark_dirty(struct xds_subscription *subscription) {
    if (list_is_empty(&subscription->in_dirty)) {
        list_append(&subscription->topic->dirty, &subscription->in_dirty);
    }
}

/* It is to be sent: at once when it could be sent already, else once it was read. */
static void want(struct xds_subscription *subscription) {
    struct xds_topic *topic = subscription->topic;
    subscription->is_gone = false;
    xds_subscription_mark_dirty(subscription);
    /* A response of state-of-the-world has all of them. */
    topic->owes_answer =
        topic->owes_answer || (xds_type_is_whole(topic->type) && !topic->stream->is_delta);
}

/* NULL: the stream was ended. */
static struct xds_subscription *ask(struct xds_topic *topic, struct bytes name) {
    struct xds_subscription *subscription = xds_topic_find(topic, name);
    if (subscription == NULL) {
        subscription = add(topic, name);
        if (subscription == NULL) {
            return NULL;
        }
        subscription->is_read = subscription->is_missing;
        topic->n_unread += !subscription->is_read;
        want(subscription);
    } else if (!subscription->is_asked && subscription->is_gone) {
        want(subscription);
    }
    subscription->is_asked = true;
    return subscription;
}

/* Whoever knows of it by a wildcard alone is told when it goes. */
static void forget(struct xds_topic *topic, struct xds_subscription *subscription) {
    subscription->is_asked = false;
    if (!subscription->is_listed) {
        xds_topic_remove(topic, subscription);
    }
}

/* --- Wildcards. --- */

struct xds_subscription *xds_topic_list_name(struct xds_topic *topic, struct bytes name) {
    struct xds_subscription *subscription = xds_topic_find(topic, name);
    if (subscription == NULL) {
        subscription = add(topic, name);
        if (subscription == NULL) {
            return NULL;
        }
        subscription->is_read = true;
        want(subscription);
    } else if (subscription->is_gone) {
        want(subscription);
    }
    subscription->is_listed = true;
    return subscription;
}

void xds_topic_unlist_name(struct xds_topic *topic, struct xds_subscription *subscription) {
    subscription->is_listed = false;
    if (subscription->is_asked) {
        return;
    }
    if (topic->stream->is_delta) {
        subscription->is_gone = true;
        xds_subscription_mark_dirty(subscription);
    } else {
        topic->owes_answer = true;
        xds_topic_remove(topic, subscription);
    }
}

static void begin_wildcard(struct xds_topic *topic) {
    if (!topic->is_wildcard) {
        topic->is_wildcard = true;
        topic->needs_list = true;
    }
}

static void end_wildcard(struct xds_topic *topic) {
    if (!topic->is_wildcard) {
        return;
    }
    xds_topic_unlist(topic);
    topic->is_wildcard = false;
    topic->needs_list = false;
    for (size_t i = topic->n; i > 0; i--) {
        struct xds_subscription *subscription = topic->subscriptions[i - 1];
        subscription->is_listed = false;
        if (!subscription->is_asked) {
            xds_topic_remove(topic, subscription);
        }
    }
}

static bool has_wildcard(const struct xds_topic *topic, const struct bytes *names, size_t n) {
    for (size_t i = 0; i < n && xds_type_is_whole(topic->type); i++) {
        if (xds_name_is_wildcard(names[i])) {
            return true;
        }
    }
    return false;
}

/* --- Requests. --- */

/* All that it names, or no name from the first request on, which stands for everything. */
void xds_topic_take_whole(struct xds_topic *topic, const struct xds_request *request) {
    topic->owes_answer =
        topic->owes_answer || (!topic->is_started && xds_type_is_whole(topic->type));
    topic->is_started = true;
    topic->had_names = topic->had_names || request->n_names > 0;
    bool is_wildcard = (xds_type_is_whole(topic->type) && !topic->had_names) ||
                       has_wildcard(topic, request->names, request->n_names);
    if (is_wildcard) {
        begin_wildcard(topic);
    } else {
        end_wildcard(topic);
    }
    for (size_t i = 0; i < request->n_names; i++) {
        if (is_wildcard && xds_name_is_wildcard(request->names[i])) {
            continue;
        }
        struct xds_subscription *subscription = ask(topic, request->names[i]);
        if (subscription == NULL) {
            return;
        }
        subscription->is_marked = true;
    }
    for (size_t i = topic->n; i > 0; i--) {
        struct xds_subscription *subscription = topic->subscriptions[i - 1];
        if (subscription->is_asked && !subscription->is_marked) {
            forget(topic, subscription);
        } else {
            subscription->is_marked = false;
        }
    }
}

/* What the client has from an earlier stream. One of a wildcard that is not there any more is
 * added as gone, so that the client is told. */
static void take_known(struct xds_topic *topic, const struct xds_request *request) {
    struct bytes zone =
        topic->type == XDS_ENDPOINTS ? xds_stream_zone(topic->stream) : bytes_of("", 0);
    for (size_t i = 0; i < request->n_known; i++) {
        const struct xds_known *known = &request->known[i];
        struct xds_subscription *subscription = xds_topic_find(topic, known->name);
        if (subscription == NULL && topic->is_wildcard) {
            subscription = add(topic, known->name);
            if (subscription == NULL) {
                return;
            }
            subscription->is_read = true;
            subscription->is_gone = true;
            xds_subscription_mark_dirty(subscription);
        }
        if (subscription != NULL && !subscription->is_missing) {
            subscription->sent_revision = xds_version_read(known->version, zone);
        }
    }
}

void xds_topic_take_delta(struct xds_topic *topic, const struct xds_request *request) {
    bool is_first = !topic->is_started;
    topic->owes_answer = topic->owes_answer || (is_first && xds_type_is_whole(topic->type));
    topic->is_started = true;
    if (has_wildcard(topic, request->unsubscribed, request->n_unsubscribed)) {
        end_wildcard(topic);
    }
    for (size_t i = 0; i < request->n_unsubscribed; i++) {
        struct xds_subscription *subscription = xds_topic_find(topic, request->unsubscribed[i]);
        if (subscription != NULL && subscription->is_asked) {
            forget(topic, subscription);
        }
    }
    bool is_wildcard = has_wildcard(topic, request->names, request->n_names);
    if (is_wildcard || (is_first && request->n_names == 0 && xds_type_is_whole(topic->type))) {
        begin_wildcard(topic);
    }
    for (size_t i = 0; i < request->n_names; i++) {
        if (is_wildcard && xds_name_is_wildcard(request->names[i])) {
            continue;
        }
        struct xds_subscription *subscription = ask(topic, request->names[i]);
        if (subscription == NULL) {
            return;
        }
        /* The client may have dropped it before it asked again. */
        subscription->is_forced = !is_first;
        xds_subscription_mark_dirty(subscription);
    }
    if (is_first) {
        take_known(topic, request);
    }
}
