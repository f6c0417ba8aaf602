#include "doors/etcd/etcd_access.h"

#include <string.h>
#include <strings.h>

static struct bytes trimmed(struct bytes text) {
    while (text.size > 0 && text.data[0] == ' ') {
        text = bytes_of(text.data + 1, text.size - 1);
    }
    while (text.size > 0 && text.data[text.size - 1] == ' ') {
        text.size--;
    }
    return text;
}

bool etcd_access_is_listed(const char *list, struct bytes name) {
    while (*list != 0) {
        size_t size = strcspn(list, ",");
        struct bytes entry = trimmed(bytes_of(list, size));
        if (bytes_equal(entry, bytes_from_text("*")) ||
            (entry.size > 0 && entry.size == name.size &&
             strncasecmp((const char *)entry.data, (const char *)name.data, name.size) == 0)) {
            return true;
        }
        list += size + (list[size] == ',');
    }
    return false;
}

struct bytes etcd_access_host(struct bytes host) {
    if (host.size > 0 && host.data[0] == '[') {
        const uint8_t *end = memchr(host.data, ']', host.size);
        return end != NULL ? bytes_of(host.data + 1, (size_t)(end - host.data) - 1) : host;
    }
    const uint8_t *colon = memchr(host.data, ':', host.size);
    return colon != NULL ? bytes_of(host.data, (size_t)(colon - host.data)) : host;
}

/* An empty list is what etcd makes of an empty flag: everything. */
static bool is_allowed(const char *list, struct bytes name) {
    return *list == 0 || etcd_access_is_listed(list, name);
}

static unsigned check(void *context, const struct http_exchange *exchange, const char **out_text) {
    const struct etcd_access *access = context;
    struct bytes host = bytes_of("", 0);
    if (!http_is_encrypted(exchange)) {
        http_header(exchange, "host", &host);
        if (!is_allowed(access->hosts, etcd_access_host(host))) {
            *out_text = "the Host header names none of the hosts of --host-whitelist\n"
                        "Add the name there, or use TLS.\n";
            return 421;
        }
    }
    if (bytes_equal(http_method(exchange), bytes_from_text("OPTIONS"))) {
        *out_text = "";
        return 200;
    }
    return 0;
}

static size_t fields(void *context, const struct http_exchange *exchange, struct http_field *out) {
    const struct etcd_access *access = context;
    struct bytes origin = bytes_of("", 0);
    if (is_allowed(access->origins, bytes_of("", 0))) {
        out[0] = HTTP_FIELD("access-control-allow-origin", "*");
    } else if (http_header(exchange, "origin", &origin) &&
               etcd_access_is_listed(access->origins, origin)) {
        out[0] = (struct http_field){.name = bytes_from_text("access-control-allow-origin"),
                                     .value = origin};
    } else {
        return 0;
    }
    out[1] = HTTP_FIELD("access-control-allow-methods", "POST, GET, OPTIONS, PUT, DELETE");
    out[2] = HTTP_FIELD("access-control-allow-headers", "accept, content-type, authorization");
    out[3] = HTTP_FIELD("vary", "Origin");
    return origin.size > 0 ? 4 : 3;
}

const struct http_filter etcd_access_filter = {.check = check, .fields = fields};
