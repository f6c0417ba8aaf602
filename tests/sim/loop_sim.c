#include "loop_sim.h"

#include "node.h"
#include "world.h"

#include <assert.h>
#include <stdlib.h>

enum { TIMERS_MAX = 64, HANDLES_MAX = 8, CLOSING_MAX = 64, WORK_US = 2000, WORKS_MAX = 32 };

struct armed_timer {
    uv_timer_t *timer;
    uv_timer_cb fired;
    uint64_t due_ms;
    uint64_t repeat_ms;
    uint64_t order; /* breaks ties as libuv does */
};

struct turn_handle {
    uv_handle_t *handle;
    void (*run)(uv_handle_t *handle);
};

struct turn_handles {
    struct turn_handle at[HANDLES_MAX];
    size_t n;
};

struct loop_sim {
    uint64_t now_ms;
    struct armed_timer timers[TIMERS_MAX];
    size_t n_timers;
    uint64_t n_started;
    struct turn_handles prepares;
    struct turn_handles checks;
    struct turn_handles idles;
    struct {
        uv_handle_t *handle;
        uv_close_cb closed;
    } closing[CLOSING_MAX];
    size_t n_closing;
    struct work *works[WORKS_MAX]; /* under way */
    size_t n_works;
};

struct loop_sim *loop_sim_create(void) {
    struct loop_sim *loop = calloc(1, sizeof *loop);
    if (loop == NULL) {
        abort();
    }
    return loop;
}

static struct loop_sim *of(const uv_loop_t *loop) {
    return node_of_loop(loop)->handles;
}

void loop_sim_set_time(struct loop_sim *loop, uint64_t now_ms) {
    loop->now_ms = now_ms;
}

/* --- Timers. --- */

int uv_timer_init(uv_loop_t *loop, uv_timer_t *timer) {
    timer->loop = loop;
    timer->type = UV_TIMER;
    return 0;
}

int uv_timer_stop(uv_timer_t *timer) {
    struct loop_sim *loop = of(timer->loop);
    for (size_t i = 0; i < loop->n_timers; i++) {
        if (loop->timers[i].timer == timer) {
            loop->timers[i] = loop->timers[--loop->n_timers];
            break;
        }
    }
    return 0;
}

int uv_timer_start(uv_timer_t *timer, uv_timer_cb fired, uint64_t timeout_ms, uint64_t repeat_ms) {
    struct loop_sim *loop = of(timer->loop);
    uv_timer_stop(timer);
    assert(loop->n_timers < TIMERS_MAX);
    loop->timers[loop->n_timers++] = (struct armed_timer){.timer = timer,
                                                          .fired = fired,
                                                          .due_ms = loop->now_ms + timeout_ms,
                                                          .repeat_ms = repeat_ms,
                                                          .order = loop->n_started++};
    return 0;
}

static const struct armed_timer *next_timer(const struct loop_sim *loop) {
    const struct armed_timer *next = NULL;
    for (size_t i = 0; i < loop->n_timers; i++) {
        const struct armed_timer *timer = &loop->timers[i];
        if (next == NULL || timer->due_ms < next->due_ms ||
            (timer->due_ms == next->due_ms && timer->order < next->order)) {
            next = timer;
        }
    }
    return next;
}

uint64_t loop_sim_next_ms(const struct loop_sim *loop) {
    const struct armed_timer *next = next_timer(loop);
    return next == NULL ? UINT64_MAX : next->due_ms;
}

void loop_sim_run_timers(struct loop_sim *loop) {
    for (const struct armed_timer *next;
         (next = next_timer(loop)) != NULL && next->due_ms <= loop->now_ms;) {
        struct armed_timer timer = *next;
        uv_timer_stop(timer.timer);
        if (timer.repeat_ms != 0) {
            uv_timer_start(timer.timer, timer.fired, timer.repeat_ms, timer.repeat_ms);
        }
        timer.fired(timer.timer);
    }
}

/* --- Handles that run once a turn. --- */

static void turn_handle_start(struct turn_handles *handles, uv_handle_t *handle,
                              void (*run)(uv_handle_t *)) {
    for (size_t i = 0; i < handles->n; i++) {
        if (handles->at[i].handle == handle) {
            return;
        }
    }
    assert(handles->n < HANDLES_MAX);
    handles->at[handles->n++] = (struct turn_handle){.handle = handle, .run = run};
}

static void turn_handle_stop(struct turn_handles *handles, const void *handle) {
    for (size_t i = 0; i < handles->n; i++) {
        if (handles->at[i].handle == handle) {
            handles->n--;
            for (; i < handles->n; i++) {
                handles->at[i] = handles->at[i + 1];
            }
            return;
        }
    }
}

static void run_all(struct turn_handles *handles) {
    struct turn_handles now = *handles;
    for (size_t i = now.n; i > 0; i--) {
        now.at[i - 1].run(now.at[i - 1].handle);
    }
}

void loop_sim_run_prepares(struct loop_sim *loop) {
    run_all(&loop->prepares);
}

void loop_sim_run_checks(struct loop_sim *loop) {
    run_all(&loop->checks);
}

void loop_sim_run_idles(struct loop_sim *loop) {
    run_all(&loop->idles);
}

bool loop_sim_is_busy(const struct loop_sim *loop) {
    return loop->idles.n > 0 || loop->n_closing > 0;
}

int uv_prepare_init(uv_loop_t *loop, uv_prepare_t *prepare) {
    prepare->loop = loop;
    prepare->type = UV_PREPARE;
    return 0;
}

int uv_prepare_start(uv_prepare_t *prepare, uv_prepare_cb run) {
    turn_handle_start(&of(prepare->loop)->prepares, (uv_handle_t *)prepare,
                      (void (*)(uv_handle_t *))(void (*)(void))run);
    return 0;
}

int uv_prepare_stop(uv_prepare_t *prepare) {
    turn_handle_stop(&of(prepare->loop)->prepares, prepare);
    return 0;
}

int uv_check_init(uv_loop_t *loop, uv_check_t *check) {
    check->loop = loop;
    check->type = UV_CHECK;
    return 0;
}

int uv_check_start(uv_check_t *check, uv_check_cb run) {
    turn_handle_start(&of(check->loop)->checks, (uv_handle_t *)check,
                      (void (*)(uv_handle_t *))(void (*)(void))run);
    return 0;
}

int uv_check_stop(uv_check_t *check) {
    turn_handle_stop(&of(check->loop)->checks, check);
    return 0;
}

int uv_idle_init(uv_loop_t *loop, uv_idle_t *idle) {
    idle->loop = loop;
    idle->type = UV_IDLE;
    return 0;
}

int uv_idle_start(uv_idle_t *idle, uv_idle_cb run) {
    turn_handle_start(&of(idle->loop)->idles, (uv_handle_t *)idle,
                      (void (*)(uv_handle_t *))(void (*)(void))run);
    return 0;
}

int uv_idle_stop(uv_idle_t *idle) {
    turn_handle_stop(&of(idle->loop)->idles, idle);
    return 0;
}

/* --- Closing. --- */

void uv_close(uv_handle_t *handle, uv_close_cb closed) {
    struct loop_sim *loop = of(handle->loop);
    turn_handle_stop(&loop->prepares, handle);
    turn_handle_stop(&loop->checks, handle);
    turn_handle_stop(&loop->idles, handle);
    if (handle->type == UV_TIMER) {
        uv_timer_stop((uv_timer_t *)handle);
    }
    assert(loop->n_closing < CLOSING_MAX);
    loop->closing[loop->n_closing].handle = handle;
    loop->closing[loop->n_closing++].closed = closed;
}

void loop_sim_run_closing(struct loop_sim *loop) {
    while (loop->n_closing > 0) {
        loop->n_closing--;
        if (loop->closing[loop->n_closing].closed != NULL) {
            loop->closing[loop->n_closing].closed(loop->closing[loop->n_closing].handle);
        }
    }
}

/* --- The time, as libuv caches it. --- */

uint64_t uv_now(const uv_loop_t *loop) {
    return of(loop)->now_ms;
}

void uv_update_time(uv_loop_t *loop) {
    struct node *node = node_of_loop(loop);
    loop_sim_set_time(node->handles, node_monotonic_us(node) / 1000);
}

/* --- Work in threads. --- */

struct work {
    struct node *node;
    uint64_t generation;
    uv_work_t *request;
    uv_work_cb run;
    uv_after_work_cb done;
};

static void work_read(struct node *node, void *data) {
    struct work *work = data;
    (void)node;
    uv_after_work_cb done = work->done;
    uv_work_t *request = work->request;
    free(work);
    done(request, 0);
}

static void forget_work(struct loop_sim *loop, const struct work *work) {
    for (size_t i = 0; i < loop->n_works; i++) {
        if (loop->works[i] == work) {
            loop->works[i] = loop->works[--loop->n_works];
            return;
        }
    }
}

static void work_run(void *data) {
    struct work *work = data;
    struct node *node = work->node;
    if (!node->is_up || node->generation != work->generation) {
        free(work);
        return;
    }
    forget_work(node->handles, work);
    work->run(work->request);
    if (machine_disk_has_lost_power(&node->disk)) {
        node_crash(node, true);
        free(work);
        return;
    }
    node_deliver(node, work_read, free, work);
}

int uv_queue_work(uv_loop_t *loop, uv_work_t *request, uv_work_cb run, uv_after_work_cb done) {
    struct node *node = node_of_loop(loop);
    struct work *work = malloc(sizeof *work);
    if (work == NULL) {
        abort();
    }
    *work = (struct work){
        .node = node, .generation = node->generation, .request = request, .run = run, .done = done};
    assert(node->handles->n_works < WORKS_MAX);
    node->handles->works[node->handles->n_works++] = work;
    world_at(node_now_us(node) + random_delay(WORK_US, 100 * WORLD_MS) +
                 machine_disk_write_us(&node->disk),
             work_run, work);
    return 0;
}

void loop_sim_crash(struct loop_sim *loop) {
    for (size_t i = 0; i < loop->n_works; i++) {
        if (random_chance(500)) {
            loop->works[i]->run(loop->works[i]->request);
        }
    }
    loop->n_works = 0;
}
