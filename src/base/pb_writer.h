/*
 * Writes the protocol buffers encoding into memory that was measured before: every message has a
 * function that gives its size and one that writes it, so that an answer is built once, in place,
 * in the connection's own buffer. Fields with the default value are left out, as proto3 does.
 */
#ifndef LEASED_BASE_PB_WRITER_H
#define LEASED_BASE_PB_WRITER_H

#include "base/bytes.h"
#include "base/pb_reader.h"
#include "base/varint.h"

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pb_writer {
    uint8_t *at;
    const uint8_t *end; /* asserted, never passed */
    size_t size;
};

static inline size_t pb_varint_size(uint64_t value) {
    return varint_size(value);
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

static inline void pb_writer_init(struct pb_writer *writer, uint8_t *memory, size_t size) {
    writer->at = memory;
    writer->end = memory + size;
    writer->size = size;
}

/* Writes at most ten bytes; returns where the next one goes. */
static inline uint8_t *pb_put_varint(uint8_t *at, uint64_t value) {
    while (value >= 0x80) {
        *at++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *at++ = (uint8_t)value;
    return at;
}

/* Every answer is written by these; with a field that the compiler knows they are a few
 * instructions. */
static inline void pb_write_tagged(struct pb_writer *writer, uint32_t field,
                                   enum pb_wire_type wire_type, uint64_t value) {
    assert((size_t)(writer->end - writer->at) >= pb_tag_size(field) + pb_varint_size(value));
    uint8_t *at = pb_put_varint(writer->at, (uint64_t)field << 3 | wire_type);
    writer->at = pb_put_varint(at, value);
}

static inline void pb_write_uint64(struct pb_writer *writer, uint32_t field, uint64_t value) {
    if (value != 0) {
        pb_write_tagged(writer, field, PB_VARINT, value);
    }
}

static inline void pb_write_int64(struct pb_writer *writer, uint32_t field, int64_t value) {
    pb_write_uint64(writer, field, (uint64_t)value);
}

static inline void pb_write_bool(struct pb_writer *writer, uint32_t field, bool value) {
    pb_write_uint64(writer, field, value);
}

/* The head of a message; its `size` bytes follow. */
static inline void pb_write_message(struct pb_writer *writer, uint32_t field, size_t size) {
    pb_write_tagged(writer, field, PB_BYTES, size);
}

/* Bytes that are encoded already. */
static inline void pb_write_raw(struct pb_writer *writer, struct bytes bytes) {
    assert((size_t)(writer->end - writer->at) >= bytes.size);
    if (bytes.size > 0) {
        memcpy(writer->at, bytes.data, bytes.size);
        writer->at += bytes.size;
    }
}

/* One element of a repeated field of bytes or text: written even when empty. */
static inline void pb_write_element(struct pb_writer *writer, uint32_t field, struct bytes bytes) {
    pb_write_message(writer, field, bytes.size);
    pb_write_raw(writer, bytes);
}

static inline void pb_write_bytes(struct pb_writer *writer, uint32_t field, struct bytes bytes) {
    if (bytes.size > 0) {
        pb_write_element(writer, field, bytes);
    }
}

#endif
