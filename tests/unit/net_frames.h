/* HTTP/2 frames as bytes, for what no library would send. */
#ifndef LEASED_TESTS_NET_FRAMES_H
#define LEASED_TESTS_NET_FRAMES_H

#include "net_doors.h"

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

static inline void frame_append(struct buffer *out, uint8_t type, uint8_t flags, uint32_t stream_id,
                                struct bytes payload) {
    const uint8_t header[9] = {(uint8_t)(payload.size >> 16),
                               (uint8_t)(payload.size >> 8),
                               (uint8_t)payload.size,
                               type,
                               flags,
                               (uint8_t)(stream_id >> 24),
                               (uint8_t)(stream_id >> 16),
                               (uint8_t)(stream_id >> 8),
                               (uint8_t)stream_id};
    buffer_append(out, header, sizeof header);
    buffer_append(out, payload.data, payload.size);
}

/* Headers of a call, with no table: literals only. */
static inline void call_append(struct buffer *out, uint32_t stream_id, const char *path) {
    const char *const headers[][2] = {{":method", "POST"},
                                      {":scheme", "http"},
                                      {":path", path},
                                      {":authority", "x"},
                                      {"content-type", "application/grpc"}};
    struct buffer block;
    buffer_init(&block);
    for (size_t i = 0; i < 5; i++) {
        buffer_put_u8(&block, 0);
        buffer_put_u8(&block, (uint8_t)strlen(headers[i][0]));
        buffer_append(&block, headers[i][0], strlen(headers[i][0]));
        buffer_put_u8(&block, (uint8_t)strlen(headers[i][1]));
        buffer_append(&block, headers[i][1], strlen(headers[i][1]));
    }
    frame_append(out, NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, stream_id,
                 bytes_of(block.data, block.size));
    buffer_clear(&block);
}

static inline void preface_append(struct buffer *out) {
    buffer_append(out, preface, strlen(preface));
    frame_append(out, NGHTTP2_SETTINGS, 0, 0, bytes_of(NULL, 0));
}

/* Sends as the server reads; stops when the server closes. */
static inline void raw_send_all(struct fixture *fixture, int fd, struct bytes bytes,
                                struct buffer *got) {
    uint64_t start_ms = clock_boottime_ms();
    while (bytes.size > 0) {
        assert_true(clock_boottime_ms() - start_ms < WAIT_MS_MAX);
        ssize_t sent = send(fd, bytes.data, bytes.size, MSG_NOSIGNAL);
        if (sent > 0) {
            bytes.data += sent;
            bytes.size -= (size_t)sent;
        } else if (errno != EAGAIN) {
            raw_read(fd, got);
            return;
        }
        fixture_turn(fixture);
        if (!raw_read(fd, got)) {
            return;
        }
    }
}

/* The code of the GOAWAY frame in what the server sent; UINT32_MAX: none. */
static inline uint32_t goaway_code(const struct buffer *got) {
    size_t at = 0;
    while (at + 9 <= got->size) {
        const uint8_t *frame = got->data + at;
        size_t size = (size_t)frame[0] << 16 | (size_t)frame[1] << 8 | frame[2];
        if (frame[3] == NGHTTP2_GOAWAY && at + 9 + 8 <= got->size) {
            return (uint32_t)frame[13] << 24 | (uint32_t)frame[14] << 16 |
                   (uint32_t)frame[15] << 8 | frame[16];
        }
        at += 9 + size;
    }
    return UINT32_MAX;
}

#endif
