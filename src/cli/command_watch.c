/* `lease watch`: what happens to locks, elections and pools, as it happens. */
#include "base/clock.h"
#include "cli/cli_format.h"
#include "cli/command_list.h"
#include "cli/hold.h"

#include <inttypes.h>
#include <limits.h>

enum { LOOK_MS = 1000 };

static const struct option_entry options[] = {
    {"--revision", 0, "N", "begin with the changes of this revision (now)"},
    {NULL, 0, NULL, NULL},
};

struct watching {
    struct cli *cli;
    bool is_over;
};

static const char *const type_texts[] = {
    [LEASE_CHANGE_QUEUED] = "queued",
    [LEASE_CHANGE_ACQUIRED] = "acquired",
    [LEASE_CHANGE_ENDED] = "ended",
    [LEASE_CHANGE_PROCLAIMED] = "proclaimed",
};

static const char *type_text(enum lease_change_type type) {
    return (unsigned)type < sizeof type_texts / sizeof type_texts[0] ? type_texts[type] : "unknown";
}

static void print_change(const struct lease_change *change) {
    const struct lease_acquisition *acquisition = change->acquisition;
    char wants[CLI_TEXT_SIZE_MAX] = "";
    char owner[CLI_TEXT_SIZE_MAX] = "";
    if (acquisition == NULL && change->ended != NULL) {
        acquisition = change->ended->acquisition;
    }
    if (acquisition != NULL) {
        cli_wants(acquisition, wants);
        cli_plain(acquisition->owner, owner);
    }
    printf("%" PRId64 "  %-10s %s", change->revision,
           change->ended != NULL ? lease_end_reason_text(change->ended->reason)
                                 : type_text(change->type),
           wants);
    if (owner[0] != '\0') {
        printf("  %s", owner);
    }
    if (acquisition != NULL && acquisition->token != 0) {
        printf("  token %" PRId64, acquisition->token);
    }
    if (change->type == LEASE_CHANGE_PROCLAIMED && acquisition != NULL) {
        printf("  value %s", cli_plain(acquisition->value, owner));
    }
    putchar('\n');
}

static void print_change_json(const struct lease_change *change) {
    cli_print_json(json_pack(
        "{s:I, s:s, s:o, s:o}", "revision", (json_int_t)change->revision, "type",
        type_text(change->type), "acquisition",
        change->acquisition != NULL ? cli_acquisition_json(change->acquisition) : json_null(),
        "ended", change->ended != NULL ? cli_ended_json(change->ended) : json_null()));
}

static void on_change(const struct lease_change *change, enum lease_status status,
                      const char *reason, void *context) {
    struct watching *watching = context;
    if (change == NULL) {
        watching->is_over = true;
        cli_lease_failed(watching->cli, status, reason);
    } else if (watching->cli->json) {
        print_change_json(change);
    } else {
        print_change(change);
    }
    /* Whoever read it has gone: there is nobody to watch for. */
    if (fflush(stdout) != 0) {
        watching->is_over = true;
    }
}

static enum cli_exit run(struct cli *cli) {
    const char *prefix = cli->arguments.n_words > 1 ? cli->arguments.words[1] : "";
    const struct hold_options none = {.title = prefix};
    struct watching watching = {.cli = cli};
    struct lease_watch *watch = NULL;
    struct hold hold;
    int64_t revision;
    if (!arguments_number(&cli->arguments, "--revision", 0,
                          (struct arguments_range){.min = 1, .max = INT64_MAX}, &revision)) {
        return cli_usage(cli, "%s", cli->arguments.error);
    }
    enum cli_exit result = hold_open(&hold, cli, &none);
    if (result == CLI_OK && lease_watch_changes(hold.connection, prefix, revision, on_change,
                                                &watching, &watch) != LEASE_OK) {
        result = cli_lease_failed(cli, LEASE_OK, NULL);
    }
    while (result == CLI_OK && !watching.is_over &&
           hold_wait_until(&hold, clock_boottime_ms() + LOOK_MS)) {
    }
    lease_watch_destroy(watch);
    hold_close(&hold);
    return watching.is_over ? CLI_FAILED : result == CLI_NOT_RUN ? CLI_FAILED : result;
}

const struct cli_command cli_command_watch = {
    .name = "watch",
    .group = CLI_LOOK,
    .usage = "[PREFIX]",
    .help = "show changes of locks, elections and pools, as they happen",
    .more = "A line for each change: its revision, what happened, to what, and whose it is. Ctrl-C "
            "ends it.\n",
    .examples = "lease watch\nlease watch jobs/ --json\n",
    .options = options,
    .words_max = 1,
    .run = run,
};
