#include "doors/eureka/eureka_text.h"

#include <stdio.h>

enum { REPLACEMENT = 0xFFFD, HEX_DIGITS = 4 };

/* --- UTF-8. --- */

static size_t sequence_size(uint8_t first) {
    if (first < 0x80) {
        return 1;
    }
    if (first >= 0xC2 && first < 0xE0) {
        return 2;
    }
    if (first >= 0xE0 && first < 0xF0) {
        return 3;
    }
    return first >= 0xF0 && first < 0xF5 ? 4 : 0;
}

/* The character at `position`, which moves behind it; REPLACEMENT for a byte that begins none. */
static uint32_t next_character(struct bytes text, size_t *position) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    static const uint8_t first_bits[] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    const uint8_t *at = text.data + *position;
    size_t size = sequence_size(at[0]);
    *position += 1;
    if (size == 0 || size > text.size - (*position - 1)) {
        return REPLACEMENT;
    }
    uint32_t character = at[0] & first_bits[size];
    for (size_t i = 1; i < size; i++) {
        if ((at[i] & 0xC0) != 0x80) {
            return REPLACEMENT;
        }
        character = character << 6 | (at[i] & 0x3F);
    }
    if (character < least[size] || character > 0x10FFFF ||
        (character >= 0xD800 && character < 0xE000)) {
        return REPLACEMENT;
    }
    *position += size - 1;
    return character;
}

static void put_character(struct buffer *out, uint32_t character) {
    if (character < 0x80) {
        buffer_put_u8(out, (uint8_t)character);
        return;
    }
    if (character < 0x800) {
        buffer_put_u8(out, (uint8_t)(0xC0 | character >> 6));
    } else {
        if (character < 0x10000) {
            buffer_put_u8(out, (uint8_t)(0xE0 | character >> 12));
        } else {
            buffer_put_u8(out, (uint8_t)(0xF0 | character >> 18));
            buffer_put_u8(out, (uint8_t)(0x80 | (character >> 12 & 0x3F)));
        }
        buffer_put_u8(out, (uint8_t)(0x80 | (character >> 6 & 0x3F)));
    }
    buffer_put_u8(out, (uint8_t)(0x80 | (character & 0x3F)));
}

static void put_text(struct buffer *out, const char *text) {
    buffer_append(out, text, strlen(text));
}

/* --- JSON. --- */

static void put_json_character(struct buffer *out, uint32_t character) {
    char escape[8];
    if (character == '"' || character == '\\') {
        buffer_put_u8(out, '\\');
        buffer_put_u8(out, (uint8_t)character);
    } else if (character == '\n') {
        put_text(out, "\\n");
    } else if (character < 0x20 || character == 0x7F) {
        snprintf(escape, sizeof escape, "\\u%04x", (unsigned)character);
        put_text(out, escape);
    } else {
        put_character(out, character);
    }
}

void eureka_text_json(struct buffer *out, struct bytes text) {
    buffer_put_u8(out, '"');
    for (size_t i = 0; i < text.size;) {
        put_json_character(out, next_character(text, &i));
    }
    buffer_put_u8(out, '"');
}

/* --- XML. --- */

/* XML 1.0, section 2.2. */
static bool is_in_xml(uint32_t character) {
    return (character >= 0x20 || character == '\t' || character == '\n' || character == '\r') &&
           character != 0xFFFE && character != 0xFFFF;
}

bool eureka_text_fits_xml(struct bytes text) {
    bool fits = true;
    for (size_t i = 0; i < text.size && fits;) {
        fits = is_in_xml(next_character(text, &i));
    }
    return fits;
}

static void put_xml_character(struct buffer *out, uint32_t character) {
    switch (character) {
    case '&':
        put_text(out, "&amp;");
        return;
    case '<':
        put_text(out, "&lt;");
        return;
    case '>':
        put_text(out, "&gt;");
        return;
    case '"':
        put_text(out, "&quot;");
        return;
    case '\t':
        put_text(out, "&#x9;");
        return;
    case '\n':
        put_text(out, "&#xa;");
        return;
    case '\r':
        put_text(out, "&#xd;");
        return;
    default:
        break;
    }
    put_character(out, is_in_xml(character) ? character : REPLACEMENT);
}

void eureka_text_xml(struct buffer *out, struct bytes text) {
    for (size_t i = 0; i < text.size;) {
        put_xml_character(out, next_character(text, &i));
    }
}

static bool is_letter(uint32_t character) {
    return (character >= 'A' && character <= 'Z') || (character >= 'a' && character <= 'z');
}

static bool is_later(uint32_t character) {
    return (character >= '0' && character <= '9') || character == '-' || character == '.';
}

static void put_unit(struct buffer *out, uint32_t unit) {
    char escape[8];
    snprintf(escape, sizeof escape, "_.%04x", (unsigned)(unit & 0xFFFF));
    put_text(out, escape);
}

static void put_escaped(struct buffer *out, uint32_t character) {
    if (character >= 0x10000) {
        put_unit(out, 0xD800 + ((character - 0x10000) >> 10));
        put_unit(out, 0xDC00 + ((character - 0x10000) & 0x3FF));
    } else {
        put_unit(out, character);
    }
}

void eureka_text_encode_name(struct buffer *out, struct bytes name) {
    for (size_t i = 0; i < name.size;) {
        bool is_first = i == 0;
        uint32_t character = next_character(name, &i);
        if (is_letter(character) || (!is_first && is_later(character))) {
            buffer_put_u8(out, (uint8_t)character);
        } else if (character == '_') {
            put_text(out, "__");
        } else if (character == '$') {
            put_text(out, "_-");
        } else {
            put_escaped(out, character);
        }
    }
}

static bool read_unit(struct bytes name, size_t position, uint32_t *out_unit) {
    uint32_t unit = 0;
    if (name.size - position < 2 + HEX_DIGITS || name.data[position] != '_' ||
        name.data[position + 1] != '.') {
        return false;
    }
    for (size_t i = 0; i < HEX_DIGITS; i++) {
        uint8_t digit = name.data[position + 2 + i];
        uint32_t value = digit >= '0' && digit <= '9'   ? digit - (uint32_t)'0'
                         : digit >= 'a' && digit <= 'f' ? digit - (uint32_t)'a' + 10
                         : digit >= 'A' && digit <= 'F' ? digit - (uint32_t)'A' + 10
                                                        : 16;
        if (value == 16) {
            return false;
        }
        unit = unit << 4 | value;
    }
    *out_unit = unit;
    return true;
}

/* Returns how many bytes the escape has; 0: it is none. */
static size_t decode_escape(struct buffer *out, struct bytes name, size_t position) {
    enum { SIZE = 2 + HEX_DIGITS };
    uint32_t unit;
    uint32_t second;
    if (!read_unit(name, position, &unit) || unit == 0) {
        return 0;
    }
    if (unit < 0xD800 || unit >= 0xE000) {
        put_character(out, unit);
        return SIZE;
    }
    if (unit >= 0xDC00 || !read_unit(name, position + SIZE, &second) || second < 0xDC00 ||
        second >= 0xE000) {
        return 0;
    }
    put_character(out, 0x10000 + ((unit - 0xD800) << 10) + (second - 0xDC00));
    return (size_t)2 * SIZE;
}

void eureka_text_decode_name(struct buffer *out, struct bytes name) {
    size_t i = 0;
    while (i < name.size) {
        uint8_t next = i + 1 < name.size ? name.data[i + 1] : 0;
        size_t used = 0;
        if (name.data[i] == '_' && (next == '_' || next == '-')) {
            buffer_put_u8(out, next == '_' ? '_' : '$');
            used = 2;
        } else if (name.data[i] == '_' && next == '.') {
            used = decode_escape(out, name, i);
        }
        if (used == 0) {
            buffer_put_u8(out, name.data[i]);
            used = 1;
        }
        i += used;
    }
}

/* --- Case. --- */

void eureka_text_upper(uint8_t *out, struct bytes text) {
    for (size_t i = 0; i < text.size; i++) {
        uint8_t byte = text.data[i];
        out[i] = byte >= 'a' && byte <= 'z' ? (uint8_t)(byte - 'a' + 'A') : byte;
    }
}

void eureka_text_lower(uint8_t *out, struct bytes text) {
    for (size_t i = 0; i < text.size; i++) {
        uint8_t byte = text.data[i];
        out[i] = byte >= 'A' && byte <= 'Z' ? (uint8_t)(byte - 'A' + 'a') : byte;
    }
}
