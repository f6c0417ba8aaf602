#include "core/lease_index.h"

#include <assert.h>
#include <stdlib.h>

enum {
    BUCKETS_MIN = 64,
    SPLITS_AHEAD = 4 /* the chain that is split so many grants later is loaded now */
};

static size_t bucket_of(const struct lease_index *index, int64_t id) {
    uint64_t hash = keyed_hash_number(&index->key, (uint64_t)id);
    size_t bucket = hash & (index->round * 2 - 1);
    return bucket < index->n_buckets ? bucket : hash & (index->round - 1);
}

static void set_capacity(struct lease_index *index, size_t capacity) {
    uint32_t *buckets = realloc(index->buckets, capacity * sizeof buckets[0]);
    if (buckets == NULL) {
        abort();
    }
    index->buckets = buckets;
    index->capacity = capacity;
}

void lease_index_init(struct lease_index *index, const struct hash_key *key) {
    *index = (struct lease_index){.key = *key, .n_buckets = BUCKETS_MIN, .round = BUCKETS_MIN};
    set_capacity(index, BUCKETS_MIN);
    for (size_t i = 0; i < BUCKETS_MIN; i++) {
        index->buckets[i] = LEASE_NONE;
    }
}

void lease_index_clear(struct lease_index *index) {
    free(index->buckets);
    *index = (struct lease_index){0};
}

uint32_t lease_index_find(const struct lease_index *index, const struct lease_pages *pages,
                          int64_t id) {
    uint32_t handle = index->buckets[bucket_of(index, id)];
    while (handle != LEASE_NONE && lease_pages_fact(pages, handle)->id != id) {
        handle = lease_pages_local(pages, handle)->next;
    }
    return handle;
}

static void load_chain(const struct lease_index *index, const struct lease_pages *pages,
                       size_t bucket) {
    uint32_t handle = index->buckets[bucket];
    if (handle != LEASE_NONE) {
        __builtin_prefetch(lease_pages_fact(pages, handle));
        __builtin_prefetch(lease_pages_local(pages, handle));
    }
}

void lease_index_prefetch(const struct lease_index *index, const struct lease_pages *pages,
                          int64_t id, bool is_near) {
    size_t bucket = bucket_of(index, id);
    if (is_near) {
        load_chain(index, pages, bucket);
    } else {
        __builtin_prefetch(&index->buckets[bucket]);
    }
}

static void push(struct lease_index *index, struct lease_pages *pages, size_t bucket,
                 uint32_t handle) {
    lease_pages_local(pages, handle)->next = index->buckets[bucket];
    index->buckets[bucket] = handle;
}

/* Adds one bucket, and shares the chain of the bucket it was split from. */
static void grow(struct lease_index *index, struct lease_pages *pages) {
    if (index->n_buckets == index->capacity) {
        set_capacity(index, index->capacity * 2);
    }
    size_t from = index->n_buckets - index->round;
    load_chain(index, pages, from + SPLITS_AHEAD < index->round ? from + SPLITS_AHEAD : from);
    uint32_t handle = index->buckets[from];
    index->buckets[from] = LEASE_NONE;
    index->buckets[index->n_buckets++] = LEASE_NONE;
    while (handle != LEASE_NONE) {
        uint32_t next = lease_pages_local(pages, handle)->next;
        push(index, pages, bucket_of(index, lease_pages_fact(pages, handle)->id), handle);
        handle = next;
    }
    if (index->n_buckets == index->round * 2) {
        index->round *= 2;
    }
}

/* Takes the last bucket away again. */
static void shrink(struct lease_index *index, struct lease_pages *pages) {
    if (index->n_buckets == index->round) {
        index->round /= 2;
    }
    index->n_buckets--;
    size_t into = index->n_buckets - index->round;
    uint32_t handle = index->buckets[index->n_buckets];
    while (handle != LEASE_NONE) {
        uint32_t next = lease_pages_local(pages, handle)->next;
        push(index, pages, into, handle);
        handle = next;
    }
    if (index->n_buckets < index->capacity / 4) {
        set_capacity(index, index->capacity / 2);
    }
}

void lease_index_add(struct lease_index *index, struct lease_pages *pages, uint32_t handle) {
    if (index->count >= index->n_buckets) {
        grow(index, pages);
    }
    push(index, pages, bucket_of(index, lease_pages_fact(pages, handle)->id), handle);
    index->count++;
}

void lease_index_remove(struct lease_index *index, struct lease_pages *pages, uint32_t handle) {
    uint32_t *place = &index->buckets[bucket_of(index, lease_pages_fact(pages, handle)->id)];
    while (*place != handle) {
        assert(*place != LEASE_NONE);
        place = &lease_pages_local(pages, *place)->next;
    }
    *place = lease_pages_local(pages, handle)->next;
    index->count--;
    while (index->n_buckets > BUCKETS_MIN && index->count < index->n_buckets / 2) {
        shrink(index, pages);
    }
}

size_t lease_index_bytes(const struct lease_index *index) {
    return index->capacity * sizeof index->buckets[0];
}

void lease_index_validate(const struct lease_index *index, const struct lease_pages *pages) {
    assert(index->n_buckets >= index->round);
    assert(index->n_buckets < index->round * 2);
    assert(index->n_buckets <= index->capacity);
    size_t count = 0;
    for (size_t i = 0; i < index->n_buckets; i++) {
        uint32_t handle = index->buckets[i];
        for (; handle != LEASE_NONE; handle = lease_pages_local(pages, handle)->next) {
            assert(bucket_of(index, lease_pages_fact(pages, handle)->id) == i);
            count++;
            assert(count <= index->count);
        }
    }
    assert(count == index->count);
}
