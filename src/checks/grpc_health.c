#include "checks/grpc_health.h"

#include "base/pb_append.h"
#include "base/pb_reader.h"

#include <nghttp2/nghttp2.h>
#include <stdlib.h>
#include <string.h>

enum {
    MESSAGE_SIZE_MAX = 4096, /* of an answer of one number */
    PREFIX_SIZE = 5,         /* a byte for compression, four for the length */
    TEXT_SIZE_MAX = 256,
    HEADER_LIST_SIZE_MAX = 16 * 1024,
    FRAMES_MAX = 1024, /* until the answer is there */
    CODE_NONE = -1,
    CODE_NOT_FOUND = 5
};

enum { HEALTH_UNKNOWN = 0, HEALTH_SERVING = 1, HEALTH_NOT_SERVING = 2, HEALTH_NO_SERVICE = 3 };

struct grpc_health {
    nghttp2_session *session;
    int32_t stream_id;
    struct buffer out; /* the message, with its prefix */
    size_t out_at;
    struct buffer in;
    int http_status;
    int code;
    bool is_over;
    unsigned n_frames;
    const char *error;
    char text[TEXT_SIZE_MAX]; /* grpc-message, as it came */
};

/* ---- what comes ---- */

static bool is_named(const uint8_t *name, size_t size, const char *text) {
    return size == strlen(text) && memcmp(name, text, size) == 0;
}

static int small_number(const uint8_t *value, size_t size) {
    int number = 0;
    for (size_t i = 0; i < size; i++) {
        if (size > 3 || value[i] < '0' || value[i] > '9') {
            return CODE_NONE;
        }
        number = number * 10 + (value[i] - '0');
    }
    return size > 0 ? number : CODE_NONE;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags,
                     void *context) {
    struct grpc_health *health = context;
    (void)session;
    (void)flags;
    if (frame->hd.stream_id != health->stream_id) {
        return 0;
    }
    if (is_named(name, name_size, ":status")) {
        health->http_status = small_number(value, value_size);
    } else if (is_named(name, name_size, "grpc-status")) {
        health->code = small_number(value, value_size);
    } else if (is_named(name, name_size, "grpc-message")) {
        size_t size = value_size < TEXT_SIZE_MAX - 1 ? value_size : TEXT_SIZE_MAX - 1;
        memcpy(health->text, value, size);
        health->text[size] = '\0';
    }
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream_id, const uint8_t *data,
                   size_t size, void *context) {
    struct grpc_health *health = context;
    (void)session;
    (void)flags;
    if (stream_id == health->stream_id) {
        if (size > MESSAGE_SIZE_MAX - health->in.size) {
            health->error = "the answer is too long";
            health->is_over = true;
            return 0;
        }
        buffer_append(&health->in, data, size);
    }
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream_id, uint32_t error_code,
                           void *context) {
    struct grpc_health *health = context;
    (void)session;
    if (stream_id == health->stream_id) {
        health->is_over = true;
        if (error_code != NGHTTP2_NO_ERROR && health->code == CODE_NONE) {
            health->error = "the server reset the call";
        }
    }
    return 0;
}

/* Pings and settings cost little, but not nothing: they do not go on for ever. */
static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *context) {
    struct grpc_health *health = context;
    (void)session;
    (void)frame;
    if (++health->n_frames > FRAMES_MAX) {
        grpc_health_end(health, "the server sends frames without an end");
    }
    return 0;
}

bool grpc_health_receive(struct grpc_health *health, struct bytes bytes) {
    if (!health->is_over) {
        ssize_t taken = nghttp2_session_mem_recv(health->session, bytes.data, bytes.size);
        if (taken < 0 || (size_t)taken != bytes.size) {
            grpc_health_end(health, "the server does not speak HTTP/2");
        } else if (nghttp2_session_want_read(health->session) == 0 && !health->is_over) {
            grpc_health_end(health, "the server ended the connection");
        }
    }
    return health->is_over;
}

void grpc_health_end(struct grpc_health *health, const char *reason) {
    if (!health->is_over) {
        health->is_over = true;
        health->error = reason;
    }
}

/* ---- what goes ---- */

static ssize_t read_out(nghttp2_session *session, int32_t stream_id, uint8_t *room, size_t size,
                        uint32_t *flags, nghttp2_data_source *source, void *context) {
    struct grpc_health *health = context;
    (void)session;
    (void)stream_id;
    (void)source;
    size_t left = health->out.size - health->out_at;
    size_t n = left < size ? left : size;
    memcpy(room, health->out.data + health->out_at, n);
    health->out_at += n;
    if (health->out_at == health->out.size) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    }
    return (ssize_t)n;
}

void grpc_health_fill(struct grpc_health *health, struct buffer *out) {
    const uint8_t *data = NULL;
    ssize_t size;
    while (!health->is_over && (size = nghttp2_session_mem_send(health->session, &data)) != 0) {
        if (size < 0) {
            grpc_health_end(health, nghttp2_strerror((int)size));
            return;
        }
        buffer_append(out, data, (size_t)size);
    }
}

static nghttp2_nv field(const char *name, const char *value) {
    return (nghttp2_nv){
        .name = (uint8_t *)name,
        .namelen = strlen(name),
        .value = (uint8_t *)value,
        .valuelen = strlen(value),
    };
}

/* HealthCheckRequest { string service = 1; } */
static void write_message(struct buffer *out, struct bytes service) {
    buffer_append(out, "\0\0\0\0\0", PREFIX_SIZE);
    pb_append_bytes(out, 1, service);
    uint32_t size = (uint32_t)(out->size - PREFIX_SIZE);
    for (int i = 0; i < 4; i++) {
        out->data[1 + i] = (uint8_t)(size >> (24 - 8 * i));
    }
}

static bool submit(struct grpc_health *health, const struct grpc_health_options *options) {
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADER_LIST_SIZE_MAX},
    };
    const nghttp2_nv fields[] = {
        field(":method", "POST"),
        field(":scheme", options->is_tls ? "https" : "http"),
        field(":path", "/grpc.health.v1.Health/Check"),
        field(":authority", options->authority),
        field("content-type", "application/grpc"),
        field("te", "trailers"),
        field("user-agent", "leased-health-check"),
    };
    nghttp2_data_provider provider = {.read_callback = read_out};
    write_message(&health->out, options->service);
    if (nghttp2_submit_settings(health->session, NGHTTP2_FLAG_NONE, settings,
                                sizeof settings / sizeof settings[0]) != 0) {
        return false;
    }
    health->stream_id = nghttp2_submit_request(health->session, NULL, fields,
                                               sizeof fields / sizeof fields[0], &provider, NULL);
    return health->stream_id > 0;
}

/* ---- life ---- */

static bool make_session(struct grpc_health *health) {
    nghttp2_session_callbacks *callbacks = NULL;
    if (nghttp2_session_callbacks_new(&callbacks) != 0) {
        return false;
    }
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    int result = nghttp2_session_client_new(&health->session, callbacks, health);
    nghttp2_session_callbacks_del(callbacks);
    return result == 0;
}

struct grpc_health *grpc_health_create(const struct grpc_health_options *options) {
    struct grpc_health *health = calloc(1, sizeof *health);
    if (health == NULL) {
        return NULL;
    }
    health->code = CODE_NONE;
    buffer_init(&health->out);
    buffer_init(&health->in);
    if (!make_session(health) || !submit(health, options)) {
        grpc_health_destroy(health);
        return NULL;
    }
    return health;
}

void grpc_health_destroy(struct grpc_health *health) {
    if (health != NULL) {
        nghttp2_session_del(health->session);
        buffer_clear(&health->out);
        buffer_clear(&health->in);
        free(health);
    }
}

/* ---- the result ---- */

/* HealthCheckResponse { ServingStatus status = 1; }; -1: there is none. */
static int read_status(const struct grpc_health *health) {
    const struct buffer *in = &health->in;
    if (in->size < PREFIX_SIZE || in->data[0] != 0) {
        return -1;
    }
    uint64_t size = (uint64_t)in->data[1] << 24 | (uint64_t)in->data[2] << 16 |
                    (uint64_t)in->data[3] << 8 | in->data[4];
    if (size != in->size - PREFIX_SIZE) {
        return -1;
    }
    struct pb_reader reader;
    int status = HEALTH_UNKNOWN;
    pb_reader_init(&reader, bytes_of(in->data + PREFIX_SIZE, in->size - PREFIX_SIZE));
    while (pb_reader_next(&reader)) {
        if (reader.field == 1) {
            status = pb_reader_enum(&reader);
        } else {
            pb_reader_skip(&reader);
        }
    }
    return reader.failed ? -1 : status;
}

static const char *status_name(int status) {
    switch (status) {
    case HEALTH_UNKNOWN:
        return "UNKNOWN";
    case HEALTH_SERVING:
        return "SERVING";
    case HEALTH_NOT_SERVING:
        return "NOT_SERVING";
    case HEALTH_NO_SERVICE:
        return "SERVICE_UNKNOWN";
    default:
        return "a status that is not known";
    }
}

void grpc_health_result(const struct grpc_health *health, struct check_result *out_result) {
    int status = health->code == 0 ? read_status(health) : -1;
    check_result_set(out_result, status == HEALTH_SERVING ? REGISTRY_PASSING : REGISTRY_CRITICAL,
                     "gRPC: ");
    if (health->error != NULL) {
        out_result->health = REGISTRY_CRITICAL;
        check_result_add_text(out_result, health->error);
    } else if (health->code == 0) {
        check_result_add_text(out_result,
                              status >= 0 ? status_name(status) : "the answer cannot be read");
    } else if (health->code == CODE_NOT_FOUND) {
        check_result_add_text(out_result, "the server does not know the service");
    } else if (health->code == CODE_NONE) {
        check_result_add_text(out_result, "the answer has no status; HTTP status ");
        check_result_add_number(out_result, health->http_status);
    } else {
        check_result_add_text(out_result, "code ");
        check_result_add_number(out_result, health->code);
        check_result_add_text(out_result, " ");
        check_result_add_text(out_result, health->text);
    }
}
