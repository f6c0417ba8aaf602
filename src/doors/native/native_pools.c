/* The Pools service. */
#include "base/pb_append.h"
#include "doors/native/native_call.h"
#include "doors/native/native_keys.h"
#include "doors/native/native_request.h"

#include <assert.h>

static void reply_set(struct leased_v1_call *waiting, const struct outcome *outcome) {
    leased_v1_answer_finish(
        waiting->call, native_answer_begin_at(native_door_of(waiting->call), outcome->revision));
}

static void on_set(struct grpc_call *call, struct bytes message) {
    struct native_door *door = native_door_of(call);
    struct native_pool_set set;
    const struct leased_v1_error *error = native_request_set_pool(message, &door->arena, &set);
    if (error != NULL) {
        arena_reset(&door->arena);
        leased_v1_error_finish(call, error);
        return;
    }
    struct buffer request;
    buffer_init(&request);
    native_pool_set_encode(&request, &set);
    arena_reset(&door->arena);
    (void)native_call_run(call, NATIVE_RULE_POOL_SET, &request, reply_set);
    buffer_clear(&request);
}

static void reply_removed(struct leased_v1_call *waiting, const struct outcome *outcome) {
    enum native_pool_removal removal = NATIVE_POOL_REMOVED;
    bool is_readable = native_pool_removed_decode(outcome->rule.answer, &removal);
    assert(is_readable);
    if (removal == NATIVE_POOL_REMOVED) {
        leased_v1_answer_finish(waiting->call, native_answer_begin_at(native_door_of(waiting->call),
                                                                      outcome->revision));
    } else {
        leased_v1_error_finish(waiting->call, removal == NATIVE_POOL_IN_USE
                                                  ? &native_error_pool_in_use
                                                  : &native_error_pool_missing);
    }
}

static void on_remove(struct grpc_call *call, struct bytes message) {
    struct native_pool_remove remove;
    const struct leased_v1_error *error = native_request_name(message, &remove.name);
    if (error != NULL) {
        leased_v1_error_finish(call, error);
        return;
    }
    struct buffer request;
    buffer_init(&request);
    native_pool_remove_encode(&request, &remove);
    (void)native_call_run(call, NATIVE_RULE_POOL_REMOVE, &request, reply_removed);
    buffer_clear(&request);
}

/* --- Looking. --- */

static void show_pool(struct buffer *out, struct bytes name, const struct native_pool *pool) {
    size_t message = pb_append_begin(out, 1);
    pb_append_bytes(out, 1, name);
    for (size_t i = 0; i < pool->n_slots; i++) {
        pb_append_element(out, 2, pool->slots[i]);
    }
    pb_append_int64(out, 3, pool->hold_limit_ms);
    for (size_t i = 0; i < pool->n_shares; i++) {
        size_t share = pb_append_begin(out, 4);
        pb_append_bytes(out, 1, pool->shares[i].owner);
        pb_append_uint64(out, 2, pool->shares[i].weight);
        pb_append_end(out, share);
    }
    pb_append_end(out, message);
}

static bool show_taken(void *context, const struct record *record) {
    struct buffer *out = context;
    struct native_taken taken;
    if (native_taken_decode(record_value(record), &taken)) {
        size_t message = pb_append_begin(out, 2);
        pb_append_bytes(out, 1, native_key_read(record).slot);
        pb_append_int64(out, 2, taken.acquisition_id);
        pb_append_int64(out, 3, record->create_revision);
        pb_append_bytes(out, 4, taken.owner);
        pb_append_end(out, message);
    }
    return true;
}

/* A PoolState; false: the record is of no pool, and nothing was appended. */
static bool show_state(struct native_door *door, struct buffer *out, const struct record *record) {
    struct native_key key = native_key_read(record);
    struct native_pool pool;
    if (key.kind != NATIVE_KEY_POOL ||
        !native_pool_decode(record_value(record), &door->arena, &pool)) {
        return false;
    }
    size_t message = pb_append_begin(out, 2);
    show_pool(out, key.name, &pool);
    struct key_range range = native_taken_slots(&door->arena, key.name);
    key_store_visit(native_keys(door), range.space, range.key, range.range_end, show_taken, out);
    range = native_pool_waiters(&door->arena, key.name);
    pb_append_uint64(out, 3,
                     key_store_count(native_keys(door), range.space, range.key, range.range_end));
    pb_append_end(out, message);
    return true;
}

static void read_get(struct grpc_call *call, struct bytes message) {
    struct native_door *door = native_door_of(call);
    struct bytes name;
    const struct leased_v1_error *error = native_request_name(message, &name);
    assert(error == NULL);
    const struct record *record =
        key_store_find(native_keys(door), KEY_SPACE_NATIVE, native_key_pool(&door->arena, name));
    struct buffer *out = native_answer_begin(door);
    bool is_shown = record != NULL && show_state(door, out, record);
    arena_reset(&door->arena);
    if (is_shown) {
        leased_v1_answer_finish(call, out);
    } else {
        leased_v1_error_finish(call, &native_error_pool_missing);
    }
}

static void on_get(struct grpc_call *call, struct bytes message) {
    struct native_door *door = native_door_of(call);
    struct bytes name;
    const struct leased_v1_error *error = native_request_name(message, &name);
    if (error != NULL) {
        leased_v1_error_finish(call, error);
        return;
    }
    struct key_range range = native_name_range(&door->arena, true, name);
    native_call_read(call, message, &range, 1, read_get);
    arena_reset(&door->arena);
}

static bool take_first(void *context, const struct record *record) {
    const struct record **first = context;
    *first = record;
    return false;
}

/* From name to name: keys of slots and places between them are not looked at. */
static void read_list(struct grpc_call *call, struct bytes message) {
    struct native_door *door = native_door_of(call);
    struct key_range range = native_prefix_range(&door->arena, true, bytes_of("", 0));
    struct buffer *out = native_answer_begin(door);
    (void)message;
    for (size_t n = 0; n < NATIVE_LIST_MAX && out->size < NATIVE_ANSWER_SIZE; n++) {
        const struct record *first = NULL;
        key_store_visit(native_keys(door), range.space, range.key, range.range_end, take_first,
                        &first);
        if (first == NULL) {
            break;
        }
        struct bytes name = native_key_read(first).name;
        const struct record *pool = key_store_find(native_keys(door), KEY_SPACE_NATIVE,
                                                   native_key_pool(&door->arena, name));
        if (pool != NULL) {
            (void)show_state(door, out, pool);
        }
        range.key = native_name_range(&door->arena, true, name).range_end;
    }
    arena_reset(&door->arena);
    leased_v1_answer_finish(call, out);
}

static void on_list(struct grpc_call *call, struct bytes message) {
    struct native_door *door = native_door_of(call);
    struct key_range range = native_prefix_range(&door->arena, true, bytes_of("", 0));
    native_call_read(call, message, &range, 1, read_list);
    arena_reset(&door->arena);
}

#define METHOD(name, handler)                                                                      \
    {                                                                                              \
        .path = "/leased.v1.Pools/" name, .answers_refused = true, .kind = GRPC_UNARY,             \
        .on_message = handler, .on_close = leased_v1_call_closed                                   \
    }

static const struct grpc_method methods[] = {
    METHOD("Set", on_set),
    METHOD("Remove", on_remove),
    METHOD("Get", on_get),
    METHOD("List", on_list),
};
const struct native_methods native_pool_methods = {methods, sizeof methods / sizeof methods[0]};
