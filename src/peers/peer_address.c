#include "peers/peer_address.h"

#include "base/unix_socket.h"

#include <netdb.h>
#include <string.h>
#include <uv.h>

int peer_address_of_path(const char *path, struct sockaddr_storage *out_address) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t size = strlen(path);
    if (size == 0 || size > UNIX_SOCKET_PATH_SIZE_MAX) {
        return UV_EINVAL;
    }
    memcpy(address.sun_path, path, size + 1);
    memset(out_address, 0, sizeof *out_address);
    memcpy(out_address, &address, sizeof address);
    return 0;
}

int peer_address_in_figures(const struct host_port *address, struct sockaddr_storage *out_address) {
    if (uv_ip4_addr(address->host, address->port, (struct sockaddr_in *)out_address) == 0) {
        return 0;
    }
    return uv_ip6_addr(address->host, address->port, (struct sockaddr_in6 *)out_address);
}

int peer_address_resolve(const char *host, uint16_t port, struct sockaddr_storage *out_address) {
    char service[HOST_PORT_PORT_SIZE_MAX];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC};
    struct addrinfo *found = NULL;
    if (getaddrinfo(host, host_port_service(port, service), &hints, &found) != 0 || found == NULL) {
        return UV_EAI_NONAME;
    }
    memcpy(out_address, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return 0;
}
