/* `lease lock`: runs a command while one or several locks are held. */
#include "cli/command_list.h"
#include "cli/hold.h"

#include <string.h>

enum { TITLE_SIZE_MAX = 4352 };

static const struct option_entry options[] = {
    {"--shared", 's', NULL, "hold it together with others that use --shared"},
    HOLD_OPTIONS,
    {NULL, 0, NULL, NULL},
};

static enum cli_exit run(struct cli *cli) {
    struct lease_want wants[LEASE_WANTS_MAX];
    char title[TITLE_SIZE_MAX] = "";
    char note[HOLD_NOTE_SIZE_MAX];
    size_t n_wants = cli->arguments.n_words - 1;
    bool is_shared = arguments_has(&cli->arguments, "--shared");
    for (size_t i = 0; i < n_wants; i++) {
        const char *name = cli->arguments.words[1 + i];
        if (name[0] == '\0' || strlen(name) >= HOLD_NAME_SIZE_MAX) {
            return cli_usage(cli, "NAME: 1 to 256 bytes are needed");
        }
        wants[i] = (struct lease_want){.resource = name,
                                       .mode = is_shared ? LEASE_SHARED : LEASE_EXCLUSIVE};
        size_t size = strlen(title);
        snprintf(title + size, sizeof title - size, "%s%s", i > 0 ? "," : "", name);
    }
    struct hold_options hold = {
        .wants = wants,
        .n_wants = n_wants,
        .title = title,
        .wait_ms = LEASE_WAIT_FOREVER,
        .purpose = LEASE_CLASS_LOCK,
        .note = hold_note(cli, note, sizeof note),
    };
    enum cli_exit result = hold_take_options(cli, false, &hold);
    return result == CLI_OK ? hold_and_run(cli, &hold) : result;
}

const struct cli_command cli_command_lock = {
    .name = "lock",
    .group = CLI_RUN,
    .usage = "NAME... [-- COMMAND...]",
    .help = "hold locks while a command runs",
    .more =
        "Waits for its turn, runs the command and gives the lock back when everything that the\n"
        "command started has ended. Several names are locked all at once or not at all. Without a\n"
        "command the lock is held until Ctrl-C.\n"
        "The command gets LEASE_TOKEN (the fencing token), LEASE_ID, LEASE_NAME, "
        "LEASE_DEADLINE_FD\n"
        "and LEASE_RENEW_FD. When the lock cannot be renewed, the command gets SIGTERM and then\n"
        "SIGKILL before anybody else can have it.\n",
    .examples = "lease lock backup -- ./backup.sh\n"
                "lease lock --no-wait nightly -- make report   # not at all if somebody does it\n"
                "lease lock --wait 10s accounts/7 accounts/9 -- ./transfer 7 9\n"
                "lease lock --shared catalog -- ./read-catalog\n",
    .options = options,
    .words_min = 1,
    .words_max = ARGUMENTS_WORDS_MAX - 1,
    .child = CLI_CHILD_OPTIONAL,
    .run = run,
};
