/* The library `redis`, and what values become on their way between Lua and replies. */
#include "doors/redis/redis_reply.h"
#include "doors/redis/redis_script_state_rules.h"

#include <lauxlib.h>
#include <lua.h>
#include <stdio.h> /* snprintf */

enum {
    CALL_COST = 128,
    SPECIAL_COST = 6, /* of looking for the fields that stand for a reply */
    BYTES_PER_WORK = 16,
    NUMBER_SIZE = 32,
    REPLY_DEPTH_MAX = REDIS_REPLY_DEPTH_MAX - 1, /* the reply of EXEC is one around it */
};

/* --- From replies to Lua. --- */

/* What comes next of a reply; the script is stopped when the host's bytes are no reply. */
static void next_value(lua_State *lua, struct redis_reply_reader *reader,
                       struct redis_reply_value *value) {
    do {
        if (!redis_reply_next(reader, value)) {
            redis_script_stop(lua, STATUS_MALFORMED);
        }
    } while (value->is_attribute);
    redis_script_charge(lua, 1 + value->text.size / BYTES_PER_WORK);
}

static void push_value(lua_State *lua, struct redis_reply_reader *reader,
                       const struct redis_reply_value *value);

/* A table with one field, whose value is at the top of the stack. */
static void wrap_in_table(lua_State *lua, const char *field) {
    lua_createtable(lua, 0, 1);
    lua_insert(lua, -2);
    lua_setfield(lua, -2, field);
}

static void push_next(lua_State *lua, struct redis_reply_reader *reader) {
    struct redis_reply_value value;
    next_value(lua, reader, &value);
    push_value(lua, reader, &value);
}

static void push_array(lua_State *lua, struct redis_reply_reader *reader, size_t n) {
    lua_createtable(lua, (int)n, 0);
    for (size_t i = 0; i < n; i++) {
        push_next(lua, reader);
        lua_rawseti(lua, -2, (int)i + 1);
    }
}

static void push_pairs(lua_State *lua, struct redis_reply_reader *reader, size_t n) {
    lua_createtable(lua, (int)n, 0);
    for (size_t i = 0; i < n; i++) {
        push_array(lua, reader, 2);
        lua_rawseti(lua, -2, (int)i + 1);
    }
}

/* A key that is nil is a value that Lua cannot have; Redis would fail the same way. */
static void push_map(lua_State *lua, struct redis_reply_reader *reader, size_t n_pairs,
                     bool is_set) {
    lua_newtable(lua);
    for (size_t i = 0; i < n_pairs; i++) {
        push_next(lua, reader);
        if (is_set) {
            lua_pushboolean(lua, 1);
        } else {
            push_next(lua, reader);
        }
        lua_settable(lua, -3);
    }
    wrap_in_table(lua, is_set ? "set" : "map");
}

static void push_verbatim(lua_State *lua, const struct redis_reply_value *value) {
    lua_createtable(lua, 0, 2);
    redis_script_push_string(lua, value->text);
    lua_setfield(lua, -2, "string");
    lua_pushlstring(lua, value->format, 3);
    lua_setfield(lua, -2, "format");
    wrap_in_table(lua, "verbatim_string");
}

/* What scripts see after redis.setresp(3). */
static void push_resp3(lua_State *lua, struct redis_reply_reader *reader,
                       const struct redis_reply_value *value) {
    switch (value->type) {
    case REDIS_REPLY_NULL:
    case REDIS_REPLY_NULL_ARRAY:
        lua_pushnil(lua);
        break;
    case REDIS_REPLY_BOOL:
        lua_pushboolean(lua, value->boolean);
        break;
    case REDIS_REPLY_DOUBLE:
        lua_pushnumber(lua, value->number);
        wrap_in_table(lua, "double");
        break;
    case REDIS_REPLY_BIG_NUMBER:
        redis_script_push_string(lua, value->text);
        wrap_in_table(lua, "big_number");
        break;
    case REDIS_REPLY_VERBATIM:
        push_verbatim(lua, value);
        break;
    case REDIS_REPLY_MAP:
    case REDIS_REPLY_ENTRIES:
        push_map(lua, reader, value->n / 2, false);
        break;
    case REDIS_REPLY_SET:
        push_map(lua, reader, value->n, true);
        break;
    case REDIS_REPLY_PAIRS:
        push_pairs(lua, reader, value->n / 2);
        break;
    default:
        push_array(lua, reader, value->n);
    }
}

static void push_resp2(lua_State *lua, struct redis_reply_reader *reader,
                       const struct redis_reply_value *value) {
    switch (value->type) {
    case REDIS_REPLY_NULL:
    case REDIS_REPLY_NULL_ARRAY:
        lua_pushboolean(lua, 0);
        break;
    case REDIS_REPLY_BOOL:
        lua_pushinteger(lua, value->boolean);
        break;
    case REDIS_REPLY_DOUBLE:
    case REDIS_REPLY_BIG_NUMBER:
    case REDIS_REPLY_VERBATIM:
        redis_script_push_string(lua, value->text);
        break;
    case REDIS_REPLY_ENTRIES:
        push_pairs(lua, reader, value->n / 2);
        break;
    default:
        push_array(lua, reader, value->n);
    }
}

static void push_value(lua_State *lua, struct redis_reply_reader *reader,
                       const struct redis_reply_value *value) {
    luaL_checkstack(lua, LUA_MINSTACK, "reply too deep");
    switch (value->type) {
    case REDIS_REPLY_INTEGER:
        lua_pushnumber(lua, (lua_Number)value->integer);
        break;
    case REDIS_REPLY_BULK:
        redis_script_push_string(lua, value->text);
        break;
    case REDIS_REPLY_SIMPLE:
        redis_script_push_string(lua, value->text);
        wrap_in_table(lua, "ok");
        break;
    case REDIS_REPLY_ERROR:
        redis_script_push_string(lua, value->text);
        wrap_in_table(lua, "err");
        lua_pushboolean(lua, 1);
        lua_setfield(lua, -2, "ignore_error_stats_update");
        break;
    default:
        if (redis_script_current()->resp == 3) {
            push_resp3(lua, reader, value);
        } else {
            push_resp2(lua, reader, value);
        }
    }
}

/* --- From Lua to replies. --- */

static void check_reply_size(lua_State *lua, struct redis_script_run *run) {
    redis_script_charge(lua, 1);
    if (run->out->size - run->out_start > run->limits.reply_size) {
        redis_script_stop(lua, STATUS_REQUEST_TOO_LARGE);
    }
}

/* Truncated; what has no such integer is the smallest one, on every kind of processor. */
static int64_t to_integer(lua_Number number) {
    bool is_representable = number >= -9223372036854775808.0 && number < 9223372036854775808.0;
    return is_representable ? (int64_t)number : INT64_MIN;
}

/* The field of the table at the top of the stack, pushed, when it has this type. */
static bool push_raw_field(lua_State *lua, const char *name, int type) {
    lua_pushstring(lua, name);
    lua_rawget(lua, -2);
    if (lua_type(lua, -1) == type) {
        return true;
    }
    lua_pop(lua, 1);
    return false;
}

static struct bytes text_at_top(lua_State *lua) {
    size_t size;
    const char *text = lua_tolstring(lua, -1, &size);
    return bytes_of(text, size);
}

static void put_value(lua_State *lua, struct redis_script_run *run, unsigned depth);

static void put_map(lua_State *lua, struct redis_script_run *run, unsigned depth, bool is_set) {
    size_t n = 0;
    lua_pushnil(lua);
    while (redis_script_next(lua, -2) != 0) {
        n++;
        lua_pop(lua, 1);
    }
    if (is_set) {
        redis_reply_set(run->out, n);
    } else {
        redis_reply_map(run->out, n);
    }
    lua_pushnil(lua);
    while (redis_script_next(lua, -2) != 0) {
        lua_pushvalue(lua, -2);
        put_value(lua, run, depth + 1);
        if (is_set) {
            lua_pop(lua, 1);
        } else {
            put_value(lua, run, depth + 1);
        }
    }
}

/* Up to the first nil. */
static void put_array(lua_State *lua, struct redis_script_run *run, unsigned depth) {
    int n = 0;
    for (;; n++) {
        redis_script_charge(lua, 1);
        lua_rawgeti(lua, -1, n + 1);
        bool is_end = lua_isnil(lua, -1);
        lua_pop(lua, 1);
        if (is_end) {
            break;
        }
    }
    redis_reply_array(run->out, (size_t)n);
    for (int i = 1; i <= n; i++) {
        lua_rawgeti(lua, -1, i);
        put_value(lua, run, depth + 1);
    }
}

static bool put_verbatim(lua_State *lua, struct redis_script_run *run) {
    bool is_put = false;
    if (push_raw_field(lua, "format", LUA_TSTRING)) {
        char format[3] = "txt";
        struct bytes given = text_at_top(lua);
        memcpy(format, given.data, given.size < 3 ? given.size : 3);
        lua_pop(lua, 1);
        if (push_raw_field(lua, "string", LUA_TSTRING)) {
            redis_reply_verbatim(run->out, format, text_at_top(lua));
            lua_pop(lua, 1);
            is_put = true;
        }
    }
    return is_put;
}

/* Tables with one of the fields that stand for a reply; false when it is none of them. */
static bool put_special(lua_State *lua, struct redis_script_run *run, unsigned depth) {
    redis_script_charge(lua, SPECIAL_COST);
    if (push_raw_field(lua, "err", LUA_TSTRING)) {
        struct bytes text = text_at_top(lua);
        redis_reply_error(run->out, text);
    } else if (push_raw_field(lua, "ok", LUA_TSTRING)) {
        redis_reply_simple(run->out, text_at_top(lua));
    } else if (push_raw_field(lua, "double", LUA_TNUMBER)) {
        redis_script_charge(lua, REDIS_SCRIPT_NUMBER_COST);
        redis_reply_double(run->out, lua_tonumber(lua, -1));
    } else if (push_raw_field(lua, "map", LUA_TTABLE)) {
        put_map(lua, run, depth, false);
    } else if (push_raw_field(lua, "set", LUA_TTABLE)) {
        put_map(lua, run, depth, true);
    } else if (push_raw_field(lua, "big_number", LUA_TSTRING)) {
        redis_reply_big_number(run->out, text_at_top(lua));
    } else if (push_raw_field(lua, "verbatim_string", LUA_TTABLE)) {
        bool is_put = put_verbatim(lua, run);
        lua_pop(lua, 1);
        return is_put;
    } else {
        return false;
    }
    lua_pop(lua, 1);
    return true;
}

/* Appends the value at the top of the stack and pops it. */
static void put_value(lua_State *lua, struct redis_script_run *run, unsigned depth) {
    check_reply_size(lua, run);
    luaL_checkstack(lua, LUA_MINSTACK, "reply too deep");
    switch (lua_type(lua, -1)) {
    case LUA_TSTRING:
        redis_script_charge(lua, lua_objlen(lua, -1) / BYTES_PER_WORK);
        redis_reply_bulk(run->out, text_at_top(lua));
        break;
    case LUA_TNUMBER:
        redis_reply_integer(run->out, to_integer(lua_tonumber(lua, -1)));
        break;
    case LUA_TBOOLEAN:
        if (run->resp == 3) {
            redis_reply_bool(run->out, lua_toboolean(lua, -1));
        } else if (lua_toboolean(lua, -1)) {
            redis_reply_integer(run->out, 1);
        } else {
            redis_reply_null(run->out);
        }
        break;
    case LUA_TTABLE:
        if (depth == REPLY_DEPTH_MAX) {
            redis_reply_error_text(run->out, "ERR reached lua stack limit");
        } else if (!put_special(lua, run, depth)) {
            put_array(lua, run, depth);
        }
        break;
    default:
        redis_reply_null(run->out);
    }
    lua_pop(lua, 1);
}

void redis_script_put_reply(lua_State *lua) {
    put_value(lua, redis_script_current(), 0);
}

/* --- redis.call, redis.pcall. --- */

/* An error of ours, as a table: raised by call, given back by pcall. */
static int give_error(lua_State *lua, const char *text, bool is_raised) {
    lua_pushstring(lua, text);
    wrap_in_table(lua, "err");
    return is_raised ? lua_error(lua) : 1;
}

/* Makes texts of all arguments. */
static bool take_arguments(lua_State *lua, struct bytes *argv, int argc) {
    for (int i = 0; i < argc; i++) {
        size_t size;
        if (lua_type(lua, i + 1) == LUA_TNUMBER) {
            char text[NUMBER_SIZE];
            int written = snprintf(text, sizeof text, "%.17g", lua_tonumber(lua, i + 1));
            lua_pushlstring(lua, text, (size_t)written);
            lua_replace(lua, i + 1);
            redis_script_charge(lua, REDIS_SCRIPT_NUMBER_COST);
        } else if (lua_type(lua, i + 1) != LUA_TSTRING) {
            return false;
        }
        const char *text = lua_tolstring(lua, i + 1, &size);
        argv[i] = bytes_of(text, size);
        redis_script_charge(lua, 1 + size / BYTES_PER_WORK);
    }
    return true;
}

static int call_host(lua_State *lua, bool is_raised) {
    struct redis_script_run *run = redis_script_current();
    struct redis_reply_reader reader;
    struct redis_reply_value value;
    int argc = lua_gettop(lua);
    redis_script_charge(lua, CALL_COST);
    if (argc == 0) {
        return give_error(lua, "ERR Please specify at least one argument for this redis lib call",
                          is_raised);
    }
    struct bytes *argv = lua_newuserdata(lua, (size_t)argc * sizeof *argv);
    if (!take_arguments(lua, argv, argc)) {
        return give_error(lua, "ERR Lua redis lib command arguments must be strings or integers",
                          is_raised);
    }
    run->reply.size = 0;
    enum status status = run->host->call(run->host->context, argv, (size_t)argc, &run->reply);
    if (status != STATUS_OK) {
        return redis_script_stop(lua, status);
    }
    uint64_t work = run->host_work;
    run->host_work = 0;
    redis_script_charge(lua, work);
    redis_reply_reader_init(&reader, bytes_of(run->reply.data, run->reply.size));
    next_value(lua, &reader, &value);
    push_value(lua, &reader, &value);
    if (value.type == REDIS_REPLY_ERROR && is_raised) {
        return lua_error(lua);
    }
    return 1;
}

static int redis_call(lua_State *lua) {
    return call_host(lua, true);
}

static int redis_pcall(lua_State *lua) {
    return call_host(lua, false);
}

/* --- The others. --- */

static int redis_status_reply(lua_State *lua) {
    if (lua_gettop(lua) != 1 || lua_type(lua, 1) != LUA_TSTRING) {
        return give_error(lua, "ERR wrong number or type of arguments", false);
    }
    wrap_in_table(lua, "ok");
    return 1;
}

/* A text of one word gets the code ERR; a dash at its beginning is taken off. */
static int redis_error_reply(lua_State *lua) {
    if (lua_gettop(lua) != 1 || lua_type(lua, 1) != LUA_TSTRING) {
        return give_error(lua, "ERR wrong number or type of arguments", false);
    }
    const char *text = lua_tostring(lua, 1);
    text += *text == '-';
    lua_pushfstring(lua, strchr(text, ' ') == NULL ? "ERR %s" : "%s", text);
    wrap_in_table(lua, "err");
    return 1;
}

static int redis_sha1hex(lua_State *lua) {
    char digits[REDIS_SCRIPT_SHA_SIZE];
    if (lua_gettop(lua) != 1) {
        return give_error(lua, "ERR wrong number of arguments", true);
    }
    size_t size = 0;
    const char *text = lua_tolstring(lua, 1, &size);
    redis_script_charge(lua, 64 + size);
    redis_script_sha(bytes_of(text, text == NULL ? 0 : size), digits);
    lua_pushlstring(lua, digits, sizeof digits);
    return 1;
}

/* Without effect: a replica that logs what the others log tells nobody anything new. */
static int redis_log(lua_State *lua) {
    if (lua_gettop(lua) < 2) {
        return give_error(lua, "ERR redis.log() requires two arguments or more.", true);
    }
    if (!lua_isnumber(lua, 1)) {
        return give_error(lua, "ERR First argument must be a number (log level).", true);
    }
    lua_Number level = lua_tonumber(lua, 1);
    if (!(level >= 0 && level < 4)) {
        return give_error(lua, "ERR Invalid debug level.", true);
    }
    return 0;
}

static int redis_setresp(lua_State *lua) {
    if (lua_gettop(lua) != 1) {
        return give_error(lua, "ERR redis.setresp() requires one argument.", true);
    }
    if (!lua_isnumber(lua, 1) || (lua_tonumber(lua, 1) != 2 && lua_tonumber(lua, 1) != 3)) {
        return give_error(lua, "ERR RESP version must be 2 or 3.", true);
    }
    redis_script_current()->resp = lua_tonumber(lua, 1) == 3 ? 3 : 2;
    return 0;
}

/* Scripts are replicated as scripts, by the log: nothing is to be chosen. */
static int redis_set_repl(lua_State *lua) {
    if (lua_gettop(lua) != 1) {
        return give_error(lua, "ERR redis.set_repl() requires one argument.", true);
    }
    lua_Number flags = lua_tonumber(lua, 1);
    if (!(flags >= 0 && flags < 4)) {
        return give_error(lua,
                          "ERR Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or "
                          "REPL_NONE.",
                          true);
    }
    return 0;
}

static int redis_replicate_commands(lua_State *lua) {
    lua_pushboolean(lua, 1);
    return 1;
}

static int redis_breakpoint(lua_State *lua) {
    lua_pushboolean(lua, 0);
    return 1;
}

static int redis_debug(lua_State *lua) {
    (void)lua;
    return 0;
}

void redis_script_open_redis(lua_State *lua) {
    static const struct redis_script_function functions[] = {
        {"breakpoint", redis_breakpoint},
        {"call", redis_call},
        {"debug", redis_debug},
        {"error_reply", redis_error_reply},
        {"log", redis_log},
        {"pcall", redis_pcall},
        {"replicate_commands", redis_replicate_commands},
        {"set_repl", redis_set_repl},
        {"setresp", redis_setresp},
        {"sha1hex", redis_sha1hex},
        {"status_reply", redis_status_reply},
        {NULL, NULL},
    };
    static const struct {
        const char *name;
        int value;
    } numbers[] = {
        {"LOG_DEBUG", 0},  {"LOG_VERBOSE", 1},
        {"LOG_NOTICE", 2}, {"LOG_WARNING", 3},
        {"REPL_NONE", 0},  {"REPL_AOF", 1},
        {"REPL_SLAVE", 2}, {"REPL_REPLICA", 2},
        {"REPL_ALL", 3},   {"REDIS_VERSION_NUM", 0x0007000f},
    };
    redis_script_set_functions(lua, functions);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        lua_pushinteger(lua, numbers[i].value);
        lua_setfield(lua, -2, numbers[i].name);
    }
    lua_pushliteral(lua, "7.0.15");
    lua_setfield(lua, -2, "REDIS_VERSION");
}
