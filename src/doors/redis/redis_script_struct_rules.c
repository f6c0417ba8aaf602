/* The library `struct`: values as bytes by a format, as Redis has it. */
#include "doors/redis/redis_script_state_rules.h"

#include <lauxlib.h>
#include <lua.h>

enum {
    INTEGER_SIZE_MAX = 32,
    ALIGNMENT_MAX = 8, /* of a bare exclamation mark: that of a double */
};

/* A format as it is read. */
struct format {
    lua_State *lua;
    const char *at;
    bool is_little;
    size_t alignment;
};

static struct format format_begin(lua_State *lua, int index) {
    return (struct format){
        .lua = lua, .at = luaL_checkstring(lua, index), .is_little = true, .alignment = 1};
}

/* The number behind an option, or its default. */
static size_t take_number(struct format *format, size_t otherwise) {
    if (*format->at < '0' || *format->at > '9') {
        return otherwise;
    }
    size_t number = 0;
    while (*format->at >= '0' && *format->at <= '9') {
        redis_script_charge(format->lua, 1);
        if (number > (INT32_MAX - 9) / 10) {
            luaL_error(format->lua, "integral size overflow");
        }
        number = number * 10 + (size_t)(*format->at++ - '0');
    }
    return number;
}

static size_t take_size(struct format *format, char option) {
    size_t size;
    switch (option) {
    case 'B':
    case 'b':
    case 'x':
        return 1;
    case 'H':
    case 'h':
        return 2;
    case 'L':
    case 'l':
    case 'T':
    case 'd':
        return 8;
    case 'f':
        return 4;
    case 'c':
        return take_number(format, 1);
    case 'I':
    case 'i':
        size = take_number(format, 4);
        if (size > INTEGER_SIZE_MAX) {
            luaL_error(format->lua, "integral size %d is larger than limit of %d", (int)size,
                       INTEGER_SIZE_MAX);
        }
        return size;
    default:
        return 0;
    }
}

static size_t padding(const struct format *format, char option, size_t size, size_t total) {
    if (size == 0 || option == 'c') {
        return 0;
    }
    size_t alignment = size > format->alignment ? format->alignment : size;
    return alignment > 1 ? (alignment - (total & (alignment - 1))) & (alignment - 1) : 0;
}

/* Options that change how the next ones are read. */
static void take_control(struct format *format, char option) {
    size_t alignment;
    switch (option) {
    case ' ':
        return;
    case '>':
        format->is_little = false;
        return;
    case '<':
        format->is_little = true;
        return;
    case '!':
        alignment = take_number(format, ALIGNMENT_MAX);
        if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
            luaL_error(format->lua, "alignment %d is not a power of 2", (int)alignment);
        }
        format->alignment = alignment;
        return;
    default: {
        const char *message = lua_pushfstring(format->lua, "invalid format option '%c'", option);
        luaL_argerror(format->lua, 1, message);
    }
    }
}

/* --- pack. --- */

static uint64_t integer_bits(lua_Number number) {
    if (number < 0) {
        return number >= -9223372036854775808.0 ? (uint64_t)(int64_t)number : UINT64_C(1) << 63;
    }
    return number < 18446744073709551616.0 ? (uint64_t)number : 0;
}

static void add_integer(luaL_Buffer *out, const struct format *format, lua_Number number,
                        size_t size) {
    char bytes[INTEGER_SIZE_MAX];
    uint64_t bits = integer_bits(number);
    for (size_t i = 0; i < size; i++) {
        size_t place = format->is_little ? i : size - 1 - i;
        bytes[place] = (char)(bits & 0xff);
        bits >>= 8;
    }
    luaL_addlstring(out, bytes, size);
}

static void add_bits(luaL_Buffer *out, const struct format *format, uint64_t bits, size_t size) {
    char bytes[8];
    for (size_t i = 0; i < size; i++) {
        bytes[format->is_little ? i : size - 1 - i] = (char)(bits >> (8 * i) & 0xff);
    }
    luaL_addlstring(out, bytes, size);
}

static void add_double(luaL_Buffer *out, const struct format *format, double number) {
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    add_bits(out, format, bits, 8);
}

static void add_float(luaL_Buffer *out, const struct format *format, float number) {
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    add_bits(out, format, bits, 4);
}

/* A string of a fixed size, all of it for size 0, or with a zero byte behind it. Returns how many
 * bytes were added. */
static size_t add_text(luaL_Buffer *out, lua_State *lua, int argument, char option, size_t size) {
    size_t given;
    const char *text = luaL_checklstring(lua, argument, &given);
    if (size == 0) {
        size = given;
    }
    luaL_argcheck(lua, given >= size, argument + 1, "string too short"); /* as Redis counts */
    redis_script_charge(lua, size / 16);
    luaL_addlstring(out, text, size);
    if (option == 's') {
        luaL_addchar(out, '\0');
        size++;
    }
    return size;
}

static int struct_pack(lua_State *lua) {
    struct format format = format_begin(lua, 1);
    luaL_Buffer out;
    int argument = 2;
    size_t total = 0;
    lua_pushnil(lua); /* a mark between arguments and the buffer */
    luaL_buffinit(lua, &out);
    while (*format.at != '\0') {
        char option = *format.at++;
        size_t size = take_size(&format, option);
        size_t pad = padding(&format, option, size, total);
        redis_script_charge(lua, 1 + size / 16);
        total += pad + size;
        while (pad-- > 0) {
            luaL_addchar(&out, '\0');
        }
        switch (option) {
        case 'b':
        case 'B':
        case 'h':
        case 'H':
        case 'l':
        case 'L':
        case 'T':
        case 'i':
        case 'I':
            add_integer(&out, &format, luaL_checknumber(lua, argument++), size);
            break;
        case 'x':
            luaL_addchar(&out, '\0');
            break;
        case 'f':
            add_float(&out, &format, (float)luaL_checknumber(lua, argument++));
            break;
        case 'd':
            add_double(&out, &format, luaL_checknumber(lua, argument++));
            break;
        case 'c':
        case 's':
            total += add_text(&out, lua, argument++, option, size) - size;
            break;
        default:
            take_control(&format, option);
        }
    }
    luaL_pushresult(&out);
    return 1;
}

/* --- unpack. --- */

static uint64_t read_bits(const struct format *format, const char *data, size_t size) {
    uint64_t bits = 0;
    for (size_t i = 0; i < size && i < 8; i++) {
        size_t place = format->is_little ? i : size - 1 - i;
        bits |= (uint64_t)(unsigned char)data[place] << (8 * i);
    }
    return bits;
}

static void push_integer(const struct format *format, const char *data, size_t size,
                         bool is_signed) {
    uint64_t bits = read_bits(format, data, size);
    if (!is_signed) {
        lua_pushnumber(format->lua, (lua_Number)bits);
        return;
    }
    if (size > 0 && size < 8) {
        uint64_t sign = UINT64_C(1) << (size * 8 - 1);
        bits = (bits ^ sign) - sign;
    }
    lua_pushnumber(format->lua, (lua_Number)(int64_t)bits);
}

static void push_float(const struct format *format, const char *data, size_t size) {
    uint64_t bits = read_bits(format, data, size);
    if (size == 4) {
        uint32_t low = (uint32_t)bits;
        float number;
        memcpy(&number, &low, sizeof number);
        lua_pushnumber(format->lua, (lua_Number)number);
    } else {
        double number;
        memcpy(&number, &bits, sizeof number);
        lua_pushnumber(format->lua, number);
    }
}

/* Where a text is read from. */
struct source {
    const char *data;
    size_t size;
    size_t at;
    int n; /* values pushed */
};

static void check_left(lua_State *lua, const struct source *source, size_t size) {
    luaL_argcheck(lua, source->at <= source->size && size <= source->size - source->at, 2,
                  "data string too short");
}

/* A string of a fixed size; for size 0 the size is the number that was read before it. */
static size_t push_fixed(lua_State *lua, struct source *source, size_t size) {
    if (size == 0) {
        if (source->n == 0 || !lua_isnumber(lua, -1)) {
            luaL_error(lua, "format 'c0' needs a previous size");
        }
        lua_Number given = lua_tonumber(lua, -1);
        lua_pop(lua, 1);
        source->n--;
        luaL_argcheck(lua, given >= 0 && given <= (lua_Number)(source->size - source->at), 2,
                      "data string too short");
        size = (size_t)given;
    }
    lua_pushlstring(lua, source->data + source->at, size);
    return size;
}

static size_t push_terminated(lua_State *lua, const struct source *source) {
    const char *from = source->data + source->at;
    const char *end = memchr(from, '\0', source->size - source->at);
    if (end == NULL) {
        luaL_error(lua, "unfinished string in data");
    }
    lua_pushlstring(lua, from, (size_t)(end - from));
    return (size_t)(end - from) + 1;
}

static size_t push_option(struct format *format, struct source *source, char option, size_t size) {
    const char *data = source->data + source->at;
    source->n++;
    switch (option) {
    case 'b':
    case 'h':
    case 'l':
    case 'i':
        push_integer(format, data, size, true);
        return size;
    case 'B':
    case 'H':
    case 'L':
    case 'T':
    case 'I':
        push_integer(format, data, size, false);
        return size;
    case 'f':
    case 'd':
        push_float(format, data, size);
        return size;
    case 'c':
        return push_fixed(format->lua, source, size);
    case 's':
        return push_terminated(format->lua, source);
    default:
        source->n--;
        if (option != 'x') {
            take_control(format, option);
        }
        return size;
    }
}

static int struct_unpack(lua_State *lua) {
    struct format format = format_begin(lua, 1);
    struct source source = {.n = 0};
    source.data = luaL_checklstring(lua, 2, &source.size);
    lua_Number position = luaL_optnumber(lua, 3, 1);
    luaL_argcheck(lua, position != 0, 3, "offset must be 1 or greater");
    luaL_argcheck(lua, position >= 1 && position <= (lua_Number)source.size + 1, 2,
                  "data string too short");
    source.at = (size_t)position - 1;
    lua_settop(lua, 2);
    while (*format.at != '\0') {
        char option = *format.at++;
        size_t size = take_size(&format, option);
        redis_script_charge(lua, 1 + size / 16);
        source.at += padding(&format, option, size, source.at);
        check_left(lua, &source, size);
        luaL_checkstack(lua, 2, "too many results");
        source.at += push_option(&format, &source, option, size);
    }
    lua_pushnumber(lua, (lua_Number)source.at + 1);
    return source.n + 1;
}

static int struct_size(lua_State *lua) {
    struct format format = format_begin(lua, 1);
    size_t total = 0;
    while (*format.at != '\0') {
        char option = *format.at++;
        size_t size = take_size(&format, option);
        redis_script_charge(lua, 1);
        total += padding(&format, option, size, total);
        if (option == 's') {
            luaL_argerror(lua, 1, "option 's' has no fixed size");
        } else if (option == 'c' && size == 0) {
            luaL_argerror(lua, 1, "option 'c0' has no fixed size");
        }
        if (strchr("bBhHlLTiIfdcx", option) == NULL) {
            take_control(&format, option);
        }
        total += size;
    }
    lua_pushnumber(lua, (lua_Number)total);
    return 1;
}

void redis_script_open_struct(lua_State *lua) {
    static const struct redis_script_function functions[] = {
        {"pack", struct_pack}, {"size", struct_size}, {"unpack", struct_unpack}, {NULL, NULL}};
    redis_script_set_functions(lua, functions);
}
