/* `lease help`: of all commands, of one, or as the manual page. */
#include "cli/cli_commands.h"
#include "cli/cli_help.h"
#include "cli/command_list.h"

#include <string.h>

static const struct option_entry options[] = {
    {"--man", 0, NULL, "print lease(1), the manual page: lease help --man | man -l -"},
    {NULL, 0, NULL, NULL},
};

static enum cli_exit run(struct cli *cli) {
    const struct arguments *arguments = &cli->arguments;
    char name[64];
    if (arguments_has(arguments, "--man")) {
        cli_help_print_manual(stdout);
        return CLI_OK;
    }
    if (arguments->n_words == 1) {
        cli_help_print(stdout);
        return CLI_OK;
    }
    snprintf(name, sizeof name, "%s%s%s", arguments->words[1], arguments->n_words > 2 ? " " : "",
             arguments->n_words > 2 ? arguments->words[2] : "");
    const struct cli_command *command = cli_find_command(name);
    if (command != NULL) {
        cli_help_print_command(command, stdout);
    } else if (cli_is_family(name)) {
        cli_help_print_family(name, stdout);
    } else {
        const char *nearest = cli_nearest_command(name);
        return nearest != NULL
                   ? cli_usage(cli, "there is no command %s; did you mean %s?", name, nearest)
                   : cli_usage(cli, "there is no command %s; `lease help` lists them", name);
    }
    return CLI_OK;
}

const struct cli_command cli_command_help = {
    .name = "help",
    .group = CLI_OTHER,
    .usage = "[COMMAND]",
    .help = "explain a command, with examples",
    .examples = "lease help lock\nlease help pool set\n",
    .options = options,
    .words_max = 2,
    .run = run,
};
