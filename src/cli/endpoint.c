#include "cli/endpoint.h"

#include "base/bytes.h"

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

static enum status parse_port(struct bytes text, uint16_t *out_port) {
    uint32_t port = 0;
    if (text.size == 0 || text.size > 5) {
        return STATUS_MALFORMED;
    }
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return STATUS_MALFORMED;
        }
        port = port * 10 + (text.data[i] - '0');
    }
    if (port == 0 || port > UINT16_MAX) {
        return STATUS_MALFORMED;
    }
    *out_port = (uint16_t)port;
    return STATUS_OK;
}

/* Splits "host:port" or "[address]:port"; a bare IPv6 address is all host. */
static enum status split(struct bytes text, struct bytes *out_host, struct bytes *out_port) {
    *out_port = (struct bytes){0};
    if (text.size > 0 && text.data[0] == '[') {
        const uint8_t *end = memchr(text.data, ']', text.size);
        if (end == NULL) {
            return STATUS_MALFORMED;
        }
        *out_host = bytes_of(text.data + 1, (size_t)(end - text.data) - 1);
        size_t after = (size_t)(end - text.data) + 1;
        if (after == text.size) {
            return STATUS_OK;
        }
        if (text.data[after] != ':') {
            return STATUS_MALFORMED;
        }
        *out_port = bytes_of(text.data + after + 1, text.size - after - 1);
        return out_port->size > 0 ? STATUS_OK : STATUS_MALFORMED;
    }
    const uint8_t *first = memchr(text.data, ':', text.size);
    const uint8_t *last = memrchr(text.data, ':', text.size);
    if (first == NULL || first != last) {
        *out_host = text;
        return STATUS_OK;
    }
    size_t host_size = (size_t)(first - text.data);
    *out_host = bytes_of(text.data, host_size);
    *out_port = bytes_of(first + 1, text.size - host_size - 1);
    return out_port->size > 0 ? STATUS_OK : STATUS_MALFORMED;
}

static enum status parse_one(struct bytes text, struct endpoint *out_endpoint) {
    if (skip(&text, "https://")) {
        return STATUS_UNSUPPORTED;
    }
    skip(&text, "http://");
    if (text.size > 0 && text.data[text.size - 1] == '/') {
        text.size--;
    }
    if (text.size == 0) {
        return STATUS_MALFORMED;
    }
    struct bytes host;
    struct bytes port;
    enum status status = split(text, &host, &port);
    if (status != STATUS_OK) {
        return status;
    }
    if (host.size == 0 || host.size >= ENDPOINT_HOST_SIZE_MAX ||
        memchr(host.data, '/', host.size) != NULL) {
        return STATUS_MALFORMED;
    }
    struct endpoint endpoint = {.port = ENDPOINT_PORT_DEFAULT};
    memcpy(endpoint.host, host.data, host.size);
    if (port.size > 0) {
        status = parse_port(port, &endpoint.port);
        if (status != STATUS_OK) {
            return status;
        }
    }
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

const char *endpoint_format(const struct endpoint *endpoint, char *room, size_t room_size) {
    if (strchr(endpoint->host, ':') != NULL) {
        snprintf(room, room_size, "[%s]:%u", endpoint->host, endpoint->port);
    } else {
        snprintf(room, room_size, "%s:%u", endpoint->host, endpoint->port);
    }
    return room;
}
