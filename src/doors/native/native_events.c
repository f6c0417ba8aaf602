/* Events: what happens to resources and pools whose names begin so, in the order of revisions. All
 * of it is in the records of acquisitions and of ends, so one watch of those tells everything; a
 * client that does not read is caught up from history. */
#include "base/pb_append.h"
#include "doors/leased_v1/leased_v1_stream.h"
#include "doors/native/native_call.h"
#include "doors/native/native_keys.h"
#include "doors/native/native_request.h"
#include "doors/native/native_show.h"

enum event_type { EVENT_QUEUED = 0, EVENT_ACQUIRED = 1, EVENT_ENDED = 2, EVENT_PROCLAIMED = 3 };

struct event_stream {
    struct leased_v1_stream base; /* its name is the prefix */
    int64_t start_revision;
};

static struct native_door *door_of(const struct event_stream *stream) {
    return native_door_of(stream->base.call);
}

/* What the caller needs the right to read. */
static void ranges_of(struct event_stream *stream, struct key_range out_ranges[2]) {
    struct arena *arena = &door_of(stream)->arena;
    out_ranges[0] = native_prefix_range(arena, false, stream->base.name);
    out_ranges[1] = native_prefix_range(arena, true, stream->base.name);
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
    struct native_door *door = door_of(stream);
    const struct caller *caller = grpc_call_caller(stream->base.call);
    struct buffer *out = native_answer_begin_at(door, revision);
    pb_append_uint64(out, 2, type);
    bool is_shown = ended != NULL ? native_show_ended(out, 4, door, caller, ended)
                                  : native_show_acquisition(out, 3, door, caller, acquisition);
    if (is_shown) {
        leased_v1_answer_send(stream->base.call, out);
    }
}

static void take_end(struct event_stream *stream, const struct record *record) {
    struct native_ended ended;
    if (native_ended_decode(record_value(record), &door_of(stream)->arena, &ended) &&
        ended.has_acquisition && is_about(&ended.acquisition, stream->base.name)) {
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
    const struct record *previous = key_store_previous(native_keys(door_of(stream)), record);
    *out_type = EVENT_PROCLAIMED;
    return previous != NULL &&
           native_acquisition_decode(record_value(previous), &door_of(stream)->arena, &before) &&
           !bytes_equal(before.value, acquisition->value);
}

static void take_acquisition(struct event_stream *stream, const struct record *record) {
    struct native_acquisition acquisition;
    enum event_type type = EVENT_QUEUED;
    if (!record_is_tombstone(record) &&
        native_acquisition_decode(record_value(record), &door_of(stream)->arena, &acquisition) &&
        is_about(&acquisition, stream->base.name) && type_of(stream, record, &acquisition, &type)) {
        tell(stream, record->mod_revision, type, &acquisition, NULL);
    }
}

static void deliver(struct leased_v1_stream *base, const struct watch_batch *batch) {
    struct event_stream *stream = list_entry(base, struct event_stream, base);
    struct native_door *door = door_of(stream);
    /* The watch is of records, which need no right: those to the names may have been taken away. */
    struct key_range ranges[2];
    ranges_of(stream, ranges);
    enum status status =
        service_read_local(door->service, grpc_call_caller(stream->base.call), ranges, 2);
    if (status != STATUS_OK) {
        leased_v1_stream_finish(base, native_error_of(status));
    }
    for (size_t i = 0; i < batch->n_events && !base->is_finished; i++) {
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
}

/* --- The stream. --- */

static enum status begin(struct leased_v1_stream *base) {
    struct event_stream *stream = list_entry(base, struct event_stream, base);
    const struct key_store *keys = native_keys(door_of(stream));
    if (stream->start_revision > 0 && stream->start_revision < key_store_compacted_revision(keys)) {
        return STATUS_REVISION_COMPACTED;
    }
    /* From the acquisitions to the ends. */
    struct key_range range = native_records('a');
    range.range_end = native_records('e').range_end;
    const struct service_watch_options options = {.range = range,
                                                  .start_revision = stream->start_revision};
    return leased_v1_stream_watch(base, &options);
}

static const struct leased_v1_stream_kind kind_of_events = {
    .size = sizeof(struct event_stream),
    .name_copies = 2,
    .missed = &native_error_missed,
    .begin = begin,
    .deliver = deliver,
};

static void on_message(struct grpc_call *call, struct bytes message) {
    struct native_door *door = native_door_of(call);
    struct native_events_request request;
    const struct leased_v1_error *error = native_request_events(message, &request);
    if (error != NULL) {
        leased_v1_error_finish(call, error);
        return;
    }
    struct event_stream *stream = leased_v1_stream_create(
        &door->api, call, &kind_of_events, request.prefix, &door->stats.event_streams);
    if (stream != NULL) {
        struct key_range ranges[2];
        stream->start_revision = request.start_revision;
        ranges_of(stream, ranges);
        leased_v1_stream_start(&stream->base, ranges, 2);
        arena_reset(&door->arena);
    }
}

static const struct grpc_method methods[] = {
    {.path = "/leased.v1.History/Events",
     .is_prompt = true,
     .answers_refused = true,
     .kind = GRPC_SERVER_STREAM,
     .on_message = on_message,
     .on_writable = leased_v1_stream_writable,
     .on_close = leased_v1_stream_closed},
};
const struct native_methods native_event_methods = {methods, sizeof methods / sizeof methods[0]};
