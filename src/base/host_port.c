#include "base/host_port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { PORT_DIGITS_MAX = 5 };

static bool is_name_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_';
}

/* An address, perhaps with the zone of a link-local one: fe80::1%eth0 (RFC 4007, section 11). */
static bool is_ipv6(const char *host) {
    char address[INET6_ADDRSTRLEN];
    struct in6_addr ignored;
    size_t size = strcspn(host, "%");
    if (size >= sizeof address) {
        return false;
    }
    if (host[size] == '%') {
        const char *zone = host + size + 1;
        if (*zone == '\0') {
            return false;
        }
        for (; *zone != '\0'; zone++) {
            if (!is_name_character(*zone)) {
                return false;
            }
        }
    }
    memcpy(address, host, size);
    address[size] = '\0';
    return inet_pton(AF_INET6, address, &ignored) == 1;
}

static bool is_name_or_ipv4(const char *host) {
    bool is_numeric = true;
    for (const char *c = host; *c != '\0'; c++) {
        if (!is_name_character(*c)) {
            return false;
        }
        if (*c != '.' && (*c < '0' || *c > '9')) {
            is_numeric = false;
        }
    }
    /* Digits and dots alone are meant as an address. */
    struct in_addr ignored;
    return host[0] != '\0' && (!is_numeric || inet_pton(AF_INET, host, &ignored) == 1);
}

static bool parse_port(struct bytes text, uint16_t *out_port) {
    uint32_t port = 0;
    if (text.size == 0 || text.size > PORT_DIGITS_MAX) {
        return false;
    }
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return false;
        }
        port = port * 10 + (uint32_t)(text.data[i] - '0');
    }
    if (port == 0 || port > UINT16_MAX) {
        return false;
    }
    *out_port = (uint16_t)port;
    return true;
}

struct parts {
    struct bytes host;
    struct bytes port;
    bool is_ipv6;  /* in brackets, or several colons */
    bool has_port; /* a colon was there, whatever follows it */
};

/* False: something other than a port follows the bracket, or it is never closed. */
static bool split(struct bytes text, bool is_port_optional, struct parts *out) {
    *out = (struct parts){.host = text};
    if (text.size == 0) {
        return true;
    }
    const uint8_t *end = text.data + text.size;
    const uint8_t *colon = NULL;
    if (text.data[0] == '[') {
        const uint8_t *bracket = memchr(text.data, ']', text.size);
        if (bracket == NULL || (bracket + 1 < end && bracket[1] != ':')) {
            return false;
        }
        out->is_ipv6 = true;
        out->host = bytes_of(text.data + 1, (size_t)(bracket - text.data) - 1);
        colon = bracket + 1 < end ? bracket + 1 : NULL;
    } else {
        colon = memchr(text.data, ':', text.size);
        if (is_port_optional && colon != memrchr(text.data, ':', text.size)) {
            out->is_ipv6 = true;
            return true;
        }
        out->host.size = colon == NULL ? text.size : (size_t)(colon - text.data);
    }
    if (colon != NULL) {
        out->has_port = true;
        out->port = bytes_of(colon + 1, (size_t)(end - colon) - 1);
    }
    return true;
}

static enum status refuse(const char *reason, const char **out_reason) {
    *out_reason = reason;
    return STATUS_MALFORMED;
}

enum status host_port_parse(struct bytes text, uint16_t port_default, struct host_port *out,
                            const char **out_reason) {
    struct parts parts;
    struct host_port result = {.port = port_default};
    if (!split(text, port_default != 0, &parts) || (!parts.has_port && port_default == 0)) {
        return refuse("the port is missing; write HOST:PORT", out_reason);
    }
    if (parts.host.size > HOST_PORT_HOST_SIZE_MAX) {
        return refuse("the host name is too long", out_reason);
    }
    if (parts.host.size > 0) {
        memcpy(result.host, parts.host.data, parts.host.size);
    }
    bool is_valid = strlen(result.host) == parts.host.size &&
                    (parts.is_ipv6 ? is_ipv6(result.host) : is_name_or_ipv4(result.host));
    if (!is_valid) {
        return refuse("the host is neither an address nor a name", out_reason);
    }
    if (parts.has_port && !parse_port(parts.port, &result.port)) {
        return refuse("the port must be a number from 1 to 65535", out_reason);
    }
    *out = result;
    return STATUS_OK;
}

const char *host_port_format(const char *host, uint16_t port, char room[HOST_PORT_TEXT_SIZE_MAX]) {
    snprintf(room, HOST_PORT_TEXT_SIZE_MAX, strchr(host, ':') != NULL ? "[%s]:%u" : "%s:%u", host,
             port);
    return room;
}

const char *host_port_service(uint16_t port, char room[HOST_PORT_PORT_SIZE_MAX]) {
    snprintf(room, HOST_PORT_PORT_SIZE_MAX, "%u", port);
    return room;
}

bool host_is_loopback(const char *host) {
    struct in_addr address4;
    struct in6_addr address6;
    if (inet_pton(AF_INET, host, &address4) == 1) {
        return (ntohl(address4.s_addr) >> 24) == 127;
    }
    if (inet_pton(AF_INET6, host, &address6) == 1) {
        if (IN6_IS_ADDR_V4MAPPED(&address6)) {
            return address6.s6_addr[12] == 127;
        }
        return IN6_IS_ADDR_LOOPBACK(&address6);
    }
    return strcasecmp(host, "localhost") == 0;
}

bool host_is_wildcard(const char *host) {
    struct in_addr address4;
    struct in6_addr address6;
    if (inet_pton(AF_INET, host, &address4) == 1) {
        return address4.s_addr == htonl(INADDR_ANY);
    }
    return inet_pton(AF_INET6, host, &address6) == 1 && IN6_IS_ADDR_UNSPECIFIED(&address6);
}
