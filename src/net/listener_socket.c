#include "net/listener_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BACKLOG = 4096 };

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

int listener_socket_unix(const char *path, struct unix_socket_file *out_file) {
    return unix_socket_listen(path, BACKLOG, out_file);
}
