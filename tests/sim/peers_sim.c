/* In the place of peers.c, peer_transport.c, segment_check.c and store_check.c: links between
 * simulated nodes. Frames go through the product's own encoder and decoder. */
#include "base/arena.h"
#include "base/list.h"
#include "network.h"
#include "node.h"
#include "replication/peer_transport.h"
#include "replication/peers.h"
#include "replication/segment_check.h"
#include "replication/store_check.h"
#include "world.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    RETRY_MS = 100,
    /* A way that stays cut for so long breaks the connection. */
    BREAK_US_MIN = 2 * WORLD_SECOND,
    BREAK_US_MAX = 9 * WORLD_SECOND
};

enum link_state { LINK_CLOSED, LINK_OPENING, LINK_OPEN };

/* Our link to a member. */
struct link {
    struct peers *peers;
    struct node *to;
    bool is_wanted;
    enum link_state state;
    uint64_t to_generation; /* the process at the other end */
    struct buffer queue;
    uint64_t break_us; /* how long a cut this connection bears */
    struct network_channel channel;
};

struct peers {
    struct node *node;
    uint64_t generation;
    const struct peers_callbacks *callbacks;
    void *data;
    struct link links[NODES_MAX];
    struct buffer received[NODES_MAX]; /* by sender */
    uint64_t received_from[NODES_MAX]; /* the connection that they came by */
    struct arena arena;
    uv_timer_t retry;
    bool is_closing;
    void (*closed)(void *data);
    void *closed_data;
};

/* By node: the process that is up. */
static struct peers *open_peers[NODES_MAX];

static bool is_alive(const struct peers *peers) {
    return peers->node->is_up && peers->node->generation == peers->generation &&
           !peers->is_closing && open_peers[peers->node->index] == peers;
}

/* --- Opening and losing links. --- */

static void lost_read(struct node *node, void *data) {
    struct link *link = data;
    (void)node;
    if (!is_alive(link->peers) || link->state != LINK_OPEN) {
        return;
    }
    link->state = LINK_CLOSED;
    link->channel.epoch++;
    link->queue.size = 0;
    trace("link %s -> %s is lost", node->name, link->to->name);
    link->peers->callbacks->link_lost(link->peers->data, link->to->id);
}

/* The sender learns of it a moment later. */
static void lost_arrives(void *data) {
    struct link *link = data;
    if (is_alive(link->peers)) {
        node_deliver(link->peers->node, lost_read, NULL, link);
    }
}

static void link_lose(struct link *link) {
    world_at(world_now_us() + network_delay_us(), lost_arrives, link);
}

static void opened_read(struct node *node, void *data) {
    struct link *link = data;
    (void)node;
    if (!is_alive(link->peers) || link->state != LINK_OPENING) {
        return;
    }
    link->state = LINK_OPEN;
    link->channel.epoch++;
    link->break_us = random_between(BREAK_US_MIN, BREAK_US_MAX);
    if (link->peers->callbacks->link_opened != NULL) {
        link->peers->callbacks->link_opened(link->peers->data, link->to->id);
    }
}

static void dialled(void *data) {
    struct link *link = data;
    struct peers *peers = link->peers;
    if (!is_alive(peers)) {
        return;
    }
    struct peers *other = open_peers[link->to->index];
    bool is_reached = other != NULL && is_alive(other) && link->to->free_us <= world_now_us() &&
                      !network_is_cut(peers->node->index, link->to->index) &&
                      !network_is_cut(link->to->index, peers->node->index) &&
                      other->callbacks->admit(other->data, peers->node->id, 0) == PEER_WELCOME;
    if (!is_reached) {
        link->state = LINK_CLOSED;
        return;
    }
    link->to_generation = link->to->generation;
    node_deliver(peers->node, opened_read, NULL, link);
}

static void links_retry(uv_timer_t *timer) {
    struct peers *peers = timer->data;
    for (size_t i = 0; i < NODES_MAX; i++) {
        struct link *link = &peers->links[i];
        if (link->is_wanted && link->state == LINK_CLOSED) {
            link->state = LINK_OPENING;
            world_at(node_now_us(peers->node) + 2 * network_delay_us(), dialled, link);
        } else if (link->state == LINK_OPEN &&
                   network_cut_us(peers->node->index, i) > link->break_us) {
            link_lose(link);
        }
    }
}

/* --- Frames. --- */

struct bytes_packet {
    struct link *link;
    struct node *from;
    uint64_t from_generation;
    uint64_t to_generation;
    uint64_t connection;
    size_t size;
    uint8_t bytes[];
};

static void bytes_lose(void *data) {
    free(data);
}

static void bytes_read(struct node *node, void *data) {
    struct bytes_packet *packet = data;
    struct peers *peers = open_peers[node->index];
    if (peers == NULL || !is_alive(peers)) {
        free(packet);
        return;
    }
    size_t from = packet->from->index;
    struct buffer *received = &peers->received[from];
    if (peers->received_from[from] > packet->connection) {
        free(packet); /* a member has one link: a newer one ends the older */
        return;
    }
    if (peers->received_from[from] < packet->connection) {
        received->size = 0;
        peers->received_from[from] = packet->connection;
    }
    buffer_append(received, packet->bytes, packet->size);
    struct bytes left = bytes_of(received->data, received->size);
    struct peer_frame frame;
    enum status status;
    while ((status = peer_frame_decode(&left, &peers->arena, &frame)) == STATUS_OK) {
        peers->callbacks->frame(peers->data, packet->from->id, &frame);
        arena_reset(&peers->arena);
    }
    if (status != STATUS_PENDING) {
        check_failed("frames", "%s cannot read what %s sent: %s", node->name, packet->from->name,
                     status_text(status));
    }
    memmove(received->data, left.data, left.size);
    received->size = left.size;
    free(packet);
}

static void bytes_arrive(void *data) {
    struct bytes_packet *packet = data;
    struct node *to = packet->link->to;
    if (!to->is_up || to->generation != packet->to_generation) {
        if (packet->from->is_up && packet->from->generation == packet->from_generation) {
            link_lose(packet->link);
        }
        free(packet);
        return;
    }
    node_deliver(to, bytes_read, bytes_lose, packet);
}

static void link_flush(struct link *link) {
    /* A stream may be cut anywhere. */
    for (size_t at = 0; at < link->queue.size;) {
        size_t size = link->queue.size - at;
        if (size > 1 && random_chance(100)) {
            size = random_between(1, size - 1);
        }
        struct bytes_packet *packet = malloc(sizeof *packet + size);
        if (packet == NULL) {
            abort();
        }
        *packet =
            (struct bytes_packet){.link = link,
                                  .from = link->peers->node,
                                  .from_generation = link->peers->generation,
                                  .to_generation = link->to_generation,
                                  .connection = link->peers->generation << 32 | link->channel.epoch,
                                  .size = size};
        memcpy(packet->bytes, link->queue.data + at, size);
        network_send(&link->channel, node_now_us(link->peers->node), bytes_arrive, bytes_lose,
                     packet);
        at += size;
    }
    link->queue.size = 0;
}

void peers_flush(struct peers *peers) {
    for (size_t i = 0; i < NODES_MAX; i++) {
        if (peers->links[i].state == LINK_OPEN) {
            link_flush(&peers->links[i]);
        }
    }
}

bool peers_send(struct peers *peers, uint64_t to_id, const struct peer_frame *frame) {
    struct node *to = node_by_id(to_id);
    if (to == NULL || peers->links[to->index].state != LINK_OPEN) {
        return false;
    }
    peer_frame_encode(&peers->links[to->index].queue, frame);
    return true;
}

bool peers_is_linked(const struct peers *peers, uint64_t id) {
    struct node *to = node_by_id(id);
    return to != NULL && peers->links[to->index].state == LINK_OPEN;
}

/* --- Life. --- */

enum status peers_open(uv_loop_t *loop, const struct peers_options *options,
                       const struct peers_callbacks *callbacks, void *data,
                       struct peers **out_peers, char *out_error, size_t error_size) {
    (void)options;
    (void)out_error;
    (void)error_size;
    struct peers *peers = calloc(1, sizeof *peers);
    if (peers == NULL) {
        abort();
    }
    peers->node = node_of_loop(loop);
    peers->generation = peers->node->generation;
    peers->callbacks = callbacks;
    peers->data = data;
    arena_init(&peers->arena);
    for (size_t i = 0; i < NODES_MAX; i++) {
        peers->links[i] = (struct link){
            .peers = peers, .to = node_at(i), .channel = {.from = peers->node->index, .to = i}};
        buffer_init(&peers->links[i].queue);
        buffer_init(&peers->received[i]);
    }
    uv_timer_init(loop, &peers->retry);
    peers->retry.data = peers;
    uv_timer_start(&peers->retry, links_retry, RETRY_MS, RETRY_MS);
    open_peers[peers->node->index] = peers;
    *out_peers = peers;
    return STATUS_OK;
}

void peers_set_member(struct peers *peers, uint64_t id, const char *address) {
    (void)address;
    struct node *to = node_by_id(id);
    assert(to != NULL);
    peers->links[to->index].is_wanted = true;
    links_retry(&peers->retry);
}

void peers_remove_member(struct peers *peers, uint64_t id) {
    struct node *to = node_by_id(id);
    if (to != NULL) {
        peers->links[to->index].is_wanted = false;
        peers->links[to->index].state = LINK_CLOSED;
        peers->links[to->index].channel.epoch++;
    }
}

void peers_check_visitors(struct peers *peers) {
    (void)peers; /* membership does not change here */
}

static void closed_read(struct node *node, void *data) {
    struct peers *peers = data;
    (void)node;
    peers->closed(peers->closed_data);
}

static void retry_closed(uv_handle_t *handle) {
    struct peers *peers = handle->data;
    node_deliver(peers->node, closed_read, NULL, peers);
}

void peers_close(struct peers *peers, void (*closed)(void *data), void *data) {
    peers->is_closing = true;
    peers->closed = closed;
    peers->closed_data = data;
    uv_close((uv_handle_t *)&peers->retry, retry_closed);
}

struct peer_dial *peers_dial_raft(struct peers *peers, uint64_t id, const char *address,
                                  void (*done)(void *data, uv_stream_t *stream, const char *reason),
                                  void *data) {
    (void)peers;
    (void)id;
    (void)address;
    (void)done;
    (void)data;
    abort(); /* raft's messages do not go through connections here */
}

/* --- What the simulated disk and network have no use for. --- */

void peer_transport_init(struct peer_transport *transport, struct peers *peers) {
    *transport = (struct peer_transport){.peers = peers};
}

void peer_transport_accept(struct peer_transport *transport, uint64_t id, const char *address,
                           uv_stream_t *stream) {
    (void)transport;
    (void)id;
    (void)address;
    (void)stream;
    abort();
}

enum status segment_check(const char *data_dir, char *out_error, size_t error_size) {
    (void)data_dir;
    (void)out_error;
    (void)error_size;
    return STATUS_OK;
}

enum status store_check(const char *data_dir, char *out_error, size_t error_size) {
    (void)data_dir;
    (void)out_error;
    (void)error_size;
    return STATUS_OK;
}
