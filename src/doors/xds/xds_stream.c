/* The streams: aggregated, and of one type each; state-of-the-world and delta. */
#include "doors/xds/xds_stream.h"

#include "base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static const struct xds_error error_malformed = {GRPC_INVALID_ARGUMENT,
                                                 "the request is not a message of this method"};
static const struct xds_error error_many_names = {GRPC_RESOURCE_EXHAUSTED,
                                                  "too many names in one request"};
static const struct xds_error error_type = {GRPC_INVALID_ARGUMENT,
                                            "the type of the request is not that of the method"};
static const struct xds_error error_room = {GRPC_RESOURCE_EXHAUSTED,
                                            "the client holds too much memory of the server"};

enum {
    STREAM_BYTES = sizeof(struct xds_stream),
    /* What one iteration of the loop spends on streams. */
    RUN_NS_MAX = 5 * 1000 * 1000,
    RETRY_MS = 5,
    REFUSAL_LOG_MS = 1000,
    REFUSAL_TEXT_SIZE = 256
};

void xds_stream_finish(struct xds_stream *stream, const struct xds_error *error) {
    if (!stream->is_finished) {
        stream->is_finished = true;
        grpc_call_finish(stream->call, error->code, error->text);
    }
}

/* --- Sending. --- */

static void run_idle(uv_idle_t *idle) {
    xds_stream_run_stale(idle->data);
}

void xds_stream_mark_stale(struct xds_stream *stream) {
    if (stream->is_finished || !list_is_empty(&stream->in_stale)) {
        return;
    }
    list_append(&stream->door->stale, &stream->in_stale);
    if (!stream->door->is_stopped) {
        uv_idle_start(&stream->door->idle, run_idle);
    }
}

void xds_stream_retry(struct xds_door *door) {
    struct list *link = NULL;
    while ((link = list_pop_first(&door->behind)) != NULL) {
        struct xds_stream *stream = list_entry(link, struct xds_stream, in_behind);
        for (int type = 0; type < XDS_TYPES; type++) {
            stream->topics[type].is_behind = false;
        }
        xds_stream_mark_stale(stream);
    }
}

static void on_retry(uv_timer_t *timer) {
    xds_stream_retry(timer->data);
}

void xds_stream_retry_later(struct xds_door *door) {
    if (!door->is_stopped && !uv_is_active((const uv_handle_t *)&door->retry)) {
        uv_timer_start(&door->retry, on_retry, RETRY_MS, 0);
    }
}

void xds_stream_mark_behind(struct xds_stream *stream) {
    if (list_is_empty(&stream->in_behind)) {
        list_append(&stream->door->behind, &stream->in_behind);
    }
    if (!xds_shared_is_waiting(stream->door)) {
        xds_stream_retry_later(stream->door);
    }
}

/* As much as the client takes; the rest when it can take more, and then as it is by then. */
static void flush(struct xds_stream *stream) {
    xds_stream_read(stream);
    for (int type = 0; type < XDS_TYPES && !stream->is_finished; type++) {
        struct xds_topic *topic = &stream->topics[type];
        while (xds_topic_has_work(topic) && grpc_call_is_writable(stream->call)) {
            xds_topic_send(topic);
        }
    }
}

void xds_stream_run_stale(struct xds_door *door) {
    uint64_t begun_ns = uv_hrtime();
    struct list *link = NULL;
    while ((link = list_pop_first(&door->stale)) != NULL) {
        flush(list_entry(link, struct xds_stream, in_stale));
        if (uv_hrtime() - begun_ns > RUN_NS_MAX) {
            break;
        }
    }
    if (list_is_empty(&door->stale)) {
        uv_idle_stop(&door->idle);
    }
}

void xds_stream_end_all(struct xds_door *door, const struct xds_error *error) {
    for (struct list *link = door->streams.next; link != &door->streams; link = link->next) {
        xds_stream_finish(list_entry(link, struct xds_stream, in_door), error);
    }
}

/* --- Requests. --- */

/* Only the first request of a stream has to say who the client is. */
static void take_node(struct xds_stream *stream, const struct xds_node *node) {
    if (stream->has_node || !node->is_given) {
        return;
    }
    stream->has_node = true;
    if (node->zone.size > 0 && node->zone.size <= XDS_ZONE_SIZE_MAX) {
        stream->zone_size = node->zone.size;
        memcpy(stream->zone, node->zone.data, node->zone.size);
    }
    snprintf(stream->node, sizeof stream->node, "%.*s",
             (int)(node->id.size < sizeof stream->node ? node->id.size : sizeof stream->node - 1),
             node->id.size > 0 ? (const char *)node->id.data : "");
}

/* A client that refuses a response keeps what it had. It is sent nothing more until something
 * changes; the log says why, at most once a second. */
static void take_refusal(struct xds_stream *stream, enum xds_type type,
                         const struct xds_request *request) {
    struct xds_door *door = stream->door;
    uint64_t now_ms = uv_now(door->loop);
    door->stats.refused++;
    if (door->refusal_logged_ms != 0 && now_ms - door->refusal_logged_ms < REFUSAL_LOG_MS) {
        return;
    }
    door->refusal_logged_ms = now_ms;
    char text[REFUSAL_TEXT_SIZE];
    size_t size = request->error.size < sizeof text ? request->error.size : sizeof text - 1;
    snprintf(text, sizeof text, "%.*s", (int)size,
             size > 0 ? (const char *)request->error.data : "");
    log_warning("an xDS client refused a response", LOG_TEXT("node", stream->node),
                LOG_TEXT("type", xds_type_url(type)), LOG_TEXT("reason", text));
}

static bool has_nonce(const struct xds_topic *topic, struct bytes nonce) {
    char text[24];
    int size = snprintf(text, sizeof text, "%" PRIu64, topic->nonce);
    return bytes_equal(nonce, bytes_of(text, (size_t)size));
}

static void take_answer(struct xds_topic *topic, const struct xds_request *request) {
    if (request->is_refusal) {
        take_refusal(topic->stream, topic->type, request);
    } else {
        topic->stream->door->stats.acknowledged++;
    }
}

/* A request that answers an older response is followed by one that answers the newest, with all
 * names as they are then. */
static void take_whole(struct xds_topic *topic, const struct xds_request *request) {
    if (request->nonce.size > 0 && topic->nonce > 0) {
        if (!has_nonce(topic, request->nonce)) {
            topic->stream->door->stats.ignored++;
            return;
        }
        take_answer(topic, request);
    }
    xds_topic_take_whole(topic, request);
}

static void take_delta(struct xds_topic *topic, const struct xds_request *request) {
    if (request->nonce.size > 0) {
        take_answer(topic, request);
    }
    xds_topic_take_delta(topic, request);
}

static void take(struct xds_stream *stream, const struct xds_request *request) {
    enum xds_type type = stream->only_type;
    bool is_known = request->type_url.size == 0 ? !stream->is_aggregated
                                                : xds_type_find(request->type_url, &type);
    if (stream->is_aggregated ? request->type_url.size == 0
                              : !is_known || type != stream->only_type) {
        xds_stream_finish(stream, &error_type);
        return;
    }
    /* Clients ask for types that only others have: secrets, runtime layers. They wait, and do
     * without. */
    if (!is_known) {
        stream->door->stats.ignored++;
        return;
    }
    take_node(stream, &request->node);
    if (stream->is_delta) {
        take_delta(&stream->topics[type], request);
    } else {
        take_whole(&stream->topics[type], request);
    }
}

static void on_message(struct grpc_call *call, struct bytes message) {
    struct xds_stream *stream = grpc_call_data(call);
    if (stream == NULL || stream->is_finished) {
        return;
    }
    struct xds_door *door = stream->door;
    door->stats.requests++;
    struct xds_request request;
    switch (xds_request_read(message, stream->is_delta, &door->request_arena, &request)) {
    case XDS_REQUEST_OK:
        take(stream, &request);
        break;
    case XDS_REQUEST_TOO_MANY_NAMES:
        xds_stream_finish(stream, &error_many_names);
        break;
    default:
        xds_stream_finish(stream, &error_malformed);
    }
    arena_reset(&door->request_arena);
    if (!stream->is_finished) {
        flush(stream);
    }
}

/* --- The life of a stream. --- */

static void open_stream(struct grpc_call *call, bool is_delta, bool is_aggregated,
                        enum xds_type type) {
    struct xds_door *door = grpc_call_context(call);
    struct xds_stream *stream =
        grpc_call_hold(call, STREAM_BYTES) ? calloc(1, sizeof *stream) : NULL;
    if (stream == NULL) {
        grpc_call_finish(call, error_room.code, error_room.text);
        return;
    }
    stream->call = call;
    stream->door = door;
    stream->is_delta = is_delta;
    stream->is_aggregated = is_aggregated;
    stream->only_type = type;
    list_init(&stream->in_stale);
    list_init(&stream->in_behind);
    list_append(&door->streams, &stream->in_door);
    for (int i = 0; i < XDS_TYPES; i++) {
        xds_topic_init(&stream->topics[i], stream, (enum xds_type)i);
    }
    door->stats.streams++;
    grpc_call_set_data(call, stream);
}

static void on_writable(struct grpc_call *call) {
    struct xds_stream *stream = grpc_call_data(call);
    if (stream != NULL && !stream->is_finished) {
        xds_stream_mark_stale(stream); /* many may be writable at once */
    }
}

/* A client that sends no more still listens, so there is no on_half_close. */
static void on_close(struct grpc_call *call) {
    struct xds_stream *stream = grpc_call_data(call);
    if (stream == NULL) {
        return;
    }
    for (int type = 0; type < XDS_TYPES; type++) {
        xds_topic_clear(&stream->topics[type]);
    }
    grpc_call_release(call, STREAM_BYTES);
    list_remove(&stream->in_stale);
    list_remove(&stream->in_behind);
    list_remove(&stream->in_door);
    stream->door->stats.streams--;
    stream->call = NULL;
    stream->is_finished = true;
    if (!stream->is_reading) {
        free(stream);
    }
}

/* --- Methods. --- */

#define OPEN(name, is_delta, is_aggregated, type)                                                  \
    static void open_##name(struct grpc_call *call) {                                              \
        open_stream(call, is_delta, is_aggregated, type);                                          \
    }
OPEN(aggregated, false, true, XDS_CLUSTERS)
OPEN(aggregated_delta, true, true, XDS_CLUSTERS)
OPEN(clusters, false, false, XDS_CLUSTERS)
OPEN(clusters_delta, true, false, XDS_CLUSTERS)
OPEN(endpoints, false, false, XDS_ENDPOINTS)
OPEN(endpoints_delta, true, false, XDS_ENDPOINTS)
OPEN(listeners, false, false, XDS_LISTENERS)
OPEN(listeners_delta, true, false, XDS_LISTENERS)
OPEN(routes, false, false, XDS_ROUTES)
OPEN(routes_delta, true, false, XDS_ROUTES)

#define METHOD(method_path, open)                                                                  \
    {                                                                                              \
        .path = method_path, .answers_refused = true, .is_prompt = true,                           \
        .kind = GRPC_BIDIRECTIONAL, .on_open = open, .on_message = on_message,                     \
        .on_writable = on_writable, .on_close = on_close                                           \
    }
#define ADS "/envoy.service.discovery.v3.AggregatedDiscoveryService/"
#define CDS "/envoy.service.cluster.v3.ClusterDiscoveryService/"
#define EDS "/envoy.service.endpoint.v3.EndpointDiscoveryService/"
#define LDS "/envoy.service.listener.v3.ListenerDiscoveryService/"
#define RDS "/envoy.service.route.v3.RouteDiscoveryService/"

static const struct grpc_method methods[] = {
    METHOD(ADS "StreamAggregatedResources", open_aggregated),
    METHOD(ADS "DeltaAggregatedResources", open_aggregated_delta),
    METHOD(CDS "StreamClusters", open_clusters),
    METHOD(CDS "DeltaClusters", open_clusters_delta),
    METHOD(EDS "StreamEndpoints", open_endpoints),
    METHOD(EDS "DeltaEndpoints", open_endpoints_delta),
    METHOD(LDS "StreamListeners", open_listeners),
    METHOD(LDS "DeltaListeners", open_listeners_delta),
    METHOD(RDS "StreamRoutes", open_routes),
    METHOD(RDS "DeltaRoutes", open_routes_delta),
};
const struct xds_methods xds_stream_methods = {methods, sizeof methods / sizeof methods[0]};
