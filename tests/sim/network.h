/*
 * The simulated network between nodes. A channel carries packets one way; a stream keeps their
 * order and loses none but by breaking, as TCP does; the hostile kind loses, repeats and reorders,
 * which only raft's own messages have to bear. A direction between two nodes can be cut: what is
 * under way then waits and comes late, or is lost.
 */
#ifndef LEASED_SIM_NETWORK_H
#define LEASED_SIM_NETWORK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct network_options {
    uint64_t delay_us;
    uint64_t worst_delay_us;
    unsigned loss_permille; /* on streams a delay, as of a retransmission */
    unsigned repeat_permille;
    bool is_hostile; /* to raft's messages */
};

void network_init(const struct network_options *options);
void network_set_loss(unsigned permille);

/* A way from one node to another that keeps order. Packets of an earlier epoch are lost. It is
 * never freed. */
struct network_channel {
    size_t from;
    size_t to;
    uint64_t epoch;
    struct network_packet *first; /* on their way */
    struct network_packet **last;
    struct network_channel *next; /* of the same direction */
};
/* `arrive` is called when the packet reaches the other machine, `lose` when it never will. */
void network_send(struct network_channel *channel, uint64_t at_us, void (*arrive)(void *data),
                  void (*lose)(void *data), void *data);

/* Raft's own messages: where the network is hostile they travel alone. */
bool network_is_hostile(void);
/* How often one of them is sent: it may be lost or repeated. */
unsigned network_copies(void);
void network_send_unordered(const struct network_channel *channel, uint64_t at_us,
                            void (*arrive)(void *data), void (*lose)(void *data), void *data);

/* Cuts or mends the direction. */
void network_cut(size_t from, size_t to, bool is_cut);
bool network_is_cut(size_t from, size_t to);
/* For how long it has been cut. */
uint64_t network_cut_us(size_t from, size_t to);
/* Mends everything. */
void network_heal(void);
uint64_t network_delay_us(void);

#endif
