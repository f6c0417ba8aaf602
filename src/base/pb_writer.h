/*
 * Writes the protocol buffers encoding into memory that was measured before: every message has a
 * function that gives its size and one that writes it, so that an answer is built once, in place,
 * in the connection's own buffer. Fields with the default value are left out, as proto3 does.
 */
#ifndef LEASED_BASE_PB_WRITER_H
#define LEASED_BASE_PB_WRITER_H

#include "base/bytes.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pb_writer {
    uint8_t *at;
    const uint8_t *end; /* asserted, never passed */
    size_t size;
};

static inline size_t pb_varint_size(uint64_t value) {
    unsigned bits = 64 - (unsigned)__builtin_clzll(value | 1);
    return (bits + 6) / 7;
}

static inline size_t pb_tag_size(uint32_t field) {
    return pb_varint_size((uint64_t)field << 3);
}

static inline size_t pb_uint64_size(uint32_t field, uint64_t value) {
    return value == 0 ? 0 : pb_tag_size(field) + pb_varint_size(value);
}

static inline size_t pb_int64_size(uint32_t field, int64_t value) {
    return pb_uint64_size(field, (uint64_t)value);
}

static inline size_t pb_bool_size(uint32_t field, bool value) {
    return pb_uint64_size(field, value);
}

/* A message of so many bytes, with its head. Never left out. */
static inline size_t pb_message_size(uint32_t field, size_t size) {
    return pb_tag_size(field) + pb_varint_size(size) + size;
}

static inline size_t pb_bytes_size(uint32_t field, struct bytes bytes) {
    return bytes.size == 0 ? 0 : pb_message_size(field, bytes.size);
}

void pb_writer_init(struct pb_writer *writer, uint8_t *memory, size_t size);
void pb_write_uint64(struct pb_writer *writer, uint32_t field, uint64_t value);
void pb_write_int64(struct pb_writer *writer, uint32_t field, int64_t value);
void pb_write_bool(struct pb_writer *writer, uint32_t field, bool value);
void pb_write_bytes(struct pb_writer *writer, uint32_t field, struct bytes bytes);
/* One element of a repeated field of bytes or text: written even when empty. */
void pb_write_element(struct pb_writer *writer, uint32_t field, struct bytes bytes);
/* The head of a message; its `size` bytes follow. */
void pb_write_message(struct pb_writer *writer, uint32_t field, size_t size);
/* Bytes that are encoded already. */
void pb_write_raw(struct pb_writer *writer, struct bytes bytes);

#endif
