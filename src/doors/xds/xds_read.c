/* Before a name is shown for the first time its state is read as every read is: with the caller's
 * rights, and no older than what others have been told. A member that has just started, or has no
 * leader, waits, and never answers with less than there is. From then on a watch tells of changes.
 */
#include "doors/xds/xds_stream.h"

#include "registry/registry_keys.h"
#include "registry/registry_view.h"

#include <stdlib.h>

static const struct xds_error error_services = {
    GRPC_RESOURCE_EXHAUSTED, "more services than a wildcard may stand for: name them"};

/* --- Changes of a service. --- */

static bool deliver(struct service_watch *watch, const struct watch_batch *batch) {
    struct xds_subscription *subscription = list_entry(watch, struct xds_subscription, watch);
    if (batch->n_events > 0) {
        xds_subscription_mark_dirty(subscription);
        xds_stream_mark_stale(subscription->topic->stream);
    }
    return true;
}

/* A snapshot was installed that has less history: read again, and watch from there. */
static void compacted(struct service_watch *watch, int64_t compacted_revision) {
    (void)compacted_revision;
    struct xds_subscription *subscription = list_entry(watch, struct xds_subscription, watch);
    if (subscription->is_read) {
        subscription->is_read = false;
        subscription->topic->n_unread++;
    }
    xds_stream_mark_stale(subscription->topic->stream);
}

static void revoked(struct service_watch *watch, enum status status) {
    struct xds_subscription *subscription = list_entry(watch, struct xds_subscription, watch);
    xds_stream_finish(subscription->topic->stream, xds_error_of(status));
}

static enum status begin(struct xds_subscription *subscription) {
    struct xds_stream *stream = subscription->topic->stream;
    struct xds_door *door = stream->door;
    if (subscription->shared == NULL) {
        subscription->shared = xds_shared_hold(door->shared, xds_subscription_text(subscription),
                                               xds_stream_zone(stream));
        if (subscription->shared == NULL) {
            return STATUS_NO_MEMORY;
        }
    }
    subscription->watch.deliver = deliver;
    subscription->watch.compacted = compacted;
    subscription->watch.revoked = revoked;
    const struct service_watch_options options = {
        .range = registry_service_range(&door->arena, subscription->name.service)};
    enum status status = service_watch(door->service, grpc_call_caller(stream->call),
                                       &subscription->watch, &options);
    arena_reset(&door->arena);
    return status;
}

void xds_subscription_end(struct xds_subscription *subscription) {
    struct xds_door *door = subscription->topic->stream->door;
    service_unwatch(door->service, &subscription->watch);
    if (subscription->shared != NULL) {
        xds_shared_release(door->shared, subscription->shared);
        subscription->shared = NULL;
    }
}

/* --- Services that come and go. --- */

static bool may_read(struct xds_stream *stream, struct bytes service) {
    struct xds_door *door = stream->door;
    struct key_range range = registry_service_range(&door->request_arena, service);
    return service_read_local(door->service, grpc_call_caller(stream->call), &range, 1) ==
           STATUS_OK;
}

static void list_name(struct xds_topic *topic, struct bytes name) {
    if (may_read(topic->stream, name)) {
        (void)xds_topic_list_name(topic, name);
    }
}

static bool deliver_names(struct service_watch *watch, const struct watch_batch *batch) {
    struct xds_topic *topic = list_entry(watch, struct xds_topic, names_watch);
    for (size_t i = 0; i < batch->n_events && !topic->stream->is_finished; i++) {
        struct bytes key = record_key(batch->events[i]);
        struct bytes name = bytes_of(key.data + 1, key.size - 1);
        if (!record_is_tombstone(batch->events[i])) {
            list_name(topic, name);
            continue;
        }
        struct xds_subscription *subscription = xds_topic_find(topic, name);
        if (subscription != NULL && subscription->is_listed) {
            xds_topic_unlist_name(topic, subscription);
        }
    }
    arena_reset(&topic->stream->door->request_arena);
    xds_stream_mark_stale(topic->stream);
    return true;
}

static void compacted_names(struct service_watch *watch, int64_t compacted_revision) {
    (void)compacted_revision;
    struct xds_topic *topic = list_entry(watch, struct xds_topic, names_watch);
    topic->needs_list = true;
    xds_stream_mark_stale(topic->stream);
}

static void revoked_names(struct service_watch *watch, enum status status) {
    xds_stream_finish(list_entry(watch, struct xds_topic, names_watch)->stream,
                      xds_error_of(status));
}

struct listing {
    struct xds_topic *topic;
    size_t n;
};

static bool visit_name(void *context, struct bytes name) {
    struct listing *listing = context;
    if (++listing->n > XDS_WILDCARD_MAX) {
        xds_stream_finish(listing->topic->stream, &error_services);
    }
    if (!listing->topic->stream->is_finished && may_read(listing->topic->stream, name)) {
        struct xds_subscription *subscription = xds_topic_list_name(listing->topic, name);
        if (subscription != NULL) {
            subscription->is_marked = true;
        }
    }
    return !listing->topic->stream->is_finished;
}

/* What was listed before and is not there any more goes. */
static enum status list_names(struct xds_topic *topic) {
    struct xds_stream *stream = topic->stream;
    struct xds_door *door = stream->door;
    struct listing listing = {.topic = topic};
    registry_view_visit_services(xds_keys(door), &door->arena, bytes_of("", 0), visit_name,
                                 &listing);
    for (size_t i = topic->n; i > 0 && !stream->is_finished; i--) {
        struct xds_subscription *subscription = topic->subscriptions[i - 1];
        if (subscription->is_listed && !subscription->is_marked) {
            xds_topic_unlist_name(topic, subscription);
        } else {
            subscription->is_marked = false;
        }
    }
    topic->needs_list = false;
    topic->names_watch.deliver = deliver_names;
    topic->names_watch.compacted = compacted_names;
    topic->names_watch.revoked = revoked_names;
    const struct service_watch_options options = {
        .range = registry_names_range(&door->arena, bytes_of("", 0))};
    enum status status =
        service_watch(door->service, grpc_call_caller(stream->call), &topic->names_watch, &options);
    arena_reset(&door->arena);
    arena_reset(&door->request_arena);
    return status;
}

void xds_topic_unlist(struct xds_topic *topic) {
    service_unwatch(topic->stream->door->service, &topic->names_watch);
}

/* --- The read. --- */

static bool needs_read(const struct xds_stream *stream) {
    for (int type = 0; type < XDS_TYPES; type++) {
        if (stream->topics[type].n_unread > 0 || stream->topics[type].needs_list) {
            return true;
        }
    }
    return false;
}

/* The ranges of all that was not read yet, in arena memory. */
static struct key_range *ranges_of(struct xds_stream *stream, size_t *out_n) {
    size_t n = 0;
    for (int type = 0; type < XDS_TYPES; type++) {
        n += stream->topics[type].n_unread;
    }
    struct arena *arena = &stream->door->arena;
    struct key_range *ranges = arena_calloc(arena, n, sizeof *ranges);
    size_t at = 0;
    for (int type = 0; type < XDS_TYPES; type++) {
        struct xds_topic *topic = &stream->topics[type];
        for (size_t i = 0; i < topic->n && at < n; i++) {
            struct xds_subscription *subscription = topic->subscriptions[i];
            if (!subscription->is_read) {
                subscription->is_asking = true;
                ranges[at++] = registry_service_range(arena, subscription->name.service);
            }
        }
    }
    *out_n = at;
    return ranges;
}

static enum status begin_asked(struct xds_topic *topic) {
    enum status status = topic->needs_list ? list_names(topic) : STATUS_OK;
    for (size_t i = 0; i < topic->n && status == STATUS_OK && topic->n_unread > 0; i++) {
        struct xds_subscription *subscription = topic->subscriptions[i];
        if (!subscription->is_asking) {
            continue;
        }
        subscription->is_asking = false;
        subscription->is_read = true;
        topic->n_unread--;
        xds_subscription_mark_dirty(subscription);
        if (topic->type == XDS_ENDPOINTS) {
            status = begin(subscription);
        }
    }
    return status;
}

static void read_done(struct xds_stream *stream, enum status status) {
    for (int type = 0; type < XDS_TYPES && status == STATUS_OK; type++) {
        status = begin_asked(&stream->topics[type]);
    }
    if (status != STATUS_OK) {
        xds_stream_finish(stream, xds_error_of(status));
    }
}

static void ready(struct service_read *read, enum status status) {
    struct xds_stream *stream = list_entry(read, struct xds_stream, read);
    stream->is_reading = false;
    if (stream->call == NULL) {
        free(stream);
    } else if (!stream->is_finished) {
        read_done(stream, status);
        xds_stream_mark_stale(stream);
    }
}

void xds_stream_read(struct xds_stream *stream) {
    struct xds_door *door = stream->door;
    if (stream->is_reading || stream->is_finished || !needs_read(stream)) {
        return;
    }
    const struct caller *caller = grpc_call_caller(stream->call);
    enum status status = service_check_user(door->service, caller, "xDS resources");
    if (status == STATUS_OK) {
        size_t n = 0;
        const struct key_range *ranges = ranges_of(stream, &n);
        stream->read.ready = ready;
        status = service_read(door->service, caller, &stream->read, ranges, n);
        arena_reset(&door->arena);
    }
    if (status == STATUS_PENDING) {
        stream->is_reading = true;
    } else {
        read_done(stream, status);
    }
}
