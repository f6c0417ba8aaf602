#include "peers/peer_address.h"

#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

enum { PORT_DIGITS_MAX = 5 };

int peer_address_split(const char *text, struct peer_address *out_address) {
    const char *colon = strrchr(text, ':');
    if (colon == NULL) {
        return UV_EINVAL;
    }
    size_t host_size = (size_t)(colon - text);
    if (host_size >= 2 && text[0] == '[' && text[host_size - 1] == ']') {
        text++;
        host_size -= 2;
    }
    size_t port_size = strlen(colon + 1);
    if (host_size == 0 || host_size > PEER_ADDRESS_SIZE_MAX || port_size == 0 ||
        port_size > PORT_DIGITS_MAX || strspn(colon + 1, "0123456789") != port_size ||
        strtoul(colon + 1, NULL, 10) > UINT16_MAX) {
        return UV_EINVAL;
    }
    memcpy(out_address->host, text, host_size);
    out_address->host[host_size] = '\0';
    memcpy(out_address->port, colon + 1, port_size + 1);
    return 0;
}

int peer_address_in_figures(const struct peer_address *address,
                            struct sockaddr_storage *out_address) {
    int port = (int)strtoul(address->port, NULL, 10);
    if (uv_ip4_addr(address->host, port, (struct sockaddr_in *)out_address) == 0) {
        return 0;
    }
    return uv_ip6_addr(address->host, port, (struct sockaddr_in6 *)out_address);
}

int peer_address_resolve(const char *text, struct sockaddr_storage *out_address) {
    struct peer_address address;
    int rv = peer_address_split(text, &address);
    if (rv != 0) {
        return rv;
    }
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC};
    struct addrinfo *found = NULL;
    if (getaddrinfo(address.host, address.port, &hints, &found) != 0 || found == NULL) {
        return UV_EAI_NONAME;
    }
    memcpy(out_address, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return 0;
}
