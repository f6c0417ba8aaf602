/* The answers of HTTP/2, as nghttp2 asks for them: headers, DATA frames packed from the queue of an
 * exchange, trailers. */
#include "net/http2_session.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

enum {
    FRAME_HEADER_SIZE = 9,
    NUMBER_TEXT_SIZE = 24,
    HEADERS_MAX = HTTP_ANSWER_FIELDS_MAX + 2 /* status and length */
};

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

static void add_field(nghttp2_nv *out, const struct http_field *field) {
    *out = (nghttp2_nv){
        .name = (uint8_t *)(uintptr_t)field->name.data,
        .value = (uint8_t *)(uintptr_t)field->value.data,
        .namelen = field->name.size,
        .valuelen = field->value.size,
        .flags = field->is_constant ? NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE
                                    : NGHTTP2_NV_FLAG_NONE,
    };
}

static int submit_trailers(nghttp2_session *nghttp2, const struct http_exchange *exchange) {
    char text[HTTP_TRAILER_TEXT_MAX];
    struct http_field fields[HTTP_ANSWER_FIELDS_MAX];
    nghttp2_nv headers[HTTP_ANSWER_FIELDS_MAX];
    size_t n = exchange->handler->trailers(exchange, text, fields);
    for (size_t i = 0; i < n; i++) {
        add_field(&headers[i], &fields[i]);
    }
    return nghttp2_submit_trailer(nghttp2, exchange->stream_id, headers, n);
}

/* How much of the queue goes into the next DATA frame. The bytes themselves are fetched by
 * http2_response_send_data(), so many small messages become one frame with one copy. */
static ssize_t read_body(nghttp2_session *nghttp2, int32_t stream_id, uint8_t *buffer,
                         size_t length, uint32_t *data_flags, nghttp2_data_source *source,
                         void *user_data) {
    (void)stream_id;
    (void)buffer;
    (void)user_data;
    struct http_exchange *exchange = source->ptr;
    size_t queued = http_exchange_queued_bytes(exchange);
    if (queued == 0 && !exchange->is_finished) {
        exchange->is_deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    size_t size = queued < length ? queued : length;
    if (size > 0) {
        *data_flags |= NGHTTP2_DATA_FLAG_NO_COPY;
    }
    if (exchange->is_finished && size == queued) {
        *data_flags |= NGHTTP2_DATA_FLAG_EOF;
        if (exchange->handler->trailers != NULL) {
            *data_flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
            if (submit_trailers(nghttp2, exchange) == NGHTTP2_ERR_NOMEM) {
                return NGHTTP2_ERR_CALLBACK_FAILURE;
            }
        }
    }
    return (ssize_t)size;
}

int http2_response_send_data(nghttp2_session *nghttp2, nghttp2_frame *frame,
                             const uint8_t *frame_header, size_t length,
                             nghttp2_data_source *source, void *user_data) {
    (void)nghttp2;
    (void)frame;
    struct http2_session *session = user_data;
    struct http_exchange *exchange = source->ptr;
    struct buffer *sink = session->sink;
    assert(sink != NULL);
    if (sink->size >= session->sink_size_max) {
        return NGHTTP2_ERR_WOULDBLOCK;
    }
    assert(frame->data.padlen == 0);
    buffer_append(sink, frame_header, FRAME_HEADER_SIZE);
    buffer_append(sink, exchange->out.data + exchange->out_sent, length);
    http_exchange_drop_sent(exchange, length);
    return 0;
}

void http2_response_start(struct http_exchange *exchange, const struct http_answer *answer) {
    assert(answer->status >= 200);
    assert(answer->status <= 599);
    assert(answer->n_fields <= HTTP_ANSWER_FIELDS_MAX);
    struct http2_session *session = http2_session_of(exchange);
    char status_text[NUMBER_TEXT_SIZE];
    char length_text[NUMBER_TEXT_SIZE];
    nghttp2_nv headers[HEADERS_MAX];
    size_t n = 0;
    if (answer->status == 200) {
        headers[n++] = STATIC_HEADER(":status", "200");
    } else {
        int size = snprintf(status_text, sizeof status_text, "%u", answer->status);
        headers[n++] = VALUE_HEADER(":status", status_text, (size_t)size);
    }
    for (size_t i = 0; i < answer->n_fields; i++) {
        add_field(&headers[n++], &answer->fields[i]);
    }
    if (answer->length != HTTP_LENGTH_UNKNOWN) {
        int size =
            snprintf(length_text, sizeof length_text, "%llu", (unsigned long long)answer->length);
        headers[n++] = VALUE_HEADER("content-length", length_text, (size_t)size);
    }
    nghttp2_data_provider body = {.source.ptr = exchange, .read_callback = read_body};
    http2_session_check_submitted(
        session, nghttp2_submit_response(session->nghttp2, exchange->stream_id, headers, n,
                                         answer->has_body ? &body : NULL));
}

void http2_response_want_body(struct http_exchange *exchange) {
    struct http2_session *session = http2_session_of(exchange);
    const nghttp2_nv status = STATIC_HEADER(":status", "100");
    http2_session_check_submitted(
        session, nghttp2_submit_headers(session->nghttp2, NGHTTP2_FLAG_NONE, exchange->stream_id,
                                        NULL, &status, 1, NULL));
}
