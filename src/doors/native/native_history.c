/* The History service but for its stream (native_events.c): why something ended. */
#include "base/pb_append.h"
#include "doors/native/native_call.h"
#include "doors/native/native_keys.h"
#include "doors/native/native_request.h"
#include "doors/native/native_show.h"

#include <assert.h>

/* Whether an end is what was asked for; nothing in particular asks for all. */
static bool is_asked_for(const struct native_why_request *request,
                         const struct native_ended *ended) {
    if (request->name.size > 0) {
        return native_ended_is_about(ended, request->is_pool, request->name);
    }
    if (request->session_id != 0) {
        return ended->session_id == request->session_id;
    }
    return request->acquisition_id == 0 ||
           (ended->has_acquisition && ended->acquisition.id == request->acquisition_id);
}

static uint64_t count_ended(struct native_door *door) {
    const struct record *record =
        key_store_find(native_keys(door), KEY_SPACE_NATIVE_RECORDS, native_key_ended_count());
    uint64_t n = 0;
    if (record != NULL && record_value(record).size == sizeof n) {
        for (size_t i = 0; i < sizeof n; i++) {
            n = n << 8 | record_value(record).data[i];
        }
    }
    return n;
}

/* Newest first. */
static void show_ends(struct native_door *door, const struct caller *caller,
                      const struct native_why_request *request, struct buffer *out) {
    uint64_t last = count_ended(door);
    uint64_t first = last > NATIVE_ENDED_MAX ? last - NATIVE_ENDED_MAX + 1 : 1;
    size_t n_shown = 0;
    for (uint64_t number = last;
         number >= first && n_shown < request->limit && out->size < NATIVE_ANSWER_SIZE; number--) {
        struct native_ended ended;
        const struct record *record = key_store_find(native_keys(door), KEY_SPACE_NATIVE_RECORDS,
                                                     native_key_ended(&door->arena, number));
        if (record != NULL && native_ended_decode(record_value(record), &door->arena, &ended) &&
            is_asked_for(request, &ended)) {
            n_shown += native_show_ended(out, 2, door, caller, &ended);
        }
        arena_reset(&door->arena);
    }
}

static void answer_why(struct grpc_call *call, struct bytes message,
                       const struct native_id_list *list, const int64_t *remaining_ms) {
    struct native_door *door = native_door_of(call);
    const struct caller *caller = grpc_call_caller(call);
    struct native_why_request request;
    struct native_session_facts facts;
    const struct leased_v1_error *error = native_request_why(message, &request);
    assert(error == NULL);
    struct buffer *out = native_answer_begin(door);
    show_ends(door, caller, &request, out);
    if (request.name.size > 0) {
        int64_t ids[NATIVE_HOLDERS_SHOWN_MAX];
        size_t n =
            native_find_holders(door, request.is_pool, request.name, ids, NATIVE_HOLDERS_SHOWN_MAX);
        native_show_acquisitions(out, 3, door, caller, ids, n);
    }
    if (request.session_id != 0 && native_find_session(door, request.session_id, &facts)) {
        native_show_session(out, 4, &facts, list->n > 0 ? remaining_ms[0] : -1);
    }
    arena_reset(&door->arena);
    leased_v1_answer_finish(call, out);
}

static void read_why(struct grpc_call *call, struct bytes message) {
    struct native_door *door = native_door_of(call);
    struct native_why_request request;
    const struct leased_v1_error *error = native_request_why(message, &request);
    assert(error == NULL);
    if (!service_allow_work(door->service, NATIVE_ENDED_MAX)) {
        leased_v1_error_finish(call, native_error_of(STATUS_TOO_MANY_REQUESTS));
        return;
    }
    const struct native_id_list list = {.ids = &request.session_id,
                                        .n = request.session_id != 0 ? 1 : 0};
    if (list.n > 0) {
        native_call_ask_times(call, message, &list, answer_why);
    } else {
        answer_why(call, message, &list, NULL);
    }
}

static void on_why(struct grpc_call *call, struct bytes message) {
    struct native_door *door = native_door_of(call);
    struct native_why_request request;
    const struct leased_v1_error *error = native_request_why(message, &request);
    if (error != NULL) {
        leased_v1_error_finish(call, error);
        return;
    }
    struct key_range range = {0};
    size_t n_ranges = request.name.size > 0;
    if (n_ranges > 0) {
        range = native_name_range(&door->arena, request.is_pool, request.name);
    }
    native_call_read(call, message, &range, n_ranges, read_why);
    arena_reset(&door->arena);
}

static const struct grpc_method methods[] = {
    {.path = "/leased.v1.History/Why",
     .answers_refused = true,
     .kind = GRPC_UNARY,
     .on_message = on_why,
     .on_close = leased_v1_call_closed},
};
const struct native_methods native_history_methods = {methods, sizeof methods / sizeof methods[0]};
