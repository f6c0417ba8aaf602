#include "actor.h"

#include "checks.h"
#include "clients.h"
#include "node.h"
#include "world.h"

#include <stdlib.h>

struct errand {
    struct actor *actor;
    uint64_t round;
    void (*act)(struct actor *actor);
    void (*answered)(struct actor *actor, struct call *call);
};

static bool is_stopped;
static bool keep_what_they_renew;

void actor_init(struct actor *actor, size_t number) {
    *actor = (struct actor){
        .number = number, .rate_ppm = nodes_random_rate_ppm(), .node = clients_choose_node()};
}

static struct errand *errand_of(struct actor *actor) {
    struct errand *errand = calloc(1, sizeof *errand);
    if (errand == NULL) {
        abort();
    }
    errand->actor = actor;
    errand->round = actor->round;
    return errand;
}

static bool is_over(const struct errand *errand) {
    return is_stopped || errand->actor->round != errand->round;
}

static void moment_comes(void *data) {
    struct errand errand = *(struct errand *)data;
    free(data);
    if (!is_over(&errand)) {
        errand.act(errand.actor);
    }
}

void actor_later(struct actor *actor, uint64_t delay_us, void (*act)(struct actor *actor)) {
    struct errand *errand = errand_of(actor);
    errand->act = act;
    world_at(world_now_us() + delay_us, moment_comes, errand);
}

static void call_answered(struct call *call) {
    struct errand errand = *(struct errand *)call->data;
    free(call->data);
    call->data = NULL;
    if (!is_over(&errand)) {
        errand.answered(errand.actor, call);
    }
}

void actor_ask(struct actor *actor, struct call *call,
               void (*answered)(struct actor *actor, struct call *call)) {
    struct errand *errand = errand_of(actor);
    errand->answered = answered;
    call->answered = call_answered;
    call->data = errand;
    call_send(call, actor->node);
}

uint64_t actor_relies_until_us(const struct actor *actor, const struct call *call, int64_t ttl_ms) {
    uint64_t local_us = (uint64_t)ttl_ms * (1000 - checks_drift_allowance_permille());
    return call->sent_us + local_us * 1000000 / (uint64_t)(1000000 + actor->rate_ppm);
}

void actors_keep_what_they_renew(void) {
    keep_what_they_renew = true;
}

void actor_lost(const struct actor *actor, const char *what) {
    if (keep_what_they_renew) {
        check_failed("lost", "client %zu renewed %s in time and lost it", actor->number, what);
    }
}

void actors_stop(void) {
    is_stopped = true;
}
