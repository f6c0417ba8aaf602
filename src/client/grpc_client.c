#include "client/grpc_client.h"
#include "client/grpc_client_internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- life and death ------------------------------------------------------------------------- */

void grpc_client_release(struct grpc_client *client) {
    assert(client->users > 0);
    client->users--;
    if (client->users > 0 || !client->destroyed) {
        return;
    }
    grpc_client_session_clear(client);
    grpc_client_free_calls(client);
    tls_stream_destroy(client->tls);
    buffer_clear(&client->frames);
    buffer_clear(&client->out);
    free(client);
}

static void on_handle_closed(uv_handle_t *handle) {
    grpc_client_release(handle->data);
}

const char *grpc_client_place(const struct grpc_client *client) {
    return client->options.socket_path != NULL ? client->socket_path : client->authority;
}

void grpc_client_fail_with_text(struct grpc_client *client, const char *reason) {
    if (client->state == GRPC_CLIENT_CLOSED || client->destroyed) {
        return;
    }
    client->state = GRPC_CLIENT_CLOSED;
    uv_timer_stop(&client->connect_timer);
    uv_timer_stop(&client->deadline_timer);
    grpc_client_socket_close(client);
    grpc_client_end_calls(client, GRPC_UNAVAILABLE, reason);
    if (!client->destroyed && client->options.on_closed != NULL) {
        client->options.on_closed(client->options.context, reason);
    }
}

void grpc_client_fail(struct grpc_client *client, const char *what, const char *why) {
    char reason[GRPC_CLIENT_REASON_SIZE_MAX];
    snprintf(reason, sizeof reason, "%s %s: %s", grpc_client_place(client), what, why);
    grpc_client_fail_with_text(client, reason);
}

void grpc_client_destroy(struct grpc_client *client) {
    if (client == NULL || client->destroyed) {
        return;
    }
    if (client->tls != NULL) {
        grpc_client_tls_end(client);
    }
    client->destroyed = true;
    client->state = GRPC_CLIENT_CLOSED;
    grpc_client_socket_close(client);
    uv_close((uv_handle_t *)&client->prepare, on_handle_closed);
    uv_close((uv_handle_t *)&client->deadline_timer, on_handle_closed);
    uv_close((uv_handle_t *)&client->connect_timer, on_handle_closed);
    /* A running resolution cannot be cancelled; then its callback is the last user. */
    uv_cancel((uv_req_t *)&client->resolver);
}

bool grpc_client_set_token(struct grpc_client *client, const char *token) {
    return client->session.codec != NULL && header_codec_set_token(client->session.codec, token);
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
            grpc_client_fail(client, "was lost", uv_strerror(result));
        }
    } else {
        grpc_client_touch(client);
    }
    grpc_client_release(client);
}

static void fill(struct grpc_client *client) {
    if (client->tls != NULL) {
        grpc_client_tls_fill(client, &client->out);
    } else {
        grpc_client_session_fill(client, &client->out);
    }
}

static void flush(struct grpc_client *client) {
    while (!client->write_pending && client->state == GRPC_CLIENT_CONNECTED) {
        fill(client);
        if (client->out.size == 0) {
            break;
        }
        uv_stream_t *stream = &client->socket.stream;
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
            grpc_client_fail(client, "was lost", uv_strerror(written));
            return;
        }
        int result = uv_write(&client->write, stream, &rest, 1, on_written);
        if (result < 0) {
            grpc_client_fail(client, "was lost", uv_strerror(result));
            return;
        }
        client->write_pending = true;
        client->users++;
    }
}

static void close_when_done(struct grpc_client *client) {
    if (client->state == GRPC_CLIENT_CONNECTED && grpc_client_session_is_over(client)) {
        grpc_client_fail(client, "closed the connection", client->session.goaway_text);
    }
}

/* Once in an iteration that has something to send, before the loop waits: all of it leaves
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

/* Before its SETTINGS a server may show by its first bytes that it speaks something else. */
static const char *misfit(const struct grpc_client *client, struct bytes bytes) {
    static const char http1[] = "HTTP/";
    static const char https_hint[] = "HTTPS";
    static const char tls_hint[] = "TLS";
    bool is_http1 =
        bytes.size >= sizeof http1 - 1 && memcmp(bytes.data, http1, sizeof http1 - 1) == 0;
    if (client->settings_received) {
        return NULL;
    }
    /* A TLS alert (RFC 8446, section 5.1), or a refusal in HTTP/1 that says so. */
    bool is_tls =
        client->tls == NULL &&
        ((bytes.size > 1 && bytes.data[0] == 0x15 && bytes.data[1] == 3) ||
         (is_http1 && (memmem(bytes.data, bytes.size, https_hint, sizeof https_hint - 1) != NULL ||
                       memmem(bytes.data, bytes.size, tls_hint, sizeof tls_hint - 1) != NULL)));
    return is_tls ? "it speaks TLS; use https://" : is_http1 ? "it answered with HTTP/1" : NULL;
}

static void receive(struct grpc_client *client, struct bytes bytes) {
    bool was_ready = client->settings_received;
    const char *error = misfit(client, bytes);
    if (error == NULL) {
        error = grpc_client_session_receive(client, bytes);
    }
    if (error != NULL) {
        grpc_client_fail(client,
                         client->settings_received ? "broke the protocol" : "does not speak HTTP/2",
                         error);
        return;
    }
    /* A server that refuses us may say so in the same breath as its SETTINGS. */
    bool is_over = !client->destroyed && grpc_client_session_is_over(client);
    if (!was_ready && client->settings_received && !client->destroyed && !is_over) {
        uv_timer_stop(&client->connect_timer);
        if (client->options.on_ready != NULL) {
            client->options.on_ready(client->options.context);
        }
    }
    if (!client->destroyed) {
        close_when_done(client);
    }
}

/* The plaintext lives on no connection: ten thousand idle ones would hold a buffer each. */
static void receive_tls(struct grpc_client *client, struct bytes bytes) {
    struct buffer plaintext;
    buffer_init(&plaintext);
    grpc_client_tls_receive(client, bytes, &plaintext);
    if (plaintext.size > 0) {
        receive(client, bytes_of(plaintext.data, plaintext.size));
    }
    grpc_client_tls_settle(client);
    grpc_client_touch(client);
    buffer_clear(&plaintext);
}

static void on_end_of_stream(struct grpc_client *client) {
    if (client->tls != NULL && !client->settings_received) {
        grpc_client_tls_receive_end(client);
    } else if (client->settings_received) {
        grpc_client_fail(client, "closed the connection", "end of stream");
    } else {
        grpc_client_fail(client, "does not answer",
                         "it closed the connection before speaking HTTP/2; if it speaks TLS, use "
                         "https://");
    }
}

/* A server that closes before it has read everything resets the connection: before the protocol is
 * agreed on, that is how one ends that speaks another. */
static bool is_end_of_stream(const struct grpc_client *client, ssize_t size) {
    return size == UV_EOF || (size == UV_ECONNRESET && !client->settings_received);
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer) {
    struct grpc_client *client = stream->data;
    struct bytes bytes = bytes_of(client->read_buffer, size > 0 ? (size_t)size : 0);
    (void)buffer;
    if (client->state != GRPC_CLIENT_CONNECTED) {
        return;
    }
    if (is_end_of_stream(client, size)) {
        on_end_of_stream(client);
    } else if (size < 0) {
        grpc_client_fail(client, "was lost", uv_strerror((int)size));
    } else if (client->tls != NULL) {
        receive_tls(client, bytes);
    } else {
        receive(client, bytes);
    }
}

int grpc_client_on_connected(struct grpc_client *client) {
    int result = uv_read_start(&client->socket.stream, on_allocate, on_read);
    if (result == 0) {
        client->state = GRPC_CLIENT_CONNECTED;
        grpc_client_touch(client);
    }
    return result;
}

static void on_connect_timeout(uv_timer_t *timer) {
    struct grpc_client *client = timer->data;
    if (client->state == GRPC_CLIENT_CONNECTING) {
        grpc_client_fail(client, "cannot be reached", "no connection within the time allowed");
    } else if (client->tls != NULL && !grpc_client_tls_is_open(client)) {
        grpc_client_fail(client, "does not answer",
                         "it accepted the connection but does not answer in TLS; if it does not "
                         "speak TLS, use http://");
    } else {
        grpc_client_fail(client, "does not answer",
                         "it accepted the connection but sent no SETTINGS");
    }
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

/* Copies where the server is. False: too long. */
static bool take_place(struct grpc_client *client, const struct grpc_client_options *options) {
    client->options = *options;
    if (options->socket_path != NULL) {
        size_t size = strlen(options->socket_path);
        memcpy(client->host, "localhost", sizeof "localhost");
        memcpy(client->authority, "localhost", sizeof "localhost");
        if (size == 0 || size >= sizeof client->socket_path) {
            return false;
        }
        memcpy(client->socket_path, options->socket_path, size + 1);
        client->options.socket_path = client->socket_path;
    } else {
        if (strlen(options->host) >= GRPC_CLIENT_HOST_SIZE_MAX) {
            return false;
        }
        memcpy(client->host, options->host, strlen(options->host) + 1);
        bool is_ip6 = strchr(client->host, ':') != NULL;
        snprintf(client->authority, sizeof client->authority, "%s%s%s:%u", is_ip6 ? "[" : "",
                 client->host, is_ip6 ? "]" : "", options->port);
    }
    client->options.host = client->host;
    return options->tls == NULL || grpc_client_tls_begin(client);
}

enum status grpc_client_create(uv_loop_t *loop, const struct grpc_client_options *options,
                               struct grpc_client **out_client) {
    struct grpc_client *client = calloc(1, sizeof *client);
    if (client == NULL) {
        return STATUS_NO_MEMORY;
    }
    client->loop = loop;
    list_init(&client->calls);
    list_init(&client->dead_calls);
    list_init(&client->idle_calls);
    list_init(&client->deadlines);
    buffer_init(&client->frames);
    buffer_init(&client->out);
    if (!take_place(client, options)) {
        free(client);
        return STATUS_INVALID;
    }
    enum status status = grpc_client_session_init(client);
    if (status != STATUS_OK) {
        tls_stream_destroy(client->tls);
        free(client);
        return status;
    }
    init_handles(client);
    if (grpc_client_socket_open(client) < 0) {
        grpc_client_destroy(client);
        return STATUS_IO;
    }
    *out_client = client;
    return STATUS_OK;
}
