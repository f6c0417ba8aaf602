#include "checks/check_stream.h"

#include "tls/tls_stream.h"

#include <assert.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

/* Of one iteration of the loop, for handshakes, each of which may be more: a target can answer a
 * thousand at once. */
enum { AGREEING_NS_MAX = 5 * 1000 * 1000 };

enum stream_state {
    STREAM_RESOLVING,
    STREAM_CONNECTING,
    STREAM_AGREEING,
    STREAM_OPEN,
    STREAM_OVER
};

struct check_stream {
    struct check_network *network;
    const struct check_stream_events *events;
    void *context;
    struct list link;
    uint64_t marked_ms;
    enum stream_state state;
    bool is_closed;  /* by its owner */
    bool has_socket; /* the handle was initialised and is not being closed */
    bool is_tls;
    bool skips_verification;
    bool is_http2;
    bool resets;
    uint16_t port;
    unsigned n_users; /* of the memory: the owner, the handle, requests of libuv */
    size_t next_address;
    const char *error;
    struct check_addresses addresses;
    struct check_lookup lookup;
    uv_tcp_t tcp;
    uv_connect_t connect;
    uv_timer_t soon; /* for what must not be told from inside a call */
    struct tls_stream *tls;
    struct buffer plaintext;
    struct buffer held; /* of a handshake, when there was no time for it */
    char host[HOST_PORT_HOST_SIZE_MAX + 1];
    char server_name[REGISTRY_NAME_SIZE_MAX + 1];
};

struct stream_write {
    uv_write_t request;
    struct check_stream *stream;
    uint8_t bytes[];
};

static void release(struct check_stream *stream) {
    assert(stream->n_users > 0);
    if (--stream->n_users > 0) {
        return;
    }
    tls_stream_destroy(stream->tls);
    buffer_clear(&stream->plaintext);
    buffer_clear(&stream->held);
    struct check_network *network = stream->network;
    free(stream);
    check_network_release_socket(network);
}

static void on_handle_closed(uv_handle_t *handle) {
    release(handle->data);
}

static void close_socket(struct check_stream *stream) {
    if (stream->has_socket) {
        stream->has_socket = false;
        if (!stream->resets || uv_tcp_close_reset(&stream->tcp, on_handle_closed) != 0) {
            uv_close((uv_handle_t *)&stream->tcp, on_handle_closed);
        }
    }
}

static void tell_end(struct check_stream *stream, const char *reason) {
    if (stream->state != STREAM_OVER && !stream->is_closed) {
        stream->state = STREAM_OVER;
        stream->events->on_end(stream, reason);
    }
}

/* ---- what comes ---- */

static void give_room(uv_handle_t *handle, size_t suggested, uv_buf_t *out_room) {
    (void)suggested;
    struct check_stream *stream = handle->data;
    *out_room = uv_buf_init((char *)stream->network->read_buffer, CHECK_READ_SIZE);
}

static void send_raw(struct check_stream *stream, struct bytes bytes);

static void send_tls_output(struct check_stream *stream) {
    struct buffer *output = tls_stream_output(stream->tls);
    send_raw(stream, bytes_of(output->data, output->size));
    output->size = 0;
}

static bool has_time_to_agree(struct check_network *network) {
    uint64_t now_ms = uv_now(network->loop);
    if (network->agreeing_ms != now_ms) {
        network->agreeing_ms = now_ms;
        network->agreeing_ns = 0;
    }
    return network->agreeing_ns < AGREEING_NS_MAX;
}

static void receive_tls(struct check_stream *stream, struct bytes wire) {
    bool is_agreeing = stream->state == STREAM_AGREEING;
    uint64_t begun_ns = uv_hrtime();
    stream->plaintext.size = 0;
    enum tls_state state = tls_stream_feed(stream->tls, wire, &stream->plaintext);
    stream->network->agreeing_ns += is_agreeing ? uv_hrtime() - begun_ns : 0;
    send_tls_output(stream);
    if (stream->state == STREAM_AGREEING && state != TLS_HANDSHAKE && state != TLS_FAILED) {
        stream->state = STREAM_OPEN;
        stream->events->on_open(stream);
    }
    if (stream->plaintext.size > 0 && !stream->is_closed && stream->state == STREAM_OPEN) {
        stream->events->on_bytes(stream, bytes_of(stream->plaintext.data, stream->plaintext.size));
    }
    if (state == TLS_FAILED) {
        tell_end(stream, tls_stream_error(stream->tls));
    } else if (state == TLS_ENDED) {
        tell_end(stream, NULL);
    }
}

static void on_soon(uv_timer_t *timer);

/* In a later iteration. */
static void hold(struct check_stream *stream, struct bytes wire) {
    buffer_append(&stream->held, wire.data, wire.size);
    (void)uv_read_stop((uv_stream_t *)&stream->tcp);
    (void)uv_timer_start(&stream->soon, on_soon, 1, 0);
}

static void on_read(uv_stream_t *handle, ssize_t size, const uv_buf_t *room) {
    struct check_stream *stream = handle->data;
    stream->n_users++; /* the owner may close it inside */
    if (size > 0 && stream->state == STREAM_AGREEING && !has_time_to_agree(stream->network)) {
        hold(stream, bytes_of(room->base, (size_t)size));
    } else if (size > 0 && stream->tls != NULL) {
        receive_tls(stream, bytes_of(room->base, (size_t)size));
    } else if (size > 0) {
        stream->events->on_bytes(stream, bytes_of(room->base, (size_t)size));
    } else if (size < 0) {
        (void)uv_read_stop(handle);
        const char *reason = size == UV_EOF ? NULL : uv_strerror((int)size);
        if (stream->tls != NULL && stream->state == STREAM_AGREEING) {
            (void)tls_stream_feed_end(stream->tls);
            reason = tls_stream_error(stream->tls);
        }
        tell_end(stream, reason);
    }
    release(stream);
}

static void agree_later(struct check_stream *stream) {
    struct buffer held = stream->held;
    if (!has_time_to_agree(stream->network)) {
        (void)uv_timer_start(&stream->soon, on_soon, 1, 0);
        return;
    }
    stream->n_users++; /* the owner may close it inside */
    buffer_init(&stream->held);
    receive_tls(stream, bytes_of(held.data, held.size));
    buffer_clear(&held);
    if (stream->has_socket && !stream->is_closed && stream->state != STREAM_OVER) {
        (void)uv_read_start((uv_stream_t *)&stream->tcp, give_room, on_read);
    }
    release(stream);
}

/* ---- what goes ---- */

static void on_written(uv_write_t *request, int result) {
    struct stream_write *write = (struct stream_write *)request;
    struct check_stream *stream = write->stream;
    free(write);
    if (result < 0 && result != UV_ECANCELED) {
        tell_end(stream, uv_strerror(result));
    }
    release(stream);
}

/* What the socket does not take at once is copied. An error shows when it is read. */
static void send_raw(struct check_stream *stream, struct bytes bytes) {
    if (bytes.size == 0 || !stream->has_socket) {
        return;
    }
    uv_buf_t whole = uv_buf_init((char *)bytes.data, (unsigned)bytes.size);
    int sent = uv_try_write((uv_stream_t *)&stream->tcp, &whole, 1);
    size_t done = sent > 0 ? (size_t)sent : 0;
    if (done == bytes.size || (sent < 0 && sent != UV_EAGAIN)) {
        return;
    }
    struct stream_write *write = malloc(sizeof *write + bytes.size - done);
    if (write == NULL) {
        abort();
    }
    write->stream = stream;
    memcpy(write->bytes, bytes.data + done, bytes.size - done);
    uv_buf_t rest = uv_buf_init((char *)write->bytes, (unsigned)(bytes.size - done));
    if (uv_write(&write->request, (uv_stream_t *)&stream->tcp, &rest, 1, on_written) == 0) {
        stream->n_users++;
    } else {
        free(write);
    }
}

void check_stream_send(struct check_stream *stream, struct bytes bytes) {
    assert(stream->state == STREAM_OPEN);
    if (stream->tls == NULL) {
        send_raw(stream, bytes);
    } else if (tls_stream_state(stream->tls) == TLS_OPEN) {
        tls_stream_write(stream->tls, bytes);
        send_tls_output(stream);
    }
}

/* ---- opening ---- */

static void connect_next(struct check_stream *stream);

static bool begin_tls(struct check_stream *stream) {
    uint64_t begun_ns = uv_hrtime();
    const char *error = NULL;
    struct check_tls_kind kind = {.skips_verification = stream->skips_verification,
                                  .is_http2 = stream->is_http2};
    struct tls_context *context = check_tls_context(stream->network->tls, kind, &error);
    const char *name = stream->server_name[0] != '\0' ? stream->server_name : stream->host;
    if (context != NULL) {
        stream->tls = tls_stream_connect(context, name);
        error = "the host is not one that a certificate can be for";
    }
    if (stream->tls == NULL) {
        tell_end(stream, error);
        return false;
    }
    stream->state = STREAM_AGREEING;
    send_tls_output(stream);
    (void)has_time_to_agree(stream->network); /* counts from the beginning of the iteration */
    stream->network->agreeing_ns += uv_hrtime() - begun_ns;
    return true;
}

static void on_connected(uv_connect_t *request, int result) {
    struct check_stream *stream = request->data;
    if (result == 0 && !stream->is_closed) {
        result = uv_read_start((uv_stream_t *)&stream->tcp, give_room, on_read);
    }
    if (stream->is_closed) {
        /* The owner has gone. */
    } else if (result < 0) {
        stream->error = uv_strerror(result);
        close_socket(stream);
        connect_next(stream);
    } else if (!stream->is_tls) {
        stream->state = STREAM_OPEN;
        stream->events->on_open(stream);
    } else {
        (void)begin_tls(stream);
    }
    release(stream);
}

static bool start_connect(struct check_stream *stream, struct sockaddr_storage *address) {
    if (address->ss_family == AF_INET) {
        ((struct sockaddr_in *)address)->sin_port = htons(stream->port);
    } else {
        ((struct sockaddr_in6 *)address)->sin6_port = htons(stream->port);
    }
    if (!check_network_list_allows(&stream->network->allowed, (struct sockaddr *)address)) {
        stream->error = "--checks-allow-net does not allow this address";
        return false;
    }
    int result = uv_tcp_init(stream->network->loop, &stream->tcp);
    assert(result == 0); /* without an address family it opens nothing that could fail */
    stream->tcp.data = stream;
    stream->connect.data = stream;
    stream->has_socket = true;
    stream->n_users++;
    result =
        uv_tcp_connect(&stream->connect, &stream->tcp, (struct sockaddr *)address, on_connected);
    if (result < 0) {
        stream->error = uv_strerror(result);
        close_socket(stream);
        return false;
    }
    (void)uv_tcp_nodelay(&stream->tcp, 1);
    stream->n_users++;
    return true;
}

/* A handle is closed before the next one is made in its place: one descriptor at a time. */
static void on_soon(uv_timer_t *timer) {
    struct check_stream *stream = timer->data;
    if (stream->state == STREAM_AGREEING && !stream->is_closed && stream->held.size > 0) {
        agree_later(stream);
    } else if (stream->state == STREAM_CONNECTING && !stream->is_closed) {
        if (stream->next_address < stream->addresses.n) {
            if (!start_connect(stream, &stream->addresses.addresses[stream->next_address++])) {
                connect_next(stream);
            }
        } else {
            tell_end(stream, stream->error);
        }
    }
}

static void connect_next(struct check_stream *stream) {
    /* Not 0: the closed handle must be out of the loop before another takes its place. */
    (void)uv_timer_start(&stream->soon, on_soon, 1, 0);
}

static void begin_connecting(struct check_stream *stream, const struct check_addresses *addresses) {
    stream->addresses = *addresses;
    stream->error = addresses->error;
    stream->state = STREAM_CONNECTING;
}

static void on_found(struct check_lookup *lookup, const struct check_addresses *addresses) {
    struct check_stream *stream = list_entry(lookup, struct check_stream, lookup);
    begin_connecting(stream, addresses);
    connect_next(stream);
}

bool check_stream_server_name(struct bytes name, char out_name[REGISTRY_NAME_SIZE_MAX + 1],
                              const char **out_reason) {
    if (name.size > REGISTRY_NAME_SIZE_MAX ||
        (name.size > 0 && memchr(name.data, '\0', name.size) != NULL)) {
        *out_reason = "the TLS server name cannot be one";
        return false;
    }
    if (name.size > 0) {
        memcpy(out_name, name.data, name.size);
    }
    out_name[name.size] = '\0';
    return true;
}

static struct check_stream *create(struct check_network *network,
                                   const struct check_stream_options *options) {
    struct check_stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL) {
        abort();
    }
    stream->network = network;
    stream->port = options->port;
    stream->is_tls = options->is_tls;
    stream->skips_verification = options->skips_verification;
    stream->is_http2 = options->is_http2;
    stream->resets = options->resets;
    strncpy(stream->host, options->host, sizeof stream->host - 1);
    strncpy(stream->server_name, options->server_name, sizeof stream->server_name - 1);
    list_init(&stream->link);
    list_init(&stream->lookup.link);
    stream->lookup.done = on_found;
    buffer_init(&stream->plaintext);
    buffer_init(&stream->held);
    int result = uv_timer_init(network->loop, &stream->soon);
    assert(result == 0);
    stream->soon.data = stream;
    stream->n_users = 2; /* the owner and the timer */
    network->n_sockets++;
    return stream;
}

struct check_stream *check_stream_open(struct check_network *network,
                                       const struct check_stream_options *options,
                                       const struct check_stream_events *events, void *context) {
    struct check_stream *stream = create(network, options);
    stream->events = events;
    stream->context = context;
    struct check_addresses addresses;
    if (check_resolver_find(network->resolver, stream->host, uv_now(network->loop), &stream->lookup,
                            &addresses)) {
        begin_connecting(stream, &addresses);
        if (addresses.n == 0 ||
            !start_connect(stream, &stream->addresses.addresses[stream->next_address++])) {
            connect_next(stream);
        }
    }
    return stream;
}

void check_stream_close(struct check_stream *stream) {
    assert(!stream->is_closed);
    stream->is_closed = true;
    list_remove(&stream->link);
    check_lookup_cancel(&stream->lookup);
    if (stream->tls != NULL && tls_stream_state(stream->tls) == TLS_OPEN) {
        tls_stream_end(stream->tls);
        send_tls_output(stream);
    }
    close_socket(stream);
    uv_close((uv_handle_t *)&stream->soon, on_handle_closed);
    release(stream);
}

/* ---- looking ---- */

const char *check_stream_alpn(const struct check_stream *stream) {
    return stream->tls != NULL ? tls_stream_alpn(stream->tls) : "";
}

void *check_stream_context(const struct check_stream *stream) {
    return stream->context;
}

void check_stream_give(struct check_stream *stream, const struct check_stream_events *events,
                       void *context) {
    stream->events = events;
    stream->context = context;
}

bool check_stream_is_for(const struct check_stream *stream,
                         const struct check_stream_options *options) {
    return stream->port == options->port && stream->is_tls == options->is_tls &&
           stream->skips_verification == options->skips_verification &&
           stream->is_http2 == options->is_http2 && strcmp(stream->host, options->host) == 0 &&
           strcmp(stream->server_name, options->server_name) == 0;
}

void check_stream_mark(struct check_stream *stream, uint64_t time_ms) {
    stream->marked_ms = time_ms;
}

uint64_t check_stream_marked(const struct check_stream *stream) {
    return stream->marked_ms;
}

struct list *check_stream_link(struct check_stream *stream) {
    return &stream->link;
}

struct check_stream *check_stream_of_link(struct list *link) {
    return list_entry(link, struct check_stream, link);
}
