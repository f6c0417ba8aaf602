#include "cli/descendants.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PROCESSES_MAX = 65536, ENTRIES_SIZE = 32768, STAT_SIZE = 512, PATH_SIZE = 32 };

struct process {
    pid_t pid;
    pid_t parent;
    bool is_ours;
};

/* What the kernel writes for getdents64; the C library's readdir() would allocate. */
struct entry {
    uint64_t inode;
    int64_t offset;
    uint16_t size;
    uint8_t type;
    char name[];
};

/* The number after the name in parentheses and the state: "4711 (a) b) S 1 ...". 0: it is gone. */
static pid_t parent_of(int folder, const char *name) {
    char path[PATH_SIZE];
    char text[STAT_SIZE];
    size_t size = strlen(name);
    if (size + sizeof "/stat" > sizeof path) {
        return 0;
    }
    memcpy(path, name, size);
    memcpy(path + size, "/stat", sizeof "/stat");
    int file = openat(folder, path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return 0;
    }
    ssize_t got = read(file, text, sizeof text - 1);
    close(file);
    if (got <= 0) {
        return 0;
    }
    text[got] = '\0';
    const char *end = strrchr(text, ')');
    if (end == NULL || strlen(end) < 5) {
        return 0;
    }
    return (pid_t)strtol(end + 4, NULL, 10);
}

static size_t list_processes(struct process *processes) {
    static _Alignas(struct entry) char entries[ENTRIES_SIZE];
    int folder = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    size_t n = 0;
    long got;
    if (folder < 0) {
        return 0;
    }
    while ((got = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0) {
        for (long at = 0; at < got;) {
            const struct entry *entry = (const struct entry *)(const void *)(entries + at);
            at += entry->size;
            if (entry->name[0] < '1' || entry->name[0] > '9' || n == PROCESSES_MAX) {
                continue;
            }
            pid_t parent = parent_of(folder, entry->name);
            if (parent != 0) {
                processes[n++] =
                    (struct process){.pid = (pid_t)strtol(entry->name, NULL, 10), .parent = parent};
            }
        }
    }
    close(folder);
    return n;
}

/* The kernel lists processes in the order of their numbers. */
static bool is_ours(const struct process *processes, size_t n, pid_t pid) {
    size_t low = 0;
    size_t high = n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (processes[middle].pid < pid) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < n && processes[low].pid == pid && processes[low].is_ours;
}

size_t descendants_signal(int number, pid_t except) {
    static struct process processes[PROCESSES_MAX];
    size_t n = list_processes(processes);
    pid_t self = getpid();
    size_t n_signalled = 0;
    /* As many rounds as generations: a parent may be listed after its child. */
    for (bool is_more = true; is_more;) {
        is_more = false;
        for (size_t i = 0; i < n; i++) {
            struct process *each = &processes[i];
            if (!each->is_ours && each->pid != except &&
                (each->parent == self || is_ours(processes, n, each->parent))) {
                each->is_ours = true;
                is_more = true;
            }
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (processes[i].is_ours && kill(processes[i].pid, number) == 0) {
            n_signalled++;
        }
    }
    return n_signalled;
}
