#include "net/grpc_json_writer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_LENGTH = 2, WIRE_FIXED32 = 5 };

static void append(struct buffer *out, const char *text) {
    buffer_append(out, text, strlen(text));
}

static struct grpc_json_level *top(struct grpc_json_writer *writer) {
    return &writer->levels[writer->n_levels - 1];
}

/* --- fields -------------------------------------------------------------------------------- */

static void close_array(struct grpc_json_level *level, struct buffer *out) {
    if (level->array != NULL) {
        buffer_put_u8(out, ']');
        level->array = NULL;
    }
}

/* Everything in front of the value. */
static void begin_field(struct grpc_json_writer *writer, struct buffer *out) {
    struct grpc_json_level *level = top(writer);
    const ProtobufCFieldDescriptor *field = writer->field;
    if (level->array == field) {
        buffer_put_u8(out, ',');
        return;
    }
    close_array(level, out);
    if (level->has_fields) {
        buffer_put_u8(out, ',');
    }
    level->has_fields = true;
    buffer_put_u8(out, '"');
    append(out, field->name);
    append(out, "\":");
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        buffer_put_u8(out, '[');
        level->array = field;
    }
}

/* A default value says something only where its presence does. */
static bool is_shown_empty(const ProtobufCFieldDescriptor *field) {
    return field->label == PROTOBUF_C_LABEL_REPEATED ||
           (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
}

static void push(struct grpc_json_writer *writer, const ProtobufCMessageDescriptor *message,
                 size_t size, struct buffer *out) {
    if (writer->n_levels == GRPC_JSON_LEVELS_MAX) {
        writer->is_failed = true;
        return;
    }
    writer->levels[writer->n_levels++] = (struct grpc_json_level){.message = message, .left = size};
    buffer_put_u8(out, '{');
}

/* Closes every message that has all its bytes. */
static void close_levels(struct grpc_json_writer *writer, struct buffer *out) {
    while (writer->n_levels > 0 && top(writer)->left == 0) {
        close_array(top(writer), out);
        buffer_put_u8(out, '}');
        writer->n_levels--;
    }
}

/* --- numbers ------------------------------------------------------------------------------- */

static void write_enum(const ProtobufCFieldDescriptor *field, int32_t value, struct buffer *out) {
    const ProtobufCEnumValue *known =
        protobuf_c_enum_descriptor_get_value(field->descriptor, value);
    char text[16];
    if (known == NULL) {
        snprintf(text, sizeof text, "%" PRId32, value);
        append(out, text);
        return;
    }
    buffer_put_u8(out, '"');
    append(out, known->name);
    buffer_put_u8(out, '"');
}

static void write_number(struct grpc_json_writer *writer, uint64_t value, struct buffer *out) {
    const ProtobufCFieldDescriptor *field = writer->field;
    char text[32] = "";
    if (value == 0 && !is_shown_empty(field)) {
        return;
    }
    begin_field(writer, out);
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT64:
        snprintf(text, sizeof text, "\"%" PRId64 "\"", (int64_t)value);
        break;
    case PROTOBUF_C_TYPE_UINT64:
        snprintf(text, sizeof text, "\"%" PRIu64 "\"", value);
        break;
    case PROTOBUF_C_TYPE_INT32:
        snprintf(text, sizeof text, "%" PRId32, (int32_t)value);
        break;
    case PROTOBUF_C_TYPE_UINT32:
        snprintf(text, sizeof text, "%" PRIu32, (uint32_t)value);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        snprintf(text, sizeof text, "%s", value != 0 ? "true" : "false");
        break;
    case PROTOBUF_C_TYPE_ENUM:
        write_enum(field, (int32_t)value, out);
        return;
    default:
        writer->is_failed = true;
        return;
    }
    append(out, text);
}

/* One byte of a varint; true: it is whole in `number`. */
static bool take_varint(struct grpc_json_writer *writer, uint8_t byte) {
    if (writer->shift > 63) {
        writer->is_failed = true;
        return false;
    }
    writer->number |= (uint64_t)(byte & 0x7f) << writer->shift;
    writer->shift += 7;
    return (byte & 0x80) == 0;
}

static uint64_t end_varint(struct grpc_json_writer *writer) {
    uint64_t number = writer->number;
    writer->number = 0;
    writer->shift = 0;
    return number;
}

/* --- tags and lengths ---------------------------------------------------------------------- */

static void skip(struct grpc_json_writer *writer, size_t size) {
    writer->state = GRPC_JSON_SKIP;
    writer->left = size;
}

static void on_tag(struct grpc_json_writer *writer, uint64_t tag) {
    const ProtobufCMessageDescriptor *message = top(writer)->message;
    writer->field = tag >> 3 <= UINT32_MAX
                        ? protobuf_c_message_descriptor_get_field(message, (unsigned)(tag >> 3))
                        : NULL;
    switch (tag & 7) {
    case WIRE_VARINT:
        writer->state = GRPC_JSON_NUMBER;
        return;
    case WIRE_LENGTH:
        writer->state = GRPC_JSON_LENGTH;
        return;
    case WIRE_FIXED64:
        skip(writer, sizeof(uint64_t));
        return;
    case WIRE_FIXED32:
        skip(writer, sizeof(uint32_t));
        return;
    default:
        writer->is_failed = true;
    }
}

static void on_length(struct grpc_json_writer *writer, uint64_t length, struct buffer *out) {
    const ProtobufCFieldDescriptor *field = writer->field;
    if (length > top(writer)->left) {
        writer->is_failed = true;
        return;
    }
    size_t size = (size_t)length;
    top(writer)->left -= size;
    writer->state = GRPC_JSON_TAG;
    if (field == NULL) {
        skip(writer, size);
    } else if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        begin_field(writer, out);
        push(writer, field->descriptor, size, out);
    } else if (field->type == PROTOBUF_C_TYPE_BYTES || field->type == PROTOBUF_C_TYPE_STRING) {
        if (size > 0 || is_shown_empty(field)) {
            begin_field(writer, out);
            buffer_put_u8(out, '"');
            writer->state = field->type == PROTOBUF_C_TYPE_BYTES ? GRPC_JSON_BYTES : GRPC_JSON_TEXT;
            writer->left = size;
        }
    } else {
        writer->state = GRPC_JSON_PACKED;
        writer->left = size;
        writer->is_failed = field->label != PROTOBUF_C_LABEL_REPEATED;
    }
}

/* --- states -------------------------------------------------------------------------------- */

/* A byte of a tag, a number or a length. */
static void take_byte(struct grpc_json_writer *writer, uint8_t byte, struct buffer *out) {
    if (top(writer)->left == 0) {
        writer->is_failed = true;
        return;
    }
    top(writer)->left--;
    if (!take_varint(writer, byte)) {
        return;
    }
    uint64_t number = end_varint(writer);
    if (writer->state == GRPC_JSON_TAG) {
        on_tag(writer, number);
        if (writer->state == GRPC_JSON_SKIP) {
            writer->is_failed |= writer->left > top(writer)->left;
            top(writer)->left -= writer->is_failed ? 0 : writer->left;
        }
    } else if (writer->state == GRPC_JSON_LENGTH) {
        on_length(writer, number, out);
    } else {
        writer->state = GRPC_JSON_TAG;
        if (writer->field != NULL) {
            write_number(writer, number, out);
        }
    }
}

/* Bytes of which the number is known. */
static void take_run(struct grpc_json_writer *writer, struct bytes run, struct buffer *out) {
    writer->left -= run.size;
    if (writer->state == GRPC_JSON_BYTES) {
        grpc_json_put_base64(&writer->carry, run, out);
    } else if (writer->state == GRPC_JSON_TEXT) {
        grpc_json_put_text(&writer->carry, run, out);
    } else if (writer->state == GRPC_JSON_PACKED) {
        for (size_t i = 0; i < run.size; i++) {
            if (take_varint(writer, run.data[i])) {
                write_number(writer, end_varint(writer), out);
            }
        }
    }
}

static void end_run(struct grpc_json_writer *writer, struct buffer *out) {
    if (writer->state == GRPC_JSON_BYTES) {
        grpc_json_end_base64(&writer->carry, out);
        buffer_put_u8(out, '"');
    } else if (writer->state == GRPC_JSON_TEXT) {
        grpc_json_end_text(&writer->carry, out);
        buffer_put_u8(out, '"');
    } else if (writer->shift != 0) {
        writer->is_failed = true; /* a packed number that does not end */
    }
    writer->state = GRPC_JSON_TAG;
}

static bool is_run(const struct grpc_json_writer *writer) {
    return writer->state >= GRPC_JSON_PACKED;
}

/* Ends what needs no more bytes. */
static void settle(struct grpc_json_writer *writer, struct buffer *out) {
    if (is_run(writer) && writer->left == 0) {
        end_run(writer, out);
    }
    if (writer->state == GRPC_JSON_TAG && writer->shift == 0 && !writer->is_failed) {
        close_levels(writer, out);
    }
}

void grpc_json_writer_init(struct grpc_json_writer *writer,
                           const ProtobufCMessageDescriptor *message, size_t size,
                           struct buffer *out) {
    writer->n_levels = 0;
    writer->state = GRPC_JSON_TAG;
    writer->field = NULL;
    writer->number = 0;
    writer->shift = 0;
    writer->left = 0;
    writer->carry.size = 0;
    writer->is_failed = false;
    push(writer, message, size, out);
    settle(writer, out);
}

bool grpc_json_writer_feed(struct grpc_json_writer *writer, struct bytes piece,
                           struct buffer *out) {
    size_t at = 0;
    while (at < piece.size && !writer->is_failed) {
        if (writer->n_levels == 0) {
            writer->is_failed = true; /* more than was announced */
        } else if (is_run(writer)) {
            size_t size = piece.size - at < writer->left ? piece.size - at : writer->left;
            take_run(writer, bytes_of(piece.data + at, size), out);
            at += size;
        } else {
            take_byte(writer, piece.data[at++], out);
        }
        settle(writer, out);
    }
    return !writer->is_failed;
}

bool grpc_json_writer_is_done(const struct grpc_json_writer *writer) {
    return writer->n_levels == 0 && !writer->is_failed;
}
