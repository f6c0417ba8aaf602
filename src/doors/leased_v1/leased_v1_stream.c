#include "doors/leased_v1/leased_v1_stream.h"

#include <stdlib.h>
#include <string.h>

enum { STREAM_BYTES = 512 };

void leased_v1_stream_finish(struct leased_v1_stream *stream, const struct leased_v1_error *error) {
    if (!stream->is_finished) {
        stream->is_finished = true;
        leased_v1_error_finish(stream->call, error);
    }
}

/* --- As the watch tells. --- */

static bool deliver(struct service_watch *watch, const struct watch_batch *batch) {
    struct leased_v1_stream *stream = list_entry(watch, struct leased_v1_stream, watch);
    if (stream->is_finished || batch->revision <= stream->seen_revision) {
        return true;
    }
    if (stream->is_held || !grpc_call_is_writable(stream->call)) {
        stream->is_lagging = true;
        return false;
    }
    stream->kind->deliver(stream, batch);
    return true;
}

static void compacted(struct service_watch *watch, int64_t compacted_revision) {
    struct leased_v1_stream *stream = list_entry(watch, struct leased_v1_stream, watch);
    (void)compacted_revision;
    leased_v1_stream_finish(stream, stream->kind->missed);
}

static void revoked(struct service_watch *watch, enum status status) {
    struct leased_v1_stream *stream = list_entry(watch, struct leased_v1_stream, watch);
    leased_v1_stream_finish(stream, stream->api->error_of(status));
}

enum status leased_v1_stream_watch(struct leased_v1_stream *stream,
                                   const struct service_watch_options *options) {
    return service_watch(stream->api->service, grpc_call_caller(stream->call), &stream->watch,
                         options);
}

void leased_v1_stream_hold(struct leased_v1_stream *stream) {
    stream->is_held = true;
}

void leased_v1_stream_release(struct leased_v1_stream *stream) {
    stream->is_held = false;
    leased_v1_stream_writable(stream->call);
}

/* --- Its life. --- */

static void begin(struct leased_v1_stream *stream, enum status status) {
    if (status == STATUS_OK) {
        status = stream->kind->begin(stream);
    }
    if (status != STATUS_OK) {
        leased_v1_stream_finish(stream, stream->api->error_of(status));
    }
}

static void ready(struct service_read *read, enum status status) {
    struct leased_v1_stream *stream = list_entry(read, struct leased_v1_stream, read);
    stream->is_reading = false;
    if (stream->call == NULL) {
        free(stream);
    } else if (!stream->is_finished) {
        begin(stream, status);
    }
}

void *leased_v1_stream_create(struct leased_v1_api *api, struct grpc_call *call,
                              const struct leased_v1_stream_kind *kind, struct bytes name,
                              size_t *n_open) {
    size_t cost = STREAM_BYTES + kind->name_copies * name.size;
    if (!grpc_call_hold(call, cost)) {
        leased_v1_error_finish(call, api->error_of(STATUS_TOO_MANY_REQUESTS));
        return NULL;
    }
    uint8_t *memory = calloc(1, kind->size + name.size);
    if (memory == NULL) {
        grpc_call_release(call, cost);
        leased_v1_error_finish(call, api->error_of(STATUS_NO_MEMORY));
        return NULL;
    }
    if (name.size > 0) {
        memcpy(memory + kind->size, name.data, name.size);
    }
    struct leased_v1_stream *stream = (struct leased_v1_stream *)memory;
    stream->call = call;
    stream->api = api;
    stream->kind = kind;
    stream->n_open = n_open;
    stream->name = bytes_of(memory + kind->size, name.size);
    stream->held = cost;
    stream->watch.deliver = deliver;
    stream->watch.compacted = compacted;
    stream->watch.revoked = revoked;
    stream->read.ready = ready;
    ++*n_open;
    grpc_call_set_data(call, stream);
    return stream;
}

void leased_v1_stream_start(struct leased_v1_stream *stream, const struct key_range *ranges,
                            size_t n_ranges) {
    enum status status = service_read(stream->api->service, grpc_call_caller(stream->call),
                                      &stream->read, ranges, n_ranges);
    if (status == STATUS_PENDING) {
        stream->is_reading = true;
    } else {
        begin(stream, status);
    }
}

void leased_v1_stream_writable(struct grpc_call *call) {
    struct leased_v1_stream *stream = grpc_call_data(call);
    if (stream != NULL && stream->is_lagging && !stream->is_held) {
        stream->is_lagging = false;
        service_watch_resume(stream->api->service, &stream->watch);
    }
}

void leased_v1_stream_closed(struct grpc_call *call) {
    struct leased_v1_stream *stream = grpc_call_data(call);
    if (stream == NULL) {
        return;
    }
    service_unwatch(stream->api->service, &stream->watch);
    grpc_call_release(call, stream->held);
    --*stream->n_open;
    stream->call = NULL;
    if (!stream->is_reading) {
        free(stream);
    }
}
