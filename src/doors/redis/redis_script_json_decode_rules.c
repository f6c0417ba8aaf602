#include "doors/redis/redis_script_json_rules.h"
#include "doors/redis/redis_script_state_rules.h"

#include <lauxlib.h>
#include <stdlib.h>

enum token_type {
    TOKEN_OBJECT_BEGIN,
    TOKEN_OBJECT_END,
    TOKEN_ARRAY_BEGIN,
    TOKEN_ARRAY_END,
    TOKEN_STRING,
    TOKEN_NUMBER,
    TOKEN_BOOLEAN,
    TOKEN_NULL,
    TOKEN_COLON,
    TOKEN_COMMA,
    TOKEN_END,
    TOKEN_ERROR,
};

static const char *const token_names[] = {
    "T_OBJ_BEGIN", "T_OBJ_END", "T_ARR_BEGIN", "T_ARR_END", "T_STRING", "T_NUMBER",
    "T_BOOLEAN",   "T_NULL",    "T_COLON",     "T_COMMA",   "T_END",
};

/* A string is decoded in place of its token: at most as long as the text, in memory of the script.
 */
struct decoder {
    lua_State *lua;
    const struct redis_script_json_settings *settings;
    const char *text;
    size_t size;
    size_t at;
    int depth;
    char *string;
    size_t string_size;
    /* The last token. */
    enum token_type type;
    size_t start;
    const char *error;
    double number;
    bool boolean;
};

static void fail(struct decoder *decoder, const char *error) {
    decoder->type = TOKEN_ERROR;
    decoder->error = error;
    decoder->start = decoder->at;
}

static char char_at(const struct decoder *decoder, size_t at) {
    return at < decoder->size ? decoder->text[at] : '\0';
}

/* --- Strings. --- */

/* Four hexadecimal digits, or -1. */
static int hex4(const struct decoder *decoder, size_t at) {
    int value = 0;
    for (size_t i = 0; i < 4; i++) {
        char c = char_at(decoder, at + i);
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0) {
            return -1;
        }
        value = value * 16 + digit;
    }
    return value;
}

static void put_byte(struct decoder *decoder, unsigned byte) {
    decoder->string[decoder->string_size++] = (char)byte;
}

static void put_utf8(struct decoder *decoder, unsigned code) {
    if (code < 0x80) {
        put_byte(decoder, code);
    } else if (code < 0x800) {
        put_byte(decoder, 0xc0 | code >> 6);
        put_byte(decoder, 0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        put_byte(decoder, 0xe0 | code >> 12);
        put_byte(decoder, 0x80 | (code >> 6 & 0x3f));
        put_byte(decoder, 0x80 | (code & 0x3f));
    } else {
        put_byte(decoder, 0xf0 | code >> 18);
        put_byte(decoder, 0x80 | (code >> 12 & 0x3f));
        put_byte(decoder, 0x80 | (code >> 6 & 0x3f));
        put_byte(decoder, 0x80 | (code & 0x3f));
    }
}

/* At a backslash and a u; two of them make a character beyond 16 bits. */
static bool take_unicode(struct decoder *decoder) {
    int code = hex4(decoder, decoder->at + 2);
    size_t size = 6;
    if (code < 0 || (code & 0xfc00) == 0xdc00) {
        return false;
    }
    if ((code & 0xf800) == 0xd800) {
        bool is_pair =
            char_at(decoder, decoder->at + 6) == '\\' && char_at(decoder, decoder->at + 7) == 'u';
        int low = is_pair ? hex4(decoder, decoder->at + 8) : -1;
        if (low < 0 || (low & 0xfc00) != 0xdc00) {
            return false;
        }
        code = 0x10000 + ((code & 0x3ff) << 10 | (low & 0x3ff));
        size = 12;
    }
    put_utf8(decoder, (unsigned)code);
    decoder->at += size;
    return true;
}

static bool take_escape(struct decoder *decoder) {
    static const char letters[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    char letter = char_at(decoder, decoder->at + 1);
    if (letter == 'u') {
        if (!take_unicode(decoder)) {
            fail(decoder, "invalid unicode escape code");
            return false;
        }
        return true;
    }
    const char *found = letter == '\0' ? NULL : strchr(letters, letter);
    if (found == NULL) {
        fail(decoder, "invalid escape code");
        return false;
    }
    put_byte(decoder, (unsigned char)meanings[found - letters]);
    decoder->at += 2;
    return true;
}

static void take_string(struct decoder *decoder) {
    decoder->string_size = 0;
    decoder->at++;
    for (;;) {
        char c = char_at(decoder, decoder->at);
        if (c == '"') {
            break;
        }
        if (c == '\0') {
            fail(decoder, "unexpected end of string");
            return;
        }
        if (c == '\\') {
            if (!take_escape(decoder)) {
                return;
            }
        } else {
            put_byte(decoder, (unsigned char)c);
            decoder->at++;
        }
    }
    decoder->at++;
    decoder->type = TOKEN_STRING;
    redis_script_charge(decoder->lua, (decoder->at - decoder->start) / 4);
}

/* --- Numbers. --- */

static bool has_word(const struct decoder *decoder, size_t at, const char *word) {
    for (; *word != '\0'; word++, at++) {
        if ((char_at(decoder, at) | 0x20) != *word) {
            return false;
        }
    }
    return true;
}

/* Whether strtod() would take what JSON does not have. */
static bool is_foreign_number(const struct decoder *decoder) {
    size_t at = decoder->at;
    if (char_at(decoder, at) == '+') {
        return true;
    }
    at += char_at(decoder, at) == '-';
    char first = char_at(decoder, at);
    if (first == '0') {
        char second = char_at(decoder, at + 1);
        return (second | 0x20) == 'x' || (second >= '0' && second <= '9');
    }
    return first > '9' && (has_word(decoder, at, "inf") || has_word(decoder, at, "nan"));
}

static void take_number(struct decoder *decoder) {
    const char *from = decoder->text + decoder->at;
    char *end;
    decoder->number = strtod(from, &end);
    if (end == from) {
        fail(decoder, "invalid number");
        return;
    }
    decoder->at += (size_t)(end - from);
    decoder->type = TOKEN_NUMBER;
    redis_script_charge(decoder->lua, (decoder->at - decoder->start));
}

/* --- Tokens. --- */

static bool take_word(struct decoder *decoder, const char *word, enum token_type type) {
    size_t size = strlen(word);
    if (decoder->size - decoder->at < size ||
        memcmp(decoder->text + decoder->at, word, size) != 0) {
        return false;
    }
    decoder->at += size;
    decoder->type = type;
    decoder->boolean = word[0] == 't';
    return true;
}

static void take_other(struct decoder *decoder) {
    char c = char_at(decoder, decoder->at);
    bool allows_foreign = decoder->settings->decode_invalid;
    if (c == '-' || (c >= '0' && c <= '9')) {
        if (!allows_foreign && is_foreign_number(decoder)) {
            fail(decoder, "invalid number");
        } else {
            take_number(decoder);
        }
        return;
    }
    bool is_word = take_word(decoder, "true", TOKEN_BOOLEAN) ||
                   take_word(decoder, "false", TOKEN_BOOLEAN) ||
                   take_word(decoder, "null", TOKEN_NULL);
    if (is_word) {
        return;
    }
    if (allows_foreign && c != '\0' && strchr("+iInN", c) != NULL && is_foreign_number(decoder)) {
        take_number(decoder);
        return;
    }
    fail(decoder, "invalid token");
}

static void next_token(struct decoder *decoder) {
    static const char marks[] = "{}[]:,";
    static const enum token_type types[] = {TOKEN_OBJECT_BEGIN, TOKEN_OBJECT_END, TOKEN_ARRAY_BEGIN,
                                            TOKEN_ARRAY_END,    TOKEN_COLON,      TOKEN_COMMA};
    size_t from = decoder->at;
    while (decoder->at < decoder->size && decoder->text[decoder->at] != '\0' &&
           strchr(" \t\n\r", decoder->text[decoder->at]) != NULL) {
        decoder->at++;
    }
    redis_script_charge(decoder->lua, 2 + (decoder->at - from) / 4);
    decoder->start = decoder->at;
    char c = char_at(decoder, decoder->at);
    if (c == '\0') {
        decoder->type = TOKEN_END;
        return;
    }
    const char *mark = strchr(marks, c);
    if (mark != NULL) {
        decoder->at++;
        decoder->type = types[mark - marks];
    } else if (c == '"') {
        take_string(decoder);
    } else {
        take_other(decoder);
    }
}

/* --- Values. --- */

static void refuse(struct decoder *decoder, const char *expected) {
    const char *found = decoder->type == TOKEN_ERROR ? decoder->error : token_names[decoder->type];
    luaL_error(decoder->lua, "Expected %s but found %s at character %d", expected, found,
               (int)decoder->start + 1);
}

static void push_value(struct decoder *decoder);

static void begin_nested(struct decoder *decoder) {
    decoder->depth++;
    if (decoder->depth > decoder->settings->decode_depth ||
        decoder->depth > REDIS_SCRIPT_JSON_DEPTH_MAX || !lua_checkstack(decoder->lua, 3)) {
        luaL_error(decoder->lua, "Found too many nested data structures (%d) at character %d",
                   decoder->depth, (int)decoder->at);
    }
}

static void push_object(struct decoder *decoder) {
    begin_nested(decoder);
    lua_newtable(decoder->lua);
    next_token(decoder);
    if (decoder->type == TOKEN_OBJECT_END) {
        decoder->depth--;
        return;
    }
    for (;;) {
        if (decoder->type != TOKEN_STRING) {
            refuse(decoder, "object key string");
        }
        redis_script_push_string(decoder->lua, bytes_of(decoder->string, decoder->string_size));
        next_token(decoder);
        if (decoder->type != TOKEN_COLON) {
            refuse(decoder, "colon");
        }
        next_token(decoder);
        push_value(decoder);
        lua_rawset(decoder->lua, -3);
        next_token(decoder);
        if (decoder->type == TOKEN_OBJECT_END) {
            break;
        }
        if (decoder->type != TOKEN_COMMA) {
            refuse(decoder, "comma or object end");
        }
        next_token(decoder);
    }
    decoder->depth--;
}

static void push_array(struct decoder *decoder) {
    begin_nested(decoder);
    lua_newtable(decoder->lua);
    next_token(decoder);
    if (decoder->type == TOKEN_ARRAY_END) {
        decoder->depth--;
        return;
    }
    for (int i = 1;; i++) {
        push_value(decoder);
        lua_rawseti(decoder->lua, -2, i);
        next_token(decoder);
        if (decoder->type == TOKEN_ARRAY_END) {
            break;
        }
        if (decoder->type != TOKEN_COMMA) {
            refuse(decoder, "comma or array end");
        }
        next_token(decoder);
    }
    decoder->depth--;
}

static void push_value(struct decoder *decoder) {
    lua_State *lua = decoder->lua;
    switch (decoder->type) {
    case TOKEN_STRING:
        redis_script_push_string(lua, bytes_of(decoder->string, decoder->string_size));
        break;
    case TOKEN_NUMBER:
        lua_pushnumber(lua, decoder->number);
        break;
    case TOKEN_BOOLEAN:
        lua_pushboolean(lua, decoder->boolean);
        break;
    case TOKEN_OBJECT_BEGIN:
        push_object(decoder);
        break;
    case TOKEN_ARRAY_BEGIN:
        push_array(decoder);
        break;
    case TOKEN_NULL:
        lua_pushlightuserdata(lua, NULL);
        break;
    default:
        refuse(decoder, "value");
    }
}

void redis_script_json_decode(lua_State *lua, const char *text, size_t size,
                              const struct redis_script_json_settings *settings) {
    struct decoder decoder = {.lua = lua, .settings = settings, .text = text, .size = size};
    if (size >= 2 && (text[0] == '\0' || text[1] == '\0')) {
        luaL_error(lua, "JSON parser does not support UTF-16 or UTF-32");
    }
    decoder.string = lua_newuserdata(lua, size + 1);
    next_token(&decoder);
    push_value(&decoder);
    next_token(&decoder);
    if (decoder.type != TOKEN_END) {
        refuse(&decoder, "the end");
    }
}
