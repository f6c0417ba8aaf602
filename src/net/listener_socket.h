/*
 * Sockets that listen: TCP on one address, or a Unix socket in the file system. Ports and paths
 * that another process uses are never taken over; a Unix socket that a dead process left behind is.
 */
#ifndef LEASED_NET_LISTENER_SOCKET_H
#define LEASED_NET_LISTENER_SOCKET_H

#include "base/unix_socket.h"

#include <netdb.h>
#include <stdint.h>

/* The descriptor, or -1 with errno. `port` 0: any. */
int listener_socket_tcp(const struct addrinfo *address, uint16_t port);
/* The same on a path: unix_socket_listen(). */
int listener_socket_unix(const char *path, struct unix_socket_file *out_file);

/* The port of a TCP socket; 0: it has none. */
uint16_t listener_socket_port(int socket);

#endif
