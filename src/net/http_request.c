#include "net/http_request.h"

#include <string.h>

enum { KEPT_CAPACITY_MAX = 1024, LENGTH_DIGITS_MAX = 18 };

static void shrink(struct buffer *buffer) {
    if (buffer->capacity > KEPT_CAPACITY_MAX) {
        buffer_clear(buffer);
    }
    buffer->size = 0;
}

void http_request_reset(struct http_request *request) {
    shrink(&request->target);
    shrink(&request->fields);
    request->method[0] = 0;
    request->has_length = false;
    request->length = 0;
    request->is_complete = false;
    request->expects_continue = false;
    request->refusal = 0;
    request->refusal_text = NULL;
}

void http_request_clear(struct http_request *request) {
    buffer_clear(&request->target);
    buffer_clear(&request->fields);
}

bool http_request_set_method(struct http_request *request, struct bytes method) {
    if (method.size == 0 || method.size > HTTP_METHOD_SIZE_MAX) {
        return false;
    }
    memcpy(request->method, method.data, method.size);
    request->method[method.size] = 0;
    return true;
}

void http_request_set_target(struct http_request *request, struct bytes target) {
    if (target.size > HTTP_TARGET_SIZE_MAX) {
        request->refusal = 414;
        return;
    }
    request->target.size = 0;
    buffer_append(&request->target, target.data, target.size);
}

bool http_request_parse_length(struct bytes value, uint64_t *out_length) {
    if (value.size == 0 || value.size > LENGTH_DIGITS_MAX) {
        return false;
    }
    uint64_t length = 0;
    for (size_t i = 0; i < value.size; i++) {
        if (value.data[i] < '0' || value.data[i] > '9') {
            return false;
        }
        length = length * 10 + (uint64_t)(value.data[i] - '0');
    }
    *out_length = length;
    return true;
}
