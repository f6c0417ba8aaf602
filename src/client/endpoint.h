/*
 * Where a server is, as etcd's tools write it: "host", "host:port", "http://host:port",
 * "https://host:port", "[::1]:2379", "unix:///path", "unixs:///path", or several with commas.
 */
#ifndef LEASED_CLIENT_ENDPOINT_H
#define LEASED_CLIENT_ENDPOINT_H

#include "base/host_port.h"
#include "base/status.h"
#include "client/grpc_client.h"

#include <stdbool.h>
#include <stddef.h>
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

struct endpoint_list {
    struct endpoint items[ENDPOINTS_MAX];
    size_t n_items;
    struct tls_context *tls; /* the caller's: for ENDPOINT_TLS, and for those without a scheme */
};

/* STATUS_MALFORMED: not of that form. STATUS_INVALID: more than ENDPOINTS_MAX. */
enum status endpoint_list_parse(const char *text, struct endpoint_list *out_list);

/* "host:port", with brackets where an address needs them, or "unix://path". Gives `room`. */
const char *endpoint_format(const struct endpoint *endpoint, char room[ENDPOINT_TEXT_SIZE_MAX]);

/* Where the i-th server is and whether it speaks TLS, for grpc_client_create(); the list outlives
 * its use. All else is zero. */
struct grpc_client_options endpoint_options(const struct endpoint_list *list, size_t index);

#endif
