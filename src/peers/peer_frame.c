#include "peers/peer_frame.h"

#include <assert.h>

enum { SIZE_BYTES = 4 };

size_t peer_frame_begin(struct buffer *buffer, uint8_t type) {
    size_t start = buffer->size;
    buffer_put_u32(buffer, 0);
    buffer_put_u8(buffer, type);
    return start;
}

void peer_frame_end(struct buffer *buffer, size_t start) {
    assert(buffer->size >= start + PEER_FRAME_PREFIX_SIZE);
    size_t size = buffer->size - start - PEER_FRAME_PREFIX_SIZE;
    assert(size <= PEER_FRAME_SIZE_MAX);
    for (size_t i = 0; i < SIZE_BYTES; i++) {
        buffer->data[start + i] = (uint8_t)(size >> (8 * i));
    }
}

static size_t announced(struct bytes bytes) {
    size_t size = 0;
    for (size_t i = 0; i < SIZE_BYTES; i++) {
        size |= (size_t)bytes.data[i] << (8 * i);
    }
    return size;
}

bool peer_frame_is_large(struct bytes bytes) {
    return bytes.size >= SIZE_BYTES && announced(bytes) > PEER_FRAME_USUAL_SIZE_MAX;
}

enum status peer_frame_next(struct bytes *bytes, uint8_t *out_type, struct bytes *out_body) {
    if (bytes->size < SIZE_BYTES) {
        return STATUS_PENDING;
    }
    size_t size = announced(*bytes);
    /* Refused before any of it has to be kept. */
    if (size > PEER_FRAME_SIZE_MAX) {
        return STATUS_MALFORMED;
    }
    if (bytes->size < PEER_FRAME_PREFIX_SIZE) {
        return STATUS_PENDING;
    }
    uint8_t type = bytes->data[SIZE_BYTES];
    if (type == PEER_FRAME_KEEPALIVE && size != 0) {
        return STATUS_MALFORMED;
    }
    if (bytes->size - PEER_FRAME_PREFIX_SIZE < size) {
        return STATUS_PENDING;
    }
    *out_type = type;
    *out_body = bytes_of(bytes->data + PEER_FRAME_PREFIX_SIZE, size);
    *bytes = bytes_of(bytes->data + PEER_FRAME_PREFIX_SIZE + size,
                      bytes->size - PEER_FRAME_PREFIX_SIZE - size);
    return STATUS_OK;
}
