/*
 * The process between `lease` and the command that it runs. It is the command's parent and inherits
 * what the command leaves behind. It ends all of it, SIGTERM first and then SIGKILL, when the
 * deadline has come that `lease` moves on with every renewal, or when `lease` itself is gone: so a
 * `lease` that is stopped or killed leaves nothing running beyond the time for which it holds
 * anything.
 */
#ifndef LEASED_CLI_CHILD_GUARD_H
#define LEASED_CLI_CHILD_GUARD_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Shared memory: `lease` writes, the guard reads. Moments of CLOCK_BOOTTIME; 0: never. */
struct child_deadline {
    _Atomic uint64_t term_at_ms;
    _Atomic uint64_t kill_at_ms;
};

enum child_order_type {
    CHILD_ORDER_SIGNAL, /* pass `number` to the command's process group */
    CHILD_ORDER_END,    /* SIGTERM now, SIGKILL after `grace_ms` */
};
struct child_order {
    enum child_order_type type;
    int number;
    uint32_t grace_ms;
};

enum child_news_type {
    CHILD_NEWS_STARTED, /* `number`: its pid, and the id of its process group */
    CHILD_NEWS_FAILED,  /* `number`: the errno with which it could not be run */
    CHILD_NEWS_STOPPED, /* by the signal `number`, as with Ctrl-Z */
    CHILD_NEWS_ENDED,   /* `number`: its wait status. All that it started has ended too. */
};
struct child_news {
    enum child_news_type type;
    int number;
    bool is_term_sent; /* ended: the deadline had come, or `lease` had ordered the end */
    bool is_kill_sent;
};

/* A file that the command gets under a number that its environment tells. */
struct child_file {
    int file; /* -1: the end of the list */
    int number;
};

struct child_guard_options {
    char *const *argv;
    char *const *environment;       /* whole, for execve */
    const struct child_file *files; /* may be NULL */
    const struct child_deadline *deadline;
    int socket;              /* SOCK_SEQPACKET: orders in, news out */
    int terminal;            /* whose foreground the command gets; -1: none */
    uint32_t grace_ms;       /* when `lease` is gone, and for what the command leaves behind */
    sigset_t signal_mask;    /* of the command */
    bool is_sigpipe_ignored; /* by the command, as `lease` found it */
};

/* Runs in the forked process and never returns. */
_Noreturn void child_guard_run(const struct child_guard_options *options);

#endif
