#include "cli/hold_deadline.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LINE_SIZE = 64, PATH_SIZE = 64 };

enum status hold_deadline_init(struct hold_deadline *deadline) {
    char path[PATH_SIZE];
    deadline->reader = -1;
    deadline->written_ms = UINT64_MAX;
    deadline->writer = memfd_create("lease-deadline", MFD_CLOEXEC);
    if (deadline->writer < 0) {
        return STATUS_IO;
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", deadline->writer);
    deadline->reader = open(path, O_RDONLY | O_CLOEXEC);
    if (deadline->reader < 0) {
        hold_deadline_clear(deadline);
        return STATUS_IO;
    }
    hold_deadline_write(deadline, 0);
    return STATUS_OK;
}

void hold_deadline_clear(struct hold_deadline *deadline) {
    if (deadline->writer >= 0) {
        close(deadline->writer);
    }
    if (deadline->reader >= 0) {
        close(deadline->reader);
    }
    deadline->writer = -1;
    deadline->reader = -1;
}

void hold_deadline_write(struct hold_deadline *deadline, uint64_t until_ms) {
    char line[LINE_SIZE];
    if (until_ms == deadline->written_ms) {
        return;
    }
    int size = snprintf(line, sizeof line, "%020" PRIu64 " %020" PRIu64 "\n", until_ms, until_ms);
    if (pwrite(deadline->writer, line, (size_t)size, 0) == size) {
        deadline->written_ms = until_ms;
    }
}
