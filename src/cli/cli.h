/*
 * The frame of `lease`: global options, the table of commands, connecting, and the reporting of
 * failures. A command is an entry of that table and a function.
 */
#ifndef LEASED_CLI_CLI_H
#define LEASED_CLI_CLI_H

#include "base/arguments.h"
#include "client/endpoint.h"
#include "client/lease_client.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

enum cli_exit { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

struct cli_command;

struct cli {
    const struct cli_command *command;
    struct arguments arguments; /* words[0] is the command's name */
    struct endpoint_list endpoints;
    const struct endpoint *endpoint; /* the one connected to */
    uint32_t timeout_ms;
    bool json;
    uv_loop_t loop;
};

struct cli_command {
    const char *name;
    const char *usage;             /* what follows the name */
    const char *help;              /* one line */
    const char *more;              /* for `lease NAME --help`; NULL: nothing */
    void (*print_more)(FILE *out); /* the same where text is made; may be NULL */
    const struct option_entry *options;
    size_t words_min; /* without the name itself */
    size_t words_max;
    enum cli_exit (*run)(struct cli *cli);
};

extern const struct cli_command cli_command_status;
extern const struct cli_command cli_command_grant;
extern const struct cli_command cli_command_ls;
extern const struct cli_command cli_command_bench;

int cli_main(int argc, char **argv);

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
