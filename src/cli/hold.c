#include "cli/hold.h"

#include "base/clock.h"
#include "cli/hold_internal.h"
#include "cli/hold_progress.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

enum { DRAW_MS = 1000, LEAVE_MS = 100, CANCEL_MS_MAX = 2000 };

/* ---- life -------------------------------------------------------------------------------------
 */

static const int signals_taken[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGCONT, 0};

static enum cli_exit fail_errno(const char *what) {
    fprintf(stderr, "lease: %s: %s\n", what, strerror(errno));
    return CLI_NOT_RUN;
}

enum cli_exit hold_open(struct hold *hold, struct cli *cli, const struct hold_options *options) {
    *hold = (struct hold){.cli = cli, .options = *options, .renew_pipe = {-1, -1}, .signals = -1};
    hold->deadline = (struct hold_deadline){.writer = -1, .reader = -1};
    terminal_init(&hold->terminal);
    sigset_t taken;
    sigemptyset(&taken);
    for (const int *number = signals_taken; *number != 0; number++) {
        sigaddset(&taken, *number);
    }
    sigprocmask(SIG_BLOCK, &taken, NULL);
    hold->signals = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
    if (hold->signals < 0) {
        return fail_errno("signals cannot be taken");
    }
    if (pipe2(hold->renew_pipe, O_CLOEXEC | O_NONBLOCK) != 0) {
        return fail_errno("no pipe");
    }
    if (hold_deadline_init(&hold->deadline) != STATUS_OK) {
        return fail_errno("no file for the deadline");
    }
    enum cli_exit result = cli_open(cli, &hold->connection);
    return result == CLI_FAILED ? CLI_NOT_RUN : result;
}

static void close_file(int file) {
    if (file >= 0) {
        close(file);
    }
}

void hold_close(struct hold *hold) {
    hold_release(hold);
    lease_close(hold->connection);
    hold_deadline_clear(&hold->deadline);
    close_file(hold->signals);
    close_file(hold->renew_pipe[0]);
    close_file(hold->renew_pipe[1]);
    terminal_clear(&hold->terminal);
}

/* ---- the loop ---------------------------------------------------------------------------------
 */

int hold_next_signal(struct hold *hold) {
    struct signalfd_siginfo info;
    return read(hold->signals, &info, sizeof info) == (ssize_t)sizeof info ? (int)info.ssi_signo
                                                                           : 0;
}

static bool is_stop(int number) {
    return number == SIGHUP || number == SIGINT || number == SIGQUIT || number == SIGTERM;
}

/* Takes the signals that came while nothing runs that they could be passed to. */
static void take_signals(struct hold *hold) {
    int number;
    while ((number = hold_next_signal(hold)) != 0) {
        if (is_stop(number) && hold->signal_number == 0) {
            hold->signal_number = number;
        }
    }
}

void hold_pump(struct hold *hold, int child_file, int limit_ms) {
    int wants_ms = lease_timeout_ms(hold->connection);
    struct pollfd files[] = {
        {.fd = lease_fd(hold->connection), .events = POLLIN},
        {.fd = hold->signals, .events = POLLIN},
        {.fd = child_file, .events = POLLIN},
        {.fd = hold->renew_pipe[0], .events = POLLIN},
    };
    if (wants_ms >= 0 && (limit_ms < 0 || wants_ms < limit_ms)) {
        limit_ms = wants_ms;
    }
    poll(files, sizeof files / sizeof files[0], limit_ms);
    lease_process(hold->connection);
}

static bool wait_until(struct hold *hold, uint64_t at_ms, const bool *has_news) {
    hold->signal_number = 0;
    for (;;) {
        take_signals(hold);
        uint64_t now_ms = clock_boottime_ms();
        if (hold->signal_number != 0) {
            return false;
        }
        if (now_ms >= at_ms || *has_news) {
            return true;
        }
        hold_pump(hold, -1, at_ms - now_ms < INT_MAX ? (int)(at_ms - now_ms) : INT_MAX);
    }
}

bool hold_wait_until(struct hold *hold, uint64_t at_ms) {
    static const bool never = false;
    return wait_until(hold, at_ms, &never);
}

bool hold_wait_for_news(struct hold *hold, uint64_t limit_ms, const bool *has_news) {
    return wait_until(hold, clock_boottime_ms() + limit_ms, has_news);
}

/* ---- a session --------------------------------------------------------------------------------
 */

/* What is waited for: a session, or what it acquires. */
struct hold_wait {
    bool is_over;
    enum lease_status status;
    char reason[HOLD_REASON_SIZE_MAX];
    struct lease_session *session;
    struct hold_progress progress;
};

static void take_result(struct hold_wait *wait, enum lease_status status, const char *reason) {
    wait->is_over = true;
    wait->status = status;
    snprintf(wait->reason, sizeof wait->reason, "%s", reason != NULL ? reason : "");
}

static void on_created(struct lease_session *session, enum lease_status status, const char *reason,
                       void *context) {
    struct hold_wait *wait = context;
    wait->session = session;
    take_result(wait, status, reason);
}

static void on_event(struct lease_session *session, enum lease_event event, const char *reason,
                     void *context) {
    struct hold *hold = context;
    char time[64];
    (void)session;
    switch (event) {
    case LEASE_EVENT_JEOPARDY:
        if (hold->waiting == NULL) {
            snprintf(time, sizeof time, "%.1f", (double)lease_valid_for_ms(hold->session) / 1000.0);
            fprintf(stderr, "lease: %s cannot be renewed, still held for %s s: %s\n",
                    hold->options.title, time, reason);
        }
        break;
    case LEASE_EVENT_RESTORED:
        if (hold->waiting == NULL) {
            fprintf(stderr, "lease: %s is renewed again\n", hold->options.title);
        }
        break;
    case LEASE_EVENT_LOST:
        hold->is_lost = true;
        snprintf(hold->reason, sizeof hold->reason, "%s", reason != NULL ? reason : "");
        break;
    }
}

static enum lease_status make_session(struct hold *hold, struct hold_wait *wait) {
    struct lease_session_options options = LEASE_SESSION_OPTIONS_INIT;
    options.purpose = hold->options.purpose;
    options.ttl_ms = hold->options.ttl_ms;
    options.strategy = hold->options.strategy;
    options.owner = hold->options.owner;
    options.note = hold->options.note;
    options.on_event = on_event;
    options.context = hold;
    hold->is_lost = false;
    hold->is_over = false;
    hold->reason[0] = '\0';
    enum lease_status status =
        lease_session_create_start(hold->connection, &options, on_created, wait);
    if (status != LEASE_OK) {
        take_result(wait, status, lease_error());
    }
    /* It ends by itself within the time of a request. */
    while (!wait->is_over) {
        take_signals(hold);
        hold_pump(hold, -1, DRAW_MS);
    }
    hold->session = wait->session;
    return wait->status;
}

/* ---- what it acquires -------------------------------------------------------------------------
 */

static void on_progress(const struct lease_progress *news, void *context) {
    struct hold_wait *wait = context;
    hold_progress_take(&wait->progress, news);
}

static void on_acquired(struct lease_wait *acquiring, enum lease_status status, const char *reason,
                        void *context) {
    (void)acquiring;
    take_result(context, status, reason);
}

/* Leaves the queue, which the server must hear, but not for long. */
static void leave(struct hold *hold, struct lease_wait *acquiring, const struct hold_wait *wait) {
    uint64_t give_up_ms = clock_boottime_ms() + CANCEL_MS_MAX;
    lease_wait_cancel(acquiring);
    while (!wait->is_over && clock_boottime_ms() < give_up_ms) {
        hold_pump(hold, -1, CANCEL_MS_MAX);
    }
}

static enum lease_status acquire(struct hold *hold, struct hold_wait *wait) {
    struct lease_acquire_options options = LEASE_ACQUIRE_OPTIONS_INIT;
    struct lease_wait *acquiring = NULL;
    options.wants = hold->options.wants;
    options.n_wants = hold->options.n_wants;
    options.wait_ms = hold->options.wait_ms;
    options.value = hold->options.value;
    options.hold_limit_ms = hold->options.hold_limit_ms;
    options.queue_limit = hold->options.queue_limit;
    options.on_progress = on_progress;
    options.context = wait;
    wait->is_over = false;
    enum lease_status status =
        lease_acquire_start(hold->session, &options, on_acquired, wait, &acquiring);
    if (status != LEASE_OK) {
        take_result(wait, status, lease_error());
    }
    while (!wait->is_over && hold->signal_number == 0) {
        take_signals(hold);
        hold_progress_draw(&wait->progress);
        hold_pump(hold, -1, DRAW_MS);
    }
    hold_progress_end(&wait->progress);
    if (!wait->is_over) {
        leave(hold, acquiring, wait);
    }
    if (wait->is_over && wait->status == LEASE_OK && acquiring != NULL) {
        wait->status = lease_wait_finish(acquiring, LEASE_NO_WAIT, &hold->held);
    }
    lease_wait_destroy(acquiring);
    return wait->status;
}

static enum cli_exit report(struct hold *hold, struct hold_wait *wait) {
    char text[HOLD_REASON_SIZE_MAX];
    switch (wait->status) {
    case LEASE_BUSY:
    case LEASE_TIMEOUT:
    case LEASE_QUEUE_FULL:
        if (hold->options.is_quiet_when_busy) {
            return CLI_BUSY;
        }
        if (!wait->progress.is_known && wait->status == LEASE_BUSY) {
            hold_progress_look(&wait->progress, hold->connection, hold->options.wants,
                               hold->options.n_wants);
        }
        if (wait->progress.is_known) {
            fprintf(stderr, "lease: %s is not free: %s\n", hold->options.title,
                    hold_progress_text(&wait->progress, text, sizeof text));
        } else {
            fprintf(stderr, "lease: %s is not free: %s\n", hold->options.title,
                    wait->reason[0] != '\0' ? wait->reason : lease_status_text(wait->status));
        }
        return CLI_BUSY;
    default:
        fprintf(stderr, "lease: %s: %s\n", hold->options.title,
                wait->reason[0] != '\0' ? wait->reason : lease_status_text(wait->status));
        return CLI_NOT_RUN;
    }
}

enum cli_exit hold_acquire(struct hold *hold) {
    struct hold_wait wait = {.status = LEASE_OK};
    hold_progress_init(&wait.progress, hold->options.title, hold->cli->is_verbose);
    hold->waiting = &wait;
    hold->signal_number = 0;
    enum cli_exit result = CLI_OK;
    if (make_session(hold, &wait) != LEASE_OK) {
        cli_lease_failed(hold->cli, wait.status, wait.reason);
        result = CLI_NOT_RUN;
    } else if (hold->options.n_wants > 0 && acquire(hold, &wait) != LEASE_OK &&
               hold->signal_number == 0) {
        result = report(hold, &wait);
    }
    if (hold->signal_number != 0) {
        result = (enum cli_exit)(CLI_SIGNAL + hold->signal_number);
    }
    hold->waiting = NULL;
    if (result != CLI_OK) {
        hold_release(hold);
    }
    return result;
}

void hold_release(struct hold *hold) {
    if (hold->session == NULL) {
        return;
    }
    /* Its end gives back what it has, in one request. */
    if (!hold->is_lost && hold->is_over) {
        lease_session_end_start(hold->session);
        hold_pump(hold, -1, LEAVE_MS);
    } else if (!hold->is_lost && lease_valid_for_ms(hold->session) > 0) {
        lease_session_end(hold->session);
    }
    lease_hold_destroy(hold->held);
    lease_session_destroy(hold->session);
    hold->held = NULL;
    hold->session = NULL;
}
