/*
 * Unix sockets that listen, in the file system. A path that another process serves is never taken
 * over; a socket that a dead process left behind is replaced. Only the owner may connect.
 */
#ifndef LEASED_BASE_UNIX_SOCKET_H
#define LEASED_BASE_UNIX_SOCKET_H

#include <sys/stat.h>
#include <sys/un.h>

enum {
    /* Of a path, without the zero (unix(7)). */
    UNIX_SOCKET_PATH_SIZE_MAX = sizeof(((struct sockaddr_un *)0)->sun_path) - 1
};

/* The socket's own file, so that no other one is removed at the end. */
struct unix_socket_file {
    dev_t device;
    ino_t inode;
};

/* The descriptor (non-blocking, closed on exec), or -1 with errno: EADDRINUSE when a process serves
 * the path, EEXIST when the file is no socket, ENAMETOOLONG. Whatever the umask, the file's mode is
 * 0600 from the first moment. */
int unix_socket_listen(const char *path, int backlog, struct unix_socket_file *out_file);

/* Removes the file unless another one has taken its place. */
void unix_socket_remove(const char *path, const struct unix_socket_file *file);

#endif
