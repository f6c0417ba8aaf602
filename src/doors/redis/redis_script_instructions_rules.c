/*
 * What Lua calls within one instruction, where no hook counts, and whose work has no bound of its
 * own. The build renames these calls in a copy of the library (meson.build), so that they come
 * here. No error is raised here: when there is no more work to be had, each does nothing, says
 * anything, and the run ends at the next hook, call of a library or allocation, on every replica
 * alike.
 */
#include "doors/redis/redis_script_state_rules.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h> /* vsnprintf */
#include <stdlib.h>

enum {
    COMPARED_PER_WORK = 256, /* bytes that are equal */
    DIGITS_PER_WORK = 4,
    NUMBER_COST = 8,        /* of the text of a number, … */
    EXPONENT_PER_WORK = 16, /* … which takes longer when it is very large or very small */
    FORMAT_COST = 32,       /* of an item of string.format(), … */
    TEXT_PER_WORK = 2,      /* … whose text may be long */
    TEXT_MAX = 512,         /* the longest that Lua has room for */
    BITS_PER_WORK = 8,      /* of a remainder, which is made bit by bit */
    KEYS_PER_WORK = 4,
    LENGTH_SHORT = 64,
    ELEMENTS_PER_WORK = 8, /* that are gone through one by one */
    LUA_INDEX_MAX = INT32_MAX - 2,
    UPVALUE_COST = 16, /* a variable is sought among those that closures share, of 200 at most */
};

/* Lua's own, under their names in its source. */
const void *luaT_gettm(void *events, int event, void *name);
const void *luaT_gettmbyobj(lua_State *lua, const void *object, int event);
void *luaF_findupval(lua_State *lua, void *level);
int luaH_getn(void *table);
const void *luaH_getnum(void *table, int key);
int luaO_rawequalObj(const void *left, const void *right);
extern const char luaO_nilobject_[]; /* what they give for a key that is not there */

/* What it calls instead of them and of the C library. */
int redis_script_lua_strcoll(const char *left, const char *right);
double redis_script_lua_strtod(const char *text, char **out_end);
int redis_script_lua_number(char *to, int flag, size_t size, const char *format, ...);
int redis_script_lua_format(char *to, int flag, size_t size, const char *format, ...);
double redis_script_lua_fmod(double number, double divisor);
const void *redis_script_lua_gettm(void *events, int event, void *name);
const void *redis_script_lua_gettmbyobj(lua_State *lua, const void *object, int event);
void *redis_script_lua_findupval(lua_State *lua, void *level);
int redis_script_lua_getn(void *table);
int redis_script_lua_equal(const void *left, const void *right);

static size_t array_size_offset; /* within a table of Lua's */

/* Once for each piece between zero bytes. As in the C locale, which the server never leaves. */
int redis_script_lua_strcoll(const char *left, const char *right) {
    for (;;) {
        if (!redis_script_count(1)) {
            return 1;
        }
        int order = strncmp(left, right, COMPARED_PER_WORK);
        if (order != 0 || strnlen(left, COMPARED_PER_WORK) < COMPARED_PER_WORK) {
            return order;
        }
        left += COMPARED_PER_WORK;
        right += COMPARED_PER_WORK;
    }
}

/* Of a string in arithmetic. What is behind the number is counted as well: Lua skips it. */
double redis_script_lua_strtod(const char *text, char **out_end) {
    if (!redis_script_count(1) || !redis_script_count(strlen(text) / DIGITS_PER_WORK)) {
        *out_end = (char *)text;
        return 0;
    }
    return strtod(text, out_end);
}

/* Of what is no finite number, the C library may say anything. */
static int exponent_of(double number) {
    int exponent = 0;
    if (isfinite(number)) {
        frexp(number, &exponent);
    }
    return exponent;
}

static uint64_t number_cost(double number) {
    return NUMBER_COST + (uint64_t)abs(exponent_of(number)) / EXPONENT_PER_WORK;
}

/* As __sprintf_chk(), of a number that becomes a string. */
int redis_script_lua_number(char *to, int flag, size_t size, const char *format, ...) {
    va_list arguments;
    (void)flag;
    to[0] = '\0';
    va_start(arguments, format);
    double number = va_arg(arguments, double);
    va_end(arguments);
    return redis_script_count(number_cost(number)) ? snprintf(to, size, format, number) : 0;
}

/* … of an item of string.format(). */
int redis_script_lua_format(char *to, int flag, size_t size, const char *format, ...) {
    va_list arguments;
    (void)flag;
    to[0] = '\0';
    if (!redis_script_count(FORMAT_COST)) {
        return 0;
    }
    va_start(arguments, format);
    int written = vsnprintf(to, size < TEXT_MAX ? size : TEXT_MAX, format, arguments);
    va_end(arguments);
    redis_script_count((uint64_t)written / TEXT_PER_WORK);
    return written;
}

double redis_script_lua_fmod(double number, double divisor) {
    int bits = exponent_of(number) - exponent_of(divisor);
    uint64_t work = bits > 0 ? (uint64_t)bits / BITS_PER_WORK : 0;
    return redis_script_count(work) ? fmod(number, divisor) : 0;
}

/* One step along metatables, of which one instruction takes up to a hundred. Each looks into a
 * table, whose keys may have been chosen to collide. */
const void *redis_script_lua_gettm(void *events, int event, void *name) {
    if (!redis_script_is_of_globals(events) && !redis_script_count(redis_script_step_cost())) {
        return NULL;
    }
    return luaT_gettm(events, event, name);
}

/* The same of what is no table. Lua takes what it gets for a value, and raises an error for nil. */
const void *redis_script_lua_gettmbyobj(lua_State *lua, const void *object, int event) {
    if (!redis_script_count(redis_script_step_cost())) {
        return luaO_nilobject_;
    }
    return luaT_gettmbyobj(lua, object, event);
}

void *redis_script_lua_findupval(lua_State *lua, void *level) {
    redis_script_count(UPVALUE_COST);
    return luaF_findupval(lua, level);
}

/* Lua's headers do not say where a table keeps the size of its array. */
void redis_script_find_layout(lua_State *lua) {
    enum { EXAMPLES = 3, TABLE_SIZE = 64, FIRST = 11, STEP = 13 };
    const char *tables[EXAMPLES];
    for (int i = 0; i < EXAMPLES; i++) {
        lua_createtable(lua, FIRST + i * STEP, 0);
        tables[i] = lua_topointer(lua, -1);
    }
    bool is_found = false;
    for (size_t at = 0; !is_found && at < TABLE_SIZE; at += sizeof(int)) {
        is_found = true;
        for (int i = 0; i < EXAMPLES; i++) {
            int size;
            memcpy(&size, tables[i] + at, sizeof size);
            is_found = is_found && size == FIRST + i * STEP;
        }
        array_size_offset = at;
    }
    assert(is_found);
    lua_pop(lua, EXAMPLES);
}

/* Behind the array Lua doubles an index until it finds nothing, then halves. When there is always
 * something, it goes through all elements instead. */
static bool goes_through_all(void *table) {
    int array_size;
    memcpy(&array_size, (const char *)table + array_size_offset, sizeof array_size);
    for (int64_t i = (int64_t)array_size + 1; i <= LUA_INDEX_MAX; i *= 2) {
        if (luaH_getnum(table, (int)i) == luaO_nilobject_) {
            return false;
        }
    }
    return true;
}

int redis_script_lua_getn(void *table) {
    int n = luaH_getn(table);
    if (n > LENGTH_SHORT && goes_through_all(table)) {
        redis_script_count((uint64_t)n / ELEMENTS_PER_WORK);
    }
    return n;
}

/* Keys of a table that collide, and are neither strings nor whole numbers, one after the other. */
int redis_script_lua_equal(const void *left, const void *right) {
    struct redis_script_counters *counters = redis_script_current()->counters;
    redis_script_count(++counters->n_compared % KEYS_PER_WORK == 0);
    return luaO_rawequalObj(left, right);
}
