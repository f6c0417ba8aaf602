/* Observe: the state of a resource now, and after every change of its holders. What happened while
 * a client did not read is told as one change. */
#include "doors/leased_v1/leased_v1_stream.h"
#include "doors/native/native_call.h"
#include "doors/native/native_keys.h"
#include "doors/native/native_request.h"
#include "doors/native/native_show.h"

static void tell(struct leased_v1_stream *stream) {
    struct native_door *door = native_door_of(stream->call);
    const struct native_state_shown shown = {.name = stream->name, .remaining_ms = -1};
    stream->seen_revision = key_store_revision(native_keys(door));
    struct buffer *out = native_answer_begin(door);
    native_show_resource(out, 2, door, grpc_call_caller(stream->call), &shown);
    arena_reset(&door->arena);
    leased_v1_answer_send(stream->call, out);
}

static void deliver(struct leased_v1_stream *stream, const struct watch_batch *batch) {
    if (batch->n_events > 0) {
        tell(stream);
    }
}

static enum status begin(struct leased_v1_stream *stream) {
    struct native_door *door = native_door_of(stream->call);
    const struct service_watch_options options = {.range =
                                                      native_holders(&door->arena, stream->name)};
    enum status status = leased_v1_stream_watch(stream, &options);
    arena_reset(&door->arena);
    if (status == STATUS_OK) {
        tell(stream);
    }
    return status;
}

static const struct leased_v1_stream_kind kind = {
    .size = sizeof(struct leased_v1_stream),
    .name_copies = 4,
    .missed = &native_error_missed,
    .begin = begin,
    .deliver = deliver,
};

static void on_message(struct grpc_call *call, struct bytes message) {
    struct native_door *door = native_door_of(call);
    struct bytes name;
    const struct leased_v1_error *error = native_request_name(message, &name);
    if (error != NULL) {
        leased_v1_error_finish(call, error);
        return;
    }
    struct leased_v1_stream *stream =
        leased_v1_stream_create(&door->api, call, &kind, name, &door->stats.observers);
    if (stream != NULL) {
        const struct key_range range = native_name_range(&door->arena, false, name);
        leased_v1_stream_start(stream, &range, 1);
        arena_reset(&door->arena);
    }
}

static const struct grpc_method methods[] = {
    {.path = "/leased.v1.Resources/Observe",
     .is_prompt = true,
     .answers_refused = true,
     .kind = GRPC_SERVER_STREAM,
     .on_message = on_message,
     .on_writable = leased_v1_stream_writable,
     .on_close = leased_v1_stream_closed},
};
const struct native_methods native_observe_methods = {methods, sizeof methods / sizeof methods[0]};
