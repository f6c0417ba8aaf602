/* Responses, made of the newest state when they are sent. */
#include "base/pb_append.h"
#include "doors/xds/xds_resources.h"
#include "doors/xds/xds_stream.h"
#include "doors/xds/xds_version.h"

/* One response has about so much at most, but one resource at least and, of state-of-the-world, all
 * clusters or listeners. gRPC clients take messages of 4 MiB. */
enum { RESPONSE_SIZE = 1024 * 1024 };

static const char control_plane[] = "leased";

/* --- Resources. --- */

/* What a resource says just now. The message is the scratch's or shared. */
static struct xds_encoded encode(struct xds_subscription *subscription, struct buffer *scratch) {
    struct xds_topic *topic = subscription->topic;
    if (topic->type == XDS_ENDPOINTS) {
        return xds_shared_read(topic->stream->door, subscription->shared,
                               &subscription->wanted_revision);
    }
    scratch->size = 0;
    struct xds_writer writer = {.out = scratch};
    xds_resource_write(&writer, topic->type, xds_subscription_text(subscription));
    return (struct xds_encoded){.message = bytes_of(scratch->data, scratch->size),
                                .revision = XDS_STATIC_REVISION,
                                .has_message = true};
}

static void append_any(struct buffer *out, enum xds_type type, struct bytes message) {
    size_t any = pb_append_begin(out, 2);
    pb_append_bytes(out, 1, bytes_from_text(xds_type_url(type)));
    pb_append_element(out, 2, message);
    pb_append_end(out, any);
}

static void append_delta(struct buffer *out, const struct xds_subscription *subscription,
                         const struct xds_encoded *encoded) {
    const struct xds_topic *topic = subscription->topic;
    char version[XDS_VERSION_SIZE];
    struct bytes zone =
        topic->type == XDS_ENDPOINTS ? xds_stream_zone(topic->stream) : bytes_of("", 0);
    size_t version_size = xds_version_write(version, encoded->revision, zone);
    size_t resource = pb_append_begin(out, 2);
    pb_append_bytes(out, 1, bytes_of(version, version_size));
    append_any(out, topic->type, encoded->message);
    pb_append_bytes(out, 3, xds_subscription_text(subscription));
    pb_append_end(out, resource);
}

/* --- Responses. --- */

struct response {
    struct buffer *out;
    struct buffer *scratch;
    size_t n_resources; /* and names that were removed */
};

static void note_sent(struct xds_subscription *subscription, int64_t revision) {
    struct xds_topic *topic = subscription->topic;
    subscription->sent_revision = revision;
    subscription->is_forced = false;
    topic->revision = revision > topic->revision ? revision : topic->revision;
}

static void add_whole(struct response *response, struct xds_subscription *subscription) {
    struct xds_encoded encoded = encode(subscription, response->scratch);
    append_any(response->out, subscription->topic->type, encoded.message);
    note_sent(subscription, encoded.revision);
    response->n_resources++;
}

/* All there are: what is left out is gone. */
static void add_all(struct response *response, struct xds_topic *topic) {
    while (list_pop_first(&topic->dirty) != NULL) {
    }
    for (size_t i = 0; i < topic->n; i++) {
        if (!topic->subscriptions[i]->is_missing) {
            add_whole(response, topic->subscriptions[i]);
        }
    }
}

static void add_removed(struct response *response, struct xds_subscription *subscription) {
    pb_append_element(response->out, 6, xds_subscription_text(subscription));
    response->n_resources++;
    if (subscription->is_gone) {
        xds_topic_remove(subscription->topic, subscription);
    }
}

/* False: it has to be read again, later. */
static bool add_one(struct response *response, struct xds_subscription *subscription,
                    bool is_delta) {
    if (subscription->is_missing || subscription->is_gone) {
        if (is_delta) {
            add_removed(response, subscription);
        }
        return true;
    }
    struct xds_encoded encoded = encode(subscription, response->scratch);
    if (!encoded.has_message ||
        (encoded.revision == subscription->sent_revision && !subscription->is_forced)) {
        return !encoded.is_behind;
    }
    if (is_delta) {
        append_delta(response->out, subscription, &encoded);
    } else {
        append_any(response->out, subscription->topic->type, encoded.message);
    }
    note_sent(subscription, encoded.revision);
    response->n_resources++;
    return !encoded.is_behind;
}

/* Those that changed. The rest of many goes into the next response. */
static void add_changed(struct response *response, struct xds_topic *topic) {
    struct list behind;
    list_init(&behind);
    struct list *link = NULL;
    bool has_time = true;
    while (response->out->size < RESPONSE_SIZE && has_time &&
           (link = list_pop_first(&topic->dirty)) != NULL) {
        if (!add_one(response, list_entry(link, struct xds_subscription, in_dirty),
                     topic->stream->is_delta)) {
            list_append(&behind, link);
        }
        has_time = topic->type != XDS_ENDPOINTS || xds_shared_has_time(topic->stream->door);
    }
    bool is_late = !has_time && !list_is_empty(&topic->dirty);
    topic->is_behind = is_late || (list_is_empty(&topic->dirty) && !list_is_empty(&behind));
    if (is_late || !list_is_empty(&behind)) {
        xds_stream_mark_behind(topic->stream);
    }
    if (is_late) { /* small ones do not wait for the workers of large ones */
        xds_stream_retry_later(topic->stream->door);
    }
    list_append_all(&topic->dirty, &behind);
}

static void append_end(struct xds_topic *topic, struct buffer *out) {
    bool is_delta = topic->stream->is_delta;
    char text[XDS_VERSION_SIZE];
    int64_t revision = topic->type == XDS_ENDPOINTS
                           ? topic->revision
                           : key_store_revision(xds_keys(topic->stream->door));
    size_t size = xds_version_write(text, revision, bytes_of("", 0));
    pb_append_bytes(out, 1, bytes_of(text, size));
    pb_append_bytes(out, 4, bytes_from_text(xds_type_url(topic->type)));
    size = xds_version_write(text, (int64_t)++topic->nonce, bytes_of("", 0));
    pb_append_bytes(out, 5, bytes_of(text, size));
    size_t identity = pb_append_begin(out, is_delta ? 7 : 6);
    pb_append_bytes(out, 1, bytes_from_text(control_plane));
    pb_append_end(out, identity);
}

bool xds_topic_has_work(const struct xds_topic *topic) {
    return topic->is_started && topic->n_unread == 0 && !topic->needs_list && !topic->is_behind &&
           (topic->owes_answer || !list_is_empty(&topic->dirty));
}

void xds_topic_send(struct xds_topic *topic) {
    struct xds_stream *stream = topic->stream;
    struct xds_door *door = stream->door;
    struct buffer scratch;
    buffer_init(&scratch);
    door->scratch.size = 0;
    struct response response = {.out = &door->scratch, .scratch = &scratch};
    bool owes_answer = topic->owes_answer;
    topic->owes_answer = false;
    if (xds_type_is_whole(topic->type) && !stream->is_delta) {
        add_all(&response, topic);
    } else {
        add_changed(&response, topic);
    }
    buffer_clear(&scratch);
    if (response.n_resources == 0 && !owes_answer) {
        return;
    }
    append_end(topic, &door->scratch);
    grpc_call_send(stream->call, bytes_of(door->scratch.data, door->scratch.size));
    door->stats.responses++;
    door->stats.resources += response.n_resources;
}
