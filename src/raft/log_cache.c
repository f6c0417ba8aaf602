#include "raft/log_cache.h"

#include <assert.h>
#include <stdlib.h>

enum { CAPACITY_MIN = 64 };

static size_t cost_of(const struct log_item *item) {
    return sizeof *item + item->size;
}

static struct log_item **place_of(const struct log_cache *cache, uint64_t index) {
    return &cache->ring[index & (cache->capacity - 1)];
}

void log_cache_init(struct log_cache *cache, uint64_t next_index) {
    assert(next_index > 0);
    *cache = (struct log_cache){.first = next_index};
}

static void release(struct log_cache *cache, uint64_t index) {
    struct log_item *item = *place_of(cache, index);
    cache->bytes -= cost_of(item);
    cache->n--;
    log_item_release(item);
}

void log_cache_clear(struct log_cache *cache) {
    log_cache_truncate(cache, cache->first);
    free(cache->ring);
    *cache = (struct log_cache){.first = cache->first};
}

void log_cache_reset(struct log_cache *cache, uint64_t next_index) {
    log_cache_clear(cache);
    log_cache_init(cache, next_index);
}

struct log_item *log_cache_get(const struct log_cache *cache, uint64_t index) {
    if (index < cache->first || index - cache->first >= cache->n) {
        return NULL;
    }
    return *place_of(cache, index);
}

static void grow(struct log_cache *cache) {
    size_t capacity = cache->capacity == 0 ? CAPACITY_MIN : cache->capacity * 2;
    struct log_item **ring = calloc(capacity, sizeof(struct log_item *));
    if (ring == NULL) {
        abort();
    }
    for (uint64_t i = cache->first; i < cache->first + cache->n; i++) {
        ring[i & (capacity - 1)] = *place_of(cache, i);
    }
    free(cache->ring);
    cache->ring = ring;
    cache->capacity = capacity;
}

void log_cache_append(struct log_cache *cache, struct log_item *item) {
    assert(item->index == cache->first + cache->n);
    if (cache->n == cache->capacity) {
        grow(cache);
    }
    *place_of(cache, item->index) = log_item_reference(item);
    cache->n++;
    cache->bytes += cost_of(item);
}

void log_cache_truncate(struct log_cache *cache, uint64_t from) {
    while (cache->n > 0 && log_cache_last(cache) >= from) {
        release(cache, log_cache_last(cache));
    }
}

void log_cache_drop(struct log_cache *cache, uint64_t upto) {
    while (cache->n > 0 && cache->first <= upto) {
        release(cache, cache->first);
        cache->first++;
    }
}

void log_cache_shrink(struct log_cache *cache, size_t bytes_max, uint64_t upto) {
    while (cache->n > 0 && cache->bytes > bytes_max && cache->first <= upto) {
        release(cache, cache->first);
        cache->first++;
    }
}
