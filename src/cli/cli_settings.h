/*
 * Where a global option may come from, in this order: the command line, LEASED_… and ETCDCTL_…
 * variables, and the file ~/.config/lease/config with lines "name = value". LEASE_CONFIG names
 * another file; empty, it names none.
 */
#ifndef LEASED_CLI_CLI_SETTINGS_H
#define LEASED_CLI_CLI_SETTINGS_H

#include "base/arguments.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>

enum { CLI_SETTINGS_MAX = 32, CLI_SETTINGS_ERROR_SIZE_MAX = 512 };

struct cli_settings {
    struct {
        const char *name; /* "endpoints" */
        const char *value;
    } items[CLI_SETTINGS_MAX];
    size_t n_items;
    char *text; /* the file, which the items point into */
};

/* Reads the file, if there is one; `table` has the options that it may set. STATUS_MALFORMED,
 * STATUS_IO: `error` is a sentence. */
enum status cli_settings_load(struct cli_settings *settings, const struct option_entry *table,
                              char error[CLI_SETTINGS_ERROR_SIZE_MAX]);
/* The same from a text, which is changed and borrowed; `path` is for the error. */
enum status cli_settings_parse(struct cli_settings *settings, const struct option_entry *table,
                               char *text, const char *path,
                               char error[CLI_SETTINGS_ERROR_SIZE_MAX]);
void cli_settings_clear(struct cli_settings *settings);

/* The value of a global option ("--cacert"), or NULL: nowhere given, or empty. */
const char *cli_setting(const struct cli_settings *settings, const struct arguments *arguments,
                        const char *option);
/* The same of a flag. */
bool cli_setting_is_true(const struct cli_settings *settings, const struct arguments *arguments,
                         const char *option);

#endif
