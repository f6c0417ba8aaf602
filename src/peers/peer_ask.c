#include "peers/peer_ask.h"

#include "peers/peer_dial.h"

#include <stdlib.h>

struct peer_ask {
    struct peer_pool pool;
    struct peer_dial *dial;
    uv_timer_t timer;
    void (*done)(void *data, struct bytes body, const char *reason);
    void *data;
};

static void gone(void *data) {
    struct peer_ask *ask = data;
    peer_pool_clear(&ask->pool);
    free(ask);
}

static void timer_closed(uv_handle_t *handle) {
    struct peer_ask *ask = handle->data;
    peer_handles_remove(&ask->pool.handles);
}

void peer_ask_cancel(struct peer_ask *ask) {
    if (ask->dial != NULL) {
        peer_dial_cancel(ask->dial);
        ask->dial = NULL;
    }
    uv_close((uv_handle_t *)&ask->timer, timer_closed);
}

static void dialled(void *data, const struct peer_dial_result *result) {
    struct peer_ask *ask = data;
    ask->dial = NULL;
    if (result->connection != NULL) {
        peer_connection_close(result->connection);
    }
    peer_ask_cancel(ask);
    ask->done(ask->data, result->payload, result->reason);
}

static void timed_out(uv_timer_t *timer) {
    struct peer_ask *ask = timer->data;
    peer_ask_cancel(ask);
    ask->done(ask->data, bytes_of(NULL, 0), "no answer in time");
}

struct peer_ask *peer_ask_start(uv_loop_t *loop, const struct peer_ask_options *options,
                                void (*done)(void *data, struct bytes body, const char *reason),
                                void *data) {
    struct peer_ask *ask = calloc(1, sizeof *ask);
    if (ask == NULL) {
        abort();
    }
    ask->done = done;
    ask->data = data;
    peer_pool_init(&ask->pool, loop, gone, ask);
    uv_timer_init(loop, &ask->timer);
    ask->timer.data = ask;
    peer_handles_add(&ask->pool.handles);
    uv_timer_start(&ask->timer, timed_out,
                   options->timeout_ms != 0 ? options->timeout_ms : PEER_ASK_TIMEOUT_MS, 0);
    const struct peer_hello hello = {.from_id = options->id, .purpose = PEER_TO_ASK};
    const struct peer_dial_options dial = {.pool = &ask->pool,
                                           .tls = options->tls,
                                           .secret = options->secret,
                                           .address = options->address,
                                           .hello = &hello};
    ask->dial = peer_dial_start(&dial, dialled, ask);
    return ask;
}
