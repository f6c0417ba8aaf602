/* The library `bit`: operations on 32 bits, as LuaBitOp has them. */
#include "doors/redis/redis_script_state_rules.h"

#include <lauxlib.h>
#include <lua.h>

/* Any number as 32 bits: rounded to the nearest, then the lowest. Adding this constant moves the
 * integer part of a double into the lowest bits of its fraction. */
static uint32_t bits_of(lua_State *lua, int index) {
    union {
        double number;
        uint64_t bits;
    } value = {.number = luaL_checknumber(lua, index) + 6755399441055744.0};
    return (uint32_t)value.bits;
}

static int give(lua_State *lua, uint32_t bits) {
    lua_pushnumber(lua, (lua_Number)(int32_t)bits);
    return 1;
}

static int bit_tobit(lua_State *lua) {
    return give(lua, bits_of(lua, 1));
}

static int bit_bnot(lua_State *lua) {
    return give(lua, ~bits_of(lua, 1));
}

static int bit_band(lua_State *lua) {
    uint32_t bits = bits_of(lua, 1);
    for (int i = lua_gettop(lua); i > 1; i--) {
        bits &= bits_of(lua, i);
    }
    return give(lua, bits);
}

static int bit_bor(lua_State *lua) {
    uint32_t bits = bits_of(lua, 1);
    for (int i = lua_gettop(lua); i > 1; i--) {
        bits |= bits_of(lua, i);
    }
    return give(lua, bits);
}

static int bit_bxor(lua_State *lua) {
    uint32_t bits = bits_of(lua, 1);
    for (int i = lua_gettop(lua); i > 1; i--) {
        bits ^= bits_of(lua, i);
    }
    return give(lua, bits);
}

/* How far, of which five bits count. */
static uint32_t distance(lua_State *lua) {
    return bits_of(lua, 2) & 31;
}

static uint32_t rotate(uint32_t bits, uint32_t by) {
    return bits << by | bits >> ((32 - by) & 31);
}

static int bit_lshift(lua_State *lua) {
    uint32_t bits = bits_of(lua, 1);
    return give(lua, bits << distance(lua));
}

static int bit_rshift(lua_State *lua) {
    uint32_t bits = bits_of(lua, 1);
    return give(lua, bits >> distance(lua));
}

static int bit_arshift(lua_State *lua) {
    uint32_t bits = bits_of(lua, 1);
    uint32_t by = distance(lua);
    uint32_t sign = (bits & UINT32_C(0x80000000)) != 0 && by > 0 ? ~(UINT32_MAX >> by) : 0;
    return give(lua, bits >> by | sign);
}

static int bit_rol(lua_State *lua) {
    uint32_t bits = bits_of(lua, 1);
    return give(lua, rotate(bits, distance(lua)));
}

static int bit_ror(lua_State *lua) {
    uint32_t bits = bits_of(lua, 1);
    return give(lua, rotate(bits, (32 - distance(lua)) & 31));
}

static int bit_bswap(lua_State *lua) {
    return give(lua, __builtin_bswap32(bits_of(lua, 1)));
}

/* As many digits as asked for, in upper case when the number is negative. */
static int bit_tohex(lua_State *lua) {
    uint32_t bits = bits_of(lua, 1);
    int32_t n = lua_isnone(lua, 2) ? 8 : (int32_t)bits_of(lua, 2);
    const char *digits = n < 0 ? "0123456789ABCDEF" : "0123456789abcdef";
    char text[8];
    if (n < 0) {
        n = n == INT32_MIN ? 8 : -n;
    }
    n = n > 8 ? 8 : n;
    for (int32_t i = n - 1; i >= 0; i--) {
        text[i] = digits[bits & 15];
        bits >>= 4;
    }
    lua_pushlstring(lua, text, (size_t)n);
    return 1;
}

void redis_script_open_bit(lua_State *lua) {
    static const struct redis_script_function functions[] = {
        {"arshift", bit_arshift},
        {"band", bit_band},
        {"bnot", bit_bnot},
        {"bor", bit_bor},
        {"bswap", bit_bswap},
        {"bxor", bit_bxor},
        {"lshift", bit_lshift},
        {"rol", bit_rol},
        {"ror", bit_ror},
        {"rshift", bit_rshift},
        {"tobit", bit_tobit},
        {"tohex", bit_tohex},
        {NULL, NULL},
    };
    redis_script_set_functions(lua, functions);
}
