#include "doors/redis/redis_script_pattern_rules.h"

#include "doors/redis/redis_script_state_rules.h"

#include <lauxlib.h>

enum { STEP_COST = 4 };

void redis_script_match_init(struct redis_script_match *match, lua_State *lua, const char *text,
                             size_t size, const char *pattern) {
    match->lua = lua;
    match->text = text;
    match->text_end = text + size;
    match->pattern_end = pattern + strlen(pattern);
    match->depth = 0;
    match->n_captures = 0;
}

static void count_step(struct redis_script_match *match) {
    redis_script_charge(match->lua, STEP_COST);
}

/* --- Classes of characters, of ASCII whatever the locale is. --- */

static bool is_between(int c, int low, int high) {
    return c >= low && c <= high;
}

static bool is_letter(int c) {
    return is_between(c | 0x20, 'a', 'z') && c < 128;
}

static bool is_digit(int c) {
    return is_between(c, '0', '9');
}

static bool is_visible(int c) {
    return is_between(c, 33, 126);
}

/* False in *out_known for a letter that names no class and therefore stands for itself. */
static bool is_in_class(int c, int class, bool *out_known) {
    bool result;
    *out_known = true;
    switch (class | 0x20) {
    case 'a':
        result = is_letter(c);
        break;
    case 'c':
        result = c < 32 || c == 127;
        break;
    case 'd':
        result = is_digit(c);
        break;
    case 'l':
        result = is_between(c, 'a', 'z');
        break;
    case 'p':
        result = is_visible(c) && !is_letter(c) && !is_digit(c);
        break;
    case 's':
        result = c == ' ' || is_between(c, 9, 13);
        break;
    case 'u':
        result = is_between(c, 'A', 'Z');
        break;
    case 'w':
        result = is_letter(c) || is_digit(c);
        break;
    case 'x':
        result = is_digit(c) || (is_between(c | 0x20, 'a', 'f') && c < 128);
        break;
    case 'z':
        result = c == 0;
        break;
    default:
        *out_known = false;
        return false;
    }
    return is_between(class, 'A', 'Z') ? !result : result;
}

static bool matches_class(int c, int class) {
    bool is_known = false;
    bool result = is_letter(class) && is_in_class(c, class, &is_known);
    return is_known ? result : c == class;
}

/* Where the item that begins at `item` ends: a character, a class or a set. */
static const char *item_end(struct redis_script_match *match, const char *item) {
    char first = *item++;
    if (first == '%') {
        if (item == match->pattern_end) {
            luaL_error(match->lua, "malformed pattern (ends with '%%')");
        }
        return item + 1;
    }
    if (first != '[') {
        return item;
    }
    if (*item == '^') {
        item++;
    }
    do { /* a bracket at the beginning is an ordinary character */
        if (item == match->pattern_end) {
            luaL_error(match->lua, "malformed pattern (missing ']')");
        }
        if (*item++ == '%' && item < match->pattern_end) {
            item++;
        }
    } while (item == match->pattern_end || *item != ']');
    return item + 1;
}

/* `last` is the closing bracket. */
static bool is_in_set(struct redis_script_match *match, int c, const char *set, const char *last) {
    bool found = true;
    set++;
    if (*set == '^') {
        found = false;
        set++;
    }
    for (; set < last; set++) {
        count_step(match);
        if (*set == '%') {
            set++;
            if (matches_class(c, (unsigned char)*set)) {
                return found;
            }
        } else if (set[1] == '-' && set + 2 < last) {
            if (is_between(c, (unsigned char)*set, (unsigned char)set[2])) {
                return found;
            }
            set += 2;
        } else if ((unsigned char)*set == c) {
            return found;
        }
    }
    return !found;
}

static bool matches_item(struct redis_script_match *match, int c, const char *item,
                         const char *end) {
    switch (*item) {
    case '.':
        return true;
    case '%':
        return matches_class(c, (unsigned char)item[1]);
    case '[':
        return is_in_set(match, c, item, end - 1);
    default:
        return (unsigned char)*item == c;
    }
}

static bool matches_here(struct redis_script_match *match, const char *from, const char *item,
                         const char *end) {
    count_step(match);
    return from < match->text_end && matches_item(match, (unsigned char)*from, item, end);
}

/* --- Items that repeat. --- */

static const char *match_most(struct redis_script_match *match, const char *from, const char *item,
                              const char *end) {
    ptrdiff_t n = 0;
    while (matches_here(match, from + n, item, end)) {
        n++;
    }
    for (; n >= 0; n--) {
        const char *result = redis_script_match_at(match, from + n, end + 1);
        if (result != NULL) {
            return result;
        }
    }
    return NULL;
}

static const char *match_least(struct redis_script_match *match, const char *from, const char *item,
                               const char *end) {
    for (;; from++) {
        const char *result = redis_script_match_at(match, from, end + 1);
        if (result != NULL) {
            return result;
        }
        if (!matches_here(match, from, item, end)) {
            return NULL;
        }
    }
}

/* --- Captures. --- */

static const char *begin_capture(struct redis_script_match *match, const char *from,
                                 const char *pattern, ptrdiff_t size) {
    if (match->n_captures == REDIS_SCRIPT_CAPTURES_MAX) {
        luaL_error(match->lua, "too many captures");
    }
    match->captures[match->n_captures].start = from;
    match->captures[match->n_captures].size = size;
    match->n_captures++;
    const char *result = redis_script_match_at(match, from, pattern);
    if (result == NULL) {
        match->n_captures--;
    }
    return result;
}

static const char *end_capture(struct redis_script_match *match, const char *from,
                               const char *pattern) {
    int open = match->n_captures - 1;
    while (open >= 0 && match->captures[open].size != REDIS_SCRIPT_CAPTURE_OPEN) {
        open--;
    }
    if (open < 0) {
        luaL_error(match->lua, "invalid pattern capture");
    }
    match->captures[open].size = from - match->captures[open].start;
    const char *result = redis_script_match_at(match, from, pattern);
    if (result == NULL) {
        match->captures[open].size = REDIS_SCRIPT_CAPTURE_OPEN;
    }
    return result;
}

/* What an earlier capture has matched, once more; NULL when it does not stand here. */
static const char *match_reference(struct redis_script_match *match, const char *from, int digit) {
    int index = digit - '1';
    if (index < 0 || index >= match->n_captures ||
        match->captures[index].size == REDIS_SCRIPT_CAPTURE_OPEN) {
        luaL_error(match->lua, "invalid capture index");
    }
    ptrdiff_t size = match->captures[index].size;
    if (size < 0) {
        return NULL; /* a position */
    }
    redis_script_charge(match->lua, 1 + (uint64_t)size / 16);
    bool is_here = match->text_end - from >= size &&
                   memcmp(match->captures[index].start, from, (size_t)size) == 0;
    return is_here ? from + size : NULL;
}

/* --- Items of their own. --- */

/* %bxy: from x to the y that balances it. */
static const char *match_balance(struct redis_script_match *match, const char *from,
                                 const char *pattern) {
    if (match->pattern_end - pattern < 2) {
        luaL_error(match->lua, "unbalanced pattern");
    }
    if (from == match->text_end || *from != pattern[0]) {
        return NULL;
    }
    size_t open = 1;
    for (from++; from < match->text_end; from++) {
        count_step(match);
        if (*from == pattern[1]) {
            if (--open == 0) {
                return from + 1;
            }
        } else if (*from == pattern[0]) {
            open++;
        }
    }
    return NULL;
}

/* %f[set]: between a character that is not of the set and one that is. */
static bool is_frontier(struct redis_script_match *match, const char *from, const char *set,
                        const char *end) {
    int before = from == match->text ? 0 : (unsigned char)from[-1];
    int after = from == match->text_end ? 0 : (unsigned char)*from;
    return !is_in_set(match, before, set, end - 1) && is_in_set(match, after, set, end - 1);
}

/* --- A pattern from here on. --- */

/* A single item and what follows it. Returns true when *from and *pattern have moved on and the
 * match goes on there; otherwise *out_result is the result. */
static bool match_single(struct redis_script_match *match, const char **from, const char **pattern,
                         const char **out_result) {
    const char *item = *pattern;
    const char *end = item_end(match, item);
    char suffix = end < match->pattern_end ? *end : '\0';
    *out_result = NULL;
    switch (suffix) {
    case '?':
        if (matches_here(match, *from, item, end)) {
            *out_result = redis_script_match_at(match, *from + 1, end + 1);
            if (*out_result != NULL) {
                return false;
            }
        }
        *pattern = end + 1;
        return true;
    case '*':
        *out_result = match_most(match, *from, item, end);
        return false;
    case '+':
        if (matches_here(match, *from, item, end)) {
            *out_result = match_most(match, *from + 1, item, end);
        }
        return false;
    case '-':
        *out_result = match_least(match, *from, item, end);
        return false;
    default:
        if (!matches_here(match, *from, item, end)) {
            return false;
        }
        *from += 1;
        *pattern = end;
        return true;
    }
}

/* An item that begins with a percent sign and is not a class. As match_single(); false in
 * *out_is_special when it is a class after all. */
static bool match_percent(struct redis_script_match *match, const char **from, const char **pattern,
                          const char **out_result, bool *out_is_special) {
    char letter = (*pattern)[1];
    const char *end;
    *out_is_special = true;
    *out_result = NULL;
    switch (letter) {
    case 'b':
        *from = match_balance(match, *from, *pattern + 2);
        *pattern += 4;
        return *from != NULL;
    case 'f':
        *pattern += 2;
        if (*pattern == match->pattern_end || **pattern != '[') {
            luaL_error(match->lua, "missing '[' after '%%f' in pattern");
        }
        end = item_end(match, *pattern);
        if (!is_frontier(match, *from, *pattern, end)) {
            return false;
        }
        *pattern = end;
        return true;
    default:
        if (!is_digit(letter)) {
            *out_is_special = false;
            return true;
        }
        *from = match_reference(match, *from, letter);
        *pattern += 2;
        return *from != NULL;
    }
}

static const char *match_items(struct redis_script_match *match, const char *from,
                               const char *pattern) {
    const char *result = NULL;
    bool is_special = false;
    while (pattern < match->pattern_end) {
        count_step(match);
        switch (*pattern) {
        case '(':
            if (pattern[1] == ')') {
                return begin_capture(match, from, pattern + 2, REDIS_SCRIPT_CAPTURE_POSITION);
            }
            return begin_capture(match, from, pattern + 1, REDIS_SCRIPT_CAPTURE_OPEN);
        case ')':
            return end_capture(match, from, pattern + 1);
        case '$':
            if (pattern + 1 == match->pattern_end) {
                return from == match->text_end ? from : NULL;
            }
            break;
        case '%':
            if (!match_percent(match, &from, &pattern, &result, &is_special)) {
                return result;
            }
            if (is_special) {
                continue;
            }
            break;
        default:
            break;
        }
        if (!match_single(match, &from, &pattern, &result)) {
            return result;
        }
    }
    return from;
}

const char *redis_script_match_at(struct redis_script_match *match, const char *from,
                                  const char *pattern) {
    if (match->depth == REDIS_SCRIPT_PATTERN_DEPTH_MAX) {
        luaL_error(match->lua, "pattern too complex");
    }
    match->depth++;
    const char *result = match_items(match, from, pattern);
    match->depth--;
    return result;
}

void redis_script_match_push(struct redis_script_match *match, int index, const char *from,
                             const char *end) {
    if (index >= match->n_captures) {
        if (index != 0) {
            luaL_error(match->lua, "invalid capture index");
        }
        lua_pushlstring(match->lua, from, (size_t)(end - from));
        return;
    }
    ptrdiff_t size = match->captures[index].size;
    const char *start = match->captures[index].start;
    if (size == REDIS_SCRIPT_CAPTURE_OPEN) {
        luaL_error(match->lua, "unfinished capture");
    }
    if (size == REDIS_SCRIPT_CAPTURE_POSITION) {
        lua_pushinteger(match->lua, start - match->text + 1);
    } else {
        lua_pushlstring(match->lua, start, (size_t)size);
    }
}

int redis_script_match_push_all(struct redis_script_match *match, const char *from,
                                const char *end) {
    int n = match->n_captures == 0 && from != NULL ? 1 : match->n_captures;
    luaL_checkstack(match->lua, n, "too many captures");
    for (int i = 0; i < n; i++) {
        redis_script_match_push(match, i, from, end);
    }
    return n;
}
