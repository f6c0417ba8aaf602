#include "base/unix_socket.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SOCKET_MODE = 0600 };

static int close_and_fail(int fd, int error_number) {
    close(fd);
    errno = error_number;
    return -1;
}

/* Removes what a dead process left at the path. 0, or an errno: EADDRINUSE when a process serves
 * it, EEXIST when the file is no socket. */
static int remove_stale(const struct sockaddr_un *address) {
    struct stat info;
    if (lstat(address->sun_path, &info) != 0) {
        return errno == ENOENT ? 0 : errno;
    }
    if (!S_ISSOCK(info.st_mode)) {
        return EEXIST;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return errno;
    }
    bool is_refused = connect(fd, (const struct sockaddr *)address, sizeof *address) != 0 &&
                      errno == ECONNREFUSED;
    close(fd);
    /* Anything but a refusal (a full queue, for one) means that another process listens. */
    if (!is_refused) {
        return EADDRINUSE;
    }
    return unlink(address->sun_path) == 0 || errno == ENOENT ? 0 : errno;
}

int unix_socket_listen(const char *path, int backlog, struct unix_socket_file *out_file) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) > UNIX_SOCKET_PATH_SIZE_MAX) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    int error_number = remove_stale(&address);
    if (error_number != 0) {
        errno = error_number;
        return -1;
    }
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    /* Linux gives the file the mode of the socket, so it is never open to others, not for a moment.
     */
    struct stat info;
    if (fchmod(fd, SOCKET_MODE) != 0 ||
        bind(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        return close_and_fail(fd, errno);
    }
    if (listen(fd, backlog) != 0 || lstat(path, &info) != 0) {
        error_number = errno;
        unlink(path);
        return close_and_fail(fd, error_number);
    }
    *out_file = (struct unix_socket_file){.device = info.st_dev, .inode = info.st_ino};
    return fd;
}

void unix_socket_remove(const char *path, const struct unix_socket_file *file) {
    struct stat info;
    if (lstat(path, &info) == 0 && info.st_dev == file->device && info.st_ino == file->inode) {
        unlink(path);
    }
}
