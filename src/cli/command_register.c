/* `lease register`: an instance of a service in the registry, for as long as a command runs. */
#include "base/clock.h"
#include "base/host_port.h"
#include "cli/cli_format.h"
#include "cli/command_list.h"
#include "cli/hold_internal.h"
#include "cli/registration_options.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <time.h>

enum { PUMP_MS = 1000, PAUSE_MS = 100, GRACE_MS = 10 * 1000, VARIABLE_SIZE_MAX = 1024 };

static const struct option_entry options[] = {REGISTRATION_OPTIONS, {NULL, 0, NULL, NULL}};

struct registering {
    struct hold hold; /* signals, terminal and connection; no session */
    struct registration_options wanted;
    struct lease_registration *registration;
    bool is_replaced;
    bool is_draining;
    uint64_t stop_at_ms; /* the command is told to stop then; 0: it is not */
    int stop_number;     /* by which signal */
};

static void on_event(struct lease_registration *registration, enum lease_registration_event event,
                     const char *reason, void *context) {
    struct registering *registering = context;
    const char *title = registering->hold.options.title;
    (void)registration;
    switch (event) {
    case LEASE_REGISTRATION_LATE:
        fprintf(stderr, "lease: %s cannot be renewed: %s\n", title, reason);
        break;
    case LEASE_REGISTRATION_AGAIN:
        fprintf(stderr, "lease: %s: %s\n", title, reason);
        break;
    case LEASE_REGISTRATION_REPLACED:
        registering->is_replaced = true;
        fprintf(stderr, "lease: %s was replaced: %s\n", title, reason);
        break;
    case LEASE_REGISTRATION_FAILED:
        fprintf(stderr, "lease: %s is not registered any more: %s\n", title, reason);
        break;
    }
}

/* Nothing is held yet and no command runs, so signals end `lease` as they end any program. */
static enum lease_status try_once(struct registering *registering) {
    static const int ending[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    sigset_t signals;
    sigemptyset(&signals);
    for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++) {
        sigaddset(&signals, ending[i]);
    }
    sigprocmask(SIG_UNBLOCK, &signals, NULL);
    enum lease_status status = lease_register(
        registering->hold.connection, &registering->wanted.options, &registering->registration);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    return status;
}

/* A service may start before its registry does: it goes on trying until a server answers, unless
 * --timeout says how long. */
static enum lease_status try_until_reached(struct registering *registering) {
    const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000L * 1000L};
    const char *title = registering->hold.options.title;
    bool is_patient = !arguments_has(&registering->hold.cli->arguments, "--timeout");
    bool is_told = false;
    enum lease_status status;
    while ((status = try_once(registering)) == LEASE_UNAVAILABLE && is_patient) {
        if (!is_told) {
            fprintf(stderr, "lease: %s waits until a server is reached: %s\n", title,
                    lease_error());
        }
        is_told = true;
        nanosleep(&pause, NULL);
    }
    if (status == LEASE_OK && is_told) {
        fprintf(stderr, "lease: %s is registered\n", title);
    }
    return status;
}

static enum cli_exit begin(struct registering *registering) {
    struct lease_register_options *wanted = &registering->wanted.options;
    wanted->on_event = on_event;
    wanted->context = registering;
    /* It is up when its command runs. */
    wanted->state =
        registering->hold.cli->child != NULL ? LEASE_INSTANCE_STARTING : LEASE_INSTANCE_UP;
    enum lease_status status = try_until_reached(registering);
    if (status != LEASE_OK) {
        cli_lease_failed(registering->hold.cli, LEASE_OK, NULL);
        return CLI_NOT_RUN;
    }
    return CLI_OK;
}

/* ---- without a command ------------------------------------------------------------------------
 */

static void print_registered(const struct registering *registering) {
    char id[CLI_TEXT_SIZE_MAX];
    const char *service = registering->wanted.options.service;
    int64_t token = lease_registration_token(registering->registration);
    if (registering->hold.cli->json) {
        cli_print_json(json_pack("{s:o, s:o, s:I}", "service", cli_json_text(service), "id",
                                 cli_json_text(lease_registration_id(registering->registration)),
                                 "token", (json_int_t)token));
    } else {
        printf("%s registered as %s, token %" PRId64 "\n", service,
               cli_plain(lease_registration_id(registering->registration), id), token);
    }
    fflush(stdout);
}

static enum cli_exit stay(struct registering *registering) {
    print_registered(registering);
    for (;;) {
        int number;
        while ((number = hold_next_signal(&registering->hold)) != 0) {
            if (number != SIGCONT && number != SIGUSR1 && number != SIGUSR2) {
                (void)lease_deregister(registering->registration, registering->wanted.drain_ms);
                return CLI_OK;
            }
        }
        if (registering->is_replaced) {
            return CLI_LOST;
        }
        hold_pump(&registering->hold, -1, PUMP_MS);
    }
}

/* ---- with a command ---------------------------------------------------------------------------
 */

/* Nobody is to send new work; when those who look have heard of it, the command is told. */
static void drain(struct registering *registering, struct child *child, int number) {
    if (registering->is_draining || registering->wanted.drain_ms == 0) {
        child_signal(child, number);
        registering->stop_at_ms = 0;
        return;
    }
    registering->is_draining = true;
    registering->stop_number = number;
    registering->stop_at_ms = clock_boottime_ms() + (uint64_t)registering->wanted.drain_ms;
    if (lease_registration_set_state(registering->registration, LEASE_INSTANCE_DRAINING) !=
        LEASE_OK) {
        cli_lease_failed(registering->hold.cli, LEASE_OK, NULL);
    }
}

static void pass_signals(struct registering *registering, struct child *child) {
    int number;
    while ((number = hold_next_signal(&registering->hold)) != 0) {
        if (number == SIGCONT) {
            child_continue(child);
        } else if (number == SIGUSR1 || number == SIGUSR2) {
            child_signal(child, number);
        } else {
            drain(registering, child, number);
        }
    }
}

static void keep(struct registering *registering, struct child *child) {
    if (registering->is_replaced) {
        child_stop(child);
    }
    if (registering->stop_at_ms != 0 && clock_boottime_ms() >= registering->stop_at_ms) {
        registering->stop_at_ms = 0;
        child_signal(child, registering->stop_number);
    }
}

static int pump_ms(const struct registering *registering) {
    uint64_t now_ms = clock_boottime_ms();
    uint64_t at_ms = registering->stop_at_ms;
    if (at_ms == 0 || at_ms >= now_ms + PUMP_MS) {
        return PUMP_MS;
    }
    return at_ms > now_ms ? (int)(at_ms - now_ms) : 0;
}

static enum cli_exit start(struct registering *registering, struct child **out_child) {
    static char variables[4][VARIABLE_SIZE_MAX];
    const char *const items[] = {variables[0], variables[1], variables[2], variables[3], NULL};
    struct cli *cli = registering->hold.cli;
    snprintf(variables[0], VARIABLE_SIZE_MAX, "LEASE_SERVICE=%s",
             registering->wanted.options.service);
    snprintf(variables[1], VARIABLE_SIZE_MAX, "LEASE_INSTANCE=%s",
             lease_registration_id(registering->registration));
    snprintf(variables[2], VARIABLE_SIZE_MAX, "LEASE_TOKEN=%" PRId64,
             lease_registration_token(registering->registration));
    snprintf(variables[3], VARIABLE_SIZE_MAX, "LEASE_ENDPOINTS=%s", cli->endpoints_text);
    const struct child_options child_options = {
        .argv = cli->child,
        .variables = items,
        .grace_ms = GRACE_MS,
        .is_sigpipe_ignored = cli->is_sigpipe_ignored,
        .terminal = &registering->hold.terminal,
    };
    if (child_start(&child_options, (struct child_times){0}, out_child) != STATUS_OK) {
        perror("lease: the command cannot be started");
        return CLI_NOT_RUN;
    }
    return CLI_OK;
}

static enum cli_exit run_child(struct registering *registering) {
    struct child *child = NULL;
    struct child_end end = {0};
    enum cli_exit result = start(registering, &child);
    if (result != CLI_OK) {
        return result;
    }
    bool is_up = false;
    while (!child_poll(child, &end)) {
        if (!is_up) {
            is_up = true;
            (void)lease_registration_set_state(registering->registration, LEASE_INSTANCE_UP);
        }
        hold_pump(&registering->hold, child_fd(child), pump_ms(registering));
        pass_signals(registering, child);
        keep(registering, child);
    }
    child_destroy(child);
    if (registering->is_replaced) {
        return CLI_LOST;
    }
    (void)lease_deregister(registering->registration, 0);
    if (end.error != 0) {
        fprintf(stderr, "lease: the command %s cannot be run: %s\n",
                registering->hold.cli->child[0], strerror(end.error));
    }
    return (enum cli_exit)end.exit_code;
}

static enum cli_exit run(struct cli *cli) {
    struct registering registering = {.stop_at_ms = 0};
    const struct hold_options none = {.title = cli->arguments.words[1]};
    enum cli_exit result = registration_options_take(cli, &registering.wanted);
    if (result != CLI_OK) {
        return result;
    }
    result = hold_open(&registering.hold, cli, &none);
    if (result == CLI_OK) {
        result = begin(&registering);
    }
    if (result == CLI_OK) {
        result = cli->child != NULL ? run_child(&registering) : stay(&registering);
    }
    lease_registration_destroy(registering.registration);
    hold_close(&registering.hold);
    return result;
}

const struct cli_command cli_command_register = {
    .name = "register",
    .group = CLI_RUN,
    .usage = "SERVICE --addr HOST:PORT [-- COMMAND...]",
    .help = "be an instance of a service while a command runs",
    .more =
        "Registers an instance and renews it; while no server is reached it waits and tries\n"
        "again. With a command it is up while the command runs and its checks pass, and goes\n"
        "when the command ends; `lease` ends with its exit code. On SIGTERM the instance drains\n"
        "for --drain, then the command is told to stop. Without a command it stays until\n"
        "SIGTERM. When another process registers the same id later, this one is stale: the\n"
        "command is ended, and nothing is registered again (exit code 76).\n"
        "\n"
        "Checks are run by the servers: http://, https://, tcp://HOST:PORT, grpc://HOST:PORT\n"
        "or grpcs://HOST:PORT, the latter two with /SERVICE. Until the first one passes the\n"
        "instance is not given to clients.\n",
    .examples =
        "lease register web --addr 10.0.0.1:80 -- ./web\n"
        "lease register web --addr 10.0.0.1:80 --tag v2 --meta color=blue \\\n"
        "    --check http://10.0.0.1:80/health --ttl 10s --zone a -- ./web\n"
        "lease register db --addr 10.0.0.7:5432 --check tcp://10.0.0.7:5432  # until Ctrl-C\n",
    .options = options,
    .words_min = 1,
    .words_max = 1,
    .child = CLI_CHILD_OPTIONAL,
    .run = run,
};
