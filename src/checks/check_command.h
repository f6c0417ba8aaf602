/*
 * Commands as checks: programs of an allow-list, run without a shell as an unprivileged user, in a
 * process group of their own that is killed when the check is over. Off unless the operator says
 * otherwise: whoever registers a check would run programs on the server.
 */
#ifndef LEASED_CHECKS_CHECK_COMMAND_H
#define LEASED_CHECKS_CHECK_COMMAND_H

#include "base/bytes.h"
#include "base/status.h"
#include "checks/check_result.h"

#include <stdbool.h>
#include <sys/types.h>
#include <uv.h>

enum {
    CHECK_COMMANDS_MAX = 8, /* at a time */
    CHECK_COMMAND_ARGUMENTS_MAX = 64
};

struct check_command_options {
    bool is_enabled;
    const char *allowed; /* absolute paths, with commas */
    const char *user;    /* as whom they run */
};

/* NULL: they can be used. Else a constant text that says why not and what to do. */
const char *check_command_options_check(const struct check_command_options *options);

struct check_commands;
struct check_command; /* one that runs */

/* The options have been checked, and their texts outlive it. Aborts when memory is out. */
struct check_commands *check_commands_create(uv_loop_t *loop,
                                             const struct check_command_options *options);
/* Kills what still runs. */
void check_commands_destroy(struct check_commands *commands);
bool check_commands_have_room(const struct check_commands *commands);

/* `arguments` have NUL between them; the first is the program. NULL: it was not started, and
 * `out_result` says why. done() is called once, later: 0 is passing, 1 a warning, everything else
 * critical. */
struct check_command *check_command_start(struct check_commands *commands, struct bytes arguments,
                                          void (*done)(void *context,
                                                       const struct check_result *result),
                                          void *context, struct check_result *out_result);
/* Kills it; done() is not called. */
void check_command_cancel(struct check_command *command);

#endif
