/*
 * A text that grows, in memory of the script: Lua's own buffers keep values on the stack, where
 * tables are being walked over.
 */
#ifndef LEASED_DOORS_REDIS_REDIS_SCRIPT_TEXT_RULES_H
#define LEASED_DOORS_REDIS_REDIS_SCRIPT_TEXT_RULES_H

#include <lua.h>

#include <stddef.h>
#include <string.h>

struct redis_script_text {
    lua_State *lua;
    int index; /* of the block on the stack, which keeps it */
    char *data;
    size_t size;
    size_t capacity;
};

/* Pushes its block. */
static inline void redis_script_text_init(struct redis_script_text *text, lua_State *lua) {
    text->lua = lua;
    text->size = 0;
    text->capacity = 128;
    text->data = lua_newuserdata(lua, text->capacity);
    text->index = lua_gettop(lua);
}

static inline void redis_script_text_add(struct redis_script_text *text, const char *data,
                                         size_t size) {
    if (size > text->capacity - text->size) {
        size_t capacity = text->capacity * 2 + size;
        char *grown = lua_newuserdata(text->lua, capacity);
        memcpy(grown, text->data, text->size);
        lua_replace(text->lua, text->index);
        text->data = grown;
        text->capacity = capacity;
    }
    memcpy(text->data + text->size, data, size);
    text->size += size;
}

static inline void redis_script_text_add_char(struct redis_script_text *text, char c) {
    redis_script_text_add(text, &c, 1);
}

#endif
