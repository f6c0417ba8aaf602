/* What the hub gives to a watch, on its way to the wire. */
#include "doors/etcd/etcd_watch.h"

void etcd_watch_send(struct etcd_watch_stream *stream, const struct etcd_watch_response *response) {
    struct pb_writer writer;
    if (etcd_answer_begin(stream->call, etcd_watch_size(response), &writer)) {
        etcd_watch_write(&writer, response);
        etcd_answer_end(stream->call, &writer);
    }
}

/* What one batch says to one watch. */
struct delivery {
    const struct etcd_watch *watch;
    const struct watch_batch *batch;
    size_t n_with_previous; /* so many of the events, from the first one on, tell what was before */
};

/* One revision may take away many times what fits into a request: beyond the bound its events come
 * without what was before, as they do when it was compacted. */
static size_t count_with_previous(const struct etcd_watch *watch, const struct watch_batch *batch) {
    if (!watch->want_previous) {
        return 0;
    }
    const struct key_store *keys = etcd_keys(watch->stream->door);
    size_t left = watch->stream->door->options.previous_bytes_max;
    size_t n = 0;
    for (; n < batch->n_events; n++) {
        const struct record *previous = key_store_previous(keys, batch->events[n]);
        size_t size = previous != NULL ? record_key(previous).size + previous->value_size : 0;
        if (size > left) {
            break;
        }
        left -= size;
    }
    return n;
}

static const struct record *previous_of(const struct delivery *delivery, size_t i) {
    if (i >= delivery->n_with_previous) {
        return NULL;
    }
    return key_store_previous(etcd_keys(delivery->watch->stream->door), delivery->batch->events[i]);
}

/* Sends the events from `first` up to `end`. */
static void send_events(const struct delivery *delivery, const struct etcd_watch_response *response,
                        size_t first, size_t end, size_t size) {
    struct etcd_watch_stream *stream = delivery->watch->stream;
    struct pb_writer writer;
    if (!etcd_answer_begin(stream->call, size, &writer)) {
        stream->finished = true;
        return;
    }
    etcd_watch_write(&writer, response);
    for (size_t i = first; i < end; i++) {
        etcd_event_write(&writer, delivery->batch->events[i], previous_of(delivery, i));
    }
    etcd_answer_end(stream->call, &writer);
}

/* Where the events that fit into one answer end, of which `first` is always one. `out_size`: of
 * that answer. */
static size_t end_of_fitting(const struct delivery *delivery, size_t head_size, size_t first,
                             size_t *out_size) {
    size_t limit = delivery->watch->stream->door->options.fragment_size;
    size_t size = head_size;
    size_t end = first;
    for (; end < delivery->batch->n_events; end++) {
        size_t event_size =
            etcd_event_size(delivery->batch->events[end], previous_of(delivery, end));
        if (end > first && delivery->watch->fragment && size + event_size >= limit) {
            break;
        }
        size += event_size;
    }
    *out_size = size;
    return end;
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
    const struct delivery delivery = {
        .watch = watch, .batch = batch, .n_with_previous = count_with_previous(watch, batch)};
    size_t sent = 0;
    while (sent < batch->n_events && !stream->finished) {
        size_t size;
        response.fragment = true; /* measured with the flag; most answers turn out whole */
        size_t head_size = etcd_watch_size(&response);
        size_t end = end_of_fitting(&delivery, head_size, sent, &size);
        response.fragment = end < batch->n_events;
        send_events(&delivery, &response, sent, end, size - head_size + etcd_watch_size(&response));
        sent = end;
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
