#include "base/pb_append.h"

#include "base/pb_reader.h"
#include "base/pb_writer.h"

#include <assert.h>
#include <string.h>

static void append_tag(struct buffer *out, uint32_t field, enum pb_wire_type wire_type) {
    buffer_put_varint(out, (uint64_t)field << 3 | wire_type);
}

void pb_append_uint64(struct buffer *out, uint32_t field, uint64_t value) {
    if (value != 0) {
        append_tag(out, field, PB_VARINT);
        buffer_put_varint(out, value);
    }
}

void pb_append_int64(struct buffer *out, uint32_t field, int64_t value) {
    pb_append_uint64(out, field, (uint64_t)value);
}

void pb_append_bool(struct buffer *out, uint32_t field, bool value) {
    pb_append_uint64(out, field, value);
}

void pb_append_element(struct buffer *out, uint32_t field, struct bytes bytes) {
    append_tag(out, field, PB_BYTES);
    buffer_put_bytes(out, bytes);
}

void pb_append_bytes(struct buffer *out, uint32_t field, struct bytes bytes) {
    if (bytes.size > 0) {
        pb_append_element(out, field, bytes);
    }
}

/* Most messages are short: one byte is left for the length, and more is made when it is known. */
size_t pb_append_begin(struct buffer *out, uint32_t field) {
    append_tag(out, field, PB_BYTES);
    buffer_put_u8(out, 0);
    return out->size;
}

void pb_append_end(struct buffer *out, size_t mark) {
    assert(mark <= out->size);
    size_t size = out->size - mark;
    size_t extra = pb_varint_size(size) - 1;
    if (extra > 0) {
        buffer_reserve(out, extra);
        memmove(out->data + mark + extra, out->data + mark, size);
        out->size += extra;
    }
    uint8_t *at = out->data + mark - 1;
    for (; size >= 0x80; size >>= 7) {
        *at++ = (uint8_t)(size | 0x80);
    }
    *at = (uint8_t)size;
}
