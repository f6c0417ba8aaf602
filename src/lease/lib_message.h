/*
 * Writes the protocol buffers encoding into a buffer that grows: requests are few and small. Fields
 * with the default value are left out, as proto3 does; a message is written into a buffer of its
 * own first.
 */
#ifndef LEASED_LEASE_LIB_MESSAGE_H
#define LEASED_LEASE_LIB_MESSAGE_H

#include "base/buffer.h"
#include "base/pb_reader.h"

static inline void lib_put_int(struct buffer *buffer, uint32_t field, int64_t value) {
    if (value != 0) {
        buffer_put_varint(buffer, (uint64_t)field << 3 | PB_VARINT);
        buffer_put_varint(buffer, (uint64_t)value);
    }
}

static inline void lib_put_bytes(struct buffer *buffer, uint32_t field, struct bytes bytes) {
    if (bytes.size != 0) {
        buffer_put_varint(buffer, (uint64_t)field << 3 | PB_BYTES);
        buffer_put_bytes(buffer, bytes);
    }
}

/* NULL is as "". */
static inline void lib_put_text(struct buffer *buffer, uint32_t field, const char *text) {
    if (text != NULL) {
        lib_put_bytes(buffer, field, bytes_from_text(text));
    }
}

/* Also an empty one. Empties `message`, whose memory can be used for the next. */
static inline void lib_put_message(struct buffer *buffer, uint32_t field, struct buffer *message) {
    buffer_put_varint(buffer, (uint64_t)field << 3 | PB_BYTES);
    buffer_put_bytes(buffer, bytes_of(message->data, message->size));
    message->size = 0;
}

#endif
