/*
 * Patterns of Lua 5.1, matched by steps that are counted: a pattern whose search explodes ends the
 * run instead of holding up the server.
 */
#ifndef LEASED_DOORS_REDIS_REDIS_SCRIPT_PATTERN_RULES_H
#define LEASED_DOORS_REDIS_REDIS_SCRIPT_PATTERN_RULES_H

#include <lua.h>

#include <stdbool.h>
#include <stddef.h>

enum {
    REDIS_SCRIPT_CAPTURES_MAX = 32,
    REDIS_SCRIPT_PATTERN_DEPTH_MAX = 200, /* items that wait for what follows them */
};

struct redis_script_match {
    lua_State *lua;
    const char *text;
    const char *text_end;
    const char *pattern_end; /* the first zero byte, as in Lua 5.1 */
    unsigned depth;
    int n_captures;
    struct {
        const char *start;
        ptrdiff_t size; /* or one of the two below */
    } captures[REDIS_SCRIPT_CAPTURES_MAX];
};

enum { REDIS_SCRIPT_CAPTURE_OPEN = -1, REDIS_SCRIPT_CAPTURE_POSITION = -2 };

/* Both texts must stay where they are during the match. */
void redis_script_match_init(struct redis_script_match *match, lua_State *lua, const char *text,
                             size_t size, const char *pattern);
/* The end of a match of the pattern that begins exactly at `from`, or NULL. Raises an error for a
 * malformed pattern. */
const char *redis_script_match_at(struct redis_script_match *match, const char *from,
                                  const char *pattern);
/* Pushes one capture, counted from 0; capture 0 of a pattern without captures is the whole match.
 */
void redis_script_match_push(struct redis_script_match *match, int index, const char *from,
                             const char *end);
/* Pushes all captures, or the whole match when there are none and `from` is not NULL; returns how
 * many. */
int redis_script_match_push_all(struct redis_script_match *match, const char *from,
                                const char *end);

#endif
