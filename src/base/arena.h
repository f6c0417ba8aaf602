/*
 * Memory that lives as long as one request: allocation is a bump of a pointer, and everything
 * goes at once with arena_reset(). Allocation never fails to the caller: running out of memory
 * here would make one replica differ from another, so it aborts (request sizes are limited
 * before they get here).
 */
#ifndef LEASED_BASE_ARENA_H
#define LEASED_BASE_ARENA_H

#include <stddef.h>

struct arena_block;

struct arena {
    struct arena_block *blocks; /* newest first */
    size_t used;                /* bytes used of the newest block */
};

/* An empty arena allocates nothing until it is used. */
void arena_init(struct arena *arena);

/* Releases all memory. The arena can be used again. */
void arena_clear(struct arena *arena);

/* Forgets every allocation but keeps one block for the next request. */
void arena_reset(struct arena *arena);

/* Memory aligned for any type, not zeroed. A size of 0 gives a valid, unusable pointer. */
void *arena_alloc(struct arena *arena, size_t size);

/* An array of `count` zeroed elements; the product is checked. */
void *arena_calloc(struct arena *arena, size_t count, size_t size);

/* A copy of `size` bytes. */
void *arena_copy(struct arena *arena, const void *data, size_t size);

#endif
