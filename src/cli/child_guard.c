#include "cli/child_guard.h"

#include "base/clock.h"
#include "cli/descendants.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* How often the rest is killed again: something may have forked meanwhile. */
enum { KILL_AGAIN_MS = 20, EXIT_CANNOT_RUN = 126, EXIT_NOT_FOUND = 127 };

struct guard {
    const struct child_guard_options *options;
    pid_t command; /* its process group too */
    int signals;   /* signalfd of SIGCHLD */
    int timer;     /* of CLOCK_BOOTTIME: a sleeping machine wakes too late otherwise */
    bool is_owner_gone;
    bool is_command_over;
    int wait_status;
    bool is_term_sent;
    bool is_kill_sent;
    bool was_term_sent; /* before the command itself had ended */
    bool was_kill_sent;
    uint64_t end_at_ms; /* SIGKILL comes then, whatever the deadline says; 0: it does not */
};

static void tell(const struct guard *guard, enum child_news_type type, int number) {
    const struct child_news news = {.type = type,
                                    .number = number,
                                    .is_term_sent = guard->was_term_sent,
                                    .is_kill_sent = guard->was_kill_sent};
    send(guard->options->socket, &news, sizeof news, MSG_NOSIGNAL);
}

/* ---- the command ------------------------------------------------------------------------------
 */

/* Beyond the numbers that files of the command may have. */
enum { FILES_MAX = 8, NUMBER_BEYOND = 32 };

/* First all of them out of the way: a file of ours may have a number that another one is to get. */
static void give_files(const struct child_file *files) {
    int moved[FILES_MAX];
    size_t n = 0;
    for (; files != NULL && n < FILES_MAX && files[n].file >= 0; n++) {
        moved[n] = fcntl(files[n].file, F_DUPFD_CLOEXEC, NUMBER_BEYOND);
    }
    for (size_t i = 0; i < n; i++) {
        dup2(moved[i], files[i].number);
    }
}

static _Noreturn void run_command(const struct guard *guard, pid_t parent) {
    const struct child_guard_options *options = guard->options;
    int socket = fcntl(options->socket, F_DUPFD_CLOEXEC, NUMBER_BEYOND);
    setpgid(0, 0);
    /* The guard's end is the command's, and it may have come before this call. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(EXIT_CANNOT_RUN);
    }
    if (options->terminal >= 0) {
        tcsetpgrp(options->terminal, getpid()); /* SIGTTOU is blocked */
    }
    signal(SIGPIPE, options->is_sigpipe_ignored ? SIG_IGN : SIG_DFL);
    sigprocmask(SIG_SETMASK, &options->signal_mask, NULL);
    give_files(options->files);
    execvpe(options->argv[0], options->argv, options->environment);
    const struct child_news news = {.type = CHILD_NEWS_FAILED, .number = errno};
    send(socket, &news, sizeof news, MSG_NOSIGNAL);
    _exit(news.number == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN);
}

static bool start_command(struct guard *guard) {
    pid_t self = getpid();
    pid_t pid = fork();
    if (pid < 0) {
        tell(guard, CHILD_NEWS_FAILED, errno);
        return false;
    }
    if (pid == 0) {
        run_command(guard, self);
    }
    setpgid(pid, pid); /* whoever comes first */
    guard->command = pid;
    tell(guard, CHILD_NEWS_STARTED, pid);
    return true;
}

/* ---- its end ----------------------------------------------------------------------------------
 */

static void signal_all(struct guard *guard, int number) {
    if (!guard->is_command_over) {
        kill(-guard->command, number);
    }
    descendants_signal(number, 0);
    /* What is stopped cannot hear SIGTERM. */
    if (number == SIGTERM) {
        descendants_signal(SIGCONT, 0);
    }
}

static void begin_end(struct guard *guard, uint32_t grace_ms) {
    uint64_t end_at_ms = clock_boottime_ms() + grace_ms;
    if (!guard->is_term_sent) {
        guard->is_term_sent = true;
        signal_all(guard, SIGTERM);
    }
    if (guard->end_at_ms == 0 || end_at_ms < guard->end_at_ms) {
        guard->end_at_ms = end_at_ms;
    }
}

static uint64_t earlier(uint64_t one_ms, uint64_t other_ms) {
    return one_ms == 0 || (other_ms != 0 && other_ms < one_ms) ? other_ms : one_ms;
}

/* Does what is due; gives the moment of what is due next, 0: nothing. */
static uint64_t keep_deadline(struct guard *guard) {
    const struct child_deadline *deadline = guard->options->deadline;
    uint64_t now_ms = clock_boottime_ms();
    uint64_t term_at_ms = atomic_load(&deadline->term_at_ms);
    if (!guard->is_term_sent && term_at_ms != 0 && now_ms >= term_at_ms) {
        guard->is_term_sent = true;
        signal_all(guard, SIGTERM);
    }
    uint64_t kill_at_ms = earlier(guard->end_at_ms, atomic_load(&deadline->kill_at_ms));
    if (guard->is_kill_sent || (kill_at_ms != 0 && now_ms >= kill_at_ms)) {
        guard->is_kill_sent = true;
        signal_all(guard, SIGKILL);
        return now_ms + KILL_AGAIN_MS;
    }
    return guard->is_term_sent ? kill_at_ms : earlier(term_at_ms, kill_at_ms);
}

static void arm(const struct guard *guard, uint64_t at_ms) {
    const struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)(at_ms / 1000), .tv_nsec = (long)(at_ms % 1000) * 1000000}};
    timerfd_settime(guard->timer, TFD_TIMER_ABSTIME, &when, NULL); /* 0 disarms */
}

/* Collects what ended. False: there is nothing left. */
static bool collect(struct guard *guard) {
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
        if (pid != guard->command) {
            continue;
        }
        if (WIFSTOPPED(status)) {
            tell(guard, CHILD_NEWS_STOPPED, WSTOPSIG(status));
        } else {
            guard->is_command_over = true;
            guard->wait_status = status;
            guard->was_term_sent = guard->is_term_sent;
            guard->was_kill_sent = guard->is_kill_sent;
        }
    }
    return pid == 0 || errno != ECHILD;
}

static void take_orders(struct guard *guard) {
    struct child_order order;
    ssize_t got;
    while ((got = recv(guard->options->socket, &order, sizeof order, MSG_DONTWAIT)) > 0) {
        if (got != (ssize_t)sizeof order) {
            continue;
        }
        if (order.type == CHILD_ORDER_END) {
            begin_end(guard, order.grace_ms);
        } else if (!guard->is_command_over) {
            kill(-guard->command, order.number);
        }
    }
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
        guard->is_owner_gone = true;
        begin_end(guard, guard->options->grace_ms);
    }
}

static void prepare(struct guard *guard) {
    sigset_t all;
    sigset_t children;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    sigemptyset(&children);
    sigaddset(&children, SIGCHLD);
    guard->signals = signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
    guard->timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    /* Whoever kills the process group of `lease` must not take its guard away. */
    setpgid(0, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_NAME, "lease-guard");
}

static void drain(int file) {
    char room[1024];
    while (read(file, room, sizeof room) > 0) {
    }
}

_Noreturn void child_guard_run(const struct child_guard_options *options) {
    struct guard guard = {.options = options};
    prepare(&guard);
    if (guard.signals < 0 || guard.timer < 0 || !start_command(&guard)) {
        _exit(EXIT_CANNOT_RUN);
    }
    while (collect(&guard)) {
        if (guard.is_command_over && !guard.is_term_sent) {
            begin_end(&guard, options->grace_ms); /* what it left behind */
        }
        arm(&guard, keep_deadline(&guard));
        struct pollfd files[] = {
            {.fd = guard.signals, .events = POLLIN},
            {.fd = guard.timer, .events = POLLIN},
            {.fd = guard.is_owner_gone ? -1 : options->socket, .events = POLLIN},
        };
        if (poll(files, sizeof files / sizeof files[0], -1) < 0 && errno != EINTR) {
            guard.is_kill_sent = true;
        }
        drain(guard.signals);
        drain(guard.timer);
        if (files[2].revents != 0) {
            take_orders(&guard);
        }
    }
    tell(&guard, CHILD_NEWS_ENDED, guard.wait_status);
    _exit(0);
}
