#include "replication/peers_internal.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "replication/peer_address.h"
#include "replication/peer_dial.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* Between two attempts to reach a member. */
    PEER_RETRY_MS = 100,
    /* Bytes waiting on a link; above, frames are refused. */
    PEER_QUEUE_SIZE_MAX = 32 * 1024 * 1024
};

/* Our link to a member. */
struct peer_link {
    struct peers *peers;
    struct list in_links;
    uint64_t id;
    char address[PEER_ADDRESS_SIZE_MAX + 1];
    struct peer_dial *dial; /* under way */
    uv_stream_t *stream;    /* connected */
    struct buffer queue;    /* to be written at the next flush */
    size_t in_flight;       /* bytes given to libuv */
    uint64_t retry_ms;      /* not before this */
    const char *last_reason;
    bool is_removed;
};

void peers_handle_closed(struct peers *peers) {
    if (--peers->n_handles > 0 || !peers->is_closing) {
        return;
    }
    void (*closed)(void *data) = peers->closed;
    void *data = peers->closed_data;
    arena_clear(&peers->arena);
    peer_tls_context_destroy(peers->tls);
    free(peers->read_buffer);
    free(peers);
    closed(data);
}

static void own_handle_closed(uv_handle_t *handle) {
    peers_handle_closed(handle->data);
}

/* --- Links: from us to them. --- */

static struct peer_hello hello_to(const struct peers *peers, uint64_t id,
                                  enum peer_purpose purpose) {
    struct peer_hello hello = {.cluster_id = peers->options.cluster_id,
                               .from_id = peers->options.self_id,
                               .to_id = id,
                               .birth = peers->options.birth,
                               .purpose = purpose};
    snprintf(hello.address, sizeof hello.address, "%s", peers->options.address);
    return hello;
}

static void link_free_if_done(struct peer_link *link) {
    if (link->is_removed && link->dial == NULL && link->stream == NULL) {
        list_remove(&link->in_links);
        buffer_clear(&link->queue);
        free(link);
    }
}

static void link_stream_closed(uv_handle_t *handle) {
    struct peers *peers = handle->data;
    free(handle);
    peers_handle_closed(peers);
}

static void link_lose(struct peer_link *link, const char *reason) {
    if (link->stream == NULL) {
        return;
    }
    struct peers *peers = link->peers;
    uv_stream_t *stream = link->stream;
    link->stream = NULL;
    link->queue.size = 0;
    link->in_flight = 0;
    link->retry_ms = uv_now(peers->loop) + PEER_RETRY_MS;
    stream->data = peers;
    uv_close((uv_handle_t *)stream, link_stream_closed);
    if (!peers->is_closing) {
        log_info("peer link lost", LOG_TEXT("address", link->address), LOG_TEXT("reason", reason));
        peers->callbacks->link_lost(peers->data, link->id);
    }
}

static void link_give_room(uv_handle_t *handle, size_t suggested, uv_buf_t *out_buffer) {
    static char nothing[16];
    (void)handle;
    (void)suggested;
    *out_buffer = uv_buf_init(nothing, sizeof nothing);
}

/* The other side never sends on our link: only its end is of interest. */
static void link_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer) {
    (void)buffer;
    if (size != 0) {
        link_lose(stream->data, size < 0 ? uv_strerror((int)size) : "unexpected bytes");
    }
}

static void link_dialled(void *data, uv_stream_t *stream, const char *reason) {
    struct peer_link *link = data;
    struct peers *peers = link->peers;
    link->dial = NULL;
    if (stream == NULL) {
        link->retry_ms = uv_now(peers->loop) + PEER_RETRY_MS;
        if (link->last_reason == NULL || strcmp(link->last_reason, reason) != 0) {
            log_warning("peer not reached", LOG_TEXT("address", link->address),
                        LOG_TEXT("reason", reason));
        }
        link->last_reason = reason;
        enum peer_answer answer = PEER_WELCOME;
        if (strcmp(reason, peer_answer_text(PEER_REMOVED)) == 0) {
            answer = PEER_REMOVED;
        } else if (strcmp(reason, peer_answer_text(PEER_FORGETFUL)) == 0) {
            answer = PEER_FORGETFUL;
        }
        link_free_if_done(link);
        if (answer != PEER_WELCOME && !peers->is_closing && peers->callbacks->turned_away != NULL) {
            peers->callbacks->turned_away(peers->data, answer);
        }
        return;
    }
    peers->n_handles++;
    link->last_reason = NULL;
    link->stream = stream;
    stream->data = link;
    log_info("peer link open", LOG_TEXT("address", link->address));
    if (link->is_removed || uv_read_start(stream, link_give_room, link_read) != 0) {
        link_lose(link, "removed");
        link_free_if_done(link);
        return;
    }
    if (peers->callbacks->link_opened != NULL) {
        peers->callbacks->link_opened(peers->data, link->id);
    }
}

static void links_retry(uv_timer_t *timer) {
    struct peers *peers = timer->data;
    for (struct list *node = peers->links.next; node != &peers->links; node = node->next) {
        struct peer_link *link = list_entry(node, struct peer_link, in_links);
        if (link->stream == NULL && link->dial == NULL && !link->is_removed &&
            link->retry_ms <= uv_now(peers->loop)) {
            struct peer_hello hello = hello_to(peers, link->id, PEER_FOR_LINK);
            link->dial =
                peer_dial_start(peers->loop, peers->tls, link->address, &hello, link_dialled, link);
        }
    }
}

static struct peer_link *link_find(const struct peers *peers, uint64_t id) {
    for (struct list *node = peers->links.next; node != &peers->links; node = node->next) {
        struct peer_link *link = list_entry(node, struct peer_link, in_links);
        if (link->id == id && !link->is_removed) {
            return link;
        }
    }
    return NULL;
}

static void link_remove(struct peer_link *link) {
    link->is_removed = true;
    if (link->dial != NULL) {
        peer_dial_cancel(link->dial);
        return; /* link_dialled() frees it */
    }
    link_lose(link, "removed");
    link_free_if_done(link);
}

void peers_set_member(struct peers *peers, uint64_t id, const char *address) {
    struct peer_link *link = link_find(peers, id);
    if (link != NULL && strcmp(link->address, address) == 0) {
        return;
    }
    if (link != NULL) {
        link_remove(link);
    }
    link = calloc(1, sizeof *link);
    if (link == NULL) {
        abort();
    }
    link->peers = peers;
    link->id = id;
    snprintf(link->address, sizeof link->address, "%s", address);
    buffer_init(&link->queue);
    list_append(&peers->links, &link->in_links);
    links_retry(&peers->retry);
}

void peers_remove_member(struct peers *peers, uint64_t id) {
    struct peer_link *link = link_find(peers, id);
    if (link != NULL) {
        link_remove(link);
    }
    peers->forgotten[peers->n_forgotten++ % PEERS_FORGOTTEN_MAX] = id;
}

bool peers_is_linked(const struct peers *peers, uint64_t id) {
    struct peer_link *link = link_find(peers, id);
    return link != NULL && link->stream != NULL;
}

bool peers_send(struct peers *peers, uint64_t to_id, const struct peer_frame *frame) {
    struct peer_link *link = link_find(peers, to_id);
    if (link == NULL || link->stream == NULL ||
        link->queue.size + link->in_flight > PEER_QUEUE_SIZE_MAX) {
        return false;
    }
    peer_frame_encode(&link->queue, frame);
    return true;
}

struct link_write {
    uv_write_t request;
    struct peers *peers;
    uint64_t id;
    uv_stream_t *stream;
    size_t size;
    uint8_t bytes[];
};

static void link_written(uv_write_t *request, int status) {
    struct link_write *write = list_entry(request, struct link_write, request);
    struct peer_link *link = link_find(write->peers, write->id);
    /* The link may have been lost, and opened again, since. */
    if (link != NULL && link->stream == write->stream) {
        link->in_flight -= write->size;
        if (status != 0) {
            link_lose(link, uv_strerror(status));
        }
    }
    free(write);
}

static void link_flush(struct peer_link *link) {
    struct link_write *write = malloc(sizeof *write + link->queue.size);
    if (write == NULL) {
        abort();
    }
    write->peers = link->peers;
    write->id = link->id;
    write->stream = link->stream;
    write->size = link->queue.size;
    memcpy(write->bytes, link->queue.data, link->queue.size);
    link->in_flight += link->queue.size;
    link->queue.size = 0;
    uv_buf_t buffer = uv_buf_init((char *)write->bytes, (unsigned)write->size);
    int rv = uv_write(&write->request, link->stream, &buffer, 1, link_written);
    if (rv != 0) {
        free(write);
        link_lose(link, uv_strerror(rv));
    }
}

void peers_flush(struct peers *peers) {
    for (struct list *node = peers->links.next, *next; node != &peers->links; node = next) {
        struct peer_link *link = list_entry(node, struct peer_link, in_links);
        next = node->next;
        if (link->stream != NULL && link->queue.size > 0) {
            link_flush(link);
        }
    }
}

static bool is_forgotten(const struct peers *peers, uint64_t id) {
    for (size_t i = 0; i < PEERS_FORGOTTEN_MAX; i++) {
        if (peers->forgotten[i] == id) {
            return true;
        }
    }
    return false;
}

struct peer_dial *peers_dial_raft(struct peers *peers, uint64_t id, const char *address,
                                  void (*done)(void *data, uv_stream_t *stream, const char *reason),
                                  void *data) {
    struct peer_hello hello = hello_to(peers, id, PEER_FOR_RAFT);
    /* Raft remembers where a member was when it joined, and tries to reach one that was removed for
     * ever; somebody else may be there now. */
    const struct peer_link *link = link_find(peers, id);
    if (link != NULL) {
        address = link->address;
    } else if (is_forgotten(peers, id)) {
        address = "";
    }
    return peer_dial_start(peers->loop, peers->tls, address, &hello, done, data);
}

/* --- Life. --- */

enum status peers_open(uv_loop_t *loop, const struct peers_options *options,
                       const struct peers_callbacks *callbacks, void *data,
                       struct peers **out_peers, char *out_error, size_t error_size) {
    struct peers *peers = calloc(1, sizeof *peers);
    if (peers == NULL) {
        abort();
    }
    *peers = (struct peers){
        .loop = loop, .options = *options, .callbacks = callbacks, .data = data, .n_handles = 2};
    peers->read_buffer = malloc(PEER_READ_SIZE);
    if (peers->read_buffer == NULL) {
        abort();
    }
    arena_init(&peers->arena);
    list_init(&peers->links);
    list_init(&peers->visitors);
    uv_tcp_init(loop, &peers->listener);
    uv_timer_init(loop, &peers->retry);
    peers->listener.data = peers;
    peers->retry.data = peers;
    uv_timer_start(&peers->retry, links_retry, PEER_RETRY_MS, PEER_RETRY_MS);
    *out_peers = peers;
    if (options->tls != NULL) {
        enum status status =
            peer_tls_context_create(options->tls, &peers->tls, out_error, error_size);
        if (status != STATUS_OK) {
            return status;
        }
    }
    return options->listen_host == NULL ? STATUS_OK
                                        : peer_visitors_listen(peers, out_error, error_size);
}

void peers_close(struct peers *peers, void (*closed)(void *data), void *data) {
    peers->is_closing = true;
    peers->closed = closed;
    peers->closed_data = data;
    for (struct list *node = peers->links.next, *next; node != &peers->links; node = next) {
        next = node->next;
        link_remove(list_entry(node, struct peer_link, in_links));
    }
    peer_visitors_end(peers);
    uv_close((uv_handle_t *)&peers->listener, own_handle_closed);
    uv_close((uv_handle_t *)&peers->retry, own_handle_closed);
}
