/* The libraries of tables and numbers: Lua's own functions, after their work is counted. */
#include "doors/redis/redis_script_state_rules.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <math.h>

enum { BYTES_PER_WORK = 16 };

/* --- Tables. --- */

/* Lua's own function, the first upvalue, in this call: so that its errors name place and function.
 */
static int call_own(lua_State *lua) {
    return lua_tocfunction(lua, lua_upvalueindex(1))(lua);
}

/* The elements that it is asked for, which need not be those of the table's length. What they make
 * may be there already, and then nothing of it is allocated and counted. */
static int table_concat(lua_State *lua) {
    if (lua_istable(lua, 1)) {
        int first = lua_isnoneornil(lua, 3) ? 1 : (int)lua_tointeger(lua, 3);
        int64_t last =
            lua_isnoneornil(lua, 4) ? (int64_t)lua_objlen(lua, 1) : (int)lua_tointeger(lua, 4);
        uint64_t separator = lua_isstring(lua, 2) ? lua_objlen(lua, 2) / BYTES_PER_WORK : 0;
        bool is_text = true;
        for (int64_t i = first; i <= last && is_text; i++) {
            lua_rawgeti(lua, 1, (int)i);
            bool is_number = lua_type(lua, -1) == LUA_TNUMBER;
            is_text = lua_isstring(lua, -1); /* the others are its to refuse */
            uint64_t size = is_text && !is_number ? lua_objlen(lua, -1) : 0;
            lua_pop(lua, 1);
            redis_script_charge(lua, 2 + separator + size / BYTES_PER_WORK);
        }
    }
    return call_own(lua);
}

/* Elements from the position on are moved: appending is cheap. A position is narrowed as Lua does
 * it. insert() goes on below 1, down to whatever it is; remove() does nothing there. */
static int call_for_moves(lua_State *lua) {
    bool is_insert = lua_tointeger(lua, lua_upvalueindex(2)) == 1;
    int position_at_top = is_insert ? 3 : 2;
    if (lua_istable(lua, 1) && lua_gettop(lua) >= position_at_top && lua_isnumber(lua, 2)) {
        int64_t end = (int64_t)lua_objlen(lua, 1) + (is_insert ? 1 : 0);
        int position = (int)lua_tointeger(lua, 2);
        if (position < end && (is_insert || position >= 1)) {
            redis_script_charge(lua, (uint64_t)(end - position));
        }
    }
    return call_own(lua);
}

static int less_than(lua_State *lua) {
    redis_script_charge(lua, redis_script_step_cost());
    lua_pushboolean(lua, lua_lessthan(lua, 1, 2));
    return 1;
}

/* Calls the function that is the first upvalue, a function in C, whose instructions nobody counts.
 */
static int counted_order(lua_State *lua) {
    redis_script_charge(lua, redis_script_step_cost());
    lua_pushvalue(lua, lua_upvalueindex(1));
    lua_insert(lua, 1);
    lua_call(lua, 2, 1);
    return 1;
}

/* Lua's own order of comparisons, each of them counted: it may be quadratic. */
static int table_sort(lua_State *lua) {
    luaL_checktype(lua, 1, LUA_TTABLE);
    redis_script_charge(lua, 1 + lua_objlen(lua, 1));
    if (lua_isnoneornil(lua, 2)) {
        lua_settop(lua, 1);
        lua_pushcfunction(lua, less_than);
    } else {
        luaL_checktype(lua, 2, LUA_TFUNCTION);
        lua_settop(lua, 2);
        if (lua_iscfunction(lua, 2)) {
            lua_pushcclosure(lua, counted_order, 1);
        }
    }
    return call_own(lua);
}

static int table_maxn(lua_State *lua) {
    lua_Number max = 0;
    luaL_checktype(lua, 1, LUA_TTABLE);
    lua_pushnil(lua);
    while (lua_next(lua, 1) != 0) { /* the greatest is the same in any order */
        redis_script_charge(lua, redis_script_step_cost());
        lua_pop(lua, 1);
        if (lua_type(lua, -1) == LUA_TNUMBER && lua_tonumber(lua, -1) > max) {
            max = lua_tonumber(lua, -1);
        }
    }
    lua_pushnumber(lua, max);
    return 1;
}

static int table_foreach(lua_State *lua) {
    luaL_checktype(lua, 1, LUA_TTABLE);
    luaL_checktype(lua, 2, LUA_TFUNCTION);
    lua_pushnil(lua);
    while (redis_script_next(lua, 1) != 0) {
        lua_pushvalue(lua, 2);
        lua_pushvalue(lua, -3);
        lua_pushvalue(lua, -3);
        lua_call(lua, 2, 1);
        if (!lua_isnil(lua, -1)) {
            return 1;
        }
        lua_pop(lua, 2);
    }
    return 0;
}

static int table_foreachi(lua_State *lua) {
    luaL_checktype(lua, 1, LUA_TTABLE);
    luaL_checktype(lua, 2, LUA_TFUNCTION);
    int n = (int)lua_objlen(lua, 1);
    for (int i = 1; i <= n; i++) {
        redis_script_charge(lua, 4);
        lua_pushvalue(lua, 2);
        lua_pushinteger(lua, i);
        lua_rawgeti(lua, 1, i);
        lua_call(lua, 2, 1);
        if (!lua_isnil(lua, -1)) {
            return 1;
        }
        lua_pop(lua, 1);
    }
    return 0;
}

/* Opens one of Lua's own libraries, which becomes the top of the stack. */
static void push_own(lua_State *lua, const char *name, lua_CFunction open) {
    lua_pushcfunction(lua, open);
    lua_pushstring(lua, name);
    lua_call(lua, 1, 0);
    lua_getglobal(lua, name);
}

static void set_counted(lua_State *lua, const char *name, lua_CFunction function) {
    lua_getfield(lua, -1, name);
    lua_pushboolean(lua, 0);
    lua_pushcclosure(lua, function, 2);
    lua_setfield(lua, -3, name);
}

void redis_script_open_table(lua_State *lua) {
    static const struct redis_script_function functions[] = {{"foreach", table_foreach},
                                                             {"foreachi", table_foreachi},
                                                             {"maxn", table_maxn},
                                                             {NULL, NULL}};
    redis_script_set_functions(lua, functions);
    push_own(lua, LUA_TABLIBNAME, luaopen_table);
    set_counted(lua, "concat", table_concat);
    set_counted(lua, "remove", call_for_moves);
    set_counted(lua, "sort", table_sort);
    lua_getfield(lua, -1, "insert");
    lua_pushinteger(lua, 1); /* two arguments append */
    lua_pushcclosure(lua, call_for_moves, 2);
    lua_setfield(lua, -3, "insert");
    lua_getfield(lua, -1, "getn");
    lua_setfield(lua, -3, "getn");
    lua_pop(lua, 1);
}

/* --- Numbers. --- */

/* The generator that Redis uses, of 48 bits; every script begins with the same number. */
static int32_t random_31(struct redis_script_run *run) {
    static const uint64_t mask = (UINT64_C(1) << 48) - 1;
    run->random = (run->random * UINT64_C(0x5deece66d) + 0xb) & mask;
    return (int32_t)(run->random >> 17);
}

static void seed(struct redis_script_run *run, int32_t value) {
    run->random = ((uint64_t)(uint32_t)value << 16) | 0x330e;
}

static int math_random(lua_State *lua) {
    struct redis_script_run *run = redis_script_current();
    lua_Number ratio = (lua_Number)(random_31(run) % INT32_MAX) / (lua_Number)INT32_MAX;
    switch (lua_gettop(lua)) {
    case 0:
        lua_pushnumber(lua, ratio);
        break;
    case 1: {
        int upper = luaL_checkint(lua, 1);
        luaL_argcheck(lua, 1 <= upper, 1, "interval is empty");
        lua_pushnumber(lua, floor(ratio * upper) + 1);
        break;
    }
    case 2: {
        int lower = luaL_checkint(lua, 1);
        int upper = luaL_checkint(lua, 2);
        luaL_argcheck(lua, lower <= upper, 2, "interval is empty");
        lua_pushnumber(lua, floor(ratio * ((lua_Number)upper - lower + 1)) + lower);
        break;
    }
    default:
        return luaL_error(lua, "wrong number of arguments");
    }
    return 1;
}

static int math_randomseed(lua_State *lua) {
    seed(redis_script_current(), (int32_t)luaL_checkint(lua, 1));
    return 0;
}

/* Exact functions, and powers; the others of the C library differ in the last bit from one kind of
 * processor to another. */
void redis_script_open_math(lua_State *lua) {
    static const struct redis_script_function functions[] = {
        {"random", math_random}, {"randomseed", math_randomseed}, {NULL, NULL}};
    static const char *const names[] = {"abs",  "ceil",  "deg", "floor", "fmod", "frexp",
                                        "huge", "ldexp", "max", "min",   "mod",  "modf",
                                        "pi",   "pow",   "rad", "sqrt",  NULL};
    push_own(lua, LUA_MATHLIBNAME, luaopen_math);
    for (size_t i = 0; names[i] != NULL; i++) {
        lua_getfield(lua, -1, names[i]);
        lua_setfield(lua, -3, names[i]);
    }
    lua_pop(lua, 1);
    redis_script_set_functions(lua, functions);
}
