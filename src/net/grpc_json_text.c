#include "net/grpc_json_text.h"

#include <assert.h>
#include <string.h>

static void append(struct buffer *out, const char *text) {
    buffer_append(out, text, strlen(text));
}

/* --- UTF-8 --------------------------------------------------------------------------------- */

enum utf8_state { UTF8_WHOLE, UTF8_PART, UTF8_BAD };

/* The state of a sequence (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF). */
static enum utf8_state utf8_state_of(const uint8_t *data, size_t size) {
    uint8_t first = data[0];
    size_t wanted = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if ((first >= 0x80 && first < 0xc2) || first > 0xf4) {
        return UTF8_BAD;
    }
    for (size_t i = 1; i < size; i++) {
        if ((data[i] & 0xc0) != 0x80) {
            return UTF8_BAD;
        }
    }
    if (size > 1 && ((first == 0xe0 && data[1] < 0xa0) || (first == 0xed && data[1] > 0x9f) ||
                     (first == 0xf0 && data[1] < 0x90) || (first == 0xf4 && data[1] > 0x8f))) {
        return UTF8_BAD;
    }
    return size < wanted ? UTF8_PART : UTF8_WHOLE;
}

static void put_escape(struct buffer *out, unsigned code) {
    static const char digits[] = "0123456789abcdef";
    uint8_t text[6] = {
        '\\', 'u', '0', '0', (uint8_t)digits[code >> 4 & 15], (uint8_t)digits[code & 15]};
    buffer_append(out, text, sizeof text);
}

static void put_ascii(struct buffer *out, uint8_t character) {
    switch (character) {
    case '"':
        append(out, "\\\"");
        return;
    case '\\':
        append(out, "\\\\");
        return;
    case '\n':
        append(out, "\\n");
        return;
    case '\r':
        append(out, "\\r");
        return;
    case '\t':
        append(out, "\\t");
        return;
    default:
        if (character < 0x20 || character == '<' || character == '>' || character == '&') {
            put_escape(out, character);
        } else {
            buffer_put_u8(out, character);
        }
    }
}

/* A whole sequence. The two ends of lines of Unicode end lines in JavaScript too. */
static void put_sequence(struct buffer *out, const uint8_t *data, size_t size) {
    if (size == 1) {
        put_ascii(out, data[0]);
    } else if (size == 3 && memcmp(data, "\xe2\x80\xa8", 3) == 0) {
        append(out, "\\u2028");
    } else if (size == 3 && memcmp(data, "\xe2\x80\xa9", 3) == 0) {
        append(out, "\\u2029");
    } else {
        buffer_append(out, data, size);
    }
}

void grpc_json_put_text(struct grpc_json_carry *carry, struct bytes piece, struct buffer *out) {
    for (size_t i = 0; i < piece.size; i++) {
        carry->bytes[carry->size++] = piece.data[i];
        enum utf8_state state = utf8_state_of(carry->bytes, carry->size);
        if (state == UTF8_BAD && carry->size > 1) {
            /* The bytes before it were no character; it may begin one. */
            append(out, "\\ufffd");
            carry->bytes[0] = piece.data[i];
            carry->size = 1;
            state = utf8_state_of(carry->bytes, 1);
        }
        if (state == UTF8_BAD) {
            append(out, "\\ufffd");
            carry->size = 0;
        } else if (state == UTF8_WHOLE) {
            put_sequence(out, carry->bytes, carry->size);
            carry->size = 0;
        }
    }
}

void grpc_json_end_text(struct grpc_json_carry *carry, struct buffer *out) {
    if (carry->size > 0) {
        append(out, "\\ufffd");
        carry->size = 0;
    }
}

void grpc_json_write_text(struct buffer *out, struct bytes text) {
    struct grpc_json_carry carry = {0};
    buffer_put_u8(out, '"');
    grpc_json_put_text(&carry, text, out);
    grpc_json_end_text(&carry, out);
    buffer_put_u8(out, '"');
}

/* --- base64 -------------------------------------------------------------------------------- */

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void put_group(uint8_t *to, const uint8_t *from) {
    uint32_t group = (uint32_t)from[0] << 16 | (uint32_t)from[1] << 8 | from[2];
    to[0] = (uint8_t)alphabet[group >> 18];
    to[1] = (uint8_t)alphabet[group >> 12 & 63];
    to[2] = (uint8_t)alphabet[group >> 6 & 63];
    to[3] = (uint8_t)alphabet[group & 63];
}

void grpc_json_put_base64(struct grpc_json_carry *carry, struct bytes piece, struct buffer *out) {
    uint8_t *to = buffer_reserve(out, piece.size / 3 * 4 + 8);
    const uint8_t *first = to;
    size_t at = 0;
    size_t carried = carry->size;
    assert(carried < 3);
    while (carried > 0 && at < piece.size) {
        carry->bytes[carried++] = piece.data[at++];
        if (carried == 3) {
            put_group(to, carry->bytes);
            to += 4;
            carried = 0;
        }
    }
    carry->size = carried;
    for (; piece.size - at >= 3; at += 3, to += 4) {
        put_group(to, piece.data + at);
    }
    if (at < piece.size) { /* one or two, and nothing is carried from before */
        carry->bytes[0] = piece.data[at];
        carry->bytes[1] = piece.data[piece.size - 1];
        carry->size = piece.size - at;
    }
    out->size += (size_t)(to - first);
}

void grpc_json_end_base64(struct grpc_json_carry *carry, struct buffer *out) {
    if (carry->size == 0) {
        return;
    }
    uint8_t group[3] = {0};
    uint8_t text[4];
    memcpy(group, carry->bytes, carry->size);
    put_group(text, group);
    for (size_t i = carry->size + 1; i < sizeof text; i++) {
        text[i] = '=';
    }
    buffer_append(out, text, sizeof text);
    carry->size = 0;
}
