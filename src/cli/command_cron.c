/*
 * `lease cron`: the same line on every machine, and each tick runs on one of them. Whoever gets the
 * lock of the job looks at the fence of the job, which has the minute of the last tick that was
 * begun: a tick that is not later was run already. The fence is raised before the command runs, so
 * a tick runs at most once.
 */
#include "base/clock.h"
#include "cli/cli_format.h"
#include "cli/command_list.h"
#include "cli/cron_schedule.h"
#include "cli/hold.h"

#include <inttypes.h>
#include <string.h>

enum {
    NAME_SIZE_MAX = 250,
    SLEEP_MS_MAX = 30000, /* the wall clock may be set meanwhile */
    LATE_MINUTES_MAX = 1,
    MINUTE_MS = 60000,
    VARIABLE_SIZE_MAX = 64
};

static const struct option_entry options[] = {
    {"--now", 0, NULL, "run the tick that was due last, unless it was run, and end"},
    {"--utc", 0, NULL, "the schedule is in UTC, not in local time"},
    HOLD_SESSION_OPTIONS,
    {NULL, 0, NULL, NULL},
};

struct job {
    struct cli *cli;
    struct cron_schedule schedule;
    char resource[HOLD_NAME_SIZE_MAX];
    struct hold hold;
};

/* ---- one tick ---------------------------------------------------------------------------------
 */

/* True: this tick is ours. False, with CLI_OK: it was run already. */
static bool claim_tick(struct job *job, int64_t tick, enum cli_exit *out_result) {
    int64_t last = 0;
    enum lease_status status = lease_fence_get(job->hold.connection, job->resource, &last);
    *out_result = CLI_OK;
    if (status == LEASE_OK && last >= tick) {
        return false;
    }
    if (status == LEASE_OK) {
        status = lease_fence_check(job->hold.connection, job->resource, tick, NULL);
    }
    if (status == LEASE_OK) {
        return true;
    }
    if (status != LEASE_STALE) {
        cli_lease_failed(job->cli, status, NULL);
        *out_result = CLI_NOT_RUN;
    }
    return false;
}

/* Runs the tick if it is ours. The exit code of its command, or why it was not run; CLI_OK where
 * another machine runs it or ran it. */
static enum cli_exit run_tick(struct job *job, int64_t tick) {
    struct hold *hold = &job->hold;
    struct child_end end = {0};
    char variable[VARIABLE_SIZE_MAX];
    char when[CLI_WALL_SIZE_MAX];
    enum cli_exit result = hold_acquire(hold);
    if (result == CLI_BUSY) {
        return CLI_OK;
    }
    if (result != CLI_OK) {
        return result;
    }
    if (claim_tick(job, tick, &result)) {
        snprintf(variable, sizeof variable, "LEASE_TICK=%" PRId64, tick * 60);
        hold->options.variable = variable;
        result = hold_run(hold, job->cli->child, &end);
        if (result == CLI_OK) {
            result = hold_exit_of(hold, &end);
        }
        hold->options.variable = NULL;
        if (result != CLI_OK) {
            fprintf(stderr, "lease: %s: the tick of %s ended with exit code %d\n",
                    hold->options.title, cli_wall_time(tick * MINUTE_MS, when), (int)result);
        }
    } else if (result == CLI_OK && job->cli->is_verbose) {
        fprintf(stderr, "lease: %s: the tick of %s was run already\n", hold->options.title,
                cli_wall_time(tick * MINUTE_MS, when));
    }
    hold_release(hold);
    return result;
}

/* ---- all ticks --------------------------------------------------------------------------------
 */

static int64_t wall_minute(void) {
    return clock_wall_ms() / MINUTE_MS;
}

/* False: a signal told us to stop. */
static bool wait_for_tick(struct job *job, int64_t tick) {
    int64_t left_ms;
    while ((left_ms = tick * MINUTE_MS - clock_wall_ms()) > 0) {
        uint64_t sleep_ms = (uint64_t)(left_ms < SLEEP_MS_MAX ? left_ms : SLEEP_MS_MAX);
        if (!hold_wait_until(&job->hold, clock_boottime_ms() + sleep_ms)) {
            return false;
        }
    }
    return true;
}

static enum cli_exit run_forever(struct job *job) {
    int64_t tick = wall_minute();
    while (cron_schedule_next(&job->schedule, tick, &tick)) {
        if (!wait_for_tick(job, tick)) {
            return (enum cli_exit)(CLI_SIGNAL + job->hold.signal_number);
        }
        /* A machine that slept does not run what it missed. */
        if (wall_minute() - tick <= LATE_MINUTES_MAX) {
            run_tick(job, tick);
            if (job->hold.signal_number != 0) {
                return (enum cli_exit)(CLI_SIGNAL + job->hold.signal_number);
            }
        }
        /* Nor one that was late because its last command took so long. */
        int64_t now = wall_minute();
        tick = now > tick ? now : tick;
    }
    fprintf(stderr, "lease: %s is never due\n", job->hold.options.title);
    return CLI_FAILED;
}

/* The last minute up to now at which it was due. */
static bool last_tick(const struct cron_schedule *schedule, int64_t *out_tick) {
    static const int64_t spans[] = {60, 1440, 44640, 527040, 4 * 527040};
    int64_t now = wall_minute();
    for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++) {
        int64_t at = now - spans[i];
        int64_t tick;
        bool is_found = false;
        while (cron_schedule_next(schedule, at, &tick) && tick <= now) {
            *out_tick = tick;
            is_found = true;
            at = tick;
        }
        if (is_found) {
            return true;
        }
    }
    return false;
}

static enum cli_exit run_now(struct job *job) {
    int64_t tick;
    if (!last_tick(&job->schedule, &tick)) {
        fprintf(stderr, "lease: %s has not been due within four years\n", job->hold.options.title);
        return CLI_FAILED;
    }
    return run_tick(job, tick);
}

static enum cli_exit run(struct cli *cli) {
    struct job job = {.cli = cli};
    char error[CRON_ERROR_SIZE_MAX];
    char note[HOLD_NOTE_SIZE_MAX];
    const char *name = cli->arguments.words[1];
    const struct lease_want want = {.resource = job.resource};
    if (name[0] == '\0' || strlen(name) > NAME_SIZE_MAX) {
        return cli_usage(cli, "NAME: 1 to %d bytes are needed", NAME_SIZE_MAX);
    }
    if (cron_schedule_parse(cli->arguments.words[2], &job.schedule, error) != STATUS_OK) {
        return cli_usage(cli, "SCHEDULE: %s", error);
    }
    job.schedule.is_utc = arguments_has(&cli->arguments, "--utc");
    snprintf(job.resource, sizeof job.resource, "cron/%s", name);
    struct hold_options wanted = {
        .wants = &want,
        .n_wants = 1,
        .title = job.resource,
        .wait_ms = LEASE_NO_WAIT,
        .is_quiet_when_busy = true,
        .purpose = LEASE_CLASS_LOCK,
        .note = hold_note(cli, note, sizeof note),
    };
    enum cli_exit result = hold_take_options(cli, true, &wanted);
    if (result != CLI_OK) {
        return result;
    }
    result = hold_open(&job.hold, cli, &wanted);
    if (result == CLI_OK) {
        result = arguments_has(&cli->arguments, "--now") ? run_now(&job) : run_forever(&job);
    }
    hold_close(&job.hold);
    return result;
}

const struct cli_command cli_command_cron = {
    .name = "cron",
    .group = CLI_RUN,
    .usage = "NAME SCHEDULE -- COMMAND...",
    .help = "run a command on time, each tick on one machine",
    .more =
        "The same line on every machine: each tick is run by one of them. SCHEDULE is a line of "
        "cron:\n"
        "minute, hour, day, month and weekday, with lists, ranges, steps and names, or @hourly,\n"
        "@daily, @weekly, @monthly, @yearly. Ticks do not overlap: one that comes while the last "
        "one\n"
        "still runs is left out, and so is one that no machine was there for. A tick runs at most\n"
        "once. The command gets its time in LEASE_TICK, in seconds since 1970.\n",
    .examples =
        "lease cron report '*/5 * * * *' -- ./report\n"
        "lease cron backup '30 2 * * mon-fri' --utc -- ./backup\n"
        "lease cron rotate @daily --now -- ./rotate     # from a timer of the machine's own\n",
    .options = options,
    .words_min = 2,
    .words_max = 2,
    .child = CLI_CHILD_NEEDED,
    .run = run,
};
