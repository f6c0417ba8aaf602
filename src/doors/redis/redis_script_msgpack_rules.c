/* The library `cmsgpack`: MessagePack, as Redis has it. */
#include "doors/redis/redis_script_state_rules.h"
#include "doors/redis/redis_script_text_rules.h"

#include <lauxlib.h>
#include <lua.h>
#include <math.h>

enum {
    PACK_DEPTH_MAX = 16, /* deeper tables are nil, as in Redis */
    UNPACK_DEPTH_MAX = 1000,
};

/* --- pack. --- */

/* A first byte and a number behind it, highest byte first. */
static void add_tagged(struct redis_script_text *out, unsigned tag, uint64_t bits, size_t size) {
    char bytes[9] = {(char)tag};
    for (size_t i = 0; i < size; i++) {
        bytes[1 + i] = (char)(bits >> (8 * (size - 1 - i)) & 0xff);
    }
    redis_script_text_add(out, bytes, 1 + size);
}

static void add_integer(struct redis_script_text *out, int64_t number) {
    if (number >= 0) {
        uint64_t bits = (uint64_t)number;
        if (bits <= 127) {
            add_tagged(out, (unsigned)bits, 0, 0);
        } else if (bits <= UINT8_MAX) {
            add_tagged(out, 0xcc, bits, 1);
        } else if (bits <= UINT16_MAX) {
            add_tagged(out, 0xcd, bits, 2);
        } else if (bits <= UINT32_MAX) {
            add_tagged(out, 0xce, bits, 4);
        } else {
            add_tagged(out, 0xcf, bits, 8);
        }
    } else if (number >= -32) {
        add_tagged(out, (unsigned)(number & 0xff), 0, 0);
    } else if (number >= INT8_MIN) {
        add_tagged(out, 0xd0, (uint64_t)number, 1);
    } else if (number >= INT16_MIN) {
        add_tagged(out, 0xd1, (uint64_t)number, 2);
    } else if (number >= INT32_MIN) {
        add_tagged(out, 0xd2, (uint64_t)number, 4);
    } else {
        add_tagged(out, 0xd3, (uint64_t)number, 8);
    }
}

static void add_number(struct redis_script_text *out, lua_Number number) {
    bool is_integer = number >= -9223372036854775808.0 && number < 9223372036854775808.0 &&
                      floor(number) == number;
    if (is_integer) {
        add_integer(out, (int64_t)number);
        return;
    }
    bool is_small = fabs(number) <= 3.4028234663852886e38 || isinf(number);
    float single = is_small ? (float)number : 0;
    if (is_small && (double)single == number) {
        uint32_t bits;
        memcpy(&bits, &single, sizeof bits);
        add_tagged(out, 0xca, bits, 4);
        return;
    }
    uint64_t bits = UINT64_C(0x7ff8000000000000); /* one way to say that it is no number */
    if (!isnan(number)) {
        memcpy(&bits, &number, sizeof bits);
    }
    add_tagged(out, 0xcb, bits, 8);
}

static void add_string(struct redis_script_text *out, int index) {
    size_t size;
    const char *text = lua_tolstring(out->lua, index, &size);
    redis_script_charge(out->lua, size / 16);
    if (size < 32) {
        add_tagged(out, 0xa0 | (unsigned)size, 0, 0);
    } else if (size <= UINT8_MAX) {
        add_tagged(out, 0xd9, size, 1);
    } else if (size <= UINT16_MAX) {
        add_tagged(out, 0xda, size, 2);
    } else {
        add_tagged(out, 0xdb, size, 4);
    }
    redis_script_text_add(out, text, size);
}

static void add_header(struct redis_script_text *out, unsigned tag, unsigned tag_16, size_t n) {
    if (n <= 15) {
        add_tagged(out, tag | (unsigned)n, 0, 0);
    } else if (n <= UINT16_MAX) {
        add_tagged(out, tag_16, n, 2);
    } else {
        add_tagged(out, tag_16 + 1, n, 4);
    }
}

/* How many pairs the table at the top of the stack has, and whether their keys are 1 to n. */
static size_t count_pairs(lua_State *lua, bool *out_is_array) {
    size_t n = 0;
    lua_Number max = 0;
    *out_is_array = true;
    lua_pushnil(lua);
    while (redis_script_next(lua, -2) != 0) {
        lua_pop(lua, 1);
        n++;
        lua_Number key = lua_tonumber(lua, -1);
        if (lua_type(lua, -1) != LUA_TNUMBER || !(key > 0) || floor(key) != key) {
            *out_is_array = false;
        } else {
            max = key > max ? key : max;
        }
    }
    *out_is_array = *out_is_array && max == (lua_Number)n;
    return n;
}

static void add_value(struct redis_script_text *out, int depth);

static void add_table(struct redis_script_text *out, int depth) {
    lua_State *lua = out->lua;
    bool is_array;
    size_t n = count_pairs(lua, &is_array);
    if (is_array) {
        add_header(out, 0x90, 0xdc, n);
        for (size_t i = 1; i <= n; i++) {
            lua_rawgeti(lua, -1, (int)i);
            add_value(out, depth + 1);
        }
        return;
    }
    add_header(out, 0x80, 0xde, n);
    lua_pushnil(lua);
    while (redis_script_next(lua, -2) != 0) {
        lua_pushvalue(lua, -2);
        add_value(out, depth + 1);
        add_value(out, depth + 1);
    }
}

/* Appends the value at the top of the stack and pops it. */
static void add_value(struct redis_script_text *out, int depth) {
    lua_State *lua = out->lua;
    redis_script_charge(lua, 1);
    luaL_checkstack(lua, 5, "too deep");
    int type = lua_type(lua, -1);
    if (type == LUA_TSTRING) {
        add_string(out, -1);
    } else if (type == LUA_TBOOLEAN) {
        add_tagged(out, lua_toboolean(lua, -1) ? 0xc3 : 0xc2, 0, 0);
    } else if (type == LUA_TNUMBER) {
        add_number(out, lua_tonumber(lua, -1));
    } else if (type == LUA_TTABLE && depth < PACK_DEPTH_MAX) {
        add_table(out, depth);
    } else {
        add_tagged(out, 0xc0, 0, 0);
    }
    lua_pop(lua, 1);
}

static int msgpack_pack(lua_State *lua) {
    struct redis_script_text out;
    int n = lua_gettop(lua);
    if (n == 0) {
        return luaL_argerror(lua, 0, "MessagePack pack needs input.");
    }
    redis_script_text_init(&out, lua);
    for (int i = 1; i <= n; i++) {
        lua_pushvalue(lua, i);
        add_value(&out, 0);
    }
    lua_pushlstring(lua, out.data, out.size);
    return 1;
}

/* --- unpack. --- */

struct source {
    lua_State *lua;
    const unsigned char *data;
    size_t left;
    int depth;
};

static const unsigned char *take(struct source *source, size_t size) {
    if (source->left < size) {
        luaL_error(source->lua, "Missing bytes in input.");
    }
    const unsigned char *data = source->data;
    source->data += size;
    source->left -= size;
    return data;
}

static uint64_t take_bits(struct source *source, size_t size) {
    const unsigned char *bytes = take(source, size);
    uint64_t bits = 0;
    for (size_t i = 0; i < size; i++) {
        bits = bits << 8 | bytes[i];
    }
    return bits;
}

static void push_string(struct source *source, size_t size) {
    const unsigned char *data = take(source, size);
    redis_script_charge(source->lua, size / 16);
    redis_script_push_string(source->lua, bytes_of(data, size));
}

static void push_value(struct source *source);

static void push_array(struct source *source, size_t n) {
    lua_newtable(source->lua);
    for (size_t i = 1; i <= n; i++) {
        push_value(source);
        lua_rawseti(source->lua, -2, (int)i);
    }
}

static void push_map(struct source *source, size_t n) {
    lua_newtable(source->lua);
    for (size_t i = 0; i < n; i++) {
        push_value(source);
        push_value(source);
        lua_settable(source->lua, -3);
    }
}

static void push_signed(struct source *source, size_t size) {
    uint64_t bits = take_bits(source, size);
    uint64_t sign = UINT64_C(1) << (8 * size - 1);
    lua_pushnumber(source->lua, (lua_Number)(int64_t)((bits ^ sign) - sign));
}

static void push_float(struct source *source) {
    uint32_t bits = (uint32_t)take_bits(source, 4);
    float number;
    memcpy(&number, &bits, sizeof number);
    lua_pushnumber(source->lua, (lua_Number)number);
}

static void push_double(struct source *source) {
    uint64_t bits = take_bits(source, 8);
    double number;
    memcpy(&number, &bits, sizeof number);
    lua_pushnumber(source->lua, number);
}

/* Tags from 0xc0 to 0xdf. */
static void push_tagged(struct source *source, unsigned tag) {
    lua_State *lua = source->lua;
    switch (tag) {
    case 0xc0:
        lua_pushnil(lua);
        break;
    case 0xc2:
    case 0xc3:
        lua_pushboolean(lua, tag == 0xc3);
        break;
    case 0xca:
        push_float(source);
        break;
    case 0xcb:
        push_double(source);
        break;
    case 0xcc:
    case 0xcd:
    case 0xce:
    case 0xcf:
        lua_pushnumber(lua, (lua_Number)take_bits(source, (size_t)1 << (tag - 0xcc)));
        break;
    case 0xd0:
    case 0xd1:
    case 0xd2:
    case 0xd3:
        push_signed(source, (size_t)1 << (tag - 0xd0));
        break;
    case 0xd9:
    case 0xda:
    case 0xdb:
        push_string(source, take_bits(source, (size_t)1 << (tag - 0xd9)));
        break;
    case 0xdc:
    case 0xdd:
        push_array(source, take_bits(source, tag == 0xdc ? 2 : 4));
        break;
    case 0xde:
    case 0xdf:
        push_map(source, take_bits(source, tag == 0xde ? 2 : 4));
        break;
    default:
        luaL_error(lua, "Bad data format in input.");
    }
}

static void push_value(struct source *source) {
    lua_State *lua = source->lua;
    redis_script_charge(lua, 2);
    luaL_checkstack(lua, 4, "too deep");
    if (++source->depth > UNPACK_DEPTH_MAX) {
        luaL_error(lua, "Bad data format in input.");
    }
    unsigned tag = *take(source, 1);
    if (tag <= 0x7f) {
        lua_pushinteger(lua, (lua_Integer)tag);
    } else if (tag >= 0xe0) {
        lua_pushinteger(lua, (lua_Integer)tag - 256);
    } else if (tag <= 0x8f) {
        push_map(source, tag & 15);
    } else if (tag <= 0x9f) {
        push_array(source, tag & 15);
    } else if (tag <= 0xbf) {
        push_string(source, tag & 31);
    } else {
        push_tagged(source, tag);
    }
    source->depth--;
}

/* For a text; what is no number is the least of them. */
static int shown(lua_Number number) {
    return number >= INT32_MAX ? INT32_MAX : number > INT32_MIN ? (int)number : INT32_MIN;
}

/* All values, or at most so many; then first where the rest begins, -1 when there is none. */
static int unpack(lua_State *lua, bool is_all, lua_Number limit, lua_Number offset) {
    size_t size;
    const char *text = luaL_checklstring(lua, 1, &size);
    if (!(offset >= 0) || !(limit >= 0)) { /* or they are no numbers */
        return luaL_error(lua, "Invalid request to unpack with offset of %d and limit of %d.",
                          shown(offset), shown(limit));
    }
    if (offset > (lua_Number)size) {
        return luaL_error(lua, "Start offset %d greater than input length %d.", shown(offset),
                          (int)size);
    }
    struct source source = {.lua = lua,
                            .data = (const unsigned char *)text + (size_t)offset,
                            .left = size - (size_t)offset};
    lua_settop(lua, 1);
    int n = 0;
    while (source.left > 0 && (is_all || n < limit)) {
        push_value(&source);
        n++;
    }
    if (!is_all) {
        lua_pushnumber(lua, source.left == 0 ? -1 : (lua_Number)(size - source.left));
        lua_insert(lua, 2);
        n++;
    }
    return n;
}

static int msgpack_unpack(lua_State *lua) {
    return unpack(lua, true, 0, 0);
}

static int msgpack_unpack_one(lua_State *lua) {
    return unpack(lua, false, 1, luaL_optnumber(lua, 2, 0));
}

static int msgpack_unpack_limit(lua_State *lua) {
    lua_Number limit = luaL_checknumber(lua, 2);
    return unpack(lua, limit == 0, limit, luaL_optnumber(lua, 3, 0));
}

void redis_script_open_msgpack(lua_State *lua) {
    static const struct redis_script_function functions[] = {
        {"pack", msgpack_pack},
        {"unpack", msgpack_unpack},
        {"unpack_limit", msgpack_unpack_limit},
        {"unpack_one", msgpack_unpack_one},
        {NULL, NULL},
    };
    redis_script_set_functions(lua, functions);
    lua_pushliteral(lua, "cmsgpack");
    lua_setfield(lua, -2, "_NAME");
    lua_pushliteral(lua, "lua-cmsgpack 0.4.0");
    lua_setfield(lua, -2, "_VERSION");
}
