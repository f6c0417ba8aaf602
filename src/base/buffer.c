#include "base/buffer.h"

#include "base/varint.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER_CAPACITY_MIN = 64 };

void buffer_init(struct buffer *buffer) {
    *buffer = (struct buffer){0};
}

void buffer_clear(struct buffer *buffer) {
    free(buffer->data);
    buffer_init(buffer);
}

void buffer_grow(struct buffer *buffer, size_t extra) {
    assert(extra <= SIZE_MAX / 4);
    assert(buffer->size <= SIZE_MAX / 4);
    assert(buffer->size <= buffer->capacity);
    size_t needed = buffer->size + extra;
    size_t capacity = buffer->capacity * 2;
    if (capacity < BUFFER_CAPACITY_MIN) {
        capacity = BUFFER_CAPACITY_MIN;
    }
    if (capacity < needed) {
        capacity = needed;
    }
    uint8_t *data = realloc(buffer->data, capacity);
    if (data == NULL) {
        abort();
    }
    buffer->data = data;
    buffer->capacity = capacity;
}

void buffer_put_u32(struct buffer *buffer, uint32_t value) {
    uint8_t *to = buffer_reserve(buffer, 4);
    for (unsigned i = 0; i < 4; i++) {
        to[i] = (uint8_t)(value >> (8 * i));
    }
    buffer->size += 4;
}

void buffer_put_u64(struct buffer *buffer, uint64_t value) {
    uint8_t *to = buffer_reserve(buffer, 8);
    for (unsigned i = 0; i < 8; i++) {
        to[i] = (uint8_t)(value >> (8 * i));
    }
    buffer->size += 8;
}

void buffer_put_varint(struct buffer *buffer, uint64_t value) {
    buffer->size += varint_write(buffer_reserve(buffer, VARINT_SIZE_MAX), value);
}

void buffer_put_zigzag(struct buffer *buffer, int64_t value) {
    buffer_put_varint(buffer, ((uint64_t)value << 1) ^ (value < 0 ? UINT64_MAX : 0));
}

void buffer_put_bytes(struct buffer *buffer, struct bytes bytes) {
    buffer_put_varint(buffer, bytes.size);
    buffer_append(buffer, bytes.data, bytes.size);
}

void reader_init(struct reader *reader, struct bytes bytes) {
    *reader = (struct reader){.data = bytes.data, .size = bytes.size};
}

/* Where the next `size` bytes are, or NULL when there are fewer. */
static const uint8_t *reader_take(struct reader *reader, size_t size) {
    if (reader->failed || reader_left(reader) < size) {
        reader->failed = true;
        return NULL;
    }
    const uint8_t *from = reader->data + reader->position;
    reader->position += size;
    return from;
}

uint8_t reader_get_u8(struct reader *reader) {
    const uint8_t *from = reader_take(reader, 1);
    return from == NULL ? 0 : *from;
}

static uint64_t reader_get_fixed(struct reader *reader, size_t size) {
    const uint8_t *from = reader_take(reader, size);
    uint64_t value = 0;
    for (size_t i = 0; from != NULL && i < size; i++) {
        value |= (uint64_t)from[i] << (8 * i);
    }
    return value;
}

uint32_t reader_get_u32(struct reader *reader) {
    return (uint32_t)reader_get_fixed(reader, 4);
}

uint64_t reader_get_u64(struct reader *reader) {
    return reader_get_fixed(reader, 8);
}

/* Near the end of the bytes. */
__attribute__((noinline)) static size_t read_last_varint(const struct reader *reader,
                                                         uint64_t *out_value) {
    /* Zeros behind the end: a number that goes on there ends with one, which is refused. */
    uint8_t bytes[VARINT_SIZE_MAX] = {0};
    size_t left = reader_left(reader);
    if (left == 0) {
        return 0;
    }
    memcpy(bytes, reader->data + reader->position, left);
    return varint_read(bytes, out_value);
}

uint64_t reader_get_varint(struct reader *reader) {
    uint64_t value = 0;
    size_t size = 0;
    if (!reader->failed) {
        size = reader_left(reader) >= VARINT_SIZE_MAX
                   ? varint_read(reader->data + reader->position, &value)
                   : read_last_varint(reader, &value);
    }
    if (size == 0) {
        reader->failed = true;
        return 0;
    }
    reader->position += size;
    return value;
}

int64_t reader_get_zigzag(struct reader *reader) {
    uint64_t value = reader_get_varint(reader);
    return (int64_t)((value >> 1) ^ (0 - (value & 1)));
}

struct bytes reader_get_bytes(struct reader *reader) {
    uint64_t size = reader_get_varint(reader);
    if (reader->failed || size > reader_left(reader)) {
        reader->failed = true;
        return bytes_of(NULL, 0);
    }
    return bytes_of(reader_take(reader, (size_t)size), (size_t)size);
}
