#include "server/data_dir.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const char lock_name[] = "lock";
static const char identity_name[] = "identity";
static const char identity_new_name[] = "identity.new";
static const char raft_name[] = "raft";
static const char ids_name[] = "births";

struct data_dir {
    int fd;
    int lock_fd;
    bool is_open_to_others;
    char path[PATH_MAX];
    char raft_path[PATH_MAX];
    char data_dir_ids_path[PATH_MAX];
};

/* The reason a person needs, from the number the system gave. */
static enum status fail_from_errno(const char *what, const char *path, int number, char *out_error,
                                   size_t error_size) {
    const char *hint = "";
    switch (number) {
    case EROFS:
        hint = "; the file system is read-only, so nothing could be kept there";
        break;
    case EACCES:
    case EPERM:
        hint = "; give the user that runs leased the right to write there";
        break;
    case ENOSPC:
    case EDQUOT:
        hint = "; make room, then start again";
        break;
    case ENOTDIR:
        hint = "; a part of the path is a file";
        break;
    default:
        break;
    }
    snprintf(out_error, error_size, "cannot %s %s: %s%s", what, path, strerror(number), hint);
    return number == ENOSPC || number == EDQUOT ? STATUS_NO_SPACE : STATUS_IO;
}

static enum status make_directories(const char *path, char *out_error, size_t error_size) {
    char partial[PATH_MAX];
    size_t size = strlen(path);
    if (size == 0 || size >= sizeof partial) {
        snprintf(out_error, error_size, "the data directory needs a path of 1 to %zu bytes",
                 sizeof partial - 1);
        return STATUS_INVALID;
    }
    memcpy(partial, path, size + 1);
    for (size_t i = 1; i <= size; i++) {
        if (partial[i] != '/' && partial[i] != '\0') {
            continue;
        }
        char kept = partial[i];
        partial[i] = '\0';
        struct stat status;
        /* Look before making: on a read-only file system, making what exists is an error too. */
        if (stat(partial, &status) != 0 && mkdir(partial, 0700) != 0 && errno != EEXIST) {
            return fail_from_errno("make the data directory", partial, errno, out_error,
                                   error_size);
        }
        partial[i] = kept;
    }
    return STATUS_OK;
}

static enum status open_directory(struct data_dir *dir, const char *path, char *out_error,
                                  size_t error_size) {
    dir->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir->fd < 0 && errno == ENOTDIR) {
        snprintf(out_error, error_size, "the data directory %s is a file, not a directory", path);
        return STATUS_IO;
    }
    if (dir->fd < 0) {
        return fail_from_errno("open the data directory", path, errno, out_error, error_size);
    }
    if (realpath(path, dir->path) == NULL) {
        return fail_from_errno("find the data directory", path, errno, out_error, error_size);
    }
    int size = snprintf(dir->raft_path, sizeof dir->raft_path, "%s/%s", dir->path, raft_name);
    if (size >= 0 && (size_t)size < sizeof dir->raft_path) {
        size = snprintf(dir->data_dir_ids_path, sizeof dir->data_dir_ids_path, "%s/%s", dir->path,
                        ids_name);
    }
    if (size < 0 || (size_t)size >= sizeof dir->raft_path) {
        snprintf(out_error, error_size, "the path of the data directory is too long: %s", path);
        return STATUS_INVALID;
    }
    struct stat status;
    if (fstat(dir->fd, &status) != 0) {
        return fail_from_errno("look at the data directory", path, errno, out_error, error_size);
    }
    dir->is_open_to_others = (status.st_mode & (S_IRWXG | S_IRWXO)) != 0;
    return STATUS_OK;
}

/* The pid is written for people only: what locks is the kernel's lock on the file. */
static enum status lock_directory(struct data_dir *dir, char *out_error, size_t error_size) {
    dir->lock_fd = openat(dir->fd, lock_name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (dir->lock_fd < 0) {
        return fail_from_errno("write into the data directory", dir->path, errno, out_error,
                               error_size);
    }
    char pid[32] = "";
    if (flock(dir->lock_fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK) {
            return fail_from_errno("lock the data directory", dir->path, errno, out_error,
                                   error_size);
        }
        ssize_t size = pread(dir->lock_fd, pid, sizeof pid - 1, 0);
        pid[size < 0 ? 0 : strspn(pid, "0123456789")] = '\0';
        snprintf(out_error, error_size,
                 "the data directory %s is in use by another leased, process %s; stop that one, or "
                 "give this one its own --data-dir",
                 dir->path, pid[0] == '\0' ? "unknown" : pid);
        return STATUS_DATA_DIR_IN_USE;
    }
    int size = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
    if (ftruncate(dir->lock_fd, 0) != 0 || pwrite(dir->lock_fd, pid, (size_t)size, 0) != size) {
        return fail_from_errno("write into the data directory", dir->path, errno, out_error,
                               error_size);
    }
    return STATUS_OK;
}

static enum status prepare_contents(struct data_dir *dir, char *out_error, size_t error_size) {
    if (mkdirat(dir->fd, raft_name, 0700) != 0 && errno != EEXIST) {
        return fail_from_errno("make the directory", dir->raft_path, errno, out_error, error_size);
    }
    if (fsync(dir->fd) != 0) {
        return fail_from_errno("sync the data directory", dir->path, errno, out_error, error_size);
    }
    return STATUS_OK;
}

enum status data_dir_open(const char *path, struct data_dir **out_dir, char *out_error,
                          size_t error_size) {
    enum status status = make_directories(path, out_error, error_size);
    if (status != STATUS_OK) {
        return status;
    }
    struct data_dir *dir = calloc(1, sizeof *dir);
    if (dir == NULL) {
        abort();
    }
    dir->fd = -1;
    dir->lock_fd = -1;
    status = open_directory(dir, path, out_error, error_size);
    if (status == STATUS_OK) {
        status = lock_directory(dir, out_error, error_size);
    }
    if (status == STATUS_OK) {
        status = prepare_contents(dir, out_error, error_size);
    }
    if (status != STATUS_OK) {
        data_dir_close(dir);
        return status;
    }
    *out_dir = dir;
    return STATUS_OK;
}

void data_dir_close(struct data_dir *dir) {
    if (dir == NULL) {
        return;
    }
    if (dir->lock_fd >= 0) {
        close(dir->lock_fd);
    }
    if (dir->fd >= 0) {
        close(dir->fd);
    }
    free(dir);
}

const char *data_dir_path(const struct data_dir *dir) {
    return dir->path;
}

const char *data_dir_raft_path(const struct data_dir *dir) {
    return dir->raft_path;
}

const char *data_dir_ids_path(const struct data_dir *dir) {
    return dir->data_dir_ids_path;
}

bool data_dir_is_open_to_others(const struct data_dir *dir) {
    return dir->is_open_to_others;
}

bool data_dir_has_etcd_data(const struct data_dir *dir) {
    struct stat status;
    return fstatat(dir->fd, "member/wal", &status, 0) == 0;
}

bool data_dir_has_log(const struct data_dir *dir) {
    /* Terms and votes are written before anything else; the last two are those of releases before
     * 0.2. */
    static const char *const names[] = {"meta.1", "meta.2", "metadata1", "metadata2"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct stat status;
        char path[sizeof raft_name + 16];
        snprintf(path, sizeof path, "%s/%s", raft_name, names[i]);
        if (fstatat(dir->fd, path, &status, 0) == 0) {
            return true;
        }
    }
    return false;
}

enum status data_dir_load_identity(const struct data_dir *dir, struct identity *out_identity,
                                   char *out_error, size_t error_size) {
    int fd = openat(dir->fd, identity_name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        if (data_dir_has_log(dir) && !data_dir_has_etcd_data(dir)) {
            snprintf(out_error, error_size,
                     "%s/%s is missing although there is data: restore the file from a backup of "
                     "this directory",
                     dir->path, identity_name);
            return STATUS_CORRUPT;
        }
        return STATUS_KEY_NOT_FOUND;
    }
    if (fd < 0) {
        return fail_from_errno("read the identity in", dir->path, errno, out_error, error_size);
    }
    char text[IDENTITY_TEXT_SIZE_MAX + 1];
    ssize_t size = read(fd, text, sizeof text);
    int number = errno;
    close(fd);
    if (size < 0) {
        return fail_from_errno("read the identity in", dir->path, number, out_error, error_size);
    }
    if (identity_decode(bytes_of(text, (size_t)size), out_identity) != STATUS_OK) {
        snprintf(out_error, error_size,
                 "%s/%s is corrupt: restore it from a backup of this directory; leased does not "
                 "guess who it is",
                 dir->path, identity_name);
        return STATUS_CORRUPT;
    }
    return STATUS_OK;
}

enum status data_dir_store_identity(const struct data_dir *dir, const struct identity *identity,
                                    char *out_error, size_t error_size) {
    char text[IDENTITY_TEXT_SIZE_MAX];
    size_t size = identity_encode(identity, text);
    int fd = openat(dir->fd, identity_new_name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) {
        return fail_from_errno("write the identity into", dir->path, errno, out_error, error_size);
    }
    errno = ENOSPC; /* what a short write without an error means */
    bool is_written = write(fd, text, size) == (ssize_t)size && fsync(fd) == 0;
    int number = errno;
    close(fd);
    if (is_written) {
        /* The new file replaces the old one as a whole, and the directory is synced so that the
         * replacement itself survives a crash. */
        is_written = renameat(dir->fd, identity_new_name, dir->fd, identity_name) == 0 &&
                     fsync(dir->fd) == 0;
        number = errno;
    }
    if (!is_written) {
        return fail_from_errno("write the identity into", dir->path, number, out_error, error_size);
    }
    return STATUS_OK;
}
