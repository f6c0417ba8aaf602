/* Commands that run while something is held: real processes, ended in every way. */
#include "cli/child.h"

#include "base/clock.h"
#include "cli/child_guard.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* Generous: the machine may be busy. What is tested is the order of things, not their speed. */
enum { WAIT_MS_MAX = 20000, GRACE_MS = 300 };

static const char *const no_variables[] = {NULL};

static struct child *start(const char *script, struct child_times times) {
    static char *argv[4];
    argv[0] = "sh";
    argv[1] = "-c";
    argv[2] = (char *)(uintptr_t)script;
    const struct child_options options = {
        .argv = argv, .variables = no_variables, .grace_ms = GRACE_MS};
    struct child *child;
    assert_int_equal(child_start(&options, times, &child), STATUS_OK);
    return child;
}

static struct child_end wait_end(struct child *child) {
    struct child_end end;
    uint64_t give_up_ms = clock_boottime_ms() + WAIT_MS_MAX;
    while (!child_poll(child, &end)) {
        struct pollfd file = {.fd = child_fd(child), .events = POLLIN};
        assert_true(clock_boottime_ms() < give_up_ms);
        poll(&file, 1, 100);
    }
    child_destroy(child);
    return end;
}

static const struct child_times no_times = {0, 0};

/* A pipe whose writing end the command and all that it starts have: its end tells that all are
 * gone. */
struct witness {
    int reader;
    int writer;
};

static struct witness make_witness(void) {
    int files[2];
    assert_int_equal(pipe(files), 0);
    return (struct witness){files[0], files[1]};
}

static void wait_line(struct witness *witness) {
    char byte = 0;
    while (byte != '\n') {
        struct pollfd file = {.fd = witness->reader, .events = POLLIN};
        assert_true(poll(&file, 1, WAIT_MS_MAX) > 0);
        assert_int_equal(read(witness->reader, &byte, 1), 1);
    }
}

/* Nobody has the other end any more. */
static bool is_all_gone(struct witness *witness, int limit_ms) {
    char room[64];
    struct pollfd file = {.fd = witness->reader, .events = POLLIN};
    while (poll(&file, 1, limit_ms) > 0) {
        if (read(witness->reader, room, sizeof room) == 0) {
            close(witness->reader);
            return true;
        }
    }
    return false;
}

static const char *script_with(const struct witness *witness, const char *format) {
    static char script[512];
    snprintf(script, sizeof script, format, witness->writer, witness->writer, witness->writer);
    return script;
}

static void the_exit_code_is_passed_on(void **state) {
    struct child_end end = wait_end(start("exit 7", no_times));
    assert_int_equal(end.exit_code, 7);
    assert_int_equal(end.signal_number, 0);
    assert_false(end.was_ended);
    end = wait_end(start("kill -USR1 $$", no_times));
    assert_int_equal(end.exit_code, 128 + SIGUSR1);
    assert_int_equal(end.signal_number, SIGUSR1);
}

static void what_cannot_be_run_is_told(void **state) {
    struct child *child;
    char *argv[] = {"/nowhere/to/be/found", NULL};
    const struct child_options options = {.argv = argv, .variables = no_variables};
    assert_int_equal(child_start(&options, no_times, &child), STATUS_OK);
    struct child_end end = wait_end(child);
    assert_int_equal(end.error, ENOENT);
    assert_int_equal(end.exit_code, 127);
    argv[0] = "/";
    assert_int_equal(child_start(&options, no_times, &child), STATUS_OK);
    assert_int_equal(wait_end(child).exit_code, 126);
}

static void variables_are_added_and_replaced(void **state) {
    setenv("LEASE_NAME", "old", 1);
    char *argv[] = {"sh", "-c", "test \"$LEASE_NAME $LEASE_TOKEN\" = 'backup 17'", NULL};
    const char *const variables[] = {"LEASE_NAME=backup", "LEASE_TOKEN=17", NULL};
    const struct child_options options = {.argv = argv, .variables = variables};
    struct child *child;
    assert_int_equal(child_start(&options, no_times, &child), STATUS_OK);
    assert_int_equal(wait_end(child).exit_code, 0);
}

static void files_get_the_numbers_that_are_told(void **state) {
    struct witness one = make_witness();
    struct witness two = make_witness();
    /* Each gets the number of the other, and an error could still be told. */
    const struct child_file files[] = {{one.writer, two.writer}, {two.writer, one.writer}, {-1, 0}};
    char script[64];
    snprintf(script, sizeof script, "echo one >&%d; echo two >&%d", two.writer, one.writer);
    char *argv[] = {"bash", "-c", script, NULL};
    const struct child_options options = {.argv = argv, .variables = no_variables, .files = files};
    struct child *child;
    char text[8] = "";
    assert_int_equal(child_start(&options, no_times, &child), STATUS_OK);
    assert_int_equal(wait_end(child).exit_code, 0);
    assert_int_equal(read(one.reader, text, sizeof text), 4);
    assert_memory_equal(text, "one", 3);
    assert_true(child_free_number(STDERR_FILENO) > STDERR_FILENO);
    assert_int_not_equal(child_free_number(one.reader - 1), one.reader);
    close(one.writer);
    close(two.writer);
    close(one.reader);
    close(two.reader);
}

static void a_signal_reaches_the_whole_group(void **state) {
    struct witness witness = make_witness();
    struct child *child =
        start(script_with(&witness,
                          "sh -c 'trap \"exit 0\" USR1; echo >&%d; while :; do sleep 0.02; done';"
                          " exit 5"),
              no_times);
    close(witness.writer);
    wait_line(&witness);
    child_signal(child, SIGUSR1);
    /* The outer shell dies of it: the default of SIGUSR1. */
    assert_int_equal(wait_end(child).exit_code, 128 + SIGUSR1);
    assert_true(is_all_gone(&witness, WAIT_MS_MAX));
}

static void at_its_deadline_it_gets_sigterm_then_sigkill(void **state) {
    struct witness witness = make_witness();
    uint64_t now_ms = clock_boottime_ms();
    const struct child_times times = {now_ms + 100, now_ms + 400};
    struct child *child =
        start(script_with(&witness, "trap 'echo >&%d' TERM; while :; do sleep 0.02; done"), times);
    close(witness.writer);
    wait_line(&witness); /* SIGTERM came and was ignored */
    struct child_end end = wait_end(child);
    assert_true(end.was_ended);
    assert_int_equal(end.signal_number, SIGKILL);
    assert_true(clock_boottime_ms() >= times.kill_at_ms);
    assert_true(is_all_gone(&witness, 0)); /* before we were told */
}

static void a_deadline_that_moves_on_ends_nothing(void **state) {
    uint64_t now_ms = clock_boottime_ms();
    struct child *child =
        start("sleep 0.4; exit 3", (struct child_times){now_ms + 10000, now_ms + 10000});
    for (int i = 0; i < 5; i++) {
        now_ms = clock_boottime_ms();
        child_set_times(child, (struct child_times){now_ms + 20000, now_ms + 20000});
    }
    struct child_end end = wait_end(child);
    assert_int_equal(end.exit_code, 3);
    assert_false(end.was_ended);
}

static void what_left_its_group_ends_too(void **state) {
    struct witness witness = make_witness();
    struct child *child = start(
        script_with(&witness, "setsid sh -c 'trap \"\" TERM HUP; echo >&%d; sleep 600' & wait"),
        no_times);
    close(witness.writer);
    wait_line(&witness);
    child_stop(child);
    assert_true(wait_end(child).was_ended);
    assert_true(is_all_gone(&witness, 0));
}

static void what_a_command_leaves_behind_ends_with_it(void **state) {
    struct witness witness = make_witness();
    struct child *child =
        start(script_with(&witness, "sh -c 'echo >&%d; sleep 600' & sleep 0.1; exit 0"), no_times);
    close(witness.writer);
    wait_line(&witness);
    struct child_end end = wait_end(child);
    assert_int_equal(end.exit_code, 0);
    assert_false(end.was_ended);
    assert_true(is_all_gone(&witness, 0));
}

/* A process that starts a command and then does nothing: as `lease` does when it is stopped. */
static pid_t start_owner(const struct witness *witness, const char *script, uint64_t ends_in_ms) {
    pid_t owner = fork();
    if (owner == 0) {
        uint64_t now_ms = clock_boottime_ms();
        start(script, (struct child_times){now_ms + ends_in_ms, now_ms + ends_in_ms});
        close(witness->writer);
        for (;;) {
            pause();
        }
    }
    return owner;
}

static void nothing_outlives_an_owner_that_is_killed(void **state) {
    struct witness witness = make_witness();
    const char *script =
        script_with(&witness, "setsid sleep 600 >&%d & trap '' TERM; echo >&%d; sleep 600");
    pid_t owner = start_owner(&witness, script, WAIT_MS_MAX * 10);
    close(witness.writer);
    wait_line(&witness);
    kill(owner, SIGKILL);
    waitpid(owner, NULL, 0);
    assert_true(is_all_gone(&witness, WAIT_MS_MAX));
}

static void the_deadline_of_an_owner_that_is_stopped_is_kept(void **state) {
    struct witness witness = make_witness();
    pid_t owner = start_owner(&witness, script_with(&witness, "echo >&%d; sleep 600"), 500);
    close(witness.writer);
    wait_line(&witness);
    kill(owner, SIGSTOP);
    assert_true(is_all_gone(&witness, WAIT_MS_MAX));
    kill(owner, SIGKILL);
    waitpid(owner, NULL, 0);
}

static pid_t guard_of(const char *line) {
    return (pid_t)strtol(line, NULL, 10);
}

static void a_guard_that_is_killed_takes_all_with_it(void **state) {
    struct witness witness = make_witness();
    struct child *child = start(
        script_with(&witness, "setsid sleep 600 >&%d & echo $PPID >&%d; sleep 600"), no_times);
    char line[32] = "";
    close(witness.writer);
    struct pollfd file = {.fd = witness.reader, .events = POLLIN};
    assert_true(poll(&file, 1, WAIT_MS_MAX) > 0);
    assert_true(read(witness.reader, line, sizeof line - 1) > 0);
    kill(guard_of(line), SIGKILL);
    struct child_end end = wait_end(child);
    assert_true(end.was_ended);
    assert_true(is_all_gone(&witness, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_exit_code_is_passed_on),
        cmocka_unit_test(what_cannot_be_run_is_told),
        cmocka_unit_test(variables_are_added_and_replaced),
        cmocka_unit_test(files_get_the_numbers_that_are_told),
        cmocka_unit_test(a_signal_reaches_the_whole_group),
        cmocka_unit_test(at_its_deadline_it_gets_sigterm_then_sigkill),
        cmocka_unit_test(a_deadline_that_moves_on_ends_nothing),
        cmocka_unit_test(what_left_its_group_ends_too),
        cmocka_unit_test(what_a_command_leaves_behind_ends_with_it),
        cmocka_unit_test(nothing_outlives_an_owner_that_is_killed),
        cmocka_unit_test(the_deadline_of_an_owner_that_is_stopped_is_kept),
        cmocka_unit_test(a_guard_that_is_killed_takes_all_with_it),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
