/* The library `cjson`: encoding, and the settings. Decoding is in redis_script_json_decode_rules.c.
 */
#include "doors/redis/redis_script_json_rules.h"

#include "doors/redis/redis_script_state_rules.h"
#include "doors/redis/redis_script_text_rules.h"

#include <lauxlib.h>
#include <lua.h>
#include <math.h>
#include <stdio.h> /* snprintf */

enum { NUMBER_SIZE = 40 };

/* --- Encoding. --- */

struct encoder {
    struct redis_script_text text;
    const struct redis_script_json_settings *settings;
};

static int refuse(lua_State *lua, int index, const char *reason) {
    return luaL_error(lua, "Cannot serialise %s: %s", luaL_typename(lua, index), reason);
}

static void add_string(struct encoder *encoder, const char *data, size_t size) {
    static const char digits[] = "0123456789abcdef";
    static const char short_names[] = "btn\0fr"; /* from 8 on */
    struct redis_script_text *text = &encoder->text;
    redis_script_charge(text->lua, 1 + size / 4);
    redis_script_text_add_char(text, '"');
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)data[i];
        if (c == '"' || c == '\\' || c == '/') {
            char escape[2] = {'\\', (char)c};
            redis_script_text_add(text, escape, 2);
        } else if (c >= 8 && c <= 13 && c != 11) {
            char escape[2] = {'\\', short_names[c - 8]};
            redis_script_text_add(text, escape, 2);
        } else if (c < 32 || c == 127) {
            char escape[6] = {'\\', 'u', '0', '0', digits[c >> 4], digits[c & 15]};
            redis_script_text_add(text, escape, 6);
        } else {
            redis_script_text_add_char(text, (char)c);
        }
    }
    redis_script_text_add_char(text, '"');
}

static void add_number(struct encoder *encoder, int index) {
    lua_State *lua = encoder->text.lua;
    char digits[NUMBER_SIZE];
    lua_Number number = lua_tonumber(lua, index);
    if (!isfinite(number)) {
        if (encoder->settings->encode_invalid == REDIS_SCRIPT_JSON_INVALID_ERROR) {
            refuse(lua, index, "must not be NaN or Inf");
        }
        if (encoder->settings->encode_invalid == REDIS_SCRIPT_JSON_INVALID_NULL) {
            redis_script_text_add(&encoder->text, "null", 4);
            return;
        }
        const char *name = isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
        redis_script_text_add(&encoder->text, name, strlen(name));
        return;
    }
    redis_script_charge(lua, REDIS_SCRIPT_NUMBER_COST);
    int size = snprintf(digits, sizeof digits, "%.*g", encoder->settings->precision, number);
    redis_script_text_add(&encoder->text, digits, (size_t)size);
}

/* The length of the table at the top of the stack as an array, or -1: an object. */
static int array_length(struct encoder *encoder) {
    lua_State *lua = encoder->text.lua;
    const struct redis_script_json_settings *settings = encoder->settings;
    lua_Number max = 0;
    int items = 0;
    lua_pushnil(lua);
    while (redis_script_next(lua, -2) != 0) {
        lua_Number key = lua_tonumber(lua, -2);
        bool is_index = lua_type(lua, -2) == LUA_TNUMBER && floor(key) == key && key >= 1;
        if (!is_index) {
            lua_pop(lua, 2);
            return -1;
        }
        max = key > max ? key : max;
        items++;
        lua_pop(lua, 1);
    }
    bool is_sparse = settings->sparse_ratio > 0 &&
                     max > (lua_Number)items * settings->sparse_ratio &&
                     max > settings->sparse_safe;
    if (is_sparse || max > INT32_MAX - 1) {
        if (!settings->sparse_convert) {
            refuse(lua, -1, "excessively sparse array");
        }
        return -1;
    }
    return (int)max;
}

static void add_value(struct encoder *encoder, int depth);

static void add_array(struct encoder *encoder, int n, int depth) {
    lua_State *lua = encoder->text.lua;
    redis_script_text_add_char(&encoder->text, '[');
    for (int i = 1; i <= n; i++) {
        redis_script_charge(lua, 1);
        if (i > 1) {
            redis_script_text_add_char(&encoder->text, ',');
        }
        lua_rawgeti(lua, -1, i);
        add_value(encoder, depth);
        lua_pop(lua, 1);
    }
    redis_script_text_add_char(&encoder->text, ']');
}

static void add_key(struct encoder *encoder) {
    lua_State *lua = encoder->text.lua;
    size_t size;
    switch (lua_type(lua, -2)) {
    case LUA_TNUMBER:
        redis_script_text_add_char(&encoder->text, '"');
        add_number(encoder, -2);
        redis_script_text_add(&encoder->text, "\":", 2);
        break;
    case LUA_TSTRING: {
        const char *key = lua_tolstring(lua, -2, &size);
        add_string(encoder, key, size);
        redis_script_text_add_char(&encoder->text, ':');
        break;
    }
    default:
        refuse(lua, -2, "table key must be a number or string");
    }
}

static void add_object(struct encoder *encoder, int depth) {
    lua_State *lua = encoder->text.lua;
    bool is_first = true;
    redis_script_text_add_char(&encoder->text, '{');
    lua_pushnil(lua);
    while (redis_script_next(lua, -2) != 0) {
        if (!is_first) {
            redis_script_text_add_char(&encoder->text, ',');
        }
        is_first = false;
        add_key(encoder);
        add_value(encoder, depth);
        lua_pop(lua, 1);
    }
    redis_script_text_add_char(&encoder->text, '}');
}

static void add_table(struct encoder *encoder, int depth) {
    lua_State *lua = encoder->text.lua;
    if (depth > encoder->settings->encode_depth || depth > REDIS_SCRIPT_JSON_DEPTH_MAX ||
        !lua_checkstack(lua, 4)) {
        luaL_error(lua, "Cannot serialise, excessive nesting (%d)", depth);
    }
    int n = array_length(encoder);
    if (n > 0) {
        add_array(encoder, n, depth);
    } else {
        add_object(encoder, depth);
    }
}

static void add_value(struct encoder *encoder, int depth) {
    lua_State *lua = encoder->text.lua;
    size_t size;
    switch (lua_type(lua, -1)) {
    case LUA_TSTRING: {
        const char *data = lua_tolstring(lua, -1, &size);
        add_string(encoder, data, size);
        break;
    }
    case LUA_TNUMBER:
        add_number(encoder, -1);
        break;
    case LUA_TBOOLEAN:
        redis_script_text_add(&encoder->text, lua_toboolean(lua, -1) ? "true" : "false",
                              lua_toboolean(lua, -1) ? 4 : 5);
        break;
    case LUA_TTABLE:
        add_table(encoder, depth + 1);
        break;
    case LUA_TNIL:
    case LUA_TLIGHTUSERDATA: /* cjson.null is the only one */
        redis_script_text_add(&encoder->text, "null", 4);
        break;
    default:
        refuse(lua, -1, "type not supported");
    }
}

static struct redis_script_json_settings *settings_of(lua_State *lua) {
    return lua_touserdata(lua, lua_upvalueindex(1));
}

static int json_encode(lua_State *lua) {
    struct encoder encoder = {.settings = settings_of(lua)};
    luaL_argcheck(lua, lua_gettop(lua) == 1, 1, "expected 1 argument");
    redis_script_text_init(&encoder.text, lua);
    lua_pushvalue(lua, 1);
    add_value(&encoder, 0);
    lua_pushlstring(lua, encoder.text.data, encoder.text.size);
    return 1;
}

/* --- Settings. They last as long as the script. --- */

static int set_integer(lua_State *lua, int index, int *setting, int min, int max) {
    if (!lua_isnoneornil(lua, index)) {
        lua_Number value = luaL_checknumber(lua, index);
        char message[64];
        snprintf(message, sizeof message, "expected integer between %d and %d", min, max);
        luaL_argcheck(lua, value >= min && value <= max, index, message);
        *setting = (int)value;
    }
    lua_pushinteger(lua, *setting);
    return 1;
}

static int json_encode_max_depth(lua_State *lua) {
    return set_integer(lua, 1, &settings_of(lua)->encode_depth, 1, INT32_MAX);
}

static int json_decode_max_depth(lua_State *lua) {
    return set_integer(lua, 1, &settings_of(lua)->decode_depth, 1, INT32_MAX);
}

static int json_encode_number_precision(lua_State *lua) {
    return set_integer(lua, 1, &settings_of(lua)->precision, 1, 14);
}

static int json_encode_sparse_array(lua_State *lua) {
    struct redis_script_json_settings *settings = settings_of(lua);
    lua_settop(lua, 3);
    if (!lua_isnil(lua, 1)) {
        settings->sparse_convert = lua_toboolean(lua, 1);
    }
    lua_pushboolean(lua, settings->sparse_convert);
    set_integer(lua, 2, &settings->sparse_ratio, 0, INT32_MAX);
    set_integer(lua, 3, &settings->sparse_safe, 0, INT32_MAX);
    return 3;
}

static int json_encode_invalid_numbers(lua_State *lua) {
    struct redis_script_json_settings *settings = settings_of(lua);
    if (lua_type(lua, 1) == LUA_TSTRING) {
        luaL_argcheck(lua, strcmp(lua_tostring(lua, 1), "null") == 0, 1, "invalid option");
        settings->encode_invalid = REDIS_SCRIPT_JSON_INVALID_NULL;
    } else if (!lua_isnoneornil(lua, 1)) {
        settings->encode_invalid = lua_toboolean(lua, 1) ? REDIS_SCRIPT_JSON_INVALID_NAME
                                                         : REDIS_SCRIPT_JSON_INVALID_ERROR;
    }
    if (settings->encode_invalid == REDIS_SCRIPT_JSON_INVALID_NULL) {
        lua_pushliteral(lua, "null");
    } else {
        lua_pushboolean(lua, settings->encode_invalid == REDIS_SCRIPT_JSON_INVALID_NAME);
    }
    return 1;
}

static int json_decode_invalid_numbers(lua_State *lua) {
    struct redis_script_json_settings *settings = settings_of(lua);
    if (!lua_isnoneornil(lua, 1)) {
        settings->decode_invalid = lua_toboolean(lua, 1);
    }
    lua_pushboolean(lua, settings->decode_invalid);
    return 1;
}

/* Each text has a buffer of its own: nothing to keep. */
static int json_encode_keep_buffer(lua_State *lua) {
    lua_pushboolean(lua, lua_isnoneornil(lua, 1) || lua_toboolean(lua, 1));
    return 1;
}

static int json_new(lua_State *lua) {
    lua_newtable(lua);
    redis_script_open_json(lua);
    return 1;
}

static int json_decode(lua_State *lua) {
    size_t size;
    luaL_argcheck(lua, lua_gettop(lua) == 1, 1, "expected 1 argument");
    const char *text = luaL_checklstring(lua, 1, &size);
    redis_script_json_decode(lua, text, size, settings_of(lua));
    return 1;
}

void redis_script_open_json(lua_State *lua) {
    static const struct redis_script_function functions[] = {
        {"decode", json_decode},
        {"decode_invalid_numbers", json_decode_invalid_numbers},
        {"decode_max_depth", json_decode_max_depth},
        {"encode", json_encode},
        {"encode_invalid_numbers", json_encode_invalid_numbers},
        {"encode_keep_buffer", json_encode_keep_buffer},
        {"encode_max_depth", json_encode_max_depth},
        {"encode_number_precision", json_encode_number_precision},
        {"encode_sparse_array", json_encode_sparse_array},
        {"new", json_new},
        {NULL, NULL},
    };
    struct redis_script_json_settings *settings = lua_newuserdata(lua, sizeof *settings);
    *settings = (struct redis_script_json_settings){
        .encode_depth = REDIS_SCRIPT_JSON_DEPTH_MAX,
        .decode_depth = REDIS_SCRIPT_JSON_DEPTH_MAX,
        .precision = 14,
        .sparse_ratio = 2,
        .sparse_safe = 10,
        .decode_invalid = true,
    };
    for (size_t i = 0; functions[i].name != NULL; i++) {
        lua_pushvalue(lua, -1);
        lua_pushcclosure(lua, functions[i].function, 1);
        lua_setfield(lua, -3, functions[i].name);
    }
    lua_pop(lua, 1);
    lua_pushlightuserdata(lua, NULL);
    lua_setfield(lua, -2, "null");
    lua_pushliteral(lua, "cjson");
    lua_setfield(lua, -2, "_NAME");
    lua_pushliteral(lua, "2.1.0");
    lua_setfield(lua, -2, "_VERSION");
}
