/* The Resources service but for the calls that wait (native_wait.c) and those that observe
 * (native_observe.c). */
#include "base/pb_append.h"
#include "doors/native/native_call.h"
#include "doors/native/native_keys.h"
#include "doors/native/native_request.h"
#include "doors/native/native_show.h"

#include <assert.h>
#include <string.h>

/* --- Release, Transfer, Proclaim. --- */

static void reply_released(struct leased_v1_call *waiting, const struct outcome *outcome) {
    struct native_released released;
    bool is_readable = native_released_decode(outcome->rule.answer, &released);
    assert(is_readable);
    native_door_of(waiting->call)->stats.released += released.is_released;
    struct buffer *out = native_answer_begin_at(native_door_of(waiting->call), outcome->revision);
    pb_append_bool(out, 2, released.is_released);
    leased_v1_answer_finish(waiting->call, out);
}

static void on_release(struct grpc_call *call, struct bytes message) {
    struct native_release release;
    const struct leased_v1_error *error = native_request_release(message, &release);
    if (error != NULL) {
        leased_v1_error_finish(call, error);
        return;
    }
    struct buffer request;
    buffer_init(&request);
    native_release_encode(&request, &release);
    (void)native_call_run(call, NATIVE_RULE_RELEASE, &request, reply_released);
    buffer_clear(&request);
}

/* A holder must be able to tell whether it still has what it wanted to hand over. */
static const struct leased_v1_error *transfer_error_of(enum status status) {
    switch (status) {
    case STATUS_KEY_NOT_FOUND:
        return &native_error_acquisition;
    case STATUS_LEASE_NOT_FOUND:
        return &native_error_transfer_target;
    default:
        return native_error_of(status);
    }
}

static void reply_transferred(struct leased_v1_call *waiting, const struct outcome *outcome) {
    struct native_door *door = native_door_of(waiting->call);
    struct native_transferred transferred;
    bool is_readable = native_transferred_decode(outcome->rule.answer, &door->arena, &transferred);
    assert(is_readable);
    struct buffer *out = native_answer_begin_at(door, outcome->revision);
    (void)native_show_acquisition(out, 2, door, grpc_call_caller(waiting->call),
                                  &transferred.acquisition);
    arena_reset(&door->arena);
    leased_v1_answer_finish(waiting->call, out);
}

static void on_transfer(struct grpc_call *call, struct bytes message) {
    struct native_transfer transfer;
    const struct leased_v1_error *error = native_request_transfer(message, &transfer);
    if (error != NULL) {
        leased_v1_error_finish(call, error);
        return;
    }
    struct buffer request;
    buffer_init(&request);
    native_transfer_encode(&request, &transfer);
    struct leased_v1_call *waiting =
        native_call_run(call, NATIVE_RULE_TRANSFER, &request, reply_transferred);
    if (waiting != NULL) {
        waiting->error_of = transfer_error_of;
    }
    buffer_clear(&request);
}

static void reply_proclaimed(struct leased_v1_call *waiting, const struct outcome *outcome) {
    bool is_done = false;
    bool is_readable = native_proclaimed_decode(outcome->rule.answer, &is_done);
    assert(is_readable);
    if (is_done) {
        leased_v1_answer_finish(waiting->call, native_answer_begin_at(native_door_of(waiting->call),
                                                                      outcome->revision));
    } else {
        leased_v1_error_finish(waiting->call, &native_error_acquisition);
    }
}

static void on_proclaim(struct grpc_call *call, struct bytes message) {
    struct native_proclaim proclaim;
    const struct leased_v1_error *error = native_request_proclaim(message, &proclaim);
    if (error != NULL) {
        leased_v1_error_finish(call, error);
        return;
    }
    struct buffer request;
    buffer_init(&request);
    native_proclaim_encode(&request, &proclaim);
    (void)native_call_run(call, NATIVE_RULE_PROCLAIM, &request, reply_proclaimed);
    buffer_clear(&request);
}

/* --- Get. --- */

static void answer_get(struct grpc_call *call, struct bytes message,
                       const struct native_id_list *list, const int64_t *remaining_ms) {
    struct native_door *door = native_door_of(call);
    struct native_get_request request;
    const struct leased_v1_error *error = native_request_get_resource(message, &request);
    assert(error == NULL);
    struct buffer *out = native_answer_begin(door);
    const struct native_state_shown shown = {
        .name = request.name,
        .n_waiters_max = request.n_waiters < NATIVE_WAITERS_SHOWN_MAX ? request.n_waiters
                                                                      : NATIVE_WAITERS_SHOWN_MAX,
        .remaining_ms = list->n > 0 ? remaining_ms[0] : -1};
    native_show_resource(out, 2, door, grpc_call_caller(call), &shown);
    arena_reset(&door->arena);
    leased_v1_answer_finish(call, out);
}

/* Of the first holder. */
static size_t find_session(struct native_door *door, struct bytes name, int64_t *out_id) {
    int64_t id = 0;
    struct native_acquisition holder;
    bool is_found = native_find_holders(door, false, name, &id, 1) > 0 &&
                    native_find_acquisition(door, id, &holder);
    *out_id = is_found ? holder.session_id : 0;
    return is_found;
}

static void read_get(struct grpc_call *call, struct bytes message) {
    struct native_door *door = native_door_of(call);
    struct native_get_request request;
    const struct leased_v1_error *error = native_request_get_resource(message, &request);
    assert(error == NULL);
    int64_t session_id = 0;
    size_t n = request.with_remaining ? find_session(door, request.name, &session_id) : 0;
    arena_reset(&door->arena);
    const struct native_id_list list = {.ids = &session_id, .n = n};
    if (n > 0) {
        native_call_ask_times(call, message, &list, answer_get);
    } else {
        answer_get(call, message, &list, NULL);
    }
}

static void on_get(struct grpc_call *call, struct bytes message) {
    struct native_door *door = native_door_of(call);
    struct native_get_request request;
    const struct leased_v1_error *error = native_request_get_resource(message, &request);
    if (error != NULL) {
        leased_v1_error_finish(call, error);
        return;
    }
    struct key_range range = native_name_range(&door->arena, false, request.name);
    native_call_read(call, message, &range, 1, read_get);
    arena_reset(&door->arena);
}

/* --- List. --- */

static bool take_name(void *context, const struct record *record) {
    struct bytes *name = context;
    *name = native_key_read(record).name;
    return false;
}

/* The first name at or behind `key`; its bytes live until the iteration of the loop ends. */
static bool next_name(struct native_door *door, struct bytes key, struct bytes range_end,
                      struct bytes *out_name) {
    *out_name = bytes_of("", 0);
    key_store_visit(native_keys(door), KEY_SPACE_NATIVE, key, range_end, take_name, out_name);
    return out_name->size > 0;
}

/* Behind all keys of a name: whatever follows the NUL is less. */
static struct bytes behind_name(struct native_door *door, struct bytes name) {
    return native_name_range(&door->arena, false, name).range_end;
}

static bool is_behind(struct bytes a, struct bytes b) {
    int order = memcmp(a.data, b.data, a.size < b.size ? a.size : b.size);
    return order > 0 || (order == 0 && a.size > b.size);
}

static void read_list(struct grpc_call *call, struct bytes message) {
    struct native_door *door = native_door_of(call);
    struct native_list_request request;
    const struct leased_v1_error *error = native_request_list_resources(message, &request);
    assert(error == NULL);
    struct key_range range = native_prefix_range(&door->arena, false, request.prefix);
    struct bytes at = range.key;
    if (request.after.size > 0) {
        struct bytes behind = behind_name(door, request.after);
        at = is_behind(behind, at) ? behind : at;
    }
    struct buffer *out = native_answer_begin(door);
    struct bytes name;
    size_t n = 0;
    bool has_next = next_name(door, at, range.range_end, &name);
    while (has_next && n < request.limit && out->size < NATIVE_ANSWER_SIZE) {
        const struct native_state_shown shown = {.name = name, .remaining_ms = -1};
        native_show_resource(out, 2, door, grpc_call_caller(call), &shown);
        n++;
        has_next = next_name(door, behind_name(door, name), range.range_end, &name);
    }
    pb_append_bool(out, 3, has_next);
    arena_reset(&door->arena);
    leased_v1_answer_finish(call, out);
}

static void on_list(struct grpc_call *call, struct bytes message) {
    struct native_door *door = native_door_of(call);
    struct native_list_request request;
    const struct leased_v1_error *error = native_request_list_resources(message, &request);
    if (error != NULL) {
        leased_v1_error_finish(call, error);
        return;
    }
    struct key_range range = native_prefix_range(&door->arena, false, request.prefix);
    native_call_read(call, message, &range, 1, read_list);
    arena_reset(&door->arena);
}

#define METHOD(name, handler)                                                                      \
    {                                                                                              \
        .path = "/leased.v1.Resources/" name, .answers_refused = true, .kind = GRPC_UNARY,         \
        .on_message = handler, .on_close = leased_v1_call_closed                                   \
    }

static const struct grpc_method methods[] = {
    METHOD("Release", on_release), METHOD("Transfer", on_transfer), METHOD("Proclaim", on_proclaim),
    METHOD("Get", on_get),         METHOD("List", on_list),
};
const struct native_methods native_resource_methods = {methods, sizeof methods / sizeof methods[0]};
