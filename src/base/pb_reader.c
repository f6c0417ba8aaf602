#include "base/pb_reader.h"

#include "base/varint.h"

void pb_reader_init(struct pb_reader *reader, struct bytes bytes) {
    /* No bytes may come without an address, to which nothing can be added, not even 0. */
    static const uint8_t nothing[1];
    const uint8_t *start = bytes.size > 0 ? bytes.data : nothing;
    *reader = (struct pb_reader){.at = start, .end = start + bytes.size};
}

/* Stops the reader for good: no field is found any more. */
static void fail(struct pb_reader *reader) {
    reader->failed = true;
    reader->at = reader->end;
}

static uint64_t read_varint(struct pb_reader *reader) {
    const uint8_t *at = reader->at;
    size_t left = (size_t)(reader->end - at);
    const uint8_t *end = at + (left < VARINT_SIZE_MAX ? left : VARINT_SIZE_MAX);
    uint64_t value = 0;
    for (unsigned shift = 0; at < end; shift += 7) {
        uint8_t byte = *at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            reader->at = at;
            return value;
        }
    }
    fail(reader);
    return 0;
}

static void advance(struct pb_reader *reader, uint64_t size) {
    if (size > (uint64_t)(reader->end - reader->at)) {
        fail(reader);
        return;
    }
    reader->at += size;
}

bool pb_reader_next(struct pb_reader *reader) {
    if (reader->at == reader->end) {
        return false;
    }
    uint64_t tag = read_varint(reader);
    if (reader->failed) {
        return false;
    }
    uint64_t field = tag >> 3;
    if (field == 0 || field > UINT32_MAX >> 3) {
        fail(reader);
        return false;
    }
    reader->field = (uint32_t)field;
    reader->wire_type = (enum pb_wire_type)(tag & 7);
    return true;
}

uint64_t pb_reader_uint64(struct pb_reader *reader) {
    if (reader->wire_type != PB_VARINT) {
        fail(reader);
        return 0;
    }
    return read_varint(reader);
}

int64_t pb_reader_int64(struct pb_reader *reader) {
    return (int64_t)pb_reader_uint64(reader);
}

bool pb_reader_bool(struct pb_reader *reader) {
    return pb_reader_uint64(reader) != 0;
}

int32_t pb_reader_enum(struct pb_reader *reader) {
    return (int32_t)(uint32_t)pb_reader_uint64(reader);
}

struct bytes pb_reader_bytes(struct pb_reader *reader) {
    if (reader->wire_type != PB_BYTES) {
        fail(reader);
        return bytes_of(reader->end, 0);
    }
    uint64_t size = read_varint(reader);
    const uint8_t *start = reader->at;
    advance(reader, size);
    return reader->failed ? bytes_of(reader->end, 0) : bytes_of(start, (size_t)size);
}

static void skip_value(struct pb_reader *reader) {
    switch (reader->wire_type) {
    case PB_VARINT:
        (void)read_varint(reader);
        break;
    case PB_FIXED64:
        advance(reader, 8);
        break;
    case PB_BYTES:
        (void)pb_reader_bytes(reader);
        break;
    case PB_FIXED32:
        advance(reader, 4);
        break;
    default:
        fail(reader);
    }
}

void pb_reader_skip(struct pb_reader *reader) {
    if (reader->wire_type != PB_GROUP_START) {
        skip_value(reader);
        return;
    }
    /* The fields whose groups are open, so that each end is checked against its start. */
    uint32_t open[PB_GROUP_DEPTH_MAX];
    unsigned depth = 0;
    open[depth++] = reader->field;
    while (depth > 0 && pb_reader_next(reader)) {
        if (reader->wire_type == PB_GROUP_START) {
            if (depth == PB_GROUP_DEPTH_MAX) {
                break;
            }
            open[depth++] = reader->field;
        } else if (reader->wire_type == PB_GROUP_END) {
            if (open[--depth] != reader->field) {
                fail(reader);
                return;
            }
        } else {
            skip_value(reader);
        }
    }
    if (depth > 0) {
        fail(reader);
    }
}
