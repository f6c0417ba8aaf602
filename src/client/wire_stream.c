#include "client/wire_stream.h"

#include "base/clock.h"
#include "base/host_port.h"
#include "tls/tls_stream.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_SIZE = 64 * 1024 };

struct wire_stream {
    int socket;
    uint32_t answer_timeout_ms;
    struct tls_stream *tls; /* NULL: plain */
    struct buffer input;
    size_t consumed;
    const char *error;
};

const char *wire_stream_error(const struct wire_stream *stream) {
    return stream->error;
}

static bool fail(struct wire_stream *stream, const char *error) {
    stream->error = error;
    return false;
}

/* ---- bytes ---- */

/* Gives what is ready, 0 when the time is over. */
static short wait_for(int socket, short events, uint64_t deadline_ms) {
    for (;;) {
        uint64_t now_ms = clock_boottime_ms();
        struct pollfd poll_one = {.fd = socket, .events = events};
        uint64_t left_ms = now_ms < deadline_ms ? deadline_ms - now_ms : 0;
        int ready = poll(&poll_one, 1, left_ms > INT32_MAX ? INT32_MAX : (int)left_ms);
        if (ready > 0) {
            return poll_one.revents;
        }
        if (ready == 0 || errno != EINTR) {
            return 0;
        }
    }
}

static bool take_tls(struct wire_stream *stream, struct bytes ciphertext) {
    enum tls_state state = tls_stream_feed(stream->tls, ciphertext, &stream->input);
    return state == TLS_FAILED || state == TLS_ENDED ? fail(stream, tls_stream_error(stream->tls))
                                                     : true;
}

/* One read of what is there. */
static bool read_once(struct wire_stream *stream) {
    uint8_t bytes[READ_SIZE];
    ssize_t got = recv(stream->socket, bytes, sizeof bytes, 0);
    if (got > 0 && stream->tls != NULL) {
        return take_tls(stream, bytes_of(bytes, (size_t)got));
    }
    if (got > 0) {
        buffer_append(&stream->input, bytes, (size_t)got);
        return true;
    }
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return true;
    }
    return fail(stream, got == 0 || errno == ECONNRESET ? "the connection was closed"
                                                        : "the connection failed");
}

static bool send_raw(struct wire_stream *stream, struct bytes bytes) {
    uint64_t deadline_ms = clock_boottime_ms() + stream->answer_timeout_ms;
    while (bytes.size > 0) {
        short ready = wait_for(stream->socket, POLLIN | POLLOUT, deadline_ms);
        if (ready == 0) {
            return fail(stream, "nothing can be sent: the other side does not read");
        }
        if ((ready & ~POLLOUT) != 0 && !read_once(stream)) {
            return false;
        }
        if ((ready & POLLOUT) == 0) {
            continue;
        }
        ssize_t sent = send(stream->socket, bytes.data, bytes.size, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN && errno != EINTR) {
            return fail(stream, "the connection was closed");
        }
        if (sent > 0) {
            bytes = bytes_of(bytes.data + sent, bytes.size - (size_t)sent);
            deadline_ms = clock_boottime_ms() + stream->answer_timeout_ms;
        }
    }
    return true;
}

static bool send_tls_output(struct wire_stream *stream) {
    /* Swapped, since what arrives meanwhile may add to it. */
    while (tls_stream_output(stream->tls)->size > 0) {
        struct buffer *output = tls_stream_output(stream->tls);
        struct buffer taken = *output;
        buffer_init(output);
        bool is_sent = send_raw(stream, bytes_of(taken.data, taken.size));
        buffer_clear(&taken);
        if (!is_sent) {
            return false;
        }
    }
    return true;
}

bool wire_stream_send(struct wire_stream *stream, struct bytes bytes) {
    if (stream->tls == NULL) {
        return send_raw(stream, bytes);
    }
    tls_stream_write(stream->tls, bytes);
    return send_tls_output(stream);
}

bool wire_stream_receive(struct wire_stream *stream) {
    uint64_t deadline_ms = clock_boottime_ms() + stream->answer_timeout_ms;
    size_t size = stream->input.size;
    while (stream->input.size == size) {
        if (wait_for(stream->socket, POLLIN, deadline_ms) == 0) {
            return fail(stream, "no answer in time");
        }
        if (!read_once(stream) || (stream->tls != NULL && !send_tls_output(stream))) {
            return false;
        }
    }
    return true;
}

struct bytes wire_stream_input(const struct wire_stream *stream) {
    return bytes_of(stream->input.data + stream->consumed, stream->input.size - stream->consumed);
}

void wire_stream_consume(struct wire_stream *stream, size_t size) {
    stream->consumed += size;
    size_t left = stream->input.size - stream->consumed;
    /* Moved only when that is little work for the room it gives. */
    if (left <= stream->consumed) {
        memmove(stream->input.data, stream->input.data + stream->consumed, left);
        stream->input.size = left;
        stream->consumed = 0;
    }
}

/* ---- connecting ---- */

static int connect_to(const struct addrinfo *address, uint64_t deadline_ms) {
    int one = 1;
    int error = 0;
    socklen_t size = sizeof error;
    int file = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (file < 0) {
        return -1;
    }
    (void)setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(file, address->ai_addr, address->ai_addrlen) == 0) {
        return file;
    }
    if (errno == EINPROGRESS) {
        if (wait_for(file, POLLOUT, deadline_ms) == 0) {
            error = ETIMEDOUT;
        } else if (getsockopt(file, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0) {
            return file;
        }
        errno = error;
    }
    error = errno;
    close(file);
    errno = error;
    return -1;
}

static int open_socket(const struct wire_stream_options *options, const char **out_reason) {
    char service[HOST_PORT_PORT_SIZE_MAX];
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int result =
        getaddrinfo(options->host, host_port_service(options->port, service), &hints, &found);
    if (result != 0) {
        *out_reason = gai_strerror(result);
        return -1;
    }
    int file = -1;
    for (struct addrinfo *each = found; each != NULL && file < 0; each = each->ai_next) {
        file = connect_to(each, clock_boottime_ms() + options->connect_timeout_ms);
        *out_reason = file < 0 ? strerror(errno) : "";
    }
    freeaddrinfo(found);
    return file;
}

static bool handshake(struct wire_stream *stream, const struct wire_stream_options *options) {
    if (options->tls == NULL) {
        return true;
    }
    uint64_t deadline_ms = clock_boottime_ms() + options->connect_timeout_ms;
    stream->tls = tls_stream_connect(options->tls, options->host);
    if (stream->tls == NULL) {
        return fail(stream, "no certificate can be for this host");
    }
    while (send_tls_output(stream) && tls_stream_state(stream->tls) == TLS_HANDSHAKE) {
        if (wait_for(stream->socket, POLLIN, deadline_ms) == 0) {
            return fail(stream, "no TLS handshake in time");
        }
        if (!read_once(stream)) {
            return false;
        }
    }
    return tls_stream_state(stream->tls) == TLS_OPEN;
}

struct wire_stream *wire_stream_open(const struct wire_stream_options *options,
                                     char error[WIRE_STREAM_ERROR_SIZE_MAX]) {
    char where[HOST_PORT_TEXT_SIZE_MAX];
    const char *reason = "";
    host_port_format(options->host, options->port, where);
    int file = open_socket(options, &reason);
    if (file < 0) {
        snprintf(error, WIRE_STREAM_ERROR_SIZE_MAX, "%s cannot be reached: %s", where, reason);
        return NULL;
    }
    struct wire_stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL) {
        abort();
    }
    stream->socket = file;
    stream->answer_timeout_ms = options->answer_timeout_ms;
    stream->error = "";
    if (!handshake(stream, options)) {
        snprintf(error, WIRE_STREAM_ERROR_SIZE_MAX, "%s: TLS failed: %s", where, stream->error);
        wire_stream_close(stream);
        return NULL;
    }
    return stream;
}

void wire_stream_close(struct wire_stream *stream) {
    if (stream == NULL) {
        return;
    }
    if (stream->tls != NULL && stream->error[0] == '\0' &&
        tls_stream_state(stream->tls) == TLS_OPEN) {
        tls_stream_end(stream->tls);
        (void)send_tls_output(stream);
    }
    tls_stream_destroy(stream->tls);
    close(stream->socket);
    buffer_clear(&stream->input);
    free(stream);
}
