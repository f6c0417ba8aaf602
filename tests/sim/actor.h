/*
 * A client that goes from round to round: what it asked for or planned in an earlier one is of no
 * interest any more. It has a clock of its own, which drifts.
 */
#ifndef LEASED_SIM_ACTOR_H
#define LEASED_SIM_ACTOR_H

#include "call.h"

struct actor {
    size_t number;
    int64_t rate_ppm; /* of its clock */
    uint64_t round;
    struct node *node; /* that it talks to */
};

void actor_init(struct actor *actor, size_t number);
/* Unless the round is over by then. */
void actor_later(struct actor *actor, uint64_t delay_us, void (*act)(struct actor *actor));
/* Sends it to the actor's node; the answer is for this round alone. Sets call->answered and
 * call->data. */
void actor_ask(struct actor *actor, struct call *call,
               void (*answered)(struct actor *actor, struct call *call));
/* Safety rule 2, the holder's half: what lasts for a TTL is relied on from when it was asked for,
 * until then (true time). */
uint64_t actor_relies_until_us(const struct actor *actor, const struct call *call, int64_t ttl_ms);

/* From now on who renews in time never loses anything: every node is up, and clients reach it. */
void actors_keep_what_they_renew(void);
/* It renewed in time, and was told that it has lost this. */
void actor_lost(const struct actor *actor, const char *what);

/* Nobody acts or is answered any more. */
void actors_stop(void);

#endif
