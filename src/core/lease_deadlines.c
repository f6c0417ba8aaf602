/*
 * The deadlines of the lease table, which exist on the leader only. `now_ms` is a floor of real
 * time: when it says 17 it may be 17.9. So a TTL counted from 17 is over for certain only when
 * now_ms is 17 + 1 + TTL: never early, late by at most a millisecond.
 */
#include "core/lease_table_internal.h"

#include <assert.h>
#include <stdlib.h>

enum { TAKE_CHUNK = 512 };

static struct timing_wheel_timer *resolve(void *owner, uint32_t handle) {
    const struct lease_table *table = owner;
    return &lease_pages_local(&table->pages, handle)->timer;
}

static uint64_t deadline(uint64_t now_ms, int64_t ttl_ms) {
    return now_ms + 1 + (uint64_t)ttl_ms;
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
    } else {
        timing_wheel_arm(table->wheel, handle, deadline(now_ms, ttl_ms));
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
        int64_t ttl_ms = facts.ttl_ms;
        if (ttl_ms != LEASE_TTL_FOREVER && facts.checkpoint_ms > 0 &&
            facts.checkpoint_ms < ttl_ms) {
            ttl_ms = facts.checkpoint_ms;
        }
        lease_deadlines_start(table, handle, ttl_ms, now_ms);
    }
}

void lease_table_follow(struct lease_table *table) {
    if (table->wheel == NULL) {
        return;
    }
    timing_wheel_destroy(table->wheel);
    table->wheel = NULL;
    for (uint32_t handle = lease_pages_next(&table->pages, 0); handle != LEASE_NONE;
         handle = lease_pages_next(&table->pages, handle + 1)) {
        struct lease_local *lease = lease_pages_local(&table->pages, handle);
        timing_wheel_timer_init(&lease->timer);
        lease->is_expiring = false;
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
    *out_checkpointed = facts.checkpoint_ms != 0;
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
    uint64_t due_ms = lease_pages_local(&table->pages, handle)->timer.due_ms;
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

size_t lease_table_take_expired(struct lease_table *table, uint64_t now_ms, int64_t *out_ids,
                                size_t capacity) {
    if (table->wheel == NULL) {
        return 0;
    }
    size_t n = 0;
    size_t n_taken;
    size_t n_wanted;
    do {
        uint32_t handles[TAKE_CHUNK];
        n_wanted = capacity - n < TAKE_CHUNK ? capacity - n : TAKE_CHUNK;
        n_taken = timing_wheel_advance(table->wheel, now_ms, handles, n_wanted);
        for (size_t i = 0; i < n_taken; i++) {
            lease_pages_local(&table->pages, handles[i])->is_expiring = true;
            out_ids[n++] = lease_pages_fact(&table->pages, handles[i])->id;
        }
    } while (n < capacity && n_taken == n_wanted);
    lease_ids_sort(out_ids, n);
    return n;
}

void lease_table_untake(struct lease_table *table, int64_t id) {
    uint32_t handle = lease_index_find(&table->index, &table->pages, id);
    if (table->wheel == NULL || handle == LEASE_NONE) {
        return;
    }
    struct lease_local *lease = lease_pages_local(&table->pages, handle);
    if (!lease->is_expiring) {
        return;
    }
    lease->is_expiring = false;
    if (lease_pages_fact(&table->pages, handle)->ttl_ms != LEASE_TTL_FOREVER) {
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
    return lease_pages_local(&table->pages, handle)->timer.due_ms;
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
        } else {
            assert(is_armed == (!is_forever && !lease->is_expiring));
        }
        n_armed += is_armed;
    }
    if (table->wheel != NULL) {
        assert(timing_wheel_count(table->wheel) == n_armed);
        timing_wheel_validate(table->wheel);
    }
}
