/*
 * A growable run of bytes, with little-endian and varint writers, and a bounds-checked reader
 * for what such writers wrote. Used by every binary codec of ours.
 */
#ifndef LEASED_BASE_BUFFER_H
#define LEASED_BASE_BUFFER_H

#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct buffer {
    uint8_t *data;
    size_t size;
    size_t capacity;
};

void buffer_init(struct buffer *buffer);
void buffer_clear(struct buffer *buffer);

/* Makes room for `extra` more bytes, of which there is none yet. */
void buffer_grow(struct buffer *buffer, size_t extra);

/* Makes room for `extra` more bytes and returns where they go; the caller then raises `size`.
 * Aborts when memory is out. The pointer is valid until the next call on this buffer. */
static inline uint8_t *buffer_reserve(struct buffer *buffer, size_t extra) {
    if (extra > buffer->capacity - buffer->size) {
        buffer_grow(buffer, extra);
    }
    return buffer->data + buffer->size;
}

static inline void buffer_append(struct buffer *buffer, const void *data, size_t size) {
    if (size > 0) {
        memcpy(buffer_reserve(buffer, size), data, size);
        buffer->size += size;
    }
}

static inline void buffer_put_u8(struct buffer *buffer, uint8_t value) {
    *buffer_reserve(buffer, 1) = value;
    buffer->size += 1;
}

void buffer_put_u32(struct buffer *buffer, uint32_t value);
void buffer_put_u64(struct buffer *buffer, uint64_t value);
void buffer_put_varint(struct buffer *buffer, uint64_t value);
/* Signed numbers, small magnitudes of either sign in few bytes. */
void buffer_put_zigzag(struct buffer *buffer, int64_t value);
/* A length as varint, then the bytes. */
void buffer_put_bytes(struct buffer *buffer, struct bytes bytes);

/* Reads from untrusted bytes. The first read past the end or malformed number sets `failed`;
 * from then on every read gives zero, so a decoder may check once at its end. */
struct reader {
    const uint8_t *data;
    size_t size;
    size_t position;
    bool failed;
};

void reader_init(struct reader *reader, struct bytes bytes);
static inline size_t reader_left(const struct reader *reader) {
    return reader->size - reader->position;
}
uint8_t reader_get_u8(struct reader *reader);
uint32_t reader_get_u32(struct reader *reader);
uint64_t reader_get_u64(struct reader *reader);
uint64_t reader_get_varint(struct reader *reader);
int64_t reader_get_zigzag(struct reader *reader);
/* A view into the reader's own bytes. */
struct bytes reader_get_bytes(struct reader *reader);

#endif
