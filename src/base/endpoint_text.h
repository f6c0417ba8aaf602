/*
 * One endpoint as etcd's tools write it: "host", "host:port", "http://host:port",
 * "https://host:port",
 * "[::1]:2379", "unix:///path", "unixs:///path".
 */
#ifndef LEASED_BASE_ENDPOINT_TEXT_H
#define LEASED_BASE_ENDPOINT_TEXT_H

#include "base/bytes.h"
#include "base/host_port.h"
#include "base/status.h"

#include <stdint.h>
#include <sys/un.h>

#define ENDPOINT_PORT_DEFAULT 2379
#define ENDPOINT_HOST_SIZE_MAX (HOST_PORT_HOST_SIZE_MAX + 1)
#define ENDPOINT_PATH_SIZE_MAX (sizeof((struct sockaddr_un *)0)->sun_path)
#define ENDPOINT_TEXT_SIZE_MAX HOST_PORT_TEXT_SIZE_MAX
#define ENDPOINTS_MAX 16

enum endpoint_security {
    ENDPOINT_EITHER, /* no scheme: as the options say */
    ENDPOINT_PLAIN,  /* http, unix */
    ENDPOINT_TLS     /* https, unixs */
};

struct endpoint {
    enum endpoint_security security;
    char host[ENDPOINT_HOST_SIZE_MAX]; /* "" with a path */
    uint16_t port;
    char path[ENDPOINT_PATH_SIZE_MAX]; /* of a Unix socket; "": host and port */
};

/* STATUS_MALFORMED: not of that form. */
enum status endpoint_text_parse(struct bytes text, struct endpoint *out_endpoint);

/* "host:port", with brackets where an address needs them, or "unix://path". Gives `room`. */
const char *endpoint_text_format(const struct endpoint *endpoint,
                                 char room[ENDPOINT_TEXT_SIZE_MAX]);

#endif
