/*
 * Lua scripts of the Redis protocol, run in apply on every replica. A run depends on nothing but
 * its source, keys, arguments and the host's replies: each begins in the same state, bit for bit,
 * at the same address, and there is no clock, no randomness and no way out but the host. It is
 * bounded: instructions, the work of library functions and memory are counted alike on every
 * replica, and when a bound is met the run ends with a status, at the same step everywhere.
 */
#ifndef LEASED_DOORS_REDIS_REDIS_SCRIPT_RULES_H
#define LEASED_DOORS_REDIS_REDIS_SCRIPT_RULES_H

#include "base/buffer.h"
#include "base/bytes.h"
#include "base/sha1.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

enum {
    REDIS_SCRIPT_SIZE_MAX = 256 * 1024,
    REDIS_SCRIPT_SHA_SIZE = 2 * SHA1_SIZE, /* as hexadecimal digits */
    /* Defaults of the limits below. A unit of work is about an instruction of the interpreter, some
     * ten nanoseconds: these are some ten milliseconds, while everybody waits. An instruction of a
     * script that holds much costs more: its strings are longer, and the keys of its tables may
     * have been chosen to collide. */
    REDIS_SCRIPT_WORK_MAX = 1000 * 1000,
    /* What is expected of a script that was not seen before and does not look cheap. */
    REDIS_SCRIPT_WORK_UNKNOWN = REDIS_SCRIPT_WORK_MAX,
    REDIS_SCRIPT_MEMORY_MAX = 8 * 1024 * 1024,
    REDIS_SCRIPT_REPLY_SIZE_MAX = 1024 * 1024,
};

struct redis_script {
    struct bytes source;
    const struct bytes *keys;
    size_t n_keys;
    const struct bytes *args;
    size_t n_args;
};

struct redis_script_host {
    void *context;
    /* Does what redis.call() asks for and appends its reply, one value as in redis_reply.h; errors
     * of the command are replies, too. Any status but STATUS_OK ends the run with this status. The
     * arguments are valid during the call. */
    enum status (*call)(void *context, const struct bytes *argv, size_t argc, struct buffer *out);
};

struct redis_script_limits {
    uint64_t work;
    size_t memory; /* bytes held at once, of which every script has some 40,000 to begin with */
    size_t reply_size;
};
extern const struct redis_script_limits redis_script_limits_default;

/* Runs a script and appends its reply, one value as in redis_reply.h; a script that fails has an
 * error as its reply, in Redis's words. Then STATUS_OK: what the host did for it stays, as in
 * Redis. STATUS_TOO_MANY_OPERATIONS (work), STATUS_REQUEST_TOO_LARGE (memory, source or reply), or
 * a status of the host: the script was stopped, nothing is appended, and nothing that it did may
 * stay. */
enum status redis_script_run(const struct redis_script *script,
                             const struct redis_script_host *host,
                             const struct redis_script_limits *limits, struct buffer *out_reply);

/* Whether a source compiles; when not, appends the error as its reply. Statuses as above. */
enum status redis_script_check(struct bytes source, const struct redis_script_limits *limits,
                               struct buffer *out_error);

/* The work of the run that ended last. */
uint64_t redis_script_last_work(void);
/* What a script looks like: a guess, which nothing depends on but what is let through at a time. */
enum redis_script_look {
    REDIS_SCRIPT_LOOKS_CHEAP,    /* as scripts of locks do */
    REDIS_SCRIPT_LOOKS_ORDINARY, /* loops, or commands that look at much */
    REDIS_SCRIPT_LOOKS_AT_ALL    /* commands that compare all keys with a pattern, or any command */
};
/* What a run of this source may be in work, as far as this process knows: a guess for those who
 * decide how many are let through at a time. */
uint64_t redis_script_expected_work(struct bytes source, enum redis_script_look *out_look);
/* To be called by the host, after a run: how much it wrote. For redis_script_expected_work() alone;
 * those that look cheap write what their arguments name, which is looked at each time. */
void redis_script_remember_values(struct bytes source, size_t size);
/* To be called by the host: what a call of it cost beside its reply, in units of work. */
void redis_script_note_work(uint64_t work);

/* The name of a script: the SHA-1 of its source in lower-case hexadecimal digits, not terminated.
 */
void redis_script_sha(struct bytes source, char out_digits[REDIS_SCRIPT_SHA_SIZE]);

/* For tests: forgets compiled scripts, so that the next run compiles. Results never differ. */
void redis_script_forget(void);

#endif
