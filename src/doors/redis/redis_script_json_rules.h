/* What encoding and decoding of cjson share. */
#ifndef LEASED_DOORS_REDIS_REDIS_SCRIPT_JSON_RULES_H
#define LEASED_DOORS_REDIS_REDIS_SCRIPT_JSON_RULES_H

#include <lua.h>

#include <stdbool.h>
#include <stddef.h>

/* cjson's own default, and here the most that can be set: it is the C stack of the server. */
enum { REDIS_SCRIPT_JSON_DEPTH_MAX = 1000 };

enum redis_script_json_invalid {
    REDIS_SCRIPT_JSON_INVALID_ERROR,
    REDIS_SCRIPT_JSON_INVALID_NAME, /* nan, inf */
    REDIS_SCRIPT_JSON_INVALID_NULL,
};

struct redis_script_json_settings {
    int encode_depth;
    int decode_depth;
    int precision;
    int sparse_ratio;
    int sparse_safe;
    bool sparse_convert;
    bool decode_invalid; /* nan, inf, hexadecimal numbers */
    enum redis_script_json_invalid encode_invalid;
};

/* Pushes the value of a text, which ends with a zero byte behind its size, or raises an error. */
void redis_script_json_decode(lua_State *lua, const char *text, size_t size,
                              const struct redis_script_json_settings *settings);

#endif
