/*
 * LMPOP, ZMPOP and those of them that wait: their arguments, which the connection looks at as well
 * before it waits; and how long commands wait.
 */
#ifndef LEASED_DOORS_REDIS_REDIS_MPOP_RULES_H
#define LEASED_DOORS_REDIS_REDIS_MPOP_RULES_H

#include "base/bytes.h"
#include "doors/redis/redis_command_rules.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redis_mpop {
    const struct bytes *keys;
    size_t n_keys;
    bool is_last; /* RIGHT or MAX */
    int64_t count;
};

bool redis_mpop_is(const struct redis_command *command);
/* Of a command that redis_mpop_is(); NULL, or the error that is the reply. What BLMPOP and BZMPOP
 * say about the time is not looked at. */
const char *redis_mpop_parse(const struct redis_command *command, const struct bytes *argv,
                             size_t argc, struct redis_mpop *out_mpop);

/* Seconds, with a fraction; 0: without end. NULL, or the error that is the reply. */
const char *redis_timeout_parse(struct bytes argument, uint64_t *out_ms);

/* For commands that may wait, when they are run: what is to be taken is looked at first, and the
 * last argument, or the first of BLMPOP and BZMPOP, is how long to wait, which is the connection's
 * affair. False: the error is the reply. */
struct redis_run;
bool redis_timeout_check(struct redis_run *run, struct bytes argument);

#endif
