#include "checks/check_target.h"

#include <strings.h>

enum { PORT_HTTP = 80, PORT_HTTPS = 443 };

static bool skip_prefix(struct bytes *text, const char *prefix) {
    size_t size = strlen(prefix);
    if (text->size < size || strncasecmp((const char *)text->data, prefix, size) != 0) {
        return false;
    }
    *text = bytes_of(text->data + size, text->size - size);
    return true;
}

/* The part before the first of these characters; the rest stays in `text`. */
static struct bytes take_until(struct bytes *text, const char *ends) {
    size_t n = 0;
    while (n < text->size && (text->data[n] == '\0' || strchr(ends, text->data[n]) == NULL)) {
        n++;
    }
    struct bytes taken = bytes_of(text->data, n);
    *text = bytes_of(text->data + n, text->size - n);
    return taken;
}

/* What may be on the first line of a request: nothing that could end it. */
static bool is_visible(struct bytes text) {
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] <= 0x20 || text.data[i] >= 0x7f) {
            return false;
        }
    }
    return true;
}

static bool parse_http(struct bytes text, struct check_target *target, const char **out_reason) {
    if (skip_prefix(&text, "https://")) {
        target->is_tls = true;
    } else if (!skip_prefix(&text, "http://")) {
        *out_reason = "the URL begins with neither http:// nor https://";
        return false;
    }
    struct bytes authority = take_until(&text, "/?#");
    if (authority.size > 0 && memchr(authority.data, '@', authority.size) != NULL) {
        *out_reason = "the URL has a user in it; use a header";
        return false;
    }
    target->path = take_until(&text, "#");
    if (!is_visible(target->path)) {
        *out_reason = "the URL has characters in it that have to be escaped";
        return false;
    }
    return host_port_parse(authority, target->is_tls ? PORT_HTTPS : PORT_HTTP, &target->address,
                           out_reason) == STATUS_OK;
}

static bool parse_grpc(struct bytes text, struct check_target *target, const char **out_reason) {
    (void)(skip_prefix(&text, "grpc://") || skip_prefix(&text, "dns:///"));
    struct bytes authority = take_until(&text, "/");
    if (text.size > 0) {
        target->path = bytes_of(text.data + 1, text.size - 1);
    }
    return host_port_parse(authority, 0, &target->address, out_reason) == STATUS_OK;
}

bool check_target_parse(const struct registry_check *check, struct check_target *out_target,
                        const char **out_reason) {
    struct check_target target = {.is_tls = check->is_tls};
    struct bytes text = check->target;
    bool is_good = false;
    if (check->kind == REGISTRY_CHECK_HTTP) {
        target.is_tls = false;
        is_good = parse_http(text, &target, out_reason);
    } else if (check->kind == REGISTRY_CHECK_GRPC) {
        is_good = parse_grpc(text, &target, out_reason);
        if (target.path.size == 0) {
            target.path = check->method;
        }
    } else {
        (void)skip_prefix(&text, "tcp://");
        is_good = host_port_parse(text, 0, &target.address, out_reason) == STATUS_OK;
    }
    if (is_good) {
        *out_target = target;
    }
    return is_good;
}
