/*
 * "host:port" as flags, URLs, endpoints and the member table write it: a DNS name, an IPv4 address,
 * or an IPv6 address in brackets. Parsing is strict, because a resolver makes something surprising
 * of 127.0.1 or 300.1.1.1.
 */
#ifndef LEASED_BASE_HOST_PORT_H
#define LEASED_BASE_HOST_PORT_H

#include "base/bytes.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    HOST_PORT_HOST_SIZE_MAX = 253, /* of a DNS name */
    HOST_PORT_TEXT_SIZE_MAX = HOST_PORT_HOST_SIZE_MAX + sizeof "[]:65535",
    HOST_PORT_PORT_SIZE_MAX = sizeof "65535"
};

struct host_port {
    char host[HOST_PORT_HOST_SIZE_MAX + 1]; /* an IPv6 address without its brackets */
    uint16_t port;
};

/* Reads "host:port" or "[address]:port". With a `port_default` other than 0 the port may be left
 * out, and an IPv6 address may then stand without brackets. A port is 1 to 65535. STATUS_MALFORMED
 * with a sentence for people in `out_reason`. */
enum status host_port_parse(struct bytes text, uint16_t port_default, struct host_port *out,
                            const char **out_reason);

/* "host:port", with brackets around an IPv6 address. Gives `room`. */
const char *host_port_format(const char *host, uint16_t port, char room[HOST_PORT_TEXT_SIZE_MAX]);

/* The port as getaddrinfo() takes it. Gives `room`. */
const char *host_port_service(uint16_t port, char room[HOST_PORT_PORT_SIZE_MAX]);

/* True when no other machine can reach it: 127.0.0.0/8, ::1, localhost. */
bool host_is_loopback(const char *host);
/* True for 0.0.0.0 and ::, which one can listen on but not connect to. */
bool host_is_wildcard(const char *host);

#endif
