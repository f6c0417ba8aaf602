#include "doors/etcd/etcd_renewal_turns.h"

#include <assert.h>
#include <stdlib.h>

enum {
    /* With the service at a time, beside the first of each stream: a few milliseconds of the way to
     * the leader and back. */
    ASKED_MAX = 8192,
    /* Asked for in one iteration: when this node has come to lead, each is answered at once. */
    TURNS_MAX = 4096,
    /* A timer of no time would be run again in the same iteration. */
    PAUSE_MS = 1
};

struct etcd_renewal_turns {
    struct list waiting;
    size_t n_asked;
    uv_timer_t timer;
};

static void on_turns(uv_timer_t *timer);

struct etcd_renewal_turns *etcd_renewal_turns_create(uv_loop_t *loop) {
    struct etcd_renewal_turns *turns = calloc(1, sizeof *turns);
    if (turns == NULL) {
        abort();
    }
    list_init(&turns->waiting);
    int result = uv_timer_init(loop, &turns->timer);
    assert(result == 0);
    return turns;
}

static void on_closed(uv_handle_t *handle) {
    free(list_entry((uv_timer_t *)handle, struct etcd_renewal_turns, timer));
}

void etcd_renewal_turns_destroy(struct etcd_renewal_turns *turns) {
    assert(list_is_empty(&turns->waiting));
    uv_close((uv_handle_t *)&turns->timer, on_closed);
}

static void serve_later(struct etcd_renewal_turns *turns, uint64_t after_ms) {
    if (!list_is_empty(&turns->waiting) && !uv_is_active((uv_handle_t *)&turns->timer)) {
        uv_timer_start(&turns->timer, on_turns, after_ms, 0);
    }
}

static void on_turns(uv_timer_t *timer) {
    struct etcd_renewal_turns *turns = list_entry(timer, struct etcd_renewal_turns, timer);
    for (size_t i = 0; i < TURNS_MAX && etcd_renewal_turns_has_room(turns); i++) {
        struct list *link = list_pop_first(&turns->waiting);
        if (link == NULL) {
            return;
        }
        struct etcd_renewal_turn *turn = list_entry(link, struct etcd_renewal_turn, link);
        if (turn->take(turn)) {
            list_append(&turns->waiting, &turn->link);
        }
    }
    if (etcd_renewal_turns_has_room(turns)) {
        serve_later(turns, PAUSE_MS);
    }
}

void etcd_renewal_turns_asked(struct etcd_renewal_turns *turns) {
    turns->n_asked++;
}

void etcd_renewal_turns_answered(struct etcd_renewal_turns *turns) {
    assert(turns->n_asked > 0);
    turns->n_asked--;
    serve_later(turns, 0);
}

bool etcd_renewal_turns_has_room(const struct etcd_renewal_turns *turns) {
    return turns->n_asked < ASKED_MAX;
}

void etcd_renewal_turn_init(struct etcd_renewal_turn *turn,
                            bool (*take)(struct etcd_renewal_turn *turn)) {
    turn->take = take;
    list_init(&turn->link);
}

void etcd_renewal_turn_await(struct etcd_renewal_turns *turns, struct etcd_renewal_turn *turn) {
    assert(turns->n_asked > 0);
    list_append(&turns->waiting, &turn->link);
}

void etcd_renewal_turn_leave(struct etcd_renewal_turn *turn) {
    list_remove(&turn->link);
}
