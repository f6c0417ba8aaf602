/*
 * HTTP/2 for a gRPC client (RFC 9113), and only that: requests with a body, no priorities, no push.
 * A general library keeps a state machine and a queue for each stream; that costs more than a small
 * call is worth, and a tool that measures servers must cost less than they do. Header compression
 * is nghttp2's (header_codec.c).
 */
#include "client/grpc_client_internal.h"

#include <assert.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Wide windows: the answer to one range or watch may be many megabytes and is consumed at once. */
#define STREAM_WINDOW_SIZE (4 * 1024 * 1024)
#define CONNECTION_WINDOW_SIZE (64 * 1024 * 1024)
/* Until the peer's SETTINGS say how many it takes. */
#define STREAMS_MAX_AT_FIRST 100
#define BLOCK_SIZE_MAX (64 * 1024)
/* A peer that makes us answer more than it reads. */
#define CONTROL_SIZE_MAX (1024 * 1024)
#define BUCKETS_MIN 64

/* ---- streams by id ------------------------------------------------------------------------------
 */

static size_t bucket_of(const struct grpc_client_session *session, int32_t stream_id) {
    return (size_t)stream_id / 2 & (session->n_buckets - 1);
}

static struct grpc_client_call *find_stream(const struct grpc_client_session *session,
                                            int32_t stream_id) {
    struct grpc_client_call *call = session->buckets[bucket_of(session, stream_id)];
    while (call != NULL && call->stream_id != stream_id) {
        call = call->next_in_bucket;
    }
    return call;
}

static void grow_buckets(struct grpc_client_session *session) {
    struct grpc_client_call **old = session->buckets;
    size_t n_old = session->n_buckets;
    session->n_buckets = n_old * 2;
    session->buckets = calloc(session->n_buckets, sizeof *session->buckets);
    if (session->buckets == NULL) {
        abort();
    }
    for (size_t i = 0; i < n_old; i++) {
        while (old[i] != NULL) {
            struct grpc_client_call *call = old[i];
            old[i] = call->next_in_bucket;
            struct grpc_client_call **bucket =
                &session->buckets[bucket_of(session, call->stream_id)];
            call->next_in_bucket = *bucket;
            *bucket = call;
        }
    }
    free(old);
}

static void add_stream(struct grpc_client_session *session, struct grpc_client_call *call) {
    if (session->n_streams >= session->n_buckets) {
        grow_buckets(session);
    }
    struct grpc_client_call **bucket = &session->buckets[bucket_of(session, call->stream_id)];
    call->next_in_bucket = *bucket;
    *bucket = call;
    session->n_streams++;
}

static void remove_stream(struct grpc_client_session *session, struct grpc_client_call *call) {
    struct grpc_client_call **at = &session->buckets[bucket_of(session, call->stream_id)];
    while (*at != call) {
        assert(*at != NULL);
        at = &(*at)->next_in_bucket;
    }
    *at = call->next_in_bucket;
    assert(session->n_streams > 0);
    session->n_streams--;
}

/* ---- life ---------------------------------------------------------------------------------------
 */

static void put_setting(uint8_t *to, enum http2_setting setting, uint32_t value) {
    to[0] = 0;
    to[1] = (uint8_t)setting;
    http2_write_u32(to + 2, value);
}

enum status grpc_client_session_init(struct grpc_client *client) {
    struct grpc_client_session *session = &client->session;
    *session = (struct grpc_client_session){
        .next_stream_id = 1,
        .goaway_last_id = -1,
        .send_window = HTTP2_WINDOW_SIZE,
        .peer_window_size = HTTP2_WINDOW_SIZE,
        .peer_frame_size_max = HTTP2_FRAME_SIZE_MAX,
        .peer_streams_max = STREAMS_MAX_AT_FIRST,
        .n_buckets = BUCKETS_MIN,
    };
    list_init(&session->to_send);
    buffer_init(&session->control);
    buffer_init(&session->partial);
    buffer_init(&session->block);
    session->codec = header_codec_create(client->authority, client->tls != NULL);
    session->buckets = calloc(session->n_buckets, sizeof *session->buckets);
    if (session->codec == NULL || session->buckets == NULL) {
        grpc_client_session_clear(client);
        return STATUS_NO_MEMORY;
    }
    buffer_append(&session->control, HTTP2_PREFACE, sizeof HTTP2_PREFACE - 1);
    uint8_t *settings =
        http2_put_frame(&session->control, (struct http2_frame){.size = 2 * HTTP2_SETTING_SIZE,
                                                                .type = HTTP2_SETTINGS});
    put_setting(settings, HTTP2_SETTING_ENABLE_PUSH, 0);
    put_setting(settings + HTTP2_SETTING_SIZE, HTTP2_SETTING_INITIAL_WINDOW_SIZE,
                STREAM_WINDOW_SIZE);
    http2_put_number(&session->control, HTTP2_WINDOW_UPDATE, 0,
                     CONNECTION_WINDOW_SIZE - HTTP2_WINDOW_SIZE);
    return STATUS_OK;
}

void grpc_client_session_clear(struct grpc_client *client) {
    struct grpc_client_session *session = &client->session;
    header_codec_destroy(session->codec);
    free(session->buckets);
    buffer_clear(&session->control);
    buffer_clear(&session->partial);
    buffer_clear(&session->block);
}

bool grpc_client_session_is_over(const struct grpc_client *client) {
    return client->session.goaway_last_id >= 0 && client->session.n_streams == 0;
}

/* ---- sending ------------------------------------------------------------------------------------
 */

void grpc_client_session_queue(struct grpc_client_call *call) {
    if (list_is_empty(&call->send_link)) {
        list_append(&call->client->session.to_send, &call->send_link);
    }
    grpc_client_touch(call->client);
}

void grpc_client_session_drop(struct grpc_client_call *call, bool peer_knows) {
    struct grpc_client_session *session = &call->client->session;
    list_remove(&call->send_link);
    if (call->stream_id == 0) {
        return;
    }
    if (!peer_knows) {
        http2_put_number(&session->control, HTTP2_RST_STREAM, call->stream_id, HTTP2_CANCEL);
    }
    remove_stream(session, call);
    grpc_client_touch(call->client);
}

/* False: it must wait, or will never be sent. */
static bool open_stream(struct grpc_client_call *call, struct buffer *out) {
    struct grpc_client_session *session = &call->client->session;
    if (session->n_streams >= session->peer_streams_max) {
        return false;
    }
    struct bytes block = header_codec_encode(session->codec, call->method->path, call->timeout_ms);
    assert(block.size <= HTTP2_FRAME_SIZE_MAX); /* paths and hosts are short */
    call->stream_id = session->next_stream_id;
    session->next_stream_id += 2;
    call->send_window = session->peer_window_size;
    uint8_t *to = http2_put_frame(out, (struct http2_frame){
                                           .size = (uint32_t)block.size,
                                           .type = HTTP2_HEADERS,
                                           .flags = HTTP2_END_HEADERS,
                                           .stream_id = call->stream_id,
                                       });
    memcpy(to, block.data, block.size);
    add_stream(session, call);
    return true;
}

static size_t smallest(size_t a, size_t b) {
    return a < b ? a : b;
}

/* What the peer's windows and frames have room for. */
static size_t room_for(const struct grpc_client_call *call) {
    const struct grpc_client_session *session = &call->client->session;
    if (session->send_window <= 0 || call->send_window <= 0) {
        return 0;
    }
    size_t windows = smallest((size_t)session->send_window, (size_t)call->send_window);
    return smallest(windows, session->peer_frame_size_max);
}

/* One DATA frame. False: the windows are closed. */
static bool put_data(struct grpc_client_call *call, struct buffer *out) {
    struct grpc_client_session *session = &call->client->session;
    size_t left = call->out.size - call->out_sent;
    size_t size = smallest(left, room_for(call));
    if (size == 0 && left > 0) {
        return false;
    }
    bool is_end = call->half_closed && size == left;
    uint8_t *to = http2_put_frame(out, (struct http2_frame){
                                           .size = (uint32_t)size,
                                           .type = HTTP2_DATA,
                                           .flags = is_end ? HTTP2_END_STREAM : 0,
                                           .stream_id = call->stream_id,
                                       });
    if (size > 0) {
        memcpy(to, call->out.data + call->out_sent, size);
    }
    call->out_sent += size;
    call->send_window -= (int64_t)size;
    session->send_window -= (int64_t)size;
    call->end_sent = is_end;
    if (call->out_sent == call->out.size) {
        call->out.size = 0;
        call->out_sent = 0;
    }
    return true;
}

static bool has_something(const struct grpc_client_call *call) {
    return call->out_sent < call->out.size || (call->half_closed && !call->end_sent);
}

void grpc_client_session_fill(struct grpc_client *client, struct buffer *out) {
    struct grpc_client_session *session = &client->session;
    if (session->control.size > 0) {
        buffer_append(out, session->control.data, session->control.size);
        session->control.size = 0;
    }
    struct list *node = session->to_send.next;
    while (node != &session->to_send && out->size < GRPC_CLIENT_WRITE_SIZE) {
        struct grpc_client_call *call = list_entry(node, struct grpc_client_call, send_link);
        node = node->next;
        if (call->stream_id == 0 && !open_stream(call, out)) {
            continue; /* the first stream that ends wakes us */
        }
        bool is_open = true;
        while (is_open && has_something(call) && out->size < GRPC_CLIENT_WRITE_SIZE) {
            is_open = put_data(call, out);
        }
        if (!has_something(call)) {
            list_remove(&call->send_link);
        } else if (session->send_window <= 0) {
            break; /* WINDOW_UPDATE wakes us */
        }
    }
}

/* ---- receiving: frames of calls -----------------------------------------------------------------
 */

static void close_stream(struct grpc_client_call *call) {
    /* An answer that ends before the request did: the rest is not read. */
    grpc_client_session_drop(call, call->end_sent);
    grpc_client_call_on_close(call, HTTP2_NO_ERROR);
}

/* Takes padding off. False: there is more of it than frame. */
static bool unpad(const struct http2_frame *frame, struct bytes *body) {
    if ((frame->flags & HTTP2_PADDED) == 0) {
        return true;
    }
    if (body->size == 0 || body->data[0] >= body->size) {
        return false;
    }
    *body = bytes_of(body->data + 1, body->size - 1 - body->data[0]);
    return true;
}

static const char *on_data(struct grpc_client *client, const struct http2_frame *frame,
                           struct bytes body) {
    struct grpc_client_session *session = &client->session;
    session->unacknowledged += frame->size;
    if (session->unacknowledged >= CONNECTION_WINDOW_SIZE / 2) {
        http2_put_number(&session->control, HTTP2_WINDOW_UPDATE, 0, session->unacknowledged);
        session->unacknowledged = 0;
        grpc_client_touch(client);
    }
    if (!unpad(frame, &body)) {
        return "a DATA frame with too much padding";
    }
    struct grpc_client_call *call = find_stream(session, frame->stream_id);
    if (call == NULL) {
        return NULL; /* of a call that was given up */
    }
    call->unacknowledged += frame->size;
    bool is_end = (frame->flags & HTTP2_END_STREAM) != 0;
    if (call->unacknowledged >= STREAM_WINDOW_SIZE / 2 && !is_end) {
        http2_put_number(&session->control, HTTP2_WINDOW_UPDATE, frame->stream_id,
                         call->unacknowledged);
        call->unacknowledged = 0;
        grpc_client_touch(client);
    }
    grpc_client_call_on_data(call, body);
    if (is_end && !call->ended && !client->destroyed) {
        close_stream(call);
    }
    return NULL;
}

static const char *on_block(struct grpc_client *client, int32_t stream_id, uint8_t flags,
                            struct bytes block) {
    struct header_codec_answer answer;
    if (header_codec_decode(client->session.codec, block, &answer) != STATUS_OK) {
        return "headers that cannot be decoded";
    }
    struct grpc_client_call *call = find_stream(&client->session, stream_id);
    if (call == NULL) {
        return NULL;
    }
    grpc_client_call_on_headers(call, &answer);
    if ((flags & HTTP2_END_STREAM) != 0) {
        close_stream(call);
    }
    return NULL;
}

static const char *on_headers(struct grpc_client *client, const struct http2_frame *frame,
                              struct bytes body) {
    struct grpc_client_session *session = &client->session;
    if (!unpad(frame, &body)) {
        return "a HEADERS frame with too much padding";
    }
    if ((frame->flags & HTTP2_PRIORITY_FLAG) != 0) {
        if (body.size < HTTP2_PRIORITY_SIZE) {
            return "a HEADERS frame that is too short";
        }
        body = bytes_of(body.data + HTTP2_PRIORITY_SIZE, body.size - HTTP2_PRIORITY_SIZE);
    }
    if (frame->stream_id == 0 || frame->stream_id >= session->next_stream_id) {
        return "headers of a stream that was never opened";
    }
    if ((frame->flags & HTTP2_END_HEADERS) != 0) {
        return on_block(client, frame->stream_id, frame->flags, body);
    }
    session->block.size = 0;
    buffer_append(&session->block, body.data, body.size);
    session->block_stream_id = frame->stream_id;
    session->block_flags = frame->flags;
    return NULL;
}

static const char *on_continuation(struct grpc_client *client, const struct http2_frame *frame,
                                   struct bytes body) {
    struct grpc_client_session *session = &client->session;
    if (session->block.size + body.size > BLOCK_SIZE_MAX) {
        return "headers that are too large";
    }
    buffer_append(&session->block, body.data, body.size);
    if ((frame->flags & HTTP2_END_HEADERS) == 0) {
        return NULL;
    }
    int32_t stream_id = session->block_stream_id;
    session->block_stream_id = 0;
    return on_block(client, stream_id, session->block_flags,
                    bytes_of(session->block.data, session->block.size));
}

static const char *on_reset(struct grpc_client *client, struct http2_frame frame,
                            struct bytes body) {
    if (body.size != 4) {
        return "a RST_STREAM frame of a wrong size";
    }
    struct grpc_client_call *call = find_stream(&client->session, frame.stream_id);
    if (call != NULL) {
        grpc_client_session_drop(call, true);
        grpc_client_call_on_close(call, http2_read_u32(body.data));
    }
    return NULL;
}

/* ---- receiving: frames of the connection --------------------------------------------------------
 */

/* A new initial window changes those of all open streams (6.9.2). */
static const char *change_windows(struct grpc_client *client, uint32_t size) {
    struct grpc_client_session *session = &client->session;
    if (size > HTTP2_WINDOW_SIZE_MAX) {
        return "a window that is too large";
    }
    int64_t change = (int64_t)size - session->peer_window_size;
    session->peer_window_size = size;
    for (size_t i = 0; i < session->n_buckets; i++) {
        for (struct grpc_client_call *call = session->buckets[i]; call != NULL;
             call = call->next_in_bucket) {
            call->send_window += change;
        }
    }
    return NULL;
}

static const char *on_setting(struct grpc_client *client, unsigned setting, uint32_t value) {
    struct grpc_client_session *session = &client->session;
    switch (setting) {
    case HTTP2_SETTING_HEADER_TABLE_SIZE:
        header_codec_limit_table(session->codec, value);
        return NULL;
    case HTTP2_SETTING_MAX_CONCURRENT_STREAMS:
        session->peer_streams_max = value;
        return NULL;
    case HTTP2_SETTING_INITIAL_WINDOW_SIZE:
        return change_windows(client, value);
    case HTTP2_SETTING_MAX_FRAME_SIZE:
        if (value < HTTP2_FRAME_SIZE_MAX || value > HTTP2_FRAME_SIZE_LIMIT) {
            return "a frame size that cannot be";
        }
        session->peer_frame_size_max = HTTP2_FRAME_SIZE_MAX; /* larger ones gain nothing */
        return NULL;
    default:
        return NULL;
    }
}

static const char *on_settings(struct grpc_client *client, const struct http2_frame *frame,
                               struct bytes body) {
    struct grpc_client_session *session = &client->session;
    if ((frame->flags & HTTP2_ACK) != 0) {
        return body.size == 0 ? NULL : "a SETTINGS frame of a wrong size";
    }
    if (body.size % HTTP2_SETTING_SIZE != 0) {
        return "a SETTINGS frame of a wrong size";
    }
    if (!client->settings_received) {
        session->peer_streams_max = UINT32_MAX; /* unless it says otherwise */
    }
    client->settings_received = true;
    for (size_t at = 0; at < body.size; at += HTTP2_SETTING_SIZE) {
        unsigned setting = (unsigned)body.data[at] << 8 | body.data[at + 1];
        const char *error = on_setting(client, setting, http2_read_u32(body.data + at + 2));
        if (error != NULL) {
            return error;
        }
    }
    http2_put_frame(&session->control,
                    (struct http2_frame){.type = HTTP2_SETTINGS, .flags = HTTP2_ACK});
    grpc_client_touch(client);
    return NULL;
}

static const char *on_window_update(struct grpc_client *client, const struct http2_frame *frame,
                                    struct bytes body) {
    struct grpc_client_session *session = &client->session;
    if (body.size != 4) {
        return "a WINDOW_UPDATE frame of a wrong size";
    }
    uint32_t increment = http2_read_u32(body.data) & 0x7fffffff;
    int64_t *window = &session->send_window;
    if (frame->stream_id != 0) {
        struct grpc_client_call *call = find_stream(session, frame->stream_id);
        if (call == NULL) {
            return NULL;
        }
        window = &call->send_window;
    }
    *window += increment;
    if (increment == 0 || *window > HTTP2_WINDOW_SIZE_MAX) {
        return "a window that cannot be";
    }
    grpc_client_touch(client);
    return NULL;
}

static const char *on_ping(struct grpc_client *client, const struct http2_frame *frame,
                           struct bytes body) {
    if (body.size != HTTP2_PING_SIZE) {
        return "a PING frame of a wrong size";
    }
    if ((frame->flags & HTTP2_ACK) == 0) {
        uint8_t *to = http2_put_frame(&client->session.control, (struct http2_frame){
                                                                    .size = HTTP2_PING_SIZE,
                                                                    .type = HTTP2_PING,
                                                                    .flags = HTTP2_ACK,
                                                                });
        memcpy(to, body.data, HTTP2_PING_SIZE);
        grpc_client_touch(client);
    }
    return NULL;
}

/* A server may say why in words (6.8); anything but one line of plain text is not shown. */
static void keep_goaway_text(struct grpc_client_session *session, uint32_t code,
                             struct bytes words) {
    while (words.size > 0 && words.data[words.size - 1] == '\n') {
        words.size--;
    }
    bool is_shown = words.size > 0 && words.size < sizeof session->goaway_text;
    for (size_t i = 0; i < words.size && is_shown; i++) {
        is_shown = words.data[i] >= ' ' && words.data[i] < 0x7f;
    }
    if (is_shown) {
        memcpy(session->goaway_text, words.data, words.size);
        session->goaway_text[words.size] = '\0';
    } else {
        snprintf(session->goaway_text, sizeof session->goaway_text, "%s",
                 nghttp2_http2_strerror(code));
    }
}

/* What the peer has not seen will never be answered (6.8). */
static const char *on_goaway(struct grpc_client *client, struct bytes body) {
    struct grpc_client_session *session = &client->session;
    if (body.size < HTTP2_GOAWAY_SIZE_MIN) {
        return "a GOAWAY frame of a wrong size";
    }
    session->goaway_last_id = (int32_t)(http2_read_u32(body.data) & 0x7fffffff);
    keep_goaway_text(
        session, http2_read_u32(body.data + 4),
        bytes_of(body.data + HTTP2_GOAWAY_SIZE_MIN, body.size - HTTP2_GOAWAY_SIZE_MIN));
    struct list *node = client->calls.next;
    while (node != &client->calls && !client->destroyed) {
        struct grpc_client_call *call = list_entry(node, struct grpc_client_call, link);
        node = node->next;
        if (call->stream_id == 0 || call->stream_id > session->goaway_last_id) {
            grpc_client_session_drop(call, true);
            grpc_client_call_end(call, GRPC_UNAVAILABLE, "the server takes no more calls");
            node = client->calls.next; /* the owner may have changed the list */
        }
    }
    return NULL;
}

/* ---- receiving ----------------------------------------------------------------------------------
 */

static const char *on_frame(struct grpc_client *client, const struct http2_frame *frame,
                            struct bytes body) {
    const struct grpc_client_session *session = &client->session;
    bool is_awaited =
        session->block_stream_id == 0
            ? frame->type != HTTP2_CONTINUATION
            : frame->type == HTTP2_CONTINUATION && frame->stream_id == session->block_stream_id;
    if (!is_awaited) {
        return "header frames out of order";
    }
    if (!client->settings_received && frame->type != HTTP2_SETTINGS) {
        return "it does not begin with SETTINGS";
    }
    switch (frame->type) {
    case HTTP2_DATA:
        return on_data(client, frame, body);
    case HTTP2_HEADERS:
        return on_headers(client, frame, body);
    case HTTP2_RST_STREAM:
        return on_reset(client, *frame, body);
    case HTTP2_SETTINGS:
        return on_settings(client, frame, body);
    case HTTP2_PUSH_PROMISE:
        return "a push that was not allowed";
    case HTTP2_PING:
        return on_ping(client, frame, body);
    case HTTP2_GOAWAY:
        return on_goaway(client, body);
    case HTTP2_WINDOW_UPDATE:
        return on_window_update(client, frame, body);
    case HTTP2_CONTINUATION:
        return on_continuation(client, frame, body);
    default:
        return NULL; /* PRIORITY, and what is not known (5.5) */
    }
}

/* Takes whole frames off `rest`. */
static const char *take_frames(struct grpc_client *client, struct bytes *rest) {
    while (rest->size >= HTTP2_FRAME_HEADER_SIZE && !client->destroyed) {
        struct http2_frame frame = http2_read_frame(rest->data);
        if (frame.size > HTTP2_FRAME_SIZE_MAX) {
            return "a frame that is too large";
        }
        size_t size = HTTP2_FRAME_HEADER_SIZE + frame.size;
        if (rest->size < size) {
            return NULL;
        }
        const char *error =
            on_frame(client, &frame, bytes_of(rest->data + HTTP2_FRAME_HEADER_SIZE, frame.size));
        if (error != NULL) {
            return error;
        }
        rest->data += size;
        rest->size -= size;
    }
    return client->session.control.size > CONTROL_SIZE_MAX ? "more to answer than it reads" : NULL;
}

/* Completes the frame in `partial` with the least that is needed. */
static const char *finish_partial(struct grpc_client *client, struct bytes *rest) {
    struct buffer *partial = &client->session.partial;
    while (partial->size > 0 && rest->size > 0 && !client->destroyed) {
        size_t goal = HTTP2_FRAME_HEADER_SIZE;
        if (partial->size >= HTTP2_FRAME_HEADER_SIZE) {
            struct http2_frame frame = http2_read_frame(partial->data);
            if (frame.size > HTTP2_FRAME_SIZE_MAX) {
                return "a frame that is too large";
            }
            goal += frame.size;
        }
        size_t size = smallest(goal - partial->size, rest->size);
        buffer_append(partial, rest->data, size);
        rest->data += size;
        rest->size -= size;
        struct bytes whole = bytes_of(partial->data, partial->size);
        const char *error = take_frames(client, &whole);
        if (error != NULL) {
            return error;
        }
        if (whole.size == 0) {
            partial->size = 0;
        }
    }
    return NULL;
}

const char *grpc_client_session_receive(struct grpc_client *client, struct bytes bytes) {
    const char *error = finish_partial(client, &bytes);
    if (error == NULL && !client->destroyed) {
        error = take_frames(client, &bytes);
    }
    if (error == NULL && !client->destroyed && bytes.size > 0) {
        buffer_append(&client->session.partial, bytes.data, bytes.size);
    }
    return error;
}
