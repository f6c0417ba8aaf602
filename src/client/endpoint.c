#include "client/endpoint.h"

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

static enum status parse_one(struct bytes text, struct endpoint *out_endpoint) {
    if (skip(&text, "https://")) {
        return STATUS_UNSUPPORTED;
    }
    skip(&text, "http://");
    if (text.size > 0 && text.data[text.size - 1] == '/') {
        text.size--;
    }
    struct host_port host_port;
    const char *reason = NULL;
    enum status status = host_port_parse(text, ENDPOINT_PORT_DEFAULT, &host_port, &reason);
    if (status != STATUS_OK) {
        return status;
    }
    struct endpoint endpoint = {.port = host_port.port};
    memcpy(endpoint.host, host_port.host, sizeof endpoint.host);
    *out_endpoint = endpoint;
    return STATUS_OK;
}

enum status endpoint_list_parse(const char *text, struct endpoint_list *out_list) {
    struct endpoint_list list = {.n_items = 0};
    for (;;) {
        const char *comma = strchrnul(text, ',');
        if (list.n_items == ENDPOINTS_MAX) {
            return STATUS_INVALID;
        }
        enum status status =
            parse_one(bytes_of(text, (size_t)(comma - text)), &list.items[list.n_items]);
        if (status != STATUS_OK) {
            return status;
        }
        list.n_items++;
        if (*comma == 0) {
            break;
        }
        text = comma + 1;
    }
    *out_list = list;
    return STATUS_OK;
}

const char *endpoint_format(const struct endpoint *endpoint, char room[ENDPOINT_TEXT_SIZE_MAX]) {
    return host_port_format(endpoint->host, endpoint->port, room);
}
