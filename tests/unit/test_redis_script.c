/* The Lua sandbox with a host of its own: replies as Redis gives them, and every bound. */
#include "doors/redis/redis_reply.h"
#include "doors/redis/redis_script_rules.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Knows PING, GET (nothing is there), DEL, RAW (a reply as it is given), REFUSE; keeps what it was
 * called with last. */
struct host {
    size_t n_calls;
    struct buffer last; /* arguments with a line end behind each */
};

static bool is_command(struct bytes name, const char *command) {
    return name.size == strlen(command) &&
           strncasecmp((const char *)name.data, command, name.size) == 0;
}

static enum status call(void *context, const struct bytes *argv, size_t argc, struct buffer *out) {
    struct host *host = context;
    host->n_calls++;
    host->last.size = 0;
    for (size_t i = 0; i < argc; i++) {
        buffer_append(&host->last, argv[i].data, argv[i].size);
        buffer_put_u8(&host->last, '\n');
    }
    if (is_command(argv[0], "ping")) {
        redis_reply_simple(out, bytes_from_text("PONG"));
    } else if (is_command(argv[0], "get")) {
        redis_reply_null(out);
    } else if (is_command(argv[0], "del")) {
        redis_reply_integer(out, 1);
    } else if (is_command(argv[0], "raw")) {
        buffer_append(out, argv[1].data, argv[1].size);
    } else if (is_command(argv[0], "refuse")) {
        return STATUS_PERMISSION_DENIED;
    } else {
        redis_reply_error_text(out, "ERR Unknown Redis command called from script");
    }
    return STATUS_OK;
}

/* One run with the default limits or others, its reply in RESP3 as it is. */
struct outcome {
    enum status status;
    struct host host;
    struct buffer reply;
};

static void run_with(struct outcome *outcome, const char *source, const struct bytes *keys,
                     size_t n_keys, const struct redis_script_limits *limits) {
    struct redis_script_host host = {.context = &outcome->host, .call = call};
    struct redis_script script = {.source = bytes_from_text(source),
                                  .keys = keys,
                                  .n_keys = n_keys,
                                  .args = keys,
                                  .n_args = n_keys};
    memset(outcome, 0, sizeof *outcome);
    outcome->status = redis_script_run(&script, &host, limits, &outcome->reply);
}

static void outcome_clear(struct outcome *outcome) {
    buffer_clear(&outcome->host.last);
    buffer_clear(&outcome->reply);
}

static void assert_reply(const char *source, const char *expected) {
    struct outcome outcome;
    run_with(&outcome, source, NULL, 0, &redis_script_limits_default);
    assert_int_equal(outcome.status, STATUS_OK);
    if (outcome.reply.size != strlen(expected) ||
        memcmp(outcome.reply.data, expected, outcome.reply.size) != 0) {
        fail_msg("%s\n gives %.*s\n instead of %s", source, (int)outcome.reply.size,
                 (const char *)outcome.reply.data, expected);
    }
    outcome_clear(&outcome);
}

static void assert_status_within(const char *source, const struct redis_script_limits *limits,
                                 enum status expected) {
    struct outcome outcome;
    run_with(&outcome, source, NULL, 0, limits);
    if (outcome.status != expected) {
        fail_msg("%s\n gives %s", source, status_text(outcome.status));
    }
    assert_int_equal(outcome.reply.size, 0);
    outcome_clear(&outcome);
}

static void assert_status(const char *source, enum status expected) {
    assert_status_within(source, &redis_script_limits_default, expected);
}

/* So much work that another bound is met before. */
static const struct redis_script_limits roomy = {.work = 100 * 1000 * 1000,
                                                 .memory = REDIS_SCRIPT_MEMORY_MAX,
                                                 .reply_size = REDIS_SCRIPT_REPLY_SIZE_MAX};

/* --- The list that Redis made. --- */

static size_t unescape(char *text) {
    char *to = text;
    for (const char *from = text; *from != '\0'; from++) {
        if (*from != '\\') {
            *to++ = *from;
            continue;
        }
        from++;
        if (*from == 'x') {
            char digits[3] = {from[1], from[2], '\0'};
            *to++ = (char)strtol(digits, NULL, 16);
            from += 2;
        } else {
            *to++ = *from == 'r' ? '\r' : *from == 'n' ? '\n' : *from == 't' ? '\t' : *from;
        }
    }
    return (size_t)(to - text);
}

static void put_line_ends(char *script) {
    for (char *mark = strstr(script, "\\N"); mark != NULL; mark = strstr(script, "\\N")) {
        mark[0] = '\n';
        memmove(mark + 1, mark + 2, strlen(mark + 2) + 1);
    }
}

static void check_case(const char *source, const char *expected, size_t size) {
    struct outcome outcome;
    struct buffer resp2;
    buffer_init(&resp2);
    run_with(&outcome, source, NULL, 0, &redis_script_limits_default);
    assert_int_equal(outcome.status, STATUS_OK);
    struct bytes reply = bytes_of(outcome.reply.data, outcome.reply.size);
    assert_int_equal(redis_reply_to_resp2(reply, &resp2), STATUS_OK);
    if (!bytes_equal(bytes_of(resp2.data, resp2.size), bytes_of(expected, size))) {
        fail_msg("%s\n gives %.*s\n instead of %.*s", source, (int)resp2.size,
                 (const char *)resp2.data, (int)size, expected);
    }
    buffer_clear(&resp2);
    outcome_clear(&outcome);
}

static void replies_are_those_of_redis(void **state) {
    char path[4096];
    char *script = NULL;
    char *reply = NULL;
    size_t script_size = 0;
    size_t reply_size = 0;
    size_t n = 0;
    const char *root = getenv("LEASED_SOURCE_ROOT");
    assert_non_null(root);
    snprintf(path, sizeof path, "%s/tests/fixtures/redis/scripts.txt", root);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (getline(&script, &script_size, file) > 0) {
        if (script[0] == '#') {
            continue;
        }
        assert_true(getline(&reply, &reply_size, file) > 4);
        script[strcspn(script, "\n")] = '\0';
        reply[strcspn(reply, "\n")] = '\0';
        put_line_ends(script);
        char *expected = reply + 4;
        check_case(script, expected, unescape(expected));
        n++;
    }
    assert_true(n > 400);
    free(script);
    free(reply);
    fclose(file);
}

/* --- Conversions of replies of the host. --- */

static void replies_become_lua_values(void **state) {
    assert_reply("return type(redis.call('raw', ':5\\r\\n'))", "$6\r\nnumber\r\n");
    assert_reply("return redis.call('raw', '$3\\r\\nabc\\r\\n')", "$3\r\nabc\r\n");
    assert_reply("return redis.call('raw', '+OK\\r\\n').ok", "$2\r\nOK\r\n");
    assert_reply("return redis.call('raw', '_\\r\\n') == false", ":1\r\n");
    assert_reply("return redis.call('raw', '*-1\\r\\n') == false", ":1\r\n");
    assert_reply("return redis.call('raw', ',1.5\\r\\n')", "$3\r\n1.5\r\n");
    assert_reply("return redis.call('raw', '#t\\r\\n')", ":1\r\n");
    assert_reply("return redis.call('raw', '%1\\r\\n+a\\r\\n:1\\r\\n')", "*2\r\n+a\r\n:1\r\n");
    assert_reply("return redis.call('raw', '~1\\r\\n:1\\r\\n')", "*1\r\n:1\r\n");
    assert_reply("return redis.call('raw', '^1\\r\\n:1\\r\\n,2\\r\\n')", "*2\r\n:1\r\n$1\r\n2\r\n");
    assert_reply("return redis.call('raw', '=5\\r\\ntxt:a\\r\\n')", "$1\r\na\r\n");
    assert_reply("return redis.call('raw', '|1\\r\\n+a\\r\\n:1\\r\\n:2\\r\\n')", ":2\r\n");
    assert_reply("return redis.pcall('raw', '-MY x\\r\\n').err", "$4\r\nMY x\r\n");
    assert_reply("return redis.call('raw', '*2\\r\\n_\\r\\n*1\\r\\n:1\\r\\n')",
                 "*2\r\n_\r\n*1\r\n:1\r\n");
}

static void replies_become_richer_values_after_setresp_3(void **state) {
    assert_reply("redis.setresp(3) return redis.call('raw', '_\\r\\n') == nil", "#t\r\n");
    assert_reply("redis.setresp(3) return redis.call('raw', '*-1\\r\\n') == nil", "#t\r\n");
    assert_reply("redis.setresp(3) return redis.call('raw', ',1.5\\r\\n').double * 2", ":3\r\n");
    assert_reply("redis.setresp(3) return redis.call('raw', ',1.5\\r\\n')", ",1.5\r\n");
    assert_reply("redis.setresp(3) return redis.call('raw', '#f\\r\\n')", "#f\r\n");
    assert_reply(
        "redis.setresp(3) return redis.call('raw', '%1\\r\\n$1\\r\\na\\r\\n:1\\r\\n').map.a",
        ":1\r\n");
    assert_reply("redis.setresp(3) return redis.call('raw', '%1\\r\\n$1\\r\\na\\r\\n:1\\r\\n')",
                 "%1\r\n$1\r\na\r\n:1\r\n");
    assert_reply("redis.setresp(3) return redis.call('raw', '~1\\r\\n:7\\r\\n').set[7]", "#t\r\n");
    assert_reply("redis.setresp(3) return redis.call('raw', '(12\\r\\n')", "(12\r\n");
    assert_reply("redis.setresp(3) return redis.call('raw', '=5\\r\\ntxt:a\\r\\n')",
                 "=5\r\ntxt:a\r\n");
    assert_reply(
        "redis.setresp(3) return redis.call('raw', '^1\\r\\n:1\\r\\n,2\\r\\n')[1][2].double",
        ":2\r\n");
}

static void a_host_that_refuses_ends_the_run(void **state) {
    assert_status("redis.call('refuse') return 1", STATUS_PERMISSION_DENIED);
    assert_status("pcall(redis.call, 'refuse') return 1", STATUS_PERMISSION_DENIED);
    assert_status("redis.pcall('refuse') return 1", STATUS_PERMISSION_DENIED);
    assert_status("coroutine.wrap(function() redis.call('refuse') end)() return 1",
                  STATUS_PERMISSION_DENIED);
    assert_status("redis.call('raw', '*5')", STATUS_MALFORMED);
    assert_status("redis.call('raw', '')", STATUS_MALFORMED);
}

static void keys_and_arguments_reach_the_host(void **state) {
    struct outcome outcome;
    struct bytes keys[2] = {bytes_from_text("a"), bytes_of("b\0c", 3)};
    run_with(&outcome, "return redis.call('set', KEYS[2], ARGV[1], #KEYS, 0.1, 1e15)", keys, 2,
             &redis_script_limits_default);
    assert_int_equal(outcome.status, STATUS_OK);
    static const char expected[] = "set\nb\0c\na\n2\n0.10000000000000001\n1000000000000000\n";
    assert_int_equal(outcome.host.last.size, sizeof expected - 1);
    assert_memory_equal(outcome.host.last.data, expected, sizeof expected - 1);
    outcome_clear(&outcome);
}

/* --- Nothing but script, keys, arguments and replies. --- */

static void a_run_leaves_nothing_to_the_next(void **state) {
    assert_reply("string.upper = nil cjson.encode_number_precision(3) rawset(_G, 'x', 5) "
                 "getmetatable('').__index = {} math.randomseed(5) redis.setresp(3) return 1",
                 ":1\r\n");
    assert_reply("return {('a'):upper(), cjson.encode(1/3), rawget(_G, 'x') == nil, "
                 "math.floor(math.random() * 1000)}",
                 "*4\r\n$1\r\nA\r\n$16\r\n0.33333333333333\r\n:1\r\n:396\r\n");
}

static void texts_tell_no_address(void **state) {
    assert_reply(
        "return {tostring({}), tostring(tostring), tostring(coroutine.create(function() end)), "
        "tostring(cjson.null)}",
        "*4\r\n$10\r\ntable: 0x0\r\n$13\r\nfunction: 0x0\r\n$11\r\nthread: 0x0\r\n"
        "$15\r\nuserdata: (nil)\r\n");
}

static void tables_with_addresses_as_keys_have_no_order(void **state) {
    static const char *const loops[] = {
        "for k in pairs({[{}]=1}) do end",
        "for k in pairs({[tostring]=1}) do end",
        "for k in pairs({[coroutine.create(function() end)]=1}) do end",
        "next({[{}]=1})",
        "table.foreach({[{}]=1}, tostring)",
        "return cjson.encode({[{}]=1})",
        "return cmsgpack.pack({[{}]=1})",
        "return {map={[{}]=1}}",
    };
    for (size_t i = 0; i < sizeof loops / sizeof loops[0]; i++) {
        struct outcome outcome;
        run_with(&outcome, loops[i], NULL, 0, &redis_script_limits_default);
        assert_int_equal(outcome.status, STATUS_OK);
        assert_non_null(memmem(outcome.reply.data, outcome.reply.size, "has no order", 12));
        outcome_clear(&outcome);
    }
    assert_reply(
        "local n = 0 for k in pairs({[cjson.null]=1, [true]=2, [1.5]=3, x=4}) do n = n + 1 end "
        "return n",
        ":4\r\n");
    assert_reply("local k = {} local t = {[k]=7} return t[k]", ":7\r\n");
}

static void there_is_no_way_out(void **state) {
    static const char *const names[] = {
        "io",       "os",    "debug",   "package", "require",  "module",         "dofile",
        "loadfile", "print", "getfenv", "setfenv", "newproxy", "collectgarbage", "gcinfo",
    };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char source[64];
        snprintf(source, sizeof source, "return rawget(_G, '%s') == nil", names[i]);
        assert_reply(source, ":1\r\n");
        struct outcome outcome;
        snprintf(source, sizeof source, "return %s", names[i]);
        run_with(&outcome, source, NULL, 0, &redis_script_limits_default);
        assert_non_null(memmem(outcome.reply.data, outcome.reply.size, "nonexistent global", 18));
        outcome_clear(&outcome);
    }
    assert_reply("return string.dump == nil", ":1\r\n");
    assert_reply("return {loadstring('\\27Lua')}", "*0\r\n");
    assert_reply("return select(2, loadstring('\\27Lua'))",
                 "$30\r\nprecompiled chunks are refused\r\n");
    assert_reply("local n = 0 return select(2, load(function() n = n + 1 return n == 1 and "
                 "'\\27Lua' or nil end))",
                 "$30\r\nprecompiled chunks are refused\r\n");
    assert_reply("\033Lua",
                 "-ERR Error compiling script (new function): user_script: bad header in "
                 "precompiled chunk\r\n");
}

/* --- Bounds. --- */

static void scripts_without_end_are_stopped(void **state) {
    static const char *const endless[] = {
        "while true do end",
        "repeat until false",
        "for i = 1, math.huge do end",
        "while true do pcall(function() while true do end end) end",
        "pcall(function() while true do end end) return 1",
        "while true do pcall(error) end",
        "xpcall(function() while true do end end, function() while true do end end)",
        "coroutine.wrap(function() while true do end end)()",
        "while true do coroutine.wrap(function() local x = 0 for i = 1, 30 do x = x + i end end)() "
        "end",
        "coroutine.resume(coroutine.create(function() while true do end end)) return 1",
        "local t = setmetatable({}, {__index = function(t, k) while true do end end}) return t.x",
        "load(function() while true do end end)",
        "while true do redis.call('ping') end",
        "return (('a'):rep(40)):find(('a*'):rep(30) .. 'b')",
        "return (('a'):rep(5000)):match('.-.-.-.-b')",
        "for _ in (('a'):rep(100000)):gmatch('(.-)b') do end while true do end",
        "while true do ('x'):rep(1000):find('y', 1, true) end",
        "local t = {} for i = 1, 50000 do t[i] = 1 end while true do table.insert(t, 1, 5) "
        "table.remove(t, 1) end",
        "local t = {} for i = 1, 50000 do t[i] = i % 7 end while true do table.sort(t) end",
        "local t = {} for i = 1, 10000 do t[i] = i end while true do table.sort(t, rawequal) end",
        "local t = {} for i = 1, 5000 do t[i] = i end while true do local x = {unpack(t)} end",
        "local t = {} for i = 1, 9000 do t[i] = 'x' end while true do table.concat(t) end",
        "while true do cjson.encode({1, 2, 3}) end",
        "local s = cjson.encode({('x'):rep(10000)}) while true do cjson.decode(s) end",
        "while true do cmsgpack.unpack(cmsgpack.pack({1, 2, 3})) end",
        "while true do struct.unpack('i4', struct.pack('i4', 1)) end",
        "while true do string.format('%099d', 1) end",
        "while true do redis.sha1hex(('x'):rep(1000)) end",
        "while true do loadstring('return 1') end",
        /* Handlers of errors run where nothing is counted, once the text of the end is known. */
        "local s = 'script stopped' xpcall(function() while true do end end, "
        "function() while true do end end) return s",
        "for i = 1, 1000 do table.insert({}, -2147483647, 1) end",
        "for i = 1, 1000 do table.insert({}, 2147483649, 1) end",
        "for i = 1, 1000 do table.insert({1}, -2 ^ 31, 1) end",
        /* Lua goes through all jumps before each of these. */
        "local s = 'local x x=x ' .. ('or x '):rep(65000) for i = 1, 3 do loadstring(s) end",
        "local s = ('do break end '):rep(20000) loadstring('while true do ' .. s .. ' end')",
        /* A name is sought in every function around it. */
        "local s = ('local function a() local a' .. (',a'):rep(190) .. ' '):rep(180) "
        "loadstring(s .. 'b{b' .. (',b'):rep(20000) .. '}' .. (' end'):rep(180))",
        "local s = ('local function a() --[=[ end ]] ]=] local a' .. (',a'):rep(190) .. ' "
        "'):rep(180) "
        "loadstring(s .. '_=\"end\\\\\" b{b' .. (',b'):rep(20000) .. '}' .. (' end'):rep(180))",
    };
    for (size_t i = 0; i < sizeof endless / sizeof endless[0]; i++) {
        assert_status(endless[i], STATUS_TOO_MANY_OPERATIONS);
    }
}

static uint64_t work_of(const char *before, const char *call, int n) {
    char source[256];
    struct outcome outcome;
    snprintf(source, sizeof source, "%s for i = 1, %d do local x = %s end", before, n, call);
    run_with(&outcome, source, NULL, 0, &roomy);
    assert_int_equal(outcome.status, STATUS_OK);
    outcome_clear(&outcome);
    return redis_script_last_work();
}

/* What is made again and again is there already: nothing of it is allocated. In each of these, one
 * call is more work than the instructions around it. */
static void results_that_are_there_already_are_counted(void **state) {
    enum { LEAST_WORK = 400 };
    static const struct {
        const char *before;
        const char *call;
    } scripts[] = {
        {"local t = {} for i = 1000001, 1001000 do t[i] = 1.5e-300 end",
         "table.concat(t, '', 1000001, 1001000)"},
        {"local t = {} for i = 1, 1000 do t[i] = 1.5e-300 end", "table.concat(t)"},
        {"local s = ('A'):rep(20000)", "s:lower()"},
        {"local s = ('a'):rep(20000)", "s:upper()"},
        {"local s = ('A'):rep(20000)", "s:reverse()"},
        {"local s = ('A'):rep(4000)", "s:byte(1, -1)"},
        {"local t = {} for i = 1, 4000 do t[i] = 65 end", "string.char(unpack(t))"},
        {"local s = ('A'):rep(20000)", "string.format('%q', s)"},
        {"local s = ('%.1e'):rep(100) local t = {} for i = 1, 100 do t[i] = 4.9e-310 end",
         "string.format(s, unpack(t))"},
        {"local s = ('z'):rep(20000)", "tonumber(s, 36)"},
    };
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        uint64_t once = work_of(scripts[i].before, scripts[i].call, 1);
        uint64_t often = work_of(scripts[i].before, scripts[i].call, 101);
        if (often - once < 100 * LEAST_WORK) {
            fail_msg("%s costs %d", scripts[i].call, (int)((often - once) / 100));
        }
    }
}

static void positions_that_are_no_numbers_are_errors(void **state) {
    assert_reply("return pcall(cmsgpack.unpack_one, 'x', 0/0) and 1 or 0", ":0\r\n");
    assert_reply("return pcall(cmsgpack.unpack_limit, 'x', 1, 0/0) and 1 or 0", ":0\r\n");
    assert_reply("return pcall(cmsgpack.unpack_limit, 'x', 0/0, 0) and 1 or 0", ":0\r\n");
    assert_reply("return pcall(cmsgpack.unpack_one, 'x', -1e300) and 1 or 0", ":0\r\n");
    assert_reply("local t = {1, 2, 3} return table.remove(t, -5) == nil and #t", ":3\r\n");
    assert_reply("local t = {1, 2, 3} table.insert(t, 1, 0) return t[4]", ":3\r\n");
}

enum { COLLIDING_SIZE = 32, COLLIDING_N = 20000 };

/* Lua looks at every second byte of strings that are as long as these. */
static void collide(struct bytes *strings, uint8_t (*bytes)[COLLIDING_SIZE], size_t differs_at) {
    for (size_t i = 0; i < COLLIDING_N; i++) {
        memset(bytes[i], 'x', COLLIDING_SIZE);
        for (size_t digit = 0; digit < 8; digit++) {
            bytes[i][2 * digit + differs_at] = (uint8_t)('a' + (i >> (2 * digit)) % 4);
        }
        strings[i] = bytes_of(bytes[i], COLLIDING_SIZE);
    }
}

static void strings_that_collide_are_counted(void **state) {
    struct bytes *strings = calloc(COLLIDING_N, sizeof *strings);
    uint8_t(*bytes)[COLLIDING_SIZE] = calloc(COLLIDING_N, sizeof *bytes);
    struct outcome outcome;
    assert_non_null(strings);
    assert_non_null(bytes);
    collide(strings, bytes, 0);
    run_with(&outcome, "return 1", strings, COLLIDING_N, &redis_script_limits_default);
    assert_int_equal(outcome.status, STATUS_TOO_MANY_OPERATIONS);
    outcome_clear(&outcome);
    collide(strings, bytes, 1);
    run_with(&outcome, "return #ARGV", strings, COLLIDING_N, &redis_script_limits_default);
    assert_int_equal(outcome.status, STATUS_OK);
    outcome_clear(&outcome);
    /* The same one, however often, is found at once. */
    for (size_t i = 0; i < COLLIDING_N; i++) {
        strings[i] = strings[i % 2];
    }
    run_with(&outcome, "return #ARGV", strings, COLLIDING_N, &redis_script_limits_default);
    assert_int_equal(outcome.status, STATUS_OK);
    outcome_clear(&outcome);
    free(bytes);
    free(strings);
}

static void scripts_that_take_too_much_memory_are_stopped(void **state) {
    static const char *const greedy[] = {
        "return string.rep('x', 1e9)",
        "return string.rep('x', 2^53)",
        "local s = 'x' while true do s = s .. s end",
        "pcall(string.rep, 'x', 1e9) return 1",
        "local s = string.rep('x', 1000000) local t = {} for i = 1, 20 do t[i] = s .. i end",
        "return cjson.encode({string.rep('\\1', 2000000)})",
    };
    for (size_t i = 0; i < sizeof greedy / sizeof greedy[0]; i++) {
        assert_status_within(greedy[i], &roomy, STATUS_REQUEST_TOO_LARGE);
    }
}

static void replies_are_bounded(void **state) {
    assert_status_within("return string.rep('x', 2000000)", &roomy, STATUS_REQUEST_TOO_LARGE);
    assert_status_within("local t = {1} for i = 1, 40 do t = {t, t} end return t", &roomy,
                         STATUS_REQUEST_TOO_LARGE);
    assert_status_within("local t = {} for i = 1, 40 do t = {map={a=t, b=t}} end return t", &roomy,
                         STATUS_REQUEST_TOO_LARGE);
}

static void deep_recursion_is_an_error(void **state) {
    struct outcome outcome;
    static const char *const deep[] = {
        "local function f() return f() + 1 end return f()",
        "local function f() return pcall(f) end return f()",
        "local f f = function() return coroutine.wrap(f)() end return f()",
        "local t = {} t[1] = t return cjson.encode(t)",
        "return cjson.decode(string.rep('[', 100000))",
        "return loadstring(string.rep('(', 10000) .. '1')",
        "return ('x'):rep(1000):find(('x?'):rep(1000))",
        "local m = {} m.__index = function(t, k) return t[k] end return setmetatable({}, m).x",
        "local f f = function() return ('x'):gsub('x', f) end return f()",
        "local f f = function() table.sort({1, 2, 3}, f) end return f()",
        "local t = {} t[1] = t return t",
        "return cmsgpack.unpack(string.rep('\\145', 100000))",
    };
    for (size_t i = 0; i < sizeof deep / sizeof deep[0]; i++) {
        run_with(&outcome, deep[i], NULL, 0, &roomy);
        assert_int_equal(outcome.status, STATUS_OK);
        outcome_clear(&outcome);
    }
}

static void a_bound_is_met_at_the_same_step_compiled_or_not(void **state) {
    static const char source[] = "for i = 1, 1000 do redis.call('ping') local t = {i, tostring(i), "
                                 "{}} t[t] = i end return 1";
    struct outcome first;
    struct outcome again;
    for (uint64_t work = 500; work < 400000; work = work * 5 / 4) {
        struct redis_script_limits limits = redis_script_limits_default;
        limits.work = work;
        redis_script_forget();
        run_with(&first, source, NULL, 0, &limits);
        run_with(&again, source, NULL, 0, &limits);
        assert_int_equal(first.status, again.status);
        assert_int_equal(first.host.n_calls, again.host.n_calls);
        outcome_clear(&first);
        outcome_clear(&again);
    }
    for (size_t memory = 40000; memory < 400000; memory += 7000) {
        struct redis_script_limits limits = redis_script_limits_default;
        limits.memory = memory;
        redis_script_forget();
        run_with(&first, source, NULL, 0, &limits);
        run_with(&again, source, NULL, 0, &limits);
        assert_int_equal(first.status, again.status);
        assert_int_equal(first.host.n_calls, again.host.n_calls);
        outcome_clear(&first);
        outcome_clear(&again);
    }
}

static void sources_are_checked_and_bounded(void **state) {
    struct buffer out;
    buffer_init(&out);
    enum status status =
        redis_script_check(bytes_from_text("return 1"), &redis_script_limits_default, &out);
    assert_int_equal(status, STATUS_OK);
    assert_int_equal(out.size, 0);
    status = redis_script_check(bytes_from_text("return ="), &redis_script_limits_default, &out);
    assert_int_equal(status, STATUS_OK);
    assert_non_null(memmem(out.data, out.size, "Error compiling script", 22));
    out.size = 0;
    char *large = calloc(1, REDIS_SCRIPT_SIZE_MAX + 1);
    status = redis_script_check(bytes_of(large, REDIS_SCRIPT_SIZE_MAX + 1),
                                &redis_script_limits_default, &out);
    assert_int_equal(status, STATUS_REQUEST_TOO_LARGE);
    free(large);
    buffer_clear(&out);
    assert_reply("", "_\r\n");
}

static void what_a_script_costs_is_expected_the_next_time(void **state) {
    static const char heavy[] = "for i = 1, 20000 do end return 1";
    static const char release[] = "if redis.call('get', 'k') == 'v' then return "
                                  "redis.call('del', 'k') else return 0 end";
    static const char many[] = "for i, key in ipairs(KEYS) do redis.call('del', key) end return 1";
    static const char *const others[] = {"return redis.call('KEYS', ARGV[1])",
                                         "return redis.call(ARGV[1], ARGV[2])",
                                         "local c = redis.call return c('get', 'k')"};
    enum redis_script_look look;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        (void)redis_script_expected_work(bytes_from_text(others[i]), &look);
        assert_int_equal(look, REDIS_SCRIPT_LOOKS_AT_ALL);
    }
    redis_script_forget();
    assert_int_equal(redis_script_expected_work(bytes_from_text(heavy), &look),
                     REDIS_SCRIPT_WORK_UNKNOWN);
    assert_int_equal(look, REDIS_SCRIPT_LOOKS_ORDINARY);
    assert_int_equal(redis_script_expected_work(bytes_from_text(release), &look), 0);
    assert_int_equal(redis_script_expected_work(bytes_from_text(many), &look), 0);
    assert_int_equal(look, REDIS_SCRIPT_LOOKS_CHEAP);
    assert_reply(heavy, ":1\r\n");
    assert_true(redis_script_expected_work(bytes_from_text(heavy), &look) >= 20000);
    assert_int_equal(redis_script_expected_work(bytes_from_text(heavy), &look),
                     redis_script_last_work());
    assert_reply(release, ":0\r\n");
    assert_true(redis_script_expected_work(bytes_from_text(release), &look) < 2048);
}

static void many_scripts_are_compiled_in_turn(void **state) {
    char source[64];
    char expected[32];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 200; i++) {
            snprintf(source, sizeof source, "return %d", i);
            snprintf(expected, sizeof expected, ":%d\r\n", i);
            assert_reply(source, expected);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replies_are_those_of_redis),
        cmocka_unit_test(replies_become_lua_values),
        cmocka_unit_test(replies_become_richer_values_after_setresp_3),
        cmocka_unit_test(a_host_that_refuses_ends_the_run),
        cmocka_unit_test(keys_and_arguments_reach_the_host),
        cmocka_unit_test(a_run_leaves_nothing_to_the_next),
        cmocka_unit_test(texts_tell_no_address),
        cmocka_unit_test(tables_with_addresses_as_keys_have_no_order),
        cmocka_unit_test(there_is_no_way_out),
        cmocka_unit_test(scripts_without_end_are_stopped),
        cmocka_unit_test(results_that_are_there_already_are_counted),
        cmocka_unit_test(positions_that_are_no_numbers_are_errors),
        cmocka_unit_test(strings_that_collide_are_counted),
        cmocka_unit_test(scripts_that_take_too_much_memory_are_stopped),
        cmocka_unit_test(replies_are_bounded),
        cmocka_unit_test(deep_recursion_is_an_error),
        cmocka_unit_test(a_bound_is_met_at_the_same_step_compiled_or_not),
        cmocka_unit_test(sources_are_checked_and_bounded),
        cmocka_unit_test(what_a_script_costs_is_expected_the_next_time),
        cmocka_unit_test(many_scripts_are_compiled_in_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
