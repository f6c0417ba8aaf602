/* Events: what happens to resources and pools whose names begin so, in the order of revisions. All
 * of it is in the records of acquisitions and of ends, so one watch of those tells everything; a
 * client that does not read is caught up from history. */
#include "base/pb_append.h"
#include "doors/native/native_call.h"
#include "doors/native/native_keys.h"
#include "doors/native/native_request.h"
#include "doors/native/native_show.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { STREAM_BYTES = 512, STREAM_PREFIX_COPIES = 2 };

enum event_type { EVENT_QUEUED = 0, EVENT_ACQUIRED = 1, EVENT_ENDED = 2, EVENT_PROCLAIMED = 3 };

struct event_stream {
    struct grpc_call *call; /* NULL: the client is gone */
    struct native_door *door;
    struct service_read read;
    struct service_watch watch;
    int64_t start_revision;
    bool is_reading; /* it is with the service */
    bool is_finished;
    bool is_lagging;
    size_t held;
    size_t prefix_size;
    uint8_t prefix[];
};

static struct bytes prefix_of(const struct event_stream *stream) {
    return bytes_of(stream->prefix, stream->prefix_size);
}

static void finish(struct event_stream *stream, const struct native_error *error) {
    if (!stream->is_finished) {
        stream->is_finished = true;
        native_error_finish(stream->call, error);
    }
}

/* What the caller needs the right to read. */
static void ranges_of(struct event_stream *stream, struct key_range out_ranges[2]) {
    struct arena *arena = &stream->door->arena;
    out_ranges[0] = native_prefix_range(arena, false, prefix_of(stream));
    out_ranges[1] = native_prefix_range(arena, true, prefix_of(stream));
}

static bool is_about(const struct native_acquisition *acquisition, struct bytes prefix) {
    for (size_t i = 0; i < acquisition->n_wants; i++) {
        struct bytes name = acquisition->wants[i].name;
        if (name.size >= prefix.size && bytes_equal(bytes_of(name.data, prefix.size), prefix)) {
            return true;
        }
    }
    return false;
}

/* --- Telling. --- */

static void tell(struct event_stream *stream, int64_t revision, enum event_type type,
                 const struct native_acquisition *acquisition, const struct native_ended *ended) {
    struct native_door *door = stream->door;
    const struct caller *caller = grpc_call_caller(stream->call);
    struct buffer *out = native_answer_begin_at(door, revision);
    pb_append_uint64(out, 2, type);
    bool is_shown = ended != NULL ? native_show_ended(out, 4, door, caller, ended)
                                  : native_show_acquisition(out, 3, door, caller, acquisition);
    if (is_shown) {
        native_answer_send(stream->call, out);
    }
}

static void take_end(struct event_stream *stream, const struct record *record) {
    struct native_ended ended;
    if (native_ended_decode(record_value(record), &stream->door->arena, &ended) &&
        ended.has_acquisition && is_about(&ended.acquisition, prefix_of(stream))) {
        tell(stream, record->mod_revision, EVENT_ENDED, NULL, &ended);
    }
}

/* A record is written when it is asked for, when it is granted, when its value changes, and when it
 * is asked for again, which is no event. */
static bool type_of(struct event_stream *stream, const struct record *record,
                    const struct native_acquisition *acquisition, enum event_type *out_type) {
    if (acquisition->stage == NATIVE_QUEUED) {
        *out_type = EVENT_QUEUED;
        return record->version == 1;
    }
    if (acquisition->token == record->mod_revision) {
        *out_type = EVENT_ACQUIRED;
        return true;
    }
    struct native_acquisition before;
    const struct record *previous = key_store_previous(native_keys(stream->door), record);
    *out_type = EVENT_PROCLAIMED;
    return previous != NULL &&
           native_acquisition_decode(record_value(previous), &stream->door->arena, &before) &&
           !bytes_equal(before.value, acquisition->value);
}

static void take_acquisition(struct event_stream *stream, const struct record *record) {
    struct native_acquisition acquisition;
    enum event_type type = EVENT_QUEUED;
    if (!record_is_tombstone(record) &&
        native_acquisition_decode(record_value(record), &stream->door->arena, &acquisition) &&
        is_about(&acquisition, prefix_of(stream)) && type_of(stream, record, &acquisition, &type)) {
        tell(stream, record->mod_revision, type, &acquisition, NULL);
    }
}

static bool deliver(struct service_watch *watch, const struct watch_batch *batch) {
    struct event_stream *stream = list_entry(watch, struct event_stream, watch);
    struct native_door *door = stream->door;
    if (stream->is_finished) {
        return true;
    }
    if (!grpc_call_is_writable(stream->call)) {
        stream->is_lagging = true;
        return false;
    }
    /* The watch is of records, which need no right: those to the names may have been taken away. */
    struct key_range ranges[2];
    ranges_of(stream, ranges);
    enum status status =
        service_read_local(door->service, grpc_call_caller(stream->call), ranges, 2);
    if (status != STATUS_OK) {
        finish(stream, native_error_of(status));
    }
    for (size_t i = 0; i < batch->n_events && !stream->is_finished; i++) {
        const struct record *record = batch->events[i];
        enum native_key_kind kind = native_key_read(record).kind;
        if (kind == NATIVE_KEY_ACQUISITION) {
            take_acquisition(stream, record);
        } else if (kind == NATIVE_KEY_ENDED && !record_is_tombstone(record)) {
            take_end(stream, record);
        }
        arena_reset(&door->arena);
    }
    arena_reset(&door->arena);
    return true;
}

static void compacted(struct service_watch *watch, int64_t compacted_revision) {
    (void)compacted_revision;
    finish(list_entry(watch, struct event_stream, watch), &native_error_missed);
}

static void revoked(struct service_watch *watch, enum status status) {
    finish(list_entry(watch, struct event_stream, watch), native_error_of(status));
}

/* --- The stream. --- */

static void begin(struct event_stream *stream, enum status status) {
    struct native_door *door = stream->door;
    const struct key_store *keys = native_keys(door);
    if (status == STATUS_OK && stream->start_revision > 0 &&
        stream->start_revision < key_store_compacted_revision(keys)) {
        status = STATUS_REVISION_COMPACTED;
    }
    if (status == STATUS_OK) {
        /* From the acquisitions to the ends. */
        struct key_range range = native_records('a');
        range.range_end = native_records('e').range_end;
        const struct service_watch_options options = {.range = range,
                                                      .start_revision = stream->start_revision};
        status =
            service_watch(door->service, grpc_call_caller(stream->call), &stream->watch, &options);
    }
    if (status != STATUS_OK) {
        finish(stream, native_error_of(status));
    }
}

static void ready(struct service_read *read, enum status status) {
    struct event_stream *stream = list_entry(read, struct event_stream, read);
    stream->is_reading = false;
    if (stream->call == NULL) {
        free(stream);
    } else if (!stream->is_finished) {
        begin(stream, status);
    }
}

static struct event_stream *create(struct grpc_call *call,
                                   const struct native_events_request *request) {
    size_t cost = STREAM_BYTES + STREAM_PREFIX_COPIES * request->prefix.size;
    if (!grpc_call_hold(call, cost)) {
        native_error_finish(call, native_error_of(STATUS_TOO_MANY_REQUESTS));
        return NULL;
    }
    struct event_stream *stream = calloc(1, sizeof *stream + request->prefix.size);
    if (stream == NULL) {
        grpc_call_release(call, cost);
        native_error_finish(call, native_error_of(STATUS_NO_MEMORY));
        return NULL;
    }
    stream->call = call;
    stream->door = native_door_of(call);
    stream->held = cost;
    stream->start_revision = request->start_revision;
    stream->prefix_size = request->prefix.size;
    if (request->prefix.size > 0) {
        memcpy(stream->prefix, request->prefix.data, request->prefix.size);
    }
    stream->watch.deliver = deliver;
    stream->watch.compacted = compacted;
    stream->watch.revoked = revoked;
    stream->read.ready = ready;
    stream->door->stats.event_streams++;
    grpc_call_set_data(call, stream);
    return stream;
}

static void on_message(struct grpc_call *call, struct bytes message) {
    struct native_door *door = native_door_of(call);
    struct native_events_request request;
    const struct native_error *error = native_request_events(message, &request);
    if (error != NULL) {
        native_error_finish(call, error);
        return;
    }
    struct event_stream *stream = create(call, &request);
    if (stream == NULL) {
        return;
    }
    struct key_range ranges[2];
    ranges_of(stream, ranges);
    enum status status =
        service_read(door->service, grpc_call_caller(call), &stream->read, ranges, 2);
    arena_reset(&door->arena);
    if (status == STATUS_PENDING) {
        stream->is_reading = true;
    } else {
        begin(stream, status);
    }
}

static void on_writable(struct grpc_call *call) {
    struct event_stream *stream = grpc_call_data(call);
    if (stream != NULL && stream->is_lagging) {
        stream->is_lagging = false;
        service_watch_resume(stream->door->service, &stream->watch);
    }
}

static void on_close(struct grpc_call *call) {
    struct event_stream *stream = grpc_call_data(call);
    if (stream == NULL) {
        return;
    }
    service_unwatch(stream->door->service, &stream->watch);
    grpc_call_release(call, stream->held);
    stream->door->stats.event_streams--;
    stream->call = NULL;
    if (!stream->is_reading) {
        free(stream);
    }
}

static const struct grpc_method methods[] = {
    {.path = "/leased.v1.History/Events",
     .is_prompt = true,
     .answers_refused = true,
     .kind = GRPC_SERVER_STREAM,
     .on_message = on_message,
     .on_writable = on_writable,
     .on_close = on_close},
};
const struct native_methods native_event_methods = {methods, sizeof methods / sizeof methods[0]};
