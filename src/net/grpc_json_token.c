#include "net/grpc_json_token.h"

#include "base/utf8.h"

#include <string.h>

void json_tokens_init(struct json_tokens *tokens, struct bytes json) {
    *tokens = (struct json_tokens){.json = json, .error = ""};
    buffer_init(&tokens->unescaped);
}

void json_tokens_clear(struct json_tokens *tokens) {
    buffer_clear(&tokens->unescaped);
}

size_t json_tokens_position(const struct json_tokens *tokens) {
    return tokens->at;
}

static bool fail(struct json_tokens *tokens, const char *error) {
    tokens->error = error;
    return false;
}

static void skip_space(struct json_tokens *tokens) {
    while (tokens->at < tokens->json.size &&
           memchr(" \t\n\r", tokens->json.data[tokens->at], 4) != NULL) {
        tokens->at++;
    }
}

bool json_tokens_at_end(struct json_tokens *tokens) {
    skip_space(tokens);
    return tokens->at == tokens->json.size || fail(tokens, "something follows the value");
}

/* 0: the end. NUL bytes are nowhere allowed, so there is no difference. */
static uint8_t peek(const struct json_tokens *tokens) {
    return tokens->at < tokens->json.size ? tokens->json.data[tokens->at] : 0;
}

/* --- texts --------------------------------------------------------------------------------- */

static bool read_hex(struct json_tokens *tokens, uint32_t *out_code) {
    uint32_t code = 0;
    for (unsigned i = 0; i < 4; i++) {
        uint8_t digit = peek(tokens);
        if (digit >= '0' && digit <= '9') {
            code = code << 4 | (uint32_t)(digit - '0');
        } else if ((digit | 0x20) >= 'a' && (digit | 0x20) <= 'f') {
            code = code << 4 | (uint32_t)((digit | 0x20) - 'a' + 10);
        } else {
            return fail(tokens, "\\u needs four hexadecimal digits");
        }
        tokens->at++;
    }
    *out_code = code;
    return true;
}

static void put_utf8(struct buffer *out, uint32_t code) {
    if (code < 0x80) {
        buffer_put_u8(out, (uint8_t)code);
        return;
    }
    if (code < 0x800) {
        buffer_put_u8(out, (uint8_t)(0xc0 | code >> 6));
    } else {
        if (code < 0x10000) {
            buffer_put_u8(out, (uint8_t)(0xe0 | code >> 12));
        } else {
            buffer_put_u8(out, (uint8_t)(0xf0 | code >> 18));
            buffer_put_u8(out, (uint8_t)(0x80 | (code >> 12 & 0x3f)));
        }
        buffer_put_u8(out, (uint8_t)(0x80 | (code >> 6 & 0x3f)));
    }
    buffer_put_u8(out, (uint8_t)(0x80 | (code & 0x3f)));
}

/* Behind "\u". Half of a pair alone becomes the replacement character, as in Go. */
static bool read_code(struct json_tokens *tokens) {
    enum { HIGH = 0xd800, LOW = 0xdc00, END = 0xe000, REPLACEMENT = 0xfffd };
    uint32_t code = 0;
    if (!read_hex(tokens, &code)) {
        return false;
    }
    if (code >= HIGH && code < LOW && tokens->json.size - tokens->at >= 6 &&
        memcmp(tokens->json.data + tokens->at, "\\u", 2) == 0) {
        size_t before = tokens->at;
        uint32_t low = 0;
        tokens->at += 2;
        if (!read_hex(tokens, &low)) {
            return false;
        }
        if (low >= LOW && low < END) {
            code = 0x10000 + ((code - HIGH) << 10) + (low - LOW);
        } else {
            tokens->at = before;
        }
    }
    put_utf8(&tokens->unescaped, code >= HIGH && code < END ? REPLACEMENT : code);
    return true;
}

static bool read_escape(struct json_tokens *tokens) {
    static const char names[] = "\"\\/bfnrt";
    static const char values[] = "\"\\/\b\f\n\r\t";
    uint8_t name = peek(tokens);
    const char *found = name != 0 ? strchr(names, name) : NULL;
    if (found == NULL && name != 'u') {
        return fail(tokens, "unknown escape in a string");
    }
    tokens->at++;
    if (name == 'u') {
        return read_code(tokens);
    }
    buffer_put_u8(&tokens->unescaped, (uint8_t)values[found - names]);
    return true;
}

/* Up to the next quote or backslash; at most ASCII is passed over by the byte. */
static bool pass_plain(struct json_tokens *tokens) {
    while (tokens->at < tokens->json.size) {
        struct bytes rest =
            bytes_of(tokens->json.data + tokens->at, tokens->json.size - tokens->at);
        uint8_t first = rest.data[0];
        if (first == '"' || first == '\\') {
            return true;
        }
        size_t size = first < 0x20 ? 0 : utf8_character_size(rest);
        if (size == 0) {
            return fail(tokens,
                        first < 0x20 ? "control character in a string" : "a string is not UTF-8");
        }
        tokens->at += size;
    }
    return fail(tokens, "unexpected end");
}

/* Behind the first quote. Without escapes it is a view. */
static bool read_text(struct json_tokens *tokens, enum json_kind kind) {
    size_t begin = tokens->at;
    tokens->unescaped.size = 0;
    bool is_plain = true;
    while (pass_plain(tokens)) {
        if (!is_plain || peek(tokens) == '\\') {
            buffer_append(&tokens->unescaped, tokens->json.data + begin, tokens->at - begin);
        }
        if (peek(tokens) == '"') {
            tokens->token.kind = kind;
            tokens->token.text = is_plain
                                     ? bytes_of(tokens->json.data + begin, tokens->at - begin)
                                     : bytes_of(tokens->unescaped.data, tokens->unescaped.size);
            tokens->at++;
            return true;
        }
        tokens->at++;
        is_plain = false;
        if (!read_escape(tokens)) {
            return false;
        }
        begin = tokens->at;
    }
    return false;
}

/* --- other values -------------------------------------------------------------------------- */

static bool read_digits(struct json_tokens *tokens) {
    size_t begin = tokens->at;
    while (peek(tokens) >= '0' && peek(tokens) <= '9') {
        tokens->at++;
    }
    return tokens->at > begin || fail(tokens, "a digit is missing in a number");
}

static bool read_number(struct json_tokens *tokens) {
    size_t begin = tokens->at;
    tokens->at += peek(tokens) == '-';
    if (peek(tokens) == '0') {
        tokens->at++;
    } else if (!read_digits(tokens)) {
        return false;
    }
    if (peek(tokens) == '.') {
        tokens->at++;
        if (!read_digits(tokens)) {
            return false;
        }
    }
    if ((peek(tokens) | 0x20) == 'e') {
        tokens->at++;
        tokens->at += peek(tokens) == '+' || peek(tokens) == '-';
        if (!read_digits(tokens)) {
            return false;
        }
    }
    tokens->token.kind = JSON_NUMBER;
    tokens->token.text = bytes_of(tokens->json.data + begin, tokens->at - begin);
    return true;
}

static bool read_word(struct json_tokens *tokens, const char *word, enum json_kind kind) {
    size_t size = strlen(word);
    if (tokens->json.size - tokens->at < size ||
        memcmp(tokens->json.data + tokens->at, word, size) != 0) {
        return fail(tokens, "a value is expected");
    }
    tokens->at += size;
    tokens->token.kind = kind;
    return true;
}

static bool open_level(struct json_tokens *tokens, bool is_object) {
    if (tokens->depth == GRPC_JSON_DEPTH_MAX) {
        return fail(tokens, "too deep");
    }
    tokens->is_object[tokens->depth] = is_object;
    tokens->is_empty[tokens->depth] = true;
    tokens->depth++;
    tokens->at++;
    tokens->token.kind = is_object ? JSON_OBJECT : JSON_ARRAY;
    return true;
}

static bool read_value(struct json_tokens *tokens) {
    tokens->wants_value = false;
    switch (peek(tokens)) {
    case '{':
        return open_level(tokens, true);
    case '[':
        return open_level(tokens, false);
    case '"':
        tokens->at++;
        return read_text(tokens, JSON_TEXT);
    case 't':
        return read_word(tokens, "true", JSON_TRUE);
    case 'f':
        return read_word(tokens, "false", JSON_FALSE);
    case 'n':
        return read_word(tokens, "null", JSON_NULL);
    default:
        if (peek(tokens) == '-' || (peek(tokens) >= '0' && peek(tokens) <= '9')) {
            return read_number(tokens);
        }
        return fail(tokens,
                    tokens->at < tokens->json.size ? "a value is expected" : "unexpected end");
    }
}

static bool read_name(struct json_tokens *tokens) {
    if (peek(tokens) != '"') {
        return fail(tokens, tokens->at < tokens->json.size ? "a name in quotes is expected"
                                                           : "unexpected end");
    }
    tokens->at++;
    if (!read_text(tokens, JSON_NAME)) {
        return false;
    }
    skip_space(tokens);
    if (peek(tokens) != ':') {
        return fail(tokens, "a colon is expected");
    }
    tokens->at++;
    tokens->wants_value = true;
    return true;
}

/* Inside of an object or an array, not behind a name. */
static bool read_next_inside(struct json_tokens *tokens) {
    size_t level = tokens->depth - 1;
    bool is_object = tokens->is_object[level];
    if (peek(tokens) == (is_object ? '}' : ']')) {
        tokens->at++;
        tokens->depth--;
        tokens->token.kind = is_object ? JSON_OBJECT_END : JSON_ARRAY_END;
        return true;
    }
    if (!tokens->is_empty[level]) {
        if (peek(tokens) != ',') {
            return fail(tokens,
                        tokens->at < tokens->json.size ? "a comma is expected" : "unexpected end");
        }
        tokens->at++;
        skip_space(tokens);
    }
    tokens->is_empty[level] = false;
    return is_object ? read_name(tokens) : read_value(tokens);
}

bool json_tokens_next(struct json_tokens *tokens) {
    skip_space(tokens);
    if (tokens->is_done) {
        return fail(tokens, "something follows the value");
    }
    bool is_read =
        tokens->depth == 0 || tokens->wants_value ? read_value(tokens) : read_next_inside(tokens);
    tokens->is_done = tokens->depth == 0;
    return is_read;
}
