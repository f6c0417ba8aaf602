#include "net/net_timers.h"

#include <assert.h>
#include <stdlib.h>

enum { BATCH_SIZE = 64, SLOTS_MIN = 64 };

/* A slot holds an armed timer or the number of the next free slot. */
union slot {
    struct net_timer *timer;
    uintptr_t next_free; /* (next << 1) | 1: the lowest bit of a timer is never set */
};

struct net_timers {
    struct timing_wheel *wheel;
    union slot *slots;
    uint32_t n_slots;
    uint32_t first_free;
    uint64_t now_ms;
    uint64_t (*clock)(const void *source); /* NULL: none */
    const void *clock_source;
};

static bool slot_is_free(union slot slot) {
    return (slot.next_free & 1) != 0;
}

static struct timing_wheel_timer *resolve(void *owner, uint32_t handle) {
    struct net_timers *timers = owner;
    return &timers->slots[handle].timer->wheel;
}

struct net_timers *net_timers_create(uint64_t now_ms) {
    struct net_timers *timers = calloc(1, sizeof *timers);
    if (timers == NULL) {
        abort();
    }
    timers->wheel = timing_wheel_create(now_ms, resolve, timers);
    timers->first_free = TIMING_WHEEL_NONE;
    timers->now_ms = now_ms;
    return timers;
}

void net_timers_destroy(struct net_timers *timers) {
    if (timers == NULL) {
        return;
    }
    assert(timing_wheel_count(timers->wheel) == 0);
    timing_wheel_destroy(timers->wheel);
    free(timers->slots);
    free(timers);
}

static uint32_t slot_take(struct net_timers *timers) {
    if (timers->first_free == TIMING_WHEEL_NONE) {
        uint32_t n_slots = timers->n_slots == 0 ? SLOTS_MIN : timers->n_slots * 2;
        assert(n_slots > timers->n_slots);
        union slot *slots = realloc(timers->slots, n_slots * sizeof *slots);
        if (slots == NULL) {
            abort();
        }
        timers->slots = slots;
        for (uint32_t i = n_slots; i > timers->n_slots; i--) {
            slots[i - 1].next_free = (uintptr_t)timers->first_free << 1 | 1;
            timers->first_free = i - 1;
        }
        timers->n_slots = n_slots;
    }
    uint32_t handle = timers->first_free;
    timers->first_free = (uint32_t)(timers->slots[handle].next_free >> 1);
    return handle;
}

static void slot_give(struct net_timers *timers, uint32_t handle) {
    timers->slots[handle].next_free = (uintptr_t)timers->first_free << 1 | 1;
    timers->first_free = handle;
}

void net_timer_init(struct net_timer *timer, void (*fire)(struct net_timer *timer)) {
    timing_wheel_timer_init(&timer->wheel);
    timer->handle = TIMING_WHEEL_NONE;
    timer->fire = fire;
}

void net_timers_arm(struct net_timers *timers, struct net_timer *timer, uint64_t due_ms) {
    if (timer->handle == TIMING_WHEEL_NONE) {
        timer->handle = slot_take(timers);
        timers->slots[timer->handle].timer = timer;
    }
    timing_wheel_arm(timers->wheel, timer->handle, due_ms);
}

void net_timers_stop(struct net_timers *timers, struct net_timer *timer) {
    assert(net_timer_is_armed(timer));
    timing_wheel_disarm(timers->wheel, timer->handle);
    slot_give(timers, timer->handle);
    timer->handle = TIMING_WHEEL_NONE;
}

void net_timers_set_now(struct net_timers *timers, uint64_t now_ms) {
    if (now_ms > timers->now_ms) {
        timers->now_ms = now_ms;
    }
}

void net_timers_set_clock(struct net_timers *timers, uint64_t (*now_ms)(const void *source),
                          const void *source) {
    timers->clock = now_ms;
    timers->clock_source = source;
}

uint64_t net_timers_now_ms(const struct net_timers *timers) {
    uint64_t now_ms = timers->clock != NULL ? timers->clock(timers->clock_source) : 0;
    return now_ms > timers->now_ms ? now_ms : timers->now_ms;
}

void net_timers_run(struct net_timers *timers, uint64_t now_ms) {
    net_timers_set_now(timers, now_ms);
    uint32_t handles[BATCH_SIZE];
    size_t n = 0;
    do {
        n = timing_wheel_advance(timers->wheel, timers->now_ms, handles, BATCH_SIZE);
        for (size_t i = 0; i < n; i++) {
            union slot slot = timers->slots[handles[i]];
            /* An earlier callback of this batch may have disarmed this one, and its slot may be
             * free or belong to a timer armed since. */
            if (slot_is_free(slot) || timing_wheel_is_armed(&slot.timer->wheel)) {
                continue;
            }
            slot_give(timers, handles[i]);
            slot.timer->handle = TIMING_WHEEL_NONE;
            slot.timer->fire(slot.timer);
        }
    } while (n == BATCH_SIZE);
}

uint64_t net_timers_next_ms(const struct net_timers *timers) {
    return timing_wheel_next_ms(timers->wheel);
}
