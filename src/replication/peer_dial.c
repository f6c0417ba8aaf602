#include "replication/peer_dial.h"

#include "base/buffer.h"

#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The tcp handle outlives the dial when it succeeds, so it is allocated by itself. The dial goes
 * when it is done, its timer has closed, and no request of libuv's refers to it any more. */
struct peer_dial {
    uv_tcp_t *tcp;
    uv_timer_t timer;
    uv_connect_t connect;
    uv_write_t write;
    struct buffer hello;
    uint8_t answer;
    bool is_done;
    bool is_connecting;
    bool is_writing;
    bool is_timer_closed;
    void (*done)(void *data, uv_stream_t *stream, const char *reason);
    void *data;
};

int peer_address_resolve(const char *address, struct sockaddr_storage *out_address) {
    char host[PEER_ADDRESS_SIZE_MAX + 1];
    const char *colon = strrchr(address, ':');
    if (colon == NULL || (size_t)(colon - address) >= sizeof host) {
        return UV_EINVAL;
    }
    size_t host_size = (size_t)(colon - address);
    const char *host_start = address;
    if (host_size >= 2 && address[0] == '[' && address[host_size - 1] == ']') {
        host_start++;
        host_size -= 2;
    }
    memcpy(host, host_start, host_size);
    host[host_size] = '\0';
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC};
    struct addrinfo *found = NULL;
    if (getaddrinfo(host, colon + 1, &hints, &found) != 0 || found == NULL) {
        return UV_EAI_NONAME;
    }
    memcpy(out_address, found->ai_addr, found->ai_addrlen);
    freeaddrinfo(found);
    return 0;
}

/* The dialler is the one who sends. When nobody acknowledges, TCP tries again after ever longer
 * pauses and would find out that the way is open only long after it is. */
static void prepare(uv_tcp_t *tcp) {
    uv_os_fd_t fd;
    unsigned silence_ms = PEER_SILENCE_MS_MAX;
    uv_tcp_nodelay(tcp, 1);
    if (uv_fileno((uv_handle_t *)tcp, &fd) == 0) {
        (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence_ms, sizeof silence_ms);
    }
}

static void release(struct peer_dial *dial) {
    if (dial->is_timer_closed && !dial->is_connecting && !dial->is_writing) {
        buffer_clear(&dial->hello);
        free(dial);
    }
}

static void timer_closed(uv_handle_t *handle) {
    struct peer_dial *dial = handle->data;
    dial->is_timer_closed = true;
    release(dial);
}

static void tcp_closed(uv_handle_t *handle) {
    free(handle);
}

static void finish(struct peer_dial *dial, const char *reason) {
    if (dial->is_done) {
        return;
    }
    dial->is_done = true;
    uv_tcp_t *tcp = dial->tcp;
    uv_read_stop((uv_stream_t *)tcp);
    if (reason != NULL) {
        uv_close((uv_handle_t *)tcp, tcp_closed);
    }
    dial->done(dial->data, reason == NULL ? (uv_stream_t *)tcp : NULL, reason);
    uv_close((uv_handle_t *)&dial->timer, timer_closed);
}

static void timed_out(uv_timer_t *timer) {
    finish(timer->data, "no answer in time");
}

static void give_answer_room(uv_handle_t *handle, size_t suggested, uv_buf_t *out_buffer) {
    (void)suggested;
    struct peer_dial *dial = handle->data;
    *out_buffer = uv_buf_init((char *)&dial->answer, 1);
}

static void answered(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer) {
    struct peer_dial *dial = stream->data;
    (void)buffer;
    if (size == 0) {
        return;
    }
    if (size < 0) {
        finish(dial, "the peer hung up");
        return;
    }
    finish(dial,
           dial->answer == PEER_WELCOME ? NULL : peer_answer_text((enum peer_answer)dial->answer));
}

static void hello_written(uv_write_t *write, int status) {
    struct peer_dial *dial = write->data;
    dial->is_writing = false;
    if (dial->is_done) {
        release(dial);
    } else if (status != 0) {
        finish(dial, uv_strerror(status));
    }
}

static void connected(uv_connect_t *connect, int status) {
    struct peer_dial *dial = connect->data;
    dial->is_connecting = false;
    if (dial->is_done) {
        release(dial);
        return;
    }
    if (status != 0) {
        finish(dial, uv_strerror(status));
        return;
    }
    prepare(dial->tcp);
    uv_buf_t buffer = uv_buf_init((char *)dial->hello.data, (unsigned)dial->hello.size);
    dial->write.data = dial;
    uv_stream_t *stream = (uv_stream_t *)dial->tcp;
    dial->is_writing = uv_write(&dial->write, stream, &buffer, 1, hello_written) == 0;
    if (!dial->is_writing || uv_read_start(stream, give_answer_room, answered) != 0) {
        finish(dial, "cannot write");
    }
}

static void fail_now(uv_timer_t *timer) {
    finish(timer->data, "the address cannot be reached");
}

struct peer_dial *peer_dial_start(uv_loop_t *loop, const char *address,
                                  const struct peer_hello *hello,
                                  void (*done)(void *data, uv_stream_t *stream, const char *reason),
                                  void *data) {
    struct peer_dial *dial = calloc(1, sizeof *dial);
    uv_tcp_t *tcp = calloc(1, sizeof *tcp);
    if (dial == NULL || tcp == NULL) {
        abort();
    }
    *dial = (struct peer_dial){.tcp = tcp, .done = done, .data = data};
    buffer_init(&dial->hello);
    peer_hello_encode(&dial->hello, hello);
    uv_tcp_init(loop, tcp);
    uv_timer_init(loop, &dial->timer);
    tcp->data = dial;
    dial->timer.data = dial;
    dial->connect.data = dial;
    struct sockaddr_storage to;
    dial->is_connecting =
        peer_address_resolve(address, &to) == 0 &&
        uv_tcp_connect(&dial->connect, tcp, (const struct sockaddr *)&to, connected) == 0;
    if (!dial->is_connecting) {
        uv_timer_start(&dial->timer, fail_now, 0, 0);
    } else {
        uv_timer_start(&dial->timer, timed_out, PEER_DIAL_TIMEOUT_MS, 0);
    }
    return dial;
}

void peer_dial_cancel(struct peer_dial *dial) {
    finish(dial, "cancelled");
}
