#include "lease/lib_http2.h"

#include <assert.h>
#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    AUTHORITY_SIZE_MAX = 272,
    STREAM_WINDOW_SIZE = 256 * 1024,
    CONNECTION_WINDOW_SIZE = 1024 * 1024,
    HEADER_LIST_SIZE_MAX = 16 * 1024,
    HEADERS_MAX = 12,
    FAREWELL_SIZE_MAX = 128
};

struct lib_http2 {
    nghttp2_session *session;
    bool is_tls;
    bool is_leaving;
    char farewell[FAREWELL_SIZE_MAX]; /* the text of its GOAWAY; empty: none */
    char authority[AUTHORITY_SIZE_MAX];
};

/* ---- what comes ---- */

static struct lib_call *call_of(nghttp2_session *session, int32_t stream_id) {
    return stream_id == 0 ? NULL : nghttp2_session_get_stream_user_data(session, stream_id);
}

static bool is_named(const uint8_t *name, size_t size, const char *text) {
    return bytes_equal(bytes_of(name, size), bytes_from_text(text));
}

/* A number of up to three digits; -1: not one. */
static int small_number(const uint8_t *value, size_t size) {
    int number = 0;
    if (size == 0 || size > 3) {
        return -1;
    }
    for (size_t i = 0; i < size; i++) {
        if (value[i] < '0' || value[i] > '9') {
            return -1;
        }
        number = number * 10 + (value[i] - '0');
    }
    return number;
}

static int hex_digit(uint8_t letter) {
    if (letter >= '0' && letter <= '9') {
        return letter - '0';
    }
    uint8_t lower = letter | 0x20;
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* grpc-message has unusual bytes as %XX. What a terminal could take for a command becomes a space.
 */
static void take_text(struct lib_call *call, const uint8_t *value, size_t size) {
    size_t n = 0;
    for (size_t i = 0; i < size && n + 1 < sizeof call->text; i++) {
        uint8_t letter = value[i];
        if (letter == '%' && size - i > 2 && hex_digit(value[i + 1]) >= 0 &&
            hex_digit(value[i + 2]) >= 0) {
            letter = (uint8_t)(hex_digit(value[i + 1]) * 16 + hex_digit(value[i + 2]));
            i += 2;
        }
        call->text[n++] = letter < 0x20 || letter == 0x7f ? ' ' : (char)letter;
    }
    call->text[n] = '\0';
}

/* The reason that a server gives for ending the connection, such as that its port speaks TLS. */
static void take_farewell(struct lib_http2 *http2, struct bytes text) {
    size_t n = 0;
    while (text.size > 0 && text.data[text.size - 1] == '\n') {
        text.size--;
    }
    while (n < text.size && n + 1 < sizeof http2->farewell) {
        uint8_t letter = text.data[n];
        http2->farewell[n++] = letter < 0x20 || letter == 0x7f ? ' ' : (char)letter;
    }
    http2->farewell[n] = '\0';
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags,
                     void *context) {
    (void)flags;
    (void)context;
    struct lib_call *call = call_of(session, frame->hd.stream_id);
    if (call == NULL) {
        return 0;
    }
    if (is_named(name, name_size, ":status")) {
        call->http_status = small_number(value, value_size);
    } else if (is_named(name, name_size, "grpc-status")) {
        int status = small_number(value, value_size);
        call->grpc_status = status < 0 ? LIB_CODE_UNKNOWN : status;
    } else if (is_named(name, name_size, "grpc-message")) {
        take_text(call, value, value_size);
    }
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *data,
                   size_t size, void *context) {
    (void)flags;
    (void)context;
    struct lib_call *call = call_of(session, stream_id);
    if (call != NULL && call->http_status == 200) {
        /* Whole messages are taken out after each receive, so this is one message and a bit. */
        buffer_append(&call->in, data, size);
        call->has_news = true;
    }
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream_id, uint32_t error_code,
                           void *context) {
    (void)error_code;
    const struct lib_http2 *http2 = context;
    struct lib_call *call = call_of(session, stream_id);
    if (call != NULL) {
        if (call->grpc_status < 0 && call->http_status == 0) {
            snprintf(call->text, sizeof call->text, "%s", http2->farewell);
        }
        call->is_closed = true;
        call->has_news = true;
    }
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *context) {
    struct lib_http2 *http2 = context;
    (void)session;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        http2->is_leaving = true;
        take_farewell(http2, bytes_of(frame->goaway.opaque_data, frame->goaway.opaque_data_len));
    }
    return 0;
}

const char *lib_http2_receive(struct lib_http2 *http2, struct bytes bytes) {
    ssize_t taken = nghttp2_session_mem_recv(http2->session, bytes.data, bytes.size);
    if (taken < 0) {
        return nghttp2_strerror((int)taken);
    }
    if ((size_t)taken != bytes.size) {
        return "the server does not speak HTTP/2";
    }
    return NULL;
}

/* ---- what goes ---- */

static ssize_t read_out(nghttp2_session *session, int32_t stream_id, uint8_t *room, size_t size,
                        uint32_t *flags, nghttp2_data_source *source, void *context) {
    (void)session;
    (void)source;
    (void)context;
    struct lib_call *call = call_of(session, stream_id);
    if (call == NULL) {
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    size_t left = call->out.size - call->out_at;
    size_t n = left < size ? left : size;
    if (n > 0) {
        memcpy(room, call->out.data + call->out_at, n);
    }
    call->out_at += n;
    if (call->out_at == call->out.size && call->half_closed) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    } else if (n == 0) {
        return NGHTTP2_ERR_DEFERRED;
    }
    if (call->out_at == call->out.size && !call->method->is_repeatable &&
        !call->method->keeps_message) {
        call->out.size = 0;
        call->out_at = 0;
    }
    return (ssize_t)n;
}

bool lib_http2_fill(struct lib_http2 *http2, struct buffer *out) {
    for (;;) {
        const uint8_t *data = NULL;
        ssize_t size = nghttp2_session_mem_send(http2->session, &data);
        if (size < 0) {
            return false;
        }
        if (size == 0) {
            return nghttp2_session_want_read(http2->session) != 0;
        }
        buffer_append(out, data, (size_t)size);
    }
}

bool lib_http2_has_room(const struct lib_http2 *http2) {
    return !http2->is_leaving && nghttp2_session_check_request_allowed(http2->session) != 0;
}

bool lib_http2_is_leaving(const struct lib_http2 *http2) {
    return http2->is_leaving;
}

static nghttp2_nv field(const char *name, const char *value) {
    return (nghttp2_nv){
        .name = (uint8_t *)name,
        .namelen = strlen(name),
        .value = (uint8_t *)value,
        .valuelen = strlen(value),
    };
}

bool lib_http2_open(struct lib_http2 *http2, struct lib_call *call, const char *token) {
    assert(call->stream_id == 0);
    nghttp2_nv fields[HEADERS_MAX];
    size_t n = 0;
    fields[n++] = field(":method", "POST");
    fields[n++] = field(":scheme", http2->is_tls ? "https" : "http");
    fields[n++] = field(":path", call->method->path);
    fields[n++] = field(":authority", http2->authority);
    fields[n++] = field("content-type", "application/grpc");
    fields[n++] = field("te", "trailers");
    fields[n++] = field("user-agent", "liblease");
    if (token != NULL) {
        fields[n] = field("token", token);
        fields[n++].flags = NGHTTP2_NV_FLAG_NO_INDEX;
    }
    nghttp2_data_provider provider = {.read_callback = read_out};
    int32_t id = nghttp2_submit_request(http2->session, NULL, fields, n, &provider, call);
    if (id < 0) {
        return false;
    }
    call->stream_id = id;
    return true;
}

void lib_http2_resume(struct lib_http2 *http2, struct lib_call *call) {
    if (call->stream_id != 0 && !call->is_closed) {
        (void)nghttp2_session_resume_data(http2->session, call->stream_id);
    }
}

void lib_http2_forget(struct lib_http2 *http2, struct lib_call *call) {
    if (call->stream_id == 0 || call->is_closed) {
        return;
    }
    (void)nghttp2_session_set_stream_user_data(http2->session, call->stream_id, NULL);
    (void)nghttp2_submit_rst_stream(http2->session, NGHTTP2_FLAG_NONE, call->stream_id,
                                    NGHTTP2_CANCEL);
    call->is_closed = true;
}

/* ---- life ---- */

static int make_session(struct lib_http2 *http2) {
    nghttp2_session_callbacks *callbacks = NULL;
    int result = nghttp2_session_callbacks_new(&callbacks);
    if (result != 0) {
        return result;
    }
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    result = nghttp2_session_client_new(&http2->session, callbacks, http2);
    nghttp2_session_callbacks_del(callbacks);
    return result;
}

struct lib_http2 *lib_http2_create(const char *authority, bool is_tls) {
    struct lib_http2 *http2 = calloc(1, sizeof *http2);
    if (http2 == NULL) {
        return NULL;
    }
    assert(strlen(authority) < sizeof http2->authority);
    memcpy(http2->authority, authority, strlen(authority) + 1);
    http2->is_tls = is_tls;
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW_SIZE},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADER_LIST_SIZE_MAX},
    };
    if (make_session(http2) != 0 ||
        nghttp2_submit_settings(http2->session, NGHTTP2_FLAG_NONE, settings,
                                sizeof settings / sizeof settings[0]) != 0 ||
        nghttp2_session_set_local_window_size(http2->session, NGHTTP2_FLAG_NONE, 0,
                                              CONNECTION_WINDOW_SIZE) != 0) {
        lib_http2_destroy(http2);
        return NULL;
    }
    return http2;
}

void lib_http2_destroy(struct lib_http2 *http2) {
    if (http2 != NULL) {
        nghttp2_session_del(http2->session);
        free(http2);
    }
}
