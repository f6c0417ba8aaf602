#include "replication/peer_dial.h"

#include "base/buffer.h"
#include "replication/peer_address.h"
#include "replication/peer_tls.h"
#include "replication/peer_tls_context.h"

#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>

/* The stream outlives the dial when it succeeds, so it is allocated by itself. The dial goes when
 * it is done, its timer has closed, and no request of libuv's refers to it any more. */
struct peer_dial {
    struct peer_address address;
    struct peer_tls_context *tls_context; /* NULL: plain text */
    uv_stream_t *stream;                  /* NULL while TLS has the socket */
    struct peer_tls *tls;                 /* watched over until the end of the dial */
    uv_timer_t timer;
    uv_getaddrinfo_t lookup;
    struct addrinfo *found;      /* all that the name stands for */
    const struct addrinfo *next; /* to be tried when this one fails */
    uv_connect_t connect;
    uv_write_t write;
    struct buffer hello;
    uint8_t answer;
    bool is_done;
    bool is_looking_up;
    bool is_connecting;
    bool is_writing;
    bool is_timer_closed;
    void (*done)(void *data, uv_stream_t *stream, const char *reason);
    void *data;
};

/* --- The end. --- */

static void release(struct peer_dial *dial) {
    if (dial->is_timer_closed && !dial->is_looking_up && !dial->is_connecting &&
        !dial->is_writing) {
        buffer_clear(&dial->hello);
        uv_freeaddrinfo(dial->found);
        free(dial);
    }
}

static void timer_closed(uv_handle_t *handle) {
    struct peer_dial *dial = handle->data;
    dial->is_timer_closed = true;
    release(dial);
}

static void stream_closed(uv_handle_t *handle) {
    free(handle);
}

static void finish(struct peer_dial *dial, const char *reason) {
    if (dial->is_done) {
        return;
    }
    dial->is_done = true;
    uv_stream_t *stream = dial->stream;
    if (stream != NULL) {
        uv_read_stop(stream);
    }
    if (stream != NULL && reason != NULL) {
        uv_close((uv_handle_t *)stream, stream_closed);
    }
    if (dial->tls != NULL) {
        peer_tls_release(dial->tls);
    }
    if (dial->is_looking_up) {
        (void)uv_cancel((uv_req_t *)&dial->lookup);
    }
    dial->done(dial->data, reason == NULL ? stream : NULL, reason);
    uv_close((uv_handle_t *)&dial->timer, timer_closed);
}

static void timed_out(uv_timer_t *timer) {
    finish(timer->data, "no answer in time");
}

/* --- Hello. --- */

static void give_answer_room(uv_handle_t *handle, size_t suggested, uv_buf_t *out_buffer) {
    (void)suggested;
    struct peer_dial *dial = handle->data;
    *out_buffer = uv_buf_init((char *)&dial->answer, 1);
}

/* The connection ended. TLS may know why. */
static void hung_up(struct peer_dial *dial) {
    const char *reason = dial->tls != NULL ? peer_tls_ended(dial->tls) : NULL;
    finish(dial, reason != NULL ? reason : "the peer hung up");
}

static void answered(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer) {
    struct peer_dial *dial = stream->data;
    (void)buffer;
    if (size == 0) {
        return;
    }
    if (size < 0) {
        hung_up(dial);
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
        hung_up(dial);
    }
}

static void say_hello(struct peer_dial *dial) {
    uv_buf_t buffer = uv_buf_init((char *)dial->hello.data, (unsigned)dial->hello.size);
    dial->write.data = dial;
    dial->is_writing = uv_write(&dial->write, dial->stream, &buffer, 1, hello_written) == 0;
    if (!dial->is_writing || uv_read_start(dial->stream, give_answer_room, answered) != 0) {
        finish(dial, "cannot write");
    }
}

/* --- Reaching the peer. --- */

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

static void tls_agreed(void *data, uv_stream_t *stream, const char *reason) {
    struct peer_dial *dial = data;
    if (stream == NULL) {
        finish(dial, reason);
        return;
    }
    dial->stream = stream;
    stream->data = dial;
    say_hello(dial);
}

static void start_tls(struct peer_dial *dial) {
    SSL *ssl = peer_tls_context_dial(dial->tls_context, dial->address.host);
    int socket = peer_tls_take_socket((uv_tcp_t *)dial->stream);
    dial->stream = NULL;
    dial->tls = peer_tls_start(dial->timer.loop, ssl, socket, tls_agreed, dial);
    if (dial->tls == NULL) {
        finish(dial, "TLS could not begin");
    }
}

static void connect_to_next(struct peer_dial *dial);

static void connected(uv_connect_t *connect, int status) {
    struct peer_dial *dial = connect->data;
    dial->is_connecting = false;
    if (dial->is_done) {
        release(dial);
        return;
    }
    if (status != 0 && dial->next != NULL) {
        connect_to_next(dial);
        return;
    }
    if (status != 0) {
        finish(dial, uv_strerror(status));
        return;
    }
    prepare((uv_tcp_t *)dial->stream);
    if (dial->tls_context != NULL) {
        start_tls(dial);
    } else {
        say_hello(dial);
    }
}

static uv_stream_t *new_socket(struct peer_dial *dial) {
    uv_tcp_t *tcp = calloc(1, sizeof *tcp);
    if (tcp == NULL) {
        abort();
    }
    uv_tcp_init(dial->timer.loop, tcp);
    tcp->data = dial;
    return (uv_stream_t *)tcp;
}

static void fail_now(uv_timer_t *timer) {
    finish(timer->data, "the address cannot be reached");
}

/* Never tells from inside that it failed. */
static void connect_to(struct peer_dial *dial, const struct sockaddr *address) {
    dial->connect.data = dial;
    dial->is_connecting =
        uv_tcp_connect(&dial->connect, (uv_tcp_t *)dial->stream, address, connected) == 0;
    if (!dial->is_connecting) {
        uv_timer_start(&dial->timer, fail_now, 0, 0);
    }
}

/* A name may stand for several addresses, and a peer need not listen on all of them. */
static void connect_to_next(struct peer_dial *dial) {
    uv_close((uv_handle_t *)dial->stream, stream_closed);
    dial->stream = new_socket(dial);
    const struct addrinfo *now = dial->next;
    dial->next = now->ai_next;
    connect_to(dial, now->ai_addr);
}

static void looked_up(uv_getaddrinfo_t *lookup, int status, struct addrinfo *found) {
    struct peer_dial *dial = lookup->data;
    dial->is_looking_up = false;
    dial->found = found;
    dial->next = found;
    if (dial->is_done) {
        release(dial);
    } else if (status != 0 || found == NULL) {
        finish(dial, "the name is not known");
    } else {
        connect_to_next(dial);
    }
}

static void look_up(struct peer_dial *dial) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC};
    dial->lookup.data = dial;
    dial->is_looking_up = uv_getaddrinfo(dial->timer.loop, &dial->lookup, looked_up,
                                         dial->address.host, dial->address.port, &hints) == 0;
    if (!dial->is_looking_up) {
        uv_timer_start(&dial->timer, fail_now, 0, 0);
    }
}

struct peer_dial *peer_dial_start(uv_loop_t *loop, struct peer_tls_context *tls,
                                  const char *address, const struct peer_hello *hello,
                                  void (*done)(void *data, uv_stream_t *stream, const char *reason),
                                  void *data) {
    struct peer_dial *dial = calloc(1, sizeof *dial);
    if (dial == NULL) {
        abort();
    }
    *dial = (struct peer_dial){.tls_context = tls, .done = done, .data = data};
    buffer_init(&dial->hello);
    peer_hello_encode(&dial->hello, hello);
    uv_timer_init(loop, &dial->timer);
    dial->timer.data = dial;
    dial->stream = new_socket(dial);
    uv_timer_start(&dial->timer, timed_out, PEER_DIAL_TIMEOUT_MS, 0);
    struct sockaddr_storage to;
    if (peer_address_split(address, &dial->address) != 0) {
        uv_timer_start(&dial->timer, fail_now, 0, 0);
    } else if (peer_address_in_figures(&dial->address, &to) == 0) {
        connect_to(dial, (const struct sockaddr *)&to);
    } else {
        look_up(dial);
    }
    return dial;
}

void peer_dial_cancel(struct peer_dial *dial) {
    finish(dial, "cancelled");
}
