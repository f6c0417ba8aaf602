/*
 * Holding something while a command runs: a session, what it acquires, and the command (child.h)
 * that may run only for as long as the session is valid here (lease_valid_for_ms()). One loop waits
 * for the server, for signals and for the command. `lease lock`, `elect`, `reserve`, `session`,
 * `cron` and `exec` are made of it.
 */
#ifndef LEASED_CLI_HOLD_H
#define LEASED_CLI_HOLD_H

#include "cli/child.h"
#include "cli/cli_lease.h"
#include "cli/hold_deadline.h"
#include "cli/terminal.h"

enum { HOLD_REASON_SIZE_MAX = 512, HOLD_NAME_SIZE_MAX = 257, HOLD_NOTE_SIZE_MAX = 256 };

/* What is wanted. Texts are borrowed for the hold's life. */
struct hold_options {
    const struct lease_want *wants; /* none: a session alone */
    size_t n_wants;
    const char *title; /* for people: "backup", "gpus=2" */
    int64_t wait_ms;
    enum lease_class purpose;
    enum lease_strategy strategy;
    int64_t ttl_ms;   /* 0: the usual one */
    int64_t grace_ms; /* -1: a fifth of the TTL, at most 10 s */
    int64_t hold_limit_ms;
    uint32_t queue_limit;
    const char *value;
    const char *owner;
    const char *note;
    const char *variable;    /* "NAME=value" for the command; NULL: none */
    bool is_quiet_when_busy; /* nothing is said about CLI_BUSY */
};

/* The options that hold_take_options() reads, for the tables of commands. */
#define HOLD_OPTIONS                                                                               \
    {"--wait", 'w', "TIME", "give up after so long (wait as long as it takes)"},                   \
        {"--no-wait", 'n', NULL, "give up at once when somebody else has it"},                     \
        {"--queue-limit", 0, "N", "give up when more than so many wait before"},                   \
        HOLD_SESSION_OPTIONS
#define HOLD_SESSION_OPTIONS                                                                       \
    {"--for", 0, "CLASS", "usual times of a lock, leader, session, reservation or cache"},         \
        {"--ttl", 0, "TIME", "how long it outlives its last renewal, 250ms and up"},               \
        {"--grace", 0, "TIME", "from SIGTERM to SIGKILL when it is lost (a fifth of the TTL)"},    \
        {"--hold-limit", 0, "TIME", "given back after so long, whatever is renewed"}, {            \
        "--owner", 0, "NAME", "who has it, for others to see (HOST:PID)"                           \
    }

struct hold {
    struct cli *cli;
    struct hold_options options;
    struct lease_connection *connection;
    struct lease_session *session; /* NULL: none now */
    struct lease_hold *held;       /* NULL: none now, or a session alone */
    int signals;                   /* a signalfd */
    struct terminal terminal;
    struct hold_deadline deadline; /* what the command reads it from */
    int renew_pipe[2];             /* the command writes, we renew */
    uint64_t terminal_used_at_s;
    int signal_number; /* that told us to stop, while we waited or the command ran; 0: none */
    bool is_hung_up;   /* the terminal is gone, and the command was ended for it */
    bool is_lost;
    bool is_over; /* not waited for when it is given back: the server may be gone */
    char reason[HOLD_REASON_SIZE_MAX]; /* why it was lost */
    struct hold_wait *waiting;
};

/* Reads HOLD_OPTIONS, or with `is_session` HOLD_SESSION_OPTIONS, into `options`, which has the
 * command's own defaults. */
enum cli_exit hold_take_options(struct cli *cli, bool is_session, struct hold_options *options);
/* "gpus=2" or "gpus" as a want of so many slots of a pool; `room` keeps the name. */
enum cli_exit hold_take_slots(struct cli *cli, const char *text, char room[HOLD_NAME_SIZE_MAX],
                              struct lease_want *out_want);
/* The command line as a note for others to see. Gives `room`. */
const char *hold_note(const struct cli *cli, char *room, size_t room_size);

/* Blocks signals and opens the connection. */
enum cli_exit hold_open(struct hold *hold, struct cli *cli, const struct hold_options *options);
/* Makes a session and waits until it has what is wanted. CLI_OK, CLI_BUSY, CLI_NOT_RUN, or
 * CLI_SIGNAL and the number of the signal that told us to stop; said on standard error. */
enum cli_exit hold_acquire(struct hold *hold);
/* Runs the command until it has ended, by itself or because the session was lost. CLI_OK: `out_end`
 * says how. */
enum cli_exit hold_run(struct hold *hold, char *const *argv, struct child_end *out_end);
/* Holds it until a signal tells us to stop, or it is lost. */
enum cli_exit hold_keep(struct hold *hold);
/* Gives back what is held and ends the session. */
void hold_release(struct hold *hold);
void hold_close(struct hold *hold);

/* All of it: acquire, run the command of the command line (or hold without one), release. The exit
 * code of `lease`. */
enum cli_exit hold_and_run(struct cli *cli, const struct hold_options *options);
/* What `lease` gives for a command that ended so, with a sentence on standard error where one is
 * needed. */
enum cli_exit hold_exit_of(struct hold *hold, const struct child_end *end);

/* Waits until *has_news, which a callback sets, at most so long. False: a signal told us to stop.
 */
bool hold_wait_for_news(struct hold *hold, uint64_t limit_ms, const bool *has_news);
/* Waits until this moment of CLOCK_BOOTTIME. False: a signal told us to stop. */
bool hold_wait_until(struct hold *hold, uint64_t at_ms);

#endif
