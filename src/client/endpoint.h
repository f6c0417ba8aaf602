/*
 * Where a server is, as etcd's tools write it: "host", "host:port", "http://host:port",
 * "[::1]:2379", or several with commas.
 */
#ifndef LEASED_CLIENT_ENDPOINT_H
#define LEASED_CLIENT_ENDPOINT_H

#include "base/host_port.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

#define ENDPOINT_PORT_DEFAULT 2379
#define ENDPOINT_HOST_SIZE_MAX (HOST_PORT_HOST_SIZE_MAX + 1)
#define ENDPOINT_TEXT_SIZE_MAX HOST_PORT_TEXT_SIZE_MAX
#define ENDPOINTS_MAX 16

struct endpoint {
    char host[ENDPOINT_HOST_SIZE_MAX];
    uint16_t port;
};

struct endpoint_list {
    struct endpoint items[ENDPOINTS_MAX];
    size_t n_items;
};

/* STATUS_MALFORMED: not of that form. STATUS_UNSUPPORTED: https. STATUS_INVALID: more than
 * ENDPOINTS_MAX. */
enum status endpoint_list_parse(const char *text, struct endpoint_list *out_list);

/* "host:port", with brackets where an address needs them. Gives `room`. */
const char *endpoint_format(const struct endpoint *endpoint, char room[ENDPOINT_TEXT_SIZE_MAX]);

#endif
