#include "doors/native/native_clock.h"

#include "base/list.h"
#include "core/service.h"

#include <assert.h>
#include <stdlib.h>

struct native_clock {
    struct net_timers *timers;
    struct service *service;
    uv_timer_t timer;
    uint64_t next_ms; /* that the loop's timer is set for; UINT64_MAX: it is not */
};

static void on_timer(uv_timer_t *timer);

static void set_timer(struct native_clock *clock) {
    uint64_t next_ms = net_timers_next_ms(clock->timers);
    if (next_ms == clock->next_ms) {
        return;
    }
    clock->next_ms = next_ms;
    if (next_ms == UINT64_MAX) {
        uv_timer_stop(&clock->timer);
        return;
    }
    uint64_t now_ms = service_now_ms(clock->service);
    uv_timer_start(&clock->timer, on_timer, next_ms > now_ms ? next_ms - now_ms : 0, 0);
}

static void on_timer(uv_timer_t *timer) {
    struct native_clock *clock = list_entry(timer, struct native_clock, timer);
    clock->next_ms = UINT64_MAX;
    net_timers_run(clock->timers, service_now_ms(clock->service));
    set_timer(clock);
}

struct native_clock *native_clock_create(uv_loop_t *loop, struct service *service) {
    struct native_clock *clock = calloc(1, sizeof *clock);
    if (clock == NULL) {
        abort();
    }
    clock->service = service;
    clock->next_ms = UINT64_MAX;
    clock->timers = net_timers_create(service_now_ms(service));
    int result = uv_timer_init(loop, &clock->timer);
    assert(result == 0);
    return clock;
}

static void on_closed(uv_handle_t *handle) {
    struct native_clock *clock = list_entry((uv_timer_t *)handle, struct native_clock, timer);
    net_timers_destroy(clock->timers);
    free(clock);
}

void native_clock_destroy(struct native_clock *clock) {
    uv_close((uv_handle_t *)&clock->timer, on_closed);
}

void native_clock_arm(struct native_clock *clock, struct net_timer *timer, uint64_t after_ms) {
    uint64_t now_ms = service_now_ms(clock->service);
    net_timers_arm(clock->timers, timer,
                   after_ms > UINT64_MAX - now_ms ? UINT64_MAX : now_ms + after_ms);
    set_timer(clock);
}

void native_clock_disarm(struct native_clock *clock, struct net_timer *timer) {
    net_timers_disarm(clock->timers, timer);
}
