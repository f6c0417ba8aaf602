#include "server/mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum status mapped_file_open(const char *path, struct bytes *out_bytes, char *out_error,
                             size_t error_size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) != 0) {
        int number = errno;
        if (fd >= 0) {
            close(fd);
        }
        snprintf(out_error, error_size, "cannot read %s: %s", path, strerror(number));
        return STATUS_INVALID;
    }
    void *data = MAP_FAILED;
    errno = EINVAL;
    if (S_ISREG(status.st_mode) && status.st_size > 0) {
        data = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    int number = errno;
    close(fd);
    if (data == MAP_FAILED) {
        snprintf(out_error, error_size, "%s is not a file that can be restored: %s", path,
                 S_ISREG(status.st_mode) && status.st_size == 0 ? "it is empty" : strerror(number));
        return STATUS_INVALID;
    }
    *out_bytes = bytes_of(data, (size_t)status.st_size);
    return STATUS_OK;
}

void mapped_file_close(struct bytes bytes) {
    if (bytes.data != NULL) {
        munmap((void *)bytes.data, bytes.size);
    }
}
