/* What a call sends, as nghttp2 asks for it: headers, DATA frames packed from the queue, trailers.
 */
#include "net/grpc_call.h"
#include "net/grpc_message.h"
#include "net/http2_session.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum { FRAME_HEADER_SIZE = 9, CODE_TEXT_SIZE = 4, NUMBER_TEXT_SIZE = 24, HEADERS_MAX = 6 };

#define STATIC_HEADER(header_name, header_value)                                                   \
    ((nghttp2_nv){.name = (uint8_t *)(header_name),                                                \
                  .value = (uint8_t *)(header_value),                                              \
                  .namelen = sizeof(header_name) - 1,                                              \
                  .valuelen = sizeof(header_value) - 1,                                            \
                  .flags = NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE})

/* The name is static, the value is copied by nghttp2. */
#define VALUE_HEADER(header_name, header_value, value_size)                                        \
    ((nghttp2_nv){.name = (uint8_t *)(header_name),                                                \
                  .value = (uint8_t *)(header_value),                                              \
                  .namelen = sizeof(header_name) - 1,                                              \
                  .valuelen = (value_size),                                                        \
                  .flags = NGHTTP2_NV_FLAG_NO_COPY_NAME})

/* The status of a call as headers; the texts are used by nghttp2_submit_* before it returns. */
struct status_headers {
    char code[CODE_TEXT_SIZE];
    char text[3 * GRPC_TEXT_SIZE_MAX + 1];
};

static size_t add_status(const struct grpc_call *call, struct status_headers *storage,
                         nghttp2_nv *headers) {
    size_t n = 0;
    if (call->code == GRPC_OK) {
        headers[n++] = STATIC_HEADER("grpc-status", "0");
    } else {
        int size = snprintf(storage->code, sizeof storage->code, "%u", call->code);
        headers[n++] = VALUE_HEADER("grpc-status", storage->code, (size_t)size);
    }
    if (call->text != NULL) {
        size_t size = grpc_message_encode(call->text, storage->text, sizeof storage->text);
        headers[n++] = VALUE_HEADER("grpc-message", storage->text, size);
    }
    return n;
}

static int submit_trailers(nghttp2_session *nghttp2, const struct grpc_call *call) {
    struct status_headers storage;
    nghttp2_nv headers[HEADERS_MAX];
    size_t n = add_status(call, &storage, headers);
    return nghttp2_submit_trailer(nghttp2, call->stream_id, headers, n);
}

/* How much of the queue goes into the next DATA frame. The bytes themselves are fetched by
 * http2_session_send_data(), so many small messages become one frame with one copy. */
static ssize_t read_body(nghttp2_session *nghttp2, int32_t stream_id, uint8_t *buffer,
                         size_t length, uint32_t *data_flags, nghttp2_data_source *source,
                         void *user_data) {
    (void)stream_id;
    (void)buffer;
    (void)user_data;
    struct grpc_call *call = source->ptr;
    size_t queued = grpc_call_queued_bytes(call);
    if (queued == 0 && !call->is_finished) {
        call->is_deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    size_t size = queued < length ? queued : length;
    if (size > 0) {
        *data_flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    }
    if (call->is_finished && size == queued) {
        *data_flags |= NGHTTP2_DATA_FLAG_EOF;
        if (!call->is_page) {
            *data_flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
            if (submit_trailers(nghttp2, call) == NGHTTP2_ERR_NOMEM) {
                return NGHTTP2_ERR_CALLBACK_FAILURE;
            }
        }
    }
    return (ssize_t)size;
}

int http2_session_send_data(nghttp2_session *nghttp2, nghttp2_frame *frame,
                            const uint8_t *frame_header, size_t length, nghttp2_data_source *source,
                            void *user_data) {
    (void)nghttp2;
    (void)frame;
    struct http2_session *session = user_data;
    struct grpc_call *call = source->ptr;
    struct buffer *sink = session->sink;
    assert(sink != NULL);
    if (sink->size >= session->sink_size_max) {
        return NGHTTP2_ERR_WOULDBLOCK;
    }
    assert(frame->data.padlen == 0);
    buffer_append(sink, frame_header, FRAME_HEADER_SIZE);
    buffer_append(sink, call->out.data + call->out_sent, length);
    grpc_call_drop_sent(call, length);
    return 0;
}

static void submit_response(struct http2_session *session, struct grpc_call *call,
                            const nghttp2_nv *headers, size_t n_headers, bool with_body) {
    nghttp2_data_provider body = {.source.ptr = call, .read_callback = read_body};
    call->is_response_started = true;
    int result = nghttp2_submit_response(session->nghttp2, call->stream_id, headers, n_headers,
                                         with_body ? &body : NULL);
    if (result == NGHTTP2_ERR_NOMEM) {
        http2_session_fail(session, "out of memory");
    }
    session->host->wake(session->host);
}

void http2_session_start_response(struct http2_session *session, struct grpc_call *call) {
    static const nghttp2_nv headers[] = {
        STATIC_HEADER(":status", "200"),
        STATIC_HEADER("content-type", "application/grpc"),
    };
    submit_response(session, call, headers, sizeof headers / sizeof headers[0], true);
}

void http2_session_answer_status(struct http2_session *session, struct grpc_call *call) {
    struct status_headers storage;
    nghttp2_nv headers[HEADERS_MAX] = {
        STATIC_HEADER(":status", "200"),
        STATIC_HEADER("content-type", "application/grpc"),
    };
    size_t n = 2;
    if (call->refuses_encoding) {
        headers[n++] = STATIC_HEADER("grpc-accept-encoding", "identity");
    }
    n += add_status(call, &storage, headers + n);
    submit_response(session, call, headers, n, false);
}

void http2_session_answer_page(struct http2_session *session, struct grpc_call *call,
                               unsigned status, const char *content_type, bool with_body) {
    assert(status >= 200);
    assert(status <= 599);
    size_t body_size = call->out.size;
    call->is_page = true;
    call->is_finished = true;
    call->is_door_closed = true;
    char status_text[NUMBER_TEXT_SIZE];
    char size_text[NUMBER_TEXT_SIZE];
    int status_size = snprintf(status_text, sizeof status_text, "%u", status);
    int size_size = snprintf(size_text, sizeof size_text, "%zu", body_size);
    const nghttp2_nv headers[] = {
        VALUE_HEADER(":status", status_text, (size_t)status_size),
        VALUE_HEADER("content-type", content_type, strlen(content_type)),
        VALUE_HEADER("content-length", size_text, (size_t)size_size),
    };
    if (!with_body) {
        call->out.size = 0;
    }
    session->queued_bytes += call->out.size;
    session->shared->stats.queued_bytes += call->out.size;
    submit_response(session, call, headers, sizeof headers / sizeof headers[0], call->out.size > 0);
}
