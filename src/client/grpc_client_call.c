/*
 * Calls on one connection (gRPC over HTTP/2, PROTOCOL-HTTP2.md): request headers, length-prefixed
 * messages both ways, status from the trailers, deadlines. Call objects are recycled with their
 * buffers, so that a busy connection allocates nothing of its own for a call.
 */
#include "client/grpc_client_internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* grpc-timeout has at most eight digits. */
#define GRPC_TIMEOUT_VALUE_MAX 99999999u

/* ---- objects ----------------------------------------------------------------------------------
 */

static void trim(struct buffer *buffer) {
    buffer->size = 0;
    if (buffer->capacity > GRPC_CLIENT_KEPT_BUFFER_SIZE_MAX) {
        buffer_clear(buffer);
    }
}

static struct grpc_client_call *take_call(struct grpc_client *client) {
    struct list *node = list_pop_first(&client->idle_calls);
    struct grpc_client_call *call;
    if (node != NULL) {
        call = list_entry(node, struct grpc_client_call, link);
    } else {
        call = malloc(sizeof *call);
        if (call == NULL) {
            abort();
        }
        list_init(&call->link);
        list_init(&call->deadline_link);
        call->client = client;
        buffer_init(&call->out);
        buffer_init(&call->in);
    }
    call->deadline_ms = 0;
    call->stream_id = 0;
    call->http_status = 0;
    call->grpc_status = -1;
    call->is_grpc = false;
    call->half_closed = false;
    call->deferred = false;
    call->ended = false;
    call->message_whole = false;
    call->out_sent = 0;
    call->text[0] = 0;
    list_append(&client->calls, &call->link);
    client->n_calls++;
    return call;
}

static void recycle_call(struct grpc_client_call *call) {
    struct grpc_client *client = call->client;
    list_remove(&call->link);
    list_remove(&call->deadline_link);
    trim(&call->out);
    trim(&call->in);
    list_append(&client->idle_calls, &call->link);
    client->n_calls--;
}

static void free_list(struct list *list) {
    struct list *node;
    while ((node = list_pop_first(list)) != NULL) {
        struct grpc_client_call *call = list_entry(node, struct grpc_client_call, link);
        buffer_clear(&call->out);
        buffer_clear(&call->in);
        free(call);
    }
}

void grpc_client_free_calls(struct grpc_client *client) {
    free_list(&client->calls);
    free_list(&client->idle_calls);
}

/* Tells the owner, once. The object itself stays until nghttp2 lets go of the stream; a request
 * that could not be sent is closed like any other stream. */
static void end_call(struct grpc_client_call *call, enum grpc_code code, const char *text) {
    if (call->ended) {
        return;
    }
    call->ended = true;
    list_remove(&call->deadline_link);
    struct bytes message = {0};
    if (code == GRPC_OK && call->method->unary) {
        message = bytes_of(call->in.data + GRPC_FRAME_PREFIX_SIZE,
                           call->in.size - GRPC_FRAME_PREFIX_SIZE);
    }
    if (!call->client->destroyed) {
        call->method->on_end(call, code, text, message);
    }
}

void grpc_client_end_calls(struct grpc_client *client, enum grpc_code code, const char *text) {
    /* The session will not run again, so nothing else refers to these calls. */
    while (!list_is_empty(&client->calls) && !client->destroyed) {
        struct grpc_client_call *call =
            list_entry(client->calls.next, struct grpc_client_call, link);
        end_call(call, code, text);
        recycle_call(call);
    }
}

/* Gives the stream up and tells the owner why. */
static void break_call(struct grpc_client_call *call, enum grpc_code code, const char *text) {
    nghttp2_submit_rst_stream(call->client->session, NGHTTP2_FLAG_NONE, call->stream_id,
                              NGHTTP2_CANCEL);
    call->client->dirty = true;
    end_call(call, code, text);
}

/* ---- deadlines --------------------------------------------------------------------------------
 */

static uint64_t now_ms(void) {
    return uv_hrtime() / 1000000;
}

static void on_deadline(uv_timer_t *timer);

static void set_deadline_timer(struct grpc_client *client, uint64_t due_ms, uint64_t delay_ms) {
    client->deadline_timer_ms = due_ms;
    uv_update_time(client->loop);
    uv_timer_start(&client->deadline_timer, on_deadline, delay_ms, 0);
}

static void on_deadline(uv_timer_t *timer) {
    struct grpc_client *client = timer->data;
    uint64_t now = now_ms();
    while (!client->destroyed && !list_is_empty(&client->deadlines)) {
        struct grpc_client_call *call =
            list_entry(client->deadlines.next, struct grpc_client_call, deadline_link);
        if (call->deadline_ms > now) {
            set_deadline_timer(client, call->deadline_ms, call->deadline_ms - now);
            return;
        }
        break_call(call, GRPC_DEADLINE_EXCEEDED,
                   client->state == GRPC_CLIENT_CONNECTING ? "no answer in time: still connecting"
                                                           : "no answer in time");
    }
}

/* Most calls of a connection have the same timeout, so the right place is nearly always the end. */
static void add_deadline(struct grpc_client_call *call, uint32_t timeout_ms) {
    struct grpc_client *client = call->client;
    call->deadline_ms = now_ms() + timeout_ms;
    struct list *after = client->deadlines.previous;
    while (after != &client->deadlines &&
           list_entry(after, struct grpc_client_call, deadline_link)->deadline_ms >
               call->deadline_ms) {
        after = after->previous;
    }
    /* Appending to the list that begins at the successor inserts before it. */
    list_append(after->next, &call->deadline_link);
    /* A timer that is due sooner only fires early, and is then set anew. */
    if (!uv_is_active((uv_handle_t *)&client->deadline_timer) ||
        client->deadline_timer_ms > call->deadline_ms) {
        set_deadline_timer(client, call->deadline_ms, timeout_ms);
    }
}

/* ---- sending ----------------------------------------------------------------------------------
 */

static ssize_t on_send_data(nghttp2_session *session, int32_t stream_id, uint8_t *to, size_t room,
                            uint32_t *flags, nghttp2_data_source *source, void *user_data) {
    struct grpc_client_call *call = source->ptr;
    (void)session;
    (void)stream_id;
    (void)user_data;
    size_t left = call->out.size - call->out_sent;
    size_t size = left < room ? left : room;
    if (size > 0) {
        memcpy(to, call->out.data + call->out_sent, size);
    }
    call->out_sent += size;
    if (call->out_sent == call->out.size) {
        call->out.size = 0;
        call->out_sent = 0;
        if (call->half_closed) {
            *flags |= NGHTTP2_DATA_FLAG_EOF;
        } else if (size == 0) {
            call->deferred = true;
            return NGHTTP2_ERR_DEFERRED;
        }
    }
    return (ssize_t)size;
}

#define HEADER_FLAGS (NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE)
#define HEADER(header_name, header_value, header_value_size)                                       \
    {                                                                                              \
        .name = (uint8_t *)(header_name), .namelen = sizeof(header_name) - 1,                      \
        .value = (uint8_t *)(header_value), .valuelen = (header_value_size), .flags = HEADER_FLAGS \
    }
#define FIXED_HEADER(header_name, header_value)                                                    \
    HEADER(header_name, header_value, sizeof(header_value) - 1)

static size_t write_timeout(struct grpc_client_call *call, uint32_t timeout_ms) {
    const char *unit = "m";
    if (timeout_ms > GRPC_TIMEOUT_VALUE_MAX) {
        timeout_ms /= 1000;
        unit = "S";
    }
    return (size_t)snprintf(call->timeout_text, sizeof call->timeout_text, "%u%s", timeout_ms,
                            unit);
}

struct grpc_client_call *grpc_client_open(struct grpc_client *client,
                                          const struct grpc_client_method *method,
                                          uint32_t timeout_ms) {
    if (client->state == GRPC_CLIENT_CLOSED) {
        return NULL;
    }
    struct grpc_client_call *call = take_call(client);
    call->method = method;
    /* Nothing here is copied: every string outlives the frame (the call outlives its stream). The
     * same headers each time become one byte each on the wire. */
    nghttp2_nv headers[] = {
        FIXED_HEADER(":method", "POST"),
        FIXED_HEADER(":scheme", "http"),
        HEADER(":path", method->path, strlen(method->path)),
        HEADER(":authority", client->authority, client->authority_size),
        FIXED_HEADER("content-type", "application/grpc"),
        FIXED_HEADER("te", "trailers"),
        HEADER("grpc-timeout", call->timeout_text, 0),
    };
    size_t n_headers = sizeof headers / sizeof headers[0];
    if (timeout_ms > 0) {
        headers[n_headers - 1].valuelen = write_timeout(call, timeout_ms);
    } else {
        n_headers--;
    }
    const nghttp2_data_provider body = {.source.ptr = call, .read_callback = on_send_data};
    call->stream_id =
        nghttp2_submit_request(client->session, NULL, headers, n_headers, &body, call);
    if (call->stream_id < 0) {
        /* Stream ids are used up, or the server said GOAWAY: both mean a new connection. */
        recycle_call(call);
        return NULL;
    }
    client->dirty = true;
    if (timeout_ms > 0) {
        add_deadline(call, timeout_ms);
    }
    return call;
}

void *grpc_client_call_room(struct grpc_client_call *call) {
    return call->room;
}

struct grpc_client *grpc_client_call_client(const struct grpc_client_call *call) {
    return call->client;
}

uint8_t *grpc_client_call_reserve(struct grpc_client_call *call, size_t size) {
    assert(!call->half_closed);
    return buffer_reserve(&call->out, GRPC_FRAME_PREFIX_SIZE + size) + GRPC_FRAME_PREFIX_SIZE;
}

static void resume(struct grpc_client_call *call) {
    if (call->deferred) {
        call->deferred = false;
        nghttp2_session_resume_data(call->client->session, call->stream_id);
    }
    call->client->dirty = true;
}

void grpc_client_call_commit(struct grpc_client_call *call, size_t size) {
    assert(size <= UINT32_MAX);
    uint8_t *prefix = call->out.data + call->out.size;
    prefix[0] = 0; /* not compressed */
    prefix[1] = (uint8_t)(size >> 24);
    prefix[2] = (uint8_t)(size >> 16);
    prefix[3] = (uint8_t)(size >> 8);
    prefix[4] = (uint8_t)size;
    call->out.size += GRPC_FRAME_PREFIX_SIZE + size;
    assert(call->out.size <= call->out.capacity);
    resume(call);
}

size_t grpc_client_call_queued_bytes(const struct grpc_client_call *call) {
    return call->out.size - call->out_sent;
}

void grpc_client_call_half_close(struct grpc_client_call *call) {
    call->half_closed = true;
    resume(call);
}

void grpc_client_call_cancel(struct grpc_client_call *call) {
    call->ended = true;
    list_remove(&call->deadline_link);
    if (call->client->state != GRPC_CLIENT_CLOSED) {
        nghttp2_submit_rst_stream(call->client->session, NGHTTP2_FLAG_NONE, call->stream_id,
                                  NGHTTP2_CANCEL);
        call->client->dirty = true;
    }
}

/* ---- receiving --------------------------------------------------------------------------------
 */

static size_t message_size(const uint8_t *prefix) {
    return (size_t)prefix[1] << 24 | (size_t)prefix[2] << 16 | (size_t)prefix[3] << 8 | prefix[4];
}

/* NULL: the prefix is acceptable. */
static const char *prefix_error(const struct grpc_client_call *call, const uint8_t *prefix) {
    if (call->message_whole) {
        return "the server sent a second answer";
    }
    if (prefix[0] != 0) {
        return "the server compressed its answer though nobody asked";
    }
    if (message_size(prefix) > GRPC_CLIENT_MESSAGE_SIZE_MAX) {
        return "the answer is too large";
    }
    return NULL;
}

static bool is_over(const struct grpc_client_call *call) {
    return call->ended || call->client->destroyed;
}

/* Adds to the message in `in` as much as belongs to it; hands it on when it is whole. */
static const char *gather(struct grpc_client_call *call, struct bytes *rest) {
    size_t goal = GRPC_FRAME_PREFIX_SIZE;
    if (call->in.size >= GRPC_FRAME_PREFIX_SIZE) {
        goal += message_size(call->in.data);
    }
    size_t missing = goal - call->in.size;
    size_t size = missing < rest->size ? missing : rest->size;
    buffer_append(&call->in, rest->data, size);
    rest->data += size;
    rest->size -= size;
    if (call->in.size == GRPC_FRAME_PREFIX_SIZE && goal == GRPC_FRAME_PREFIX_SIZE) {
        const char *error = prefix_error(call, call->in.data);
        if (error != NULL) {
            return error;
        }
        goal += message_size(call->in.data);
    }
    if (call->in.size == goal && goal >= GRPC_FRAME_PREFIX_SIZE) {
        if (call->method->unary) {
            call->message_whole = true;
        } else {
            call->method->on_message(call, bytes_of(call->in.data + GRPC_FRAME_PREFIX_SIZE,
                                                    goal - GRPC_FRAME_PREFIX_SIZE));
            trim(&call->in);
        }
    }
    return NULL;
}

static const char *take_data(struct grpc_client_call *call, struct bytes rest) {
    while (rest.size > 0 && !is_over(call)) {
        const char *error = NULL;
        if (call->message_whole) {
            return prefix_error(call, rest.data);
        }
        if (call->method->unary || call->in.size > 0 || rest.size < GRPC_FRAME_PREFIX_SIZE) {
            error = gather(call, &rest);
        } else {
            /* A message of a stream that lies whole in what came is handed on where it lies. */
            error = prefix_error(call, rest.data);
            size_t size = message_size(rest.data);
            if (error == NULL && rest.size - GRPC_FRAME_PREFIX_SIZE < size) {
                error = gather(call, &rest);
            } else if (error == NULL) {
                struct bytes message = bytes_of(rest.data + GRPC_FRAME_PREFIX_SIZE, size);
                rest.data += GRPC_FRAME_PREFIX_SIZE + size;
                rest.size -= GRPC_FRAME_PREFIX_SIZE + size;
                call->method->on_message(call, message);
            }
        }
        if (error != NULL) {
            return error;
        }
    }
    return NULL;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *data,
                   size_t size, void *user_data) {
    struct grpc_client_call *call = nghttp2_session_get_stream_user_data(session, stream_id);
    (void)flags;
    (void)user_data;
    /* A body that is not gRPC (an error page) tells nothing that its HTTP status does not. */
    if (call == NULL || is_over(call) || !call->is_grpc) {
        return 0;
    }
    const char *error = take_data(call, bytes_of(data, size));
    if (error != NULL) {
        break_call(call, GRPC_INTERNAL, error);
    }
    return 0;
}

static int decimal(const uint8_t *data, size_t size) {
    int number = 0;
    if (size == 0 || size > 3) {
        return -1;
    }
    for (size_t i = 0; i < size; i++) {
        if (data[i] < '0' || data[i] > '9') {
            return -1;
        }
        number = number * 10 + (data[i] - '0');
    }
    return number;
}

static int hex_digit(uint8_t c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* grpc-message is percent-encoded; what is not well encoded is kept as it stands. */
static void decode_text(const uint8_t *data, size_t size, char *out_text) {
    size_t used = 0;
    for (size_t i = 0; i < size && used + 1 < GRPC_CLIENT_TEXT_SIZE_MAX; i++) {
        int high = data[i] == '%' && i + 2 < size ? hex_digit(data[i + 1]) : -1;
        int low = high >= 0 ? hex_digit(data[i + 2]) : -1;
        if (low >= 0) {
            out_text[used++] = (char)(high << 4 | low);
            i += 2;
        } else {
            out_text[used++] = (char)data[i];
        }
    }
    out_text[used] = 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags,
                     void *user_data) {
    (void)flags;
    (void)user_data;
    struct grpc_client_call *call =
        nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (call == NULL) {
        return 0;
    }
    if (name_size == 7 && memcmp(name, ":status", 7) == 0) {
        call->http_status = decimal(value, value_size);
    } else if (name_size == 11 && memcmp(name, "grpc-status", 11) == 0) {
        int status = decimal(value, value_size);
        call->grpc_status = status < 0 || status > GRPC_UNAUTHENTICATED ? GRPC_UNKNOWN : status;
    } else if (name_size == 12 && memcmp(name, "grpc-message", 12) == 0) {
        decode_text(value, value_size, call->text);
    } else if (name_size == 12 && memcmp(name, "content-type", 12) == 0) {
        call->is_grpc = value_size >= 16 && memcmp(value, "application/grpc", 16) == 0;
    }
    return 0;
}

/* PROTOCOL-HTTP2.md and its table for HTTP statuses that replace a gRPC status. */
static enum grpc_code code_of_http_status(int http_status) {
    switch (http_status) {
    case 400:
        return GRPC_INTERNAL;
    case 401:
        return GRPC_UNAUTHENTICATED;
    case 403:
        return GRPC_PERMISSION_DENIED;
    case 404:
        return GRPC_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504:
        return GRPC_UNAVAILABLE;
    default:
        return GRPC_UNKNOWN;
    }
}

/* The same document's table for streams that were reset. */
static enum grpc_code code_of_reset(uint32_t error_code) {
    switch (error_code) {
    case NGHTTP2_REFUSED_STREAM:
        return GRPC_UNAVAILABLE;
    case NGHTTP2_CANCEL:
        return GRPC_CANCELLED;
    case NGHTTP2_ENHANCE_YOUR_CALM:
        return GRPC_RESOURCE_EXHAUSTED;
    case NGHTTP2_INADEQUATE_SECURITY:
        return GRPC_PERMISSION_DENIED;
    default:
        return GRPC_INTERNAL;
    }
}

static void end_by_close(struct grpc_client_call *call, uint32_t error_code) {
    char *text = call->text;
    size_t room = sizeof call->text;
    if (call->grpc_status < 0 && call->http_status != 0 && !call->is_grpc) {
        snprintf(text, room, "HTTP status %d instead of a gRPC answer", call->http_status);
        end_call(call, code_of_http_status(call->http_status), text);
    } else if (call->grpc_status < 0 && error_code != NGHTTP2_NO_ERROR) {
        snprintf(text, room, "the server reset the call: %s", nghttp2_http2_strerror(error_code));
        end_call(call, code_of_reset(error_code), text);
    } else if (call->grpc_status < 0) {
        end_call(call, GRPC_UNKNOWN, "the answer ended without a status");
    } else if (call->grpc_status == GRPC_OK && call->method->unary && !call->message_whole) {
        end_call(call, GRPC_INTERNAL, "the answer ended without a message");
    } else if (call->grpc_status == GRPC_OK && !call->method->unary && call->in.size > 0) {
        end_call(call, GRPC_INTERNAL, "the stream ended inside a message");
    } else {
        end_call(call, (enum grpc_code)call->grpc_status, text);
    }
}

static int on_stream_close(nghttp2_session *session, int32_t stream_id, uint32_t error_code,
                           void *user_data) {
    struct grpc_client_call *call = nghttp2_session_get_stream_user_data(session, stream_id);
    (void)user_data;
    if (call == NULL) {
        return 0;
    }
    if (!call->ended) {
        end_by_close(call, error_code);
    }
    recycle_call(call);
    return 0;
}

void grpc_client_call_register(nghttp2_session_callbacks *callbacks) {
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
}
