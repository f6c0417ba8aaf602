#include "net/listener_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { BACKLOG = 4096, UNIX_MODE = 0600 };

static int close_and_fail(int fd, int error_number) {
    close(fd);
    errno = error_number;
    return -1;
}

int listener_socket_tcp(const struct addrinfo *address, uint16_t port) {
    int fd = socket(address->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    struct sockaddr_storage storage = {0};
    memcpy(&storage, address->ai_addr, address->ai_addrlen);
    int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (address->ai_family == AF_INET6) {
        struct sockaddr_in6 *ipv6 = (struct sockaddr_in6 *)&storage;
        ipv6->sin6_port = htons(port);
        /* "::" means every address of both kinds; any other address means itself. */
        int v6_only = IN6_IS_ADDR_UNSPECIFIED(&ipv6->sin6_addr) ? 0 : 1;
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof v6_only);
    } else {
        ((struct sockaddr_in *)&storage)->sin_port = htons(port);
    }
    if (bind(fd, (struct sockaddr *)&storage, address->ai_addrlen) != 0 ||
        listen(fd, BACKLOG) != 0) {
        return close_and_fail(fd, errno);
    }
    return fd;
}

uint16_t listener_socket_port(int socket) {
    struct sockaddr_storage storage = {0};
    socklen_t size = sizeof storage;
    if (getsockname(socket, (struct sockaddr *)&storage, &size) != 0) {
        return 0;
    }
    switch (storage.ss_family) {
    case AF_INET6:
        return ntohs(((struct sockaddr_in6 *)&storage)->sin6_port);
    case AF_INET:
        return ntohs(((struct sockaddr_in *)&storage)->sin_port);
    default:
        return 0;
    }
}

/* --- Unix sockets -------------------------------------------------------------------------- */

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

int listener_socket_unix(const char *path, struct listener_file *out_file) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) {
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
    if (fchmod(fd, UNIX_MODE) != 0 || bind(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        return close_and_fail(fd, errno);
    }
    if (listen(fd, BACKLOG) != 0 || lstat(path, &info) != 0) {
        error_number = errno;
        unlink(path);
        return close_and_fail(fd, error_number);
    }
    *out_file = (struct listener_file){.device = info.st_dev, .inode = info.st_ino};
    return fd;
}

void listener_file_remove(const char *path, const struct listener_file *file) {
    struct stat info;
    if (lstat(path, &info) == 0 && info.st_dev == file->device && info.st_ino == file->inode) {
        unlink(path);
    }
}
