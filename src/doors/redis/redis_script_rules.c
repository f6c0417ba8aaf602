#include "doors/redis/redis_script_rules.h"

#include "doors/redis/redis_reply.h"
#include "doors/redis/redis_script_state_rules.h"

#include <assert.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdatomic.h>
#include <stdio.h> /* snprintf */
#include <stdlib.h>

enum {
    HOOK_INTERVAL = 128, /* instructions */
    CHEAP_SIZE_MAX = 4096,
    COMPILED_MAX = 64, /* scripts whose image is kept … */
    COMPILED_BYTES_MAX = 8 * 1024 * 1024,
    LIVE_SHIFT = 12,        /* how the cost of an instruction grows with what a script holds … */
    LIVE_SQUARE_SHIFT = 16, /* … and with its square */
};

/* Places in the registry. */
enum { REGISTRY_CHUNK = 1, REGISTRY_GLOBALS = 2 };

const struct redis_script_limits redis_script_limits_default = {
    .work = REDIS_SCRIPT_WORK_MAX,
    .memory = REDIS_SCRIPT_MEMORY_MAX,
    .reply_size = REDIS_SCRIPT_REPLY_SIZE_MAX,
};

struct compiled {
    struct redis_script_image image;
    uint8_t *source;
    size_t source_size;
    uint64_t used_at;  /* which of them was not used for longest */
    uint64_t work_max; /* of its runs so far */
    enum redis_script_look look;
};

static struct {
    atomic_flag is_busy; /* there is one interpreter, at one address */
    lua_State *lua;
    struct redis_script_image pristine;
    struct redis_script_run *run;
    struct compiled compiled[COMPILED_MAX];
    size_t n_compiled;
    size_t compiled_bytes;
    uint64_t uses;
    size_t live_base;           /* what every script has … */
    const void *globals_events; /* … and the metatable of _G */
    uint64_t last_work;         /* of the run that ended last */
} machine = {.is_busy = ATOMIC_FLAG_INIT};

struct redis_script_run *redis_script_current(void) {
    return machine.run;
}

/* --- Bounds. --- */

int redis_script_stop(lua_State *lua, enum status status) {
    machine.run->stopped = status;
    lua_pushliteral(lua, "script stopped");
    return lua_error(lua);
}

void redis_script_charge(lua_State *lua, uint64_t work) {
    struct redis_script_run *run = machine.run;
    run->counters->work += work;
    if (run->counters->work > run->limits.work) {
        redis_script_stop(lua, STATUS_TOO_MANY_OPERATIONS);
    }
}

bool redis_script_count(uint64_t work) {
    struct redis_script_run *run = machine.run;
    run->counters->work += work;
    if (run->counters->work > run->limits.work && run->stopped == STATUS_OK) {
        run->stopped = STATUS_TOO_MANY_OPERATIONS;
    }
    return run->stopped == STATUS_OK;
}

void redis_script_rethrow(lua_State *lua) {
    if (machine.run->stopped != STATUS_OK) {
        redis_script_stop(lua, machine.run->stopped);
    }
}

bool redis_script_is_of_globals(const void *metatable) {
    return metatable == machine.globals_events;
}

uint64_t redis_script_step_cost(void) {
    uint64_t live = machine.run->counters->live;
    live = live > machine.live_base ? live - machine.live_base : 0;
    uint64_t root = live >> LIVE_SQUARE_SHIFT;
    return 1 + (live >> LIVE_SHIFT) + root * root;
}

static void on_instructions(lua_State *lua, lua_Debug *debug) {
    (void)debug;
    redis_script_rethrow(lua);
    redis_script_charge(lua, HOOK_INTERVAL * redis_script_step_cost());
}

/* --- The state that every script begins with. --- */

void redis_script_set_functions(lua_State *lua, const struct redis_script_function *functions) {
    for (; functions->name != NULL; functions++) {
        lua_pushcfunction(lua, functions->function);
        lua_setfield(lua, -2, functions->name);
    }
}

static int refuse_new_global(lua_State *lua) {
    return luaL_error(lua, "Attempt to modify a readonly table");
}

static int refuse_unknown_global(lua_State *lua) {
    const char *name = lua_tostring(lua, 2);
    return luaL_error(lua, "Script attempted to access nonexistent global variable '%s'",
                      name == NULL ? "?" : name);
}

static void open_library(lua_State *lua, const char *name, void (*open)(lua_State *)) {
    lua_newtable(lua);
    open(lua);
    lua_setfield(lua, -2, name);
}

/* Scripts see an empty table as _G, which looks in a table of their globals, which refuses what is
 * not there: so every assignment of a global is one of a new one, and is refused. */
static void protect_globals(lua_State *lua) {
    lua_newtable(lua);
    lua_pushcfunction(lua, refuse_unknown_global);
    lua_setfield(lua, -2, "__index");
    lua_setmetatable(lua, -2); /* of the table of globals */

    lua_newtable(lua); /* _G */
    lua_pushvalue(lua, -1);
    lua_setfield(lua, -3, "_G");
    lua_newtable(lua);
    lua_pushvalue(lua, -3);
    lua_setfield(lua, -2, "__index");
    lua_pushcfunction(lua, refuse_new_global);
    lua_setfield(lua, -2, "__newindex");
    lua_pushliteral(lua, "readonly");
    lua_setfield(lua, -2, "__metatable");
    machine.globals_events = lua_topointer(lua, -1);
    lua_setmetatable(lua, -2);
    lua_replace(lua, LUA_GLOBALSINDEX);
}

static int open_libraries(lua_State *lua) {
    lua_newtable(lua); /* of globals */
    redis_script_find_layout(lua);
    redis_script_open_base(lua);
    open_library(lua, "table", redis_script_open_table);
    open_library(lua, "math", redis_script_open_math);
    open_library(lua, "string", redis_script_open_string);
    open_library(lua, "redis", redis_script_open_redis);
    open_library(lua, "cjson", redis_script_open_json);
    open_library(lua, "struct", redis_script_open_struct);
    open_library(lua, "bit", redis_script_open_bit);
    open_library(lua, "cmsgpack", redis_script_open_msgpack);
    lua_pushvalue(lua, -1);
    lua_rawseti(lua, LUA_REGISTRYINDEX, REGISTRY_GLOBALS);
    protect_globals(lua);
    return 0;
}

static void make_machine(void) {
    struct redis_script_run *outer = machine.run;
    struct redis_script_run run = {.limits = redis_script_limits_default};
    machine.run = &run;
    run.counters = redis_script_memory_begin();
    machine.lua = lua_newstate(redis_script_memory_allocate, NULL);
    assert(machine.lua != NULL);
    int result = lua_cpcall(machine.lua, open_libraries, NULL);
    assert(result == 0);
    lua_gc(machine.lua, LUA_GCCOLLECT, 0);
    lua_sethook(machine.lua, on_instructions, LUA_MASKCOUNT, HOOK_INTERVAL);
    run.counters->work = 0;
    run.counters->live_max = run.counters->live;
    machine.live_base = run.counters->live;
    machine.pristine = redis_script_memory_save();
    machine.run = outer;
    if (outer != NULL) {
        outer->counters = run.counters;
    }
}

/* --- Compiled scripts. --- */

static struct compiled *find_compiled(struct bytes source) {
    for (size_t i = 0; i < machine.n_compiled; i++) {
        struct compiled *compiled = &machine.compiled[i];
        if (bytes_equal(bytes_of(compiled->source, compiled->source_size), source)) {
            compiled->used_at = ++machine.uses;
            return compiled;
        }
    }
    return NULL;
}

static void drop_compiled(struct compiled *compiled) {
    machine.compiled_bytes -= compiled->image.size + compiled->source_size;
    free(compiled->image.data);
    free(compiled->source);
    *compiled = machine.compiled[--machine.n_compiled];
}

static void drop_oldest(void) {
    struct compiled *oldest = &machine.compiled[0];
    for (size_t i = 1; i < machine.n_compiled; i++) {
        if (machine.compiled[i].used_at < oldest->used_at) {
            oldest = &machine.compiled[i];
        }
    }
    drop_compiled(oldest);
}

static size_t count_words(struct bytes source, const char *word) {
    size_t n = 0;
    size_t size = strlen(word);
    const uint8_t *at = source.data;
    const uint8_t *end = source.data + source.size;
    while ((at = memmem(at, (size_t)(end - at), word, size)) != NULL) {
        at += size;
        n++;
    }
    return n;
}

static bool has_any_word(struct bytes source, const char *const *words, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (count_words(source, words[i]) > 0) {
            return true;
        }
    }
    return false;
}

static bool begins_with(struct bytes text, const char *word) {
    size_t size = strlen(word);
    return text.size >= size && memcmp(text.data, word, size) == 0;
}

/* Whether each call of a command is of a key that the arguments name: redis_work_of() has looked at
 * that one. `word` is the end of the command's name. */
static bool are_keys_named(struct bytes source, const char *word) {
    size_t size = strlen(word);
    const uint8_t *at = source.data;
    const uint8_t *end = source.data + source.size;
    while ((at = memmem(at, (size_t)(end - at), word, size)) != NULL) {
        at += size;
        if (at == end || (*at != '\'' && *at != '"')) {
            continue; /* no command */
        }
        do {
            at++;
        } while (at < end && (*at == ',' || *at == ' '));
        struct bytes rest = bytes_of(at, (size_t)(end - at));
        const uint8_t *close = memchr(at, ']', rest.size);
        bool is_named = begins_with(rest, "keys[") || begins_with(rest, "argv[");
        if (!is_named || close == NULL || close + 1 == end ||
            (close[1] != ',' && close[1] != ')')) {
            return false; /* or it is made of a name */
        }
    }
    return true;
}

/* Whether it may write values again that are large, which nobody has looked at. */
static bool may_write_any_value(struct bytes source) {
    static const char *const words[] = {"expire",    "expireat", "persist", "append", "setrange",
                                        "rpoplpush", "lmove",    "getex",   "setbit", "bitfield"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (!are_keys_named(source, words[i])) {
            return true;
        }
    }
    return false;
}

/* Scripts of locks have calls one after the other, and loops over their keys or arguments at most.
 */
static enum redis_script_look look_of(struct bytes source) {
    static const char *const patterns[] = {"keys'", "keys\"", "scan"};
    /* Loops, functions of libraries, and commands that look at much. */
    static const char *const words[] = {
        "while", "repeat", "function", "load",    "rep",     "gsub",  "find",  "match",
        "sort",  "concat", "range",    "members", "diff",    "inter", "union", "getall",
        "vals",  "copy",   "rename",   "store",   "linsert", "lrem",  "mpop"};
    uint8_t lower[CHEAP_SIZE_MAX];
    if (source.size == 0 || source.size > CHEAP_SIZE_MAX) {
        return REDIS_SCRIPT_LOOKS_AT_ALL; /* or may do so somewhere */
    }
    for (size_t i = 0; i < source.size; i++) {
        uint8_t letter = source.data[i];
        lower[i] = letter >= 'A' && letter <= 'Z' ? (uint8_t)(letter + 'a' - 'A') : letter;
    }
    source.data = lower;
    /* Each call says which command it is of. */
    size_t n_calls = count_words(source, "call('") + count_words(source, "call(\"");
    bool has_any_command = count_words(source, "call") != n_calls ||
                           count_words(source, "redis") < n_calls ||
                           count_words(source, "redis[") > 0;
    if (has_any_command || has_any_word(source, patterns, sizeof patterns / sizeof patterns[0])) {
        return REDIS_SCRIPT_LOOKS_AT_ALL;
    }
    bool has_loops = count_words(source, "for") !=
                     count_words(source, " in ipairs(") + count_words(source, " in pairs(");
    return has_loops || may_write_any_value(source) ||
                   has_any_word(source, words, sizeof words / sizeof words[0])
               ? REDIS_SCRIPT_LOOKS_ORDINARY
               : REDIS_SCRIPT_LOOKS_CHEAP;
}

static void keep_compiled(struct bytes source) {
    struct compiled compiled = {.image = redis_script_memory_save(),
                                .source = malloc(source.size + 1),
                                .source_size = source.size,
                                .used_at = ++machine.uses,
                                .look = look_of(source)};
    assert(compiled.source != NULL);
    if (source.size > 0) {
        memcpy(compiled.source, source.data, source.size);
    }
    machine.compiled_bytes += compiled.image.size + compiled.source_size;
    while (machine.n_compiled > 0 &&
           (machine.n_compiled == COMPILED_MAX || machine.compiled_bytes > COMPILED_BYTES_MAX)) {
        drop_oldest();
    }
    machine.compiled[machine.n_compiled++] = compiled;
}

void redis_script_forget(void) {
    while (machine.n_compiled > 0) {
        drop_compiled(&machine.compiled[0]);
    }
}

static void put_compile_error(lua_State *lua, struct buffer *out) {
    size_t size = 0;
    const char *text = lua_tolstring(lua, -1, &size);
    struct buffer error;
    buffer_init(&error);
    static const char prefix[] = "ERR Error compiling script (new function): ";
    buffer_append(&error, prefix, sizeof prefix - 1);
    buffer_append(&error, text, size);
    redis_reply_error(out, bytes_of(error.data, error.size));
    buffer_clear(&error);
}

/* A first line "#!lua" with flags, which is left out. False: it is another, and the error is
 * appended. The line end stays, so that lines are counted as in the source. */
static bool skip_first_line(struct bytes *source, struct buffer *out) {
    if (source->size < 2 || memcmp(source->data, "#!", 2) != 0) {
        return true;
    }
    const uint8_t *end = memchr(source->data, '\n', source->size);
    if (end == NULL) {
        redis_reply_error_text(out, "ERR Invalid script shebang");
        return false;
    }
    size_t size = (size_t)(end - source->data);
    size_t word = 2;
    while (word < size && source->data[word] != ' ') {
        word++;
    }
    if (!bytes_equal(bytes_of(source->data + 2, word - 2), bytes_from_text("lua"))) {
        char text[128];
        int shown = word - 2 < 64 ? (int)word - 2 : 64;
        snprintf(text, sizeof text, "ERR Unexpected engine in script shebang: #!%.*s", shown,
                 (const char *)source->data + 2);
        redis_reply_error_text(out, text);
        return false;
    }
    *source = bytes_of(end, source->size - size);
    return true;
}

static int compile(lua_State *lua) {
    struct redis_script_run *run = lua_touserdata(lua, 1);
    struct bytes source = run->script->source;
    if (!skip_first_line(&source, run->out)) {
        return 0;
    }
    redis_script_charge_source(lua, source);
    if (source.size > 0 && source.data[0] == LUA_SIGNATURE[0]) {
        lua_pushliteral(lua, "user_script: bad header in precompiled chunk");
        put_compile_error(lua, run->out);
        return 0;
    }
    const char *text = source.size == 0 ? "" : (const char *)source.data;
    int result = luaL_loadbuffer(lua, text, source.size, "@user_script");
    redis_script_rethrow(lua);
    if (result != 0) {
        put_compile_error(lua, run->out);
        return 0;
    }
    lua_rawseti(lua, LUA_REGISTRYINDEX, REGISTRY_CHUNK);
    return 0;
}

/* Puts the interpreter in the state in which the script is compiled and not yet run. False: it does
 * not compile and its error is appended, or the run is stopped. */
static bool prepare(struct redis_script_run *run) {
    struct compiled *compiled = find_compiled(run->script->source);
    if (compiled != NULL) {
        redis_script_memory_restore(&compiled->image);
        if (run->counters->work > run->limits.work) {
            run->stopped = STATUS_TOO_MANY_OPERATIONS;
        } else if (run->counters->live_max > run->limits.memory) {
            run->stopped = STATUS_REQUEST_TOO_LARGE;
        }
        return run->stopped == STATUS_OK;
    }
    redis_script_memory_restore(&machine.pristine);
    int result = lua_cpcall(machine.lua, compile, run);
    assert(result == 0 || run->stopped != STATUS_OK);
    if (result != 0 || run->out->size > run->out_start) {
        return false;
    }
    /* What a failed allocation has left behind is nothing to keep; this one did not fail. */
    keep_compiled(run->script->source);
    return true;
}

/* --- A run. --- */

static void push_strings(lua_State *lua, const struct bytes *strings, size_t n) {
    lua_createtable(lua, (int)n, 0);
    for (size_t i = 0; i < n; i++) {
        redis_script_push_string(lua, strings[i]);
        lua_rawseti(lua, -2, (int)i + 1);
    }
}

/* The place of an error, as Redis tells it: of the function that raised it, or called what did. */
static int on_error(lua_State *lua) {
    lua_Debug debug;
    if (machine.run->stopped != STATUS_OK) {
        return 1;
    }
    bool is_known = false;
    for (int level = 1; !is_known && lua_getstack(lua, level, &debug) == 1; level++) {
        is_known = lua_getinfo(lua, "Sl", &debug) != 0 && debug.what[0] != 'C';
    }
    if (!lua_istable(lua, 1)) {
        const char *text = lua_tostring(lua, 1);
        if (text == NULL) {
            bool is_boolean = lua_isboolean(lua, 1);
            text = !is_boolean ? luaL_typename(lua, 1) : lua_toboolean(lua, 1) ? "true" : "false";
        }
        lua_createtable(lua, 0, 3);
        lua_pushfstring(lua, "ERR %s", text);
        lua_setfield(lua, -2, "err");
    }
    if (is_known) {
        lua_pushstring(lua, debug.source);
        lua_setfield(lua, -2, "source");
        lua_pushinteger(lua, debug.currentline);
        lua_setfield(lua, -2, "line");
    }
    return 1;
}

static void put_error(lua_State *lua, struct redis_script_run *run) {
    luaL_Buffer text;
    size_t size = 0;
    const char *message = NULL;
    if (lua_istable(lua, -1)) {
        lua_pushliteral(lua, "err");
        lua_rawget(lua, -2);
        message = lua_tolstring(lua, -1, &size);
        lua_pushliteral(lua, "source");
        lua_rawget(lua, -3);
        lua_pushliteral(lua, "line");
        lua_rawget(lua, -4);
    } else {
        message = lua_tolstring(lua, -1, &size); /* in the handler of errors itself */
        lua_pushnil(lua);
        lua_pushnil(lua);
    }
    luaL_checkstack(lua, LUA_MINSTACK, NULL);
    const char *source = lua_tostring(lua, -2);
    const char *line = lua_tostring(lua, -1);
    luaL_buffinit(lua, &text);
    if (message == NULL) {
        luaL_addstring(&text, "ERR unknown error");
    } else {
        luaL_addlstring(&text, message, size);
    }
    if (source != NULL && line != NULL) {
        char sha[REDIS_SCRIPT_SHA_SIZE];
        redis_script_sha(run->script->source, sha);
        luaL_addstring(&text, " script: ");
        luaL_addlstring(&text, sha, sizeof sha);
        luaL_addstring(&text, ", on ");
        luaL_addstring(&text, source);
        luaL_addchar(&text, ':');
        luaL_addstring(&text, line);
        luaL_addchar(&text, '.');
    }
    luaL_pushresult(&text);
    message = lua_tolstring(lua, -1, &size);
    redis_reply_error(run->out, bytes_of(message, size));
}

/* The result is no reply: a map whose keys have no order. */
static void put_conversion_error(lua_State *lua, struct redis_script_run *run) {
    char text[256];
    const char *message = lua_tostring(lua, -1);
    snprintf(text, sizeof text, "ERR %s", message == NULL ? "unknown error" : message);
    run->out->size = run->out_start;
    redis_reply_error_text(run->out, text);
}

static int execute(lua_State *lua) {
    struct redis_script_run *run = lua_touserdata(lua, 1);
    const struct redis_script *script = run->script;
    lua_rawgeti(lua, LUA_REGISTRYINDEX, REGISTRY_GLOBALS);
    push_strings(lua, script->keys, script->n_keys);
    lua_setfield(lua, -2, "KEYS");
    push_strings(lua, script->args, script->n_args);
    lua_setfield(lua, -2, "ARGV");
    lua_pushcfunction(lua, on_error);
    lua_rawgeti(lua, LUA_REGISTRYINDEX, REGISTRY_CHUNK);
    int result = lua_pcall(lua, 0, 1, -2);
    redis_script_rethrow(lua);
    if (result != 0) {
        put_error(lua, run);
    } else {
        redis_script_put_reply(lua);
    }
    return 0;
}

static enum status enter(struct redis_script_run *run) {
    if (run->script->source.size > REDIS_SCRIPT_SIZE_MAX) {
        return STATUS_REQUEST_TOO_LARGE;
    }
    while (atomic_flag_test_and_set_explicit(&machine.is_busy, memory_order_acquire)) {
        /* never, while one thread applies */
    }
    assert(machine.run == NULL);
    machine.run = run;
    if (machine.lua == NULL) {
        make_machine();
    }
    run->counters = redis_script_memory_counters();
    run->resp = 2;
    run->random = UINT64_C(0x1234abcd330e); /* where drand48() begins, and Redis */
    run->out_start = run->out->size;
    buffer_init(&run->reply);
    return STATUS_OK;
}

static void remember_work(struct redis_script_run *run) {
    struct compiled *compiled = find_compiled(run->script->source);
    machine.last_work = run->counters->work;
    if (compiled != NULL && compiled->work_max < machine.last_work) {
        compiled->work_max = machine.last_work;
    }
}

static enum status leave(struct redis_script_run *run) {
    if (run->stopped == STATUS_OK && run->out->size - run->out_start > run->limits.reply_size) {
        run->stopped = STATUS_REQUEST_TOO_LARGE;
    }
    if (run->stopped != STATUS_OK) {
        run->out->size = run->out_start;
    }
    buffer_clear(&run->reply);
    redis_script_chains_clear(run);
    remember_work(run);
    redis_script_memory_trim();
    machine.run = NULL;
    atomic_flag_clear_explicit(&machine.is_busy, memory_order_release);
    return run->stopped;
}

enum status redis_script_run(const struct redis_script *script,
                             const struct redis_script_host *host,
                             const struct redis_script_limits *limits, struct buffer *out_reply) {
    struct redis_script_run run = {
        .script = script, .host = host, .limits = *limits, .out = out_reply};
    enum status status = enter(&run);
    if (status != STATUS_OK) {
        return status;
    }
    if (prepare(&run)) {
        if (lua_cpcall(machine.lua, execute, &run) != 0 && run.stopped == STATUS_OK) {
            put_conversion_error(machine.lua, &run);
        }
    }
    return leave(&run);
}

enum status redis_script_check(struct bytes source, const struct redis_script_limits *limits,
                               struct buffer *out_error) {
    struct redis_script script = {.source = source};
    struct redis_script_run run = {.script = &script, .limits = *limits, .out = out_error};
    enum status status = enter(&run);
    if (status != STATUS_OK) {
        return status;
    }
    prepare(&run);
    return leave(&run);
}

void redis_script_sha(struct bytes source, char out_digits[REDIS_SCRIPT_SHA_SIZE]) {
    static const char digits[] = "0123456789abcdef";
    uint8_t digest[SHA1_SIZE];
    sha1(source, digest);
    for (size_t i = 0; i < SHA1_SIZE; i++) {
        out_digits[2 * i] = digits[digest[i] >> 4];
        out_digits[2 * i + 1] = digits[digest[i] & 15];
    }
}

/* --- What a run may cost. --- */

uint64_t redis_script_last_work(void) {
    return machine.last_work;
}

uint64_t redis_script_expected_work(struct bytes source, enum redis_script_look *out_look) {
    for (size_t i = 0; i < machine.n_compiled; i++) {
        const struct compiled *compiled = &machine.compiled[i];
        if (bytes_equal(bytes_of(compiled->source, compiled->source_size), source)) {
            *out_look = compiled->look;
            return compiled->work_max;
        }
    }
    *out_look = look_of(source);
    return *out_look == REDIS_SCRIPT_LOOKS_CHEAP ? 0 : REDIS_SCRIPT_WORK_UNKNOWN;
}

void redis_script_remember_values(struct bytes source, size_t size) {
    enum { BYTES_A_WORK = 2 }; /* redis_work_rules.c has twice as many: its unit is twice as long */
    struct compiled *compiled = size > 0 ? find_compiled(source) : NULL;
    if (compiled != NULL && compiled->look != REDIS_SCRIPT_LOOKS_CHEAP &&
        compiled->work_max < size / BYTES_A_WORK) {
        compiled->work_max = size / BYTES_A_WORK;
    }
}

void redis_script_note_work(uint64_t work) {
    machine.run->host_work += work;
}
