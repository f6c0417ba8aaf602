#include "server/url.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { URL_TEXT_SIZE_MAX = HOST_PORT_TEXT_SIZE_MAX + sizeof "unixs://" };

static enum status refuse(const char *text, const char *reason, char *out_error,
                          size_t error_size) {
    snprintf(out_error, error_size, "\"%s\": %s", text, reason);
    return STATUS_INVALID;
}

static const char *const schemes[] = {[URL_HTTP] = "http://",
                                      [URL_HTTPS] = "https://",
                                      [URL_UNIX] = "unix://",
                                      [URL_UNIXS] = "unixs://"};

static enum status scheme_parse(const char *text, enum url_scheme *out_scheme,
                                const char **out_rest, char *out_error, size_t error_size) {
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        if (strncasecmp(text, schemes[i], strlen(schemes[i])) == 0) {
            *out_scheme = (enum url_scheme)i;
            *out_rest = text + strlen(schemes[i]);
            return STATUS_OK;
        }
    }
    return refuse(text, "a URL looks like http://127.0.0.1:2379 or unix:///run/leased.sock",
                  out_error, error_size);
}

static enum status path_parse(const char *text, const char *path, struct url *out_url,
                              char *out_error, size_t error_size) {
    size_t size = strlen(path);
    if (size == 0) {
        return refuse(text, "the path of the socket is missing", out_error, error_size);
    }
    if (size > URL_PATH_SIZE_MAX) {
        return refuse(text, "the path of a Unix socket has at most 107 bytes", out_error,
                      error_size);
    }
    for (size_t i = 0; i < size; i++) {
        if ((unsigned char)path[i] < ' ' || path[i] == 0x7f) {
            return refuse(text, "the path has a control character in it", out_error, error_size);
        }
    }
    memcpy(out_url->path, path, size + 1);
    return STATUS_OK;
}

enum status url_parse(const char *text, struct url *out_url, char *out_error, size_t error_size) {
    struct url url;
    memset(&url, 0, sizeof url);
    const char *rest = NULL;
    enum status status = scheme_parse(text, &url.scheme, &rest, out_error, error_size);
    if (status != STATUS_OK) {
        return status;
    }
    if (url_is_unix(&url)) {
        status = path_parse(text, rest, &url, out_error, error_size);
        if (status == STATUS_OK) {
            *out_url = url;
        }
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

    /* Port 0 is any that is free: only a URL to listen on can have it. */
    struct host_port host_port;
    const char *reason = NULL;
    bool is_any_port = size > 2 && memcmp(rest + size - 2, ":0", 2) == 0;
    struct bytes place = bytes_of(rest, is_any_port ? size - 2 : size);
    if (host_port_parse(place, is_any_port, &host_port, &reason) != STATUS_OK) {
        return refuse(text, reason, out_error, error_size);
    }
    memcpy(url.host, host_port.host, sizeof url.host);
    url.port = is_any_port ? 0 : host_port.port;
    *out_url = url;
    return STATUS_OK;
}

const char *url_address(const struct url *url, struct arena *arena) {
    char text[URL_TEXT_SIZE_MAX];
    if (url_is_unix(url)) {
        snprintf(text, sizeof text, "unix://%s", url->path);
    } else {
        host_port_format(url->host, url->port, text);
    }
    return arena_copy(arena, text, strlen(text) + 1);
}

const char *url_text(const struct url *url, struct arena *arena) {
    char text[URL_TEXT_SIZE_MAX];
    char address[HOST_PORT_TEXT_SIZE_MAX];
    int size =
        snprintf(text, sizeof text, "%s%s", schemes[url->scheme],
                 url_is_unix(url) ? url->path : host_port_format(url->host, url->port, address));
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

bool url_is_tls(const struct url *url) {
    return url->scheme == URL_HTTPS || url->scheme == URL_UNIXS;
}

bool url_is_unix(const struct url *url) {
    return url->scheme == URL_UNIX || url->scheme == URL_UNIXS;
}

bool url_is_loopback(const struct url *url) {
    return url_is_unix(url) || host_is_loopback(url->host);
}

bool url_is_wildcard(const struct url *url) {
    return !url_is_unix(url) && host_is_wildcard(url->host);
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

const struct url *url_list_twin(const struct url_list *list, const struct url *url) {
    for (size_t i = 0; i < list->n && !url_is_unix(url) && url->port != 0; i++) {
        const struct url *other = &list->urls[i];
        if (!url_is_unix(other) && url_is_tls(other) != url_is_tls(url) &&
            other->port == url->port && strcmp(other->host, url->host) == 0) {
            return other;
        }
    }
    return NULL;
}
