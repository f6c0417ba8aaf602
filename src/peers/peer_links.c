/* Our links to the other members: dialled, kept, dialled again. We send on them and never receive.
 */
#include "base/log.h"
#include "peers/peer_dial.h"
#include "peers/peer_handshake.h"
#include "peers/peers_internal.h"
#include "tls/tls_failure.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const size_t NO_FRAME = SIZE_MAX;

struct peer_link {
    struct peers *peers;
    struct list in_links;
    uint64_t id;
    char address[PEER_ADDRESS_SIZE_MAX + 1];
    struct peer_addresses addresses;    /* what it stood for when it was last looked up */
    struct peer_dial *dial;             /* under way */
    struct peer_connection *connection; /* open */
    size_t frame_start;                 /* of the frame that is being put together */
    uint64_t sent_ms;
    uint64_t retry_ms;   /* not before this */
    unsigned n_attempts; /* that failed */
    const char *last_reason;
    struct peers_traffic traffic;
};

static struct peer_link *link_find(const struct peers *peers, uint64_t id) {
    for (struct list *node = peers->links.next; node != &peers->links; node = node->next) {
        struct peer_link *link = list_entry(node, struct peer_link, in_links);
        if (link->id == id) {
            return link;
        }
    }
    return NULL;
}

/* --- Opening and losing. --- */

/* Always the last that is done: anything may be called inside. */
static void tell_lost(struct peers *peers, uint64_t id) {
    if (peers->callbacks.link_lost != NULL) {
        peers->callbacks.link_lost(peers->data, id);
    }
}

static void link_broke(void *owner, const char *reason) {
    struct peer_link *link = owner;
    struct peers *peers = link->peers;
    link->connection = NULL;
    link->traffic.sent_failures++;
    link->retry_ms = uv_now(peers->pool.loop) + PEER_RETRY_MS;
    log_info("peer link lost", LOG_TEXT("address", link->address), LOG_TEXT("reason", reason));
    tell_lost(peers, link->id);
}

/* The other side never speaks on our link. */
static size_t link_received(void *owner, struct bytes bytes) {
    struct peer_link *link = owner;
    peer_connection_close(link->connection);
    link_broke(link, "unexpected bytes");
    return bytes.size;
}

static void link_ready(void *owner) {
    (void)owner; /* it was, before it was handed over */
}

static const struct peer_connection_events link_events = {
    .ready = link_ready, .received = link_received, .ended = link_broke};

static void link_not_reached(struct peer_link *link, const char *reason) {
    link->retry_ms = uv_now(link->peers->pool.loop) + PEER_RETRY_MS;
    link->n_attempts++;
    if (link->last_reason == NULL || strcmp(link->last_reason, reason) != 0) {
        if (strcmp(reason, tls_failure_text(TLS_FAILURE_OURS_REFUSED)) == 0) {
            /* What etcd logs then, and alerts made for it look for. */
            log_warning("peer not reached", LOG_TEXT("address", link->address),
                        LOG_TEXT("reason", reason),
                        LOG_TEXT("error", "remote error: tls: bad certificate"));
        } else {
            log_warning("peer not reached", LOG_TEXT("address", link->address),
                        LOG_TEXT("reason", reason));
        }
    }
    link->last_reason = reason;
}

static bool is_final(enum peer_answer answer) {
    return answer == PEER_REMOVED || answer == PEER_DISK_REPLACED || answer == PEER_NOT_A_MEMBER;
}

static void link_dialled(void *data, const struct peer_dial_result *result) {
    struct peer_link *link = data;
    struct peers *peers = link->peers;
    struct peer_hello hello;
    link->dial = NULL;
    if (result->connection == NULL) {
        link_not_reached(link, result->reason);
        if (result->is_proven && is_final(result->answer) && peers->callbacks.turned_away != NULL) {
            peers->callbacks.turned_away(peers->data, link->id, result->answer);
        }
        return;
    }
    if (peer_hello_decode(result->payload, &hello) != PEER_WELCOME || hello.from_id != link->id ||
        hello.to_id != peers->options.self_id || hello.cluster_id != peers->options.cluster_id) {
        peer_connection_close(result->connection);
        link_not_reached(link, "the peer's answer is malformed");
        return;
    }
    link->connection = result->connection;
    link->last_reason = NULL;
    link->frame_start = NO_FRAME;
    link->sent_ms = uv_now(peers->pool.loop);
    peer_connection_hand_over(link->connection, &link_events, link);
    log_info("peer link open", LOG_TEXT("address", link->address));
    if (peers->callbacks.link_opened != NULL) {
        peers->callbacks.link_opened(peers->data, link->id, &hello);
    }
}

static void link_dial(struct peer_link *link) {
    struct peers *peers = link->peers;
    const struct peer_hello hello = peers_hello(peers, link->id);
    const struct peer_dial_options options = {.pool = &peers->pool,
                                              .tls = peers->tls,
                                              .secret = peers->options.secret,
                                              .address = link->address,
                                              .hello = &hello,
                                              .addresses = &link->addresses,
                                              .n_attempts = link->n_attempts};
    link->dial = peer_dial_start(&options, link_dialled, link);
}

/* An idle link shows that it is alive; unacknowledged, that it is not. */
static void link_keep_alive(struct peer_link *link, uint64_t now_ms) {
    uint64_t interval_ms = link->peers->options.heartbeat_ms;
    if (interval_ms < PEER_KEEPALIVE_MS_MIN) {
        interval_ms = PEER_KEEPALIVE_MS_MIN;
    } else if (interval_ms > PEER_KEEPALIVE_MS_MAX) {
        interval_ms = PEER_KEEPALIVE_MS_MAX;
    }
    if (now_ms - link->sent_ms < interval_ms || peer_connection_queued(link->connection) > 0) {
        return;
    }
    struct buffer *queue = peer_connection_queue(link->connection);
    peer_frame_end(queue, peer_frame_begin(queue, PEER_FRAME_KEEPALIVE));
    peer_connection_flush(link->connection);
    link->sent_ms = now_ms;
}

void peer_links_tick(struct peers *peers, uint64_t now_ms) {
    for (struct list *node = peers->links.next; node != &peers->links; node = node->next) {
        struct peer_link *link = list_entry(node, struct peer_link, in_links);
        if (link->connection != NULL) {
            link_keep_alive(link, now_ms);
        } else if (link->dial == NULL && link->retry_ms <= now_ms) {
            link_dial(link);
        }
    }
}

void peer_links_hurry(struct peers *peers, uint64_t id) {
    struct peer_link *link = link_find(peers, id);
    if (link != NULL && link->connection == NULL && link->dial == NULL) {
        link_dial(link);
    }
}

/* --- Members. --- */

bool peer_links_have(const struct peers *peers, uint64_t id) {
    return link_find(peers, id) != NULL;
}

/* True: it was open. */
static bool link_remove(struct peer_link *link) {
    bool was_open = link->connection != NULL;
    if (link->dial != NULL) {
        peer_dial_cancel(link->dial);
    }
    if (was_open) {
        peer_connection_close(link->connection);
    }
    list_remove(&link->in_links);
    free(link);
    return was_open;
}

void peers_set_member(struct peers *peers, uint64_t id, const char *address) {
    struct peer_link *link = link_find(peers, id);
    if (peers->is_closing || (link != NULL && strcmp(link->address, address) == 0)) {
        return;
    }
    if (link != NULL && link->connection != NULL) {
        /* It was proven who is there. A member is told its new address while it still listens on
         * the old one, and must not be cut off until it is restarted. */
        snprintf(link->address, sizeof link->address, "%s", address);
        return;
    }
    if (link != NULL) {
        (void)link_remove(link);
    }
    link = calloc(1, sizeof *link);
    if (link == NULL) {
        abort();
    }
    *link = (struct peer_link){.peers = peers, .id = id, .frame_start = NO_FRAME};
    snprintf(link->address, sizeof link->address, "%s", address);
    list_append(&peers->links, &link->in_links);
    link_dial(link);
}

void peers_remove_member(struct peers *peers, uint64_t id) {
    struct peer_link *link = link_find(peers, id);
    if (link != NULL && link_remove(link)) {
        tell_lost(peers, id);
    }
}

void peer_links_close(struct peers *peers) {
    while (!list_is_empty(&peers->links)) {
        (void)link_remove(list_entry(peers->links.next, struct peer_link, in_links));
    }
}

bool peers_is_linked(const struct peers *peers, uint64_t id) {
    const struct peer_link *link = link_find(peers, id);
    return link != NULL && link->connection != NULL;
}

bool peers_traffic(const struct peers *peers, uint64_t id, struct peers_traffic *out_traffic) {
    const struct peer_link *link = link_find(peers, id);
    *out_traffic = link != NULL ? link->traffic : (struct peers_traffic){0};
    return link != NULL && link->connection != NULL;
}

void peer_links_received(struct peers *peers, uint64_t id, size_t size) {
    struct peer_link *link = link_find(peers, id);
    if (link != NULL) {
        link->traffic.received_bytes += size;
    }
}

static bool is_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b) {
    if (a->ss_family != b->ss_family) {
        return false;
    }
    if (a->ss_family == AF_UNIX) {
        return true;
    }
    if (a->ss_family == AF_INET6) {
        return memcmp(&((const struct sockaddr_in6 *)a)->sin6_addr,
                      &((const struct sockaddr_in6 *)b)->sin6_addr, sizeof(struct in6_addr)) == 0;
    }
    return ((const struct sockaddr_in *)a)->sin_addr.s_addr ==
           ((const struct sockaddr_in *)b)->sin_addr.s_addr;
}

bool peer_links_have_address(const struct peers *peers, const struct sockaddr_storage *address) {
    for (struct list *node = peers->links.next; node != &peers->links; node = node->next) {
        const struct peer_link *link = list_entry(node, struct peer_link, in_links);
        for (size_t i = 0; i < link->addresses.n; i++) {
            if (is_same_host(&link->addresses.at[i], address)) {
                return true;
            }
        }
    }
    return false;
}

/* --- Frames. --- */

size_t peers_room(const struct peers *peers, uint64_t id) {
    const struct peer_link *link = link_find(peers, id);
    if (link == NULL || link->connection == NULL) {
        return 0;
    }
    size_t queued = peer_connection_queued(link->connection);
    return queued < PEERS_QUEUE_SIZE_MAX ? PEERS_QUEUE_SIZE_MAX - queued : 0;
}

struct buffer *peers_frame_begin(struct peers *peers, uint64_t to_id, uint8_t type,
                                 bool is_urgent) {
    /* The last frame below the bound may go beyond it by its own size. */
    enum { URGENT_MAX = PEERS_QUEUE_SIZE_MAX + PEER_FRAME_SIZE_MAX + PEERS_URGENT_SIZE_MAX };
    struct peer_link *link = link_find(peers, to_id);
    assert(type != PEER_FRAME_KEEPALIVE);
    if (link == NULL || link->connection == NULL ||
        peer_connection_queued(link->connection) >=
            (size_t)(is_urgent ? URGENT_MAX : PEERS_QUEUE_SIZE_MAX)) {
        if (link != NULL) {
            link->traffic.sent_failures++;
        }
        return NULL;
    }
    assert(link->frame_start == NO_FRAME);
    struct buffer *queue = peer_connection_queue(link->connection);
    link->frame_start = peer_frame_begin(queue, type);
    return queue;
}

void peers_frame_end(struct peers *peers, uint64_t to_id) {
    struct peer_link *link = link_find(peers, to_id);
    assert(link != NULL);
    assert(link->connection != NULL);
    assert(link->frame_start != NO_FRAME);
    struct buffer *queue = peer_connection_queue(link->connection);
    peer_frame_end(queue, link->frame_start);
    link->traffic.sent_bytes += queue->size - link->frame_start;
    link->frame_start = NO_FRAME;
}

void peers_flush(struct peers *peers) {
    uint64_t now_ms = uv_now(peers->pool.loop);
    for (struct list *node = peers->links.next; node != &peers->links; node = node->next) {
        struct peer_link *link = list_entry(node, struct peer_link, in_links);
        if (link->connection != NULL && peer_connection_queue(link->connection)->size > 0) {
            assert(link->frame_start == NO_FRAME);
            peer_connection_flush(link->connection);
            link->sent_ms = now_ms;
        }
    }
}
