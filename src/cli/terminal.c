#include "cli/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

void terminal_init(struct terminal *terminal) {
    *terminal = (struct terminal){.file = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)};
}

void terminal_clear(struct terminal *terminal) {
    if (terminal->file >= 0) {
        close(terminal->file);
    }
    terminal->file = -1;
}

bool terminal_is_ours(const struct terminal *terminal) {
    return terminal->file >= 0 && tcgetpgrp(terminal->file) == getpgrp();
}

/* A process in the background that changes the foreground is stopped by SIGTTOU, unless it is
 * blocked. */
static void set_foreground(int file, pid_t group) {
    sigset_t blocked;
    sigset_t before;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTTOU);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    tcsetpgrp(file, group);
    sigprocmask(SIG_SETMASK, &before, NULL);
}

void terminal_give(struct terminal *terminal, pid_t group) {
    if (terminal_is_ours(terminal)) {
        set_foreground(terminal->file, group);
        terminal->given = true;
    }
}

void terminal_given(struct terminal *terminal) {
    terminal->given = true;
}

void terminal_take_back(struct terminal *terminal) {
    if (terminal->given) {
        set_foreground(terminal->file, getpgrp());
        terminal->given = false;
    }
}

bool terminal_is_gone(const struct terminal *terminal) {
    return terminal->file >= 0 && tcgetpgrp(terminal->file) < 0 &&
           (errno == EIO || errno == ENOTTY);
}
