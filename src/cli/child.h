/*
 * A command that runs while something is held, in a process group of its own, with a guard beside
 * it (child_guard.h) that ends it when the time for which it is held has passed. Whatever happens
 * to us, all that the command started ends.
 */
#ifndef LEASED_CLI_CHILD_H
#define LEASED_CLI_CHILD_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct child;
struct child_file;
struct terminal;

/* The first number after `after` under which a command inherits no file from us. Shells know
 * numbers up to 9 alone, so files for it should have small ones. */
int child_free_number(int after);

struct child_options {
    char *const *argv;
    const char *const *variables;   /* "NAME=value", added to the environment; ends with NULL */
    const struct child_file *files; /* that it gets beside those it inherits; NULL: none */
    uint32_t grace_ms;              /* from SIGTERM to SIGKILL */
    bool is_sigpipe_ignored;
    struct terminal *terminal;
};

struct child_times {
    uint64_t term_at_ms; /* of CLOCK_BOOTTIME; 0: never */
    uint64_t kill_at_ms;
};

struct child_end {
    int exit_code;     /* as a shell tells it: 128 and more for a signal */
    int signal_number; /* 0: it ended by itself */
    int error;         /* errno: it could not be run */
    bool was_ended;    /* by us: its time was over, or child_stop() */
};

/* The command's signals are not blocked, whatever the caller has blocked. STATUS_IO,
 * STATUS_NO_MEMORY: nothing runs; errno says why. */
enum status child_start(const struct child_options *options, struct child_times times,
                        struct child **out_child);

/* Readable when child_poll() has something to do. */
int child_fd(const struct child *child);
/* True: it is over, with all that it started, and the terminal is ours again. */
bool child_poll(struct child *child, struct child_end *out_end);

/* When it is to end unless it is told otherwise before. Costs no system call. */
void child_set_times(struct child *child, struct child_times times);
/* To its process group. */
void child_signal(struct child *child, int number);
/* SIGTERM now, SIGKILL after the grace. */
void child_stop(struct child *child);
/* We were told to go on (SIGCONT): if we are in the foreground now, so is it. */
void child_continue(struct child *child);

/* Ends what still runs, at once. Accepts NULL. */
void child_destroy(struct child *child);

#endif
