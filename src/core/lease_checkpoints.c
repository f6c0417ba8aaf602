/*
 * What the next leader must know of a lease: how much of its time is left. Deadlines are not
 * replicated, and a healthy client's renewals leave no trace in the log, so a new leader has to
 * assume that a lease was renewed just before it took over, unless a checkpoint stands. As a
 * renewal clears it through the log before it is acknowledged, a checkpoint that stands says that
 * the lease was not renewed since: each node counts it down on its own clock from the moment it
 * applied it, which is later than the leader's own count, never earlier.
 *
 * A term begins with a checkpoint of every lease (lease_table_checkpoint_all), so that a lease
 * is not renewed goes on running out however often the leader changes.
 */
#include "core/lease_table_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum {
    OVERDUE_CAPACITY_MIN = 64,
    /* Of many that have ended or were renewed meanwhile, looked at for each one wanted. */
    LOOKED_AT_PER_WANTED = 4
};

static bool is_counting(const struct lease_facts *facts) {
    return facts->ttl_ms != LEASE_TTL_FOREVER;
}

/* Both counts are late, never early: the earlier one is the better one. (One that was restored has
 * not been counted yet.) */
static void count_down(struct lease_local *lease, uint64_t due_ms, bool had_checkpoint) {
    if (!had_checkpoint || lease->timer.due_ms == 0 || due_ms < lease->timer.due_ms) {
        lease->timer.due_ms = due_ms;
    }
}

static void set_checkpoint(struct lease_table *table, uint32_t handle, int64_t remaining_ms,
                           uint64_t now_ms) {
    struct lease_facts facts;
    lease_pages_get(&table->pages, handle, &facts);
    int64_t before_ms = facts.checkpoint_ms;
    if (remaining_ms != before_ms) {
        facts.checkpoint_ms = remaining_ms;
        lease_pages_set(&table->pages, handle, &facts);
    }
    /* The leader counts by itself. */
    if (table->wheel != NULL || !is_counting(&facts)) {
        return;
    }
    struct lease_local *lease = lease_pages_local(&table->pages, handle);
    if (remaining_ms == 0) {
        lease->timer.due_ms = table->entry_index;
    } else {
        count_down(lease, lease_deadline(now_ms, remaining_ms), before_ms != 0);
    }
}

enum status lease_table_checkpoint(struct lease_table *table, int64_t id, int64_t remaining_ms,
                                   uint64_t now_ms) {
    if (remaining_ms < 0) {
        return STATUS_INVALID;
    }
    uint32_t handle = lease_index_find(&table->index, &table->pages, id);
    if (handle == LEASE_NONE) {
        return STATUS_LEASE_NOT_FOUND;
    }
    struct lease_facts facts;
    lease_pages_get(&table->pages, handle, &facts);
    set_checkpoint(table, handle, remaining_ms < facts.ttl_ms ? remaining_ms : facts.ttl_ms,
                   now_ms);
    return STATUS_OK;
}

void lease_table_set_index(struct lease_table *table, uint64_t index) {
    table->entry_index = index;
}

void lease_table_checkpoint_all(struct lease_table *table, uint64_t committed, uint64_t written_ms,
                                uint64_t now_ms) {
    for (uint32_t handle = lease_pages_next(&table->pages, 0); handle != LEASE_NONE;
         handle = lease_pages_next(&table->pages, handle + 1)) {
        struct lease_facts facts;
        lease_pages_get(&table->pages, handle, &facts);
        if (facts.checkpoint_ms != 0 || !is_counting(&facts)) {
            continue;
        }
        bool is_known = table->wheel != NULL ||
                        lease_pages_local(&table->pages, handle)->timer.due_ms <= committed;
        set_checkpoint(table, handle, facts.ttl_ms, is_known ? written_ms : now_ms);
    }
}

/* --- What is to be noted. --- */

void lease_checkpoints_add(struct lease_table *table, int64_t id) {
    if (table->overdue.end == table->overdue.capacity) {
        size_t n = table->overdue.end - table->overdue.begin;
        if (table->overdue.begin > 0) {
            memmove(table->overdue.ids, table->overdue.ids + table->overdue.begin,
                    n * sizeof table->overdue.ids[0]);
        }
        if (n > table->overdue.capacity / 2 || table->overdue.capacity == 0) {
            size_t capacity = table->overdue.capacity < OVERDUE_CAPACITY_MIN
                                  ? OVERDUE_CAPACITY_MIN
                                  : table->overdue.capacity * 2;
            table->overdue.ids = realloc(table->overdue.ids, capacity * sizeof(int64_t));
            if (table->overdue.ids == NULL) {
                abort();
            }
            table->overdue.capacity = capacity;
        }
        table->overdue.begin = 0;
        table->overdue.end = n;
    }
    table->overdue.ids[table->overdue.end++] = id;
}

void lease_checkpoints_clear(struct lease_table *table) {
    free(table->overdue.ids);
    memset(&table->overdue, 0, sizeof table->overdue);
}

bool lease_table_has_overdue(const struct lease_table *table) {
    return table->overdue.begin < table->overdue.end;
}

/* False: it has ended, was renewed, or nothing new would be said of it. */
static bool take_overdue(struct lease_table *table, int64_t id, uint64_t now_ms,
                         struct lease_overdue *out_overdue) {
    uint32_t handle = lease_index_find(&table->index, &table->pages, id);
    if (handle == LEASE_NONE) {
        return false;
    }
    struct lease_facts facts;
    lease_pages_get(&table->pages, handle, &facts);
    struct lease_local *lease = lease_pages_local(&table->pages, handle);
    if (!is_counting(&facts) || lease->is_expiring || lease->is_being_noted) {
        return false;
    }
    int64_t remaining_ms = 0;
    (void)lease_table_remaining(table, id, now_ms, &remaining_ms);
    int64_t worth_ms =
        facts.checkpoint_ms != 0 ? facts.checkpoint_ms - LEASE_COUNTED_MS_MIN : facts.ttl_ms / 2;
    if (remaining_ms == 0 || remaining_ms > worth_ms) {
        return false;
    }
    lease->is_being_noted = true;
    *out_overdue =
        (struct lease_overdue){.id = id, .remaining_ms = remaining_ms, .epoch = facts.epoch};
    return true;
}

static int compare_overdue(const void *a, const void *b) {
    int64_t left = ((const struct lease_overdue *)a)->id;
    int64_t right = ((const struct lease_overdue *)b)->id;
    return (left > right) - (left < right);
}

size_t lease_table_take_overdue(struct lease_table *table, uint64_t now_ms,
                                struct lease_overdue *out_overdue, size_t capacity) {
    size_t n = 0;
    size_t n_left = capacity * LOOKED_AT_PER_WANTED;
    for (; n < capacity && n_left > 0 && lease_table_has_overdue(table); n_left--) {
        n += take_overdue(table, table->overdue.ids[table->overdue.begin++], now_ms,
                          &out_overdue[n]);
    }
    if (!lease_table_has_overdue(table)) {
        lease_checkpoints_clear(table);
    }
    qsort(out_overdue, n, sizeof out_overdue[0], compare_overdue);
    return n;
}

void lease_table_noted(struct lease_table *table, int64_t id, uint32_t epoch) {
    uint32_t handle = lease_index_find(&table->index, &table->pages, id);
    if (handle != LEASE_NONE && lease_pages_fact(&table->pages, handle)->epoch == epoch) {
        lease_pages_local(&table->pages, handle)->is_being_noted = false;
    }
}
