#include "core/lease_table.h"

#include "core/key_work.h"
#include "core/lease_family.h"
#include "core/lease_table_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct lease_table *lease_table_create(const struct hash_key *key) {
    struct lease_table *table = calloc(1, sizeof *table);
    if (table == NULL) {
        abort();
    }
    table->ended = calloc(LEASE_ENDED_MAX, sizeof table->ended[0]);
    if (table->ended == NULL) {
        abort();
    }
    lease_pages_init(&table->pages);
    lease_index_init(&table->index, key != NULL ? key : &hash_key_fixed);
    return table;
}

void lease_table_destroy(struct lease_table *table) {
    if (table == NULL) {
        return;
    }
    timing_wheel_destroy(table->wheel);
    lease_checkpoints_clear(table);
    lease_index_clear(&table->index);
    lease_pages_clear(&table->pages);
    free(table->checks);
    free(table->ended);
    free(table);
}

size_t lease_table_count(const struct lease_table *table) {
    return table->index.count;
}

size_t lease_table_bytes(const struct lease_table *table) {
    return sizeof *table + LEASE_ENDED_MAX * sizeof table->ended[0] + table->pages.bytes +
           lease_index_bytes(&table->index) + table->overdue.capacity * sizeof(int64_t);
}

static uint32_t find(const struct lease_table *table, int64_t id) {
    return lease_index_find(&table->index, &table->pages, id);
}

enum status lease_ttl_check(int64_t ttl_ms) {
    if (ttl_ms < 1) {
        return STATUS_INVALID;
    }
    if (ttl_ms > LEASE_TTL_MS_MAX && ttl_ms != LEASE_TTL_FOREVER) {
        return STATUS_LEASE_TTL_TOO_LARGE;
    }
    return STATUS_OK;
}

static enum status check_facts(const struct lease_table *table, const struct lease_facts *facts) {
    if (facts->id == 0 || facts->checkpoint_ms < 0 || !key_space_is_valid(facts->owner)) {
        return STATUS_INVALID;
    }
    enum status status = lease_ttl_check(facts->ttl_ms);
    if (status != STATUS_OK) {
        return status;
    }
    return find(table, facts->id) == LEASE_NONE ? STATUS_OK : STATUS_LEASE_EXISTS;
}

enum status lease_table_grant(struct lease_table *table, const struct lease_facts *facts,
                              uint64_t now_ms) {
    enum status status = check_facts(table, facts);
    if (status != STATUS_OK) {
        return status;
    }
    uint32_t parent = LEASE_NONE;
    if (facts->parent_id != 0) {
        parent = find(table, facts->parent_id);
        if (parent == LEASE_NONE) {
            return STATUS_LEASE_NOT_FOUND;
        }
    }
    struct lease_facts with_epoch = *facts;
    with_epoch.epoch = ++table->epoch;
    uint32_t handle = lease_pages_add(&table->pages, &with_epoch);
    lease_index_add(&table->index, &table->pages, handle);
    table->n_of_owner[facts->owner.value]++;
    if (parent != LEASE_NONE) {
        lease_family_join(&table->pages, parent, handle);
    }
    if (table->wheel == NULL) {
        lease_pages_local(&table->pages, handle)->timer.due_ms = table->entry_index;
    }
    lease_deadlines_start(table, handle, facts->ttl_ms, now_ms);
    return STATUS_OK;
}

enum status lease_table_restore(struct lease_table *table, const struct lease_facts *facts) {
    assert(table->wheel == NULL);
    if (check_facts(table, facts) != STATUS_OK) {
        return STATUS_CORRUPT;
    }
    uint32_t handle = lease_pages_add(&table->pages, facts);
    lease_index_add(&table->index, &table->pages, handle);
    table->n_of_owner[facts->owner.value]++;
    return STATUS_OK;
}

enum status lease_table_restore_end(struct lease_table *table, uint32_t epoch) {
    table->epoch = epoch;
    return lease_family_restore(&table->pages, &table->index);
}

void lease_table_restore_ended(struct lease_table *table, const struct lease_ended *ended) {
    table->ended[table->n_ended % LEASE_ENDED_MAX] = *ended;
    table->n_ended++;
}

enum status lease_table_end(struct lease_table *table, int64_t id, enum lease_end reason,
                            int64_t wall_ms) {
    uint32_t handle = find(table, id);
    if (handle == LEASE_NONE) {
        return STATUS_LEASE_NOT_FOUND;
    }
    assert(lease_pages_local(&table->pages, handle)->first_key == NULL);
    assert(lease_family_first(&table->pages, handle) == LEASE_NONE);
    struct lease_facts facts;
    lease_pages_get(&table->pages, handle, &facts);
    if (facts.parent_id != 0) {
        lease_family_leave(&table->pages, find(table, facts.parent_id), handle);
    }
    if (table->checks != NULL) {
        lease_checks_forget(table->checks, id);
    }
    lease_deadlines_stop(table, handle);
    lease_index_remove(&table->index, &table->pages, handle);
    table->n_of_owner[facts.owner.value]--;
    lease_pages_remove(&table->pages, handle);
    lease_table_restore_ended(
        table, &(struct lease_ended){
                   .id = id, .ttl_ms = facts.ttl_ms, .wall_ms = wall_ms, .reason = reason});
    return STATUS_OK;
}

enum status lease_table_set_ttl(struct lease_table *table, int64_t id, int64_t ttl_ms,
                                uint64_t now_ms) {
    enum status status = lease_ttl_check(ttl_ms);
    if (status != STATUS_OK) {
        return status;
    }
    uint32_t handle = find(table, id);
    if (handle == LEASE_NONE) {
        return STATUS_LEASE_NOT_FOUND;
    }
    struct lease_facts facts;
    lease_pages_get(&table->pages, handle, &facts);
    facts.ttl_ms = ttl_ms;
    facts.checkpoint_ms = 0;
    facts.epoch = ++table->epoch;
    lease_pages_set(&table->pages, handle, &facts);
    /* An expiry or a checkpoint on its way was for another epoch. */
    struct lease_local *lease = lease_pages_local(&table->pages, handle);
    lease->is_expiring = false;
    lease->is_being_noted = false;
    if (table->wheel == NULL) {
        lease->timer.due_ms = table->entry_index;
    }
    lease_deadlines_start(table, handle, ttl_ms, now_ms);
    return STATUS_OK;
}

enum status lease_table_attach(struct lease_table *table, struct record *record) {
    if (record->lease_id == 0) {
        return STATUS_OK;
    }
    uint32_t handle = find(table, record->lease_id);
    if (handle == LEASE_NONE) {
        return STATUS_LEASE_NOT_FOUND;
    }
    struct lease_local *lease = lease_pages_local(&table->pages, handle);
    record->lease_before = NULL;
    record->lease_next = lease->first_key;
    if (record->lease_next != NULL) {
        record->lease_next->lease_before = record;
    }
    lease->first_key = record;
    if (lease->n_keys != LEASE_KEYS_UNCOUNTED) {
        lease->n_keys++;
    }
    if (record->key_size >= KEY_WORK_LONG_KEY) {
        *lease_pages_need_long_keys(&table->pages, handle) += record->key_size;
    }
    if (table->checks != NULL) {
        lease_checks_attached(table->checks, record->lease_id);
    }
    return STATUS_OK;
}

void lease_table_detach(struct lease_table *table, struct record *record) {
    if (record->lease_id == 0) {
        return;
    }
    uint32_t handle = find(table, record->lease_id);
    struct lease_local *lease =
        handle != LEASE_NONE ? lease_pages_local(&table->pages, handle) : NULL;
    if (lease == NULL || (record->lease_before == NULL && lease->first_key != record)) {
        return; /* it was not attached */
    }
    if (record->lease_before != NULL) {
        record->lease_before->lease_next = record->lease_next;
    } else {
        lease->first_key = record->lease_next;
    }
    if (record->lease_next != NULL) {
        record->lease_next->lease_before = record->lease_before;
    }
    record->lease_next = NULL;
    record->lease_before = NULL;
    if (lease->first_key == NULL) {
        lease->n_keys = 0;
    } else if (lease->n_keys != LEASE_KEYS_UNCOUNTED) {
        assert(lease->n_keys > 1);
        lease->n_keys--;
    }
    if (record->key_size >= KEY_WORK_LONG_KEY) {
        size_t *long_keys = lease_pages_need_long_keys(&table->pages, handle);
        assert(*long_keys >= record->key_size);
        *long_keys -= record->key_size;
    }
    if (table->checks != NULL) {
        lease_checks_detached(table->checks, record->lease_id);
    }
}

bool lease_table_find(const struct lease_table *table, int64_t id, struct lease_facts *out_facts) {
    uint32_t handle = find(table, id);
    if (handle == LEASE_NONE) {
        return false;
    }
    lease_pages_get(&table->pages, handle, out_facts);
    return true;
}

void lease_table_prefetch(const struct lease_table *table, int64_t id, bool is_near) {
    lease_index_prefetch(&table->index, &table->pages, id, is_near);
}

bool lease_table_is_of(const struct lease_table *table, int64_t id, struct key_space_id owner) {
    /* As long as one protocol alone grants leases, none need be looked for. */
    if (table->n_of_owner[owner.value] == table->index.count) {
        return true;
    }
    uint32_t handle = find(table, id);
    return handle == LEASE_NONE ||
           key_space_equal(lease_pages_fact(&table->pages, handle)->owner, owner);
}

struct record *lease_table_first_key(const struct lease_table *table, int64_t id) {
    uint32_t handle = find(table, id);
    return handle == LEASE_NONE ? NULL : lease_pages_local(&table->pages, handle)->first_key;
}

static size_t count_keys(const struct lease_local *lease) {
    if (lease->n_keys != LEASE_KEYS_UNCOUNTED) {
        return lease->n_keys;
    }
    size_t count = 0;
    for (const struct record *at = lease->first_key; at != NULL; at = at->lease_next) {
        count++;
    }
    return count;
}

size_t lease_table_key_count(const struct lease_table *table, int64_t id) {
    uint32_t handle = find(table, id);
    return handle == LEASE_NONE ? 0 : count_keys(lease_pages_local(&table->pages, handle));
}

size_t lease_table_end_work(const struct lease_table *table, int64_t id) {
    uint32_t handle = find(table, id);
    return handle == LEASE_NONE
               ? 0
               : KEY_WORK_A_DELETE * (1 + count_keys(lease_pages_local(&table->pages, handle))) +
                     lease_pages_long_keys(&table->pages, handle) / KEY_WORK_COPIED_BYTES;
}

size_t lease_table_long_keys(const struct lease_table *table, int64_t id) {
    uint32_t handle = find(table, id);
    return handle == LEASE_NONE ? 0 : lease_pages_long_keys(&table->pages, handle);
}

static bool is_full(const struct lease_table *table, uint32_t handle, struct bytes key) {
    size_t key_size = key.size + 1; /* as in its record, with the byte of its space */
    /* Not LEASE_KEYS_UNCOUNTED, which a replica that has restored a snapshot may not have. */
    return count_keys(lease_pages_local(&table->pages, handle)) >= LEASE_KEYS_MAX ||
           (key_size >= KEY_WORK_LONG_KEY &&
            lease_pages_long_keys(&table->pages, handle) + key_size > LEASE_LONG_KEYS_MAX);
}

bool lease_table_is_full(const struct lease_table *table, int64_t id, struct bytes key) {
    uint32_t handle = find(table, id);
    return handle != LEASE_NONE && is_full(table, handle, key);
}

enum status lease_table_may_attach(const struct lease_table *table, int64_t id,
                                   struct key_space_id owner, struct bytes key) {
    uint32_t handle = find(table, id);
    if (handle == LEASE_NONE ||
        !key_space_equal(lease_pages_fact(&table->pages, handle)->owner, owner)) {
        return STATUS_LEASE_NOT_FOUND;
    }
    return is_full(table, handle, key) ? STATUS_TOO_MANY_KEYS : STATUS_OK;
}

struct lease_check *lease_table_check(struct lease_table *table, int64_t id) {
    if (table->checks == NULL) {
        table->checks = calloc(1, sizeof *table->checks);
        if (table->checks == NULL) {
            abort();
        }
    }
    return lease_checks_slot(table->checks, id);
}

int64_t lease_table_first_child(const struct lease_table *table, int64_t id) {
    uint32_t handle = find(table, id);
    if (handle == LEASE_NONE) {
        return 0;
    }
    uint32_t child = lease_family_first(&table->pages, handle);
    return child == LEASE_NONE ? 0 : lease_pages_fact(&table->pages, child)->id;
}

size_t lease_table_family(const struct lease_table *table, int64_t id,
                          int64_t out_ids[LEASE_FAMILY_MAX]) {
    uint32_t handles[LEASE_FAMILY_MAX];
    uint32_t handle = find(table, id);
    if (handle == LEASE_NONE) {
        return 0;
    }
    size_t n = lease_family_list(&table->pages, handle, handles, LEASE_FAMILY_MAX);
    for (size_t i = 0; i < n && n <= LEASE_FAMILY_MAX; i++) {
        out_ids[i] = lease_pages_fact(&table->pages, handles[i])->id;
    }
    return n;
}

uint32_t lease_table_epoch(const struct lease_table *table) {
    return table->epoch;
}

static int compare_ids(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a;
    int64_t right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

/* Byte `digit` of an id, such that unsigned order of all bytes is the order of signed ids. */
static unsigned id_byte(int64_t id, unsigned digit) {
    return (unsigned)(((uint64_t)id ^ UINT64_C(1) << 63) >> (digit * 8)) & 0xff;
}

/* By bytes from the lowest to the highest, because a million ids compared one by one would stall
 * the loop for a fifth of a second. Bytes in which all ids agree cost one pass of counting. */
void lease_ids_sort(int64_t *ids, size_t n) {
    enum { BYTES = 8, VALUES = 256, FEW = 256 };
    if (n <= FEW) {
        qsort(ids, n, sizeof ids[0], compare_ids);
        return;
    }
    int64_t *other = malloc(n * sizeof other[0]);
    if (other == NULL) {
        abort();
    }
    int64_t *from = ids;
    int64_t *to = other;
    for (unsigned digit = 0; digit < BYTES; digit++) {
        size_t starts[VALUES] = {0};
        for (size_t i = 0; i < n; i++) {
            starts[id_byte(from[i], digit)]++;
        }
        if (starts[id_byte(from[0], digit)] == n) {
            continue;
        }
        size_t start = 0;
        for (unsigned value = 0; value < VALUES; value++) {
            size_t count = starts[value];
            starts[value] = start;
            start += count;
        }
        for (size_t i = 0; i < n; i++) {
            to[starts[id_byte(from[i], digit)]++] = from[i];
        }
        int64_t *swapped = from;
        from = to;
        to = swapped;
    }
    if (from != ids) {
        memcpy(ids, from, n * sizeof ids[0]);
    }
    free(other);
}

int64_t *lease_table_ids(const struct lease_table *table, size_t *out_n) {
    int64_t *ids = malloc((lease_table_count(table) + 1) * sizeof ids[0]);
    if (ids == NULL) {
        abort();
    }
    size_t n = 0;
    for (uint32_t handle = lease_pages_next(&table->pages, 0); handle != LEASE_NONE;
         handle = lease_pages_next(&table->pages, handle + 1)) {
        ids[n++] = lease_pages_fact(&table->pages, handle)->id;
    }
    assert(n == lease_table_count(table));
    lease_ids_sort(ids, n);
    *out_n = n;
    return ids;
}

size_t lease_table_ended(const struct lease_table *table, struct lease_ended *out_ended,
                         size_t capacity) {
    size_t n = 0;
    while (n < capacity && n < LEASE_ENDED_MAX && n < table->n_ended) {
        out_ended[n] = table->ended[(table->n_ended - 1 - n) % LEASE_ENDED_MAX];
        n++;
    }
    return n;
}

void lease_table_validate(const struct lease_table *table) {
    lease_pages_validate(&table->pages, table->index.count);
    lease_index_validate(&table->index, &table->pages);
    lease_family_validate(&table->pages, &table->index);
    lease_deadlines_validate(table);
    size_t n_of_owner[UINT8_MAX + 1] = {0};
    for (uint32_t handle = lease_pages_next(&table->pages, 0); handle != LEASE_NONE;
         handle = lease_pages_next(&table->pages, handle + 1)) {
        const struct record *before = NULL;
        const struct record *record = lease_pages_local(&table->pages, handle)->first_key;
        size_t n_keys = 0;
        size_t long_keys = 0;
        for (; record != NULL; record = record->lease_next) {
            n_keys++;
            long_keys += record->key_size >= KEY_WORK_LONG_KEY ? record->key_size : 0;
            assert(record->lease_before == before);
            assert(record->lease_id == lease_pages_fact(&table->pages, handle)->id);
            before = record;
        }
        assert(lease_pages_local(&table->pages, handle)->n_keys ==
               (n_keys < LEASE_KEYS_UNCOUNTED ? n_keys : LEASE_KEYS_UNCOUNTED));
        assert(lease_pages_long_keys(&table->pages, handle) == long_keys);
        n_of_owner[lease_pages_fact(&table->pages, handle)->owner.value]++;
    }
    assert(memcmp(n_of_owner, table->n_of_owner, sizeof n_of_owner) == 0);
}
