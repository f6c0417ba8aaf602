/*
 * The table of commands: looking one up, and the nearest one to a word that is none. Help,
 * completion and the manual page are made from it.
 */
#ifndef LEASED_CLI_CLI_COMMANDS_H
#define LEASED_CLI_CLI_COMMANDS_H

#include "cli/cli.h"

/* Ends with NULL; in the order of the help, by group. */
extern const struct cli_command *const cli_commands[];
/* Those of every command. */
extern const struct option_entry cli_global_options[];
extern const char *const cli_group_titles[CLI_GROUPS];

/* By its whole name, "pool set". NULL: there is none. */
const struct cli_command *cli_find_command(const char *name);
/* "pool" begins the names of several commands. */
bool cli_is_family(const char *word);

/* The nearest name of a command to what was typed, or NULL when none is near. */
const char *cli_nearest_command(const char *typed);
/* The same of an option, in either table; `own` may be NULL. */
const char *cli_nearest_option(const char *typed, const struct option_entry *own);

#endif
