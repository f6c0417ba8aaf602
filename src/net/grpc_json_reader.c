#include "net/grpc_json_reader.h"

#include "net/grpc_json_token.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { WIRE_VARINT = 0, WIRE_LENGTH = 2, FIELDS_MAX = 64 };

struct reader_state {
    struct json_tokens tokens;
    struct buffer *out;
    char *error;
};

__attribute__((format(printf, 2, 3))) static bool refuse(struct reader_state *state,
                                                         const char *format, ...) {
    if (state->error[0] == 0) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(state->error, GRPC_JSON_ERROR_SIZE, format, arguments);
        va_end(arguments);
    }
    return false;
}

static bool refuse_json(struct reader_state *state) {
    return refuse(state, "invalid JSON at byte %zu: %s", json_tokens_position(&state->tokens),
                  state->tokens.error);
}

static bool refuse_value(struct reader_state *state, const ProtobufCFieldDescriptor *field,
                         const char *wanted) {
    return refuse(state, "field \"%s\" must be %s", field->name, wanted);
}

/* --- fields -------------------------------------------------------------------------------- */

/* "range_end" is also called "rangeEnd". */
static bool is_camel_case_of(const char *name, struct bytes text) {
    size_t at = 0;
    for (; *name != 0; name++, at++) {
        char wanted = *name;
        if (wanted == '_') {
            wanted = *++name;
            wanted = wanted >= 'a' && wanted <= 'z' ? (char)(wanted - 'a' + 'A') : wanted;
        }
        if (wanted == 0 || at == text.size || text.data[at] != (uint8_t)wanted) {
            return false;
        }
    }
    return at == text.size;
}

/* The index of the field; n_fields: there is none of this name. */
static unsigned find_field(const ProtobufCMessageDescriptor *message, struct bytes name) {
    unsigned i = 0;
    while (i < message->n_fields && !bytes_equal(bytes_from_text(message->fields[i].name), name) &&
           !is_camel_case_of(message->fields[i].name, name)) {
        i++;
    }
    return i;
}

static void put_tag(struct reader_state *state, const ProtobufCFieldDescriptor *field,
                    unsigned wire) {
    buffer_put_varint(state->out, (uint64_t)field->id << 3 | wire);
}

static void put_number(struct reader_state *state, const ProtobufCFieldDescriptor *field,
                       uint64_t value) {
    put_tag(state, field, WIRE_VARINT);
    buffer_put_varint(state->out, value);
}

/* Puts the length in front of what was written since. */
static void insert_length(struct buffer *out, size_t begin) {
    size_t size = out->size - begin;
    buffer_put_varint(out, size);
    size_t varint_size = out->size - begin - size;
    uint8_t varint[10];
    memcpy(varint, out->data + begin + size, varint_size);
    memmove(out->data + begin + varint_size, out->data + begin, size);
    memcpy(out->data + begin, varint, varint_size);
}

/* --- values -------------------------------------------------------------------------------- */

/* An object, whose first token was read. How deep it goes is bounded by the tokens. */
static bool read_message(struct reader_state *state, const ProtobufCMessageDescriptor *message);

/* A whole number, as a number or a string. */
static bool read_whole(struct reader_state *state, const ProtobufCFieldDescriptor *field,
                       int64_t min, uint64_t max) {
    const struct json_token *token = &state->tokens.token;
    uint64_t value = 0;
    if ((token->kind != JSON_NUMBER && token->kind != JSON_TEXT) ||
        !json_parse_whole(token->text, min, max, &value)) {
        return refuse_value(state, field, min < 0 ? "a whole number" : "a whole positive number");
    }
    put_number(state, field, value);
    return true;
}

static bool read_enum(struct reader_state *state, const ProtobufCFieldDescriptor *field) {
    const struct json_token *token = &state->tokens.token;
    const ProtobufCEnumDescriptor *values = field->descriptor;
    if (token->kind != JSON_TEXT) {
        return read_whole(state, field, INT32_MIN, INT32_MAX);
    }
    for (unsigned i = 0; i < values->n_values; i++) {
        if (bytes_equal(bytes_from_text(values->values[i].name), token->text)) {
            put_number(state, field, (uint64_t)(int64_t)values->values[i].value);
            return true;
        }
    }
    int shown = token->text.size < 64 ? (int)token->text.size : 64;
    return refuse(state, "unknown value \"%.*s\" for enum %s", shown,
                  (const char *)token->text.data, values->name);
}

static bool read_text(struct reader_state *state, const ProtobufCFieldDescriptor *field) {
    const struct json_token *token = &state->tokens.token;
    if (token->kind != JSON_TEXT) {
        return refuse_value(state, field, "a string");
    }
    put_tag(state, field, WIRE_LENGTH);
    buffer_put_bytes(state->out, token->text);
    return true;
}

static bool read_bytes(struct reader_state *state, const ProtobufCFieldDescriptor *field) {
    const struct json_token *token = &state->tokens.token;
    put_tag(state, field, WIRE_LENGTH);
    size_t begin = state->out->size;
    if (token->kind != JSON_TEXT || !json_parse_base64(token->text, state->out)) {
        return refuse_value(state, field, "a string of base64");
    }
    insert_length(state->out, begin);
    return true;
}

/* The value whose first token was read. */
static bool read_value(struct reader_state *state, const ProtobufCFieldDescriptor *field) {
    const struct json_token *token = &state->tokens.token;
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT64:
        return read_whole(state, field, INT64_MIN, INT64_MAX);
    case PROTOBUF_C_TYPE_UINT64:
        return read_whole(state, field, 0, UINT64_MAX);
    case PROTOBUF_C_TYPE_INT32:
        return read_whole(state, field, INT32_MIN, INT32_MAX);
    case PROTOBUF_C_TYPE_UINT32:
        return read_whole(state, field, 0, UINT32_MAX);
    case PROTOBUF_C_TYPE_BOOL:
        if (token->kind != JSON_TRUE && token->kind != JSON_FALSE) {
            return refuse_value(state, field, "true or false");
        }
        put_number(state, field, token->kind == JSON_TRUE);
        return true;
    case PROTOBUF_C_TYPE_ENUM:
        return read_enum(state, field);
    case PROTOBUF_C_TYPE_STRING:
        return read_text(state, field);
    case PROTOBUF_C_TYPE_BYTES:
        return read_bytes(state, field);
    case PROTOBUF_C_TYPE_MESSAGE: {
        put_tag(state, field, WIRE_LENGTH);
        size_t begin = state->out->size;
        if (!read_message(state, field->descriptor)) {
            return false;
        }
        insert_length(state->out, begin);
        return true;
    }
    default:
        return refuse(state, "field \"%s\" cannot be given in JSON", field->name);
    }
}

static bool next(struct reader_state *state) {
    return json_tokens_next(&state->tokens) || refuse_json(state);
}

static bool read_array(struct reader_state *state, const ProtobufCFieldDescriptor *field) {
    if (state->tokens.token.kind != JSON_ARRAY) {
        return refuse_value(state, field, "an array");
    }
    while (next(state)) {
        if (state->tokens.token.kind == JSON_ARRAY_END) {
            return true;
        }
        if (!read_value(state, field)) {
            return false;
        }
    }
    return false;
}

/* A value of a field that nobody knows. The tokenizer bounds how deep it is. */
static bool skip_value(struct reader_state *state) {
    size_t depth = 0;
    do {
        enum json_kind kind = state->tokens.token.kind;
        depth += kind == JSON_OBJECT || kind == JSON_ARRAY;
        depth -= kind == JSON_OBJECT_END || kind == JSON_ARRAY_END;
        if (depth == 0) {
            return true;
        }
    } while (next(state));
    return false;
}

/* --- messages ------------------------------------------------------------------------------ */

/* Which fields of one message were there. */
struct seen_fields {
    uint64_t fields;
    unsigned oneof; /* protobuf-c's offset of the case; 0: none */
};

static bool see(struct reader_state *state, struct seen_fields *seen,
                const ProtobufCMessageDescriptor *message, unsigned index) {
    const ProtobufCFieldDescriptor *field = &message->fields[index];
    if (index >= FIELDS_MAX) {
        return refuse(state, "message %s has too many fields", message->name);
    }
    if ((seen->fields >> index & 1) != 0) {
        return refuse(state, "duplicate field \"%s\"", field->name);
    }
    seen->fields |= UINT64_C(1) << index;
    if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0) {
        if (seen->oneof == field->quantifier_offset) {
            return refuse(state, "field \"%s\" excludes one that was given before", field->name);
        }
        seen->oneof = field->quantifier_offset;
    }
    return true;
}

/* The value of the name that was read. */
static bool read_member(struct reader_state *state, const ProtobufCMessageDescriptor *message,
                        struct seen_fields *seen) {
    unsigned index = find_field(message, state->tokens.token.text);
    if (!next(state)) {
        return false;
    }
    if (index == message->n_fields || state->tokens.token.kind == JSON_NULL) {
        return skip_value(state);
    }
    const ProtobufCFieldDescriptor *field = &message->fields[index];
    if (!see(state, seen, message, index)) {
        return false;
    }
    return field->label == PROTOBUF_C_LABEL_REPEATED ? read_array(state, field)
                                                     : read_value(state, field);
}

static bool read_message(struct reader_state *state, const ProtobufCMessageDescriptor *message) {
    struct seen_fields seen = {0};
    if (state->tokens.token.kind != JSON_OBJECT) {
        return refuse(state, "%s must be an object", message->short_name);
    }
    while (next(state)) {
        if (state->tokens.token.kind == JSON_OBJECT_END) {
            return true;
        }
        if (!read_member(state, message, &seen)) {
            return false;
        }
    }
    return false;
}

bool grpc_json_read(struct bytes json, const ProtobufCMessageDescriptor *message,
                    struct buffer *out, char out_error[GRPC_JSON_ERROR_SIZE]) {
    struct reader_state state = {.out = out, .error = out_error};
    out_error[0] = 0;
    json_tokens_init(&state.tokens, json);
    bool is_read = next(&state) &&
                   (state.tokens.token.kind == JSON_NULL || read_message(&state, message)) &&
                   (json_tokens_at_end(&state.tokens) || refuse_json(&state));
    json_tokens_clear(&state.tokens);
    return is_read;
}
