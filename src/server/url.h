/*
 * The URLs of etcd's flags: a scheme with a host and a port, or with the path of a Unix socket, and
 * nothing else. Parsing is strict, because a listener that opens somewhere else than was meant is
 * worse than a server that does not start.
 */
#ifndef LEASED_SERVER_URL_H
#define LEASED_SERVER_URL_H

#include "base/arena.h"
#include "base/host_port.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    URL_HOST_SIZE_MAX = HOST_PORT_HOST_SIZE_MAX,
    URL_PATH_SIZE_MAX = 107, /* of a Unix socket, without the zero (unix(7)) */
    URL_LIST_MAX = 16
};

enum url_scheme {
    URL_HTTP,
    URL_HTTPS,
    URL_UNIX, /* plain text over a Unix socket */
    URL_UNIXS /* TLS over a Unix socket */
};

struct url {
    enum url_scheme scheme;
    uint16_t port;
    char host[URL_HOST_SIZE_MAX + 1]; /* an IPv6 address without its brackets */
    char path[URL_PATH_SIZE_MAX + 1]; /* of a Unix socket, which has neither host nor port */
};

struct url_list {
    size_t n;
    struct url urls[URL_LIST_MAX];
    const char *texts[URL_LIST_MAX + 1]; /* the same as texts in normal form; ends with NULL */
};

/* Reads "http://host:port" (a closing slash is allowed) or "unix:///path". STATUS_INVALID with the
 * reason in `out_error`. */
enum status url_parse(const char *text, struct url *out_url, char *out_error, size_t error_size);

/* Reads one or more URLs with commas between them; the texts are in the arena. STATUS_INVALID. */
enum status url_list_parse(const char *text, struct arena *arena, struct url_list *out_list,
                           char *out_error, size_t error_size);

/* The normal form, in the arena. */
const char *url_text(const struct url *url, struct arena *arena);
/* "host:port", with brackets around an IPv6 address, or "unix://PATH" (peers/peer_address.h), in
 * the arena. */
const char *url_address(const struct url *url, struct arena *arena);

/* True for https:// and unixs://. */
bool url_is_tls(const struct url *url);
bool url_is_unix(const struct url *url);
/* True when no other machine can reach it: 127.0.0.0/8, ::1, localhost, a Unix socket. */
bool url_is_loopback(const struct url *url);
/* True for 0.0.0.0 and ::, which one can listen on but not connect to. */
bool url_is_wildcard(const struct url *url);

/* Another one of the list that names the same TCP address with TLS, where this one has none, or
 * without; NULL: there is none. */
const struct url *url_list_twin(const struct url_list *list, const struct url *url);

/* True when both lists hold the same URLs in whatever order. */
bool url_list_equal(const struct url_list *a, const struct url_list *b);

#endif
