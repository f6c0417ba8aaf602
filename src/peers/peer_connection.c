#include "peers/peer_connection.h"

#include <assert.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

enum {
    /* libuv reads this up to 32 times before others have their turn. */
    PEER_READ_SIZE = 32 * 1024,
    /* An empty buffer larger than this is freed. */
    PEER_BUFFER_KEPT_MAX = 1024 * 1024,
    /* A connection on which nothing is sent is probed after so long. */
    PEER_PROBE_AFTER_S = 2,
    PEER_PROBE_EVERY_S = 1,
    PEER_PROBES_MAX = 2
};

struct peer_connection {
    union peer_socket socket;
    struct peer_pool *pool;
    const struct peer_connection_events *events;
    void *owner;
    struct tls_stream *tls;
    struct buffer received; /* and not used yet */
    size_t unused_size_max;
    struct buffer gathered; /* plain text, to be sent */
    struct buffer flying;   /* being written; ciphertext with TLS */
    uv_connect_t connect;
    uv_write_t write;
    bool is_begun; /* connected */
    bool is_ready; /* and TLS is agreed on */
    bool has_received;
    bool is_writing;
    bool is_flush_wanted;
    bool is_finishing;
    bool is_finished;
    bool is_closed;
};

void peer_pool_init(struct peer_pool *pool, uv_loop_t *loop, void (*gone)(void *data), void *data) {
    *pool = (struct peer_pool){.loop = loop, .handles = {.gone = gone, .data = data}};
    buffer_init(&pool->plaintext);
    pool->read_buffer = malloc(PEER_READ_SIZE);
    if (pool->read_buffer == NULL) {
        abort();
    }
}

void peer_pool_clear(struct peer_pool *pool) {
    free(pool->read_buffer);
    buffer_clear(&pool->plaintext);
}

/* --- The end. --- */

static void socket_closed(uv_handle_t *handle) {
    struct peer_connection *connection = handle->data;
    struct peer_pool *pool = connection->pool;
    tls_stream_destroy(connection->tls);
    buffer_clear(&connection->received);
    buffer_clear(&connection->gathered);
    buffer_clear(&connection->flying);
    free(connection);
    peer_handles_remove(&pool->handles);
}

/* An alert or a goodbye: sent if it can be sent at once. */
static void send_last_words(struct peer_connection *connection) {
    if (connection->tls == NULL || connection->is_writing || !connection->is_begun) {
        return;
    }
    struct buffer *output = tls_stream_output(connection->tls);
    uv_buf_t buffer = uv_buf_init((char *)output->data, (unsigned)output->size);
    if (output->size > 0) {
        (void)uv_try_write(&connection->socket.stream, &buffer, 1);
    }
}

void peer_connection_close(struct peer_connection *connection) {
    if (connection->is_closed) {
        return;
    }
    connection->is_closed = true;
    connection->events = NULL;
    if (connection->is_ready && connection->tls != NULL) {
        tls_stream_end(connection->tls);
    }
    send_last_words(connection);
    uv_close(&connection->socket.handle, socket_closed);
}

static void end(struct peer_connection *connection, const char *reason) {
    const struct peer_connection_events *events = connection->events;
    void *owner = connection->owner;
    if (!connection->is_closed) {
        peer_connection_close(connection);
        events->ended(owner, reason);
    }
}

/* --- Out. --- */

static void send_next(struct peer_connection *connection);

static void forget_if_large(struct buffer *buffer) {
    if (buffer->size == 0 && buffer->capacity > PEER_BUFFER_KEPT_MAX) {
        buffer_clear(buffer);
    }
}

static void written(uv_write_t *write, int status) {
    struct peer_connection *connection = write->data;
    connection->is_writing = false;
    connection->flying.size = 0;
    if (connection->is_closed) {
        return;
    }
    if (status != 0) {
        end(connection, uv_strerror(status));
        return;
    }
    forget_if_large(&connection->flying);
    send_next(connection);
}

static void swap(struct buffer *a, struct buffer *b) {
    struct buffer other = *a;
    *a = *b;
    *b = other;
}

/* Moves what may be sent to `flying`. */
static void load(struct peer_connection *connection) {
    bool has_plaintext = connection->is_flush_wanted && connection->gathered.size > 0;
    connection->is_flush_wanted = false;
    if (connection->tls == NULL) {
        if (has_plaintext) {
            swap(&connection->gathered, &connection->flying);
        }
        return;
    }
    if (has_plaintext) {
        tls_stream_write(connection->tls,
                         bytes_of(connection->gathered.data, connection->gathered.size));
        connection->gathered.size = 0;
        forget_if_large(&connection->gathered);
    }
    swap(tls_stream_output(connection->tls), &connection->flying);
}

static void send_end(struct peer_connection *connection) {
    uv_os_fd_t fd;
    connection->is_finished = true;
    if (connection->tls != NULL) {
        tls_stream_end(connection->tls);
        send_last_words(connection);
    }
    if (uv_fileno(&connection->socket.handle, &fd) == 0) {
        (void)shutdown(fd, SHUT_WR);
    }
}

/* Never calls the owner: errors come with the callback. */
static void send_next(struct peer_connection *connection) {
    if (connection->is_writing || connection->is_finished) {
        return;
    }
    load(connection);
    if (connection->flying.size == 0) {
        if (connection->is_finishing) {
            send_end(connection);
        }
        return;
    }
    assert(connection->flying.size <= UINT32_MAX);
    uv_buf_t buffer =
        uv_buf_init((char *)connection->flying.data, (unsigned)connection->flying.size);
    connection->write.data = connection;
    /* Fails at once only when the handle is no longer a connection; reading tells that too. */
    connection->is_writing =
        uv_write(&connection->write, &connection->socket.stream, &buffer, 1, written) == 0;
    if (!connection->is_writing) {
        connection->flying.size = 0;
    }
}

struct buffer *peer_connection_queue(struct peer_connection *connection) {
    assert(connection->is_ready);
    assert(!connection->is_finishing);
    return &connection->gathered;
}

void peer_connection_flush(struct peer_connection *connection) {
    if (connection->gathered.size > 0 && !connection->is_closed) {
        connection->is_flush_wanted = true;
        send_next(connection);
    }
}

size_t peer_connection_queued(const struct peer_connection *connection) {
    return connection->gathered.size + connection->flying.size;
}

void peer_connection_finish(struct peer_connection *connection) {
    connection->is_finishing = true;
    connection->is_flush_wanted = true;
    send_next(connection);
}

/* --- In. --- */

static size_t offer(struct peer_connection *connection, struct bytes bytes) {
    if (connection->is_finishing) {
        return bytes.size;
    }
    size_t used = connection->events->received(connection->owner, bytes);
    assert(used <= bytes.size);
    return used;
}

/* Offers what was kept and what came, and keeps what is not used. */
static void deliver(struct peer_connection *connection, struct bytes bytes) {
    struct buffer *received = &connection->received;
    if (received->size > 0) {
        buffer_append(received, bytes.data, bytes.size);
        size_t used = offer(connection, bytes_of(received->data, received->size));
        /* Nothing is moved while a large frame is not whole. */
        if (!connection->is_closed && used > 0) {
            memmove(received->data, received->data + used, received->size - used);
            received->size -= used;
        }
    } else {
        size_t used = offer(connection, bytes);
        if (!connection->is_closed) {
            buffer_append(received, bytes.data + used, bytes.size - used);
        }
    }
    if (connection->is_closed) {
        return;
    }
    forget_if_large(received);
    if (received->size > connection->unused_size_max) {
        end(connection, "it sent more than it may");
    }
}

static void become_ready(struct peer_connection *connection) {
    connection->is_ready = true;
    connection->events->ready(connection->owner);
}

static void deliver_tls(struct peer_connection *connection, struct bytes ciphertext) {
    struct buffer *plaintext = &connection->pool->plaintext;
    plaintext->size = 0;
    enum tls_state state = tls_stream_feed(connection->tls, ciphertext, plaintext);
    bool was_ready = connection->is_ready;
    if (!was_ready && state != TLS_HANDSHAKE && state != TLS_FAILED) {
        become_ready(connection);
    }
    if (plaintext->size > 0 && !connection->is_closed && connection->is_ready) {
        deliver(connection, bytes_of(plaintext->data, plaintext->size));
    }
    if (connection->is_closed) {
        return;
    }
    if (state == TLS_FAILED || state == TLS_ENDED) {
        end(connection, tls_stream_error(connection->tls));
        return;
    }
    send_next(connection);
}

static void give_room(uv_handle_t *handle, size_t suggested, uv_buf_t *out_buffer) {
    const struct peer_connection *connection = handle->data;
    (void)suggested;
    *out_buffer = uv_buf_init((char *)connection->pool->read_buffer, PEER_READ_SIZE);
}

static void has_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer) {
    struct peer_connection *connection = stream->data;
    if (size == 0 || connection->is_closed) {
        return;
    }
    connection->has_received |= size > 0;
    if (size < 0) {
        const char *reason = size == UV_EOF ? "the peer hung up" : uv_strerror((int)size);
        if (connection->tls != NULL && size == UV_EOF) {
            (void)tls_stream_feed_end(connection->tls);
            reason = tls_stream_error(connection->tls);
        }
        end(connection, reason);
    } else if (connection->tls != NULL) {
        deliver_tls(connection, bytes_of(buffer->base, (size_t)size));
    } else {
        deliver(connection, bytes_of(buffer->base, (size_t)size));
    }
}

/* --- The beginning. --- */

static void set_option(int fd, int level, int name, int value) {
    (void)setsockopt(fd, level, name, &value, sizeof value);
}

/* When nobody acknowledges, TCP tries again after ever longer pauses and would find out that the
 * way is open only long after it is; so it gives up soon, and the link is dialled again. */
static void set_options(struct peer_connection *connection) {
    uv_os_fd_t fd;
    if (connection->socket.handle.type != UV_TCP) {
        return; /* the other process and this one share a kernel, which tells its end */
    }
    uv_tcp_nodelay(&connection->socket.tcp, 1);
    if (uv_fileno(&connection->socket.handle, &fd) == 0) {
        set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, PEER_SILENCE_MS_MAX);
        set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
        set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, PEER_PROBE_AFTER_S);
        set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, PEER_PROBE_EVERY_S);
        set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, PEER_PROBES_MAX);
    }
}

static struct peer_connection *create(struct peer_pool *pool, bool is_unix, struct tls_stream *tls,
                                      const struct peer_connection_events *events, void *owner) {
    struct peer_connection *connection = calloc(1, sizeof *connection);
    if (connection == NULL) {
        abort();
    }
    *connection = (struct peer_connection){
        .pool = pool, .events = events, .owner = owner, .tls = tls, .unused_size_max = SIZE_MAX};
    buffer_init(&connection->received);
    buffer_init(&connection->gathered);
    buffer_init(&connection->flying);
    if (is_unix) {
        uv_pipe_init(pool->loop, &connection->socket.pipe, 0);
    } else {
        uv_tcp_init(pool->loop, &connection->socket.tcp);
    }
    connection->socket.handle.data = connection;
    peer_handles_add(&pool->handles);
    return connection;
}

static bool begin(struct peer_connection *connection) {
    connection->is_begun = true;
    set_options(connection);
    if (uv_read_start(&connection->socket.stream, give_room, has_read) != 0) {
        return false;
    }
    if (connection->tls != NULL) {
        send_next(connection);
    }
    return true;
}

static void connected(uv_connect_t *connect, int status) {
    struct peer_connection *connection = connect->data;
    if (connection->is_closed) {
        return;
    }
    if (status != 0) {
        end(connection, uv_strerror(status));
    } else if (!begin(connection)) {
        end(connection, "cannot read");
    } else if (connection->tls == NULL) {
        become_ready(connection);
    }
}

struct peer_connection *peer_connection_connect(struct peer_pool *pool,
                                                const struct sockaddr_storage *address,
                                                struct tls_stream *tls,
                                                const struct peer_connection_events *events,
                                                void *owner, const char **out_reason) {
    bool is_unix = address->ss_family == AF_UNIX;
    struct peer_connection *connection = create(pool, is_unix, tls, events, owner);
    connection->connect.data = connection;
    int rv = 0;
    if (is_unix) {
        /* What goes wrong is told by the callback. */
        uv_pipe_connect(&connection->connect, &connection->socket.pipe,
                        ((const struct sockaddr_un *)address)->sun_path, connected);
    } else {
        rv = uv_tcp_connect(&connection->connect, &connection->socket.tcp,
                            (const struct sockaddr *)address, connected);
    }
    if (rv != 0) {
        *out_reason = uv_strerror(rv);
        peer_connection_close(connection);
        return NULL;
    }
    return connection;
}

struct peer_connection *peer_connection_accept(struct peer_pool *pool, uv_stream_t *listener,
                                               struct tls_stream *tls,
                                               const struct peer_connection_events *events,
                                               void *owner) {
    bool is_unix = listener->type == UV_NAMED_PIPE;
    struct peer_connection *connection = create(pool, is_unix, tls, events, owner);
    if (uv_accept(listener, &connection->socket.stream) != 0 || !begin(connection)) {
        peer_connection_close(connection);
        return NULL;
    }
    connection->is_ready = tls == NULL;
    return connection;
}

void peer_connection_hand_over(struct peer_connection *connection,
                               const struct peer_connection_events *events, void *owner) {
    connection->events = events;
    connection->owner = owner;
}

void peer_connection_set_limit(struct peer_connection *connection, size_t unused_size_max) {
    connection->unused_size_max = unused_size_max;
}

void peer_connection_pause(struct peer_connection *connection) {
    (void)uv_read_stop(&connection->socket.stream);
}

void peer_connection_resume(struct peer_connection *connection) {
    if (!connection->is_closed) {
        /* Fails only when the handle is no longer a connection; its deadline ends it then. */
        (void)uv_read_start(&connection->socket.stream, give_room, has_read);
    }
}

bool peer_connection_has_received(const struct peer_connection *connection) {
    return connection->has_received;
}

bool peer_connection_is_hung_up(const struct peer_connection *connection) {
    uv_os_fd_t fd;
    if (uv_fileno(&connection->socket.handle, &fd) != 0) {
        return true;
    }
    struct pollfd state = {.fd = fd, .events = POLLRDHUP};
    return poll(&state, 1, 0) == 1 && (state.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

bool peer_connection_binding(const struct peer_connection *connection,
                             uint8_t out_binding[TLS_BINDING_SIZE]) {
    return connection->tls != NULL && tls_stream_binding(connection->tls, out_binding);
}

bool peer_connection_remote(const struct peer_connection *connection,
                            struct sockaddr_storage *out_address) {
    int size = sizeof *out_address;
    if (connection->socket.handle.type != UV_TCP) {
        *out_address = (struct sockaddr_storage){.ss_family = AF_UNIX};
        return true;
    }
    return uv_tcp_getpeername(&connection->socket.tcp, (struct sockaddr *)out_address, &size) == 0;
}
