#include "network.h"

#include "node.h"
#include "world.h"

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
};

static struct network_options the_options;
static struct direction directions[NODES_MAX][NODES_MAX];

void network_init(const struct network_options *options) {
    the_options = *options;
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
    the_options.is_hostile = false;
    for (size_t from = 0; from < NODES_MAX; from++) {
        for (size_t to = 0; to < NODES_MAX; to++) {
            network_cut(from, to, false);
        }
    }
}

/* --- Raft's messages, where they travel alone. --- */

bool network_is_hostile(void) {
    return the_options.is_hostile;
}

unsigned network_copies(void) {
    unsigned n = random_chance(the_options.loss_permille) ? 0 : 1;
    return n + random_chance(the_options.repeat_permille);
}

struct lone_packet {
    size_t from;
    size_t to;
    void (*arrive)(void *data);
    void (*lose)(void *data);
    void *data;
};

static void lone_packet_arrives(void *data) {
    struct lone_packet packet = *(struct lone_packet *)data;
    free(data);
    (network_is_cut(packet.from, packet.to) ? packet.lose : packet.arrive)(packet.data);
}

void network_send_unordered(const struct network_channel *channel, uint64_t at_us,
                            void (*arrive)(void *data), void (*lose)(void *data), void *data) {
    struct lone_packet *packet = malloc(sizeof *packet);
    if (packet == NULL) {
        abort();
    }
    *packet = (struct lone_packet){
        .from = channel->from, .to = channel->to, .arrive = arrive, .lose = lose, .data = data};
    world_at(at_us + network_delay_us(), lone_packet_arrives, packet);
}
