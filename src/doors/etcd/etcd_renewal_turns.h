/*
 * Whose renewals the service is asked for next. A node that does not lead forwards renewals, and
 * each of them waits for all that were asked for before it. So a bounded number is asked for at a
 * time, and streams that have more take turns, one renewal each.
 */
#ifndef LEASED_DOORS_ETCD_ETCD_RENEWAL_TURNS_H
#define LEASED_DOORS_ETCD_ETCD_RENEWAL_TURNS_H

#include "base/list.h"

#include <stdbool.h>
#include <uv.h>

struct etcd_renewal_turns;

/* A stream that has more renewals than may be asked for now. */
struct etcd_renewal_turn {
    struct list link;
    /* Asks for one. True: there are more. Never called from inside a call of this module. */
    bool (*take)(struct etcd_renewal_turn *turn);
};

struct etcd_renewal_turns *etcd_renewal_turns_create(uv_loop_t *loop);
/* The loop must run once more, to let go of the timer. */
void etcd_renewal_turns_destroy(struct etcd_renewal_turns *turns);

/* A renewal is with the service, and is answered. */
void etcd_renewal_turns_asked(struct etcd_renewal_turns *turns);
void etcd_renewal_turns_answered(struct etcd_renewal_turns *turns);
/* One may be asked for without a turn. */
bool etcd_renewal_turns_has_room(const struct etcd_renewal_turns *turns);

void etcd_renewal_turn_init(struct etcd_renewal_turn *turn,
                            bool (*take)(struct etcd_renewal_turn *turn));
/* Waits for its turn, which comes after an answer: at least one renewal is with the service. */
void etcd_renewal_turn_await(struct etcd_renewal_turns *turns, struct etcd_renewal_turn *turn);
/* Waits no more. */
void etcd_renewal_turn_leave(struct etcd_renewal_turn *turn);

#endif
