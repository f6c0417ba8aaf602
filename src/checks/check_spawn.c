#include "checks/check_spawn.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FILES_MAX = 256 };

/* Between vfork() and exec the child shares the memory of this process, so it calls the system and
 * nothing else. The C library's setuid() would change the user of every thread of the server; the
 * system's own call changes that of the child alone. */

static void reset_signals(void) {
    struct sigaction standard = {.sa_handler = SIG_DFL};
    for (int number = 1; number < NSIG; number++) {
        (void)sigaction(number, &standard, NULL);
    }
    sigset_t none;
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static bool change_user(const struct check_spawn_options *options) {
    return syscall(SYS_setgroups, 0, NULL) == 0 &&
           syscall(SYS_setresgid, options->group, options->group, options->group) == 0 &&
           syscall(SYS_setresuid, options->user, options->user, options->user) == 0;
}

static bool limit_resources(void) {
    struct rlimit none = {0, 0};
    struct rlimit files = {FILES_MAX, FILES_MAX};
    return syscall(SYS_prlimit64, 0, RLIMIT_CORE, &none, NULL) == 0 &&
           syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, &files, NULL) == 0;
}

static bool prepare(const struct check_spawn_options *options) {
    return setsid() >= 0 && dup2(options->null, STDIN_FILENO) >= 0 &&
           dup2(options->output, STDOUT_FILENO) >= 0 && dup2(options->output, STDERR_FILENO) >= 0 &&
           chdir("/") == 0 && limit_resources() &&
           (!options->changes_user || change_user(options)) &&
           prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) == 0;
}

static void run_child(const struct check_spawn_options *options, volatile int *error) {
    reset_signals();
    if (prepare(options)) {
        (void)execve(options->arguments[0], options->arguments, options->environment);
    }
    *error = errno;
    _exit(127);
}

/* Not inlined: the child must not return from the function that called vfork(), nor change
 * variables that this process goes on with. */
static __attribute__((noinline)) pid_t fork_and_run(const struct check_spawn_options *options,
                                                    volatile int *error) {
    pid_t pid = vfork();
    if (pid == 0) {
        run_child(options, error);
    }
    return pid;
}

pid_t check_spawn(const struct check_spawn_options *options) {
    volatile int error = 0;
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = fork_and_run(options, &error);
    if (pid < 0) {
        error = errno;
    }
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0 && pid > 0) {
        (void)waitpid(pid, NULL, 0); /* it has ended already */
        pid = -1;
    }
    errno = error;
    return pid;
}
