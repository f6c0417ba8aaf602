/*
 * The deadlines of the lease table, which exist on the leader only. `now_ms` is a floor of real
 * time: when it says 17 it may be 17.9. So a TTL counted from 17 is over for certain only when
 * now_ms is 17 + 1 + TTL: never early, late by at most a millisecond.
 *
 * On its way to the deadline a timer stops at stages: when a half, a quarter and an eighth of the
 * TTL are left, so that the lease is checkpointed (lease_checkpoints.c). At stage n the timer is
 * armed for the deadline less TTL / 2^n, at stage 0 for the deadline itself: the stage is all that
 * must be kept to know the deadline.
 *
 * While not leading a timer is not armed. Its time then is the deadline as counted from the
 * checkpoint; without a checkpoint, it is the index of the entry that granted the lease or cleared
 * the checkpoint, 0 when that was long ago.
 */
#include "core/lease_table_internal.h"

#include <assert.h>
#include <stdlib.h>

enum {
    TAKE_CHUNK = 512,
    STAGE_MAX = 3,
    /* A shorter rest is not worth an entry of the log. */
    STAGE_REST_MS_MIN = 500
};

static struct timing_wheel_timer *resolve(void *owner, uint32_t handle) {
    const struct lease_table *table = owner;
    return &lease_pages_local(&table->pages, handle)->timer;
}

uint64_t lease_deadline(uint64_t now_ms, int64_t ttl_ms) {
    return now_ms + 1 + (uint64_t)ttl_ms;
}

/* What is left of a lease when its timer fires at a stage. */
static uint64_t stage_rest_ms(int64_t ttl_ms, unsigned stage) {
    return stage == 0 ? 0 : (uint64_t)ttl_ms >> stage;
}

/* Arms the timer for the first stage from `stage` on that is still to come, or for the deadline. */
static void arm(struct lease_table *table, uint32_t handle, int64_t ttl_ms, uint64_t due_ms,
                unsigned stage, uint64_t now_ms) {
    while (stage <= STAGE_MAX && stage_rest_ms(ttl_ms, stage) >= STAGE_REST_MS_MIN &&
           due_ms <= now_ms + stage_rest_ms(ttl_ms, stage)) {
        stage++;
    }
    if (stage > STAGE_MAX || stage_rest_ms(ttl_ms, stage) < STAGE_REST_MS_MIN) {
        stage = 0;
    }
    lease_pages_local(&table->pages, handle)->stage = (uint8_t)stage;
    timing_wheel_arm(table->wheel, handle, due_ms - stage_rest_ms(ttl_ms, stage));
}

uint64_t lease_deadlines_due_ms(const struct lease_table *table, uint32_t handle) {
    const struct lease_local *lease = lease_pages_local(&table->pages, handle);
    return lease->timer.due_ms +
           stage_rest_ms(lease_pages_fact(&table->pages, handle)->ttl_ms, lease->stage);
}

void lease_deadlines_start(struct lease_table *table, uint32_t handle, int64_t ttl_ms,
                           uint64_t now_ms) {
    if (table->wheel == NULL) {
        return;
    }
    struct lease_local *lease = lease_pages_local(&table->pages, handle);
    if (ttl_ms == LEASE_TTL_FOREVER) {
        timing_wheel_disarm(table->wheel, handle);
        lease->timer.due_ms = 0;
        lease->stage = 0;
    } else {
        arm(table, handle, ttl_ms, lease_deadline(now_ms, ttl_ms), 1, now_ms);
    }
}

void lease_deadlines_stop(struct lease_table *table, uint32_t handle) {
    if (table->wheel != NULL) {
        timing_wheel_disarm(table->wheel, handle);
    }
}

void lease_table_lead(struct lease_table *table, uint64_t now_ms) {
    lease_table_follow(table);
    table->wheel = timing_wheel_create(now_ms, resolve, table);
    for (uint32_t handle = lease_pages_next(&table->pages, 0); handle != LEASE_NONE;
         handle = lease_pages_next(&table->pages, handle + 1)) {
        struct lease_facts facts;
        lease_pages_get(&table->pages, handle, &facts);
        struct lease_local *lease = lease_pages_local(&table->pages, handle);
        uint64_t counted_due_ms = lease->timer.due_ms;
        lease->timer.due_ms = 0;
        if (facts.ttl_ms == LEASE_TTL_FOREVER) {
            continue;
        }
        if (facts.checkpoint_ms == 0) {
            lease_deadlines_start(table, handle, facts.ttl_ms, now_ms);
            continue;
        }
        uint64_t due_ms = lease_deadline(
            now_ms, facts.checkpoint_ms < facts.ttl_ms ? facts.checkpoint_ms : facts.ttl_ms);
        if (counted_due_ms != 0 && counted_due_ms < due_ms) {
            if (due_ms - counted_due_ms >= LEASE_COUNTED_MS_MIN) {
                lease_checkpoints_add(table, facts.id);
            }
            due_ms = counted_due_ms;
        }
        arm(table, handle, facts.ttl_ms, due_ms, 1, now_ms);
    }
}

void lease_table_follow(struct lease_table *table) {
    if (table->wheel == NULL) {
        return;
    }
    timing_wheel_destroy(table->wheel);
    table->wheel = NULL;
    lease_checkpoints_clear(table);
    for (uint32_t handle = lease_pages_next(&table->pages, 0); handle != LEASE_NONE;
         handle = lease_pages_next(&table->pages, handle + 1)) {
        struct lease_local *lease = lease_pages_local(&table->pages, handle);
        struct lease_facts facts;
        lease_pages_get(&table->pages, handle, &facts);
        /* What has a checkpoint was not renewed since, so its time runs on. */
        uint64_t due_ms = facts.checkpoint_ms != 0 ? lease_deadlines_due_ms(table, handle) : 0;
        timing_wheel_timer_init(&lease->timer);
        lease->timer.due_ms = due_ms;
        lease->stage = 0;
        lease->is_expiring = false;
        lease->is_being_noted = false;
    }
}

bool lease_table_is_leading(const struct lease_table *table) {
    return table->wheel != NULL;
}

enum status lease_table_renew(struct lease_table *table, int64_t id, uint64_t now_ms,
                              int64_t *out_ttl_ms, bool *out_checkpointed) {
    if (table->wheel == NULL) {
        return STATUS_NO_LEADER;
    }
    uint32_t handle = lease_index_find(&table->index, &table->pages, id);
    if (handle == LEASE_NONE) {
        return STATUS_LEASE_NOT_FOUND;
    }
    if (lease_pages_local(&table->pages, handle)->is_expiring) {
        return STATUS_PENDING;
    }
    struct lease_facts facts;
    lease_pages_get(&table->pages, handle, &facts);
    lease_deadlines_start(table, handle, facts.ttl_ms, now_ms);
    *out_ttl_ms = facts.ttl_ms;
    *out_checkpointed =
        facts.checkpoint_ms != 0 || lease_pages_local(&table->pages, handle)->is_being_noted;
    return STATUS_OK;
}

enum status lease_table_remaining(const struct lease_table *table, int64_t id, uint64_t now_ms,
                                  int64_t *out_remaining_ms) {
    if (table->wheel == NULL) {
        return STATUS_NO_LEADER;
    }
    uint32_t handle = lease_index_find(&table->index, &table->pages, id);
    if (handle == LEASE_NONE) {
        return STATUS_LEASE_NOT_FOUND;
    }
    int64_t ttl_ms = lease_pages_fact(&table->pages, handle)->ttl_ms;
    uint64_t due_ms = lease_deadlines_due_ms(table, handle);
    if (ttl_ms == LEASE_TTL_FOREVER) {
        *out_remaining_ms = LEASE_TTL_FOREVER;
    } else if (due_ms <= now_ms) {
        *out_remaining_ms = 0;
    } else {
        /* The millisecond added for rounding is no part of the promise. */
        uint64_t left_ms = due_ms - now_ms;
        *out_remaining_ms = left_ms < (uint64_t)ttl_ms ? (int64_t)left_ms : ttl_ms;
    }
    return STATUS_OK;
}

size_t lease_table_claim_expired(struct lease_table *table, uint64_t now_ms, int64_t *out_ids,
                                 size_t capacity) {
    if (table->wheel == NULL) {
        return 0;
    }
    size_t n = 0;
    size_t n_left = capacity;
    size_t n_claimed;
    size_t n_wanted;
    do {
        uint32_t handles[TAKE_CHUNK];
        n_wanted = n_left < TAKE_CHUNK ? n_left : TAKE_CHUNK;
        n_claimed = timing_wheel_advance(table->wheel, now_ms, handles, n_wanted);
        n_left -= n_claimed;
        for (size_t i = 0; i < n_claimed; i++) {
            struct lease_local *lease = lease_pages_local(&table->pages, handles[i]);
            const struct lease_fact *fact = lease_pages_fact(&table->pages, handles[i]);
            uint64_t due_ms = lease_deadlines_due_ms(table, handles[i]);
            if (due_ms <= now_ms) {
                lease->timer.due_ms = due_ms;
                lease->stage = 0;
                lease->is_expiring = true;
                out_ids[n++] = fact->id;
            } else {
                lease_checkpoints_add(table, fact->id);
                arm(table, handles[i], fact->ttl_ms, due_ms, lease->stage + 1u, now_ms);
            }
        }
    } while (n_left > 0 && n_claimed == n_wanted);
    lease_ids_sort(out_ids, n);
    return n;
}

void lease_table_unclaim(struct lease_table *table, int64_t id) {
    lease_table_put_off(table, id, 0);
}

void lease_table_put_off(struct lease_table *table, int64_t id, uint64_t until_ms) {
    uint32_t handle = lease_index_find(&table->index, &table->pages, id);
    if (table->wheel == NULL || handle == LEASE_NONE) {
        return;
    }
    struct lease_local *lease = lease_pages_local(&table->pages, handle);
    if (!lease->is_expiring) {
        return;
    }
    lease->is_expiring = false;
    if (lease_pages_fact(&table->pages, handle)->ttl_ms == LEASE_TTL_FOREVER) {
        return;
    }
    if (until_ms > lease->timer.due_ms) {
        timing_wheel_put_off(table->wheel, handle, until_ms);
    } else {
        timing_wheel_arm(table->wheel, handle, lease->timer.due_ms);
    }
}

uint64_t lease_table_next_ms(const struct lease_table *table) {
    return table->wheel == NULL ? UINT64_MAX : timing_wheel_next_ms(table->wheel);
}

uint64_t lease_table_due_ms(const struct lease_table *table, int64_t id) {
    uint32_t handle = lease_index_find(&table->index, &table->pages, id);
    if (table->wheel == NULL || handle == LEASE_NONE) {
        return 0;
    }
    return lease_deadlines_due_ms(table, handle);
}

void lease_deadlines_validate(const struct lease_table *table) {
    size_t n_armed = 0;
    for (uint32_t handle = lease_pages_next(&table->pages, 0); handle != LEASE_NONE;
         handle = lease_pages_next(&table->pages, handle + 1)) {
        const struct lease_local *lease = lease_pages_local(&table->pages, handle);
        bool is_armed = timing_wheel_is_armed(&lease->timer);
        bool is_forever = lease_pages_fact(&table->pages, handle)->ttl_ms == LEASE_TTL_FOREVER;
        if (table->wheel == NULL) {
            assert(!is_armed);
            assert(!lease->is_expiring);
            assert(!lease->is_being_noted);
            assert(lease->stage == 0);
        } else {
            assert(!lease->is_expiring || lease->stage == 0);
            assert(is_armed == (!is_forever && !lease->is_expiring));
        }
        n_armed += is_armed;
    }
    if (table->wheel != NULL) {
        assert(timing_wheel_count(table->wheel) == n_armed);
        timing_wheel_validate(table->wheel);
    }
}
