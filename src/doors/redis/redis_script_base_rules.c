/* The basic library: Lua's own functions where they are pure and cheap, ours where not. */
#include "doors/redis/redis_script_state_rules.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

enum {
    COROUTINES_MAX = 8, /* inside of each other: each may use as much of the C stack as a script */
    COROUTINE_COST = 256,
    CALL_COST = 64, /* of what catches errors */
};

/* --- Order of tables. --- */

int redis_script_next(lua_State *lua, int index) {
    redis_script_charge(lua, redis_script_step_cost());
    int more = lua_next(lua, index);
    if (more != 0) {
        int type = lua_type(lua, -2);
        bool is_address = type == LUA_TTABLE || type == LUA_TFUNCTION || type == LUA_TTHREAD ||
                          type == LUA_TUSERDATA;
        if (is_address) {
            luaL_error(lua, "a table with a %s as key has no order that is the same everywhere",
                       lua_typename(lua, type));
        }
    }
    return more;
}

static int base_next(lua_State *lua) {
    luaL_checktype(lua, 1, LUA_TTABLE);
    lua_settop(lua, 2);
    if (redis_script_next(lua, 1) != 0) {
        return 2;
    }
    lua_pushnil(lua);
    return 1;
}

static int base_pairs(lua_State *lua) {
    luaL_checktype(lua, 1, LUA_TTABLE);
    lua_pushvalue(lua, lua_upvalueindex(1));
    lua_pushvalue(lua, 1);
    lua_pushnil(lua);
    return 3;
}

/* --- Errors. --- */

/* After something that catches errors. */
static void after_call(lua_State *lua, bool is_fine) {
    redis_script_rethrow(lua);
    if (!is_fine) {
        redis_script_charge_error(lua);
    }
}

/* As Redis has it: an error that is a table with a text gives the text. */
static int base_pcall(lua_State *lua) {
    redis_script_charge(lua, CALL_COST);
    if (lua_gettop(lua) == 0) {
        lua_pushnil(lua); /* which cannot be called */
    }
    int result = lua_pcall(lua, lua_gettop(lua) - 1, LUA_MULTRET, 0);
    after_call(lua, result == 0);
    if (result != 0 && lua_istable(lua, -1)) {
        lua_getfield(lua, -1, "err");
        if (lua_isstring(lua, -1)) {
            lua_replace(lua, -2);
        } else {
            lua_pop(lua, 1);
        }
    }
    lua_pushboolean(lua, result == 0);
    lua_insert(lua, 1);
    return lua_gettop(lua);
}

/* Calls the handler, the first upvalue. The end of a run is raised where instructions are counted,
 * and there a handler would run without being counted: so it is not called for that. */
static int handle_error(lua_State *lua) {
    if (redis_script_current()->stopped != STATUS_OK) {
        return 1;
    }
    redis_script_charge_error(lua);
    lua_pushvalue(lua, lua_upvalueindex(1));
    lua_insert(lua, 1);
    lua_call(lua, lua_gettop(lua) - 1, 1);
    return 1;
}

static int base_xpcall(lua_State *lua) {
    luaL_checkany(lua, 2);
    redis_script_charge(lua, CALL_COST);
    lua_settop(lua, 2);
    lua_pushcclosure(lua, handle_error, 1);
    lua_insert(lua, 1); /* the handler below the function */
    int result = lua_pcall(lua, 0, LUA_MULTRET, 1);
    after_call(lua, result == 0);
    lua_pushboolean(lua, result == 0);
    lua_replace(lua, 1);
    return lua_gettop(lua);
}

/* --- Texts: none tells an address. --- */

static int base_tostring(lua_State *lua) {
    luaL_checkany(lua, 1);
    if (luaL_callmeta(lua, 1, "__tostring")) {
        return 1;
    }
    switch (lua_type(lua, 1)) {
    case LUA_TNUMBER:
        lua_pushstring(lua, lua_tostring(lua, 1));
        break;
    case LUA_TSTRING:
        lua_pushvalue(lua, 1);
        break;
    case LUA_TBOOLEAN:
        lua_pushstring(lua, lua_toboolean(lua, 1) ? "true" : "false");
        break;
    case LUA_TNIL:
        lua_pushliteral(lua, "nil");
        break;
    case LUA_TLIGHTUSERDATA:
        lua_pushliteral(lua, "userdata: (nil)"); /* cjson.null is the only one */
        break;
    default:
        lua_pushfstring(lua, "%s: 0x0", luaL_typename(lua, 1));
    }
    return 1;
}

/* Lua's own is the first upvalue. */
static int base_tonumber(lua_State *lua) {
    enum { DIGITS_PER_WORK = 8 };
    if (lua_type(lua, 1) == LUA_TSTRING) {
        redis_script_charge(lua, lua_objlen(lua, 1) / DIGITS_PER_WORK);
    }
    return lua_tocfunction(lua, lua_upvalueindex(1))(lua);
}

/* --- Source at run time. --- */

static int load_text(lua_State *lua, const char *text, size_t size, const char *name) {
    redis_script_charge_source(lua, bytes_of(text, size));
    redis_script_charge_name(lua, strlen(name));
    if (size > 0 && text[0] == LUA_SIGNATURE[0]) {
        lua_pushnil(lua);
        lua_pushliteral(lua, "precompiled chunks are refused");
        return 2;
    }
    int result = luaL_loadbuffer(lua, text, size, name);
    redis_script_rethrow(lua);
    if (result != 0) {
        lua_pushnil(lua);
        lua_insert(lua, -2);
        return 2;
    }
    return 1;
}

static int base_loadstring(lua_State *lua) {
    size_t size;
    const char *text = luaL_checklstring(lua, 1, &size);
    return load_text(lua, text, size, luaL_optstring(lua, 2, text));
}

/* Takes the pieces together before anything is compiled. */
static int base_load(lua_State *lua) {
    size_t size;
    luaL_checktype(lua, 1, LUA_TFUNCTION);
    const char *name = luaL_optstring(lua, 2, "=(load)");
    lua_settop(lua, 3);
    lua_pushliteral(lua, "");
    for (;;) {
        redis_script_charge(lua, CALL_COST);
        lua_pushvalue(lua, 1);
        lua_call(lua, 0, 1);
        if (lua_isnil(lua, -1)) {
            break;
        }
        if (!lua_isstring(lua, -1)) {
            lua_pushnil(lua);
            lua_pushliteral(lua, "reader function must return a string");
            return 2;
        }
        if (lua_objlen(lua, -1) == 0) {
            break;
        }
        lua_concat(lua, 2);
    }
    lua_pop(lua, 1);
    const char *text = lua_tolstring(lua, -1, &size);
    return load_text(lua, text, size, name);
}

/* --- Many results. --- */

static int base_unpack(lua_State *lua) {
    luaL_checktype(lua, 1, LUA_TTABLE);
    lua_Number from = luaL_optnumber(lua, 2, 1);
    lua_Number to =
        lua_isnoneornil(lua, 3) ? (lua_Number)lua_objlen(lua, 1) : luaL_checknumber(lua, 3);
    if (from > to) {
        return 0;
    }
    bool is_right = from >= INT32_MIN && to <= INT32_MAX && to - from < LUAI_MAXCSTACK;
    if (!is_right || !lua_checkstack(lua, (int)(to - from) + 1)) {
        return luaL_error(lua, "too many results to unpack");
    }
    int first = (int)from;
    int n = (int)to - first + 1;
    redis_script_charge(lua, (uint64_t)n);
    for (int i = 0; i < n; i++) {
        lua_rawgeti(lua, 1, first + i);
    }
    return n;
}

/* --- Coroutines: Lua's own, whose work and depth are counted. --- */

/* Lua's own functions are the first upvalues. */

static void enter_coroutine(lua_State *lua) {
    struct redis_script_run *run = redis_script_current();
    redis_script_charge(lua, COROUTINE_COST);
    if (run->coroutines == COROUTINES_MAX) {
        luaL_error(lua, "C stack overflow");
    }
    run->coroutines++;
}

static int coroutine_resume(lua_State *lua) {
    luaL_argcheck(lua, lua_isthread(lua, 1), 1, "coroutine expected");
    enter_coroutine(lua);
    int n = lua_tocfunction(lua, lua_upvalueindex(1))(lua);
    redis_script_current()->coroutines--;
    after_call(lua, lua_toboolean(lua, -n) != 0);
    return n;
}

/* What coroutine.wrap() gives. */
static int call_wrapped(lua_State *lua) {
    enter_coroutine(lua);
    lua_pushvalue(lua, lua_upvalueindex(1));
    lua_insert(lua, 1);
    int result = lua_pcall(lua, lua_gettop(lua) - 1, LUA_MULTRET, 0);
    redis_script_current()->coroutines--;
    after_call(lua, result == 0);
    if (result == 0) {
        return lua_gettop(lua);
    }
    if (lua_isstring(lua, -1)) {
        luaL_where(lua, 1);
        lua_insert(lua, -2);
        lua_concat(lua, 2);
    }
    return lua_error(lua);
}

static int coroutine_create(lua_State *lua) {
    redis_script_charge(lua, COROUTINE_COST);
    return lua_tocfunction(lua, lua_upvalueindex(1))(lua);
}

static int coroutine_wrap(lua_State *lua) {
    coroutine_create(lua);
    lua_pushcclosure(lua, call_wrapped, 1);
    return 1;
}

static void count_coroutines(lua_State *lua) {
    static const struct redis_script_function counted[] = {
        {"create", coroutine_create}, {"resume", coroutine_resume}, {"wrap", coroutine_wrap}};
    lua_getfield(lua, -1, "coroutine");
    for (size_t i = 0; i < sizeof counted / sizeof counted[0]; i++) {
        lua_getfield(lua, -1, counted[i].name);
        lua_pushcclosure(lua, counted[i].function, 1);
        lua_setfield(lua, -2, counted[i].name);
    }
    lua_pop(lua, 1);
}

/* Copies what Lua's own library has into the table at the top of the stack. */
static void take_own(lua_State *lua) {
    static const char *const names[] = {
        "_VERSION", "assert", "coroutine", "error",        "getmetatable", "ipairs", "rawequal",
        "rawget",   "rawset", "select",    "setmetatable", "tonumber",     "type",   NULL};
    for (size_t i = 0; names[i] != NULL; i++) {
        lua_getglobal(lua, names[i]);
        lua_setfield(lua, -2, names[i]);
    }
}

void redis_script_open_base(lua_State *lua) {
    static const struct redis_script_function functions[] = {
        {"load", base_load},         {"loadstring", base_loadstring},
        {"next", base_next},         {"pcall", base_pcall},
        {"tostring", base_tostring}, {"unpack", base_unpack},
        {"xpcall", base_xpcall},     {NULL, NULL},
    };
    lua_pushcfunction(lua, luaopen_base);
    lua_pushliteral(lua, "");
    lua_call(lua, 1, 0);
    take_own(lua);
    redis_script_set_functions(lua, functions);
    lua_getfield(lua, -1, "next");
    lua_pushcclosure(lua, base_pairs, 1);
    lua_setfield(lua, -2, "pairs");
    lua_getfield(lua, -1, "tonumber");
    lua_pushcclosure(lua, base_tonumber, 1);
    lua_setfield(lua, -2, "tonumber");
    count_coroutines(lua);
}
