/*
 * Reads the protocol buffers encoding field by field, straight from the bytes of a request: no
 * allocation, no copy. Every byte is hostile: the first malformed one sets `failed`, from then on
 * no field is found, so a decoder checks once at its end.
 *
 *     while (pb_reader_next(&reader)) {
 *         switch (reader.field) {
 *         case 1: key = pb_reader_bytes(&reader); break;
 *         default: pb_reader_skip(&reader);
 *         }
 *     }
 *
 * (protobuf.dev, "Encoding".)
 */
#ifndef LEASED_BASE_PB_READER_H
#define LEASED_BASE_PB_READER_H

#include "base/bytes.h"

#include <stdbool.h>
#include <stdint.h>

enum pb_wire_type {
    PB_VARINT = 0,
    PB_FIXED64 = 1,
    PB_BYTES = 2,
    PB_GROUP_START = 3,
    PB_GROUP_END = 4,
    PB_FIXED32 = 5
};

/* Groups are long out of use but legal in unknown fields; deeper ones than this are refused. */
enum { PB_GROUP_DEPTH_MAX = 16 };

struct pb_reader {
    const uint8_t *at;
    const uint8_t *end;
    uint32_t field;
    enum pb_wire_type wire_type;
    bool failed;
};

void pb_reader_init(struct pb_reader *reader, struct bytes bytes);

/* Finds the next field; false at the end or when something is malformed. The field must then be
 * read or skipped. */
bool pb_reader_next(struct pb_reader *reader);

/* The value of the field that was found; a wire type that does not fit fails. */
uint64_t pb_reader_uint64(struct pb_reader *reader);
int64_t pb_reader_int64(struct pb_reader *reader);
bool pb_reader_bool(struct pb_reader *reader);
/* An enum: what is outside int32 is cut as protocol buffers do. */
int32_t pb_reader_enum(struct pb_reader *reader);
/* Bytes, text or a message, as a view. */
struct bytes pb_reader_bytes(struct pb_reader *reader);
void pb_reader_skip(struct pb_reader *reader);

#endif
