/*
 * An HTTP/2 session fed with anything, without a socket. The first byte chooses how the rest is
 * cut, and whether the output is fetched after each piece or piles up; the preface comes for free.
 */
#include "base/log.h"
#include "net/net_shared.h"
#include "net/protocol.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

enum { OUTPUT_SIZE_MAX = 1024, TURNS_MAX = 64 };

static struct grpc_call *held;
static unsigned n_opened;
static unsigned n_closed;

static void on_open(struct grpc_call *call) {
    n_opened++;
    grpc_call_set_data(call, call);
}

static void on_close(struct grpc_call *call) {
    assert(grpc_call_data(call) == call);
    n_closed++;
    if (held == call) {
        held = NULL;
    }
    grpc_call_finish(call, GRPC_OK, NULL);
}

static void echo(struct grpc_call *call, struct bytes message) {
    grpc_call_reply(call, message);
}

static void echo_on(struct grpc_call *call, struct bytes message) {
    while (grpc_call_is_writable(call)) {
        grpc_call_send(call, bytes_of("more", 4));
        grpc_call_send(call, message);
    }
}

static void writable(struct grpc_call *call) {
    struct bytes value;
    if (grpc_call_metadata(call, "a", &value)) {
        grpc_call_send(call, value);
    }
}

/* Whoever comes next ends the one before, which may be of another stream. */
static void hold(struct grpc_call *call, struct bytes message) {
    if (held != NULL && held != call) {
        grpc_call_send(held, message);
        grpc_call_finish(held, GRPC_ABORTED, "replaced \x01\xff");
    }
    held = call;
}

static void half_close(struct grpc_call *call) {
    grpc_call_finish(call, GRPC_OK, "");
}

static bool coming(struct grpc_call *call, struct bytes message, bool is_near) {
    struct bytes value;
    size_t sum = is_near;
    for (size_t i = 0; i < message.size; i++) {
        sum += message.data[i];
    }
    return grpc_call_metadata(call, "a", &value) || sum % 7 != 0;
}

static const struct grpc_method methods[] = {
    {.path = "/e/u",
     .kind = GRPC_UNARY,
     .on_open = on_open,
     .on_message = echo,
     .on_close = on_close},
    {.path = "/e/s",
     .kind = GRPC_SERVER_STREAM,
     .on_open = on_open,
     .on_message = hold,
     .on_writable = writable,
     .on_close = on_close,
     .prefetch = coming},
    {.path = "/e/b",
     .kind = GRPC_BIDIRECTIONAL,
     .on_open = on_open,
     .on_message = echo_on,
     .on_half_close = half_close,
     .on_writable = writable,
     .on_close = on_close,
     .prefetch = coming},
    {.path = "/e/h",
     .kind = GRPC_BIDIRECTIONAL,
     .on_open = on_open,
     .on_message = hold,
     .on_half_close = half_close,
     .on_writable = writable,
     .on_close = on_close},
};

static void on_request(struct http_exchange *exchange) {
    http_reply(exchange, 200, "text/plain", bytes_of("page", 4));
}

static const struct http_route route = {.method = "GET", .pattern = "/p", .on_request = on_request};

static void wake(struct protocol_host *host) {
    (void)host;
}

static void feed(struct protocol_host *host, uint8_t choice, struct bytes input) {
    static const char start[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0";
    const struct protocol *protocol = &http2_protocol;
    void *session = protocol->open(host);
    assert(session != NULL);
    struct buffer out;
    buffer_init(&out);
    protocol->on_bytes(session, bytes_of(start, sizeof start));
    size_t piece_max = (choice & 15) == 0 ? SIZE_MAX : (size_t)(choice & 15) * 3;
    uint64_t now_ms = 1;
    while (input.size > 0 && protocol->state(session) < SESSION_ENDING) {
        size_t piece = input.size < piece_max ? input.size : piece_max;
        protocol->on_bytes(session, bytes_of(input.data, piece));
        input.data += piece;
        input.size -= piece;
        net_timers_run(host->shared->timers, now_ms += 10);
        if ((choice & 16) == 0) {
            out.size = 0;
            protocol->produce(session, (choice & 32) != 0 ? 50 : OUTPUT_SIZE_MAX, &out);
            protocol->settle(session);
        }
    }
    if ((choice & 64) != 0) {
        protocol->drain(session);
        protocol->ping(session);
    }
    for (unsigned i = 0; i < TURNS_MAX && protocol->state(session) < SESSION_FAILED; i++) {
        out.size = 0;
        protocol->produce(session, OUTPUT_SIZE_MAX, &out);
        protocol->settle(session);
    }
    protocol->close(session);
    buffer_clear(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0) {
        return 0;
    }
    log_configure(LOG_ERROR, LOG_FORMAT_TEXT);
    struct net_limits limits = net_limits_default;
    limits.streams_max = 20;
    limits.message_size_max = 2000;
    limits.header_size_max = 1000;
    limits.stream_queue_high = 1000;
    limits.connection_queue_max = 3000;
    limits.connection_queue_abort = 20000;
    struct net_shared shared;
    net_shared_init(&shared, &limits, 1);
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        route_table_add_method(&shared.routes, &methods[i], NULL);
    }
    route_tree_add(&shared.routes.tree, &route, NULL);
    held = NULL;
    n_opened = 0;
    n_closed = 0;
    struct protocol_host host = {.shared = &shared, .wake = wake};
    feed(&host, data[0], bytes_of(data + 1, size - 1));
    assert(n_opened == n_closed);
    assert(shared.stats.calls == 0);
    assert(shared.stats.queued_bytes == 0);
    assert(shared.partial_bytes == 0);
    net_shared_clear(&shared);
    return 0;
}
