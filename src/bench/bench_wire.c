#include "bench/bench_wire.h"

#include "base/buffer.h"

#include <assert.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { READ_SIZE = 64 * 1024, PORT_TEXT_SIZE = 8 };
#define ANSWER_NS (60 * BENCH_NS_PER_SECOND)

struct question {
    bench_wire_on_reply *on_reply;
    void *context;
};

struct bench_wire {
    struct bench *bench;
    bench_wire_measure *measure;
    uv_tcp_t tcp;
    uv_connect_t connect;
    bool is_connected;
    bool is_closed;
    bool may_end;    /* the server has been told that nothing follows */
    bool is_reading; /* what is asked meanwhile is written in one piece */
    struct buffer input;
    struct buffer output;
    struct question *questions; /* a ring */
    size_t capacity;            /* a power of two */
    size_t first;
    size_t n;
};

/* ---- writing ------------------------------------------------------------------------------------
 */

struct late_write {
    uv_write_t request;
    struct buffer bytes;
};

static void on_written(uv_write_t *request, int status) {
    struct late_write *late = (struct late_write *)request;
    if (status != 0) {
        bench_die("writing: %s", uv_strerror(status));
    }
    buffer_clear(&late->bytes);
    free(late);
}

static void flush(struct bench_wire *wire) {
    uv_stream_t *stream = (uv_stream_t *)&wire->tcp;
    uv_buf_t bytes = uv_buf_init((char *)wire->output.data, (unsigned)wire->output.size);
    int written = uv_try_write(stream, &bytes, 1);
    if (written < 0 && written != UV_EAGAIN) {
        bench_die("writing: %s", uv_strerror(written));
    }
    size_t done = written < 0 ? 0 : (size_t)written;
    if (done < wire->output.size) {
        struct late_write *late = bench_allocate(1, sizeof *late);
        buffer_append(&late->bytes, wire->output.data + done, wire->output.size - done);
        bytes = uv_buf_init((char *)late->bytes.data, (unsigned)late->bytes.size);
        uv_write(&late->request, stream, &bytes, 1, on_written);
    }
    wire->output.size = 0;
}

static void add_question(struct bench_wire *wire, struct question question) {
    if (wire->n == wire->capacity) {
        size_t capacity = wire->capacity == 0 ? 16 : 2 * wire->capacity;
        struct question *questions = bench_allocate(capacity, sizeof *questions);
        for (size_t i = 0; i < wire->n; i++) {
            questions[i] = wire->questions[(wire->first + i) % wire->capacity];
        }
        free(wire->questions);
        wire->questions = questions;
        wire->capacity = capacity;
        wire->first = 0;
    }
    wire->questions[(wire->first + wire->n++) % wire->capacity] = question;
}

void bench_wire_ask(struct bench_wire *wire, struct bytes request, bench_wire_on_reply *on_reply,
                    void *context) {
    add_question(wire, (struct question){.on_reply = on_reply, .context = context});
    buffer_append(&wire->output, request.data, request.size);
    if (!wire->is_reading) {
        flush(wire);
    }
}

/* ---- reading ------------------------------------------------------------------------------------
 */

static void on_allocate(uv_handle_t *handle, size_t suggested, uv_buf_t *out_buffer) {
    struct bench_wire *wire = handle->data;
    (void)suggested;
    *out_buffer = uv_buf_init((char *)buffer_reserve(&wire->input, READ_SIZE), READ_SIZE);
}

static void on_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer) {
    struct bench_wire *wire = stream->data;
    (void)buffer;
    if (size == UV_EOF && wire->may_end && wire->n == 0) {
        return;
    }
    if (size < 0) {
        bench_die("the server closed a connection: %s", uv_strerror((int)size));
    }
    wire->input.size += (size_t)size;
    wire->is_reading = true;
    size_t done = 0;
    for (size_t reply;
         (reply = wire->measure(bytes_of(wire->input.data + done, wire->input.size - done))) > 0;) {
        if (wire->n == 0) {
            bench_die("the server answered what nobody asked");
        }
        struct question question = wire->questions[wire->first];
        wire->first = (wire->first + 1) % wire->capacity;
        wire->n--;
        question.on_reply(question.context, bytes_of(wire->input.data + done, reply));
        done += reply;
    }
    wire->is_reading = false;
    memmove(wire->input.data, wire->input.data + done, wire->input.size - done);
    wire->input.size -= done;
    if (wire->output.size > 0) {
        flush(wire);
    }
}

/* ---- connecting ---------------------------------------------------------------------------------
 */

static void on_connected(uv_connect_t *connect, int status) {
    struct bench_wire *wire = connect->data;
    if (status != 0) {
        bench_die("connection: %s", uv_strerror(status));
    }
    wire->is_connected = true;
}

static struct addrinfo *look_up(struct bench *bench, size_t i) {
    const struct endpoint *endpoint = &bench->endpoints->items[i % bench->endpoints->n_items];
    if (endpoint->path[0] != 0 || endpoint->security == ENDPOINT_TLS) {
        bench_usage(bench, "--endpoint: a host and a port without TLS are needed");
    }
    char port[PORT_TEXT_SIZE];
    snprintf(port, sizeof port, "%u", endpoint->port);
    const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int error = getaddrinfo(endpoint->host, port, &wanted, &found);
    if (error != 0) {
        bench_die("%s: %s", endpoint->host, gai_strerror(error));
    }
    return found;
}

struct bench_wire *bench_wire_connect(struct bench *bench, size_t i, bench_wire_measure *measure) {
    struct bench_wire *wire = bench_allocate(1, sizeof *wire);
    struct addrinfo *address = look_up(bench, i);
    wire->bench = bench;
    wire->measure = measure;
    uv_tcp_init(bench->loop, &wire->tcp);
    uv_tcp_nodelay(&wire->tcp, 1);
    wire->tcp.data = wire;
    wire->connect.data = wire;
    int error = uv_tcp_connect(&wire->connect, &wire->tcp, address->ai_addr, on_connected);
    freeaddrinfo(address);
    if (error != 0) {
        bench_die("connection: %s", uv_strerror(error));
    }
    while (!wire->is_connected) {
        uv_run(bench->loop, UV_RUN_ONCE);
    }
    uv_read_start((uv_stream_t *)&wire->tcp, on_allocate, on_read);
    return wire;
}

static bool is_answered(void *context) {
    const struct bench_wire *wire = context;
    return wire->n == 0;
}

void bench_wire_wait(struct bench_wire *wire) {
    if (!bench_wait(wire->bench, is_answered, wire, ANSWER_NS)) {
        bench_die("the server did not answer within a minute");
    }
}

void bench_wire_end(struct bench_wire *wire, struct bytes request, bench_wire_on_reply *on_reply) {
    wire->may_end = true;
    bench_wire_ask(wire, request, on_reply, NULL);
    bench_wire_wait(wire);
    bench_wire_destroy(wire);
}

static void on_closed(uv_handle_t *handle) {
    struct bench_wire *wire = handle->data;
    wire->is_closed = true;
}

void bench_wire_destroy(struct bench_wire *wire) {
    uv_close((uv_handle_t *)&wire->tcp, on_closed);
    while (!wire->is_closed) {
        uv_run(wire->bench->loop, UV_RUN_ONCE);
    }
    buffer_clear(&wire->input);
    buffer_clear(&wire->output);
    free(wire->questions);
    free(wire);
}
