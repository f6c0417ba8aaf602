/* The Fences service. A fence is a key of etcd's space, so that a transaction there can compare it:
 * the rights to it are those to that key. */
#include "base/pb_append.h"
#include "doors/native/native_call.h"
#include "doors/native/native_keys.h"
#include "doors/native/native_request.h"

#include <assert.h>

static void reply_checked(struct leased_v1_call *waiting, const struct outcome *outcome) {
    struct native_fence_checked checked;
    bool is_readable = native_fence_checked_decode(outcome->rule.answer, &checked);
    assert(is_readable);
    struct buffer *out = native_answer_begin_at(native_door_of(waiting->call), outcome->revision);
    pb_append_bool(out, 2, checked.is_accepted);
    pb_append_int64(out, 3, checked.highest);
    leased_v1_answer_finish(waiting->call, out);
}

static void on_check(struct grpc_call *call, struct bytes message) {
    struct native_fence_check check;
    const struct leased_v1_error *error = native_request_check_fence(message, &check);
    if (error != NULL) {
        leased_v1_error_finish(call, error);
        return;
    }
    struct buffer request;
    buffer_init(&request);
    native_fence_check_encode(&request, &check);
    (void)native_call_run(call, NATIVE_RULE_FENCE_CHECK, &request, reply_checked);
    buffer_clear(&request);
}

static void read_get(struct grpc_call *call, struct bytes message) {
    struct native_door *door = native_door_of(call);
    struct bytes name;
    const struct leased_v1_error *error = native_request_name(message, &name);
    assert(error == NULL);
    const struct record *record =
        key_store_find(native_keys(door), KEY_SPACE_ETCD, native_fence_key(&door->arena, name));
    int64_t highest = 0;
    if (record != NULL) {
        (void)native_fence_read(record_value(record), &highest);
    }
    struct buffer *out = native_answer_begin(door);
    pb_append_int64(out, 2, highest);
    arena_reset(&door->arena);
    leased_v1_answer_finish(call, out);
}

static void on_get(struct grpc_call *call, struct bytes message) {
    struct native_door *door = native_door_of(call);
    struct bytes name;
    const struct leased_v1_error *error = native_request_name(message, &name);
    if (error != NULL) {
        leased_v1_error_finish(call, error);
        return;
    }
    const struct key_range range = {.space = KEY_SPACE_ETCD,
                                    .key = native_fence_key(&door->arena, name)};
    native_call_read(call, message, &range, 1, read_get);
    arena_reset(&door->arena);
}

#define METHOD(name, handler)                                                                      \
    {                                                                                              \
        .path = "/leased.v1.Fences/" name, .answers_refused = true, .kind = GRPC_UNARY,            \
        .on_message = handler, .on_close = leased_v1_call_closed                                   \
    }

static const struct grpc_method methods[] = {METHOD("Check", on_check), METHOD("Get", on_get)};
const struct native_methods native_fence_methods = {methods, sizeof methods / sizeof methods[0]};
