#include "net/http2_request.h"

#include "net/grpc_call.h"
#include "net/grpc_timeout.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PATH_KEPT_MAX = 255,
    TIMEOUT_KEPT_MAX = 31,
    METADATA_KEPT_CAPACITY_MAX = 1024, /* of a request that waits to be used again */
    /* What RFC 9113, section 6.5.2 counts for a header besides its bytes. */
    HEADER_OVERHEAD = 32
};

enum request_method { METHOD_NONE, METHOD_GET, METHOD_HEAD, METHOD_POST, METHOD_OTHER };
enum request_timeout { TIMEOUT_NONE, TIMEOUT_GIVEN, TIMEOUT_MALFORMED };

struct http2_request {
    const struct method_route *route;
    const struct page_route *page;
    size_t header_size;
    uint64_t timeout_ms;
    enum request_method method;
    enum request_timeout timeout;
    bool is_grpc;
    struct buffer metadata;
    size_t path_size; /* of a path that leads nowhere, cut */
    char path[PATH_KEPT_MAX + 1];
    char timeout_text[TIMEOUT_KEPT_MAX + 1];
    char encoding[GRPC_ENCODING_NAME_MAX + 1];
};

struct http2_request *http2_request_take(struct net_shared *shared) {
    struct http2_request *request = shared->free_request;
    if (request == NULL) {
        return calloc(1, sizeof *request);
    }
    shared->free_request = NULL;
    return request;
}

static void destroy(struct http2_request *request) {
    buffer_clear(&request->metadata);
    free(request);
}

void http2_request_give_back(struct http2_request *request, struct net_shared *shared) {
    if (request == NULL) {
        return;
    }
    if (shared->free_request != NULL || request->metadata.capacity > METADATA_KEPT_CAPACITY_MAX) {
        destroy(request);
        return;
    }
    request->route = NULL;
    request->page = NULL;
    request->header_size = 0;
    request->method = METHOD_NONE;
    request->timeout = TIMEOUT_NONE;
    request->is_grpc = false;
    request->metadata.size = 0;
    request->path_size = 0;
    request->timeout_text[0] = 0;
    /* It is copied whole into each call. */
    if (request->encoding[0] != 0) {
        memset(request->encoding, 0, sizeof request->encoding);
    }
    shared->free_request = request;
}

void http2_request_drop_free(struct net_shared *shared) {
    if (shared->free_request != NULL) {
        destroy(shared->free_request);
        shared->free_request = NULL;
    }
}

static bool is(struct bytes value, const char *text) {
    return bytes_equal(value, bytes_from_text(text));
}

static bool starts_with(struct bytes value, const char *text) {
    size_t size = strlen(text);
    return value.size >= size && memcmp(value.data, text, size) == 0;
}

/* Copies what fits, with a zero at the end. */
static size_t keep_text(struct bytes value, char *out, size_t size_max) {
    size_t size = value.size < size_max ? value.size : size_max;
    memcpy(out, value.data, size);
    out[size] = 0;
    return size;
}

static void set_method(struct http2_request *request, struct bytes value) {
    if (is(value, "POST")) {
        request->method = METHOD_POST;
    } else if (is(value, "GET")) {
        request->method = METHOD_GET;
    } else if (is(value, "HEAD")) {
        request->method = METHOD_HEAD;
    } else {
        request->method = METHOD_OTHER;
    }
}

static void set_path(struct http2_request *request, const struct net_shared *shared,
                     struct bytes value) {
    request->route = route_table_find_method(&shared->routes, value);
    if (request->route == NULL) {
        request->page = route_table_find_page(&shared->routes, value);
        request->path_size = keep_text(value, request->path, PATH_KEPT_MAX);
    }
}

static void keep_metadata(struct http2_request *request, struct bytes name, struct bytes value) {
    struct buffer *metadata = &request->metadata;
    uint16_t sizes[2] = {(uint16_t)name.size, (uint16_t)value.size};
    if (name.size > GRPC_METADATA_SIZE_MAX || value.size > GRPC_METADATA_SIZE_MAX ||
        metadata->size + sizeof sizes + name.size + value.size > GRPC_METADATA_SIZE_MAX) {
        return;
    }
    buffer_append(metadata, sizes, sizeof sizes);
    buffer_append(metadata, name.data, name.size);
    buffer_append(metadata, value.data, value.size);
}

static bool add_grpc_header(struct http2_request *request, struct bytes name, struct bytes value) {
    if (is(name, "grpc-timeout")) {
        bool is_valid = grpc_timeout_parse(value, &request->timeout_ms);
        request->timeout = is_valid ? TIMEOUT_GIVEN : TIMEOUT_MALFORMED;
        keep_text(value, request->timeout_text, TIMEOUT_KEPT_MAX);
        return true;
    }
    if (is(name, "grpc-encoding")) {
        if (!is(value, "identity")) {
            keep_text(value, request->encoding, GRPC_ENCODING_NAME_MAX);
        }
        return true;
    }
    return false;
}

bool http2_request_add(struct http2_request *request, const struct net_shared *shared,
                       struct bytes name, struct bytes value) {
    request->header_size += name.size + value.size + HEADER_OVERHEAD;
    if (request->header_size > shared->limits.header_size_max) {
        return false;
    }
    if (name.size > 0 && name.data[0] == ':') {
        if (is(name, ":path")) {
            set_path(request, shared, value);
        } else if (is(name, ":method")) {
            set_method(request, value);
        }
        return true;
    }
    /* Every call sends these two, so they are not looked at letter by letter. */
    if (is(name, "content-type") && is(value, "application/grpc")) {
        request->is_grpc = true;
        return true;
    }
    if (is(name, "te") && is(value, "trailers")) {
        return true;
    }
    /* RFC 9113, section 8.2.1: small letters, and no control characters that could end a line. */
    if (!nghttp2_check_header_name(name.data, name.size) ||
        !nghttp2_check_header_value(value.data, value.size)) {
        return false;
    }
    if (is(name, "content-type")) {
        request->is_grpc = starts_with(value, "application/grpc");
        return true;
    }
    if (starts_with(name, "grpc-")) {
        add_grpc_header(request, name, value);
        return true;
    }
    /* Every client sends these, and no door asks for them. */
    if (!is(name, "te") && !is(name, "user-agent")) {
        keep_metadata(request, name, value);
    }
    return true;
}

static void answer_text(struct http2_session *session, struct grpc_call *call, unsigned status,
                        const char *text) {
    buffer_append(&call->out, text, strlen(text));
    http2_session_answer_page(session, call, status, "text/plain; charset=utf-8", true);
}

static void start_page(struct http2_request *request, struct http2_session *session,
                       struct grpc_call *call) {
    if (request->method != METHOD_GET && request->method != METHOD_HEAD) {
        answer_text(session, call, 405, "method not allowed\n");
        return;
    }
    if (request->page == NULL) {
        answer_text(session, call, 404, "404 page not found\n");
        return;
    }
    const char *content_type = "text/plain; charset=utf-8";
    unsigned status = request->page->page(request->page->context, &call->out, &content_type);
    http2_session_answer_page(session, call, status, content_type, request->method == METHOD_GET);
}

static void start_call(struct http2_request *request, struct http2_session *session,
                       struct grpc_call *call) {
    char text[2 * PATH_KEPT_MAX + 64];
    if (request->route == NULL) {
        route_table_explain(&session->shared->routes, bytes_of(request->path, request->path_size),
                            text, sizeof text);
        grpc_call_finish(call, GRPC_UNIMPLEMENTED, text);
        return;
    }
    if (request->timeout == TIMEOUT_MALFORMED) {
        snprintf(text, sizeof text, "malformed grpc-timeout: \"%s\"", request->timeout_text);
        grpc_call_finish(call, GRPC_INTERNAL, text);
        return;
    }
    call->method = request->route->method;
    call->context = request->route->context;
    memcpy(call->encoding, request->encoding, sizeof call->encoding);
    struct buffer metadata = call->metadata;
    call->metadata = request->metadata;
    request->metadata = metadata;
    if (request->timeout == TIMEOUT_GIVEN) {
        grpc_call_set_timeout(call, request->timeout_ms);
    }
    grpc_call_open(call);
}

void http2_request_start(struct http2_request *request, struct http2_session *session,
                         int32_t stream_id) {
    struct grpc_call *call = grpc_call_take(session, stream_id);
    list_append(&session->calls, &call->in_session);
    session->n_calls++;
    nghttp2_session_set_stream_user_data(session->nghttp2, stream_id, call);
    if (request->method == METHOD_POST && request->is_grpc) {
        start_call(request, session, call);
    } else if (request->method == METHOD_POST) {
        answer_text(session, call, 415, "the content type must be application/grpc\n");
    } else {
        start_page(request, session, call);
    }
}
