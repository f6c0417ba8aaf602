/*
 * A server and its clients in one thread: the tests turn the loop and the clients' sockets by hand
 * until what they wait for has happened. A client is an nghttp2 session on a plain socket.
 */
#ifndef LEASED_TESTS_NET_FIXTURE_H
#define LEASED_TESTS_NET_FIXTURE_H

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "net/grpc_framing.h"
#include "net/net_server.h"
#include "tls/tls_stream.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WAIT_MS_MAX = 10000, ANSWERS_MAX = 64 };

/* --- the server ---------------------------------------------------------------------------- */

struct fixture {
    uv_loop_t loop;
    struct net_server *server;
    uint16_t port;
    bool is_stopping;
    bool is_closed;
    /* What the doors saw. */
    unsigned n_opened;
    unsigned n_messages;
    unsigned n_prefetched; /* messages given to prefetch(), and again when they were near */
    unsigned n_near;
    unsigned n_half_closed;
    unsigned n_closed;
    unsigned n_writable;
    size_t flooded_bytes; /* what the flood method has sent */
    struct grpc_call *held;
    char metadata[64];
};

static inline struct fixture *fixture_of(struct grpc_call *call) {
    return grpc_call_context(call);
}

static inline void fixture_on_closed(void *data) {
    struct fixture *fixture = data;
    fixture->is_closed = true;
}

/* Turns the loop once without waiting. */
static inline void fixture_turn(struct fixture *fixture) {
    uv_run(&fixture->loop, UV_RUN_NOWAIT);
}

static inline void fixture_start(struct fixture *fixture, const struct net_limits *limits,
                                 const struct grpc_method *methods, size_t n_methods) {
    log_configure(LOG_ERROR, LOG_FORMAT_TEXT);
    *fixture = (struct fixture){0};
    assert_int_equal(uv_loop_init(&fixture->loop), 0);
    fixture->server = net_server_create(&fixture->loop, limits);
    net_server_add_methods(fixture->server, methods, n_methods, fixture);
    char error[256] = "";
    assert_int_equal(net_server_listen(fixture->server,
                                       &(struct net_listen_options){.host = "127.0.0.1"},
                                       &fixture->port, error, sizeof error),
                     STATUS_OK);
    assert_int_not_equal(fixture->port, 0);
}

static inline void fixture_shutdown(struct fixture *fixture, uint64_t grace_ms) {
    fixture->is_stopping = true;
    net_server_shutdown(fixture->server, grace_ms, fixture_on_closed, fixture);
}

/* Ends everything and checks that nothing is left. */
static inline void fixture_stop(struct fixture *fixture) {
    if (!fixture->is_stopping) {
        fixture_shutdown(fixture, 0);
    }
    uv_run(&fixture->loop, UV_RUN_DEFAULT);
    assert_true(fixture->is_closed);
    struct net_stats stats;
    net_server_stats(fixture->server, &stats);
    assert_int_equal(stats.connections, 0);
    assert_int_equal(stats.calls, 0);
    assert_int_equal(stats.queued_bytes, 0);
    net_server_destroy(fixture->server);
    assert_int_equal(uv_loop_close(&fixture->loop), 0);
}

static inline struct net_stats fixture_stats(const struct fixture *fixture) {
    struct net_stats stats;
    net_server_stats(fixture->server, &stats);
    return stats;
}

/* --- plain sockets ------------------------------------------------------------------------- */

static inline int raw_connect(const struct fixture *fixture) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons(fixture->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    int on = 1;
    assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), 0);
    return fd;
}

static inline void raw_send(int fd, const void *data, size_t size) {
    assert_int_equal(send(fd, data, size, MSG_NOSIGNAL), (ssize_t)size);
}

static inline void raw_send_text(int fd, const char *text) {
    raw_send(fd, text, strlen(text));
}

/* Reads what is there. False: the server closed the connection. */
static inline bool raw_read(int fd, struct buffer *out) {
    for (;;) {
        ssize_t size = recv(fd, buffer_reserve(out, 65536), 65536, 0);
        if (size > 0) {
            out->size += (size_t)size;
        } else {
            return size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
        }
    }
}

/* Turns until the server closed the connection, and appends all it sent before. */
static inline void raw_read_to_end(struct fixture *fixture, int fd, struct buffer *out) {
    uint64_t start_ms = clock_boottime_ms();
    while (raw_read(fd, out)) {
        assert_true(clock_boottime_ms() - start_ms < WAIT_MS_MAX);
        fixture_turn(fixture);
        poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 1);
    }
}

/* The same as a text of its own. */
static inline struct buffer raw_read_all(struct fixture *fixture, int fd) {
    struct buffer out;
    buffer_init(&out);
    raw_read_to_end(fixture, fd, &out);
    buffer_put_u8(&out, 0);
    return out;
}

/* --- HTTP/2 clients ------------------------------------------------------------------------ */

struct answer {
    int32_t stream_id;
    unsigned http_status;
    int grpc_status; /* -1: none came */
    char grpc_message[512];
    char content_type[64];
    char accept_encoding[64];
    char x_answer[64];
    char allow[64];
    bool got_continue;
    struct buffer body;
    bool is_closed;
    uint32_t error_code;
    struct buffer request;
    size_t request_sent;
    bool is_request_open; /* more may be added to the request */
    bool is_deferred;
};

struct client {
    struct fixture *fixture;
    int fd;
    nghttp2_session *session;
    struct answer answers[ANSWERS_MAX];
    size_t n_answers;
    bool is_closed; /* by the server */
    bool is_deaf;   /* reads nothing from its socket */
    bool got_goaway;
    uint32_t goaway_code;
    unsigned n_pings; /* from the server, not answers */
    struct buffer unsent;
    size_t unsent_taken;
    struct tls_stream *tls; /* NULL: plain text */
};

static inline struct answer *client_answer(struct client *client, int32_t stream_id) {
    for (size_t i = 0; i < client->n_answers; i++) {
        if (client->answers[i].stream_id == stream_id) {
            return &client->answers[i];
        }
    }
    return NULL;
}

static inline void client_keep(char *out, size_t size, const uint8_t *value, size_t value_size) {
    assert_true(value_size < size);
    memcpy(out, value, value_size);
    out[value_size] = 0;
}

static inline int client_on_header(nghttp2_session *session, const nghttp2_frame *frame,
                                   const uint8_t *name, size_t name_size, const uint8_t *value,
                                   size_t value_size, uint8_t flags, void *user_data) {
    (void)session;
    (void)flags;
    struct answer *answer = client_answer(user_data, frame->hd.stream_id);
    assert_non_null(answer);
    struct bytes header = bytes_of(name, name_size);
    if (bytes_equal(header, bytes_from_text(":status"))) {
        answer->http_status = (unsigned)atoi((const char *)value);
        answer->got_continue = answer->got_continue || answer->http_status == 100;
    } else if (bytes_equal(header, bytes_from_text("grpc-status"))) {
        answer->grpc_status = atoi((const char *)value);
    } else if (bytes_equal(header, bytes_from_text("grpc-message"))) {
        client_keep(answer->grpc_message, sizeof answer->grpc_message, value, value_size);
    } else if (bytes_equal(header, bytes_from_text("content-type"))) {
        client_keep(answer->content_type, sizeof answer->content_type, value, value_size);
    } else if (bytes_equal(header, bytes_from_text("grpc-accept-encoding"))) {
        client_keep(answer->accept_encoding, sizeof answer->accept_encoding, value, value_size);
    } else if (bytes_equal(header, bytes_from_text("x-answer"))) {
        client_keep(answer->x_answer, sizeof answer->x_answer, value, value_size);
    } else if (bytes_equal(header, bytes_from_text("allow"))) {
        client_keep(answer->allow, sizeof answer->allow, value, value_size);
    }
    return 0;
}

static inline int client_on_chunk(nghttp2_session *session, uint8_t flags, int32_t stream_id,
                                  const uint8_t *data, size_t size, void *user_data) {
    (void)session;
    (void)flags;
    struct answer *answer = client_answer(user_data, stream_id);
    assert_non_null(answer);
    buffer_append(&answer->body, data, size);
    return 0;
}

static inline int client_on_close(nghttp2_session *session, int32_t stream_id, uint32_t error_code,
                                  void *user_data) {
    (void)session;
    struct answer *answer = client_answer(user_data, stream_id);
    if (answer != NULL) {
        answer->is_closed = true;
        answer->error_code = error_code;
    }
    return 0;
}

static inline int client_on_frame(nghttp2_session *session, const nghttp2_frame *frame,
                                  void *user_data) {
    (void)session;
    struct client *client = user_data;
    if (frame->hd.type == NGHTTP2_GOAWAY) {
        client->got_goaway = true;
        client->goaway_code = frame->goaway.error_code;
    } else if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK) == 0) {
        client->n_pings++;
    }
    return 0;
}

static inline ssize_t client_read_request(nghttp2_session *session, int32_t stream_id,
                                          uint8_t *buffer, size_t length, uint32_t *data_flags,
                                          nghttp2_data_source *source, void *user_data) {
    (void)session;
    (void)source;
    struct answer *answer = client_answer(user_data, stream_id);
    size_t left = answer->request.size - answer->request_sent;
    if (left == 0 && answer->is_request_open) {
        answer->is_deferred = true;
        return NGHTTP2_ERR_DEFERRED;
    }
    size_t size = left < length ? left : length;
    if (size > 0) {
        memcpy(buffer, answer->request.data + answer->request_sent, size);
    }
    answer->request_sent += size;
    if (size == left && !answer->is_request_open) {
        *data_flags |= NGHTTP2_DATA_FLAG_EOF;
    }
    return (ssize_t)size;
}

static inline void client_open_on(struct client *client, struct fixture *fixture, int fd,
                                  uint32_t window_size) {
    *client = (struct client){.fixture = fixture, .fd = fd};
    nghttp2_session_callbacks *callbacks = NULL;
    assert_int_equal(nghttp2_session_callbacks_new(&callbacks), 0);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, client_on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, client_on_chunk);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, client_on_close);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, client_on_frame);
    nghttp2_option *option = NULL;
    assert_int_equal(nghttp2_option_new(&option), 0);
    /* A test that withholds windows must not be helped by the library. */
    nghttp2_option_set_no_auto_window_update(option, window_size < 65535);
    assert_int_equal(nghttp2_session_client_new2(&client->session, callbacks, client, option), 0);
    nghttp2_option_del(option);
    nghttp2_session_callbacks_del(callbacks);
    const nghttp2_settings_entry settings[] = {{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window_size}};
    assert_int_equal(nghttp2_submit_settings(client->session, NGHTTP2_FLAG_NONE, settings, 1), 0);
}

static inline void client_open_with_window(struct client *client, struct fixture *fixture,
                                           uint32_t window_size) {
    client_open_on(client, fixture, raw_connect(fixture), window_size);
}

static inline void client_open(struct client *client, struct fixture *fixture) {
    client_open_with_window(client, fixture, 65535);
}

static inline void client_close(struct client *client) {
    for (size_t i = 0; i < client->n_answers; i++) {
        buffer_clear(&client->answers[i].body);
        buffer_clear(&client->answers[i].request);
    }
    buffer_clear(&client->unsent);
    tls_stream_destroy(client->tls);
    nghttp2_session_del(client->session);
    close(client->fd);
}

/* The next bytes for the socket; none: there is nothing to send now. */
static inline void client_produce(struct client *client, struct buffer *unsent) {
    const uint8_t *data = NULL;
    ssize_t size = 0;
    if (client->tls == NULL || tls_stream_state(client->tls) == TLS_OPEN) {
        size = nghttp2_session_mem_send(client->session, &data);
        assert_true(size >= 0);
    }
    if (client->tls == NULL) {
        buffer_append(unsent, data, (size_t)size);
        return;
    }
    if (size > 0) {
        tls_stream_write(client->tls, bytes_of(data, (size_t)size));
    }
    struct buffer *output = tls_stream_output(client->tls);
    buffer_append(unsent, output->data, output->size);
    output->size = 0;
}

static inline void client_write(struct client *client) {
    struct buffer *unsent = &client->unsent;
    for (;;) {
        if (client->unsent_taken == unsent->size) {
            unsent->size = 0;
            client->unsent_taken = 0;
            client_produce(client, unsent);
            if (unsent->size == 0) {
                return;
            }
        }
        ssize_t sent = send(client->fd, unsent->data + client->unsent_taken,
                            unsent->size - client->unsent_taken, MSG_NOSIGNAL);
        if (sent <= 0) {
            return;
        }
        client->unsent_taken += (size_t)sent;
    }
}

static inline void client_read(struct client *client) {
    if (client->is_deaf || client->is_closed) {
        return;
    }
    struct buffer in;
    buffer_init(&in);
    client->is_closed = !raw_read(client->fd, &in);
    if (client->tls != NULL) {
        struct buffer ciphertext = in;
        buffer_init(&in);
        tls_stream_feed(client->tls, bytes_of(ciphertext.data, ciphertext.size), &in);
        buffer_clear(&ciphertext);
    }
    if (in.size > 0) {
        assert_int_equal(nghttp2_session_mem_recv(client->session, in.data, in.size),
                         (ssize_t)in.size);
    }
    buffer_clear(&in);
}

/* One turn of the client and of the server. */
static inline void client_turn(struct client *client) {
    client_write(client);
    fixture_turn(client->fixture);
    client_read(client);
}

/* Turns until `condition` holds; each turn is short, so that timers of the server come due. */
#define client_wait(client, condition)                                                             \
    do {                                                                                           \
        uint64_t wait_start_ms_ = clock_boottime_ms();                                             \
        while (!(condition)) {                                                                     \
            client_turn(client);                                                                   \
            if (clock_boottime_ms() - wait_start_ms_ > WAIT_MS_MAX) {                              \
                fail_msg("waited in vain for: %s", #condition);                                    \
            }                                                                                      \
            if (!(condition)) {                                                                    \
                poll(&(struct pollfd){.fd = (client)->fd, .events = POLLIN},                       \
                     (client)->is_deaf ? 0 : 1, 1);                                                \
            }                                                                                      \
        }                                                                                          \
    } while (0)

#define NV(header_name, header_value)                                                              \
    ((nghttp2_nv){.name = (uint8_t *)(header_name),                                                \
                  .value = (uint8_t *)(header_value),                                              \
                  .namelen = strlen(header_name),                                                  \
                  .valuelen = strlen(header_value)})

/* Starts a request; `request` is the raw body. `extra` may be NULL. */
static inline struct answer *client_request(struct client *client, const char *method,
                                            const char *path, const char *content_type,
                                            const nghttp2_nv *extra, struct bytes request,
                                            bool is_open) {
    assert_true(client->n_answers < ANSWERS_MAX);
    struct answer *answer = &client->answers[client->n_answers++];
    *answer = (struct answer){.grpc_status = -1, .is_request_open = is_open};
    buffer_append(&answer->request, request.data, request.size);
    nghttp2_nv headers[6] = {NV(":method", method), NV(":scheme", "http"), NV(":path", path),
                             NV(":authority", "test")};
    size_t n = 4;
    if (content_type != NULL) {
        headers[n++] = NV("content-type", content_type);
    }
    if (extra != NULL) {
        headers[n++] = *extra;
    }
    nghttp2_data_provider body = {.read_callback = client_read_request};
    bool has_body = request.size > 0 || is_open;
    answer->stream_id =
        nghttp2_submit_request(client->session, NULL, headers, n, has_body ? &body : NULL, NULL);
    assert_true(answer->stream_id > 0);
    return answer;
}

static inline void framed_append(struct buffer *out, struct bytes message) {
    uint8_t prefix[GRPC_PREFIX_SIZE];
    grpc_framing_write_prefix(prefix, (uint32_t)message.size);
    buffer_append(out, prefix, sizeof prefix);
    buffer_append(out, message.data, message.size);
}

/* A call with one message. */
static inline struct answer *client_call(struct client *client, const char *path,
                                         struct bytes message, const nghttp2_nv *extra,
                                         bool is_open) {
    struct buffer framed;
    buffer_init(&framed);
    framed_append(&framed, message);
    struct answer *answer = client_request(client, "POST", path, "application/grpc", extra,
                                           bytes_of(framed.data, framed.size), is_open);
    buffer_clear(&framed);
    return answer;
}

/* More of an open request. */
static inline void client_send(struct client *client, struct answer *answer, struct bytes bytes,
                               bool is_open) {
    buffer_append(&answer->request, bytes.data, bytes.size);
    answer->is_request_open = is_open;
    if (answer->is_deferred) {
        answer->is_deferred = false;
        assert_int_equal(nghttp2_session_resume_data(client->session, answer->stream_id), 0);
    }
}

/* The body is exactly these messages. */
static inline void assert_body_is(const struct answer *answer, struct bytes message,
                                  size_t n_messages) {
    assert_int_equal(answer->body.size, n_messages * (GRPC_PREFIX_SIZE + message.size));
    struct grpc_framing framing;
    grpc_framing_init(&framing);
    struct bytes input = bytes_of(answer->body.data, answer->body.size);
    for (size_t i = 0; i < n_messages; i++) {
        struct bytes got;
        assert_int_equal(grpc_framing_next(&framing, SIZE_MAX, &input, &got), GRPC_FRAMING_MESSAGE);
        assert_true(bytes_equal(got, message));
    }
    grpc_framing_clear(&framing);
}

#endif
