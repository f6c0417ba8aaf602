#include "replication/peers.h"

#include "base/arena.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "replication/peer_address.h"
#include "replication/peer_dial.h"
#include "replication/peer_refusals.h"
#include "replication/peer_tls.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PEER_BACKLOG = 128,
    /* Between two attempts to reach a member. */
    PEER_RETRY_MS = 100,
    /* A peer that connects must say hello within this. */
    PEER_HELLO_TIMEOUT_MS = 2000,
    /* Connections that have not said who they are; further ones are closed at once. */
    PEER_STRANGERS_MAX = 64,
    PEER_READ_SIZE = 64 * 1024,
    PEER_FROM_SIZE = 64,
    /* So begins a connection of one who wants TLS. */
    PEER_TLS_RECORD = 0x16,
    /* Members that were removed, of those that this process has known. */
    PEERS_FORGOTTEN_MAX = 64,
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

/* A connection from a peer: a stranger until its hello is read, then its link to us. */
struct peer_visitor {
    struct peers *peers;
    struct list in_visitors;
    uv_stream_t *stream;  /* NULL while TLS has the socket, and when it was given away */
    struct peer_tls *tls; /* watched over while this is a stranger */
    char from[PEER_FROM_SIZE];
    uv_timer_t timer;
    uint64_t id; /* 0: a stranger */
    uint64_t birth;
    char address[PEER_ADDRESS_SIZE_MAX + 1];
    struct buffer received;
    bool is_closing;
};

struct peers {
    uv_loop_t *loop;
    struct peers_options options;
    const struct peers_callbacks *callbacks;
    void *data;
    uv_tcp_t listener;
    uv_timer_t retry;
    struct list links;
    struct list visitors;
    size_t n_strangers;
    struct peer_tls_context *tls; /* NULL: plain text */
    struct peer_refusals refusals;
    size_t n_forgotten;
    uint64_t forgotten[PEERS_FORGOTTEN_MAX];
    struct arena arena;
    uint8_t *read_buffer;
    bool is_listening;
    bool is_closing;
    size_t n_handles; /* that must close before the object may go */
    void (*closed)(void *data);
    void *closed_data;
};

static void maybe_closed(struct peers *peers) {
    if (!peers->is_closing || peers->n_handles > 0) {
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
    struct peers *peers = handle->data;
    peers->n_handles--;
    maybe_closed(peers);
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
    peers->n_handles--;
    maybe_closed(peers);
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

/* --- Visitors: from them to us. --- */

static void visitor_freed(uv_handle_t *handle) {
    struct peer_visitor *visitor = handle->data;
    struct peers *peers = visitor->peers;
    buffer_clear(&visitor->received);
    free(visitor);
    peers->n_handles--;
    maybe_closed(peers);
}

static void visitor_stream_closed(uv_handle_t *handle) {
    struct peer_visitor *visitor = handle->data;
    free(handle);
    uv_close((uv_handle_t *)&visitor->timer, visitor_freed);
}

static void visitor_let_tls_go(struct peer_visitor *visitor) {
    if (visitor->tls != NULL) {
        peer_tls_release(visitor->tls);
        visitor->tls = NULL;
    }
}

/* Ends a visit; the stream goes along unless it was given away. */
static void visitor_end(struct peer_visitor *visitor) {
    if (visitor->is_closing) {
        return;
    }
    visitor->is_closing = true;
    list_remove(&visitor->in_visitors);
    visitor->peers->n_strangers -= visitor->id == 0;
    uv_timer_stop(&visitor->timer);
    visitor_let_tls_go(visitor);
    if (visitor->stream != NULL) {
        uv_close((uv_handle_t *)visitor->stream, visitor_stream_closed);
    } else {
        uv_close((uv_handle_t *)&visitor->timer, visitor_freed);
    }
}

/* `address` is where it says that it listens; "" before it said so. */
static void visitor_refuse(struct peer_visitor *visitor, const char *address, const char *reason) {
    struct peers *peers = visitor->peers;
    if (peer_refusals_note(&peers->refusals, visitor->from, reason, uv_now(peers->loop))) {
        log_warning("peer refused", LOG_TEXT("from", visitor->from), LOG_TEXT("address", address),
                    LOG_TEXT("reason", reason));
    }
    visitor_end(visitor);
}

static void visitor_timed_out(uv_timer_t *timer) {
    visitor_refuse(timer->data, "", "no hello in time");
}

static bool write_answer(struct peer_visitor *visitor, enum peer_answer answer) {
    uint8_t byte = (uint8_t)answer;
    uv_buf_t buffer = uv_buf_init((char *)&byte, 1);
    return uv_try_write(visitor->stream, &buffer, 1) == 1;
}

/* A member has one link to us: an older one is dead, or soon will be. */
static void end_older_visits(struct peers *peers, uint64_t id, const struct peer_visitor *newest) {
    for (struct list *node = peers->visitors.next, *next; node != &peers->visitors; node = next) {
        struct peer_visitor *visitor = list_entry(node, struct peer_visitor, in_visitors);
        next = node->next;
        if (visitor != newest && visitor->id == id) {
            visitor_end(visitor);
        }
    }
}

void peers_check_visitors(struct peers *peers) {
    for (struct list *node = peers->visitors.next, *next; node != &peers->visitors; node = next) {
        struct peer_visitor *visitor = list_entry(node, struct peer_visitor, in_visitors);
        next = node->next;
        if (visitor->id != 0 &&
            peers->callbacks->admit(peers->data, visitor->id, visitor->birth) != PEER_WELCOME) {
            visitor_end(visitor);
        }
    }
}

struct visitor_answer {
    uv_write_t request;
    struct peer_visitor *visitor;
    struct buffer bytes;
};

static void visitor_answered(uv_write_t *request, int status) {
    struct visitor_answer *answer = list_entry(request, struct visitor_answer, request);
    (void)status;
    /* A visitor that ended meanwhile goes only after this. */
    visitor_end(answer->visitor);
    buffer_clear(&answer->bytes);
    free(answer);
}

/* Tells who belongs to the cluster; that ends the visit. */
static void visitor_tell_members(struct peer_visitor *visitor, uint64_t id) {
    struct peers *peers = visitor->peers;
    struct visitor_answer *answer = calloc(1, sizeof *answer);
    if (answer == NULL) {
        abort();
    }
    answer->visitor = visitor;
    buffer_init(&answer->bytes);
    struct peer_frame frame = {.type = PEER_MEMBERS};
    peers->callbacks->asked(peers->data, id, &peers->arena, &frame);
    peer_frame_encode(&answer->bytes, &frame);
    arena_reset(&peers->arena);
    uv_stream_t *stream = visitor->stream;
    uv_buf_t buffer = uv_buf_init((char *)answer->bytes.data, (unsigned)answer->bytes.size);
    uv_read_stop(stream);
    if (uv_write(&answer->request, stream, &buffer, 1, visitor_answered) != 0) {
        visitor_answered(&answer->request, UV_EIO);
    }
}

/* True when the hello is complete and welcome; the visitor may have ended otherwise. */
static bool visitor_greet(struct peer_visitor *visitor) {
    struct peers *peers = visitor->peers;
    struct bytes received = bytes_of(visitor->received.data, visitor->received.size);
    if (received.size < PEER_HELLO_PREFIX_SIZE) {
        return false;
    }
    size_t size = peer_hello_size(received);
    if (size == 0) {
        visitor_refuse(visitor, "",
                       received.data[0] == PEER_TLS_RECORD && peers->tls == NULL
                           ? peer_answer_text(PEER_SPEAKS_TLS)
                           : "what it says is not a hello");
        return false;
    }
    if (received.size < size) {
        return false;
    }
    struct peer_hello hello;
    enum peer_answer answer = peer_hello_decode(
        bytes_of(received.data, size), peers->options.cluster_id, peers->options.self_id, &hello);
    bool is_question = hello.purpose == PEER_TO_ASK;
    if (answer == PEER_WELCOME && !is_question) {
        answer = hello.from_id == peers->options.self_id
                     ? PEER_NOT_A_MEMBER
                     : peers->callbacks->admit(peers->data, hello.from_id, hello.birth);
    }
    bool is_told = write_answer(visitor, answer);
    if (answer != PEER_WELCOME) {
        visitor_refuse(visitor, hello.address, peer_answer_text(answer));
        return false;
    }
    if (!is_told) {
        visitor_end(visitor);
        return false;
    }
    if (is_question) {
        visitor_tell_members(visitor, hello.from_id);
        return false;
    }
    uv_timer_stop(&visitor->timer);
    visitor_let_tls_go(visitor);
    peers->n_strangers--;
    visitor->id = hello.from_id;
    visitor->birth = hello.birth;
    memcpy(visitor->address, hello.address, sizeof visitor->address);
    memmove(visitor->received.data, visitor->received.data + size, received.size - size);
    visitor->received.size -= size;
    if (hello.purpose == PEER_FOR_RAFT) {
        /* Raft sends nothing before our answer, so there is nothing left over to hand on. */
        uv_stream_t *stream = visitor->stream;
        bool is_clean = visitor->received.size == 0;
        uv_read_stop(stream);
        if (is_clean) {
            visitor->stream = NULL;
            peers->callbacks->raft_accepted(peers->data, visitor->id, visitor->address, stream);
        }
        visitor_end(visitor);
        return false;
    }
    end_older_visits(peers, visitor->id, visitor);
    return true;
}

static void visitor_take_frames(struct peer_visitor *visitor) {
    struct peers *peers = visitor->peers;
    struct bytes left = bytes_of(visitor->received.data, visitor->received.size);
    enum status status = STATUS_OK;
    while (status == STATUS_OK && !peers->is_closing) {
        struct peer_frame frame;
        status = peer_frame_decode(&left, &peers->arena, &frame);
        if (status == STATUS_OK) {
            peers->callbacks->frame(peers->data, visitor->id, &frame);
        }
        arena_reset(&peers->arena);
    }
    if (status == STATUS_MALFORMED || status == STATUS_REQUEST_TOO_LARGE) {
        log_warning("peer sent nonsense", LOG_TEXT("address", visitor->address));
        visitor_end(visitor);
        return;
    }
    memmove(visitor->received.data, left.data, left.size);
    visitor->received.size = left.size;
}

static void visitor_give_room(uv_handle_t *handle, size_t suggested, uv_buf_t *out_buffer) {
    struct peer_visitor *visitor = handle->data;
    (void)suggested;
    *out_buffer = uv_buf_init((char *)visitor->peers->read_buffer, PEER_READ_SIZE);
}

static void visitor_read(uv_stream_t *stream, ssize_t size, const uv_buf_t *buffer) {
    struct peer_visitor *visitor = stream->data;
    if (size == 0) {
        return;
    }
    if (size < 0) {
        visitor_end(visitor);
        return;
    }
    buffer_append(&visitor->received, buffer->base, (size_t)size);
    if (visitor->id == 0 && !visitor_greet(visitor)) {
        return;
    }
    visitor_take_frames(visitor);
}

static void visitor_tls_agreed(void *data, uv_stream_t *stream, const char *reason) {
    struct peer_visitor *visitor = data;
    if (stream == NULL) {
        visitor_refuse(visitor, "", reason);
        return;
    }
    visitor->stream = stream;
    stream->data = visitor;
    if (uv_read_start(stream, visitor_give_room, visitor_read) != 0) {
        visitor_end(visitor);
    }
}

/* False: it cannot begin. */
static bool visitor_begin(struct peer_visitor *visitor) {
    struct peers *peers = visitor->peers;
    if (peers->tls == NULL) {
        return uv_read_start(visitor->stream, visitor_give_room, visitor_read) == 0;
    }
    SSL *ssl = peer_tls_context_accept(peers->tls);
    int socket = peer_tls_take_socket((uv_tcp_t *)visitor->stream);
    visitor->stream = NULL;
    visitor->tls = peer_tls_start(peers->loop, ssl, socket, visitor_tls_agreed, visitor);
    return visitor->tls != NULL;
}

static void name_origin(const uv_tcp_t *tcp, char out_from[PEER_FROM_SIZE]) {
    struct sockaddr_storage address;
    int size = sizeof address;
    snprintf(out_from, PEER_FROM_SIZE, "unknown");
    if (uv_tcp_getpeername(tcp, (struct sockaddr *)&address, &size) == 0) {
        (void)uv_ip_name((const struct sockaddr *)&address, out_from, PEER_FROM_SIZE);
    }
}

static void listener_called(uv_stream_t *listener, int status) {
    struct peers *peers = listener->data;
    if (status != 0 || peers->is_closing) {
        return;
    }
    struct peer_visitor *visitor = calloc(1, sizeof *visitor);
    uv_tcp_t *tcp = calloc(1, sizeof *tcp);
    if (visitor == NULL || tcp == NULL) {
        abort();
    }
    visitor->peers = peers;
    visitor->stream = (uv_stream_t *)tcp;
    buffer_init(&visitor->received);
    uv_tcp_init(peers->loop, tcp);
    uv_timer_init(peers->loop, &visitor->timer);
    tcp->data = visitor;
    visitor->timer.data = visitor;
    peers->n_handles++;
    peers->n_strangers++;
    list_append(&peers->visitors, &visitor->in_visitors);
    if (uv_accept(listener, visitor->stream) != 0 || peers->n_strangers > PEER_STRANGERS_MAX) {
        visitor_end(visitor);
        return;
    }
    uv_tcp_nodelay(tcp, 1);
    name_origin(tcp, visitor->from);
    uv_timer_start(&visitor->timer, visitor_timed_out, PEER_HELLO_TIMEOUT_MS, 0);
    if (!visitor_begin(visitor)) {
        visitor_end(visitor);
    }
}

/* --- Life. --- */

static enum status listen_on(struct peers *peers, char *out_error, size_t error_size) {
    struct sockaddr_storage address;
    char text[PEER_ADDRESS_SIZE_MAX + 16];
    snprintf(text, sizeof text, "%s:%u", peers->options.listen_host, peers->options.listen_port);
    int rv = peer_address_resolve(text, &address);
    if (rv == 0) {
        rv = uv_tcp_bind(&peers->listener, (const struct sockaddr *)&address, 0);
    }
    if (rv == 0) {
        rv = uv_listen((uv_stream_t *)&peers->listener, PEER_BACKLOG, listener_called);
    }
    if (rv != 0) {
        snprintf(out_error, error_size, "cannot listen for peers on %s: %s", text, uv_strerror(rv));
        return STATUS_IO;
    }
    peers->is_listening = true;
    return STATUS_OK;
}

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
    return options->listen_host == NULL ? STATUS_OK : listen_on(peers, out_error, error_size);
}

void peers_close(struct peers *peers, void (*closed)(void *data), void *data) {
    peers->is_closing = true;
    peers->closed = closed;
    peers->closed_data = data;
    for (struct list *node = peers->links.next, *next; node != &peers->links; node = next) {
        next = node->next;
        link_remove(list_entry(node, struct peer_link, in_links));
    }
    for (struct list *node = peers->visitors.next, *next; node != &peers->visitors; node = next) {
        next = node->next;
        visitor_end(list_entry(node, struct peer_visitor, in_visitors));
    }
    uv_close((uv_handle_t *)&peers->listener, own_handle_closed);
    uv_close((uv_handle_t *)&peers->retry, own_handle_closed);
}
