/* The command that runs while something is held: what it is told, until when it may run, and what
 * its end means. */
#include "base/clock.h"
#include "cli/child_guard.h"
#include "cli/hold_internal.h"
#include "cli/lease_id.h"

#include <ctype.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PUMP_MS = 1000,
    MARGIN_MS_MIN = 5,
    MARGIN_MS_MAX = 250,
    GRACE_MS_MAX = 10000,
    VARIABLES_MAX = 8 + LEASE_WANTS_MAX,
    VARIABLE_SIZE_MAX = 8192
};

/* ---- until when -------------------------------------------------------------------------------
 */

static int64_t clamp(int64_t number, int64_t min, int64_t max) {
    return number < min ? min : number > max ? max : number;
}

static int64_t grace_ms(const struct hold *hold) {
    int64_t ttl_ms = lease_session_ttl_ms(hold->session);
    return hold->options.grace_ms >= 0 ? clamp(hold->options.grace_ms, 0, ttl_ms / 2)
                                       : clamp(ttl_ms / 5, 0, GRACE_MS_MAX);
}

/* What is held may have a limit of its own, beside that of its session. */
static int64_t valid_for_ms_of(const struct hold *hold) {
    return hold->held != NULL ? lease_hold_valid_for_ms(hold->held)
                              : lease_valid_for_ms(hold->session);
}

/* Killing takes a moment too: the last process is to be gone before the time is over. */
static struct child_times times_of(const struct hold *hold) {
    int64_t ttl_ms = lease_session_ttl_ms(hold->session);
    uint64_t now_ms = clock_boottime_ms(); /* before: this process may be stopped in between */
    int64_t kill_in_ms = valid_for_ms_of(hold) - clamp(ttl_ms / 50, MARGIN_MS_MIN, MARGIN_MS_MAX);
    int64_t term_in_ms = kill_in_ms - grace_ms(hold);
    return (struct child_times){
        .term_at_ms = now_ms + (uint64_t)(term_in_ms > 0 ? term_in_ms : 0),
        .kill_at_ms = now_ms + (uint64_t)(kill_in_ms > 0 ? kill_in_ms : 0),
    };
}

static uint64_t valid_until_ms(const struct hold *hold) {
    uint64_t now_ms = clock_boottime_ms();
    int64_t valid_for_ms = valid_for_ms_of(hold);
    uint64_t until_ms = lease_valid_until_ms(hold->session);
    uint64_t limited_ms = now_ms + (uint64_t)(valid_for_ms > 0 ? valid_for_ms : 0);
    return valid_for_ms <= 0 ? 0 : limited_ms < until_ms ? limited_ms : until_ms;
}

/* ---- what it is told --------------------------------------------------------------------------
 */

struct variables {
    char text[VARIABLES_MAX][VARIABLE_SIZE_MAX];
    const char *items[VARIABLES_MAX + 1];
    size_t n;
};

static void add_variable(struct variables *variables, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void add_variable(struct variables *variables, const char *format, ...) {
    if (variables->n == VARIABLES_MAX) {
        return;
    }
    va_list list;
    va_start(list, format);
    vsnprintf(variables->text[variables->n], VARIABLE_SIZE_MAX, format, list);
    va_end(list);
    variables->items[variables->n] = variables->text[variables->n];
    variables->n++;
}

/* The slots of one pool (NULL: of all), with commas. */
static void join_slots(const struct lease_acquisition *held, const char *pool, char *room,
                       size_t room_size) {
    size_t size = 0;
    room[0] = '\0';
    for (size_t i = 0; i < held->n_slots && size < room_size; i++) {
        if (pool == NULL || strcmp(held->slots[i].pool, pool) == 0) {
            size += (size_t)snprintf(room + size, room_size - size, "%s%s", size > 0 ? "," : "",
                                     held->slots[i].slot);
        }
    }
}

/* LEASE_SLOTS has all slots, LEASE_SLOTS_GPUS those of the pool gpus. */
static void add_slots(struct variables *variables, const struct lease_acquisition *held) {
    char slots[VARIABLE_SIZE_MAX - 512];
    if (held->n_slots == 0) {
        return;
    }
    join_slots(held, NULL, slots, sizeof slots);
    add_variable(variables, "LEASE_SLOTS=%s", slots);
    for (size_t i = 0; i < held->n_wants; i++) {
        char name[300];
        if (held->wants[i].pool == NULL || held->wants[i].pool[0] == '\0') {
            continue;
        }
        snprintf(name, sizeof name, "%s", held->wants[i].pool);
        for (char *at = name; *at != '\0'; at++) {
            *at = isalnum((unsigned char)*at) ? (char)toupper((unsigned char)*at) : '_';
        }
        join_slots(held, held->wants[i].pool, slots, sizeof slots);
        add_variable(variables, "LEASE_SLOTS_%s=%s", name, slots);
    }
}

static void fill_variables(const struct hold *hold, const struct child_file *files,
                           struct variables *variables) {
    char id[LEASE_ID_TEXT_SIZE_MAX];
    variables->n = 0;
    add_variable(variables, "LEASE_ID=%s", lease_id_format(lease_session_id(hold->session), id));
    add_variable(variables, "LEASE_NAME=%s", hold->options.title);
    add_variable(variables, "LEASE_DEADLINE_FD=%d", files[0].number);
    add_variable(variables, "LEASE_RENEW_FD=%d", files[1].number);
    add_variable(variables, "LEASE_ENDPOINTS=%s", hold->cli->endpoints_text);
    if (hold->held != NULL) {
        add_variable(variables, "LEASE_TOKEN=%" PRId64, lease_hold_token(hold->held));
        add_slots(variables, lease_hold_acquisition(hold->held));
    }
    if (hold->options.variable != NULL) {
        add_variable(variables, "%s", hold->options.variable);
    }
    variables->items[variables->n] = NULL;
}

/* ---- renewals by activity ---------------------------------------------------------------------
 */

/* Somebody typed, or something was written: the terminal's own times tell. */
static bool was_terminal_used(struct hold *hold) {
    struct stat stat;
    int file = isatty(STDIN_FILENO) ? STDIN_FILENO : STDOUT_FILENO;
    if (!isatty(file) || fstat(file, &stat) != 0) {
        return false;
    }
    uint64_t used_at_s = (uint64_t)(stat.st_atime > stat.st_mtime ? stat.st_atime : stat.st_mtime);
    bool is_used = used_at_s != hold->terminal_used_at_s;
    hold->terminal_used_at_s = used_at_s;
    return is_used;
}

/* Named, or that of its class (enum lease_class). */
static bool is_explicit(const struct hold_options *options) {
    return options->strategy == LEASE_STRATEGY_EXPLICIT ||
           (options->strategy == LEASE_STRATEGY_DEFAULT &&
            options->purpose == LEASE_CLASS_RESERVATION);
}

static void take_activity(struct hold *hold) {
    char room[512];
    bool is_asked = false;
    while (read(hold->renew_pipe[0], room, sizeof room) > 0) {
        is_asked = true;
    }
    if (is_asked && is_explicit(&hold->options)) {
        lease_session_renew(hold->session);
    } else if (is_asked || was_terminal_used(hold)) {
        lease_session_touch(hold->session);
    }
}

/* ---- running ----------------------------------------------------------------------------------
 */

static void pass_signals(struct hold *hold, struct child *child) {
    int number;
    while ((number = hold_next_signal(hold)) != 0) {
        if (number == SIGCONT) {
            child_continue(child);
            continue;
        }
        child_signal(child, number);
        /* The command may be ending already, and whoever runs it again has to know. Not SIGHUP, by
         * which services are told to read their files again. */
        if (number == SIGTERM || number == SIGINT || number == SIGQUIT) {
            hold->signal_number = number;
        }
        /* Nobody can see or stop it any more, so it is not left to itself. */
        if (number == SIGHUP && terminal_is_gone(&hold->terminal)) {
            hold->is_hung_up = true;
            child_stop(child);
        }
    }
}

static void keep_times(struct hold *hold, struct child *child) {
    if (hold->is_lost || lease_session_state(hold->session) == LEASE_SESSION_LOST) {
        hold->is_lost = true;
        hold_deadline_write(&hold->deadline, 0);
        child_stop(child);
        return;
    }
    child_set_times(child, times_of(hold));
    hold_deadline_write(&hold->deadline, valid_until_ms(hold));
}

enum cli_exit hold_run(struct hold *hold, char *const *argv, struct child_end *out_end) {
    static struct variables variables;
    struct child_file files[] = {
        {.file = hold->deadline.reader}, {.file = hold->renew_pipe[1]}, {.file = -1}};
    const struct child_options options = {
        .argv = argv,
        .variables = variables.items,
        .files = files,
        .grace_ms = (uint32_t)grace_ms(hold),
        .is_sigpipe_ignored = hold->cli->is_sigpipe_ignored,
        .terminal = &hold->terminal,
    };
    struct child *child;
    files[0].number = child_free_number(STDERR_FILENO);
    files[1].number = child_free_number(files[0].number);
    fill_variables(hold, files, &variables);
    was_terminal_used(hold);
    hold_deadline_write(&hold->deadline, valid_until_ms(hold));
    if (child_start(&options, times_of(hold), &child) != STATUS_OK) {
        perror("lease: the command cannot be started");
        return CLI_NOT_RUN;
    }
    while (!child_poll(child, out_end)) {
        hold_pump(hold, child_fd(child), PUMP_MS);
        pass_signals(hold, child);
        take_activity(hold);
        keep_times(hold, child);
    }
    child_destroy(child);
    return CLI_OK;
}

enum cli_exit hold_exit_of(struct hold *hold, const struct child_end *end) {
    if (end->error != 0) {
        fprintf(stderr, "lease: the command %s cannot be run: %s\n", hold->cli->child[0],
                strerror(end->error));
    } else if (end->was_ended && !hold->is_hung_up) {
        hold->is_over = true;
        fprintf(stderr, "lease: %s was lost and the command was ended%s%s\n", hold->options.title,
                hold->reason[0] != '\0' ? ": " : "", hold->reason);
        return CLI_LOST;
    }
    return (enum cli_exit)end->exit_code;
}

/* ---- all of it --------------------------------------------------------------------------------
 */

static void print_held(const struct hold *hold) {
    char id[LEASE_ID_TEXT_SIZE_MAX];
    lease_id_format(lease_session_id(hold->session), id);
    int64_t token = hold->held != NULL ? lease_hold_token(hold->held) : 0;
    if (hold->cli->json) {
        printf("{\"id\":\"%s\",\"token\":%" PRId64 "}\n", id, token);
    } else if (hold->held != NULL) {
        printf("%s held, token %" PRId64 ", session %s\n", hold->options.title, token, id);
    } else {
        printf("session %s\n", id);
    }
    fflush(stdout);
}

/* The session may be well: nothing was said about it. */
static void name_hold_limit(struct hold *hold) {
    if (hold->reason[0] == '\0' && hold->options.hold_limit_ms > 0 &&
        lease_valid_for_ms(hold->session) > 0) {
        snprintf(hold->reason, sizeof hold->reason, "its hold limit is over");
    }
}

enum cli_exit hold_keep(struct hold *hold) {
    print_held(hold);
    for (;;) {
        int number;
        while ((number = hold_next_signal(hold)) != 0) {
            if (number != SIGCONT && number != SIGUSR1 && number != SIGUSR2) {
                return CLI_OK;
            }
        }
        int64_t valid_for_ms = valid_for_ms_of(hold);
        if (hold->is_lost || valid_for_ms <= 0) {
            name_hold_limit(hold);
            fprintf(stderr, "lease: %s was lost%s%s\n", hold->options.title,
                    hold->reason[0] != '\0' ? ": " : "", hold->reason);
            return CLI_LOST;
        }
        hold_pump(hold, -1, (int)clamp(valid_for_ms, 1, PUMP_MS));
    }
}

/* A shell script goes on after Ctrl-C unless what it runs ends by the signal. */
static void end_by_interrupt(void) {
    sigset_t interrupt;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    fflush(stdout);
    signal(SIGINT, SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &interrupt, NULL);
    raise(SIGINT);
}

enum cli_exit hold_and_run(struct cli *cli, const struct hold_options *options) {
    struct hold hold;
    struct child_end end = {0};
    enum cli_exit result = hold_open(&hold, cli, options);
    if (result == CLI_OK) {
        result = hold_acquire(&hold);
    }
    if (result == CLI_OK && cli->child == NULL) {
        result = hold_keep(&hold);
    } else if (result == CLI_OK) {
        result = hold_run(&hold, cli->child, &end);
        result = result == CLI_OK ? hold_exit_of(&hold, &end) : result;
    }
    bool is_interrupted = end.signal_number == SIGINT && hold.terminal.file >= 0;
    hold_close(&hold);
    if (is_interrupted) {
        end_by_interrupt();
    }
    return result;
}
