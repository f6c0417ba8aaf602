/* What `lease --help`, `lease help COMMAND` and the manual page say, made from the table of
 * commands. */
#ifndef LEASED_CLI_CLI_HELP_H
#define LEASED_CLI_CLI_HELP_H

#include "cli/cli.h"

void cli_help_print(FILE *out);
void cli_help_print_command(const struct cli_command *command, FILE *out);
/* The commands of a family, as `lease pool --help`. */
void cli_help_print_family(const char *word, FILE *out);
/* lease(1), in man's macros. */
void cli_help_print_manual(FILE *out);

#endif
