/* Requests of the native API. The first byte chooses the request, and whether what follows is the
 * message itself or JSON for it. What the door accepts is within the bounds of the rules. */
#include "doors/native/native_request.h"
#include "net/grpc_json_reader.h"
#include "proto/leased_v1.pb-c.h"

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const ProtobufCMessageDescriptor *const messages[] = {
    &leased__v1__create_session_request__descriptor,
    &leased__v1__change_session_request__descriptor,
    &leased__v1__end_session_request__descriptor,
    &leased__v1__list_sessions_request__descriptor,
    &leased__v1__acquire_request__descriptor,
    &leased__v1__release_request__descriptor,
    &leased__v1__transfer_request__descriptor,
    &leased__v1__proclaim_request__descriptor,
    &leased__v1__get_resource_request__descriptor,
    &leased__v1__list_resources_request__descriptor,
    &leased__v1__set_pool_request__descriptor,
    &leased__v1__check_fence_request__descriptor,
    &leased__v1__why_request__descriptor,
    &leased__v1__events_request__descriptor,
};
enum { N_MESSAGES = sizeof messages / sizeof messages[0] };

static void check_create(const struct native_session_create *create) {
    assert(native_name_is_valid(create->owner, NATIVE_OWNER_SIZE_MAX));
    assert(native_text_is_valid(create->note, NATIVE_NOTE_SIZE_MAX));
    assert(create->ttl_ms >= NATIVE_TTL_MS_MIN);
    assert(create->class < NATIVE_CLASSES);
}

static void check_acquire(const struct native_acquire_request *request) {
    const struct native_acquire *acquire = &request->acquire;
    assert(acquire->n_wants >= 1);
    assert(acquire->n_wants <= NATIVE_WANTS_MAX);
    for (size_t i = 0; i < acquire->n_wants; i++) {
        assert(native_name_is_valid(acquire->wants[i].name, NATIVE_NAME_SIZE_MAX));
        assert(!acquire->wants[i].is_pool || acquire->wants[i].n_slots >= 1);
    }
    assert(acquire->waits == (request->wait_ms != 0));
    if (acquire->session_id == 0) {
        check_create(&acquire->session);
    }
    struct buffer encoded;
    buffer_init(&encoded);
    native_acquire_encode(&encoded, acquire);
    assert(encoded.size <= RULE_REQUEST_SIZE_MAX);
    buffer_clear(&encoded);
}

static void decode(size_t kind, struct bytes message, struct arena *arena) {
    struct bytes owner = bytes_from_text("127.0.0.1:1");
    union {
        struct native_session_create create;
        struct native_session_change change;
        struct native_session_end end;
        struct native_list_request list;
        struct native_acquire_request acquire;
        struct native_release release;
        struct native_transfer transfer;
        struct native_proclaim proclaim;
        struct native_get_request get;
        struct native_pool_set pool;
        struct native_fence_check fence;
        struct native_why_request why;
        struct native_events_request events;
    } out;
    switch (kind) {
    case 0:
        if (native_request_create(message, owner, &out.create) == NULL) {
            check_create(&out.create);
        }
        break;
    case 1:
        (void)native_request_change(message, &out.change);
        break;
    case 2:
        (void)native_request_end(message, &out.end);
        break;
    case 3:
        if (native_request_list_sessions(message, &out.list) == NULL) {
            assert(out.list.limit >= 1 && out.list.limit <= NATIVE_LIST_MAX);
        }
        break;
    case 4:
        if (native_request_acquire(message, owner, &out.acquire) == NULL) {
            check_acquire(&out.acquire);
        }
        break;
    case 5:
        (void)native_request_release(message, &out.release);
        break;
    case 6:
        (void)native_request_transfer(message, &out.transfer);
        break;
    case 7:
        (void)native_request_proclaim(message, &out.proclaim);
        break;
    case 8:
        (void)native_request_get_resource(message, &out.get);
        break;
    case 9:
        (void)native_request_list_resources(message, &out.list);
        break;
    case 10:
        if (native_request_set_pool(message, arena, &out.pool) == NULL) {
            assert(native_pool_is_valid(&out.pool.pool));
        }
        break;
    case 11:
        if (native_request_check_fence(message, &out.fence) == NULL) {
            assert(out.fence.token >= 1);
        }
        break;
    case 12:
        (void)native_request_why(message, &out.why);
        break;
    default:
        (void)native_request_events(message, &out.events);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    size_t kind = data[0] / 2 % N_MESSAGES;
    struct bytes input = bytes_of(data + 1, size - 1);
    struct arena arena;
    struct buffer message;
    char error[GRPC_JSON_ERROR_SIZE];
    arena_init(&arena);
    buffer_init(&message);
    if (data[0] % 2 == 0) {
        decode(kind, input, &arena);
    } else if (grpc_json_read(input, messages[kind], &message, error)) {
        decode(kind, bytes_of(message.data, message.size), &arena);
    }
    buffer_clear(&message);
    arena_clear(&arena);
    return 0;
}
