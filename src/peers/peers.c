/* The life of the links between members: opening, the tick, closing. */
#include "peers/peers.h"

#include "peers/peer_address.h"
#include "peers/peer_ask.h"
#include "peers/peers_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PEERS_BACKLOG = 1024 };

struct peer_hello peers_hello(const struct peers *peers, uint64_t to_id) {
    struct peer_hello hello = {.cluster_id = peers->options.cluster_id,
                               .from_id = peers->options.self_id,
                               .to_id = to_id,
                               .data_dir_id = peers->options.data_dir_id,
                               .heartbeat_ms = peers->options.heartbeat_ms,
                               .election_ms = peers->options.election_ms,
                               .purpose = PEER_FOR_LINK};
    memcpy(hello.address, peers->address, sizeof hello.address);
    return hello;
}

static void tick(uv_timer_t *timer) {
    struct peers *peers = timer->data;
    uint64_t now_ms = uv_now(peers->pool.loop);
    inbound_peers_tick(peers, now_ms);
    peer_links_tick(peers, now_ms);
}

/* --- Opening. --- */

/* A socket of the system's that listens, -1 with errno otherwise. Before anything is given to the
 * loop, so that a failure leaves nothing on it. */
static int open_listener(const struct sockaddr_storage *address) {
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t size =
        address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    if (fd < 0) {
        return -1;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) != 0 ||
        bind(fd, (const struct sockaddr *)address, size) != 0 || listen(fd, PEERS_BACKLOG) != 0) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

/* What was opened, before the loop has any of it. */
struct places {
    size_t n;
    int sockets[PEERS_LISTENERS_MAX];
    struct peers_file files[PEERS_LISTENERS_MAX];
};

/* A uv error, or 0. */
static int open_place(const char *host, uint16_t port, struct places *places) {
    struct peers_file *file = &places->files[places->n];
    const char *path = peer_address_path(host);
    struct sockaddr_storage address;
    int rv = path != NULL ? peer_address_of_path(path, &address)
                          : peer_address_resolve(host, port, &address);
    if (rv != 0) {
        return rv;
    }
    int fd = path != NULL ? unix_socket_listen(path, PEERS_BACKLOG, &file->file)
                          : open_listener(&address);
    if (fd < 0) {
        return uv_translate_sys_error(errno);
    }
    if (path != NULL) {
        strcpy(file->path, path);
    }
    places->sockets[places->n++] = fd;
    return 0;
}

static void remove_files(const struct peers_file *files) {
    for (size_t i = 0; i < PEERS_LISTENERS_MAX; i++) {
        if (files[i].path[0] != '\0') {
            unix_socket_remove(files[i].path, &files[i].file);
        }
    }
}

static void close_places(struct places *places) {
    while (places->n > 0) {
        close(places->sockets[--places->n]);
    }
    remove_files(places->files);
}

/* All of them or none. */
static enum status open_places(const struct peers_options *options, struct places *places,
                               char *out_error, size_t error_size) {
    size_t n = options->listen_host != NULL ? 1 + options->n_more_places : 0;
    assert(n <= PEERS_LISTENERS_MAX);
    for (size_t i = 0; i < n; i++) {
        const struct host_port *more = i > 0 ? &options->more_places[i - 1] : NULL;
        const char *host = more != NULL ? more->host : options->listen_host;
        uint16_t port = more != NULL ? more->port : options->listen_port;
        int rv = open_place(host, port, places);
        if (rv != 0) {
            char text[HOST_PORT_TEXT_SIZE_MAX];
            snprintf(out_error, error_size, "cannot listen for peers on %s: %s",
                     peer_address_path(host) != NULL ? host : host_port_format(host, port, text),
                     uv_strerror(rv));
            close_places(places);
            return STATUS_IO;
        }
    }
    return STATUS_OK;
}

static void gone(void *data) {
    struct peers *peers = data;
    void (*closed)(void *data) = peers->closed;
    void *closed_data = peers->closed_data;
    inbound_peers_free_ended(peers);
    tls_context_destroy(peers->tls);
    peer_pool_clear(&peers->pool);
    free(peers);
    if (closed != NULL) {
        closed(closed_data);
    }
}

static void handle_closed(uv_handle_t *handle) {
    struct peers *peers = handle->data;
    peer_handles_remove(&peers->pool.handles);
}

static struct peers *create(uv_loop_t *loop, const struct peers_options *options,
                            const struct places *places, const struct peers_callbacks *callbacks,
                            void *data) {
    struct peers *peers = calloc(1, sizeof *peers);
    if (peers == NULL) {
        abort();
    }
    peers->options = *options;
    peers->callbacks = *callbacks;
    peers->data = data;
    snprintf(peers->address, sizeof peers->address, "%s",
             options->address != NULL ? options->address : "");
    list_init(&peers->links);
    list_init(&peers->inbound);
    list_init(&peers->unproven);
    list_init(&peers->ended);
    large_frames_init(&peers->large_frames);
    peer_pool_init(&peers->pool, loop, gone, peers);
    uv_timer_init(loop, &peers->tick);
    memcpy(peers->files, places->files, sizeof peers->files);
    for (size_t i = 0; i < PEERS_LISTENERS_MAX; i++) {
        if (peers->files[i].path[0] != '\0') {
            uv_pipe_init(loop, &peers->listeners[i].pipe, 0);
        } else {
            uv_tcp_init(loop, &peers->listeners[i].tcp);
        }
        peers->listeners[i].handle.data = peers;
        peer_handles_add(&peers->pool.handles);
    }
    uv_prepare_init(loop, &peers->next_iteration);
    peers->tick.data = peers;
    peers->next_iteration.data = peers;
    for (unsigned i = 0; i < 2; i++) {
        peer_handles_add(&peers->pool.handles);
    }
    uv_timer_start(&peers->tick, tick, PEERS_TICK_MS, PEERS_TICK_MS);
    return peers;
}

enum status peers_open(uv_loop_t *loop, const struct peers_options *options,
                       const struct peers_callbacks *callbacks, void *data,
                       struct peers **out_peers, char *out_error, size_t error_size) {
    struct tls_context *tls = NULL;
    struct places places = {0};
    if (options->tls != NULL) {
        enum status status = tls_context_create(options->tls, &tls, out_error, error_size);
        if (status != STATUS_OK) {
            return status;
        }
    }
    enum status status = open_places(options, &places, out_error, error_size);
    if (status != STATUS_OK) {
        tls_context_destroy(tls);
        return status;
    }
    struct peers *peers = create(loop, options, &places, callbacks, data);
    peers->tls = tls;
    int rv = 0;
    for (size_t i = 0; i < places.n; i++) {
        int one = inbound_peers_listen(peers, i, places.sockets[i]);
        rv = rv != 0 ? rv : one;
    }
    if (rv != 0) {
        snprintf(out_error, error_size, "cannot listen for peers: %s", uv_strerror(rv));
        peers_close(peers, NULL, NULL);
        return STATUS_IO;
    }
    *out_peers = peers;
    return STATUS_OK;
}

/* --- Closing. --- */

void peers_close(struct peers *peers, void (*closed)(void *data), void *data) {
    assert(!peers->is_closing);
    peers->is_closing = true;
    peers->closed = closed;
    peers->closed_data = data;
    peer_links_close(peers);
    inbound_peers_close(peers);
    for (size_t i = 0; i < PEERS_LISTENERS_MAX; i++) {
        uv_close(&peers->listeners[i].handle, handle_closed);
    }
    remove_files(peers->files);
    uv_close((uv_handle_t *)&peers->tick, handle_closed);
    uv_close((uv_handle_t *)&peers->next_iteration, handle_closed);
}

struct peer_ask *peers_ask(struct peers *peers, const char *address,
                           void (*done)(void *data, struct bytes body, const char *reason),
                           void *data) {
    const struct peer_ask_options options = {.address = address,
                                             .id = peers->options.self_id,
                                             .tls = peers->tls,
                                             .secret = peers->options.secret};
    return peer_ask_start(peers->tick.loop, &options, done, data);
}

uint64_t peers_n_refused(const struct peers *peers) {
    return peers->refusals.n_refused;
}
