#include "cli/child.h"

#include "cli/child_guard.h"
#include "cli/descendants.h"
#include "cli/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_SIGNAL = 128, EXIT_CANNOT_RUN = 126, EXIT_NOT_FOUND = 127, KILL_AGAIN_US = 10000 };

struct child {
    int socket; /* to the guard */
    pid_t guard;
    pid_t group; /* of the command; 0: it does not run yet */
    uint32_t grace_ms;
    struct child_deadline *deadline;
    struct terminal *terminal;
    bool is_over;
    bool is_stop_ordered;
    struct child_end end;
};

int child_free_number(int after) {
    int number = after + 1;
    for (int flags; (flags = fcntl(number, F_GETFD)) >= 0 && (flags & FD_CLOEXEC) == 0;) {
        number++;
    }
    return number;
}

/* ---- starting ---------------------------------------------------------------------------------
 */

/* The environment with some variables set; the texts are borrowed. */
static char **environment_with(const char *const *variables) {
    size_t n = 0;
    size_t n_more = 0;
    while (environ[n] != NULL) {
        n++;
    }
    while (variables[n_more] != NULL) {
        n_more++;
    }
    char **result = calloc(n + n_more + 1, sizeof result[0]);
    if (result == NULL) {
        return NULL;
    }
    size_t at = 0;
    for (size_t i = 0; i < n; i++) {
        bool is_replaced = false;
        for (size_t k = 0; k < n_more && !is_replaced; k++) {
            is_replaced = strncmp(environ[i], variables[k], strcspn(variables[k], "=") + 1) == 0;
        }
        if (!is_replaced) {
            result[at++] = environ[i];
        }
    }
    for (size_t k = 0; k < n_more; k++) {
        result[at++] = (char *)(uintptr_t)variables[k]; /* execve() does not change them */
    }
    return result;
}

static _Noreturn void run_guard(const struct child *child, const struct child_options *options,
                                char **environment, int socket, bool is_foreground) {
    struct child_guard_options guard = {
        .argv = options->argv,
        .environment = environment,
        .files = options->files,
        .deadline = child->deadline,
        .socket = socket,
        .terminal = is_foreground ? options->terminal->file : -1,
        .grace_ms = options->grace_ms,
        .is_sigpipe_ignored = options->is_sigpipe_ignored,
    };
    close(child->socket);
    sigemptyset(&guard.signal_mask);
    child_guard_run(&guard);
}

static enum status start_guard(struct child *child, const struct child_options *options) {
    int sockets[2];
    bool is_foreground = options->terminal != NULL && terminal_is_ours(options->terminal);
    char **environment = environment_with(options->variables);
    if (environment == NULL) {
        return STATUS_NO_MEMORY;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
        free(environment);
        return STATUS_IO;
    }
    child->socket = sockets[0];
    child->guard = fork();
    if (child->guard == 0) {
        run_guard(child, options, environment, sockets[1], is_foreground);
    }
    int error = errno;
    close(sockets[1]);
    free(environment);
    errno = error;
    if (child->guard > 0 && is_foreground) {
        terminal_given(options->terminal);
    }
    return child->guard > 0 ? STATUS_OK : STATUS_IO;
}

enum status child_start(const struct child_options *options, struct child_times times,
                        struct child **out_child) {
    /* Should somebody kill the guard, what it looked after comes to us. */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    struct child *child = calloc(1, sizeof *child);
    if (child == NULL) {
        return STATUS_NO_MEMORY;
    }
    child->socket = -1;
    child->grace_ms = options->grace_ms;
    child->terminal = options->terminal;
    child->deadline = mmap(NULL, sizeof *child->deadline, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (child->deadline == MAP_FAILED) {
        free(child);
        return STATUS_NO_MEMORY;
    }
    child_set_times(child, times);
    fflush(stdout); /* or both would write what is buffered */
    fflush(stderr);
    enum status status = start_guard(child, options);
    if (status != STATUS_OK) {
        child->is_over = true;
        child_destroy(child);
        return status;
    }
    *out_child = child;
    return STATUS_OK;
}

/* ---- its life ---------------------------------------------------------------------------------
 */

int child_fd(const struct child *child) {
    return child->socket;
}

void child_set_times(struct child *child, struct child_times times) {
    atomic_store(&child->deadline->term_at_ms, times.term_at_ms);
    atomic_store(&child->deadline->kill_at_ms, times.kill_at_ms);
}

static void order(const struct child *child, struct child_order order) {
    send(child->socket, &order, sizeof order, MSG_NOSIGNAL);
}

void child_signal(struct child *child, int number) {
    order(child, (struct child_order){.type = CHILD_ORDER_SIGNAL, .number = number});
}

void child_stop(struct child *child) {
    if (!child->is_stop_ordered) {
        child->is_stop_ordered = true;
        order(child, (struct child_order){.type = CHILD_ORDER_END, .grace_ms = child->grace_ms});
    }
}

void child_continue(struct child *child) {
    if (child->terminal != NULL && child->group != 0) {
        terminal_give(child->terminal, child->group);
    }
    child_signal(child, SIGCONT);
}

/* ---- its end ----------------------------------------------------------------------------------
 */

/* The guard was killed: what it looked after is ours now, and ends at once. */
static void end_descendants(void) {
    while (descendants_signal(SIGKILL, 0) > 0) {
        while (waitpid(-1, NULL, WNOHANG) > 0) {
        }
        usleep(KILL_AGAIN_US);
    }
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
}

static void finish(struct child *child) {
    child->is_over = true;
    waitpid(child->guard, NULL, 0);
    if (child->terminal != NULL) {
        terminal_take_back(child->terminal);
    }
}

static void take_end(struct child *child, const struct child_news *news) {
    int status = news->number;
    child->end.was_ended = news->is_term_sent || news->is_kill_sent;
    if (child->end.error != 0) {
        child->end.exit_code = child->end.error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
    } else if (WIFSIGNALED(status)) {
        child->end.signal_number = WTERMSIG(status);
        child->end.exit_code = EXIT_SIGNAL + WTERMSIG(status);
    } else {
        child->end.exit_code = WEXITSTATUS(status);
    }
    finish(child);
}

static void take_news(struct child *child, const struct child_news *news) {
    switch (news->type) {
    case CHILD_NEWS_STARTED:
        child->group = news->number;
        break;
    case CHILD_NEWS_FAILED:
        child->end.error = news->number;
        child->end.exit_code = news->number == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
        break;
    case CHILD_NEWS_STOPPED:
        /* It would keep what it holds and do nothing with it. */
        if (news->number == SIGTSTP) {
            fputs("\nlease: Ctrl-Z is ignored while something is held\n", stderr);
            child_signal(child, SIGCONT);
        }
        break;
    case CHILD_NEWS_ENDED:
        take_end(child, news);
        break;
    }
}

bool child_poll(struct child *child, struct child_end *out_end) {
    struct child_news news;
    while (!child->is_over) {
        ssize_t got = recv(child->socket, &news, sizeof news, MSG_DONTWAIT);
        if (got == (ssize_t)sizeof news) {
            take_news(child, &news);
        } else if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
            return false;
        } else {
            /* Its guard is gone without a word. */
            end_descendants();
            if (child->end.error == 0) {
                child->end = (struct child_end){.exit_code = EXIT_SIGNAL + SIGKILL,
                                                .signal_number = SIGKILL,
                                                .was_ended = true};
            }
            finish(child);
        }
    }
    *out_end = child->end;
    return true;
}

void child_destroy(struct child *child) {
    if (child == NULL) {
        return;
    }
    if (child->socket >= 0) {
        close(child->socket);
    }
    if (!child->is_over) {
        kill(child->guard, SIGKILL);
        waitpid(child->guard, NULL, 0);
        end_descendants();
    }
    munmap(child->deadline, sizeof *child->deadline);
    free(child);
}
