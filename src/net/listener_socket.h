/*
 * Sockets that listen: TCP on one address, or a Unix socket in the file system. Ports and paths
 * that another process uses are never taken over; a Unix socket that a dead process left behind is.
 */
#ifndef LEASED_NET_LISTENER_SOCKET_H
#define LEASED_NET_LISTENER_SOCKET_H

#include <netdb.h>
#include <stdint.h>
#include <sys/stat.h>

/* The socket's own file, so that no other one is removed at the end. */
struct listener_file {
    dev_t device;
    ino_t inode;
};

/* The descriptor, or -1 with errno. `port` 0: any. */
int listener_socket_tcp(const struct addrinfo *address, uint16_t port);
/* The descriptor, or -1 with errno: EADDRINUSE when a process serves it, EEXIST when the file is no
 * socket, ENAMETOOLONG. Whatever the umask, only the owner may connect. */
int listener_socket_unix(const char *path, struct listener_file *out_file);

/* The port of a TCP socket; 0: it has none. */
uint16_t listener_socket_port(int socket);

/* Removes the file unless another one has taken its place. */
void listener_file_remove(const char *path, const struct listener_file *file);

#endif
