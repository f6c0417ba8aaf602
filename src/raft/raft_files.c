#include "raft/raft_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct real_files {
    int directory;
};

enum { ZEROS_SIZE = 128 * 1024, PARTS_MAX = 1024 };

static const uint8_t zeros[ZEROS_SIZE];

static int real_open(void *data, const char *name, enum raft_files_mode mode, int *out_file) {
    const struct real_files *files = data;
    int flags = O_CLOEXEC | O_NOFOLLOW;
    switch (mode) {
    case RAFT_FILES_READ:
        flags |= O_RDONLY;
        break;
    case RAFT_FILES_WRITE:
        flags |= O_RDWR;
        break;
    case RAFT_FILES_CREATE:
        flags |= O_RDWR | O_CREAT | O_EXCL;
        break;
    }
    int file;
    do {
        file = openat(files->directory, name, flags, 0600);
    } while (file < 0 && errno == EINTR);
    if (file < 0) {
        return errno;
    }
    *out_file = file;
    return 0;
}

static int real_close(void *data, int file) {
    (void)data;
    /* The descriptor is gone whatever close() says; what must be on disk was synced. */
    return close(file) == 0 || errno == EINTR ? 0 : errno;
}

static int real_size(void *data, int file, uint64_t *out_size) {
    (void)data;
    struct stat stat;
    if (fstat(file, &stat) != 0) {
        return errno;
    }
    *out_size = (uint64_t)stat.st_size;
    return 0;
}

static int real_read(void *data, int file, uint64_t offset, void *bytes, size_t size,
                     size_t *out_n) {
    (void)data;
    size_t n = 0;
    while (n < size) {
        ssize_t result = pread(file, (uint8_t *)bytes + n, size - n, (off_t)(offset + n));
        if (result < 0 && errno == EINTR) {
            continue;
        }
        if (result < 0) {
            return errno;
        }
        if (result == 0) {
            break;
        }
        n += (size_t)result;
    }
    *out_n = n;
    return 0;
}

/* The rest of the first part, after a write that ended in the middle of it. */
static int write_rest(int file, uint64_t offset, const uint8_t *bytes, size_t size) {
    while (size > 0) {
        ssize_t result = pwrite(file, bytes, size, (off_t)offset);
        if (result < 0 && errno == EINTR) {
            continue;
        }
        if (result <= 0) {
            return result < 0 ? errno : EIO;
        }
        bytes += result;
        offset += (uint64_t)result;
        size -= (size_t)result;
    }
    return 0;
}

static int real_write(void *data, int file, uint64_t offset, const struct iovec *parts,
                      int n_parts) {
    (void)data;
    while (n_parts > 0) {
        int n = n_parts < PARTS_MAX ? n_parts : PARTS_MAX;
        ssize_t result = pwritev(file, parts, n, (off_t)offset);
        if (result < 0 && errno == EINTR) {
            continue;
        }
        if (result < 0) {
            return errno;
        }
        size_t written = (size_t)result;
        offset += written;
        while (n > 0 && written >= parts->iov_len) {
            written -= parts->iov_len;
            parts++;
            n_parts--;
            n--;
        }
        if (n > 0) { /* short: a full disk says so in the next call */
            const uint8_t *rest = (const uint8_t *)parts->iov_base + written;
            size_t size = parts->iov_len - written;
            int error = write_rest(file, offset, rest, size);
            if (error != 0) {
                return error;
            }
            offset += size;
            parts++;
            n_parts--;
        }
    }
    return 0;
}

static int real_sync(void *data, int file) {
    (void)data;
    int result;
    do {
        result = fdatasync(file);
    } while (result != 0 && errno == EINTR);
    return result == 0 ? 0 : errno;
}

static int real_write_back(void *data, int file, uint64_t offset, uint64_t size) {
    (void)data;
    unsigned flags =
        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
    int result;
    do {
        result = sync_file_range(file, (off_t)offset, (off_t)size, flags);
    } while (result != 0 && errno == EINTR);
    /* An error of the device is told once: the next sync would not tell it again. */
    return result == 0 || errno == ENOSYS ? 0 : errno;
}

/* posix_fallocate() finds out that the disk is full before anything is written; but the blocks it
 * takes are marked as unwritten, and each first write would change metadata that fdatasync() must
 * then wait for. So the zeros are written. */
static int real_allocate(void *data, int file, uint64_t size) {
    uint64_t offset;
    int error = real_size(data, file, &offset);
    if (error != 0 || offset >= size) {
        return error;
    }
    do {
        error = posix_fallocate(file, (off_t)offset, (off_t)(size - offset));
    } while (error == EINTR);
    if (error != 0 && error != EOPNOTSUPP && error != EINVAL) {
        return error;
    }
    while (offset < size) {
        size_t step = size - offset < ZEROS_SIZE ? (size_t)(size - offset) : ZEROS_SIZE;
        error = write_rest(file, offset, zeros, step);
        if (error != 0) {
            return error;
        }
        offset += step;
    }
    return 0;
}

static int real_rename(void *data, const char *from, const char *to) {
    const struct real_files *files = data;
    return renameat(files->directory, from, files->directory, to) == 0 ? 0 : errno;
}

static int real_unlink(void *data, const char *name) {
    const struct real_files *files = data;
    return unlinkat(files->directory, name, 0) == 0 ? 0 : errno;
}

static int real_sync_directory(void *data) {
    const struct real_files *files = data;
    int result;
    do {
        result = fsync(files->directory);
    } while (result != 0 && errno == EINTR);
    return result == 0 ? 0 : errno;
}

static int real_list(void *data, void (*found)(void *found_data, const char *name),
                     void *found_data) {
    const struct real_files *files = data;
    int directory = openat(files->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) {
        return errno;
    }
    DIR *stream = fdopendir(directory);
    if (stream == NULL) {
        int error = errno;
        close(directory);
        return error;
    }
    int error = 0;
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(stream);
        if (entry == NULL) {
            error = errno;
            break;
        }
        struct stat stat;
        if (fstatat(files->directory, entry->d_name, &stat, AT_SYMLINK_NOFOLLOW) != 0) {
            if (errno == ENOENT) {
                continue; /* gone meanwhile */
            }
            error = errno;
            break;
        }
        if (S_ISREG(stat.st_mode)) {
            found(found_data, entry->d_name);
        }
    }
    closedir(stream);
    return error;
}

static const struct raft_files_calls real_calls = {
    .open = real_open,
    .close = real_close,
    .size = real_size,
    .read = real_read,
    .write = real_write,
    .sync = real_sync,
    .write_back = real_write_back,
    .allocate = real_allocate,
    .rename = real_rename,
    .unlink = real_unlink,
    .sync_directory = real_sync_directory,
    .list = real_list,
};

int raft_files_open(const char *directory, struct raft_files *out_files) {
    struct real_files *files = malloc(sizeof *files);
    if (files == NULL) {
        abort();
    }
    files->directory = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (files->directory < 0) {
        int error = errno;
        free(files);
        return error;
    }
    *out_files = (struct raft_files){.calls = &real_calls, .data = files};
    return 0;
}

void raft_files_close(struct raft_files *files) {
    struct real_files *real = files->data;
    if (real != NULL) {
        close(real->directory);
        free(real);
    }
    *files = (struct raft_files){.calls = NULL};
}
