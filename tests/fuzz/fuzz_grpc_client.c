/*
 * What a server says to our client, cut into pieces as the first byte tells, while a unary call, a
 * stream and a call of another method are open. Owners give calls up and open new ones in their
 * callbacks, as an input's second byte tells. No socket: bytes go straight to the session.
 */
#include "client/grpc_client_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { ACT_CANCEL = 1, ACT_OPEN = 2, ACT_DESTROY = 4, CALLS_MAX = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned acts;
static unsigned n_opened;

static void open_call(struct grpc_client *client, const struct grpc_client_method *method);

static void on_message(struct grpc_client_call *call, struct bytes message) {
    struct grpc_client *client = grpc_client_call_client(call);
    volatile uint8_t sum = 0;
    for (size_t i = 0; i < message.size; i++) {
        sum = (uint8_t)(sum + message.data[i]);
    }
    if ((acts & ACT_CANCEL) != 0) {
        grpc_client_call_cancel(call);
    }
    if ((acts & ACT_DESTROY) != 0) {
        grpc_client_destroy(client);
    }
}

static const struct grpc_client_method stream_method;

static void on_end(struct grpc_client_call *call, enum grpc_code code, const char *text,
                   struct bytes message) {
    assert(code <= GRPC_UNAUTHENTICATED);
    assert(strlen(text) < GRPC_CLIENT_REASON_SIZE_MAX);
    assert(code == GRPC_OK || message.size == 0);
    if ((acts & ACT_OPEN) != 0) {
        open_call(grpc_client_call_client(call), &stream_method);
    }
}

static const struct grpc_client_method unary_method = {
    .path = "/fuzz.T/Unary", .unary = true, .on_message = on_message, .on_end = on_end};
static const struct grpc_client_method stream_method = {
    .path = "/fuzz.T/Stream", .on_message = on_message, .on_end = on_end};

static void open_call(struct grpc_client *client, const struct grpc_client_method *method) {
    if (n_opened == CALLS_MAX) {
        return;
    }
    struct grpc_client_call *call = grpc_client_open(client, method, 0);
    if (call == NULL) {
        return;
    }
    n_opened++;
    memcpy(grpc_client_call_reserve(call, 5), "hello", 5);
    grpc_client_call_commit(call, 5);
    if (method->unary) {
        grpc_client_call_half_close(call);
    }
}

/* What the turn of the loop would do, without a socket. */
static void end_turn(struct grpc_client *client) {
    if (!client->destroyed) {
        client->out.size = 0;
        grpc_client_recycle_calls(client);
        grpc_client_session_fill(client, &client->out);
    }
}

static void feed(struct grpc_client *client, struct bytes bytes, size_t step) {
    while (bytes.size > 0 && !client->destroyed) {
        size_t size = step < bytes.size ? step : bytes.size;
        const char *error = grpc_client_session_receive(client, bytes_of(bytes.data, size));
        if (error != NULL && !client->destroyed) {
            grpc_client_end_calls(client, GRPC_UNAVAILABLE, error);
            return;
        }
        bytes.data += size;
        bytes.size -= size;
        end_turn(client);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2) {
        return 0;
    }
    uv_loop_t loop;
    struct grpc_client *client;
    int result = uv_loop_init(&loop);
    assert(result == 0);
    /* Nobody listens there, and the loop does not run before all is said. */
    const struct grpc_client_options options = {.host = "127.0.0.1", .port = 1};
    enum status status = grpc_client_create(&loop, &options, &client);
    assert(status == STATUS_OK);
    acts = data[1];
    n_opened = 0;
    open_call(client, &unary_method);
    open_call(client, &stream_method);
    open_call(client, &unary_method);
    end_turn(client);
    feed(client, bytes_of(data + 2, size - 2), 1 + (size_t)data[0]);
    acts = 0;
    grpc_client_destroy(client);
    uv_run(&loop, UV_RUN_DEFAULT);
    result = uv_loop_close(&loop);
    assert(result == 0);
    return 0;
}
