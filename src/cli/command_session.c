/* `lease session`: runs a command in a session of its own, which is renewed by its activity. */
#include "cli/command_list.h"
#include "cli/hold.h"

#include <string.h>

static const struct option_entry options[] = {
    HOLD_SESSION_OPTIONS,
    {"--renew", 0, "HOW", "activity, half, continuous, explicit or never (activity)"},
    {NULL, 0, NULL, NULL},
};

static bool take_strategy(struct cli *cli, enum lease_strategy *out_strategy) {
    static const struct {
        const char *name;
        enum lease_strategy strategy;
    } known[] = {
        {"activity", LEASE_STRATEGY_ACTIVITY},     {"half", LEASE_STRATEGY_HALF},
        {"continuous", LEASE_STRATEGY_CONTINUOUS}, {"explicit", LEASE_STRATEGY_EXPLICIT},
        {"never", LEASE_STRATEGY_NEVER},
    };
    const char *text = arguments_value(&cli->arguments, "--renew");
    if (text == NULL) {
        return true;
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(text, known[i].name) == 0) {
            *out_strategy = known[i].strategy;
            return true;
        }
    }
    cli_usage(cli, "--renew %s is unknown; give activity, half, continuous, explicit or never",
              text);
    return false;
}

static enum cli_exit run(struct cli *cli) {
    char note[HOLD_NOTE_SIZE_MAX];
    struct hold_options hold = {
        .title = "session",
        .purpose = LEASE_CLASS_SESSION,
        .strategy = LEASE_STRATEGY_ACTIVITY,
        .note = hold_note(cli, note, sizeof note),
    };
    enum cli_exit result = hold_take_options(cli, true, &hold);
    if (result == CLI_OK && !take_strategy(cli, &hold.strategy)) {
        result = CLI_USAGE;
    }
    return result == CLI_OK ? hold_and_run(cli, &hold) : result;
}

const struct cli_command cli_command_session = {
    .name = "session",
    .group = CLI_RUN,
    .usage = "[-- COMMAND...]",
    .help = "run a command in a session that its activity renews",
    .more =
        "The session lasts 15 minutes from the last activity: something typed or written on the\n"
        "terminal, or a byte that the command writes to LEASE_RENEW_FD. When it is over the "
        "command\n"
        "is ended.\n",
    .examples = "lease session -- ssh db-1\n"
                "lease session --ttl 2m -- sh -c 'while step; do echo >&$LEASE_RENEW_FD; done'\n",
    .options = options,
    .child = CLI_CHILD_OPTIONAL,
    .run = run,
};
