/* Pools, taken slots and places in the queue of a pool, as records. */
#include "core/lease_table.h"
#include "doors/native/native_model.h"

#include <stdlib.h>

enum { FORMAT = 1 };

static void begin(struct reader *reader, struct bytes value) {
    reader_init(reader, value);
    if (reader_get_u8(reader) != FORMAT) {
        reader->failed = true;
    }
}

static bool is_read(const struct reader *reader) {
    return !reader->failed && reader_left(reader) == 0;
}

static int compare_names(const void *a, const void *b) {
    return bytes_compare(**(const struct bytes *const *)a, **(const struct bytes *const *)b);
}

static bool are_in_order(struct bytes **names, size_t n) {
    for (size_t i = 1; i < n; i++) {
        if (bytes_compare(*names[i - 1], *names[i]) > 0) {
            return false;
        }
    }
    return true;
}

/* Valid names, each once. */
static bool names_are_valid(struct bytes **names, size_t n, size_t size_max) {
    if (!are_in_order(names, n)) {
        qsort(names, n, sizeof(names[0]), compare_names);
    }
    for (size_t i = 0; i < n; i++) {
        if (!native_name_is_valid(*names[i], size_max) ||
            (i > 0 && bytes_equal(*names[i - 1], *names[i]))) {
            return false;
        }
    }
    return true;
}

/* Sorts the slots on the way: there is room for as many. */
static bool is_valid(const struct native_pool *pool, struct bytes **sorted) {
    struct bytes *names[NATIVE_POOL_SHARES_MAX];
    if (pool->n_slots > NATIVE_POOL_SLOTS_MAX || pool->n_shares > NATIVE_POOL_SHARES_MAX ||
        pool->hold_limit_ms < 0 || pool->hold_limit_ms > LEASE_TTL_MS_MAX) {
        return false;
    }
    for (size_t i = 0; i < pool->n_slots; i++) {
        sorted[i] = &pool->slots[i];
    }
    if (!names_are_valid(sorted, pool->n_slots, NATIVE_SLOT_SIZE_MAX)) {
        return false;
    }
    for (size_t i = 0; i < pool->n_shares; i++) {
        names[i] = &pool->shares[i].owner;
        if (pool->shares[i].weight < 1 || pool->shares[i].weight > NATIVE_WEIGHT_MAX) {
            return false;
        }
    }
    return names_are_valid(names, pool->n_shares, NATIVE_OWNER_SIZE_MAX);
}

bool native_pool_is_valid(const struct native_pool *pool) {
    struct bytes *sorted[NATIVE_POOL_SLOTS_MAX];
    return is_valid(pool, sorted);
}

void native_pool_encode(struct buffer *out, const struct native_pool *pool) {
    buffer_put_u8(out, FORMAT);
    buffer_put_zigzag(out, pool->hold_limit_ms);
    buffer_put_varint(out, pool->n_slots);
    for (size_t i = 0; i < pool->n_slots; i++) {
        buffer_put_bytes(out, pool->slots[i]);
    }
    buffer_put_varint(out, pool->n_shares);
    for (size_t i = 0; i < pool->n_shares; i++) {
        buffer_put_bytes(out, pool->shares[i].owner);
        buffer_put_varint(out, pool->shares[i].weight);
    }
}

static size_t get_count(struct reader *reader, size_t max) {
    uint64_t n = reader_get_varint(reader);
    if (n > max || n > reader_left(reader)) {
        reader->failed = true;
        return 0;
    }
    return (size_t)n;
}

bool native_pool_decode(struct bytes value, struct arena *arena, struct native_pool *out_pool) {
    struct reader reader;
    struct native_pool pool;
    begin(&reader, value);
    pool.hold_limit_ms = reader_get_zigzag(&reader);
    pool.n_slots = get_count(&reader, NATIVE_POOL_SLOTS_MAX);
    pool.slots = arena_alloc(arena, pool.n_slots * sizeof pool.slots[0]);
    for (size_t i = 0; i < pool.n_slots; i++) {
        pool.slots[i] = reader_get_bytes(&reader);
    }
    pool.n_shares = get_count(&reader, NATIVE_POOL_SHARES_MAX);
    pool.shares = arena_alloc(arena, pool.n_shares * sizeof pool.shares[0]);
    for (size_t i = 0; i < pool.n_shares; i++) {
        pool.shares[i].owner = reader_get_bytes(&reader);
        uint64_t weight = reader_get_varint(&reader);
        pool.shares[i].weight = weight > UINT32_MAX ? 0 : (uint32_t)weight;
    }
    pool.sorted = arena_alloc(arena, pool.n_slots * sizeof pool.sorted[0]);
    if (!is_read(&reader) || !is_valid(&pool, pool.sorted)) {
        return false;
    }
    *out_pool = pool;
    return true;
}

size_t native_pool_read_count(struct bytes value) {
    struct reader reader;
    begin(&reader, value);
    (void)reader_get_zigzag(&reader);
    return get_count(&reader, NATIVE_POOL_SLOTS_MAX);
}

void native_taken_encode(struct buffer *out, const struct native_taken *taken) {
    buffer_put_u8(out, FORMAT);
    buffer_put_zigzag(out, taken->acquisition_id);
    buffer_put_bytes(out, taken->owner);
}

bool native_taken_decode(struct bytes value, struct native_taken *out_taken) {
    struct reader reader;
    begin(&reader, value);
    int64_t acquisition_id = reader_get_zigzag(&reader);
    struct bytes owner = reader_get_bytes(&reader);
    if (!is_read(&reader) || !native_name_is_valid(owner, NATIVE_OWNER_SIZE_MAX)) {
        return false;
    }
    *out_taken = (struct native_taken){.acquisition_id = acquisition_id, .owner = owner};
    return true;
}

void native_pool_waiter_encode(struct buffer *out, const struct native_pool_waiter *waiter) {
    buffer_put_u8(out, FORMAT);
    buffer_put_varint(out, waiter->n_slots);
    buffer_put_u8(out, waiter->waits_for_pool_alone);
    buffer_put_bytes(out, waiter->owner);
}

bool native_pool_waiter_decode(struct bytes value, struct native_pool_waiter *out_waiter) {
    struct reader reader;
    begin(&reader, value);
    uint64_t n_slots = reader_get_varint(&reader);
    uint8_t is_alone = reader_get_u8(&reader);
    struct bytes owner = reader_get_bytes(&reader);
    if (!is_read(&reader) || n_slots < 1 || n_slots > NATIVE_POOL_SLOTS_MAX || is_alone > 1 ||
        !native_name_is_valid(owner, NATIVE_OWNER_SIZE_MAX)) {
        return false;
    }
    *out_waiter = (struct native_pool_waiter){
        .n_slots = (uint32_t)n_slots, .waits_for_pool_alone = is_alone, .owner = owner};
    return true;
}
