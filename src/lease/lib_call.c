#include "lease/lib_call.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void lib_call_frame(struct lib_call *call, struct bytes message) {
    assert(message.size <= UINT32_MAX);
    uint8_t prefix[LIB_FRAME_PREFIX_SIZE] = {
        0,
        (uint8_t)(message.size >> 24),
        (uint8_t)(message.size >> 16),
        (uint8_t)(message.size >> 8),
        (uint8_t)message.size,
    };
    buffer_append(&call->out, prefix, sizeof prefix);
    buffer_append(&call->out, message.data, message.size);
}

static bool malformed(struct lib_call *call, const char *why) {
    snprintf(call->text, sizeof call->text, "the server's answer to %s is malformed: %s",
             call->method->path, why);
    return false;
}

/* The size of the message at `at`; false: it has not come whole, or out_error is not NULL. */
static bool next_message(const struct buffer *in, size_t at, size_t *out_size,
                         const char **out_error) {
    if (in->size - at < LIB_FRAME_PREFIX_SIZE) {
        return false;
    }
    const uint8_t *prefix = in->data + at;
    if (prefix[0] != 0) {
        *out_error = "it is compressed";
        return false;
    }
    size_t size = (size_t)prefix[1] << 24 | (size_t)prefix[2] << 16 | (size_t)prefix[3] << 8 |
                  (size_t)prefix[4];
    if (size > LIB_MESSAGE_SIZE_MAX) {
        *out_error = "a message is too large";
        return false;
    }
    *out_size = size;
    return in->size - at - LIB_FRAME_PREFIX_SIZE >= size;
}

bool lib_call_take_messages(struct lib_call *call) {
    size_t at = 0;
    size_t size = 0;
    const char *error = NULL;
    while (!call->is_canceled && next_message(&call->in, at, &size, &error)) {
        at += LIB_FRAME_PREFIX_SIZE;
        call->method->on_message(call, bytes_of(call->in.data + at, size));
        at += size;
    }
    if (error != NULL) {
        return malformed(call, error);
    }
    if (at > 0) {
        memmove(call->in.data, call->in.data + at, call->in.size - at);
        call->in.size -= at;
    }
    return true;
}

/* What a proxy or a server without gRPC means by a status of HTTP. */
static enum lib_code code_of_http(int status) {
    switch (status) {
    case 400:
        return LIB_CODE_INTERNAL;
    case 401:
        return LIB_CODE_UNAUTHENTICATED;
    case 403:
        return LIB_CODE_PERMISSION_DENIED;
    case 404:
        return LIB_CODE_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504:
        return LIB_CODE_UNAVAILABLE;
    default:
        return LIB_CODE_UNKNOWN;
    }
}

enum lib_code lib_call_code(const struct lib_call *call, const char **out_text) {
    *out_text = call->text;
    if (call->grpc_status >= 0) {
        bool is_known = call->grpc_status <= LIB_CODE_UNAUTHENTICATED;
        if (call->text[0] == '\0') {
            *out_text = "the server gave no reason";
        }
        return is_known ? (enum lib_code)call->grpc_status : LIB_CODE_UNKNOWN;
    }
    if (call->http_status != 0 && call->http_status != 200) {
        *out_text = "the server does not speak gRPC there";
        return code_of_http(call->http_status);
    }
    if (call->text[0] == '\0') {
        *out_text = "the server ended the call without a status";
    }
    return LIB_CODE_UNAVAILABLE;
}

void lib_call_rewind(struct lib_call *call) {
    call->stream_id = 0;
    call->out_at = 0;
    call->in.size = 0;
    call->is_closed = false;
    call->has_news = false;
    call->http_status = 0;
    call->grpc_status = -1;
    call->text[0] = '\0';
}

void lib_call_free(struct lib_call *call) {
    list_remove(&call->link);
    buffer_clear(&call->out);
    buffer_clear(&call->in);
    free(call);
}

enum lease_status lib_code_status(enum lib_code code) {
    switch (code) {
    case LIB_CODE_OK:
        return LEASE_OK;
    case LIB_CODE_CANCELLED:
        return LEASE_CANCELED;
    case LIB_CODE_INVALID_ARGUMENT:
    case LIB_CODE_OUT_OF_RANGE:
        return LEASE_INVALID;
    case LIB_CODE_DEADLINE_EXCEEDED:
        return LEASE_TIMEOUT;
    case LIB_CODE_NOT_FOUND:
        return LEASE_NOT_FOUND;
    case LIB_CODE_ALREADY_EXISTS:
        return LEASE_EXISTS;
    case LIB_CODE_PERMISSION_DENIED:
    case LIB_CODE_UNAUTHENTICATED:
        return LEASE_DENIED;
    case LIB_CODE_RESOURCE_EXHAUSTED:
        return LEASE_QUEUE_FULL;
    case LIB_CODE_FAILED_PRECONDITION:
        return LEASE_REFUSED;
    case LIB_CODE_ABORTED:
        return LEASE_BUSY;
    case LIB_CODE_UNIMPLEMENTED:
        return LEASE_UNSUPPORTED;
    case LIB_CODE_UNAVAILABLE:
        return LEASE_UNAVAILABLE;
    default:
        return LEASE_PROTOCOL;
    }
}
