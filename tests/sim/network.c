#include "network.h"

#include "faults.h"
#include "node.h"
#include "raft_io_sim.h"
#include "world.h"

#include <raft.h>
#include <stdlib.h>

enum { RETRANSMIT_US = 200 * WORLD_MS, LATE_US = 400 * WORLD_MS };

struct network_packet {
    struct network_packet *next;
    uint64_t epoch;
    uint64_t due_us;
    void (*arrive)(void *data);
    void (*lose)(void *data);
    void *data;
};

struct direction {
    bool is_cut;
    uint64_t cut_since_us;
    uint64_t resume_us; /* after a cut was mended: when what waited is sent again */
    struct network_channel *channels;
    struct network_channel raft;
};

static struct network_options the_options;
static struct direction directions[NODES_MAX][NODES_MAX];

void network_init(const struct network_options *options) {
    the_options = *options;
    for (size_t from = 0; from < NODES_MAX; from++) {
        for (size_t to = 0; to < NODES_MAX; to++) {
            directions[from][to].raft = (struct network_channel){.from = from, .to = to};
        }
    }
}

void network_set_loss(unsigned permille) {
    the_options.loss_permille = permille;
}

uint64_t network_delay_us(void) {
    return random_delay(the_options.delay_us, the_options.worst_delay_us);
}

/* Hands over, in order, what has come to its end. */
static void channel_pump(void *data) {
    struct network_channel *channel = data;
    const struct direction *direction = &directions[channel->from][channel->to];
    while (channel->first != NULL) {
        struct network_packet *packet = channel->first;
        bool is_lost = packet->epoch != channel->epoch;
        bool is_here = packet->due_us <= world_now_us() && !direction->is_cut &&
                       direction->resume_us <= world_now_us();
        if (!is_lost && !is_here) {
            return;
        }
        channel->first = packet->next;
        if (channel->first == NULL) {
            channel->last = &channel->first;
        }
        (is_lost ? packet->lose : packet->arrive)(packet->data);
        free(packet);
    }
}

void network_send(struct network_channel *channel, uint64_t at_us, void (*arrive)(void *data),
                  void (*lose)(void *data), void *data) {
    struct direction *direction = &directions[channel->from][channel->to];
    if (channel->last == NULL) {
        channel->last = &channel->first;
        channel->next = direction->channels;
        direction->channels = channel;
    }
    struct network_packet *packet = malloc(sizeof *packet);
    if (packet == NULL) {
        abort();
    }
    *packet = (struct network_packet){.epoch = channel->epoch,
                                      .due_us = at_us + network_delay_us(),
                                      .arrive = arrive,
                                      .lose = lose,
                                      .data = data};
    if (random_chance(the_options.loss_permille)) {
        packet->due_us += RETRANSMIT_US;
    }
    *channel->last = packet;
    channel->last = &packet->next;
    world_at(packet->due_us, channel_pump, channel);
}

/* --- Cuts. --- */

bool network_is_cut(size_t from, size_t to) {
    return directions[from][to].is_cut;
}

uint64_t network_cut_us(size_t from, size_t to) {
    const struct direction *direction = &directions[from][to];
    return direction->is_cut ? world_now_us() - direction->cut_since_us : 0;
}

void network_cut(size_t from, size_t to, bool is_cut) {
    struct direction *direction = &directions[from][to];
    if (direction->is_cut == is_cut) {
        return;
    }
    trace("n%zu -> n%zu is %s", from + 1, to + 1, is_cut ? "cut" : "mended");
    direction->is_cut = is_cut;
    direction->cut_since_us = world_now_us();
    if (is_cut) {
        return;
    }
    /* What waited is sent again: late, and in order. */
    direction->resume_us = world_now_us() + random_below(LATE_US);
    for (struct network_channel *channel = direction->channels; channel != NULL;
         channel = channel->next) {
        world_at(direction->resume_us, channel_pump, channel);
    }
}

void network_heal(void) {
    for (size_t from = 0; from < NODES_MAX; from++) {
        for (size_t to = 0; to < NODES_MAX; to++) {
            network_cut(from, to, false);
        }
    }
}

/* --- Raft's messages. --- */

struct raft_packet {
    struct node *from;
    struct node *to;
    uint64_t generation; /* of the receiver: a connection ends with its process */
    struct raft_message *message;
};

static void raft_packet_lose(void *data) {
    struct raft_packet *packet = data;
    raft_message_drop(packet->message);
    free(packet);
}

static void raft_packet_read(struct node *node, void *data) {
    struct raft_packet *packet = data;
    struct raft_message *message = packet->message;
    message->server_id = packet->from->id;
    message->server_address = packet->from->address;
    free(packet);
    raft_io_sim_receive(node, message);
}

static void raft_packet_arrive(void *data) {
    struct raft_packet *packet = data;
    struct node *to = packet->to;
    if (!to->is_up || (!the_options.is_hostile && to->generation != packet->generation)) {
        raft_packet_lose(packet);
        return;
    }
    node_deliver(to, raft_packet_read, raft_packet_lose, packet);
}

static void raft_packet_arrive_unordered(void *data) {
    struct raft_packet *packet = data;
    if (network_is_cut(packet->from->index, packet->to->index)) {
        raft_packet_lose(packet);
        return;
    }
    raft_packet_arrive(packet);
}

static struct raft_packet *raft_packet_make(struct node *from, struct node *to,
                                            const struct raft_message *message) {
    struct raft_packet *packet = malloc(sizeof *packet);
    if (packet == NULL) {
        abort();
    }
    *packet = (struct raft_packet){.from = from,
                                   .to = to,
                                   .generation = to->generation,
                                   .message = raft_message_copy(message)};
    return packet;
}

static void trace_vote(const struct node *from, const struct node *to,
                       const struct raft_message *message) {
    if (message->type == RAFT_REQUEST_VOTE) {
        trace("%s asks %s for a %svote in term %llu", from->name, to->name,
              message->request_vote.pre_vote ? "pre-" : "", message->request_vote.term);
    } else if (message->type == RAFT_REQUEST_VOTE_RESULT) {
        trace("%s gives %s %s %svote in term %llu", from->name, to->name,
              message->request_vote_result.vote_granted ? "its" : "no",
              message->request_vote_result.pre_vote ? "pre-" : "",
              message->request_vote_result.term);
    }
}

void network_send_raft(struct node *from, struct node *to, const struct raft_message *message) {
    trace_vote(from, to, message);
    if (message->type == RAFT_TIMEOUT_NOW) {
        faults_handing_over(from->index);
    }
    struct network_channel *channel = &directions[from->index][to->index].raft;
    if (!the_options.is_hostile) {
        network_send(channel, node_now_us(from), raft_packet_arrive, raft_packet_lose,
                     raft_packet_make(from, to, message));
        return;
    }
    unsigned n_copies = random_chance(the_options.loss_permille) ? 0 : 1;
    n_copies += random_chance(the_options.repeat_permille);
    for (unsigned i = 0; i < n_copies; i++) {
        world_at(node_now_us(from) + network_delay_us(), raft_packet_arrive_unordered,
                 raft_packet_make(from, to, message));
    }
}
