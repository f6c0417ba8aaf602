/*
 * The frames of HTTP/2 as bytes (RFC 9113, sections 4 and 6): numbers, and their headers written
 * and read. It knows no state.
 */
#ifndef LEASED_CLIENT_HTTP2_WIRE_H
#define LEASED_CLIENT_HTTP2_WIRE_H

#include "base/buffer.h"

#include <stddef.h>
#include <stdint.h>

#define HTTP2_PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#define HTTP2_FRAME_HEADER_SIZE 9
#define HTTP2_SETTING_SIZE 6
#define HTTP2_PING_SIZE 8
#define HTTP2_GOAWAY_SIZE_MIN 8
#define HTTP2_PRIORITY_SIZE 5
/* What both sides may rely on before SETTINGS say otherwise (6.5.2). */
#define HTTP2_FRAME_SIZE_MAX 16384
#define HTTP2_FRAME_SIZE_LIMIT 16777215
#define HTTP2_WINDOW_SIZE 65535
#define HTTP2_WINDOW_SIZE_MAX INT32_MAX
#define HTTP2_HEADER_TABLE_SIZE 4096
#define HTTP2_STREAM_ID_MAX INT32_MAX

enum http2_frame_type {
    HTTP2_DATA = 0,
    HTTP2_HEADERS = 1,
    HTTP2_PRIORITY = 2,
    HTTP2_RST_STREAM = 3,
    HTTP2_SETTINGS = 4,
    HTTP2_PUSH_PROMISE = 5,
    HTTP2_PING = 6,
    HTTP2_GOAWAY = 7,
    HTTP2_WINDOW_UPDATE = 8,
    HTTP2_CONTINUATION = 9,
};

enum http2_flag {
    HTTP2_END_STREAM = 0x1,
    HTTP2_ACK = 0x1,
    HTTP2_END_HEADERS = 0x4,
    HTTP2_PADDED = 0x8,
    HTTP2_PRIORITY_FLAG = 0x20,
};

enum http2_setting {
    HTTP2_SETTING_HEADER_TABLE_SIZE = 1,
    HTTP2_SETTING_ENABLE_PUSH = 2,
    HTTP2_SETTING_MAX_CONCURRENT_STREAMS = 3,
    HTTP2_SETTING_INITIAL_WINDOW_SIZE = 4,
    HTTP2_SETTING_MAX_FRAME_SIZE = 5,
};

enum http2_error {
    HTTP2_NO_ERROR = 0,
    HTTP2_REFUSED_STREAM = 7,
    HTTP2_CANCEL = 8,
    HTTP2_ENHANCE_YOUR_CALM = 11,
    HTTP2_INADEQUATE_SECURITY = 12,
};

struct http2_frame {
    uint32_t size; /* of what follows the header */
    uint8_t type;
    uint8_t flags;
    int32_t stream_id;
};

static inline uint32_t http2_read_u32(const uint8_t *from) {
    return (uint32_t)from[0] << 24 | (uint32_t)from[1] << 16 | (uint32_t)from[2] << 8 | from[3];
}

static inline void http2_write_u32(uint8_t *to, uint32_t value) {
    to[0] = (uint8_t)(value >> 24);
    to[1] = (uint8_t)(value >> 16);
    to[2] = (uint8_t)(value >> 8);
    to[3] = (uint8_t)value;
}

static inline struct http2_frame http2_read_frame(const uint8_t *from) {
    return (struct http2_frame){
        .size = (uint32_t)from[0] << 16 | (uint32_t)from[1] << 8 | from[2],
        .type = from[3],
        .flags = from[4],
        .stream_id = (int32_t)(http2_read_u32(from + 5) & 0x7fffffff),
    };
}

/* Appends the header and gives room for the frame's `size` bytes, which count already. */
static inline uint8_t *http2_put_frame(struct buffer *out, struct http2_frame frame) {
    uint8_t *to = buffer_reserve(out, HTTP2_FRAME_HEADER_SIZE + frame.size);
    to[0] = (uint8_t)(frame.size >> 16);
    to[1] = (uint8_t)(frame.size >> 8);
    to[2] = (uint8_t)frame.size;
    to[3] = frame.type;
    to[4] = frame.flags;
    http2_write_u32(to + 5, (uint32_t)frame.stream_id);
    out->size += HTTP2_FRAME_HEADER_SIZE + frame.size;
    return to + HTTP2_FRAME_HEADER_SIZE;
}

/* A frame that is one number: RST_STREAM or WINDOW_UPDATE. */
static inline void http2_put_number(struct buffer *out, enum http2_frame_type type,
                                    int32_t stream_id, uint32_t value) {
    struct http2_frame frame = {.size = 4, .type = (uint8_t)type, .stream_id = stream_id};
    http2_write_u32(http2_put_frame(out, frame), value);
}

#endif
