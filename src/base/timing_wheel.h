/*
 * A hierarchical timing wheel: a million timers, constant time to arm, move and disarm one. It
 * owns no timers: they are embedded in what they belong to, by a 32-bit handle that the owner
 * resolves, so that an idle lease stays small. It reads no clock: `now_ms` is an argument, and
 * the resolution is one millisecond. Timers due in the same millisecond come out in no
 * particular order; a caller that needs one (ids break ties) sorts the batch.
 */
#ifndef LEASED_BASE_TIMING_WHEEL_H
#define LEASED_BASE_TIMING_WHEEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TIMING_WHEEL_NONE UINT32_MAX

/* One timer; all of its fields belong to the wheel. `due_ms` may be read: it is the time last armed
 * for, and stays when the timer is disarmed or taken out. */
struct timing_wheel_timer {
    uint64_t due_ms;
    uint32_t next;
    uint32_t previous;   /* a timer, or TIMING_WHEEL_NONE when it is the first of its slot */
    uint32_t slot;       /* TIMING_WHEEL_NONE: not armed */
    uint32_t put_off_ms; /* so much after due_ms it is taken out */
};

/* Finds the timer of a handle. Called often: keep it an array lookup. */
typedef struct timing_wheel_timer *(*timing_wheel_resolve)(void *owner, uint32_t handle);

struct timing_wheel;

/* Aborts when memory is out. Time starts at `now_ms`. */
struct timing_wheel *timing_wheel_create(uint64_t now_ms, timing_wheel_resolve resolve,
                                         void *owner);
void timing_wheel_destroy(struct timing_wheel *wheel);

/* A timer must be initialised once before its first use. */
void timing_wheel_timer_init(struct timing_wheel_timer *timer);
static inline bool timing_wheel_is_armed(const struct timing_wheel_timer *timer) {
    return timer->slot != TIMING_WHEEL_NONE;
}

/* Arms a timer, or moves it when it is armed. A time that has passed is due at the next advance.
 * Moving to a later time touches nothing but the timer: it is put in its place when its old time
 * comes. Renewing is what a lease does most. */
void timing_wheel_arm(struct timing_wheel *wheel, uint32_t handle, uint64_t due_ms);
/* Arms a timer that is due, and was taken out, so that it comes out again at `until_ms`. `due_ms`
 * is not changed. Armed anew it is as any other. By 49 days at most: later it is due at once. */
void timing_wheel_put_off(struct timing_wheel *wheel, uint32_t handle, uint64_t until_ms);
/* Harmless when not armed. */
void timing_wheel_disarm(struct timing_wheel *wheel, uint32_t handle);

/* Moves time forward (never back: an earlier now_ms changes nothing) and takes out at most
 * `capacity` timers with due_ms <= now_ms, written to `out_handles` and disarmed. Returns how
 * many. When it returns `capacity`, call again with the same now_ms: more may be due. The work of
 * one call is bounded, so with very many timers it may return less although more are due;
 * timing_wheel_next_ms() then says so by a time that is not later than now_ms. A timer is never
 * taken out early. */
size_t timing_wheel_advance(struct timing_wheel *wheel, uint64_t now_ms, uint32_t *out_handles,
                            size_t capacity);

/* A time not later than the next due timer: exact when that is within the current 256 ms and no
 * timer was moved later from a time before it; otherwise it may be an earlier moment at which the
 * wheel wants to be advanced, to be asked again then. UINT64_MAX: none. */
uint64_t timing_wheel_next_ms(const struct timing_wheel *wheel);

size_t timing_wheel_count(const struct timing_wheel *wheel);

/* Asserts every invariant; for tests. */
void timing_wheel_validate(const struct timing_wheel *wheel);

#endif
