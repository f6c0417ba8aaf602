#include "checks/check_request.h"

#include <ctype.h>
#include <stdio.h>
#include <strings.h>

static void put(struct buffer *out, const char *text) {
    buffer_append(out, text, strlen(text));
}

/* A method or the name of a header (RFC 9110, section 5.6.2). */
static bool is_token(struct bytes text) {
    for (size_t i = 0; i < text.size; i++) {
        uint8_t letter = text.data[i];
        bool is_of_token = letter < 0x80 && (isalnum(letter) ||
                                             (letter != '\0' && strchr("!#$%&'*+-.^_`|~", letter)));
        if (!is_of_token) {
            return false;
        }
    }
    return text.size > 0;
}

static bool is_header_value(struct bytes text) {
    for (size_t i = 0; i < text.size; i++) {
        if ((text.data[i] < ' ' && text.data[i] != '\t') || text.data[i] == 0x7f) {
            return false;
        }
    }
    return true;
}

static bool is_named(struct bytes name, const char *text) {
    return name.size == strlen(text) && strncasecmp((const char *)name.data, text, name.size) == 0;
}

/* How the message is framed and the connection used is ours to say. */
static bool is_ours(struct bytes name) {
    return is_named(name, "content-length") || is_named(name, "transfer-encoding") ||
           is_named(name, "connection") || is_named(name, "upgrade") || is_named(name, "te") ||
           is_named(name, "expect");
}

struct given {
    bool has_host;
    bool has_agent;
};

static bool write_headers(struct buffer *out, const struct registry_check *check,
                          struct given *out_given, const char **out_reason) {
    for (size_t i = 0; i < check->n_headers; i++) {
        const struct registry_pair *header = &check->headers[i];
        if (!is_token(header->key) || !is_header_value(header->value)) {
            *out_reason = "a header of the check cannot be sent";
            return false;
        }
        if (is_ours(header->key)) {
            continue;
        }
        out_given->has_host = out_given->has_host || is_named(header->key, "host");
        out_given->has_agent = out_given->has_agent || is_named(header->key, "user-agent");
        buffer_append(out, header->key.data, header->key.size);
        put(out, ": ");
        buffer_append(out, header->value.data, header->value.size);
        put(out, "\r\n");
    }
    return true;
}

static void write_host(struct buffer *out, const struct check_target *target) {
    char room[HOST_PORT_TEXT_SIZE_MAX];
    put(out, "Host: ");
    put(out, host_port_format(target->address.host, target->address.port, room));
    put(out, "\r\n");
}

bool check_request_write(struct buffer *out, const struct registry_check *check,
                         const struct check_target *target, const char **out_reason) {
    struct given given = {0};
    struct bytes method = check->method.size > 0 ? check->method : bytes_from_text("GET");
    if (!is_token(method)) {
        *out_reason = "the method of the check cannot be sent";
        return false;
    }
    buffer_append(out, method.data, method.size);
    put(out, target->path.size > 0 && target->path.data[0] == '/' ? " " : " /");
    buffer_append(out, target->path.data, target->path.size);
    put(out, " HTTP/1.1\r\n");
    if (!write_headers(out, check, &given, out_reason)) {
        return false;
    }
    if (!given.has_host) {
        write_host(out, target);
    }
    if (!given.has_agent) {
        put(out, "User-Agent: leased-health-check\r\n");
    }
    bool needs_length = check->body.size > 0 || is_named(method, "POST") || is_named(method, "PUT");
    if (needs_length) {
        char line[48];
        snprintf(line, sizeof line, "Content-Length: %zu\r\n", check->body.size);
        put(out, line);
    }
    put(out, "\r\n");
    buffer_append(out, check->body.data, check->body.size);
    return true;
}
