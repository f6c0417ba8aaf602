/*
 * The rule of the Redis protocol: runs commands, one or a transaction, in one revision. The answer
 * is their replies, one value each, as redis_reply.h writes them.
 */
#ifndef LEASED_DOORS_REDIS_REDIS_EXEC_RULES_H
#define LEASED_DOORS_REDIS_REDIS_EXEC_RULES_H

#include "base/buffer.h"
#include "core/rule.h"
#include "doors/redis/redis_command_rules.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    REDIS_RULE_EXEC = 16 * 65536 + 1,
    REDIS_ARGUMENTS_MAX = 128 * 1024, /* of one command */
    REDIS_TRANSACTION_MAX = 4096      /* commands of one */
};

extern const struct rule redis_rule_exec;

/* redis_scripting_rules.c: what a command with this name and first argument may be in work, in
 * units of key_work.h; 0 for all but scripts. */
size_t redis_scripting_estimate(const struct key_store *keys, struct bytes name,
                                struct bytes argument);

/* --- The request, written by the door. --- */

struct redis_exec_watch {
    unsigned db;
    struct bytes key;
    int64_t mod_revision; /* 0: there was no such key */
};

struct redis_exec_head {
    uint64_t seed;
    bool shows_tokens;
    size_t n_watches;
    size_t n_commands;
};
/* n_watches calls of redis_exec_put_watch() follow, then n_commands of redis_exec_put_command(). */
void redis_exec_put_head(struct buffer *out, const struct redis_exec_head *head);
void redis_exec_put_watch(struct buffer *out, const struct redis_exec_watch *watch);
void redis_exec_put_command(struct buffer *out, unsigned db, const struct bytes *argv, size_t argc);

/* --- Reading it. --- */

struct redis_exec_command {
    unsigned db;
    const struct redis_command *command;
    const struct bytes *argv; /* in arena memory; its bytes are the request's */
    size_t argc;
};
struct redis_exec_request {
    struct redis_exec_head head;
    const struct redis_exec_watch *watches;
    const struct redis_exec_command *commands;
};
/* False when it is malformed, or names a command that does not run here. */
bool redis_exec_decode(struct bytes request, struct arena *arena,
                       struct redis_exec_request *out_request);

/* The answer when a key that is watched was changed: nothing was done. No reply begins so. */
enum { REDIS_EXEC_ABORTED = 0 };

#endif
