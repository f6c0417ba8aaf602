#include "cli/metrics_page.h"

#include "base/buffer.h"
#include "cli/cli_user.h"
#include "client/wire_stream.h"
#include "net/grpc_json_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { PAGE_SIZE_MAX = 4 * 1024 * 1024 };

/* ---- asking -----------------------------------------------------------------------------------
 */

static void put_text(struct buffer *out, const char *text) {
    buffer_append(out, text, strlen(text));
}

/* False: --user is not what it should be, which was said. */
static bool make_request(struct cli *cli, struct buffer *out) {
    struct cli_user user;
    if (cli_user_take(cli, &user) != CLI_OK) {
        return false;
    }
    put_text(out, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n");
    if (user.name != NULL) {
        struct grpc_json_carry carry = {0};
        put_text(out, "Authorization: Basic ");
        grpc_json_put_base64(&carry, bytes_from_text(user.name), out);
        grpc_json_put_base64(&carry, bytes_from_text(":"), out);
        grpc_json_put_base64(&carry, bytes_from_text(user.password), out);
        grpc_json_end_base64(&carry, out);
        put_text(out, "\r\n");
    }
    put_text(out, "\r\n");
    return true;
}

/* ---- over a Unix socket -----------------------------------------------------------------------
 */

static int connect_unix(const char *path, uint32_t timeout_ms) {
    const struct timeval limit = {.tv_sec = timeout_ms / 1000,
                                  .tv_usec = (suseconds_t)(timeout_ms % 1000) * 1000};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strlen(path) + 1);
    int file = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (file < 0) {
        return -1;
    }
    setsockopt(file, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    if (connect(file, (const struct sockaddr *)&address, sizeof address) != 0) {
        close(file);
        return -1;
    }
    return file;
}

static enum status fetch_unix(const struct cli *cli, const struct endpoint *endpoint,
                              const struct buffer *request, struct buffer *page) {
    int file = connect_unix(endpoint->path, cli->timeout_ms);
    if (file < 0) {
        return STATUS_IO;
    }
    if (send(file, request->data, request->size, MSG_NOSIGNAL) == (ssize_t)request->size) {
        ssize_t got;
        do {
            got = read(file, buffer_reserve(page, BUFSIZ), BUFSIZ);
            page->size += got > 0 ? (size_t)got : 0;
        } while (got > 0 && page->size <= PAGE_SIZE_MAX);
    }
    close(file);
    return STATUS_OK;
}

/* ---- over TCP, with TLS or without ------------------------------------------------------------
 */

static enum status fetch_tcp(const struct cli *cli, const struct endpoint *endpoint, bool is_tls,
                             const struct buffer *request, struct buffer *page) {
    char error[WIRE_STREAM_ERROR_SIZE_MAX];
    const struct wire_stream_options options = {.host = endpoint->host,
                                                .port = endpoint->port,
                                                .tls = is_tls ? cli->endpoints.tls : NULL,
                                                .connect_timeout_ms = cli->timeout_ms,
                                                .answer_timeout_ms = cli->timeout_ms};
    struct wire_stream *stream = wire_stream_open(&options, error);
    if (stream == NULL) {
        return STATUS_IO;
    }
    bool is_open = wire_stream_send(stream, bytes_of(request->data, request->size));
    /* Until the server closes. */
    while (is_open && wire_stream_input(stream).size <= PAGE_SIZE_MAX) {
        is_open = wire_stream_receive(stream);
    }
    struct bytes input = wire_stream_input(stream);
    buffer_append(page, input.data, input.size);
    wire_stream_close(stream);
    return STATUS_OK;
}

enum status metrics_page_fetch(struct cli *cli, const struct endpoint *endpoint, char **out_page) {
    bool is_unix = endpoint->path[0] != '\0';
    bool is_tls = endpoint->security == ENDPOINT_TLS ||
                  (endpoint->security == ENDPOINT_EITHER && cli->endpoints.tls != NULL);
    struct buffer request;
    struct buffer page;
    if (is_unix && is_tls) {
        return STATUS_UNSUPPORTED;
    }
    buffer_init(&request);
    buffer_init(&page);
    enum status status = STATUS_INVALID;
    if (make_request(cli, &request)) {
        status = is_unix ? fetch_unix(cli, endpoint, &request, &page)
                         : fetch_tcp(cli, endpoint, is_tls, &request, &page);
    }
    buffer_append(&page, "", 1);
    if (status == STATUS_OK &&
        (page.size > PAGE_SIZE_MAX || strncmp((const char *)page.data, "HTTP/1.1 200", 12) != 0)) {
        status = STATUS_MALFORMED;
    }
    if (status == STATUS_OK) {
        *out_page = strdup((const char *)page.data);
        if (*out_page == NULL) {
            abort();
        }
    }
    buffer_clear(&page);
    buffer_clear(&request);
    return status;
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
