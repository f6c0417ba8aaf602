/*
 * What a server says to liblease: the first byte chooses the bytes of HTTP/2, cut into pieces as
 * the second byte tells, or one of the messages that the library reads.
 */
#include "lease/lib_entries.h"
#include "lease/lib_etcd_look.h"
#include "lease/lib_http2.h"
#include "lease/lib_read.h"
#include "lease/lib_session.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { CALLS = 3 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_message(struct lib_call *call, struct bytes message) {
    volatile uint8_t sum = 0;
    for (size_t i = 0; i < message.size; i++) {
        sum = (uint8_t)(sum + message.data[i]);
    }
    if (message.size == 1) {
        call->is_canceled = true;
    }
}

static void on_end(struct lib_call *call, enum lib_code code, const char *text) {
    (void)call;
    (void)code;
    (void)text;
}

static const struct lib_method unary = {
    .path = "/fuzz.T/Unary", .is_repeatable = true, .on_message = on_message, .on_end = on_end};
static const struct lib_method stream = {
    .path = "/fuzz.T/Stream", .is_stream = true, .on_message = on_message, .on_end = on_end};

static struct lib_call *open_call(struct lib_http2 *http2, const struct lib_method *method) {
    struct lib_call *call = calloc(1, sizeof *call);
    assert(call != NULL);
    list_init(&call->link);
    call->method = method;
    call->grpc_status = -1;
    call->half_closed = !method->is_stream;
    lib_call_frame(call, bytes_from_text("hello"));
    bool is_open = lib_http2_open(http2, call, "token");
    assert(is_open);
    return call;
}

static void take(struct lib_http2 *http2, struct lib_call *call) {
    const char *text = NULL;
    if (!call->has_news) {
        return;
    }
    call->has_news = false;
    if (!lib_call_take_messages(call) || call->is_canceled) {
        lib_http2_forget(http2, call);
    } else if (call->is_closed) {
        enum lib_code code = lib_call_code(call, &text);
        assert(code <= LIB_CODE_UNAUTHENTICATED);
        assert(strlen(text) < LIB_TEXT_SIZE_MAX);
        (void)lib_code_status(code);
    }
}

static void feed_http2(struct bytes bytes, size_t step) {
    struct lib_http2 *http2 = lib_http2_create("fuzz:1", false);
    assert(http2 != NULL);
    struct lib_call *calls[CALLS];
    struct buffer out;
    buffer_init(&out);
    for (size_t i = 0; i < CALLS; i++) {
        calls[i] = open_call(http2, i == 1 ? &stream : &unary);
    }
    (void)lib_http2_fill(http2, &out);
    const char *error = NULL;
    while (bytes.size > 0 && error == NULL) {
        size_t size = step < bytes.size ? step : bytes.size;
        error = lib_http2_receive(http2, bytes_of(bytes.data, size));
        bytes.data += size;
        bytes.size -= size;
        for (size_t i = 0; i < CALLS; i++) {
            take(http2, calls[i]);
        }
        out.size = 0;
        if (!lib_http2_fill(http2, &out)) {
            break;
        }
    }
    lib_http2_destroy(http2);
    for (size_t i = 0; i < CALLS; i++) {
        lib_call_free(calls[i]);
    }
    buffer_clear(&out);
}

static void take_event(void *context, bool is_delete, const struct lib_etcd_key *key) {
    if (is_delete) {
        lib_entries_remove(context, key->key);
    } else {
        (void)lib_entries_put(context, key);
    }
}

static void read_etcd(struct arena *arena, struct bytes message, uint8_t kind) {
    struct lib_etcd_outcome outcome;
    struct lib_etcd_event event;
    struct lib_entries entries = {0};
    struct lease_resource resource;
    bool is_accepted;
    int64_t highest;
    switch (kind) {
    case 0:
        (void)lib_etcd_decode_txn(arena, message, &outcome);
        break;
    case 1:
        (void)lib_etcd_decode_watch(message, &event);
        (void)lib_etcd_each_event(message, take_event, &entries);
        lib_entries_clear(&entries);
        break;
    case 2:
        (void)lib_etcd_look_decode(arena, message, "name", &resource);
        break;
    case 3:
        (void)lib_etcd_fence_decode(message, 5, &is_accepted, &highest);
        break;
    default:
        (void)lib_etcd_fence_decode_get(message, &highest);
    }
}

static void read_native(struct arena *arena, struct bytes message, uint8_t kind) {
    struct lease_acquisition acquisition;
    struct lease_session_info session;
    struct lease_resource resource;
    struct lease_pool pool;
    struct lease_ended ended;
    struct lib_renewal renewal;
    int64_t id;
    int64_t ttl_ms;
    switch (kind) {
    case 0:
        (void)lib_read_acquisition(arena, message, &acquisition);
        break;
    case 1:
        (void)lib_read_session(arena, message, &session);
        break;
    case 2:
        (void)lib_read_resource(arena, message, &resource);
        break;
    case 3:
        (void)lib_read_pool_state(arena, message, &pool);
        break;
    case 4:
        (void)lib_read_ended(arena, message, &ended);
        break;
    case 5:
        (void)lib_session_decode_create(LEASE_PROTOCOL_NATIVE, message, &id, &ttl_ms);
        (void)lib_session_decode_create(LEASE_PROTOCOL_ETCD, message, &id, &ttl_ms);
        break;
    default:
        (void)lib_session_decode_renewal(LEASE_PROTOCOL_NATIVE, message, &renewal);
        (void)lib_session_decode_renewal(LEASE_PROTOCOL_ETCD, message, &renewal);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) {
        return 0;
    }
    struct bytes rest = bytes_of(data + 2, size - 2);
    struct arena arena;
    arena_init(&arena);
    if (data[0] % 3 == 0) {
        feed_http2(rest, 1 + (size_t)data[1]);
    } else if (data[0] % 3 == 1) {
        read_native(&arena, rest, data[1] % 7);
    } else {
        read_etcd(&arena, rest, data[1] % 5);
    }
    arena_clear(&arena);
    return 0;
}
