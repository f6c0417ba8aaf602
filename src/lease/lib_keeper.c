#include "lease/lib_keeper.h"

#include <assert.h>

enum {
    SECOND_MS = 1000,
    RETRY_MS_MIN = 20,
    RETRY_MS_MAX = 1000,
    LATE_MS_MIN = 100,
    LATE_MS_MAX = 5 * SECOND_MS,
    CONTINUOUS_MS_MIN = 10
};

static int64_t clamp(int64_t value, int64_t min, int64_t max) {
    return value < min ? min : value > max ? max : value;
}

int64_t lib_keeper_usual_ttl_ms(enum lease_class lease_class) {
    switch (lease_class) {
    case LEASE_CLASS_LEADER:
        return 10 * SECOND_MS;
    case LEASE_CLASS_SESSION:
        return 15 * 60 * SECOND_MS;
    case LEASE_CLASS_RESERVATION:
        return 60 * 60 * SECOND_MS;
    case LEASE_CLASS_CACHE:
        return 5 * 60 * SECOND_MS;
    default:
        return 15 * SECOND_MS;
    }
}

enum lease_strategy lib_keeper_usual_strategy(enum lease_class lease_class) {
    switch (lease_class) {
    case LEASE_CLASS_LEADER:
        return LEASE_STRATEGY_CONTINUOUS;
    case LEASE_CLASS_SESSION:
        return LEASE_STRATEGY_ACTIVITY;
    case LEASE_CLASS_RESERVATION:
        return LEASE_STRATEGY_EXPLICIT;
    case LEASE_CLASS_CACHE:
        return LEASE_STRATEGY_NEVER;
    default:
        return LEASE_STRATEGY_HALF;
    }
}

void lib_keeper_start(struct lib_keeper *keeper, enum lease_strategy strategy, int64_t ttl_ms,
                      uint64_t sent_ms) {
    *keeper = (struct lib_keeper){
        .strategy = strategy,
        .ttl_ms = clamp(ttl_ms, 0, LIB_KEEPER_TTL_MS_MAX),
        .ttl_ms_max = LIB_KEEPER_TTL_MS_MAX,
        .sent_ms = sent_ms,
    };
}

/* How long a TTL is trusted from its request on. Both moments are cut to whole milliseconds: their
 * distance may be short by one. */
static uint64_t trusted_ms(int64_t ttl_ms) {
    int64_t trusted_ms = ttl_ms - ttl_ms / LIB_KEEPER_DRIFT_PARTS;
    return (uint64_t)(trusted_ms > 0 ? trusted_ms - 1 : 0);
}

uint64_t lib_keeper_valid_until_ms(const struct lib_keeper *keeper) {
    return keeper->sent_ms + trusted_ms(keeper->ttl_ms);
}

static bool is_alive(const struct lib_keeper *keeper) {
    return keeper->state == LEASE_SESSION_VALID || keeper->state == LEASE_SESSION_JEOPARDY;
}

int64_t lib_keeper_valid_for_ms(const struct lib_keeper *keeper, uint64_t now_ms) {
    uint64_t until_ms = lib_keeper_valid_until_ms(keeper);
    return is_alive(keeper) && now_ms < until_ms ? (int64_t)(until_ms - now_ms) : 0;
}

static uint64_t late_ms(const struct lib_keeper *keeper) {
    return keeper->asked_ms + (uint64_t)clamp(keeper->ttl_ms / 6, LATE_MS_MIN, LATE_MS_MAX);
}

/* When the strategy wants the next renewal. */
static uint64_t due_ms(const struct lib_keeper *keeper) {
    if (keeper->wants_renewal) {
        return 0;
    }
    uint64_t half_ms = keeper->sent_ms + (uint64_t)keeper->ttl_ms / 2;
    switch (keeper->strategy) {
    case LEASE_STRATEGY_CONTINUOUS:
        return keeper->sent_ms +
               (uint64_t)clamp(keeper->ttl_ms / 8, CONTINUOUS_MS_MIN, LIB_KEEPER_TTL_MS_MAX);
    case LEASE_STRATEGY_ACTIVITY:
        /* After a failure it goes on: there was activity when it began. */
        return keeper->was_touched || keeper->has_failed ? half_ms : LIB_KEEPER_NEVER;
    case LEASE_STRATEGY_EXPLICIT:
    case LEASE_STRATEGY_NEVER:
        return LIB_KEEPER_NEVER;
    default:
        return half_ms;
    }
}

static uint64_t next_renewal_ms(const struct lib_keeper *keeper) {
    uint64_t due = due_ms(keeper);
    return due < keeper->retry_ms ? keeper->retry_ms : due;
}

uint64_t lib_keeper_wake_ms(const struct lib_keeper *keeper) {
    if (!is_alive(keeper)) {
        return LIB_KEEPER_NEVER;
    }
    uint64_t wake_ms = lib_keeper_valid_until_ms(keeper);
    uint64_t other_ms = keeper->is_asking ? late_ms(keeper) : next_renewal_ms(keeper);
    return other_ms < wake_ms ? other_ms : wake_ms;
}

static unsigned lose(struct lib_keeper *keeper) {
    keeper->state = LEASE_SESSION_LOST;
    return LIB_KEEPER_LOST;
}

unsigned lib_keeper_poll(struct lib_keeper *keeper, uint64_t now_ms) {
    if (!is_alive(keeper)) {
        return 0;
    }
    if (now_ms >= lib_keeper_valid_until_ms(keeper)) {
        return lose(keeper);
    }
    if (keeper->is_asking) {
        return now_ms >= late_ms(keeper) ? LIB_KEEPER_LATE : 0;
    }
    return now_ms >= next_renewal_ms(keeper) ? LIB_KEEPER_RENEW : 0;
}

void lib_keeper_touch(struct lib_keeper *keeper) {
    keeper->was_touched = true;
}

void lib_keeper_want(struct lib_keeper *keeper) {
    keeper->wants_renewal = true;
    keeper->retry_ms = 0;
}

void lib_keeper_asked(struct lib_keeper *keeper, uint64_t now_ms) {
    assert(!keeper->is_asking);
    keeper->is_asking = true;
    keeper->asked_ms = now_ms;
    keeper->was_touched = false;
}

unsigned lib_keeper_renewed(struct lib_keeper *keeper, int64_t ttl_ms, uint64_t now_ms) {
    if (!keeper->is_asking || !is_alive(keeper)) {
        return 0;
    }
    keeper->is_asking = false;
    if (now_ms >= lib_keeper_valid_until_ms(keeper)) {
        /* Somebody may have been told already that it is not valid. */
        return lose(keeper);
    }
    if (ttl_ms <= 0) {
        return lose(keeper);
    }
    keeper->sent_ms = keeper->asked_ms;
    keeper->ttl_ms = clamp(ttl_ms, 0, keeper->ttl_ms_max);
    keeper->wants_renewal = false;
    keeper->has_failed = false;
    keeper->retry_ms = 0;
    if (now_ms >= lib_keeper_valid_until_ms(keeper)) {
        return lose(keeper);
    }
    if (keeper->state == LEASE_SESSION_JEOPARDY) {
        keeper->state = LEASE_SESSION_VALID;
        return LIB_KEEPER_RESTORED;
    }
    return 0;
}

unsigned lib_keeper_failed(struct lib_keeper *keeper, uint64_t now_ms) {
    keeper->is_asking = false;
    if (!is_alive(keeper)) {
        return 0;
    }
    if (now_ms >= lib_keeper_valid_until_ms(keeper)) {
        return lose(keeper);
    }
    /* Only what was begun by the strategy is tried again. */
    keeper->wants_renewal = false;
    keeper->has_failed = true;
    keeper->retry_ms = now_ms + (uint64_t)clamp(keeper->ttl_ms / 40, RETRY_MS_MIN, RETRY_MS_MAX);
    if (keeper->state == LEASE_SESSION_VALID) {
        keeper->state = LEASE_SESSION_JEOPARDY;
        return LIB_KEEPER_JEOPARDY;
    }
    return 0;
}

unsigned lib_keeper_ended(struct lib_keeper *keeper) {
    keeper->is_asking = false;
    return is_alive(keeper) ? lose(keeper) : 0;
}

void lib_keeper_change(struct lib_keeper *keeper, int64_t ttl_ms, uint64_t now_ms) {
    int64_t asked_ms = clamp(ttl_ms, 0, LIB_KEEPER_TTL_MS_MAX);
    /* A renewal that is under way may be answered with the old one, before or after. */
    keeper->ttl_ms_max = asked_ms < keeper->ttl_ms_max ? asked_ms : keeper->ttl_ms_max;
    if (asked_ms < keeper->ttl_ms) {
        /* Until it is taken the old one counts, then the new one, which begins now or later. */
        uint64_t last_ms = lib_keeper_valid_until_ms(keeper) - trusted_ms(asked_ms);
        keeper->sent_ms = now_ms < last_ms ? now_ms : last_ms;
        keeper->ttl_ms = asked_ms;
    }
}

unsigned lib_keeper_changed(struct lib_keeper *keeper, int64_t ttl_ms, uint64_t sent_ms,
                            uint64_t now_ms) {
    if (!is_alive(keeper)) {
        return 0;
    }
    if (now_ms >= lib_keeper_valid_until_ms(keeper)) {
        return lose(keeper);
    }
    keeper->ttl_ms = clamp(ttl_ms, 0, LIB_KEEPER_TTL_MS_MAX);
    keeper->ttl_ms_max = keeper->ttl_ms;
    if (sent_ms > keeper->sent_ms) {
        keeper->sent_ms = sent_ms;
    }
    return 0;
}

void lib_keeper_stop(struct lib_keeper *keeper) {
    keeper->is_asking = false;
    if (is_alive(keeper)) {
        keeper->state = LEASE_SESSION_ENDED;
    }
}
