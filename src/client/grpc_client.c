#include "client/grpc_client.h"
#include "client/grpc_client_internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void connect_next(struct grpc_client *client);

/* ---- life and death ------------------------------------------------------------------------- */

static void release(struct grpc_client *client) {
    assert(client->users > 0);
    client->users--;
    if (client->users > 0 || !client->destroyed) {
        return;
    }
    grpc_client_session_clear(client);
    grpc_client_free_calls(client);
    buffer_clear(&client->out);
    free(client);
}

static void on_handle_closed(uv_handle_t *handle) {
    release(handle->data);
}

static void close_tcp(struct grpc_client *client) {
    if (client->tcp_live) {
        client->tcp_live = false;
        uv_close((uv_handle_t *)&client->tcp, on_handle_closed);
    }
}

/* Must not run inside nghttp2: the calls end here, and their owners may destroy the client. */
static void fail(struct grpc_client *client, const char *reason) {
    if (client->state == GRPC_CLIENT_CLOSED || client->destroyed) {
        return;
    }
    client->state = GRPC_CLIENT_CLOSED;
    uv_timer_stop(&client->connect_timer);
    uv_timer_stop(&client->deadline_timer);
    close_tcp(client);
    grpc_client_end_calls(client, GRPC_UNAVAILABLE, reason);
    if (!client->destroyed && client->options.on_closed != NULL) {
        client->options.on_closed(client->options.context, reason);
    }
}

static void fail_with(struct grpc_client *client, const char *what, const char *why) {
    char reason[GRPC_CLIENT_REASON_SIZE_MAX];
    snprintf(reason, sizeof reason, "%s %s: %s", client->authority, what, why);
    fail(client, reason);
}

void grpc_client_destroy(struct grpc_client *client) {
    if (client == NULL || client->destroyed) {
        return;
    }
    client->destroyed = true;
    client->state = GRPC_CLIENT_CLOSED;
    close_tcp(client);
    uv_close((uv_handle_t *)&client->prepare, on_handle_closed);
    uv_close((uv_handle_t *)&client->deadline_timer, on_handle_closed);
    uv_close((uv_handle_t *)&client->connect_timer, on_handle_closed);
    /* A running resolution cannot be cancelled; then its callback is the last user. */
    uv_cancel((uv_req_t *)&client->resolver);
}

bool grpc_client_is_closed(const struct grpc_client *client) {
    return client->state == GRPC_CLIENT_CLOSED;
}

bool grpc_client_is_ready(const struct grpc_client *client) {
    return client->settings_received && client->state == GRPC_CLIENT_CONNECTED;
}

size_t grpc_client_calls_open(const struct grpc_client *client) {
    return client->n_calls;
}

/* ---- bytes out --------------------------------------------------------------------------------
 */

static void on_written(uv_write_t *request, int result) {
    struct grpc_client *client = request->data;
    client->write_pending = false;
    client->out.size = 0;
    if (result < 0) {
        if (result != UV_ECANCELED) {
            fail_with(client, "was lost", uv_strerror(result));
        }
    } else {
        grpc_client_touch(client);
    }
    release(client);
}

static void flush(struct grpc_client *client) {
    while (!client->write_pending && client->state == GRPC_CLIENT_CONNECTED) {
        grpc_client_session_fill(client, &client->out);
        if (client->out.size == 0) {
            break;
        }
        uv_stream_t *stream = (uv_stream_t *)&client->tcp;
        uv_buf_t rest = uv_buf_init((char *)client->out.data, (unsigned)client->out.size);
        int written = uv_try_write(stream, &rest, 1);
        if (written == (int)client->out.size) {
            client->out.size = 0;
            continue;
        }
        if (written > 0) {
            rest.base += written;
            rest.len -= (size_t)written;
        } else if (written != UV_EAGAIN) {
            fail_with(client, "was lost", uv_strerror(written));
            return;
        }
        int result = uv_write(&client->write, stream, &rest, 1, on_written);
        if (result < 0) {
            fail_with(client, "was lost", uv_strerror(result));
            return;
        }
        client->write_pending = true;
        client->users++;
    }
}

static void close_when_done(struct grpc_client *client) {
    if (client->state == GRPC_CLIENT_CONNECTED && grpc_client_session_is_over(client)) {
        fail_with(client, "closed the connection", client->session.goaway_text);
    }
}

/* Once in a turn of the loop that has something to send, before it waits: all of it leaves
 * together. */
static void on_prepare(uv_prepare_t *handle) {
    struct grpc_client *client = handle->data;
    uv_prepare_stop(handle);
    grpc_client_recycle_calls(client);
    flush(client);
    if (!client->destroyed) {
        close_when_done(client);
    }
}

void grpc_client_touch(struct grpc_client *client) {
    if (!client->destroyed && !uv_is_active((uv_handle_t *)&client->prepare)) {
        uv_prepare_start(&client->prepare, on_prepare);
    }
}

/* ---- bytes in ---------------------------------------------------------------------------------
 */

static void on_allocate(uv_handle_t *handle, size_t suggested, uv_buf_t *out_buffer) {
    struct grpc_client *client = handle->data;
    (void)suggested;
    *out_buffer = uv_buf_init((char *)client->read_buffer, sizeof client->read_buffer);
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer) {
    struct grpc_client *client = stream->data;
    (void)buffer;
    if (client->state != GRPC_CLIENT_CONNECTED) {
        return;
    }
    if (size == UV_EOF) {
        fail_with(client, client->settings_received ? "closed the connection" : "does not answer",
                  client->settings_received ? "end of stream"
                                            : "it closed the connection before speaking HTTP/2");
        return;
    }
    if (size < 0) {
        fail_with(client, "was lost", uv_strerror((int)size));
        return;
    }
    if (!client->settings_received && size >= 5 && memcmp(client->read_buffer, "HTTP/", 5) == 0) {
        fail_with(client, "does not speak HTTP/2", "it answered with HTTP/1");
        return;
    }
    bool was_ready = client->settings_received;
    const char *error =
        grpc_client_session_receive(client, bytes_of(client->read_buffer, (size_t)size));
    if (error != NULL) {
        fail_with(client,
                  client->settings_received ? "broke the protocol" : "does not speak HTTP/2",
                  error);
        return;
    }
    if (!was_ready && client->settings_received && !client->destroyed) {
        uv_timer_stop(&client->connect_timer);
        if (client->options.on_ready != NULL) {
            client->options.on_ready(client->options.context);
        }
    }
    if (!client->destroyed) {
        close_when_done(client);
    }
}

/* ---- connecting -------------------------------------------------------------------------------
 */

static void on_connected(uv_connect_t *request, int result) {
    struct grpc_client *client = request->data;
    if (client->destroyed || client->state == GRPC_CLIENT_CLOSED) {
        release(client);
        return;
    }
    if (result == 0) {
        result = uv_read_start((uv_stream_t *)&client->tcp, on_allocate, on_read);
    }
    if (result == 0) {
        client->state = GRPC_CLIENT_CONNECTED;
        grpc_client_touch(client);
        uv_tcp_nodelay(&client->tcp, 1);
    } else {
        client->connect_error = result;
        connect_next(client);
    }
    release(client);
}

static void start_connect(struct grpc_client *client) {
    struct sockaddr *address = (struct sockaddr *)&client->addresses[client->next_address++];
    int result = uv_tcp_init(client->loop, &client->tcp);
    assert(result == 0); /* without an address family it opens nothing that could fail */
    client->tcp.data = client;
    client->tcp_live = true;
    client->users++;
    result = uv_tcp_connect(&client->connect, &client->tcp, address, on_connected);
    if (result == 0) {
        client->users++;
    } else {
        client->connect_error = result;
        connect_next(client);
    }
}

static void on_tcp_closed_for_retry(uv_handle_t *handle) {
    struct grpc_client *client = handle->data;
    if (client->state == GRPC_CLIENT_CONNECTING && !client->destroyed) {
        if (client->next_address < client->n_addresses) {
            start_connect(client);
        } else {
            fail_with(client, "cannot be reached", uv_strerror(client->connect_error));
        }
    }
    release(client);
}

/* Goes on in the handle's close callback, so that no failure is told from inside create. */
static void connect_next(struct grpc_client *client) {
    assert(client->tcp_live);
    client->tcp_live = false;
    uv_close((uv_handle_t *)&client->tcp, on_tcp_closed_for_retry);
}

static void on_resolved(uv_getaddrinfo_t *request, int result, struct addrinfo *found) {
    struct grpc_client *client = request->data;
    if (!client->destroyed && client->state == GRPC_CLIENT_CONNECTING) {
        for (struct addrinfo *each = found;
             each != NULL && client->n_addresses < GRPC_CLIENT_ADDRESSES_MAX;
             each = each->ai_next) {
            if (each->ai_addrlen <= sizeof client->addresses[0]) {
                memcpy(&client->addresses[client->n_addresses++], each->ai_addr, each->ai_addrlen);
            }
        }
        if (client->n_addresses == 0) {
            fail_with(client, "is not a known host",
                      result < 0 ? uv_strerror(result) : "no address");
        } else {
            start_connect(client);
        }
    }
    uv_freeaddrinfo(found);
    release(client);
}

static void on_connect_timeout(uv_timer_t *timer) {
    struct grpc_client *client = timer->data;
    if (client->state == GRPC_CLIENT_CONNECTING) {
        fail_with(client, "cannot be reached", "no connection within the time allowed");
    } else {
        fail_with(client, "does not answer", "it accepted the connection but sent no SETTINGS");
    }
}

/* Numeric addresses need no resolver and its threads, and neither does the one name that always
 * means this machine (RFC 6761, 6.3), which a minimal system may not even list. */
static int find_addresses(struct grpc_client *client) {
    struct sockaddr_storage *first = &client->addresses[0];
    if (strcmp(client->host, "localhost") == 0) {
        uv_ip4_addr("127.0.0.1", client->options.port, (struct sockaddr_in *)first);
        uv_ip6_addr("::1", client->options.port, (struct sockaddr_in6 *)&client->addresses[1]);
        client->n_addresses = 2;
        start_connect(client);
        return 0;
    }
    if (uv_ip4_addr(client->host, client->options.port, (struct sockaddr_in *)first) == 0 ||
        uv_ip6_addr(client->host, client->options.port, (struct sockaddr_in6 *)first) == 0) {
        client->n_addresses = 1;
        start_connect(client);
        return 0;
    }
    char port[8];
    snprintf(port, sizeof port, "%u", client->options.port);
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    int result =
        uv_getaddrinfo(client->loop, &client->resolver, on_resolved, client->host, port, &hints);
    if (result == 0) {
        client->users++;
    }
    return result;
}

/* ---- creation ---------------------------------------------------------------------------------
 */

static void init_handles(struct grpc_client *client) {
    /* These three cannot fail; only the socket is to keep the loop alive. */
    uv_prepare_init(client->loop, &client->prepare);
    uv_timer_init(client->loop, &client->deadline_timer);
    uv_timer_init(client->loop, &client->connect_timer);
    client->prepare.data = client;
    client->deadline_timer.data = client;
    client->connect_timer.data = client;
    client->connect.data = client;
    client->write.data = client;
    client->resolver.data = client;
    client->users = 3;
    uv_unref((uv_handle_t *)&client->prepare);
    uv_unref((uv_handle_t *)&client->deadline_timer);
    if (client->options.connect_timeout_ms > 0) {
        uv_update_time(client->loop);
        uv_timer_start(&client->connect_timer, on_connect_timeout,
                       client->options.connect_timeout_ms, 0);
    }
}

enum status grpc_client_create(uv_loop_t *loop, const struct grpc_client_options *options,
                               struct grpc_client **out_client) {
    if (strlen(options->host) >= GRPC_CLIENT_HOST_SIZE_MAX) {
        return STATUS_INVALID;
    }
    struct grpc_client *client = calloc(1, sizeof *client);
    if (client == NULL) {
        return STATUS_NO_MEMORY;
    }
    client->loop = loop;
    client->options = *options;
    memcpy(client->host, options->host, strlen(options->host) + 1);
    client->options.host = client->host;
    bool is_ip6 = strchr(client->host, ':') != NULL;
    snprintf(client->authority, sizeof client->authority, "%s%s%s:%u", is_ip6 ? "[" : "",
             client->host, is_ip6 ? "]" : "", options->port);
    list_init(&client->calls);
    list_init(&client->dead_calls);
    list_init(&client->idle_calls);
    list_init(&client->deadlines);
    buffer_init(&client->out);
    enum status status = grpc_client_session_init(client);
    if (status != STATUS_OK) {
        free(client);
        return status;
    }
    init_handles(client);
    if (find_addresses(client) < 0) {
        grpc_client_destroy(client);
        return STATUS_IO;
    }
    *out_client = client;
    return STATUS_OK;
}
