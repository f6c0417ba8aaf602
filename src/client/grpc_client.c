#include "client/grpc_client.h"
#include "client/grpc_client_internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Wide windows: the answer to one range or watch may be many megabytes and is consumed at once. */
#define STREAM_WINDOW_SIZE (4 * 1024 * 1024)
#define CONNECTION_WINDOW_SIZE (64 * 1024 * 1024)
#define REASON_SIZE_MAX 512

static void connect_next(struct grpc_client *client);

/* ---- life and death ------------------------------------------------------------------------- */

static void release(struct grpc_client *client) {
    assert(client->users > 0);
    client->users--;
    if (client->users > 0 || !client->destroyed) {
        return;
    }
    nghttp2_session_del(client->session);
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
    uv_prepare_stop(&client->prepare);
    close_tcp(client);
    grpc_client_end_calls(client, GRPC_UNAVAILABLE, reason);
    if (!client->destroyed && client->options.on_closed != NULL) {
        client->options.on_closed(client->options.context, reason);
    }
}

static void fail_with(struct grpc_client *client, const char *what, const char *why) {
    char reason[REASON_SIZE_MAX];
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
        client->dirty = true;
    }
    release(client);
}

/* Serialises frames until there are none left or the buffer is full enough for one write. */
static bool fill_out(struct grpc_client *client) {
    while (client->out.size < GRPC_CLIENT_WRITE_SIZE) {
        const uint8_t *data;
        ssize_t size = nghttp2_session_mem_send(client->session, &data);
        if (size < 0) {
            fail_with(client, "could not be written to", nghttp2_strerror((int)size));
            return false;
        }
        if (size == 0) {
            break;
        }
        buffer_append(&client->out, data, (size_t)size);
    }
    return true;
}

static void flush(struct grpc_client *client) {
    while (!client->write_pending && client->state == GRPC_CLIENT_CONNECTED) {
        if (!fill_out(client)) {
            return;
        }
        /* Serialising may close a stream, and its owner may then have destroyed us. */
        if (client->destroyed || client->out.size == 0) {
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
    if (client->state != GRPC_CLIENT_CONNECTED || nghttp2_session_want_read(client->session) ||
        nghttp2_session_want_write(client->session)) {
        return;
    }
    if (!client->settings_received) {
        fail_with(client, "does not speak HTTP/2", "is this a gRPC port without TLS?");
    } else {
        fail_with(client, "closed the connection",
                  client->goaway_text[0] != 0 ? client->goaway_text : "end of session");
    }
}

/* Once per turn of the loop, before it waits: all that the turn submitted leaves together. */
static void on_prepare(uv_prepare_t *handle) {
    struct grpc_client *client = handle->data;
    if (client->dirty && client->state == GRPC_CLIENT_CONNECTED) {
        client->dirty = false;
        flush(client);
        close_when_done(client);
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
    ssize_t used = nghttp2_session_mem_recv(client->session, client->read_buffer, (size_t)size);
    if (used < 0) {
        fail_with(client,
                  client->settings_received ? "broke the protocol" : "does not speak HTTP/2",
                  nghttp2_strerror((int)used));
        return;
    }
    client->dirty = true;
    if (!was_ready && client->settings_received && !client->destroyed) {
        uv_timer_stop(&client->connect_timer);
        if (client->options.on_ready != NULL) {
            client->options.on_ready(client->options.context);
        }
    }
    close_when_done(client);
}

static int on_frame_recv(nghttp2_session *session, const nghttp2_frame *frame, void *user_data) {
    struct grpc_client *client = user_data;
    (void)session;
    if (frame->hd.type == NGHTTP2_SETTINGS && (frame->hd.flags & NGHTTP2_FLAG_ACK) == 0) {
        client->settings_received = true;
    }
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        snprintf(client->goaway_text, sizeof client->goaway_text, "%s",
                 nghttp2_http2_strerror(frame->goaway.error_code));
    }
    return 0;
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
        client->dirty = true;
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

static enum status create_session(struct grpc_client *client) {
    nghttp2_session_callbacks *callbacks;
    if (nghttp2_session_callbacks_new(&callbacks) != 0) {
        return STATUS_NO_MEMORY;
    }
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame_recv);
    grpc_client_call_register(callbacks);
    int result = nghttp2_session_client_new(&client->session, callbacks, client);
    nghttp2_session_callbacks_del(callbacks);
    if (result != 0) {
        return STATUS_NO_MEMORY;
    }
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW_SIZE},
    };
    if (nghttp2_submit_settings(client->session, NGHTTP2_FLAG_NONE, settings, 2) != 0 ||
        nghttp2_session_set_local_window_size(client->session, NGHTTP2_FLAG_NONE, 0,
                                              CONNECTION_WINDOW_SIZE) != 0) {
        nghttp2_session_del(client->session);
        return STATUS_NO_MEMORY;
    }
    return STATUS_OK;
}

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
    uv_prepare_start(&client->prepare, on_prepare);
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
    int size = snprintf(client->authority, sizeof client->authority, "%s%s%s:%u", is_ip6 ? "[" : "",
                        client->host, is_ip6 ? "]" : "", options->port);
    client->authority_size = (size_t)size;
    list_init(&client->calls);
    list_init(&client->idle_calls);
    list_init(&client->deadlines);
    buffer_init(&client->out);
    enum status status = create_session(client);
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
