#include "peers/peer_dial.h"

#include "base/log.h"
#include "peers/peer_address.h"
#include "peers/peer_handshake.h"
#include "tls/tls_crypto.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct peer_dial {
    struct peer_pool *pool;
    struct tls_context *tls;
    struct bytes secret;
    struct host_port address;
    struct peer_hello hello;
    struct peer_addresses *told_addresses;
    struct peer_addresses addresses;
    unsigned n_attempts;
    size_t next; /* address to be tried when this one fails */
    struct peer_lookup *lookup;
    struct peer_connection *connection;
    struct peer_caller caller;
    bool is_calling;
    bool is_over;
    uv_timer_t timer;
    const char *failure; /* to be told by the timer */
    void (*done)(void *data, const struct peer_dial_result *result);
    void *data;
};

/* --- The end. --- */

static void timer_closed(uv_handle_t *handle) {
    struct peer_dial *dial = handle->data;
    struct peer_pool *pool = dial->pool;
    peer_caller_clear(&dial->caller);
    free(dial);
    peer_handles_remove(&pool->handles);
}

static void release(struct peer_dial *dial) {
    dial->is_over = true;
    if (dial->lookup != NULL) {
        peer_lookup_abandon(dial->lookup);
        dial->lookup = NULL;
    }
    if (dial->connection != NULL) {
        peer_connection_close(dial->connection);
        dial->connection = NULL;
    }
    uv_close((uv_handle_t *)&dial->timer, timer_closed);
}

void peer_dial_cancel(struct peer_dial *dial) {
    assert(!dial->is_over);
    release(dial);
}

static void fail(struct peer_dial *dial, const char *reason) {
    const struct peer_dial_result result = {.reason = reason};
    release(dial);
    dial->done(dial->data, &result);
}

static void timed_out(uv_timer_t *timer) {
    struct peer_dial *dial = timer->data;
    fail(dial, dial->failure != NULL ? dial->failure : "no answer in time");
}

/* Told by the timer, so never from inside. */
static void fail_soon(struct peer_dial *dial, const char *reason) {
    dial->failure = reason;
    uv_timer_start(&dial->timer, timed_out, 0, 0);
}

/* --- The handshake. --- */

static void answered(struct peer_dial *dial) {
    struct peer_dial_result result = {.answer = dial->caller.answer,
                                      .reason = dial->caller.reason,
                                      .is_proven = true,
                                      .payload = dial->caller.payload};
    if (result.answer == PEER_WELCOME) {
        result.connection = dial->connection;
        dial->connection = NULL;
    }
    release(dial);
    dial->done(dial->data, &result);
}

static void refused(struct peer_dial *dial) {
    const struct peer_dial_result result = {.answer = dial->caller.answer,
                                            .reason = dial->caller.reason};
    release(dial);
    dial->done(dial->data, &result);
}

static size_t received(void *owner, struct bytes bytes) {
    struct peer_dial *dial = owner;
    struct peer_connection *connection = dial->connection;
    size_t used = 0;
    enum peer_step step =
        peer_caller_feed(&dial->caller, bytes, &used, peer_connection_queue(connection));
    switch (step) {
    case PEER_STEP_MORE:
        peer_connection_flush(connection);
        break;
    case PEER_STEP_DONE:
        answered(dial);
        break;
    case PEER_STEP_REFUSED:
        refused(dial);
        break;
    }
    return used;
}

static void ready(void *owner) {
    struct peer_dial *dial = owner;
    struct buffer *queue = peer_connection_queue(dial->connection);
    tls_random(dial->hello.nonce, sizeof dial->hello.nonce);
    peer_caller_init(&dial->caller, dial->secret, &dial->hello, queue);
    struct peer_binding *binding = &dial->caller.binding;
    binding->size =
        peer_connection_binding(dial->connection, binding->bytes) ? sizeof binding->bytes : 0;
    dial->is_calling = true;
    peer_connection_flush(dial->connection);
}

/* --- Reaching the peer. --- */

static void connect_to_next(struct peer_dial *dial);

static void ended(void *owner, const char *reason) {
    struct peer_dial *dial = owner;
    dial->connection = NULL;
    /* A peer need not listen on all addresses of its name. */
    if (!dial->is_calling && dial->next < dial->addresses.n) {
        connect_to_next(dial);
    } else {
        fail(dial, reason);
    }
}

static const struct peer_connection_events dial_events = {
    .ready = ready, .received = received, .ended = ended};

static const struct sockaddr_storage *next_address(struct peer_dial *dial) {
    size_t at = (dial->n_attempts + dial->next++) % dial->addresses.n;
    return &dial->addresses.at[at];
}

static void connect_to_next(struct peer_dial *dial) {
    const char *reason = "the address cannot be used";
    while (dial->connection == NULL && dial->next < dial->addresses.n) {
        struct tls_stream *tls = NULL;
        if (dial->tls != NULL) {
            tls = tls_stream_connect(dial->tls, dial->address.host);
            if (tls == NULL) {
                reason = "the host's name cannot be used with TLS";
                break;
            }
        }
        dial->connection = peer_connection_connect(dial->pool, next_address(dial), tls,
                                                   &dial_events, dial, &reason);
    }
    if (dial->connection == NULL) {
        fail_soon(dial, reason);
        return;
    }
    peer_connection_set_limit(dial->connection, PEER_PAYLOAD_SIZE_MAX + PEER_HELLO_SIZE_MAX);
}

static void begin(struct peer_dial *dial) {
    if (dial->told_addresses != NULL) {
        *dial->told_addresses = dial->addresses;
    }
    uv_timer_start(&dial->timer, timed_out, PEER_DIAL_TIMEOUT_MS, 0);
    connect_to_next(dial);
}

static void lookup_is_slow(uv_timer_t *timer) {
    const struct peer_dial *dial = timer->data;
    log_warning("looking up a peer's name takes long", LOG_TEXT("host", dial->address.host));
}

static void looked_up(void *data, const struct peer_addresses *addresses) {
    struct peer_dial *dial = data;
    dial->lookup = NULL;
    if (addresses->n == 0) {
        fail(dial, "the host's name is not known");
        return;
    }
    dial->addresses = *addresses;
    begin(dial);
}

/* Whoever listens there is a process of this machine: its certificate is for localhost. */
static void dial_path(struct peer_dial *dial, const char *path) {
    strcpy(dial->address.host, "localhost");
    if (peer_address_of_path(path, &dial->addresses.at[0]) != 0) {
        fail_soon(dial, "the path of a Unix socket has 1 to 107 bytes");
        return;
    }
    dial->addresses.n = 1;
    begin(dial);
}

struct peer_dial *peer_dial_start(const struct peer_dial_options *options,
                                  void (*done)(void *data, const struct peer_dial_result *result),
                                  void *data) {
    struct peer_dial *dial = calloc(1, sizeof *dial);
    if (dial == NULL) {
        abort();
    }
    *dial = (struct peer_dial){.pool = options->pool,
                               .tls = options->tls,
                               .secret = options->secret,
                               .hello = *options->hello,
                               .told_addresses = options->addresses,
                               .n_attempts = options->n_attempts,
                               .done = done,
                               .data = data};
    uv_timer_init(dial->pool->loop, &dial->timer);
    dial->timer.data = dial;
    peer_handles_add(&dial->pool->handles);
    const char *reason = NULL;
    const char *path = peer_address_path(options->address);
    if (path != NULL) {
        dial_path(dial, path);
    } else if (host_port_parse(bytes_from_text(options->address), 0, &dial->address, &reason) !=
               STATUS_OK) {
        fail_soon(dial, "the address is not host:port");
    } else if (peer_address_in_figures(&dial->address, &dial->addresses.at[0]) == 0) {
        dial->addresses.n = 1;
        begin(dial);
    } else {
        dial->lookup = peer_lookup_start(dial->pool->loop, &dial->pool->handles, &dial->address,
                                         looked_up, dial);
        if (dial->lookup == NULL) {
            fail_soon(dial, "no thread could be started to look up the host's name");
        } else {
            uv_timer_start(&dial->timer, lookup_is_slow, PEER_DIAL_TIMEOUT_MS, 0);
        }
    }
    return dial;
}
