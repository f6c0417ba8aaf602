#include "base/pb_writer.h"

#include "base/pb_reader.h"

#include <assert.h>

void pb_writer_init(struct pb_writer *writer, uint8_t *memory, size_t size) {
    writer->at = memory;
    writer->end = memory + size;
    writer->size = size;
}

static void write_varint(struct pb_writer *writer, uint64_t value) {
    assert((size_t)(writer->end - writer->at) >= pb_varint_size(value));
    while (value >= 0x80) {
        *writer->at++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *writer->at++ = (uint8_t)value;
}

static void write_tag(struct pb_writer *writer, uint32_t field, enum pb_wire_type wire_type) {
    write_varint(writer, (uint64_t)field << 3 | wire_type);
}

void pb_write_uint64(struct pb_writer *writer, uint32_t field, uint64_t value) {
    if (value == 0) {
        return;
    }
    write_tag(writer, field, PB_VARINT);
    write_varint(writer, value);
}

void pb_write_int64(struct pb_writer *writer, uint32_t field, int64_t value) {
    pb_write_uint64(writer, field, (uint64_t)value);
}

void pb_write_bool(struct pb_writer *writer, uint32_t field, bool value) {
    pb_write_uint64(writer, field, value);
}

void pb_write_message(struct pb_writer *writer, uint32_t field, size_t size) {
    write_tag(writer, field, PB_BYTES);
    write_varint(writer, size);
}

void pb_write_raw(struct pb_writer *writer, struct bytes bytes) {
    assert((size_t)(writer->end - writer->at) >= bytes.size);
    if (bytes.size > 0) {
        memcpy(writer->at, bytes.data, bytes.size);
        writer->at += bytes.size;
    }
}

void pb_write_element(struct pb_writer *writer, uint32_t field, struct bytes bytes) {
    pb_write_message(writer, field, bytes.size);
    pb_write_raw(writer, bytes);
}

void pb_write_bytes(struct pb_writer *writer, uint32_t field, struct bytes bytes) {
    if (bytes.size > 0) {
        pb_write_element(writer, field, bytes);
    }
}
