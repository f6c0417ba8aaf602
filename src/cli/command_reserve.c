/* `lease reserve`: runs a command while slots of pools are held. */
#include "cli/command_list.h"
#include "cli/hold.h"

#include <string.h>

enum { TITLE_SIZE_MAX = 4608, TTL_MS = 15000 };

static const struct option_entry options[] = {
    HOLD_OPTIONS,
    {NULL, 0, NULL, NULL},
};

static enum cli_exit run(struct cli *cli) {
    struct lease_want wants[LEASE_WANTS_MAX];
    char names[LEASE_WANTS_MAX][HOLD_NAME_SIZE_MAX];
    char title[TITLE_SIZE_MAX] = "";
    char note[HOLD_NOTE_SIZE_MAX];
    size_t n_wants = cli->arguments.n_words - 1;
    for (size_t i = 0; i < n_wants; i++) {
        const char *word = cli->arguments.words[1 + i];
        enum cli_exit result = hold_take_slots(cli, word, names[i], &wants[i]);
        if (result != CLI_OK) {
            return result;
        }
        size_t size = strlen(title);
        snprintf(title + size, sizeof title - size, "%s%s", i > 0 ? "," : "", word);
    }
    /* While a command runs it is renewed as a lock is, so that slots are free soon after a crash.
     */
    struct hold_options hold = {
        .wants = wants,
        .n_wants = n_wants,
        .title = title,
        .wait_ms = LEASE_WAIT_FOREVER,
        .purpose = LEASE_CLASS_RESERVATION,
        .strategy = LEASE_STRATEGY_HALF,
        .ttl_ms = TTL_MS,
        .note = hold_note(cli, note, sizeof note),
    };
    enum cli_exit result = hold_take_options(cli, false, &hold);
    return result == CLI_OK ? hold_and_run(cli, &hold) : result;
}

const struct cli_command cli_command_reserve = {
    .name = "reserve",
    .group = CLI_RUN,
    .usage = "POOL[=N]... [-- COMMAND...]",
    .help = "hold slots of pools while a command runs",
    .more = "Waits until so many slots of every pool are free at once, fair between owners. The "
            "command\n"
            "gets their names in LEASE_SLOTS, with commas, and those of the pool gpus in\n"
            "LEASE_SLOTS_GPUS. The reservation is renewed while the command runs (15 s, at half);\n"
            "--for reservation keeps it for an hour unless it is renewed through LEASE_RENEW_FD.\n",
    .examples = "lease pool set gpus 0,1,2,3\n"
                "lease reserve gpus=2 -- sh -c 'CUDA_VISIBLE_DEVICES=$LEASE_SLOTS ./train'\n"
                "lease reserve gpus=1 licenses=1 --wait 10m -- ./simulate\n",
    .options = options,
    .words_min = 1,
    .words_max = ARGUMENTS_WORDS_MAX - 1,
    .child = CLI_CHILD_OPTIONAL,
    .run = run,
};
