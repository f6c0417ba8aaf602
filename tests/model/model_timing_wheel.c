/*
 * Random use of a wheel against a plain array of deadlines. The seed is printed; give it as the
 * first argument to replay a run.
 */
#include "../storage/thorough.h"
#include "base/timing_wheel.h"

#include "model_random.h"

#include <assert.h>
#include <stdlib.h>

enum { TIMERS = 300, STEPS = 20000, ROUNDS = THOROUGH(40), NOT_ARMED = 0 };

struct model {
    struct timing_wheel *wheel;
    struct timing_wheel_timer timers[TIMERS];
    uint64_t due_ms[TIMERS]; /* the reference; NOT_ARMED when it is not */
    uint64_t now_ms;
};

/* Every magnitude is as likely as any other, so that every level is visited. */
static uint64_t random_distance_ms(void) {
    return random_next() >> (22 + random_below(42));
}

static struct timing_wheel_timer *model_resolve(void *owner, uint32_t handle) {
    struct model *model = owner;
    return &model->timers[handle];
}

static size_t model_count(const struct model *model) {
    size_t count = 0;
    for (size_t i = 0; i < TIMERS; i++) {
        count += model->due_ms[i] != NOT_ARMED;
    }
    return count;
}

static uint64_t model_next_ms(const struct model *model) {
    uint64_t next_ms = UINT64_MAX;
    for (size_t i = 0; i < TIMERS; i++) {
        if (model->due_ms[i] != NOT_ARMED && model->due_ms[i] < next_ms) {
            next_ms = model->due_ms[i];
        }
    }
    return next_ms;
}

static void model_arm(struct model *model) {
    uint32_t handle = (uint32_t)random_below(TIMERS);
    uint64_t due_ms = model->now_ms + random_distance_ms();
    if (random_below(20) == 0) {
        due_ms = 1 + random_below(model->now_ms);
    }
    timing_wheel_arm(model->wheel, handle, due_ms);
    model->due_ms[handle] = due_ms;
}

static void model_advance(struct model *model) {
    switch (random_below(4)) {
    case 0:
        model->now_ms += random_distance_ms() / 64;
        break;
    case 1: /* to the very moment, or just before it */
        if (model_next_ms(model) != UINT64_MAX && model_next_ms(model) > model->now_ms) {
            model->now_ms = model_next_ms(model) - random_below(2);
        }
        break;
    default:
        model->now_ms += random_below(300);
        break;
    }
    uint32_t out[TIMERS];
    size_t capacity = random_below(3) == 0 ? 1 + random_below(5) : TIMERS;
    size_t n;
    do {
        n = timing_wheel_advance(model->wheel, model->now_ms, out, capacity);
        for (size_t i = 0; i < n; i++) {
            assert(model->due_ms[out[i]] != NOT_ARMED);
            assert(model->due_ms[out[i]] <= model->now_ms);
            model->due_ms[out[i]] = NOT_ARMED;
            uint64_t old_ms = model->timers[out[i]].due_ms;
            if (random_below(4) == 0 && model->now_ms - old_ms < UINT32_MAX / 2) {
                model->due_ms[out[i]] = model->now_ms + 1 + random_below(2000);
                timing_wheel_put_off(model->wheel, out[i], model->due_ms[out[i]]);
                assert(model->timers[out[i]].due_ms == old_ms);
            }
        }
    } while (n == capacity);
    assert(model_next_ms(model) > model->now_ms);
}

static void model_step(struct model *model) {
    uint64_t choice = random_below(10);
    if (choice < 5) {
        model_arm(model);
    } else if (choice < 7) {
        uint32_t handle = (uint32_t)random_below(TIMERS);
        timing_wheel_disarm(model->wheel, handle);
        model->due_ms[handle] = NOT_ARMED;
    } else {
        model_advance(model);
    }
    assert(timing_wheel_count(model->wheel) == model_count(model));
    uint64_t next_ms = model_next_ms(model);
    /* What is overdue is due now. */
    uint64_t bound_ms = next_ms < model->now_ms ? model->now_ms : next_ms;
    assert(timing_wheel_next_ms(model->wheel) <= bound_ms);
    if (next_ms == UINT64_MAX) {
        assert(timing_wheel_next_ms(model->wheel) == UINT64_MAX);
    }
}

static void model_run(void) {
    struct model *model = calloc(1, sizeof *model);
    assert(model != NULL);
    model->now_ms = 1 + random_distance_ms();
    model->wheel = timing_wheel_create(model->now_ms, model_resolve, model);
    for (size_t i = 0; i < TIMERS; i++) {
        timing_wheel_timer_init(&model->timers[i]);
    }
    for (unsigned step = 0; step < STEPS; step++) {
        model_step(model);
        if (step % 64 == 0) {
            timing_wheel_validate(model->wheel);
        }
    }
    timing_wheel_destroy(model->wheel);
    free(model);
}

int main(int argc, char **argv) {
    random_seed(argc, argv);
    for (unsigned round = 0; round < ROUNDS; round++) {
        model_run();
    }
    return 0;
}
