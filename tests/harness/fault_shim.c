/*
 * A test's hand on the disk: loaded into one server with LD_PRELOAD, it makes the n-th call of some
 * kind on files below one folder fail, wait, or be the last one (SIGKILL before the call). What it
 * does is told by a file of 64 bytes that the test maps too (fault_shim.py), so that it can be
 * armed at any moment, and so that the test sees how many calls there were. It never runs in the
 * product.
 *
 * FAULT_FOLDER: the folder, without a slash at the end. FAULT_CONTROL: the file.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum kind { WRITE = 1, SYNC = 2, RENAME = 4, UNLINK = 8, TRUNCATE = 16, ALLOCATE = 32 };
enum action { COUNT = 0, FAIL = 1, KILL = 2, HOLD = 3 };

/* fault_shim.py knows the same fields. */
struct control {
    uint32_t kinds;  /* 0: not armed, nothing is counted */
    uint32_t action; /* what happens at the n-th call */
    int32_t error;   /* FAIL: errno */
    uint32_t fired;  /* how often it happened */
    uint64_t nth;    /* counted from 1 */
    uint64_t repeat; /* at so many calls, the n-th and those that follow it */
    uint64_t calls;  /* since it was armed */
    uint64_t unused[3];
};

static struct control *control;
static char folder[PATH_MAX];
static size_t folder_size;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAULT_CONTROL");
    const char *below = getenv("FAULT_FOLDER");
    if (path == NULL || below == NULL || strlen(below) >= sizeof folder) {
        return;
    }
    int fd = open(path, O_RDWR | O_CLOEXEC);
    void *mapped = fd < 0 ? MAP_FAILED
                          : mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED) {
        fprintf(stderr, "fault_shim: %s: %s\n", path, strerror(errno));
        abort();
    }
    close(fd);
    strcpy(folder, below);
    folder_size = strlen(folder);
    control = mapped;
}

static int is_below(const char *path, size_t size) {
    return size > folder_size && memcmp(path, folder, folder_size) == 0 && path[folder_size] == '/';
}

/* Paths that the server names itself are absolute or below the folder it was started in, which is
 * not ours: only those with a descriptor of a folder need looking up. */
static int is_path_ours(int at, const char *path) {
    char text[PATH_MAX];
    char link[64];
    if (path[0] == '/') {
        return is_below(path, strlen(path));
    }
    if (at == AT_FDCWD) {
        if (getcwd(text, sizeof text) == NULL) {
            return 0;
        }
    } else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", at);
        ssize_t size = readlink(link, text, sizeof text - 1);
        if (size < 0) {
            return 0;
        }
        text[size] = '\0';
    }
    size_t size = strlen(text);
    return strcmp(text, folder) == 0 || is_below(text, size);
}

static int is_file_ours(int fd) {
    char text[PATH_MAX];
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, text, sizeof text);
    /* The folder itself counts: it is synced too. */
    return size > 0 && (is_below(text, (size_t)size) ||
                        ((size_t)size == folder_size && memcmp(text, folder, folder_size) == 0));
}

static void hold(void) {
    const struct timespec pause = {.tv_nsec = 1000 * 1000};
    while (__atomic_load_n(&control->action, __ATOMIC_SEQ_CST) == HOLD) {
        nanosleep(&pause, NULL);
    }
}

/* Counts a call; 0: go on, else the errno to fail with. */
static int counted(void) {
    uint64_t call = __atomic_add_fetch(&control->calls, 1, __ATOMIC_SEQ_CST);
    uint64_t nth = __atomic_load_n(&control->nth, __ATOMIC_SEQ_CST);
    uint64_t repeat = __atomic_load_n(&control->repeat, __ATOMIC_SEQ_CST);
    if (call < nth || call - nth >= repeat) {
        return 0;
    }
    uint32_t action = __atomic_load_n(&control->action, __ATOMIC_SEQ_CST);
    if (action == COUNT) {
        return 0;
    }
    __atomic_add_fetch(&control->fired, 1, __ATOMIC_SEQ_CST);
    switch (action) {
    case FAIL:
        return control->error;
    case KILL:
        kill(getpid(), SIGKILL);
        for (;;) {
            pause();
        }
    case HOLD:
        hold();
        return 0;
    default:
        return 0;
    }
}

static int is_armed(enum kind kind) {
    return control != NULL && (__atomic_load_n(&control->kinds, __ATOMIC_SEQ_CST) & kind) != 0;
}

static int fault_of_file(enum kind kind, int fd) {
    int before = errno;
    int fault = is_armed(kind) && is_file_ours(fd) ? counted() : 0;
    errno = fault != 0 ? fault : before;
    return fault;
}

static int fault_of_path(enum kind kind, int at, const char *path) {
    int before = errno;
    int fault = is_armed(kind) && is_path_ours(at, path) ? counted() : 0;
    errno = fault != 0 ? fault : before;
    return fault;
}

static void *next(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (found == NULL) {
        abort();
    }
    return found;
}

/* Looked up at the first call; two threads that do it at once find the same. */
#define NEXT(result, name, ...)                                                                    \
    static result (*after)(__VA_ARGS__);                                                           \
    if (after == NULL) {                                                                           \
        *(void **)&after = next(#name);                                                            \
    }

#define OF_FILE(result, name, kind, parameters, arguments, ...)                                    \
    result name parameters;                                                                        \
    result name parameters {                                                                       \
        NEXT(result, name, __VA_ARGS__)                                                            \
        return fault_of_file(kind, fd) != 0 ? -1 : after arguments;                                \
    }

#define OF_PATH(name, kind, at, path, parameters, arguments, ...)                                  \
    int name parameters;                                                                           \
    int name parameters {                                                                          \
        NEXT(int, name, __VA_ARGS__)                                                               \
        return fault_of_path(kind, at, path) != 0 ? -1 : after arguments;                          \
    }

/* posix_fallocate answers the error itself. */
#define OF_ALLOCATION(name)                                                                        \
    int name(int fd, off_t offset, off_t size);                                                    \
    int name(int fd, off_t offset, off_t size) {                                                   \
        NEXT(int, name, int, off_t, off_t)                                                         \
        int fault = fault_of_file(ALLOCATE, fd);                                                   \
        return fault != 0 ? fault : after(fd, offset, size);                                       \
    }

OF_FILE(ssize_t, write, WRITE, (int fd, const void *data, size_t size), (fd, data, size), int,
        const void *, size_t)
OF_FILE(ssize_t, writev, WRITE, (int fd, const struct iovec *parts, int n), (fd, parts, n), int,
        const struct iovec *, int)
OF_FILE(ssize_t, pwrite, WRITE, (int fd, const void *data, size_t size, off_t offset),
        (fd, data, size, offset), int, const void *, size_t, off_t)
OF_FILE(ssize_t, pwrite64, WRITE, (int fd, const void *data, size_t size, off_t offset),
        (fd, data, size, offset), int, const void *, size_t, off_t)
OF_FILE(ssize_t, pwritev, WRITE, (int fd, const struct iovec *parts, int n, off_t offset),
        (fd, parts, n, offset), int, const struct iovec *, int, off_t)
OF_FILE(ssize_t, pwritev64, WRITE, (int fd, const struct iovec *parts, int n, off_t offset),
        (fd, parts, n, offset), int, const struct iovec *, int, off_t)
OF_FILE(ssize_t, pwritev2, WRITE,
        (int fd, const struct iovec *parts, int n, off_t offset, int flags),
        (fd, parts, n, offset, flags), int, const struct iovec *, int, off_t, int)
OF_FILE(ssize_t, pwritev64v2, WRITE,
        (int fd, const struct iovec *parts, int n, off_t offset, int flags),
        (fd, parts, n, offset, flags), int, const struct iovec *, int, off_t, int)
OF_FILE(int, fsync, SYNC, (int fd), (fd), int)
OF_FILE(int, fdatasync, SYNC, (int fd), (fd), int)
OF_FILE(int, sync_file_range, SYNC, (int fd, off_t offset, off_t size, unsigned flags),
        (fd, offset, size, flags), int, off_t, off_t, unsigned)
OF_FILE(int, ftruncate, TRUNCATE, (int fd, off_t size), (fd, size), int, off_t)
OF_FILE(int, ftruncate64, TRUNCATE, (int fd, off_t size), (fd, size), int, off_t)
OF_FILE(int, fallocate, ALLOCATE, (int fd, int mode, off_t offset, off_t size),
        (fd, mode, offset, size), int, int, off_t, off_t)
OF_FILE(int, fallocate64, ALLOCATE, (int fd, int mode, off_t offset, off_t size),
        (fd, mode, offset, size), int, int, off_t, off_t)
OF_ALLOCATION(posix_fallocate)
OF_ALLOCATION(posix_fallocate64)
OF_PATH(truncate, TRUNCATE, AT_FDCWD, path, (const char *path, off_t size), (path, size),
        const char *, off_t)
OF_PATH(truncate64, TRUNCATE, AT_FDCWD, path, (const char *path, off_t size), (path, size),
        const char *, off_t)
OF_PATH(rename, RENAME, AT_FDCWD, from, (const char *from, const char *to), (from, to),
        const char *, const char *)
OF_PATH(renameat, RENAME, from_at, from, (int from_at, const char *from, int to_at, const char *to),
        (from_at, from, to_at, to), int, const char *, int, const char *)
OF_PATH(renameat2, RENAME, from_at, from,
        (int from_at, const char *from, int to_at, const char *to, unsigned flags),
        (from_at, from, to_at, to, flags), int, const char *, int, const char *, unsigned)
OF_PATH(link, RENAME, AT_FDCWD, from, (const char *from, const char *to), (from, to), const char *,
        const char *)
/* The source may be a file without a name, given by its descriptor: the folder it gets into tells.
 */
OF_PATH(linkat, RENAME, to_at, to,
        (int from_at, const char *from, int to_at, const char *to, int flags),
        (from_at, from, to_at, to, flags), int, const char *, int, const char *, int)
OF_PATH(unlink, UNLINK, AT_FDCWD, path, (const char *path), (path), const char *)
OF_PATH(unlinkat, UNLINK, at, path, (int at, const char *path, int flags), (at, path, flags), int,
        const char *, int)
