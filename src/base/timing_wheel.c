/*
 * Eight levels of 256 slots, one level for each byte of a 64-bit time, so every deadline has a
 * place and there is no overflow list. A timer is in the level of the highest byte in which its
 * deadline differs from the wheel's time, in the slot that this byte of its deadline names:
 *
 *     time       00 00 00 00 00 00 12 f0
 *     due         …                12 f7   level 0, slot f7
 *     due         …                13 05   level 1, slot 13: moves down when time is 13 00
 *
 * It follows that every occupied slot of a level is after the time's own byte, and that all of a
 * lower level is due before anything of a higher one. A bitmap of occupied slots a level then finds
 * the next event in a few instructions, however far away it is.
 *
 * A timer that is moved to a later time stays in its slot until that is reached, and is then put
 * where it belongs: a slot's time is never after its timers'.
 */
#include "base/timing_wheel.h"

#include <assert.h>
#include <stdlib.h>

enum {
    LEVEL_BITS = 8,
    LEVELS = 64 / LEVEL_BITS,
    SLOTS = 1 << LEVEL_BITS,
    WORD_BITS = 64,
    WORDS = SLOTS / WORD_BITS,
    /* Timers moved down in one call of advance: a million in one slot must not stall the loop. */
    MOVES_MAX = 8192,
};

struct timing_wheel {
    uint64_t now_ms;
    size_t count;
    timing_wheel_resolve resolve;
    void *owner;
    /* The level whose slot at now_ms is being moved down, or 0. It is emptied before anything is
     * taken out, over several calls when it is large. */
    unsigned moving_level;
    uint64_t occupied[LEVELS][WORDS];
    uint32_t first[LEVELS * SLOTS];
};

struct timing_wheel *timing_wheel_create(uint64_t now_ms, timing_wheel_resolve resolve,
                                         void *owner) {
    struct timing_wheel *wheel = calloc(1, sizeof *wheel);
    if (wheel == NULL) {
        abort();
    }
    wheel->now_ms = now_ms;
    wheel->resolve = resolve;
    wheel->owner = owner;
    for (size_t i = 0; i < LEVELS * SLOTS; i++) {
        wheel->first[i] = TIMING_WHEEL_NONE;
    }
    return wheel;
}

void timing_wheel_destroy(struct timing_wheel *wheel) {
    free(wheel);
}

void timing_wheel_timer_init(struct timing_wheel_timer *timer) {
    *timer = (struct timing_wheel_timer){
        .next = TIMING_WHEEL_NONE, .previous = TIMING_WHEEL_NONE, .slot = TIMING_WHEEL_NONE};
}

static unsigned level_byte(uint64_t time_ms, unsigned level) {
    return (unsigned)(time_ms >> (level * LEVEL_BITS)) % SLOTS;
}

static uint32_t slot_for(uint64_t now_ms, uint64_t due_ms) {
    if (due_ms < now_ms) {
        due_ms = now_ms;
    }
    uint64_t different = now_ms ^ due_ms;
    unsigned level = different == 0 ? 0 : (63 - (unsigned)__builtin_clzll(different)) / LEVEL_BITS;
    return level * SLOTS + level_byte(due_ms, level);
}

static void slot_insert(struct timing_wheel *wheel, uint32_t slot, uint32_t handle,
                        struct timing_wheel_timer *timer) {
    uint32_t next = wheel->first[slot];
    timer->slot = slot;
    timer->next = next;
    timer->previous = TIMING_WHEEL_NONE;
    if (next == TIMING_WHEEL_NONE) {
        unsigned digit = slot % SLOTS;
        wheel->occupied[slot / SLOTS][digit / WORD_BITS] |= UINT64_C(1) << (digit % WORD_BITS);
    } else {
        wheel->resolve(wheel->owner, next)->previous = handle;
    }
    wheel->first[slot] = handle;
}

static void slot_remove(struct timing_wheel *wheel, struct timing_wheel_timer *timer) {
    uint32_t slot = timer->slot;
    if (timer->next != TIMING_WHEEL_NONE) {
        wheel->resolve(wheel->owner, timer->next)->previous = timer->previous;
    }
    if (timer->previous != TIMING_WHEEL_NONE) {
        wheel->resolve(wheel->owner, timer->previous)->next = timer->next;
    } else {
        wheel->first[slot] = timer->next;
        if (timer->next == TIMING_WHEEL_NONE) {
            unsigned digit = slot % SLOTS;
            wheel->occupied[slot / SLOTS][digit / WORD_BITS] &=
                ~(UINT64_C(1) << (digit % WORD_BITS));
        }
    }
    timer->next = TIMING_WHEEL_NONE;
    timer->previous = TIMING_WHEEL_NONE;
    timer->slot = TIMING_WHEEL_NONE;
}

/* When it is taken out. */
static uint64_t timer_ms(const struct timing_wheel_timer *timer) {
    return timer->due_ms + timer->put_off_ms;
}

void timing_wheel_arm(struct timing_wheel *wheel, uint32_t handle, uint64_t due_ms) {
    assert(handle != TIMING_WHEEL_NONE);
    struct timing_wheel_timer *timer = wheel->resolve(wheel->owner, handle);
    uint64_t old_ms = timer_ms(timer);
    timer->due_ms = due_ms;
    timer->put_off_ms = 0;
    if (timing_wheel_is_armed(timer)) {
        if (due_ms >= old_ms) {
            return;
        }
        slot_remove(wheel, timer);
    } else {
        wheel->count++;
    }
    slot_insert(wheel, slot_for(wheel->now_ms, due_ms), handle, timer);
}

void timing_wheel_put_off(struct timing_wheel *wheel, uint32_t handle, uint64_t until_ms) {
    struct timing_wheel_timer *timer = wheel->resolve(wheel->owner, handle);
    assert(!timing_wheel_is_armed(timer));
    assert(timer->due_ms <= until_ms);
    uint64_t put_off_ms = until_ms - timer->due_ms;
    timer->put_off_ms = put_off_ms < UINT32_MAX ? (uint32_t)put_off_ms : UINT32_MAX;
    wheel->count++;
    slot_insert(wheel, slot_for(wheel->now_ms, timer_ms(timer)), handle, timer);
}

void timing_wheel_disarm(struct timing_wheel *wheel, uint32_t handle) {
    struct timing_wheel_timer *timer = wheel->resolve(wheel->owner, handle);
    if (timing_wheel_is_armed(timer)) {
        slot_remove(wheel, timer);
        wheel->count--;
    }
}

/* The first occupied slot of a level at or after `digit`, or SLOTS. */
static unsigned level_first(const struct timing_wheel *wheel, unsigned level, unsigned digit) {
    uint64_t mask = UINT64_MAX << (digit % WORD_BITS);
    for (unsigned word = digit / WORD_BITS; word < WORDS; word++) {
        uint64_t bits = wheel->occupied[level][word] & mask;
        if (bits != 0) {
            return word * WORD_BITS + (unsigned)__builtin_ctzll(bits);
        }
        mask = UINT64_MAX;
    }
    return SLOTS;
}

/* When a slot is looked at: the bytes above its level are the time's own, those below are zero. */
static uint64_t slot_time_ms(const struct timing_wheel *wheel, uint32_t slot) {
    unsigned level = slot / SLOTS;
    unsigned shift = level * LEVEL_BITS;
    uint64_t above = level + 1 < LEVELS ? wheel->now_ms >> (shift + LEVEL_BITS) : 0;
    return (above << LEVEL_BITS | slot % SLOTS) << shift;
}

/* When something is next to be done, and in which level; UINT64_MAX with level LEVELS: never. */
static uint64_t next_event(const struct timing_wheel *wheel, unsigned *out_level) {
    for (unsigned level = 0; wheel->count > 0 && level < LEVELS; level++) {
        unsigned digit = level_first(wheel, level, level_byte(wheel->now_ms, level));
        if (digit < SLOTS) {
            *out_level = level;
            return slot_time_ms(wheel, level * SLOTS + digit);
        }
    }
    *out_level = LEVELS;
    return UINT64_MAX;
}

/* Moves timers from the slot at the wheel's time to where they now belong. False when the slot was
 * too full to be emptied in one call. */
static bool move_down(struct timing_wheel *wheel, size_t *moves_left) {
    unsigned level = wheel->moving_level;
    uint32_t slot = level * SLOTS + level_byte(wheel->now_ms, level);
    uint32_t handle;
    while ((handle = wheel->first[slot]) != TIMING_WHEEL_NONE) {
        if (*moves_left == 0) {
            return false;
        }
        --*moves_left;
        struct timing_wheel_timer *timer = wheel->resolve(wheel->owner, handle);
        slot_remove(wheel, timer);
        slot_insert(wheel, slot_for(wheel->now_ms, timer_ms(timer)), handle, timer);
    }
    wheel->moving_level = 0;
    return true;
}

/* Takes timers out of the slot of the wheel's own millisecond, and puts those in their place that
 * were moved to a later time. False when no more moves are left. */
static bool take_due(struct timing_wheel *wheel, size_t *moves_left, uint32_t *out_handles,
                     size_t capacity, size_t *n) {
    uint32_t slot = level_byte(wheel->now_ms, 0);
    uint32_t handle;
    while (*n < capacity && (handle = wheel->first[slot]) != TIMING_WHEEL_NONE) {
        struct timing_wheel_timer *timer = wheel->resolve(wheel->owner, handle);
        if (timer_ms(timer) <= wheel->now_ms) {
            slot_remove(wheel, timer);
            wheel->count--;
            out_handles[(*n)++] = handle;
        } else if (*moves_left > 0) {
            --*moves_left;
            slot_remove(wheel, timer);
            slot_insert(wheel, slot_for(wheel->now_ms, timer_ms(timer)), handle, timer);
        } else {
            return false;
        }
    }
    return true;
}

size_t timing_wheel_advance(struct timing_wheel *wheel, uint64_t now_ms, uint32_t *out_handles,
                            size_t capacity) {
    size_t n = 0;
    size_t moves_left = MOVES_MAX;
    if (now_ms < wheel->now_ms) {
        return 0;
    }
    while (n < capacity) {
        if (wheel->moving_level > 0 && !move_down(wheel, &moves_left)) {
            return n;
        }
        unsigned level;
        uint64_t event_ms = next_event(wheel, &level);
        if (level == LEVELS || event_ms > now_ms) {
            wheel->now_ms = now_ms;
            break;
        }
        wheel->now_ms = event_ms;
        if (level > 0) {
            wheel->moving_level = level;
        } else if (!take_due(wheel, &moves_left, out_handles, capacity, &n)) {
            return n;
        }
    }
    return n;
}

uint64_t timing_wheel_next_ms(const struct timing_wheel *wheel) {
    if (wheel->moving_level > 0 && wheel->count > 0) {
        return wheel->now_ms;
    }
    unsigned level;
    return next_event(wheel, &level);
}

size_t timing_wheel_count(const struct timing_wheel *wheel) {
    return wheel->count;
}

static size_t validate_slot(const struct timing_wheel *wheel, uint32_t slot) {
    unsigned level = slot / SLOTS;
    unsigned digit = slot % SLOTS;
    uint64_t time_ms = slot_time_ms(wheel, slot);
    bool is_marked = (wheel->occupied[level][digit / WORD_BITS] >> (digit % WORD_BITS)) & 1;
    assert(is_marked == (wheel->first[slot] != TIMING_WHEEL_NONE));
    if (is_marked) {
        assert(time_ms >= wheel->now_ms);
        if (level > 0 && time_ms == wheel->now_ms) {
            assert(level == wheel->moving_level);
        }
    }

    size_t count = 0;
    uint32_t previous = TIMING_WHEEL_NONE;
    uint32_t handle = wheel->first[slot];
    while (handle != TIMING_WHEEL_NONE) {
        const struct timing_wheel_timer *timer = wheel->resolve(wheel->owner, handle);
        assert(timer->slot == slot);
        assert(timer->previous == previous);
        /* An overdue timer is in the slot of the moment. */
        if (time_ms > wheel->now_ms) {
            assert(timer_ms(timer) >= time_ms);
        }
        count++;
        assert(count <= wheel->count);
        previous = handle;
        handle = timer->next;
    }
    return count;
}

void timing_wheel_validate(const struct timing_wheel *wheel) {
    assert(wheel->moving_level < LEVELS);
    size_t count = 0;
    for (uint32_t slot = 0; slot < LEVELS * SLOTS; slot++) {
        count += validate_slot(wheel, slot);
    }
    assert(count == wheel->count);
}
