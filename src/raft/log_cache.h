/*
 * The log in memory: a run of items by index, with a reference to each. It grows at its end, is
 * truncated there, and loses its oldest items at its front.
 */
#ifndef LEASED_RAFT_LOG_CACHE_H
#define LEASED_RAFT_LOG_CACHE_H

#include "raft/log_item.h"

#include <stddef.h>
#include <stdint.h>

struct log_cache {
    struct log_item **ring; /* the item of an index lies at index modulo capacity */
    size_t capacity;        /* 0 or a power of two */
    uint64_t first;         /* index of the oldest item; what comes next when there is none */
    size_t n;
    size_t bytes;
};

/* Empty; the first item to come has this index. */
void log_cache_init(struct log_cache *cache, uint64_t next_index);
/* Releases everything. */
void log_cache_clear(struct log_cache *cache);
/* The same as clear and init. */
void log_cache_reset(struct log_cache *cache, uint64_t next_index);

/* Index of the last item, or of what is before the first to come. */
static inline uint64_t log_cache_last(const struct log_cache *cache) {
    return cache->first + cache->n - 1;
}

/* Borrowed; NULL: it is not here. */
struct log_item *log_cache_get(const struct log_cache *cache, uint64_t index);
/* Takes a reference of its own. The item follows the last one. */
void log_cache_append(struct log_cache *cache, struct log_item *item);
/* Items from this index on are released. */
void log_cache_truncate(struct log_cache *cache, uint64_t from);
/* Items up to this index are released. */
void log_cache_drop(struct log_cache *cache, uint64_t upto);
/* Releases the oldest items while there are more bytes than this, but none above `upto`. */
void log_cache_shrink(struct log_cache *cache, size_t bytes_max, uint64_t upto);

#endif
