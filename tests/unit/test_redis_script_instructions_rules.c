/* Work that Lua does within one instruction, or one call of its own libraries: it is counted, and a
 * script that has no more of it is stopped at the same step in every run. */
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

static enum status count_call(void *context, const struct bytes *argv, size_t argc,
                              struct buffer *out) {
    size_t *n_calls = context;
    (void)argv;
    (void)argc;
    (*n_calls)++;
    redis_reply_integer(out, (int64_t)*n_calls);
    return STATUS_OK;
}

struct outcome {
    enum status status;
    uint64_t work;
    size_t n_calls;
    struct buffer reply;
};

static struct outcome run(const char *source, uint64_t work_max) {
    struct outcome outcome = {0};
    struct redis_script_host host = {.context = &outcome.n_calls, .call = count_call};
    struct redis_script script = {.source = bytes_from_text(source)};
    struct redis_script_limits limits = redis_script_limits_default;
    limits.work = work_max;
    buffer_init(&outcome.reply);
    outcome.status = redis_script_run(&script, &host, &limits, &outcome.reply);
    outcome.work = redis_script_last_work();
    return outcome;
}

struct hostile {
    const char *before;
    const char *step;    /* what is done again and again, … */
    uint64_t work_least; /* … and what it is worth at least */
};

#define COLLIDING                                                                                  \
    "local function key(i) return struct.unpack('<d', struct.pack('<I4I4', i, 0x40000000 - i)) "   \
    "end "
#define LOCALS_60                                                                                  \
    "a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, a17, a18, a19, a20, "  \
    "a21, a22, a23, a24, a25, a26, a27, a28, a29, a30, a31, a32, a33, a34, a35, a36, a37, a38, "   \
    "a39, a40, a41, a42, a43, a44, a45, a46, a47, a48, a49, a50, a51, a52, a53, a54, a55, a56, "   \
    "a57, a58, a59, a60"

static const struct hostile hostiles[] = {
    {"local a = ('\\0'):rep(5000) local b = a .. 'x' a = a .. 'y'", "local x = a < b", 5000},
    {"local a = ('\\0'):rep(5000) local b = a .. 'x' a = a .. 'y'", "local x = a <= b", 5000},
    {"local t = {('\\0'):rep(5000) .. 'x', ('\\0'):rep(5000)}", "table.sort(t)", 5000},
    {"local a = ('a'):rep(100000) local b = a .. 'x' a = a .. 'y'", "local x = a < b", 350},
    {"local a = ('9'):rep(5000)", "local x = a + 1", 1000},
    {"local a = ('9'):rep(5000)", "local x = -a", 1000},
    {"local a = ('9'):rep(5000)", "for i = a, 1 do end", 1000},
    {"local a = '4.' .. ('9'):rep(760) .. 'e-324'", "local x = a * a", 350},
    {"local a = '1' .. (' '):rep(5000)", "local x = a + 1", 1000},
    {"local a = '0x' .. ('0'):rep(5000)", "local x = a + 1", 1000},
    {"local a = ('9'):rep(5000)", "math.abs(a)", 1000},
    {"local a = ('9'):rep(5000)", "redis.sha1hex(a / 1)", 1000},
    {"local a, b = 1.7e308, 4.9e-324", "math.fmod(a, b)", 200},
    {"local a, b = 1.7e308, 4.9e-324", "math.mod(a, b)", 200},
    {"local t = {} for i = 1, 98 do t = setmetatable({}, {__index = t}) end", "local x = t.x", 98},
    {"local b = {} local t = b for i = 1, 98 do t = setmetatable({}, {__newindex = t}) end",
     "t.x = 1 b.x = nil", 98},
    {COLLIDING "local a, b = {}, {} for i = 1, 200 do a[key(i)] = 1 b[key(i)] = 1 end "
               "setmetatable(a, {__index = b}) setmetatable(b, {__index = a}) "
               "local k = key(1000) local function f() return a[k] end",
     "pcall(f)", 1000},
    {COLLIDING "local a = {} for i = 1, 200 do a[key(i)] = 1 end local k = key(1000)",
     "local x = a[k]", 24},
    {"getmetatable('').__index = 's' local s = 's' local f = function() return s.x end", "pcall(f)",
     150},
    {"getmetatable('').__newindex = 's' local s = 's' local f = function() s.x = 1 end", "pcall(f)",
     150},
    {"local f = loadstring('local a a()', ('x'):rep(250000))", "pcall(f)", 30000},
    {"local name = ('x'):rep(250000)", "loadstring('', name)", 15000},
    {"local name = '@' .. ('x'):rep(250000)", "load(function() end, name)", 15000},
    {"local a = 1.7e308", "local x = a .. ''", 64},
    {"local a = 1.7e308", "tostring(a)", 64},
    {"local a = 4.9e-324", "string.len(a)", 64},
    {"local a = 1.7e308", "local x = ('%.99f'):format(a)", 100},
    {"local t = {} for i = 1, 64 do t[i + .5] = 1 end for i = 1, 1024 do t[i] = 1 end "
     "for i = 1, 64 do t[i + .5] = nil end local j = 1025 while j < 2 ^ 31 do t[j] = 1 j = j * 2 "
     "end",
     "local x = #t", 128},
    {"local " LOCALS_60, "local f = function() return " LOCALS_60 " end", 900},
    {"local s = ('a'):rep(20000) .. '%d' local format = string.format", "pcall(format, s)", 2000},
    {"local s = 'i' .. ('0'):rep(5000) .. '4' local pack = struct.pack", "pcall(pack, s, 1)", 5000},
    {"local t = {} for i = 1, 100 do t[i] = 1.7e308 end t[101] = {}",
     "pcall(redis.call, unpack(t))", 1600},
    {"local t = {} for i = 1, 100 do t[i] = 1.7e308 end", "cjson.encode(t)", 1600},
};

static uint64_t work_of(const struct hostile *hostile, int n) {
    char source[2048];
    int size = snprintf(source, sizeof source, "%s for i = 1, %d do %s end", hostile->before, n,
                        hostile->step);
    assert_true(size > 0 && (size_t)size < sizeof source);
    struct outcome outcome = run(source, 100 * 1000 * 1000);
    assert_int_equal(outcome.status, STATUS_OK);
    buffer_clear(&outcome.reply);
    return outcome.work;
}

static void work_within_one_instruction_is_counted(void **state) {
    for (size_t i = 0; i < sizeof hostiles / sizeof hostiles[0]; i++) {
        uint64_t once = work_of(&hostiles[i], 1);
        uint64_t often = work_of(&hostiles[i], 101);
        if (often - once < 100 * hostiles[i].work_least) {
            fail_msg("%s\n costs %d", hostiles[i].step, (int)((often - once) / 100));
        }
    }
}

/* The host tells how far it came; a comparison that was cut short must not let it go on. */
static void it_is_stopped_at_the_same_step_in_every_run(void **state) {
    for (size_t i = 0; i < sizeof hostiles / sizeof hostiles[0]; i++) {
        char source[2048];
        snprintf(source, sizeof source,
                 "%s while true do %s redis.call('ping') pcall(redis.call, 'ping') end",
                 hostiles[i].before, hostiles[i].step);
        for (uint64_t work = 200 * 1000; work < 210 * 1000; work += 3331) {
            redis_script_forget();
            struct outcome first = run(source, work);
            struct outcome again = run(source, work);
            assert_int_equal(first.status, STATUS_TOO_MANY_OPERATIONS);
            assert_int_equal(again.status, STATUS_TOO_MANY_OPERATIONS);
            assert_int_equal(first.n_calls, again.n_calls);
            assert_int_equal(first.work, again.work);
            assert_int_equal(first.reply.size, 0);
            buffer_clear(&first.reply);
            buffer_clear(&again.reply);
        }
    }
}

/* Nothing after the instruction that had no more work: neither a call nor a reply. */
static void a_script_that_ends_behind_it_is_stopped(void **state) {
    static const char *const sources[] = {
        "local a = ('\\0'):rep(50000) local b = a .. 'x' local x = a < b return 1",
        "local a = ('\\0'):rep(50000) local b = a .. 'x' local x = a < b redis.call('ping')",
        "local a = ('\\0'):rep(50000) local b = a .. 'x' return pcall(function() return a < b end)",
        "local a = ('\\0'):rep(50000) return coroutine.wrap(function() return a < a .. 1 end)()",
        "local a = ('9'):rep(200000) return a + 1",
        "local a = ('9'):rep(200000) return pcall(function() return a + 1 end)",
    };
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        struct outcome outcome = run(sources[i], 50 * 1000);
        assert_int_equal(outcome.status, STATUS_TOO_MANY_OPERATIONS);
        assert_int_equal(outcome.n_calls, 0);
        assert_int_equal(outcome.reply.size, 0);
        buffer_clear(&outcome.reply);
    }
}

/* An error names a variable, which Lua finds by going through the whole function. */
static void errors_cost_what_the_longest_source_is(void **state) {
    enum { MOVES = 8000, MOVE_SIZE = 4, LEAST = MOVES * MOVE_SIZE / 8 };
    static const char *const steps[] = {"pcall(f)", "xpcall(f, tostring)",
                                        "coroutine.resume(coroutine.create(f))",
                                        "pcall(coroutine.wrap(f))"};
    char *source = malloc(MOVES * MOVE_SIZE + 1024);
    assert_non_null(source);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        uint64_t work[2];
        for (int often = 0; often < 2; often++) {
            char *at = source + sprintf(source, "local c = {} local function f() local x, y "
                                                "if c then else ");
            for (int move = 0; move < MOVES; move++) {
                at += sprintf(at, "x=y ");
            }
            sprintf(at, "end return c.y.z end for i = 1, %d do %s end", often ? 101 : 1, steps[i]);
            struct outcome outcome = run(source, 100 * 1000 * 1000);
            assert_int_equal(outcome.status, STATUS_OK);
            buffer_clear(&outcome.reply);
            work[often] = outcome.work;
        }
        assert_true(work[1] - work[0] >= 100 * LEAST);
    }
    free(source);
}

static void assert_reply(const char *source, const char *expected) {
    struct outcome outcome = run(source, REDIS_SCRIPT_WORK_MAX);
    assert_int_equal(outcome.status, STATUS_OK);
    if (outcome.reply.size != strlen(expected) ||
        memcmp(outcome.reply.data, expected, outcome.reply.size) != 0) {
        fail_msg("%s\n gives %.*s\n instead of %s", source, (int)outcome.reply.size,
                 (const char *)outcome.reply.data, expected);
    }
    buffer_clear(&outcome.reply);
}

static void results_are_those_of_lua(void **state) {
    assert_reply("return ('a' < 'b' and 1 or 0) + ('b' < 'a' and 2 or 0) + ('a' < 'a' and 4 or 0)",
                 ":1\r\n");
    assert_reply("return ('a\\0b' < 'a\\0c' and 1 or 0) + ('a\\0' < 'a' and 2 or 0)", ":1\r\n");
    assert_reply("return ('' < '\\0' and 1 or 0) + ('\\127' < '\\128' and 2 or 0)", ":3\r\n");
    assert_reply("local a = ('x'):rep(256) return (a < a .. '\\0' and 1 or 0) + "
                 "(a <= a and 2 or 0) + (a .. 'a' < a .. 'b' and 4 or 0) + (a < a and 8 or 0)",
                 ":7\r\n");
    assert_reply("local a = ('x'):rep(1000) return (a .. 'b' < a .. 'a' and 1 or 0) + "
                 "(a .. 'a\\0z' < a .. 'b' and 2 or 0)",
                 ":2\r\n");
    assert_reply("return '0x10' + ' 12 ' + '1e1'", ":38\r\n");
    assert_reply("return pcall(function() return 'x' + 1 end) and 1 or 0", ":0\r\n");
    assert_reply("return 1e15 .. ' ' .. 0.1 .. ' ' .. -1 .. ' ' .. 2^53",
                 "$31\r\n1e+15 0.1 -1 9.007199254741e+15\r\n");
    assert_reply("return ('%5.1f|%-4d|%x|%q|%s'):format(1.25, 7, 255, 'a', 'b')",
                 "$19\r\n  1.2|7   |ff|\"a\"|b\r\n");
    assert_reply("return #('%99.99f'):format(1.7e308)", ":409\r\n");
    assert_reply("return math.fmod(7, 3) * 100 + math.fmod(-7, 3) + math.fmod(1e300, 7)",
                 ":100\r\n");
    assert_reply("local t = setmetatable({}, {__index = setmetatable({}, {__index = {x = 5}})}) "
                 "return t.x",
                 ":5\r\n");
    assert_reply("local t = {1, 2, nil, 4} return #t", ":4\r\n");
    assert_reply("local t = {[0.5] = 1, [true] = 2} return t[0.5] + t[true]", ":3\r\n");
    assert_reply("local a, b = 1, 2 local function f() a = a + b return a end f() return f()",
                 ":5\r\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_within_one_instruction_is_counted),
        cmocka_unit_test(it_is_stopped_at_the_same_step_in_every_run),
        cmocka_unit_test(a_script_that_ends_behind_it_is_stopped),
        cmocka_unit_test(errors_cost_what_the_longest_source_is),
        cmocka_unit_test(results_are_those_of_lua),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
