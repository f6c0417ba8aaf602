#include "peers/peer_address.h"

#include "base/unix_socket.h"

#include <netdb.h>
#include <string.h>
#include <uv.h>

bool peer_address_of_url(const char *url, char out_address[PEER_ADDRESS_SIZE_MAX + 1]) {
    const char *start = strstr(url, "://");
    bool is_unix = strncmp(url, "unix://", 7) == 0 || strncmp(url, "unixs://", 8) == 0;
    start = start == NULL ? url : start + 3;
    size_t size = is_unix ? strlen(start) : strcspn(start, "/");
    size_t prefix_size = is_unix ? strlen("unix://") : 0;
    if (size == 0 || size > PEER_ADDRESS_SIZE_MAX - prefix_size) {
        return false;
    }
    memcpy(out_address, "unix://", prefix_size);
    memcpy(out_address + prefix_size, start, size);
    out_address[prefix_size + size] = '\0';
    return true;
}

const char *peer_address_path(const char *text) {
    static const char prefix[] = "unix://";
    return strncmp(text, prefix, sizeof prefix - 1) == 0 ? text + sizeof prefix - 1 : NULL;
}

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
