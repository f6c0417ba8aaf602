/*
 * Writes the parts of a key into memory of an arena that was asked for at its greatest size.
 * Numbers are big-endian, so that keys are in the order of their numbers.
 */
#ifndef LEASED_CORE_KEY_WRITER_H
#define LEASED_CORE_KEY_WRITER_H

#include "base/arena.h"
#include "base/bytes.h"

#include <assert.h>

struct key_writer {
    uint8_t *data;
    size_t size;
    size_t size_max;
};

static inline struct key_writer key_writer_of(struct arena *arena, size_t size_max) {
    return (struct key_writer){.data = arena_alloc(arena, size_max), .size_max = size_max};
}

static inline void key_writer_put_text(struct key_writer *writer, struct bytes text) {
    assert(text.size <= writer->size_max - writer->size);
    if (text.size > 0) {
        memcpy(writer->data + writer->size, text.data, text.size);
    }
    writer->size += text.size;
}

static inline void key_writer_put_byte(struct key_writer *writer, uint8_t byte) {
    assert(writer->size < writer->size_max);
    writer->data[writer->size++] = byte;
}

/* The last `size` bytes of the number. */
static inline void key_writer_put_number(struct key_writer *writer, uint64_t number, size_t size) {
    for (size_t i = 0; i < size; i++) {
        key_writer_put_byte(writer, (uint8_t)(number >> 8 * (size - 1 - i)));
    }
}

/* Valid as long as the arena. */
static inline struct bytes key_writer_key(const struct key_writer *writer) {
    return bytes_of(writer->data, writer->size);
}

#endif
