#include "cli/import_url.h"

#include <string.h>

static const struct {
    const char *scheme;
    enum import_protocol protocol;
    bool is_tls;
} schemes[] = {
    {"redis://", IMPORT_REDIS, false},  {"rediss://", IMPORT_REDIS, true},
    {"zk://", IMPORT_ZOOKEEPER, false}, {"zookeeper://", IMPORT_ZOOKEEPER, false},
    {"zks://", IMPORT_ZOOKEEPER, true},
};

static enum status malformed(const char *reason, const char **out_reason) {
    *out_reason = reason;
    return STATUS_MALFORMED;
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Percent-encoding undone; false: too long, malformed, or a zero byte. */
static bool decode(const char *from, size_t size, char *room, size_t room_size) {
    size_t n = 0;
    for (size_t i = 0; i < size; i++) {
        char c = from[i];
        if (c == '%') {
            if (i + 2 >= size || hex_digit(from[i + 1]) < 0 || hex_digit(from[i + 2]) < 0) {
                return false;
            }
            c = (char)(hex_digit(from[i + 1]) * 16 + hex_digit(from[i + 2]));
            i += 2;
        }
        if (c == '\0' || n + 1 >= room_size) {
            return false;
        }
        room[n++] = c;
    }
    room[n] = '\0';
    return true;
}

static bool take_credentials(struct import_url *url, const char *text, size_t size) {
    const char *colon = memchr(text, ':', size);
    size_t user_size = colon != NULL ? (size_t)(colon - text) : size;
    return decode(text, user_size, url->user, sizeof url->user) &&
           (colon == NULL ||
            decode(colon + 1, size - user_size - 1, url->password, sizeof url->password));
}

static bool take_database(struct import_url *url, const char *text) {
    if (*text == '\0' || strlen(text) > 4 || strspn(text, "0123456789") != strlen(text)) {
        return false;
    }
    for (; *text != '\0'; text++) {
        url->database = url->database * 10 + (uint32_t)(*text - '0');
    }
    return url->database < IMPORT_DATABASES_MAX;
}

/* As ZooKeeper has them: no empty name, no "." and "..". */
static bool take_path(struct import_url *url, const char *text) {
    size_t size = strlen(text);
    if (size >= sizeof url->path || strstr(text, "//") != NULL || strstr(text, "/./") != NULL ||
        strstr(text, "/../") != NULL) {
        return false;
    }
    memcpy(url->path, text, size + 1);
    while (size > 1 && url->path[size - 1] == '/') {
        url->path[--size] = '\0';
    }
    return true;
}

static enum status parse_rest(struct import_url *url, const char *text, const char **out_reason) {
    const char *slash = strchr(text, '/');
    size_t size = slash != NULL ? (size_t)(slash - text) : strlen(text);
    for (size_t i = size; i > 0; i--) {
        if (text[i - 1] == '@') {
            if (!take_credentials(url, text, i - 1)) {
                return malformed("user and password before @ cannot be read; characters like @ "
                                 "and / in them are percent-encoded",
                                 out_reason);
            }
            text += i;
            size -= i;
            break;
        }
    }
    uint16_t port = url->protocol == IMPORT_REDIS ? 6379 : 2181;
    enum status status = host_port_parse(bytes_of(text, size), port, &url->place, out_reason);
    if (status != STATUS_OK) {
        return status;
    }
    strcpy(url->path, "/");
    url->has_path = slash != NULL && slash[1] != '\0';
    if (url->protocol == IMPORT_REDIS && url->has_path && !take_database(url, slash + 1)) {
        return malformed("the number of a database follows the slash", out_reason);
    }
    if (url->protocol == IMPORT_ZOOKEEPER && slash != NULL && !take_path(url, slash)) {
        return malformed("the path is none of ZooKeeper's", out_reason);
    }
    return STATUS_OK;
}

enum status import_url_parse(const char *text, struct import_url *out_url,
                             const char **out_reason) {
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        size_t size = strlen(schemes[i].scheme);
        if (strncmp(text, schemes[i].scheme, size) == 0) {
            *out_url =
                (struct import_url){.protocol = schemes[i].protocol, .is_tls = schemes[i].is_tls};
            return parse_rest(out_url, text + size, out_reason);
        }
    }
    return malformed("the scheme is unknown; give redis://HOST:PORT or zk://HOST:PORT", out_reason);
}

enum status import_url_parse_as(enum import_protocol protocol, const char *text,
                                struct import_url *out_url, const char **out_reason) {
    if (strstr(text, "://") == NULL) {
        *out_url = (struct import_url){.protocol = protocol};
        return parse_rest(out_url, text, out_reason);
    }
    enum status status = import_url_parse(text, out_url, out_reason);
    if (status == STATUS_OK && out_url->protocol != protocol) {
        return malformed("source and destination speak two protocols", out_reason);
    }
    return status;
}
