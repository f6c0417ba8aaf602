#include "base/endpoint_text.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool skip(struct bytes *text, const char *prefix) {
    size_t size = strlen(prefix);
    if (text->size < size || memcmp(text->data, prefix, size) != 0) {
        return false;
    }
    text->data += size;
    text->size -= size;
    return true;
}

static enum status parse_path(struct bytes text, struct endpoint *endpoint) {
    if (text.size == 0 || text.size >= sizeof endpoint->path ||
        memchr(text.data, '\0', text.size) != NULL) {
        return STATUS_MALFORMED;
    }
    memcpy(endpoint->path, text.data, text.size);
    return STATUS_OK;
}

static enum status parse_host(struct bytes text, struct endpoint *endpoint) {
    if (text.size > 0 && text.data[text.size - 1] == '/') {
        text.size--;
    }
    struct host_port host_port;
    const char *reason = NULL;
    enum status status = host_port_parse(text, ENDPOINT_PORT_DEFAULT, &host_port, &reason);
    if (status == STATUS_OK) {
        endpoint->port = host_port.port;
        memcpy(endpoint->host, host_port.host, sizeof endpoint->host);
    }
    return status;
}

enum status endpoint_text_parse(struct bytes text, struct endpoint *out_endpoint) {
    static const struct {
        const char *prefix;
        enum endpoint_security security;
        bool is_path;
    } schemes[] = {
        {"http://", ENDPOINT_PLAIN, false},
        {"https://", ENDPOINT_TLS, false},
        {"unix://", ENDPOINT_PLAIN, true},
        {"unixs://", ENDPOINT_TLS, true},
    };
    struct endpoint endpoint = {.security = ENDPOINT_EITHER};
    bool is_path = false;
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        if (skip(&text, schemes[i].prefix)) {
            endpoint.security = schemes[i].security;
            is_path = schemes[i].is_path;
            break;
        }
    }
    enum status status = is_path ? parse_path(text, &endpoint) : parse_host(text, &endpoint);
    if (status == STATUS_OK) {
        *out_endpoint = endpoint;
    }
    return status;
}

const char *endpoint_text_format(const struct endpoint *endpoint,
                                 char room[ENDPOINT_TEXT_SIZE_MAX]) {
    if (endpoint->path[0] != '\0') {
        snprintf(room, ENDPOINT_TEXT_SIZE_MAX, "unix://%s", endpoint->path);
        return room;
    }
    return host_port_format(endpoint->host, endpoint->port, room);
}
