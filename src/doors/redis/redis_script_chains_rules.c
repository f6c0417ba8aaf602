/* Strings that are given to Lua, and how many of them are in one chain of its table of strings. */
#include "doors/redis/redis_script_state_rules.h"

#include <lua.h>
#include <stdlib.h>

enum {
    FEW = 256,          /* strings, of which no chain is long */
    CHAINS = 64 * 1024, /* a table for as many strings as the memory of a script holds */
    CHAIN_LENGTH = 16,  /* that is not counted */
    CHAIN_PER_WORK = 4, /* strings of a chain that are passed in the time of an instruction */
    SAMPLED_SHIFT = 5   /* of longer strings Lua looks at every second byte, third, … */
};

struct redis_script_chain {
    const char *last; /* one that is pushed again and again is found at once */
    uint32_t length;
};

/* Lua 5.1's own. */
static uint32_t hash_of(struct bytes string) {
    uint32_t hash = (uint32_t)string.size;
    size_t step = (string.size >> SAMPLED_SHIFT) + 1;
    for (size_t at = string.size; at >= step; at -= step) {
        hash ^= (hash << 5) + (hash >> 2) + string.data[at - 1];
    }
    return hash;
}

static void push(lua_State *lua, struct bytes string) {
    lua_pushlstring(lua, string.size == 0 ? "" : (const char *)string.data, string.size);
}

static struct redis_script_chain *chains_of(struct redis_script_run *run) {
    if (run->chains == NULL) {
        run->chains = calloc(CHAINS, sizeof *run->chains);
        if (run->chains == NULL) {
            abort();
        }
    }
    return run->chains;
}

void redis_script_push_string(lua_State *lua, struct bytes string) {
    struct redis_script_run *run = redis_script_current();
    if (run->n_strings < FEW) {
        run->n_strings++;
        push(lua, string);
        return;
    }
    struct redis_script_chain *chain = &chains_of(run)[hash_of(string) % CHAINS];
    if (chain->length > CHAIN_LENGTH) {
        redis_script_charge(lua, chain->length / CHAIN_PER_WORK);
    }
    push(lua, string);
    const char *pushed = lua_tostring(lua, -1);
    if (pushed != chain->last) {
        chain->last = pushed;
        chain->length++;
    }
}

void redis_script_chains_clear(struct redis_script_run *run) {
    free(run->chains);
    run->chains = NULL;
}
