/*
 * What the parts of the sandbox share: the run that is going on, its counters, and the memory that
 * the interpreter lives in. One run at a time in a process.
 */
#ifndef LEASED_DOORS_REDIS_REDIS_SCRIPT_STATE_RULES_H
#define LEASED_DOORS_REDIS_REDIS_SCRIPT_STATE_RULES_H

#include "doors/redis/redis_script_rules.h"

#include <lua.h>

#include <stdbool.h>

/* Counters that a run begins with as they were after its source was compiled, and therefore lie in
 * the memory that is restored: a script costs the same whether or not it was compiled before. */
struct redis_script_counters {
    uint64_t work;
    size_t live; /* bytes that the interpreter asked for and did not give back */
    size_t live_max;
    size_t source_max;   /* the longest that was compiled, or the longest name of one */
    uint64_t n_compared; /* keys of tables, as far as that is counted */
};

struct redis_script_run {
    const struct redis_script *script;
    const struct redis_script_host *host;
    struct redis_script_limits limits;
    struct redis_script_counters *counters;
    enum status stopped; /* STATUS_OK while it may go on */
    int resp;            /* redis.setresp() */
    int coroutines;      /* that are inside of each other */
    uint64_t random;     /* state of math.random() */
    struct buffer reply; /* of the last call … */
    uint64_t host_work;  /* … and what it cost beside that */
    struct buffer *out;
    size_t out_start;
    size_t n_strings;                  /* that were pushed … */
    struct redis_script_chain *chains; /* … and collide; NULL: few were */
};

/* The one that is going on. */
struct redis_script_run *redis_script_current(void);

/* --- Bounds. --- */

/* The work of making the text of a number with 17 digits. */
enum { REDIS_SCRIPT_NUMBER_COST = 16 };

/* Counts work of a library function; does not return when there is no more. */
void redis_script_charge(lua_State *lua, uint64_t work);
/* The same where no error may be raised: false when there is no more, and then the run ends at the
 * next place where it can be. */
bool redis_script_count(uint64_t work);
/* … of compiling a source (redis_script_source_rules.c). */
void redis_script_charge_source(lua_State *lua, struct bytes source);
/* … of the name that a source is given. */
void redis_script_charge_name(lua_State *lua, size_t size);
/* … of an error that was caught: Lua looks through the function that made it for names, and through
 * the name of its source. */
void redis_script_charge_error(lua_State *lua);
/* Ends the run; does not return. The status is not STATUS_OK. */
int redis_script_stop(lua_State *lua, enum status status);
/* After something that catches errors: the end of a run is not an error that can be caught. */
void redis_script_rethrow(lua_State *lua);
/* The work of one step whose cost may grow with what the script holds: a chain of a table whose
 * keys were chosen to collide, a comparison of long strings. */
uint64_t redis_script_step_cost(void);
/* To be called once, with an interpreter that is not used yet. */
void redis_script_find_layout(lua_State *lua);
/* Whether every access of a global goes through this metatable. */
bool redis_script_is_of_globals(const void *metatable);

/* --- Strings (redis_script_chains_rules.c). --- */

/* As lua_pushlstring(), for those of which a client may send any number. Lua finds a string by a
 * hash without a seed, so they can be chosen to collide, and then each takes as long as there are
 * others: that is counted. */
void redis_script_push_string(lua_State *lua, struct bytes string);
/* After a run. */
void redis_script_chains_clear(struct redis_script_run *run);

/* --- Memory (redis_script_memory_rules.c). --- */

/* What lies in the memory of the interpreter, to be put back at the beginning of a run. */
struct redis_script_image {
    void *data;
    size_t size;
};

/* Empties the memory, which is there from then on. */
struct redis_script_counters *redis_script_memory_begin(void);
struct redis_script_counters *redis_script_memory_counters(void);
void *redis_script_memory_allocate(void *context, void *block, size_t old_size, size_t new_size);
struct redis_script_image redis_script_memory_save(void);
void redis_script_memory_restore(const struct redis_script_image *image);
/* Gives pages back that a large run has touched. */
void redis_script_memory_trim(void);

/* --- Libraries. Each opens itself in the table at the top of the stack. --- */

void redis_script_open_base(lua_State *lua);
void redis_script_open_table(lua_State *lua);
void redis_script_open_math(lua_State *lua);
void redis_script_open_string(lua_State *lua);
void redis_script_open_redis(lua_State *lua);
void redis_script_open_json(lua_State *lua);
void redis_script_open_struct(lua_State *lua);
void redis_script_open_bit(lua_State *lua);
void redis_script_open_msgpack(lua_State *lua);

/* Sets functions in the table at the top of the stack. */
struct redis_script_function {
    const char *name;
    lua_CFunction function;
};
void redis_script_set_functions(lua_State *lua, const struct redis_script_function *functions);

/* As lua_next(), for tables whose order is the same on every replica: keys that are tables,
 * functions or coroutines are refused. */
int redis_script_next(lua_State *lua, int index);

/* --- Replies (redis_script_redis_rules.c). --- */

/* Appends the value at the top of the stack to the run's reply and pops it. */
void redis_script_put_reply(lua_State *lua);

#endif
