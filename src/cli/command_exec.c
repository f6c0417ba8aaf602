/* `lease exec`: runs a command while any mix of locks and slots is held. */
#include "cli/command_list.h"
#include "cli/hold.h"

#include <string.h>

enum { TITLE_SIZE_MAX = 4608 };

static const struct option_entry options[] = {
    {"--lock", 'l', "NAME", "a lock; may be given several times"},
    {"--shared", 's', "NAME", "a lock that others may share; may be given several times"},
    {"--reserve", 'r', "POOL[=N]", "slots of a pool; may be given several times"},
    HOLD_OPTIONS,
    {NULL, 0, NULL, NULL},
};

struct wanted {
    struct lease_want wants[LEASE_WANTS_MAX];
    char names[LEASE_WANTS_MAX][HOLD_NAME_SIZE_MAX];
    size_t n;
    char title[TITLE_SIZE_MAX];
};

static enum cli_exit take_want(struct cli *cli, struct wanted *wanted, const char *option,
                               const char *value) {
    bool is_pool = strcmp(option, "--reserve") == 0;
    if (!is_pool && strcmp(option, "--lock") != 0 && strcmp(option, "--shared") != 0) {
        return CLI_OK;
    }
    if (wanted->n == LEASE_WANTS_MAX) {
        return cli_usage(cli, "more than %d locks and pools", LEASE_WANTS_MAX);
    }
    struct lease_want *want = &wanted->wants[wanted->n];
    if (is_pool) {
        enum cli_exit result = hold_take_slots(cli, value, wanted->names[wanted->n], want);
        if (result != CLI_OK) {
            return result;
        }
    } else if (value[0] == '\0' || strlen(value) >= HOLD_NAME_SIZE_MAX) {
        return cli_usage(cli, "%s: 1 to 256 bytes are needed", option);
    } else {
        *want = (struct lease_want){.resource = value,
                                    .mode = strcmp(option, "--shared") == 0 ? LEASE_SHARED
                                                                            : LEASE_EXCLUSIVE};
    }
    size_t size = strlen(wanted->title);
    snprintf(wanted->title + size, sizeof wanted->title - size, "%s%s", size > 0 ? "," : "", value);
    wanted->n++;
    return CLI_OK;
}

static enum cli_exit run(struct cli *cli) {
    struct wanted wanted = {.n = 0};
    char note[HOLD_NOTE_SIZE_MAX];
    for (size_t i = 0; i < cli->arguments.n_given; i++) {
        enum cli_exit result = take_want(cli, &wanted, cli->arguments.given[i].option->name,
                                         cli->arguments.given[i].value);
        if (result != CLI_OK) {
            return result;
        }
    }
    struct hold_options hold = {
        .wants = wanted.wants,
        .n_wants = wanted.n,
        .title = wanted.n > 0 ? wanted.title : "session",
        .wait_ms = LEASE_WAIT_FOREVER,
        .purpose = LEASE_CLASS_LOCK,
        .note = hold_note(cli, note, sizeof note),
    };
    enum cli_exit result = hold_take_options(cli, false, &hold);
    return result == CLI_OK ? hold_and_run(cli, &hold) : result;
}

const struct cli_command cli_command_exec = {
    .name = "exec",
    .group = CLI_RUN,
    .usage = "[--lock NAME]... -- COMMAND...",
    .help = "hold locks and slots together while a command runs",
    .more = "All locks and slots are acquired at once or not at all, so there are no deadlocks. "
            "Without\n"
            "any, the command runs in a session of its own. On Ctrl-C, a closed terminal or a "
            "killed\n"
            "parent all processes that the command started are ended.\n",
    .examples = "lease exec --lock db/orders --reserve gpus=2 -- ./migrate\n"
                "lease exec --shared catalog --lock report -- make report\n",
    .options = options,
    .child = CLI_CHILD_NEEDED,
    .run = run,
};
