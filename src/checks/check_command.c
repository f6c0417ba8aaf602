#include "checks/check_command.h"

#include "base/list.h"
#include "checks/check_spawn.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ARGUMENTS_SIZE_MAX = 4096, READ_SIZE = 4096, READS_MAX = 16 };

struct check_commands {
    uv_loop_t *loop;
    struct check_command_options options;
    uid_t user;
    gid_t group;
    bool changes_user;
    uv_signal_t child_ended;
    struct list running;
    size_t n_running; /* memory of, with those whose handle is being closed */
    bool is_destroyed;
    bool is_signal_closed;
};

struct check_command {
    struct check_commands *commands;
    struct list link;
    void (*done)(void *context, const struct check_result *result);
    void *context;
    pid_t pid;
    int output; /* the reading end */
    uv_poll_t readable;
    struct check_result result;
};

/* ---- options ---- */

static bool find_user(const char *name, uid_t *out_user, gid_t *out_group) {
    struct passwd entry;
    struct passwd *found = NULL;
    char room[4096];
    if (getpwnam_r(name, &entry, room, sizeof room, &found) != 0 || found == NULL) {
        return false;
    }
    *out_user = entry.pw_uid;
    *out_group = entry.pw_gid;
    return true;
}

static bool are_absolute(const char *list) {
    bool are_absolute = *list != '\0';
    while (are_absolute && *list != '\0') {
        are_absolute = *list == '/';
        list += strcspn(list, ",");
        list += *list == ',' ? 1 : 0;
    }
    return are_absolute;
}

const char *check_command_options_check(const struct check_command_options *options) {
    uid_t user = 0;
    gid_t group = 0;
    if (!options->is_enabled) {
        return NULL;
    }
    if (options->allowed[0] == '\0') {
        return "--enable-script-checks needs the programs that checks may run: "
               "--script-checks-allow=/path/to/program,...";
    }
    if (!are_absolute(options->allowed)) {
        return "--script-checks-allow: absolute paths of programs, with commas";
    }
    if (!find_user(options->user, &user, &group)) {
        return "--script-checks-user: there is no such user";
    }
    if (user == 0) {
        return "--script-checks-user: script checks are not run as root; name another user";
    }
    if (geteuid() != 0 && geteuid() != user) {
        return "--script-checks-user: this process is not root, so it can only run script checks "
               "as its own user";
    }
    return NULL;
}

static bool is_allowed(const char *list, const char *program) {
    size_t size = strlen(program);
    while (*list != '\0') {
        size_t n = strcspn(list, ",");
        if (n == size && n > 0 && memcmp(list, program, n) == 0) {
            return true;
        }
        list += n;
        list += *list == ',' ? 1 : 0;
    }
    return false;
}

/* ---- the end of a command ---- */

static void free_commands(struct check_commands *commands) {
    if (commands->is_destroyed && commands->is_signal_closed && commands->n_running == 0) {
        free(commands);
    }
}

static void on_poll_closed(uv_handle_t *handle) {
    struct check_command *command = handle->data;
    struct check_commands *commands = command->commands;
    (void)close(command->output);
    free(command);
    commands->n_running--;
    free_commands(commands);
}

static void close_command(struct check_command *command) {
    list_remove(&command->link);
    uv_close((uv_handle_t *)&command->readable, on_poll_closed);
}

/* The group is killed while its leader is not yet reaped, so that the number is still theirs. */
static void kill_group(pid_t pid) {
    (void)kill(-pid, SIGKILL);
    (void)kill(pid, SIGKILL);
}

static void read_output(struct check_command *command) {
    char room[READ_SIZE];
    for (int i = 0; i < READS_MAX; i++) {
        ssize_t size = read(command->output, room, sizeof room);
        if (size <= 0) {
            if (size == 0) {
                (void)uv_poll_stop(&command->readable);
            }
            return;
        }
        check_result_add(&command->result, bytes_of(room, (size_t)size));
    }
}

static void finish(struct check_command *command, int wait_status) {
    struct check_result *result = &command->result;
    read_output(command);
    int code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1;
    result->health = code == 0   ? REGISTRY_PASSING
                     : code == 1 ? REGISTRY_WARNING
                                 : REGISTRY_CRITICAL;
    if (result->output_size == 0 && code >= 0) {
        check_result_add_text(result, "exit code ");
        check_result_add_number(result, code);
    } else if (code < 0) {
        check_result_add_text(result, result->output_size > 0 ? "\n" : "");
        check_result_add_text(result, "ended by signal ");
        check_result_add_number(result, WTERMSIG(wait_status));
    }
    command->done(command->context, result);
    close_command(command);
}

/* True: it has ended, and its group was killed. */
static bool reap(pid_t pid, int *out_status) {
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0) {
        return false;
    }
    (void)kill(-pid, SIGKILL);
    return waitpid(pid, out_status, WNOHANG) == pid;
}

static void on_child_ended(uv_signal_t *handle, int number) {
    struct check_commands *commands = handle->data;
    (void)number;
    for (struct list *link = commands->running.next; link != &commands->running;) {
        struct check_command *command = list_entry(link, struct check_command, link);
        int status = 0;
        link = link->next;
        if (command->done == NULL) {
            if (reap(command->pid, &status)) { /* canceled */
                close_command(command);
            }
        } else if (reap(command->pid, &status)) {
            finish(command, status);
        }
    }
}

void check_command_cancel(struct check_command *command) {
    command->done = NULL;
    (void)uv_poll_stop(&command->readable);
    kill_group(command->pid);
}

/* ---- the beginning ---- */

/* Splits at NUL into `room`; 0: there are too many, or none. */
static size_t split(struct bytes text, char room[ARGUMENTS_SIZE_MAX + 1], char **arguments) {
    if (text.size == 0 || text.size > ARGUMENTS_SIZE_MAX) {
        return 0;
    }
    memcpy(room, text.data, text.size);
    room[text.size] = '\0';
    size_t n = 0;
    for (size_t at = 0; at < text.size; at += strlen(room + at) + 1) {
        if (n == CHECK_COMMAND_ARGUMENTS_MAX) {
            return 0;
        }
        arguments[n++] = room + at;
    }
    arguments[n] = NULL;
    return n;
}

static pid_t spawn(const struct check_commands *commands, char **arguments, int output) {
    char *environment[] = {"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", NULL};
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0) {
        return -1;
    }
    struct check_spawn_options options = {
        .arguments = arguments,
        .environment = environment,
        .output = output,
        .null = null,
        .changes_user = commands->changes_user,
        .user = commands->user,
        .group = commands->group,
    };
    pid_t pid = check_spawn(&options);
    int error = errno;
    (void)close(null);
    errno = error;
    return pid;
}

/* Only our end never waits: programs do not expect that of their standard output. */
static bool open_pipe(int ends[2]) {
    return pipe2(ends, O_CLOEXEC) == 0 && fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0;
}

static void on_readable(uv_poll_t *poll, int status, int events) {
    (void)status;
    (void)events;
    read_output(poll->data);
}

static struct check_command *watch_command(struct check_commands *commands, pid_t pid, int output) {
    struct check_command *command = calloc(1, sizeof *command);
    if (command == NULL || uv_poll_init(commands->loop, &command->readable, output) != 0) {
        abort();
    }
    command->commands = commands;
    command->pid = pid;
    command->output = output;
    command->readable.data = command;
    (void)uv_poll_start(&command->readable, UV_READABLE, on_readable);
    list_append(&commands->running, &command->link);
    commands->n_running++;
    return command;
}

static const char *refusal(const struct check_commands *commands, char **arguments, size_t n) {
    if (!commands->options.is_enabled) {
        return "script checks are not enabled on this member (--enable-script-checks)";
    }
    if (n == 0) {
        return "the command has no arguments, or too many";
    }
    return is_allowed(commands->options.allowed, arguments[0])
               ? NULL
               : "the program is not in --script-checks-allow";
}

struct check_command *check_command_start(struct check_commands *commands, struct bytes arguments,
                                          void (*done)(void *context,
                                                       const struct check_result *result),
                                          void *context, struct check_result *out_result) {
    char room[ARGUMENTS_SIZE_MAX + 1];
    char *words[CHECK_COMMAND_ARGUMENTS_MAX + 1];
    int ends[2] = {-1, -1};
    size_t n = split(arguments, room, words);
    const char *reason = refusal(commands, words, n);
    if (reason == NULL && !open_pipe(ends)) {
        reason = strerror(errno);
    }
    if (reason != NULL) {
        check_result_set(out_result, REGISTRY_CRITICAL, reason);
        return NULL;
    }
    pid_t pid = spawn(commands, words, ends[1]);
    int error = errno;
    (void)close(ends[1]);
    if (pid < 0) {
        (void)close(ends[0]);
        check_result_set(out_result, REGISTRY_CRITICAL, "the program cannot be run: ");
        check_result_add_text(out_result, strerror(error));
        return NULL;
    }
    struct check_command *command = watch_command(commands, pid, ends[0]);
    command->done = done;
    command->context = context;
    return command;
}

bool check_commands_have_room(const struct check_commands *commands) {
    return commands->n_running < CHECK_COMMANDS_MAX;
}

/* ---- life ---- */

struct check_commands *check_commands_create(uv_loop_t *loop,
                                             const struct check_command_options *options) {
    struct check_commands *commands = calloc(1, sizeof *commands);
    if (commands == NULL || uv_signal_init(loop, &commands->child_ended) != 0) {
        abort();
    }
    commands->loop = loop;
    commands->options = *options;
    commands->child_ended.data = commands;
    list_init(&commands->running);
    if (options->is_enabled) {
        bool is_found = find_user(options->user, &commands->user, &commands->group);
        assert(is_found);
        commands->changes_user = geteuid() == 0;
        (void)uv_signal_start(&commands->child_ended, on_child_ended, SIGCHLD);
        uv_unref((uv_handle_t *)&commands->child_ended);
    }
    return commands;
}

static void on_signal_closed(uv_handle_t *handle) {
    struct check_commands *commands = handle->data;
    commands->is_signal_closed = true;
    free_commands(commands);
}

void check_commands_destroy(struct check_commands *commands) {
    commands->is_destroyed = true;
    while (!list_is_empty(&commands->running)) {
        struct check_command *command =
            list_entry(commands->running.next, struct check_command, link);
        kill_group(command->pid);
        close_command(command);
    }
    uv_close((uv_handle_t *)&commands->child_ended, on_signal_closed);
}
