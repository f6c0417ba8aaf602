/* Connections from peers to us: their hello is judged, and their frames are handed on. */
#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "replication/peer_address.h"
#include "replication/peer_tls.h"
#include "replication/peers_internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PEER_BACKLOG = 128,
    /* A peer that connects must say hello within this. */
    PEER_HELLO_TIMEOUT_MS = 2000,
    /* Connections that have not said who they are; further ones are closed at once. */
    PEER_STRANGERS_MAX = 64,
    PEER_FROM_SIZE = 64,
    /* So begins a connection of one who wants TLS. */
    PEER_TLS_RECORD = 0x16
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

static void visitor_freed(uv_handle_t *handle) {
    struct peer_visitor *visitor = handle->data;
    struct peers *peers = visitor->peers;
    buffer_clear(&visitor->received);
    free(visitor);
    peers_handle_closed(peers);
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

enum status peer_visitors_listen(struct peers *peers, char *out_error, size_t error_size) {
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

void peer_visitors_end(struct peers *peers) {
    for (struct list *node = peers->visitors.next, *next; node != &peers->visitors; node = next) {
        next = node->next;
        visitor_end(list_entry(node, struct peer_visitor, in_visitors));
    }
}
