/* `lease elect`: runs a command while this process leads, and again when it is elected again; or
 * tells who leads. */
#include "base/clock.h"
#include "cli/cli_format.h"
#include "cli/command_list.h"
#include "cli/hold.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

enum { RETRY_MS = 1000 };

static const struct option_entry options[] = {
    {"--value", 0, "TEXT", "what observers see of the leader, such as its address"},
    {"--observe", 'o', NULL, "show who leads, now and after every change; run nothing"},
    HOLD_OPTIONS,
    {NULL, 0, NULL, NULL},
};

/* ---- --observe --------------------------------------------------------------------------------
 */

struct observer {
    struct cli *cli;
    bool is_over;
    enum lease_status status;
};

static void print_leader(const struct cli *cli, const struct lease_resource *state) {
    const struct lease_acquisition *leader = state->n_holders > 0 ? &state->holders[0] : NULL;
    char owner[CLI_TEXT_SIZE_MAX];
    char value[CLI_TEXT_SIZE_MAX];
    if (cli->json) {
        json_t *json =
            json_pack("{s:o, s:o, s:i, s:I}", "name", cli_json_text(state->name), "leader",
                      leader != NULL ? cli_acquisition_json(leader) : json_null(), "waiting",
                      (int)state->n_waiting, "revision", (json_int_t)state->revision);
        cli_print_json(json);
    } else if (leader == NULL) {
        puts("no leader");
    } else {
        printf("leader %s, token %" PRId64 "%s%s\n", cli_plain(leader->owner, owner), leader->token,
               leader->value[0] != '\0' ? ", value " : "", cli_plain(leader->value, value));
    }
    fflush(stdout);
}

static void on_state(const struct lease_resource *state, enum lease_status status,
                     const char *reason, void *context) {
    struct observer *observer = context;
    if (state != NULL) {
        print_leader(observer->cli, state);
        return;
    }
    observer->is_over = true;
    observer->status = status;
    cli_lease_failed(observer->cli, status, reason);
}

static enum cli_exit observe(struct cli *cli, const char *name) {
    const struct hold_options none = {.title = name};
    struct observer observer = {.cli = cli};
    struct lease_watch *watch = NULL;
    struct hold hold;
    enum cli_exit result = hold_open(&hold, cli, &none);
    if (result == CLI_OK &&
        lease_observe(hold.connection, name, on_state, &observer, &watch) != LEASE_OK) {
        result = cli_lease_failed(cli, LEASE_OK, NULL);
    }
    while (result == CLI_OK && !observer.is_over &&
           hold_wait_until(&hold, clock_boottime_ms() + RETRY_MS)) {
    }
    lease_watch_destroy(watch);
    hold_close(&hold);
    return observer.is_over ? CLI_FAILED : result;
}

/* ---- leading ----------------------------------------------------------------------------------
 */

/* Once it has led it goes on until its command ends or a signal comes: servers come back. */
static enum cli_exit lead(struct hold *hold) {
    bool has_led = false;
    for (;;) {
        struct child_end end = {0};
        enum cli_exit result = hold_acquire(hold);
        if (result == CLI_NOT_RUN && has_led) {
            if (hold_wait_until(hold, clock_boottime_ms() + RETRY_MS)) {
                continue;
            }
            return (enum cli_exit)(CLI_SIGNAL + hold->signal_number);
        }
        if (result != CLI_OK) {
            return result;
        }
        has_led = true;
        bool is_lost = false;
        if (hold->cli->child == NULL) {
            result = hold_keep(hold);
            is_lost = result == CLI_LOST;
        } else if ((result = hold_run(hold, hold->cli->child, &end)) == CLI_OK) {
            result = hold_exit_of(hold, &end);
            /* The number alone does not tell: a command may end with the same by itself. */
            is_lost = end.was_ended && result == CLI_LOST;
        }
        if (!is_lost) {
            return result;
        }
        if (hold->signal_number != 0) {
            return (enum cli_exit)(CLI_SIGNAL + hold->signal_number);
        }
        fprintf(stderr, "lease: standing for %s again\n", hold->options.title);
        hold_release(hold);
    }
}

static enum cli_exit run(struct cli *cli) {
    const char *name = cli->arguments.words[1];
    char note[HOLD_NOTE_SIZE_MAX];
    const struct lease_want want = {.resource = name};
    struct hold_options wanted = {
        .wants = &want,
        .n_wants = 1,
        .title = name,
        .wait_ms = LEASE_WAIT_FOREVER,
        .purpose = LEASE_CLASS_LEADER,
        .value = arguments_value(&cli->arguments, "--value"),
        .note = hold_note(cli, note, sizeof note),
    };
    if (name[0] == '\0' || strlen(name) >= HOLD_NAME_SIZE_MAX) {
        return cli_usage(cli, "NAME: 1 to 256 bytes are needed");
    }
    enum cli_exit result = hold_take_options(cli, false, &wanted);
    if (result != CLI_OK) {
        return result;
    }
    if (arguments_has(&cli->arguments, "--observe")) {
        return cli->child != NULL ? cli_usage(cli, "--observe runs no command")
                                  : observe(cli, name);
    }
    struct hold hold;
    result = hold_open(&hold, cli, &wanted);
    if (result == CLI_OK) {
        result = lead(&hold);
    }
    hold_close(&hold);
    return result;
}

const struct cli_command cli_command_elect = {
    .name = "elect",
    .group = CLI_RUN,
    .usage = "NAME [-- COMMAND...]",
    .help = "run a command while this process leads",
    .more =
        "Stands for election and runs the command when elected. When the leadership is lost the\n"
        "command is ended before anybody else can lead, and `lease` stands for election again; "
        "when\n"
        "the command ends by itself, `lease` resigns and ends with its exit code.\n",
    .examples = "lease elect scheduler --value 10.0.0.1:8080 -- ./scheduler\n"
                "lease elect scheduler --observe\n",
    .options = options,
    .words_min = 1,
    .words_max = 1,
    .child = CLI_CHILD_OPTIONAL,
    .run = run,
};
