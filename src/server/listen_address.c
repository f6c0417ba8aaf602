#include "server/listen_address.h"

#include <stdio.h>
#include <string.h>

static const char tls_prefix[] = "tls://";

static enum status refuse(const char *text, const char *reason, char *out_error,
                          size_t error_size) {
    snprintf(out_error, error_size, "\"%s\": %s", text, reason);
    return STATUS_INVALID;
}

static enum status parse_one(const char *text, struct url *out_url, char *out_error,
                             size_t error_size) {
    struct url url = {.scheme = URL_HTTP};
    const char *rest = text;
    if (strncmp(text, tls_prefix, strlen(tls_prefix)) == 0) {
        url.scheme = URL_HTTPS;
        rest += strlen(tls_prefix);
    } else if (strncmp(text, "unix", 4) == 0 && strstr(text, "://") != NULL) {
        return url_parse(text, out_url, out_error, error_size);
    } else if (strstr(text, "://") != NULL) {
        return refuse(text,
                      "an address looks like 127.0.0.1:6379, tls://127.0.0.1:6379 or "
                      "unix:///run/leased.sock",
                      out_error, error_size);
    }
    struct host_port host_port;
    const char *reason = NULL;
    if (host_port_parse(bytes_from_text(rest), 0, &host_port, &reason) != STATUS_OK) {
        return refuse(text, reason, out_error, error_size);
    }
    memcpy(url.host, host_port.host, sizeof url.host);
    url.port = host_port.port;
    *out_url = url;
    return STATUS_OK;
}

enum status listen_address_list_parse(const char *text, struct arena *arena,
                                      struct url_list *out_list, char *out_error,
                                      size_t error_size) {
    struct url_list list;
    memset(&list, 0, sizeof list);
    const char *start = text;
    for (;;) {
        size_t size = strcspn(start, ",");
        char *one = arena_copy(arena, start, size + 1);
        one[size] = '\0';
        if (list.n == URL_LIST_MAX) {
            return refuse(text, "too many addresses", out_error, error_size);
        }
        enum status status = parse_one(one, &list.urls[list.n], out_error, error_size);
        if (status != STATUS_OK) {
            return status;
        }
        list.texts[list.n++] = one;
        if (start[size] == '\0') {
            break;
        }
        start += size + 1;
    }
    *out_list = list;
    return STATUS_OK;
}
