#include "checks/check_network.h"

#include "checks/check_stream.h"
#include "checks/check_target.h"

#include <stdlib.h>

/* A connection is kept so long that checks of one target share it, and not so long that a check
 * alone would never see whether its target still accepts. */
enum { IDLE_MAX = 64, IDLE_MS = 1500 };

struct check_network *check_network_create(uv_loop_t *loop,
                                           const struct check_network_options *options) {
    struct check_network *network = calloc(1, sizeof *network);
    if (network == NULL || (network->read_buffer = malloc(CHECK_READ_SIZE)) == NULL) {
        abort();
    }
    network->loop = loop;
    network->resolver = check_resolver_create(loop);
    network->tls = check_tls_create(loop, options->ca_file);
    network->commands = check_commands_create(loop, &options->commands);
    network->allowed = options->allowed;
    network->sockets_max = options->sockets_max;
    list_init(&network->idle);
    return network;
}

static void free_network(struct check_network *network) {
    check_tls_destroy(network->tls);
    free(network->read_buffer);
    free(network);
}

void check_network_destroy(struct check_network *network) {
    check_network_close_idle(network, true);
    check_resolver_destroy(network->resolver);
    check_commands_destroy(network->commands);
    network->is_destroyed = true;
    if (network->n_sockets == 0) {
        free_network(network);
    }
}

void check_network_release_socket(struct check_network *network) {
    network->n_sockets--;
    if (network->is_destroyed && network->n_sockets == 0) {
        free_network(network);
    }
}

bool check_network_is_ready(struct check_network *network, const struct registry_check *check) {
    struct check_target target;
    const char *reason = NULL;
    bool is_of_network = check->kind == REGISTRY_CHECK_HTTP || check->kind == REGISTRY_CHECK_TCP ||
                         check->kind == REGISTRY_CHECK_GRPC;
    if (!is_of_network || !check_target_parse(check, &target, &reason) || !target.is_tls) {
        return true;
    }
    struct check_tls_kind kind = {.skips_verification = check->skips_verification,
                                  .is_http2 = check->kind == REGISTRY_CHECK_GRPC};
    return check_tls_prepare(network->tls, kind);
}

/* ---- idle connections ---- */

static void close_idle_stream(struct check_stream *stream) {
    struct check_network *network = check_stream_context(stream);
    network->n_idle--;
    check_stream_close(stream);
}

static void on_idle_bytes(struct check_stream *stream, struct bytes bytes) {
    (void)bytes; /* nothing was asked */
    close_idle_stream(stream);
}

static void on_idle_end(struct check_stream *stream, const char *reason) {
    (void)reason;
    close_idle_stream(stream);
}

static const struct check_stream_events idle_events = {
    .on_bytes = on_idle_bytes,
    .on_end = on_idle_end,
};

struct check_stream *check_network_take_idle(struct check_network *network,
                                             const struct check_stream_options *options,
                                             const struct check_stream_events *events,
                                             void *context) {
    for (struct list *link = network->idle.previous; link != &network->idle;
         link = link->previous) {
        struct check_stream *stream = check_stream_of_link(link);
        if (check_stream_is_for(stream, options)) {
            list_remove(link);
            network->n_idle--;
            check_stream_give(stream, events, context);
            return stream;
        }
    }
    return NULL;
}

static struct check_stream *oldest_idle(struct check_network *network) {
    return list_is_empty(&network->idle) ? NULL : check_stream_of_link(network->idle.next);
}

void check_network_put_idle(struct check_network *network, struct check_stream *stream) {
    check_stream_give(stream, &idle_events, network);
    check_stream_mark(stream, uv_now(network->loop));
    list_append(&network->idle, check_stream_link(stream));
    network->n_idle++;
    if (network->n_idle > IDLE_MAX || network->n_sockets > network->sockets_max) {
        close_idle_stream(oldest_idle(network));
    }
}

bool check_network_make_room(struct check_network *network) {
    if (network->n_sockets >= network->sockets_max && network->n_idle > 0) {
        close_idle_stream(oldest_idle(network));
    }
    return network->n_sockets < network->sockets_max;
}

void check_network_close_idle(struct check_network *network, bool all) {
    uint64_t now_ms = uv_now(network->loop);
    struct check_stream *stream;
    while ((stream = oldest_idle(network)) != NULL &&
           (all || check_stream_marked(stream) + IDLE_MS <= now_ms)) {
        close_idle_stream(stream);
    }
}
