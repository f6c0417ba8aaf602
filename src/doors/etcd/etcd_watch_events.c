/* What the hub gives to a watch, on its way to the wire. */
#include "doors/etcd/etcd_watch.h"

void etcd_watch_send(struct etcd_watch_stream *stream, const struct etcd_watch_response *response) {
    struct pb_writer writer;
    if (etcd_answer_begin(stream->call, etcd_watch_size(response), &writer)) {
        etcd_watch_write(&writer, response);
        etcd_answer_end(stream->call, &writer);
    }
}

static const struct record *previous_of(const struct etcd_watch *watch,
                                        const struct record *record) {
    if (!watch->want_previous) {
        return NULL;
    }
    return key_store_previous(etcd_keys(watch->stream->door), record);
}

static void send_events(struct etcd_watch *watch, const struct etcd_watch_response *response,
                        const struct record *const *events, size_t n_events, size_t size) {
    struct grpc_call *call = watch->stream->call;
    struct pb_writer writer;
    if (!etcd_answer_begin(call, size, &writer)) {
        watch->stream->finished = true;
        return;
    }
    etcd_watch_write(&writer, response);
    for (size_t i = 0; i < n_events; i++) {
        etcd_event_write(&writer, events[i], previous_of(watch, events[i]));
    }
    etcd_answer_end(call, &writer);
}

/* How many of the events fit into one answer, at least one. `out_size`: of that answer. */
static size_t fitting_events(const struct etcd_watch *watch, size_t head_size,
                             const struct record *const *events, size_t n_events,
                             size_t *out_size) {
    size_t limit = watch->stream->door->options.fragment_size;
    size_t size = head_size;
    size_t n = 0;
    for (; n < n_events; n++) {
        size_t event_size = etcd_event_size(events[n], previous_of(watch, events[n]));
        if (n > 0 && watch->fragment && size + event_size >= limit) {
            break;
        }
        size += event_size;
    }
    *out_size = size;
    return n;
}

bool etcd_watch_deliver(struct service_watch *service_watch, const struct watch_batch *batch) {
    struct etcd_watch *watch = list_entry(service_watch, struct etcd_watch, watch);
    struct etcd_watch_stream *stream = watch->stream;
    if (stream->finished) {
        return true; /* the stream is ending, the watch goes with it */
    }
    if (!grpc_call_is_writable(stream->call)) {
        if (list_is_empty(&watch->lagging_link)) {
            list_append(&stream->lagging, &watch->lagging_link);
        }
        return false;
    }
    /* The store's revision, as in etcd, also when it is history that is sent. */
    struct etcd_watch_response response = {
        .header = etcd_header_now(stream->door),
        .watch_id = watch->node.id,
    };
    size_t sent = 0;
    while (sent < batch->n_events && !stream->finished) {
        size_t size;
        const struct record *const *events = batch->events + sent;
        response.fragment = true; /* measured with the flag; most answers turn out whole */
        size_t head_size = etcd_watch_size(&response);
        size_t n = fitting_events(watch, head_size, events, batch->n_events - sent, &size);
        response.fragment = sent + n < batch->n_events;
        send_events(watch, &response, events, n, size - head_size + etcd_watch_size(&response));
        sent += n;
    }
    watch->had_events = true;
    return true;
}

/* The start was compacted away while the watch lagged: etcd ends the watch and says from where the
 * client could go on. The header has no revision then. */
void etcd_watch_compacted(struct service_watch *service_watch, int64_t compacted_revision) {
    struct etcd_watch *watch = list_entry(service_watch, struct etcd_watch, watch);
    struct etcd_watch_stream *stream = watch->stream;
    if (!stream->finished) {
        etcd_watch_send(stream, &(struct etcd_watch_response){
                                    .header = etcd_header_at(stream->door, 0),
                                    .watch_id = watch->node.id,
                                    .canceled = true,
                                    .compact_revision = compacted_revision,
                                });
    }
    etcd_watch_forget(watch);
}

void etcd_watch_revoked(struct service_watch *service_watch, enum status status) {
    struct etcd_watch *watch = list_entry(service_watch, struct etcd_watch, watch);
    struct etcd_watch_stream *stream = watch->stream;
    if (!stream->finished) {
        etcd_watch_send(stream, &(struct etcd_watch_response){
                                    .header = etcd_header_now(stream->door),
                                    .watch_id = watch->node.id,
                                    .canceled = true,
                                    .cancel_reason = etcd_watch_reason(status),
                                });
    }
    etcd_watch_forget(watch);
}
