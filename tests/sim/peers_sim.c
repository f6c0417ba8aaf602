/* In the place of src/peers' sockets: links between simulated nodes. Bytes of frames travel as a
 * stream that may be cut anywhere; where the network is hostile, raft's frames travel alone, and
 * are lost, repeated and reordered. */
#include "faults.h"
#include "network.h"
#include "node.h"
#include "peers/peer_ask.h"
#include "peers/peers.h"
#include "raft/raft_codec.h"
#include "replication/peer_frames.h"
#include "world.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    RETRY_MS = 100,
    /* A way that stays cut for so long breaks the connection. */
    BREAK_US_MIN = 2 * WORLD_SECOND,
    BREAK_US_MAX = 9 * WORLD_SECOND,
    HELLO_US_MAX = 1500 * WORLD_MS,
    QUEUE_SIZE_MIN = 600 * 1024,
    LINKS_MAX_SIM = 64
};

enum link_state { LINK_CLOSED, LINK_OPENING, LINK_OPEN };

/* Our link to a member. Never freed: what is under way may name it. */
struct link {
    struct peers *peers;
    uint64_t id;
    char address[PEER_ADDRESS_SIZE_MAX + 1];
    bool is_wanted;
    enum link_state state;
    struct node *to;        /* the machine at that address; NULL: none */
    uint64_t to_generation; /* the process at the other end */
    uint64_t connection;    /* each attempt has its own number */
    uint64_t dialled_us;
    struct buffer queue;
    size_t frame_start;
    size_t in_flight;
    uint64_t break_us; /* how long a cut this connection bears */
    struct network_channel *channel;
};

/* A member's link to us. */
struct inbound {
    struct peer_hello hello;
    struct link *link; /* the other end */
    uint64_t connection;
    bool is_open;
    struct buffer received;
};

struct peers {
    struct node *node;
    uint64_t generation;
    struct peers_options options;
    size_t queue_size_max;
    const struct peers_callbacks *callbacks;
    void *data;
    struct link *links[LINKS_MAX_SIM];
    size_t n_links;
    struct inbound *inbound[LINKS_MAX_SIM];
    size_t n_inbound;
    uint64_t n_refused;
    uv_timer_t retry;
    bool is_closing;
    void (*closed)(void *data);
    void *closed_data;
};

/* By node: the process that is up. */
static struct peers *open_peers[NODES_MAX];
static uint64_t n_connections;

static bool is_alive(const struct peers *peers) {
    return peers->node->is_up && peers->node->generation == peers->generation &&
           !peers->is_closing && open_peers[peers->node->index] == peers;
}

static void *allocate(size_t size) {
    void *memory = calloc(1, size);
    if (memory == NULL) {
        abort();
    }
    return memory;
}

static struct link *find_link(const struct peers *peers, uint64_t id) {
    for (size_t i = 0; i < peers->n_links; i++) {
        if (peers->links[i]->id == id && peers->links[i]->is_wanted) {
            return peers->links[i];
        }
    }
    return NULL;
}

static struct link *find_open(const struct peers *peers, uint64_t id) {
    struct link *link = find_link(peers, id);
    return link != NULL && link->state == LINK_OPEN ? link : NULL;
}

/* --- Losing links. --- */

static void link_close(struct link *link) {
    bool was_open = link->state == LINK_OPEN;
    link->state = LINK_CLOSED;
    link->connection = 0;
    link->queue.size = 0;
    link->in_flight = 0;
    if (link->channel != NULL) {
        link->channel->epoch++;
    }
    if (was_open) {
        trace("link %s -> %s is lost", link->peers->node->name, link->address);
        link->peers->callbacks->link_lost(link->peers->data, link->id);
    }
}

struct word {
    struct link *link;
    uint64_t connection;
    enum peer_answer answer;
    struct peer_hello hello;
};

static struct word *word_make(struct link *link, uint64_t connection) {
    struct word *word = allocate(sizeof *word);
    word->link = link;
    word->connection = connection;
    return word;
}

static void lost_read(struct node *node, void *data) {
    struct word *word = data;
    (void)node;
    if (is_alive(word->link->peers) && word->link->connection == word->connection) {
        link_close(word->link);
    }
    free(word);
}

static void lost_arrives(void *data) {
    struct word *word = data;
    if (!is_alive(word->link->peers)) {
        free(word);
        return;
    }
    node_deliver(word->link->peers->node, lost_read, free, word);
}

/* The member that dialled learns of it a moment later. */
static void connection_lose(struct link *link, uint64_t connection) {
    world_at(world_now_us() + network_delay_us(), lost_arrives, word_make(link, connection));
}

/* --- Opening them. --- */

static struct inbound *find_or_add_inbound(struct peers *peers, uint64_t from_id) {
    for (size_t i = 0; i < peers->n_inbound; i++) {
        if (peers->inbound[i]->hello.from_id == from_id) {
            return peers->inbound[i];
        }
    }
    assert(peers->n_inbound < LINKS_MAX_SIM);
    struct inbound *inbound = allocate(sizeof *inbound);
    buffer_init(&inbound->received);
    peers->inbound[peers->n_inbound++] = inbound;
    return inbound;
}

static bool is_way_open(const struct link *link) {
    return !network_is_cut(link->peers->node->index, link->to->index) &&
           !network_is_cut(link->to->index, link->peers->node->index);
}

static bool is_final(enum peer_answer answer) {
    return answer == PEER_REMOVED || answer == PEER_DISK_REPLACED || answer == PEER_NOT_A_MEMBER;
}

static void answer_read(struct node *node, void *data) {
    struct word word = *(struct word *)data;
    struct link *link = word.link;
    free(data);
    if (!is_alive(link->peers) || link->connection != word.connection ||
        link->state != LINK_OPENING) {
        return;
    }
    if (word.answer != PEER_WELCOME) {
        trace("%s is refused by %s: %s", node->name, link->to->name, peer_answer_text(word.answer));
        link->state = LINK_CLOSED;
        if (is_final(word.answer)) {
            link->peers->callbacks->turned_away(link->peers->data, link->id, word.answer);
        }
        return;
    }
    link->state = LINK_OPEN;
    link->break_us = random_between(BREAK_US_MIN, BREAK_US_MAX);
    link->in_flight = 0;
    if (link->peers->callbacks->link_opened != NULL) {
        link->peers->callbacks->link_opened(link->peers->data, link->id, &word.hello);
    }
}

static void answer_arrives(void *data) {
    struct word *word = data;
    if (!is_alive(word->link->peers) || !is_way_open(word->link)) {
        free(word);
        return;
    }
    node_deliver(word->link->peers->node, answer_read, free, word);
}

static struct peer_hello hello_of(const struct peers *peers, uint64_t to_id) {
    struct peer_hello hello = {.cluster_id = peers->options.cluster_id,
                               .from_id = peers->options.self_id,
                               .to_id = to_id,
                               .data_dir_id = peers->options.data_dir_id,
                               .heartbeat_ms = peers->options.heartbeat_ms,
                               .election_ms = peers->options.election_ms,
                               .purpose = PEER_FOR_LINK};
    snprintf(hello.address, sizeof hello.address, "%s", peers->node->address);
    return hello;
}

static void admit(struct peers *peers, const struct word *word) {
    struct inbound *inbound = find_or_add_inbound(peers, word->hello.from_id);
    if (inbound->connection > word->connection) {
        return; /* a newer one has taken its place */
    }
    inbound->hello = word->hello;
    inbound->link = word->link;
    inbound->connection = word->connection;
    inbound->is_open = true;
    inbound->received.size = 0;
}

static void hello_read(struct node *node, void *data) {
    struct word *word = data;
    struct peers *peers = open_peers[node->index];
    if (peers == NULL || !is_alive(peers)) {
        free(word);
        return;
    }
    word->answer =
        peer_hello_check(&word->hello, peers->options.cluster_id, peers->options.self_id);
    if (word->answer == PEER_WELCOME) {
        word->answer = peers->callbacks->admit(peers->data, &word->hello);
    }
    if (word->answer == PEER_WELCOME) {
        admit(peers, word);
    } else {
        peers->n_refused++;
    }
    word->link->to_generation = node->generation;
    word->hello = hello_of(peers, word->hello.from_id);
    world_at(node_now_us(node) + network_delay_us(), answer_arrives, word);
}

static void hello_arrives(void *data) {
    struct word *word = data;
    struct node *to = word->link->to;
    struct peers *peers = open_peers[to->index];
    bool is_listening = to->is_up && peers != NULL && is_alive(peers);
    if (!is_alive(word->link->peers) || word->link->connection != word->connection ||
        !is_way_open(word->link)) {
        free(word);
        return;
    }
    if (!is_listening) {
        word->link->state = LINK_CLOSED; /* refused: it is dialled again */
        free(word);
        return;
    }
    node_deliver(to, hello_read, free, word);
}

static void dial(struct link *link) {
    struct peers *peers = link->peers;
    link->dialled_us = node_now_us(peers->node);
    link->to = node_by_address(link->address);
    if (link->to == NULL) {
        return;
    }
    if (link->channel == NULL || link->channel->to != link->to->index) {
        link->channel = allocate(sizeof *link->channel);
        *link->channel =
            (struct network_channel){.from = peers->node->index, .to = link->to->index};
    }
    link->channel->epoch++;
    link->state = LINK_OPENING;
    link->connection = ++n_connections;
    struct word *word = word_make(link, link->connection);
    word->hello = hello_of(peers, link->id);
    world_at(link->dialled_us + 3 * network_delay_us(), hello_arrives, word);
}

static struct inbound *inbound_of(const struct peers *peers, uint64_t from_id) {
    for (size_t i = 0; i < peers->n_inbound; i++) {
        if (peers->inbound[i]->hello.from_id == from_id && peers->inbound[i]->is_open) {
            return peers->inbound[i];
        }
    }
    return NULL;
}

/* The other end does not know the connection (any more): it says so when a keepalive reaches it. */
static bool is_forgotten(const struct link *link) {
    const struct peers *other = open_peers[link->to->index];
    const struct inbound *inbound =
        other != NULL && is_alive(other) ? inbound_of(other, link->peers->options.self_id) : NULL;
    return inbound == NULL || inbound->connection != link->connection;
}

static void look_after(struct link *link) {
    uint64_t now_us = node_now_us(link->peers->node);
    if (link->state == LINK_OPENING && now_us > link->dialled_us + HELLO_US_MAX) {
        link->state = LINK_CLOSED;
    }
    if (link->is_wanted && link->state == LINK_CLOSED) {
        dial(link);
    } else if (link->state == LINK_OPEN &&
               network_cut_us(link->peers->node->index, link->to->index) > link->break_us) {
        link_close(link);
    } else if (link->state == LINK_OPEN && is_way_open(link) && is_forgotten(link)) {
        link_close(link);
    }
}

static void links_retry(uv_timer_t *timer) {
    struct peers *peers = timer->data;
    for (size_t i = 0; i < peers->n_links; i++) {
        look_after(peers->links[i]);
    }
}

/* --- Bytes. --- */

struct bytes_packet {
    struct link *link;
    uint64_t from_id;
    struct node *to;
    uint64_t to_generation;
    uint64_t connection;
    size_t size;
    uint8_t bytes[];
};

static struct bytes_packet *packet_make(struct link *link, const uint8_t *bytes, size_t size) {
    struct bytes_packet *packet = allocate(sizeof *packet + size);
    *packet = (struct bytes_packet){.link = link,
                                    .from_id = link->peers->options.self_id,
                                    .to = link->to,
                                    .to_generation = link->to_generation,
                                    .connection = link->connection,
                                    .size = size};
    memcpy(packet->bytes, bytes, size);
    return packet;
}

static void hand_over(struct peers *peers, uint64_t from_id, uint8_t type, struct bytes body) {
    if (!peers->callbacks->frame(peers->data, from_id, type, body)) {
        check_failed("frames", "%s cannot read a frame of type %u that %llu sent",
                     peers->node->name, type, (unsigned long long)from_id);
    }
}

static void stream_read(struct node *node, void *data) {
    struct bytes_packet *packet = data;
    struct peers *peers = open_peers[node->index];
    bool is_up = peers != NULL && is_alive(peers);
    struct inbound *inbound = is_up ? inbound_of(peers, packet->from_id) : NULL;
    if (inbound == NULL || inbound->connection != packet->connection) {
        connection_lose(packet->link, packet->connection);
        free(packet);
        return;
    }
    struct buffer *received = &inbound->received;
    buffer_append(received, packet->bytes, packet->size);
    free(packet);
    struct bytes left = bytes_of(received->data, received->size);
    uint8_t type;
    struct bytes body;
    enum status status = STATUS_OK;
    while (inbound->is_open && is_alive(peers) &&
           (status = peer_frame_next(&left, &type, &body)) == STATUS_OK) {
        hand_over(peers, inbound->hello.from_id, type, body);
    }
    if (status != STATUS_OK && status != STATUS_PENDING) {
        check_failed("frames", "%s cannot read what %s sent: %s", node->name,
                     inbound->hello.address, status_text(status));
    }
    memmove(received->data, left.data, left.size);
    received->size = left.size;
}

static void stream_lose(void *data) {
    free(data);
}

static void stream_arrive(void *data) {
    struct bytes_packet *packet = data;
    struct link *link = packet->link;
    if (link->connection == packet->connection) {
        link->in_flight -= packet->size;
    }
    if (!packet->to->is_up || packet->to->generation != packet->to_generation) {
        connection_lose(link, packet->connection);
        free(packet);
        return;
    }
    node_deliver(packet->to, stream_read, free, packet);
}

static void link_flush(struct link *link) {
    for (size_t at = 0; at < link->queue.size;) {
        size_t size = link->queue.size - at;
        if (size > 1 && random_chance(100)) {
            size = random_between(1, size - 1);
        }
        link->in_flight += size;
        network_send(link->channel, node_now_us(link->peers->node), stream_arrive, stream_lose,
                     packet_make(link, link->queue.data + at, size));
        at += size;
    }
    link->queue.size = 0;
}

void peers_flush(struct peers *peers) {
    for (size_t i = 0; i < peers->n_links; i++) {
        if (peers->links[i]->state == LINK_OPEN) {
            link_flush(peers->links[i]);
        }
    }
}

/* --- Raft's frames where the network is hostile. --- */

static void datagram_read(struct node *node, void *data) {
    struct bytes_packet *packet = data;
    struct peers *peers = open_peers[node->index];
    if (peers != NULL && is_alive(peers) && inbound_of(peers, packet->from_id) != NULL) {
        hand_over(peers, packet->from_id, PEER_RAFT, bytes_of(packet->bytes, packet->size));
    }
    free(packet);
}

static void datagram_arrive(void *data) {
    struct bytes_packet *packet = data;
    if (!packet->to->is_up) {
        free(packet);
        return;
    }
    node_deliver(packet->to, datagram_read, free, packet);
}

static void send_datagrams(struct link *link, struct bytes body) {
    for (unsigned n = network_copies(); n > 0; n--) {
        network_send_unordered(link->channel, node_now_us(link->peers->node), datagram_arrive, free,
                               packet_make(link, body.data, body.size));
    }
}

/* Nobody is asked: members of a simulation know all that is sent to them. */
struct peer_ask *peers_ask(struct peers *peers, const char *address,
                           void (*done)(void *data, struct bytes body, const char *reason),
                           void *data) {
    (void)peers;
    (void)address;
    (void)done;
    (void)data;
    return NULL;
}

void peer_ask_cancel(struct peer_ask *ask) {
    (void)ask;
}

/* --- Frames. --- */

size_t peers_room(const struct peers *peers, uint64_t id) {
    const struct link *link = find_open(peers, id);
    size_t used = link == NULL ? 0 : link->queue.size + link->in_flight;
    return link == NULL || used >= peers->queue_size_max ? 0 : peers->queue_size_max - used;
}

struct buffer *peers_frame_begin(struct peers *peers, uint64_t to_id, uint8_t type,
                                 bool is_urgent) {
    struct link *link = find_open(peers, to_id);
    if (link == NULL) {
        return NULL;
    }
    size_t used = link->queue.size + link->in_flight;
    if (used >= peers->queue_size_max + (is_urgent ? PEERS_URGENT_SIZE_MAX : 0)) {
        return NULL;
    }
    link->frame_start = peer_frame_begin(&link->queue, type);
    return &link->queue;
}

static void watch_raft(const struct link *link, struct bytes body) {
    const struct node *from = link->peers->node;
    struct raft_message_view message;
    bool is_vote =
        body.size > 0 && (body.data[0] == MESSAGE_VOTE || body.data[0] == MESSAGE_VOTE_RESULT ||
                          body.data[0] == MESSAGE_TIMEOUT_NOW);
    if (!is_vote || raft_codec_decode(body, &message) != STATUS_OK) {
        return;
    }
    if (message.kind == MESSAGE_VOTE) {
        trace("%s asks %s for a %svote in term %llu", from->name, link->to->name,
              message.vote.is_pre_vote ? "pre-" : "", (unsigned long long)message.vote.term);
    } else if (message.kind == MESSAGE_VOTE_RESULT) {
        trace("%s gives %s %s %svote in term %llu", from->name, link->to->name,
              message.vote_result.is_granted ? "its" : "no",
              message.vote_result.is_pre_vote ? "pre-" : "",
              (unsigned long long)message.vote_result.term);
    } else {
        trace("%s tells %s to take over", from->name, link->to->name);
        faults_handing_over(from->index);
    }
    raft_codec_clear(&message);
}

void peers_frame_end(struct peers *peers, uint64_t to_id) {
    struct link *link = find_open(peers, to_id);
    assert(link != NULL);
    peer_frame_end(&link->queue, link->frame_start);
    struct bytes left =
        bytes_of(link->queue.data + link->frame_start, link->queue.size - link->frame_start);
    uint8_t type;
    struct bytes body;
    enum status status = peer_frame_next(&left, &type, &body);
    assert(status == STATUS_OK);
    if (type != PEER_RAFT) {
        return;
    }
    watch_raft(link, body);
    if (network_is_hostile()) {
        send_datagrams(link, body);
        link->queue.size = link->frame_start;
    }
}

bool peers_is_linked(const struct peers *peers, uint64_t id) {
    return find_open(peers, id) != NULL;
}

bool peers_traffic(const struct peers *peers, uint64_t id, struct peers_traffic *out_traffic) {
    *out_traffic = (struct peers_traffic){0};
    return peers_is_linked(peers, id);
}

/* --- Life. --- */

enum status peers_open(uv_loop_t *loop, const struct peers_options *options,
                       const struct peers_callbacks *callbacks, void *data,
                       struct peers **out_peers, char *out_error, size_t error_size) {
    (void)out_error;
    (void)error_size;
    struct peers *peers = allocate(sizeof *peers);
    peers->node = node_of_loop(loop);
    peers->generation = peers->node->generation;
    peers->options = *options;
    peers->queue_size_max = random_chance(300) ? QUEUE_SIZE_MIN : (size_t)PEERS_QUEUE_SIZE_MAX;
    peers->callbacks = callbacks;
    peers->data = data;
    uv_timer_init(loop, &peers->retry);
    peers->retry.data = peers;
    uv_timer_start(&peers->retry, links_retry, RETRY_MS, RETRY_MS);
    open_peers[peers->node->index] = peers;
    *out_peers = peers;
    return STATUS_OK;
}

void peers_set_member(struct peers *peers, uint64_t id, const char *address) {
    struct link *link = find_link(peers, id);
    if (link != NULL && strcmp(link->address, address) == 0) {
        return;
    }
    if (link == NULL) {
        assert(peers->n_links < LINKS_MAX_SIM);
        link = allocate(sizeof *link);
        link->peers = peers;
        link->id = id;
        link->is_wanted = true;
        buffer_init(&link->queue);
        peers->links[peers->n_links++] = link;
    } else {
        link_close(link);
    }
    snprintf(link->address, sizeof link->address, "%s", address);
    dial(link);
}

void peers_remove_member(struct peers *peers, uint64_t id) {
    for (size_t i = 0; i < peers->n_links; i++) {
        struct link *link = peers->links[i];
        if (link->id == id) {
            peers->links[i] = peers->links[--peers->n_links];
            link->is_wanted = false;
            link_close(link);
            return;
        }
    }
}

void peers_check_inbound(struct peers *peers) {
    for (size_t i = 0; i < peers->n_inbound; i++) {
        struct inbound *inbound = peers->inbound[i];
        if (inbound->is_open &&
            peers->callbacks->admit(peers->data, &inbound->hello) != PEER_WELCOME) {
            inbound->is_open = false;
            connection_lose(inbound->link, inbound->connection);
        }
    }
}

uint64_t peers_n_refused(const struct peers *peers) {
    return peers->n_refused;
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
