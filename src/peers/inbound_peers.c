/*
 * Connections from peers to us. Until it is proven a connection is nobody's: it has few slots, a
 * short deadline, and gives way to newer ones; afterwards it is the one inbound connection of its
 * member, and its frames are handed on.
 */
#include "base/log.h"
#include "peers/peer_handshake.h"
#include "peers/peers_internal.h"
#include "tls/tls_crypto.h"
#include "tls/tls_failure.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    PEERS_BACKLOG = 1024,
    /* The whole handshake ends within this. */
    INBOUND_HANDSHAKE_MS_MAX = 2000,
    /* Unproven connections: those that have said nothing yet or wait for their end, and as many
     * that are in the middle of their handshake; and of one host (loopback: all). */
    INBOUND_UNPROVEN_MAX = 16,
    INBOUND_UNPROVEN_OF_HOST_MAX = 4,
    /* Connections of those that were let in and to whom no link is kept: as many as a cluster may
     * have members, so that they do not drive each other out. */
    INBOUND_UNLINKED_MAX = 16,
    /* Accepted in one iteration of the loop; others wait for the next. */
    INBOUND_ACCEPTS_MAX = 8,
    INBOUND_FROM_SIZE = 64
};

struct inbound_peer {
    struct peers *peers;
    struct list in_list;
    struct peer_connection *connection;
    struct peer_answerer answerer;
    struct peer_hello hello; /* of a member */
    uint64_t id;             /* 0: not proven */
    struct sockaddr_storage remote;
    char from[INBOUND_FROM_SIZE];
    bool is_of_member_host; /* some member is reached there */
    bool is_answered;       /* refused, or told what it asked: it waits for its end */
    uint64_t started_ms;
    uint64_t heard_ms;
    struct large_frame large_frame;
    bool is_ended;
};

/* --- Large frames. --- */

static void end_large_frame(struct inbound_peer *inbound) {
    struct peers *peers = inbound->peers;
    struct large_frame *next;
    large_frames_end(&peers->large_frames, &inbound->large_frame);
    while ((next = large_frames_admit(&peers->large_frames, uv_now(peers->pool.loop))) != NULL) {
        peer_connection_resume(list_entry(next, struct inbound_peer, large_frame)->connection);
    }
}

static void begin_large_frame(struct inbound_peer *inbound) {
    struct peers *peers = inbound->peers;
    if (!large_frames_announce(&peers->large_frames, &inbound->large_frame,
                               uv_now(peers->pool.loop))) {
        peer_connection_pause(inbound->connection);
    }
}

/* --- The end. --- */

/* Its connection is closed, or will not call any more. It is freed in the next iteration: its
 * owner may have ended it from inside its own callback. */
static void inbound_forget(struct inbound_peer *inbound) {
    if (inbound->is_ended) {
        return;
    }
    inbound->is_ended = true;
    end_large_frame(inbound);
    list_remove(&inbound->in_list);
    list_append(&inbound->peers->ended, &inbound->in_list);
}

void inbound_peers_free_ended(struct peers *peers) {
    struct list *node;
    while ((node = list_pop_first(&peers->ended)) != NULL) {
        struct inbound_peer *inbound = list_entry(node, struct inbound_peer, in_list);
        peer_answerer_clear(&inbound->answerer);
        free(inbound);
    }
}

static void inbound_end(struct inbound_peer *inbound) {
    peer_connection_close(inbound->connection);
    inbound_forget(inbound);
}

static void note_refusal(struct inbound_peer *inbound, const char *address, const char *reason) {
    struct peers *peers = inbound->peers;
    if (!peer_refusals_note(&peers->refusals, inbound->from, reason, uv_now(peers->pool.loop))) {
        return;
    }
    if (strcmp(reason, tls_failure_text(TLS_FAILURE_WRONG_NAME)) == 0) {
        log_warning("rejected connection on peer endpoint", LOG_TEXT("from", inbound->from),
                    LOG_TEXT("address", address), LOG_TEXT("reason", reason),
                    LOG_TEXT("error", "client certificate authentication failed"));
    } else if (strcmp(reason, tls_failure_text(TLS_FAILURE_OURS_REFUSED)) == 0) {
        log_warning("rejected connection on peer endpoint", LOG_TEXT("from", inbound->from),
                    LOG_TEXT("address", address), LOG_TEXT("reason", reason),
                    LOG_TEXT("error", "remote error: tls: bad certificate"));
    } else {
        log_warning("rejected connection on peer endpoint", LOG_TEXT("from", inbound->from),
                    LOG_TEXT("address", address), LOG_TEXT("reason", reason));
    }
}

/* Sends the answer and waits for the other side to hang up, so that the answer arrives. */
static void inbound_finish(struct inbound_peer *inbound) {
    inbound->is_answered = true;
    peer_connection_finish(inbound->connection);
}

static void connection_ended(void *owner, const char *reason) {
    struct inbound_peer *inbound = owner;
    /* A caller that connects and hangs up in plain text, as a health check does, is no news. */
    if (inbound->id == 0 && !inbound->is_answered && inbound->peers->tls != NULL) {
        note_refusal(inbound, "", reason);
    }
    inbound_forget(inbound);
}

/* --- Hello. --- */

static struct inbound_peer *find_member(struct peers *peers, uint64_t id) {
    for (struct list *node = peers->inbound.next; node != &peers->inbound; node = node->next) {
        struct inbound_peer *inbound = list_entry(node, struct inbound_peer, in_list);
        if (inbound->id == id) {
            return inbound;
        }
    }
    return NULL;
}

/* A link sends keepalives, so that silence tells. */
static bool is_alive(const struct inbound_peer *inbound) {
    return uv_now(inbound->peers->pool.loop) - inbound->heard_ms < PEER_ALIVE_MS &&
           !peer_connection_is_hung_up(inbound->connection);
}

static enum peer_answer judge(struct inbound_peer *inbound) {
    struct peers *peers = inbound->peers;
    const struct peer_hello *hello = &inbound->answerer.hello;
    enum peer_answer answer =
        peer_hello_check(hello, peers->options.cluster_id, peers->options.self_id);
    if (answer != PEER_WELCOME || hello->purpose == PEER_TO_ASK) {
        return answer;
    }
    if (hello->from_id == peers->options.self_id) {
        return PEER_NOT_A_MEMBER;
    }
    answer = peers->callbacks.admit(peers->data, hello);
    if (answer != PEER_WELCOME) {
        return answer;
    }
    struct inbound_peer *older = find_member(peers, hello->from_id);
    if (older != NULL && is_alive(older)) {
        return PEER_BUSY;
    }
    if (older != NULL) {
        inbound_end(older);
    }
    return PEER_WELCOME;
}

/* A node that is behind lets in whom it does not know yet. Where nobody proves anything that may be
 * any number of ids, so the oldest of them gives way. */
static void make_room_of_unlinked(struct peers *peers) {
    struct inbound_peer *oldest = NULL;
    unsigned n = 0;
    for (struct list *node = peers->inbound.next; node != &peers->inbound; node = node->next) {
        struct inbound_peer *inbound = list_entry(node, struct inbound_peer, in_list);
        if (!peer_links_have(peers, inbound->id)) {
            oldest = oldest != NULL ? oldest : inbound;
            n++;
        }
    }
    if (n > INBOUND_UNLINKED_MAX) {
        note_refusal(oldest, oldest->hello.address, "too many are connected that are not known");
        inbound_end(oldest);
    }
}

static void inbound_refuse(struct inbound_peer *inbound, enum peer_answer answer) {
    peer_answerer_answer(&inbound->answerer, answer, bytes_of(NULL, 0),
                         peer_connection_queue(inbound->connection));
    note_refusal(inbound, inbound->answerer.hello.address, peer_answer_text(answer));
    inbound_finish(inbound);
}

static void inbound_answer_question(struct inbound_peer *inbound) {
    struct peers *peers = inbound->peers;
    struct buffer body;
    buffer_init(&body);
    peers->callbacks.asked(peers->data, inbound->answerer.hello.from_id, &body);
    peer_answerer_answer(&inbound->answerer, PEER_WELCOME, bytes_of(body.data, body.size),
                         peer_connection_queue(inbound->connection));
    buffer_clear(&body);
    inbound_finish(inbound);
}

static void inbound_welcome(struct inbound_peer *inbound) {
    struct peers *peers = inbound->peers;
    struct buffer payload;
    inbound->hello = inbound->answerer.hello;
    inbound->id = inbound->hello.from_id;
    inbound->heard_ms = uv_now(peers->pool.loop);
    struct peer_hello own = peers_hello(peers, inbound->id);
    buffer_init(&payload);
    peer_hello_encode(&payload, &own);
    peer_answerer_answer(&inbound->answerer, PEER_WELCOME, bytes_of(payload.data, payload.size),
                         peer_connection_queue(inbound->connection));
    buffer_clear(&payload);
    peer_answerer_clear(&inbound->answerer);
    list_remove(&inbound->in_list);
    list_append(&peers->inbound, &inbound->in_list);
    peer_connection_flush(inbound->connection);
    /* From now on the bound is that of a frame. */
    peer_connection_set_limit(inbound->connection, PEER_FRAME_PREFIX_SIZE + PEER_FRAME_SIZE_MAX);
    peer_links_hurry(peers, inbound->id);
    make_room_of_unlinked(peers);
}

static size_t take_handshake(struct inbound_peer *inbound, struct bytes bytes) {
    size_t used = 0;
    enum peer_step step = peer_answerer_feed(&inbound->answerer, bytes, &used,
                                             peer_connection_queue(inbound->connection));
    if (step == PEER_STEP_MORE) {
        peer_connection_flush(inbound->connection);
        return used;
    }
    if (step == PEER_STEP_REFUSED) {
        note_refusal(inbound, "", inbound->answerer.reason);
        inbound_finish(inbound);
        return bytes.size;
    }
    enum peer_answer answer = judge(inbound);
    if (answer != PEER_WELCOME) {
        inbound_refuse(inbound, answer);
    } else if (inbound->answerer.hello.purpose == PEER_TO_ASK) {
        inbound_answer_question(inbound);
    } else {
        inbound_welcome(inbound);
    }
    return used;
}

/* --- Frames. --- */

static size_t take_frames(struct inbound_peer *inbound, struct bytes bytes) {
    struct peers *peers = inbound->peers;
    struct bytes left = bytes;
    struct bytes body;
    uint8_t type;
    enum status status = STATUS_OK;
    inbound->heard_ms = uv_now(peers->pool.loop);
    while ((status = peer_frame_next(&left, &type, &body)) == STATUS_OK) {
        if (inbound->large_frame.is_arriving) {
            end_large_frame(inbound);
        }
        if (type == PEER_FRAME_KEEPALIVE) {
            continue;
        }
        bool is_fine = peers->callbacks.frame(peers->data, inbound->id, type, body);
        /* The callback may have ended this connection, or all of them. */
        if (inbound->is_ended) {
            return bytes.size;
        }
        if (!is_fine) {
            status = STATUS_MALFORMED;
            break;
        }
    }
    if (status == STATUS_MALFORMED) {
        note_refusal(inbound, inbound->hello.address, "it sent a malformed frame");
        inbound_end(inbound);
    } else if (peer_frame_is_large(left)) {
        begin_large_frame(inbound);
    }
    peer_links_received(peers, inbound->id, bytes.size - left.size);
    return bytes.size - left.size;
}

static size_t connection_received(void *owner, struct bytes bytes) {
    struct inbound_peer *inbound = owner;
    return inbound->id == 0 ? take_handshake(inbound, bytes) : take_frames(inbound, bytes);
}

/* TLS is agreed on; the caller speaks first. */
static void connection_ready(void *owner) {
    struct inbound_peer *inbound = owner;
    struct peer_binding *binding = &inbound->answerer.binding;
    binding->size =
        peer_connection_binding(inbound->connection, binding->bytes) ? sizeof binding->bytes : 0;
}

static const struct peer_connection_events inbound_events = {
    .ready = connection_ready, .received = connection_received, .ended = connection_ended};

/* --- Accepting. --- */

static bool is_same_host(const struct inbound_peer *a, const struct inbound_peer *b) {
    return strcmp(a->from, b->from) == 0;
}

static bool is_loopback(const struct sockaddr_storage *address) {
    if (address->ss_family == AF_UNIX) {
        return true;
    }
    if (address->ss_family == AF_INET) {
        uint32_t host = ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr);
        return host >> 24 == IN_LOOPBACKNET;
    }
    const struct in6_addr *host = &((const struct sockaddr_in6 *)address)->sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(host);
}

static void give_way(struct inbound_peer *inbound) {
    if (!inbound->is_answered) {
        note_refusal(inbound, "", "too many connections are unproven: a newer one took its place");
    }
    inbound_end(inbound);
}

/* A host has a few slots: it can drive out itself alone. */
static void make_room_of_host(struct inbound_peer *newest) {
    struct peers *peers = newest->peers;
    struct inbound_peer *oldest = NULL;
    unsigned n = 0;
    for (struct list *node = peers->unproven.next; node != &peers->unproven; node = node->next) {
        struct inbound_peer *inbound = list_entry(node, struct inbound_peer, in_list);
        if (is_same_host(inbound, newest)) {
            oldest = oldest != NULL ? oldest : inbound;
            n++;
        }
    }
    if (n > INBOUND_UNPROVEN_OF_HOST_MAX) {
        give_way(oldest);
    }
}

/* It has said something and not all that it must. */
static bool is_in_handshake(const struct inbound_peer *inbound) {
    return peer_connection_has_received(inbound->connection) && !inbound->is_answered;
}

/* The oldest gives way, for a member needs its slot only for a moment and a flood cannot keep one
 * out by holding all of them; those that come from where no member is go first. Those that say
 * nothing have slots of their own: a member speaks at once, and they cannot drive it out then,
 * however many they are. */
static void make_room_among(struct peers *peers, bool in_handshake) {
    struct inbound_peer *first_to_go = NULL;
    unsigned n = 0;
    for (struct list *node = peers->unproven.next; node != &peers->unproven; node = node->next) {
        struct inbound_peer *inbound = list_entry(node, struct inbound_peer, in_list);
        if (is_in_handshake(inbound) != in_handshake) {
            continue;
        }
        n++;
        if (first_to_go == NULL ||
            (first_to_go->is_of_member_host && !inbound->is_of_member_host)) {
            first_to_go = inbound; /* perhaps the newest itself */
        }
    }
    if (n > INBOUND_UNPROVEN_MAX) {
        give_way(first_to_go);
    }
}

static void make_room(struct inbound_peer *newest) {
    struct peers *peers = newest->peers;
    if (!is_loopback(&newest->remote)) {
        make_room_of_host(newest);
    }
    make_room_among(peers, false);
    make_room_among(peers, true);
}

/* A listener for IPv6 sees callers of IPv4 under addresses of its own kind. */
static void unmap(struct sockaddr_storage *address) {
    const struct sockaddr_in6 *mapped = (const struct sockaddr_in6 *)address;
    if (address->ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&mapped->sin6_addr)) {
        return;
    }
    struct sockaddr_in plain = {.sin_family = AF_INET, .sin_port = mapped->sin6_port};
    memcpy(&plain.sin_addr, &mapped->sin6_addr.s6_addr[12], sizeof plain.sin_addr);
    memcpy(address, &plain, sizeof plain);
}

static void name_origin(struct inbound_peer *inbound) {
    strcpy(inbound->from, "unknown");
    if (peer_connection_remote(inbound->connection, &inbound->remote)) {
        unmap(&inbound->remote);
        if (inbound->remote.ss_family == AF_UNIX) {
            strcpy(inbound->from, "unix");
        } else {
            (void)uv_ip_name((const struct sockaddr *)&inbound->remote, inbound->from,
                             sizeof inbound->from);
        }
        inbound->is_of_member_host = peer_links_have_address(inbound->peers, &inbound->remote);
    }
}

static void accept_one(struct peers *peers, union peer_socket *listener) {
    uint8_t nonce[PEER_NONCE_SIZE];
    struct tls_stream *tls = peers->tls != NULL ? tls_stream_accept(peers->tls) : NULL;
    struct inbound_peer *inbound = calloc(1, sizeof *inbound);
    if (inbound == NULL) {
        abort();
    }
    peers->n_accepted++;
    inbound->peers = peers;
    inbound->connection =
        peer_connection_accept(&peers->pool, &listener->stream, tls, &inbound_events, inbound);
    if (inbound->connection == NULL) {
        free(inbound);
        return;
    }
    tls_random(nonce, sizeof nonce);
    peer_answerer_init(&inbound->answerer, peers->options.secret, nonce);
    peer_connection_set_limit(inbound->connection, PEER_UNPROVEN_SIZE_MAX);
    inbound->started_ms = uv_now(peers->pool.loop);
    list_append(&peers->unproven, &inbound->in_list);
    name_origin(inbound);
    make_room(inbound);
}

static void on_connection(uv_stream_t *listener, int status) {
    struct peers *peers = listener->data;
    if (status != 0 || peers->is_closing) {
        return;
    }
    union peer_socket *socket = (union peer_socket *)listener;
    if (peers->n_accepted >= INBOUND_ACCEPTS_MAX) {
        /* libuv holds this one and looks for no others until it is accepted. */
        peers->is_accept_waiting[socket - peers->listeners] = true;
        return;
    }
    accept_one(peers, socket);
}

static void next_iteration(uv_prepare_t *prepare) {
    struct peers *peers = prepare->data;
    inbound_peers_free_ended(peers);
    peers->n_accepted = 0;
    for (size_t i = 0; i < PEERS_LISTENERS_MAX; i++) {
        if (peers->is_accept_waiting[i]) {
            peers->is_accept_waiting[i] = false;
            accept_one(peers, &peers->listeners[i]);
        }
    }
}

int inbound_peers_listen(struct peers *peers, size_t i, int socket) {
    union peer_socket *listener = &peers->listeners[i];
    int rv = listener->handle.type == UV_NAMED_PIPE ? uv_pipe_open(&listener->pipe, socket)
                                                    : uv_tcp_open(&listener->tcp, socket);
    if (rv == 0) {
        rv = uv_listen(&listener->stream, PEERS_BACKLOG, on_connection);
    }
    if (rv == 0) {
        rv = uv_prepare_start(&peers->next_iteration, next_iteration);
    }
    return rv;
}

/* --- All of them. --- */

void inbound_peers_tick(struct peers *peers, uint64_t now_ms) {
    struct large_frame *overdue;
    while ((overdue = large_frames_overdue(&peers->large_frames, now_ms)) != NULL) {
        struct inbound_peer *inbound = list_entry(overdue, struct inbound_peer, large_frame);
        note_refusal(inbound, inbound->hello.address, "a frame did not arrive in time");
        inbound_end(inbound);
    }
    while (!list_is_empty(&peers->unproven)) {
        struct inbound_peer *oldest =
            list_entry(peers->unproven.next, struct inbound_peer, in_list);
        if (now_ms - oldest->started_ms < INBOUND_HANDSHAKE_MS_MAX) {
            return;
        }
        if (!oldest->is_answered) {
            note_refusal(oldest, "", "it did not complete the handshake in time");
        }
        inbound_end(oldest);
    }
}

void peers_check_inbound(struct peers *peers) {
    for (struct list *node = peers->inbound.next, *next; node != &peers->inbound; node = next) {
        struct inbound_peer *inbound = list_entry(node, struct inbound_peer, in_list);
        next = node->next;
        if (peers->callbacks.admit(peers->data, &inbound->hello) != PEER_WELCOME) {
            inbound_end(inbound);
        }
    }
}

static void end_all(struct list *list) {
    while (!list_is_empty(list)) {
        inbound_end(list_entry(list->next, struct inbound_peer, in_list));
    }
}

void inbound_peers_close(struct peers *peers) {
    end_all(&peers->unproven);
    end_all(&peers->inbound);
}
