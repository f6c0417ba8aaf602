/*
 * The fields of a protobuf message one after the other, and the writing of single fields: for the
 * few messages that are so many and so small that a descriptor costs more than they do. What is
 * read is untrusted; nothing is copied.
 */
#ifndef LEASED_CLIENT_PROTO_FIELDS_H
#define LEASED_CLIENT_PROTO_FIELDS_H

#include "base/bytes.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define PROTO_VARINT_SIZE_MAX 10
/* The tag of a field with a number below 16, and the longest number. */
#define PROTO_FIELD_SIZE_MAX (1 + PROTO_VARINT_SIZE_MAX)

enum proto_type { PROTO_VARINT = 0, PROTO_FIXED64 = 1, PROTO_BYTES = 2, PROTO_FIXED32 = 5 };

struct proto_field {
    uint32_t number;
    enum proto_type type;
    uint64_t value;     /* of PROTO_VARINT */
    struct bytes bytes; /* of PROTO_BYTES */
};

struct proto_reader {
    const uint8_t *at;
    const uint8_t *end;
    bool is_malformed;
};

static inline struct proto_reader proto_reader_of(struct bytes message) {
    return (struct proto_reader){.at = message.data, .end = message.data + message.size};
}

static inline uint64_t proto_read_varint(struct proto_reader *reader) {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 7 * PROTO_VARINT_SIZE_MAX && reader->at < reader->end;
         shift += 7) {
        uint8_t byte = *reader->at++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            return value;
        }
    }
    reader->is_malformed = true;
    return 0;
}

static inline struct bytes proto_take(struct proto_reader *reader, uint64_t size) {
    if (size > (uint64_t)(reader->end - reader->at)) {
        reader->is_malformed = true;
        return bytes_of(NULL, 0);
    }
    struct bytes taken = bytes_of(reader->at, (size_t)size);
    reader->at += size;
    return taken;
}

/* False: there is no more, or what follows is no field (then `is_malformed` is set). */
static inline bool proto_next(struct proto_reader *reader, struct proto_field *out_field) {
    if (reader->at >= reader->end || reader->is_malformed) {
        return false;
    }
    uint64_t tag = proto_read_varint(reader);
    *out_field = (struct proto_field){.number = (uint32_t)(tag >> 3), .type = tag & 7};
    switch (out_field->type) {
    case PROTO_VARINT:
        out_field->value = proto_read_varint(reader);
        break;
    case PROTO_FIXED64:
        proto_take(reader, 8);
        break;
    case PROTO_BYTES:
        out_field->bytes = proto_take(reader, proto_read_varint(reader));
        break;
    case PROTO_FIXED32:
        proto_take(reader, 4);
        break;
    default:
        reader->is_malformed = true; /* groups: obsolete, never sent */
    }
    reader->is_malformed = reader->is_malformed || tag >> 3 == 0 || tag > UINT32_MAX;
    return !reader->is_malformed;
}

/* These write at `to` and give where the next byte goes. The field's number must be below 16. A
 * zero is left out, as proto3 does. */
static inline uint8_t *proto_write_varint(uint8_t *to, uint64_t value) {
    while (value >= 0x80) {
        *to++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *to++ = (uint8_t)value;
    return to;
}

static inline uint8_t *proto_write_number(uint8_t *to, unsigned number, uint64_t value) {
    if (value == 0) {
        return to;
    }
    *to++ = (uint8_t)(number << 3 | PROTO_VARINT);
    return proto_write_varint(to, value);
}

static inline uint8_t *proto_write_bytes(uint8_t *to, unsigned number, struct bytes bytes) {
    if (bytes.size == 0) {
        return to;
    }
    *to++ = (uint8_t)(number << 3 | PROTO_BYTES);
    to = proto_write_varint(to, bytes.size);
    memcpy(to, bytes.data, bytes.size);
    return to + bytes.size;
}

#endif
