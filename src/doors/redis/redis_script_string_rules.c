/* The library of strings: Lua's own functions where their work is that of making their result, ours
 * where it may be more. */
#include "doors/redis/redis_script_pattern_rules.h"
#include "doors/redis/redis_script_state_rules.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

enum {
    BYTES_PER_WORK = 16,
    RESULTS_PER_WORK = 8 /* bytes or values that are made one by one */
};

/* --- find, match, gmatch. --- */

/* A position as Lua counts it, from 1 or from the end, as an offset within the text. */
static size_t offset_of(lua_Number position, size_t size) {
    lua_Number offset = position < 0 ? (lua_Number)size + position : position - 1;
    if (!(offset > 0)) {
        return 0;
    }
    return offset > (lua_Number)size ? size : (size_t)offset;
}

static int push_plain_find(lua_State *lua, const char *text, size_t size, size_t start) {
    size_t wanted_size;
    const char *wanted = lua_tolstring(lua, 2, &wanted_size);
    redis_script_charge(lua, 1 + (size - start + wanted_size) / BYTES_PER_WORK);
    const char *found = memmem(text + start, size - start, wanted, wanted_size);
    if (found == NULL) {
        lua_pushnil(lua);
        return 1;
    }
    lua_pushinteger(lua, found - text + 1);
    lua_pushinteger(lua, found - text + (ptrdiff_t)wanted_size);
    return 2;
}

static int find_or_match(lua_State *lua, bool is_find) {
    size_t size;
    struct redis_script_match match;
    const char *text = luaL_checklstring(lua, 1, &size);
    const char *pattern = luaL_checkstring(lua, 2);
    size_t start = offset_of(luaL_optnumber(lua, 3, 1), size);
    if (is_find && (lua_toboolean(lua, 4) || strpbrk(pattern, "^$*+?.([%-") == NULL)) {
        return push_plain_find(lua, text, size, start);
    }
    bool is_anchored = *pattern == '^';
    redis_script_match_init(&match, lua, text, size, pattern);
    pattern += is_anchored;
    const char *from = text + start;
    do {
        match.n_captures = 0;
        const char *end = redis_script_match_at(&match, from, pattern);
        if (end != NULL && !is_find) {
            return redis_script_match_push_all(&match, from, end);
        }
        if (end != NULL) {
            lua_pushinteger(lua, from - text + 1);
            lua_pushinteger(lua, end - text);
            return 2 + redis_script_match_push_all(&match, NULL, NULL);
        }
    } while (from++ < match.text_end && !is_anchored);
    lua_pushnil(lua);
    return 1;
}

static int string_find(lua_State *lua) {
    return find_or_match(lua, true);
}

static int string_match(lua_State *lua) {
    return find_or_match(lua, false);
}

/* Upvalues: the text, the pattern, the offset to go on from. */
static int next_match(lua_State *lua) {
    size_t size;
    struct redis_script_match match;
    const char *text = lua_tolstring(lua, lua_upvalueindex(1), &size);
    const char *pattern = lua_tostring(lua, lua_upvalueindex(2));
    size_t start = (size_t)lua_tonumber(lua, lua_upvalueindex(3));
    redis_script_match_init(&match, lua, text, size, pattern);
    for (; start <= size; start++) {
        const char *from = text + start;
        match.n_captures = 0;
        const char *end = redis_script_match_at(&match, from, pattern);
        if (end != NULL) {
            ptrdiff_t next = end - text + (end == from); /* an empty match moves on */
            lua_pushnumber(lua, (lua_Number)next);
            lua_replace(lua, lua_upvalueindex(3));
            return redis_script_match_push_all(&match, from, end);
        }
    }
    return 0;
}

static int string_gmatch(lua_State *lua) {
    luaL_checkstring(lua, 1);
    luaL_checkstring(lua, 2);
    lua_settop(lua, 2);
    lua_pushinteger(lua, 0);
    lua_pushcclosure(lua, next_match, 3);
    return 1;
}

/* --- gsub. --- */

/* The replacement as a text in which %0 to %9 stand for captures. */
static void add_text(struct redis_script_match *match, luaL_Buffer *out, const char *from,
                     const char *end) {
    size_t size;
    const char *text = lua_tolstring(match->lua, 3, &size);
    redis_script_charge(match->lua, 1 + size / BYTES_PER_WORK);
    for (size_t i = 0; i < size; i++) {
        if (text[i] != '%') {
            luaL_addchar(out, text[i]);
            continue;
        }
        i++; /* a percent sign at the end is followed by the zero byte that ends the text */
        if (text[i] < '0' || text[i] > '9') {
            luaL_addchar(out, text[i]);
        } else if (text[i] == '0') {
            luaL_addlstring(out, from, (size_t)(end - from));
        } else {
            redis_script_match_push(match, text[i] - '1', from, end);
            luaL_addvalue(out);
        }
    }
}

static void add_replacement(struct redis_script_match *match, luaL_Buffer *out, const char *from,
                            const char *end) {
    lua_State *lua = match->lua;
    switch (lua_type(lua, 3)) {
    case LUA_TNUMBER:
    case LUA_TSTRING:
        add_text(match, out, from, end);
        return;
    case LUA_TFUNCTION: {
        lua_pushvalue(lua, 3);
        int n = redis_script_match_push_all(match, from, end);
        lua_call(lua, n, 1);
        break;
    }
    default:
        redis_script_match_push(match, 0, from, end);
        lua_gettable(lua, 3);
    }
    if (!lua_toboolean(lua, -1)) {
        lua_pop(lua, 1);
        lua_pushlstring(lua, from, (size_t)(end - from)); /* stays as it is */
    } else if (!lua_isstring(lua, -1)) {
        luaL_error(lua, "invalid replacement value (a %s)", luaL_typename(lua, -1));
    }
    luaL_addvalue(out);
}

static int string_gsub(lua_State *lua) {
    size_t size;
    struct redis_script_match match;
    luaL_Buffer out;
    const char *text = luaL_checklstring(lua, 1, &size);
    const char *pattern = luaL_checkstring(lua, 2);
    int type = lua_type(lua, 3);
    lua_Number n_max = luaL_optnumber(lua, 4, (lua_Number)size + 1);
    luaL_argcheck(lua,
                  type == LUA_TNUMBER || type == LUA_TSTRING || type == LUA_TFUNCTION ||
                      type == LUA_TTABLE,
                  3, "string/function/table expected");
    bool is_anchored = *pattern == '^';
    redis_script_match_init(&match, lua, text, size, pattern);
    pattern += is_anchored;
    luaL_buffinit(lua, &out);
    const char *from = text;
    lua_Integer n = 0;
    while ((lua_Number)n < n_max) {
        match.n_captures = 0;
        const char *end = redis_script_match_at(&match, from, pattern);
        if (end != NULL) {
            n++;
            add_replacement(&match, &out, from, end);
        }
        if (end != NULL && end > from) {
            from = end;
        } else if (from < match.text_end) {
            luaL_addchar(&out, *from);
            from++;
        } else {
            break;
        }
        if (is_anchored) {
            break;
        }
    }
    luaL_addlstring(&out, from, (size_t)(match.text_end - from));
    luaL_pushresult(&out);
    lua_pushinteger(lua, n);
    return 2;
}

/* --- rep. --- */

static int string_rep(lua_State *lua) {
    size_t size;
    const char *text = luaL_checklstring(lua, 1, &size);
    lua_Number n = luaL_checknumber(lua, 2);
    luaL_Buffer out;
    if (!(n >= 1) || size == 0) {
        lua_pushliteral(lua, "");
        return 1;
    }
    if ((lua_Number)size * n > (lua_Number)redis_script_current()->limits.memory) {
        return redis_script_stop(lua, STATUS_REQUEST_TOO_LARGE);
    }
    size_t count = (size_t)n;
    redis_script_charge(lua, 1 + count / 4 + size * count / BYTES_PER_WORK);
    luaL_buffinit(lua, &out);
    while (count-- > 0) {
        luaL_addlstring(&out, text, size);
    }
    luaL_pushresult(&out);
    return 1;
}

/* --- Lua's own. --- */

/* Lua's own function is the first upvalue. What it makes may be there already, and then nothing of
 * it is allocated and counted. The second upvalue is whether it goes through all its arguments,
 * also when it fails then. */
static int call_own(lua_State *lua) {
    bool takes_all = lua_toboolean(lua, lua_upvalueindex(2));
    uint64_t given = 0;
    for (int i = 1; takes_all && i <= lua_gettop(lua); i++) {
        given += lua_type(lua, i) == LUA_TSTRING ? lua_objlen(lua, i) : RESULTS_PER_WORK;
    }
    redis_script_charge(lua, given / RESULTS_PER_WORK);
    int n = lua_tocfunction(lua, lua_upvalueindex(1))(lua);
    uint64_t made = n == 1 && lua_type(lua, -1) == LUA_TSTRING ? lua_objlen(lua, -1) : (uint64_t)n;
    redis_script_charge(lua, (made > given ? made - given : 0) / RESULTS_PER_WORK);
    return n;
}

void redis_script_open_string(lua_State *lua) {
    static const struct redis_script_function functions[] = {
        {"find", string_find}, {"gfind", string_gmatch}, {"gmatch", string_gmatch},
        {"gsub", string_gsub}, {"match", string_match},  {"rep", string_rep},
        {NULL, NULL}};
    static const struct {
        const char *name;
        bool is_cheap;
        bool takes_all;
    } own[] = {{"byte", false, false}, {"char", false, true},  {"format", false, true},
               {"len", true, false},   {"lower", false, true}, {"reverse", false, true},
               {"sub", true, false},   {"upper", false, true}};
    lua_pushcfunction(lua, luaopen_string);
    lua_pushliteral(lua, LUA_STRLIBNAME);
    lua_call(lua, 1, 0);
    lua_getglobal(lua, LUA_STRLIBNAME);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        lua_getfield(lua, -1, own[i].name);
        if (!own[i].is_cheap) {
            lua_pushboolean(lua, own[i].takes_all);
            lua_pushcclosure(lua, call_own, 2);
        }
        lua_setfield(lua, -3, own[i].name);
    }
    lua_pop(lua, 1);
    redis_script_set_functions(lua, functions);
    lua_pushliteral(lua, ""); /* the methods of strings are these functions, not Lua's */
    lua_getmetatable(lua, -1);
    lua_pushvalue(lua, -3);
    lua_setfield(lua, -2, "__index");
    lua_pop(lua, 2);
}
