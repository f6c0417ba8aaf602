#include "cli/render_output.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NEW_FILE_MODE = 0644, MODE_BITS = 07777, SHELL_SIGNAL = 128, NOT_FOUND = 127 };

/* The path of `> file`; false: standard output is something else, is appended to, or has what
 * another program of the same redirection has written. */
static bool find_stdout(char path[RENDER_PATH_SIZE_MAX]) {
    struct stat stat;
    int flags = fcntl(STDOUT_FILENO, F_GETFL);
    if (fstat(STDOUT_FILENO, &stat) != 0 || !S_ISREG(stat.st_mode) || stat.st_nlink == 0 ||
        stat.st_size != 0 || flags < 0 || (flags & O_APPEND) != 0) {
        return false;
    }
    ssize_t size = readlink("/proc/self/fd/1", path, RENDER_PATH_SIZE_MAX - 1);
    if (size <= 0 || size == RENDER_PATH_SIZE_MAX - 1) {
        return false;
    }
    path[size] = '\0';
    return true;
}

bool render_output_init(struct render_output *output, const char *path) {
    *output = (struct render_output){.path = ""};
    if (path == NULL) {
        output->is_of_shell = find_stdout(output->path);
        if (!output->is_of_shell) {
            output->path[0] = '\0';
        }
        return true;
    }
    return snprintf(output->path, sizeof output->path, "%s", path) < RENDER_PATH_SIZE_MAX;
}

static bool write_all(int file, struct bytes content) {
    size_t at = 0;
    while (at < content.size) {
        ssize_t size = write(file, content.data + at, content.size - at);
        if (size < 0 && errno != EINTR) {
            return false;
        }
        at += size > 0 ? (size_t)size : 0;
    }
    return true;
}

/* Whether the file has exactly this content. */
static bool is_same(const char *path, struct bytes content) {
    struct stat stat;
    uint8_t room[16 * 1024];
    size_t at = 0;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return false;
    }
    bool same =
        fstat(file, &stat) == 0 && S_ISREG(stat.st_mode) && (size_t)stat.st_size == content.size;
    while (same && at < content.size) {
        ssize_t size = read(file, room, sizeof room);
        same = size > 0 && (size_t)size <= content.size - at &&
               memcmp(room, content.data + at, (size_t)size) == 0;
        at += same ? (size_t)size : 0;
    }
    close(file);
    return same;
}

/* The new file beside the old one, with its mode and, where that may be done, its owner. */
static int create_beside(const char *path, char beside[RENDER_PATH_SIZE_MAX]) {
    struct stat stat_of_old;
    if (snprintf(beside, RENDER_PATH_SIZE_MAX, "%s.XXXXXX", path) >= RENDER_PATH_SIZE_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    int file = mkostemp(beside, O_CLOEXEC);
    if (file < 0) {
        return -1;
    }
    bool is_old = stat(path, &stat_of_old) == 0;
    mode_t mask = umask(0);
    umask(mask);
    int ignored = is_old ? fchown(file, stat_of_old.st_uid, stat_of_old.st_gid) : 0;
    (void)ignored;
    if (fchmod(file, is_old ? stat_of_old.st_mode & MODE_BITS : NEW_FILE_MODE & ~mask) != 0) {
        close(file);
        unlink(beside);
        return -1;
    }
    return file;
}

static enum render_written replace(const char *path, struct bytes content) {
    char beside[RENDER_PATH_SIZE_MAX];
    int file = create_beside(path, beside);
    if (file < 0) {
        return RENDER_NOT_WRITTEN;
    }
    bool is_well = write_all(file, content) && fsync(file) == 0;
    is_well = close(file) == 0 && is_well;
    if (is_well && rename(beside, path) == 0) {
        return RENDER_WRITTEN;
    }
    int why = errno;
    unlink(beside);
    errno = why;
    return RENDER_NOT_WRITTEN;
}

enum render_written render_output_write(const struct render_output *output, struct bytes content) {
    if (output->path[0] == '\0') {
        return write_all(STDOUT_FILENO, content) ? RENDER_WRITTEN : RENDER_NOT_WRITTEN;
    }
    if (is_same(output->path, content)) {
        return RENDER_UNCHANGED;
    }
    return replace(output->path, content);
}

int render_output_run(const char *command) {
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        sigset_t none;
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        signal(SIGPIPE, SIG_DFL);
        /* What it prints is for people: the rendered text alone is on standard output. */
        dup2(STDERR_FILENO, STDOUT_FILENO);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(NOT_FOUND);
    }
    if (pid < 0) {
        return NOT_FOUND;
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : SHELL_SIGNAL + WTERMSIG(status);
}
