#include "cli/metrics_page.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { PAGE_SIZE_MAX = 4 * 1024 * 1024, PORT_SIZE = 8 };

static const char request_text[] =
    "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/* ---- fetching ---------------------------------------------------------------------------------
 */

static int connect_to(int family, const struct sockaddr *address, socklen_t size,
                      uint32_t timeout_ms) {
    const struct timeval limit = {.tv_sec = timeout_ms / 1000,
                                  .tv_usec = (suseconds_t)(timeout_ms % 1000) * 1000};
    int file = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (file < 0) {
        return -1;
    }
    setsockopt(file, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (connect(file, address, size) != 0) {
        close(file);
        return -1;
    }
    return file;
}

static int open_endpoint(const struct endpoint *endpoint, uint32_t timeout_ms) {
    if (endpoint->path[0] != '\0') {
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        memcpy(address.sun_path, endpoint->path, strlen(endpoint->path) + 1);
        return connect_to(AF_UNIX, (const struct sockaddr *)&address, sizeof address, timeout_ms);
    }
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    char port[PORT_SIZE];
    int file = -1;
    snprintf(port, sizeof port, "%u", endpoint->port);
    if (getaddrinfo(endpoint->host, port, &hints, &found) != 0) {
        return -1;
    }
    for (const struct addrinfo *each = found; file < 0 && each != NULL; each = each->ai_next) {
        file = connect_to(each->ai_family, each->ai_addr, each->ai_addrlen, timeout_ms);
    }
    freeaddrinfo(found);
    return file;
}

/* Until the server closes. NULL: it failed, or the page is too long. */
static char *read_page(int file) {
    char *page = malloc(PAGE_SIZE_MAX + 1);
    size_t size = 0;
    ssize_t got;
    if (page == NULL) {
        return NULL;
    }
    while (size < PAGE_SIZE_MAX && (got = read(file, page + size, PAGE_SIZE_MAX - size)) > 0) {
        size += (size_t)got;
    }
    page[size] = '\0';
    return page;
}

enum status metrics_page_fetch(const struct endpoint *endpoint, bool is_tls, uint32_t timeout_ms,
                               char **out_page) {
    if (is_tls) {
        return STATUS_UNSUPPORTED;
    }
    int file = open_endpoint(endpoint, timeout_ms);
    if (file < 0) {
        return STATUS_IO;
    }
    char *page = NULL;
    if (send(file, request_text, sizeof request_text - 1, MSG_NOSIGNAL) ==
        (ssize_t)sizeof request_text - 1) {
        page = read_page(file);
    }
    close(file);
    if (page == NULL || strncmp(page, "HTTP/1.1 200", 12) != 0) {
        free(page);
        return STATUS_MALFORMED;
    }
    *out_page = page;
    return STATUS_OK;
}

/* ---- reading ----------------------------------------------------------------------------------
 */

/* What follows the name at the start of a line, or NULL. */
static const char *find_line(const char *page, const char *name) {
    size_t size = strlen(name);
    for (const char *at = page; (at = strstr(at, name)) != NULL; at += size) {
        if (at > page && at[-1] == '\n') {
            return at + size;
        }
    }
    return NULL;
}

double metrics_page_value(const char *page, const char *name, double fallback) {
    char text[256];
    snprintf(text, sizeof text, "%s ", name);
    const char *value = find_line(page, text);
    return value != NULL ? strtod(value, NULL) : fallback;
}

double metrics_page_quantile(const char *page, const char *name, double share) {
    char bucket[128];
    char count[128];
    snprintf(bucket, sizeof bucket, "%s_bucket{le=\"", name);
    snprintf(count, sizeof count, "%s_count", name);
    double total = metrics_page_value(page, count, 0);
    double bound = -1;
    if (total <= 0) {
        return -1;
    }
    for (const char *at = page; (at = find_line(at, bucket)) != NULL;) {
        char *end;
        bound = strtod(at, &end);
        const char *value = strstr(end, "} ");
        if (value == NULL || strtod(value + 2, NULL) >= share * total) {
            break;
        }
    }
    return bound;
}
