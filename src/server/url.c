#include "server/url.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { URL_TEXT_SIZE_MAX = URL_HOST_SIZE_MAX + sizeof "https://[]:65535" };

static enum status refuse(const char *text, const char *reason, char *out_error,
                          size_t error_size) {
    snprintf(out_error, error_size, "\"%s\": %s", text, reason);
    return STATUS_INVALID;
}

static bool host_is_valid(const char *host, bool bracketed) {
    struct in6_addr address6;
    if (bracketed) {
        return inet_pton(AF_INET6, host, &address6) == 1;
    }
    bool numeric = true;
    for (const char *c = host; *c != '\0'; c++) {
        bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z');
        bool digit = *c >= '0' && *c <= '9';
        if (!letter && !digit && *c != '-' && *c != '.' && *c != '_') {
            return false;
        }
        if (!digit && *c != '.') {
            numeric = false;
        }
    }
    /* Digits and dots alone are meant as an address: 127.0.1 or 300.1.1.1 would reach a resolver
     * that may make something surprising of it. */
    struct in_addr address4;
    return host[0] != '\0' && (!numeric || inet_pton(AF_INET, host, &address4) == 1);
}

static bool port_parse(const char *text, size_t size, uint16_t *out_port) {
    if (size == 0 || size > 5) {
        return false;
    }
    uint32_t port = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        port = port * 10 + (uint32_t)(text[i] - '0');
    }
    if (port == 0 || port > UINT16_MAX) {
        return false;
    }
    *out_port = (uint16_t)port;
    return true;
}

static enum status scheme_parse(const char *text, enum url_scheme *out_scheme,
                                const char **out_rest, char *out_error, size_t error_size) {
    static const char http[] = "http://";
    static const char https[] = "https://";

    if (strncasecmp(text, http, strlen(http)) == 0) {
        *out_scheme = URL_HTTP;
        *out_rest = text + strlen(http);
        return STATUS_OK;
    }
    if (strncasecmp(text, https, strlen(https)) == 0) {
        *out_scheme = URL_HTTPS;
        *out_rest = text + strlen(https);
        return STATUS_OK;
    }
    if (strncasecmp(text, "unix", 4) == 0) {
        return refuse(text, "unix sockets are not supported; say http://host:port", out_error,
                      error_size);
    }
    return refuse(text, "a URL looks like http://127.0.0.1:2379", out_error, error_size);
}

enum status url_parse(const char *text, struct url *out_url, char *out_error, size_t error_size) {
    struct url url;
    memset(&url, 0, sizeof url);
    const char *rest = NULL;
    enum status status = scheme_parse(text, &url.scheme, &rest, out_error, error_size);
    if (status != STATUS_OK) {
        return status;
    }

    size_t size = strcspn(rest, "/?#");
    if (rest[size] != '\0' && strcmp(rest + size, "/") != 0) {
        return refuse(text, "only scheme, host and port may be given, no path", out_error,
                      error_size);
    }
    if (memchr(rest, '@', size) != NULL) {
        return refuse(text, "a user name cannot be given here", out_error, error_size);
    }

    bool bracketed = rest[0] == '[';
    const char *host = bracketed ? rest + 1 : rest;
    const char *host_end = memchr(rest, bracketed ? ']' : ':', size);
    const char *colon = host_end == NULL ? NULL : host_end + (bracketed ? 1 : 0);
    if (colon == NULL || colon == rest + size || *colon != ':') {
        return refuse(text, "the port is missing", out_error, error_size);
    }
    if ((size_t)(host_end - host) > URL_HOST_SIZE_MAX) {
        return refuse(text, "the host name is too long", out_error, error_size);
    }
    memcpy(url.host, host, (size_t)(host_end - host));
    if (!host_is_valid(url.host, bracketed)) {
        return refuse(text, "the host is neither an address nor a name", out_error, error_size);
    }
    if (!port_parse(colon + 1, (size_t)(rest + size - (colon + 1)), &url.port)) {
        return refuse(text, "the port must be a number from 1 to 65535", out_error, error_size);
    }
    *out_url = url;
    return STATUS_OK;
}

const char *url_address(const struct url *url, struct arena *arena) {
    char text[URL_TEXT_SIZE_MAX];
    bool is_ipv6 = strchr(url->host, ':') != NULL;
    int size = snprintf(text, sizeof text, is_ipv6 ? "[%s]:%u" : "%s:%u", url->host, url->port);
    return arena_copy(arena, text, (size_t)size + 1);
}

const char *url_text(const struct url *url, struct arena *arena) {
    char text[URL_TEXT_SIZE_MAX];
    bool is_ipv6 = strchr(url->host, ':') != NULL;
    const char *scheme = url->scheme == URL_HTTPS ? "https" : "http";
    int size = snprintf(text, sizeof text, is_ipv6 ? "%s://[%s]:%u" : "%s://%s:%u", scheme,
                        url->host, url->port);
    return arena_copy(arena, text, (size_t)size + 1);
}

enum status url_list_parse(const char *text, struct arena *arena, struct url_list *out_list,
                           char *out_error, size_t error_size) {
    struct url_list list;
    memset(&list, 0, sizeof list);
    const char *start = text;
    for (;;) {
        size_t size = strcspn(start, ",");
        char *one = arena_copy(arena, start, size + 1);
        one[size] = '\0';
        if (list.n == URL_LIST_MAX) {
            return refuse(text, "too many URLs", out_error, error_size);
        }
        enum status status = url_parse(one, &list.urls[list.n], out_error, error_size);
        if (status != STATUS_OK) {
            return status;
        }
        list.texts[list.n] = url_text(&list.urls[list.n], arena);
        list.n++;
        if (start[size] == '\0') {
            break;
        }
        start += size + 1;
    }
    *out_list = list;
    return STATUS_OK;
}

void url_list_set(struct url_list *list, const struct url *url, struct arena *arena) {
    memset(list, 0, sizeof *list);
    list->n = 1;
    list->urls[0] = *url;
    list->texts[0] = url_text(url, arena);
}

bool url_is_loopback(const struct url *url) {
    struct in_addr address4;
    struct in6_addr address6;
    if (inet_pton(AF_INET, url->host, &address4) == 1) {
        return (ntohl(address4.s_addr) >> 24) == 127;
    }
    if (inet_pton(AF_INET6, url->host, &address6) == 1) {
        if (IN6_IS_ADDR_V4MAPPED(&address6)) {
            return address6.s6_addr[12] == 127;
        }
        return IN6_IS_ADDR_LOOPBACK(&address6);
    }
    return strcasecmp(url->host, "localhost") == 0;
}

bool url_is_wildcard(const struct url *url) {
    struct in_addr address4;
    struct in6_addr address6;
    if (inet_pton(AF_INET, url->host, &address4) == 1) {
        return address4.s_addr == htonl(INADDR_ANY);
    }
    return inet_pton(AF_INET6, url->host, &address6) == 1 && IN6_IS_ADDR_UNSPECIFIED(&address6);
}

static bool url_list_has(const struct url_list *list, const char *text) {
    for (size_t i = 0; i < list->n; i++) {
        if (strcasecmp(list->texts[i], text) == 0) {
            return true;
        }
    }
    return false;
}

bool url_list_equal(const struct url_list *a, const struct url_list *b) {
    for (size_t i = 0; i < a->n; i++) {
        if (!url_list_has(b, a->texts[i])) {
            return false;
        }
    }
    for (size_t i = 0; i < b->n; i++) {
        if (!url_list_has(a, b->texts[i])) {
            return false;
        }
    }
    return true;
}
