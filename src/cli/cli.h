/*
 * The frame of `lease`: global options and where else they may be set, the table of commands, what
 * help, completion and the manual page are made from, connecting, and the reporting of failures. A
 * command is an entry of that table and a function.
 */
#ifndef LEASED_CLI_CLI_H
#define LEASED_CLI_CLI_H

#include "base/arguments.h"
#include "cli/cli_settings.h"
#include "client/endpoint.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

/* docs/lease-cli.md has the same list. A command that was run gives its own. */
enum cli_exit {
    CLI_OK = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,
    CLI_NOT_RUN = 69,     /* the server cannot be reached or refused; the command was not run */
    CLI_BUSY = 75,        /* somebody else has it; the command was not run */
    CLI_LOST = 76,        /* the lease was lost, and the command ended for it */
    CLI_CANNOT_RUN = 126, /* the command is no program */
    CLI_NOT_FOUND = 127,  /* there is no such command */
    CLI_SIGNAL = 128      /* and the number of the signal that ended the command */
};

struct cli_command;
struct lease_client;
struct lease_answer;
struct lease_connection;

struct cli {
    const struct cli_command *command;
    struct arguments arguments; /* words[0] is the command's name */
    char **child;               /* what follows "--", with NULL at its end; NULL: nothing */
    struct cli_settings settings;
    struct endpoint_list endpoints;
    const char *endpoints_text;
    const struct endpoint *endpoint; /* the one connected to */
    uint32_t timeout_ms;
    bool json;
    bool is_verbose;
    bool is_colored;
    bool is_sigpipe_ignored; /* by whoever started us */
    uv_loop_t loop;
};

enum cli_group { CLI_RUN, CLI_LOOK, CLI_MANAGE, CLI_CLUSTER, CLI_OTHER, CLI_GROUPS };

enum cli_child { CLI_CHILD_NONE, CLI_CHILD_OPTIONAL, CLI_CHILD_NEEDED };

struct cli_command {
    const char *name; /* one word, or two: "pool set" */
    enum cli_group group;
    const char *usage;             /* what follows the name */
    const char *help;              /* one line */
    const char *more;              /* for `lease NAME --help`; NULL: nothing */
    void (*print_more)(FILE *out); /* the same where text is made; may be NULL */
    const char *examples;          /* a line each: the command line, and "  # why" */
    const struct option_entry *options;
    size_t words_min; /* without the name itself */
    size_t words_max;
    enum cli_child child;
    enum cli_exit (*run)(struct cli *cli);
};

int cli_main(int argc, char **argv);

/* ---- the etcd API: src/client ---- */

/* Connects to the first endpoint that answers; false: each failure was printed on standard error.
 */
bool cli_connect(struct cli *cli, struct lease_client **out_client);
/* Closes the connection and lets the loop finish. Accepts NULL. */
void cli_disconnect(struct cli *cli, struct lease_client *client);

/* Say what went wrong on standard error, and give the exit code for it. */
enum cli_exit cli_usage(struct cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
enum cli_exit cli_failed(struct cli *cli, const struct lease_answer *answer);

#endif
