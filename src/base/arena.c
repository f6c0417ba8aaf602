#include "base/arena.h"

#include <assert.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_BLOCK_SIZE = 4096 };

struct arena_block {
    struct arena_block *older;
    size_t size;
    alignas(max_align_t) unsigned char bytes[];
};

void arena_init(struct arena *arena) {
    arena->blocks = NULL;
    arena->used = 0;
}

void arena_clear(struct arena *arena) {
    while (arena->blocks != NULL) {
        struct arena_block *older = arena->blocks->older;
        free(arena->blocks);
        arena->blocks = older;
    }
    arena->used = 0;
}

void arena_reset(struct arena *arena) {
    if (arena->blocks == NULL) {
        return;
    }
    /* A block made for one unusually large request is not worth keeping. */
    while (arena->blocks != NULL &&
           (arena->blocks->older != NULL || arena->blocks->size > ARENA_BLOCK_SIZE)) {
        struct arena_block *older = arena->blocks->older;
        free(arena->blocks);
        arena->blocks = older;
    }
    arena->used = 0;
}

void *arena_alloc(struct arena *arena, size_t size) {
    size_t alignment = alignof(max_align_t);
    assert(size <= SIZE_MAX / 4);
    size = (size + alignment - 1) & ~(alignment - 1);
    if (arena->blocks == NULL || arena->blocks->size - arena->used < size) {
        size_t block_size = size > ARENA_BLOCK_SIZE ? size : ARENA_BLOCK_SIZE;
        struct arena_block *block = malloc(sizeof *block + block_size);
        if (block == NULL) {
            abort();
        }
        block->size = block_size;
        block->older = arena->blocks;
        arena->blocks = block;
        arena->used = 0;
    }
    void *memory = arena->blocks->bytes + arena->used;
    arena->used += size;
    return memory;
}

void *arena_calloc(struct arena *arena, size_t count, size_t size) {
    assert(size == 0 || count <= SIZE_MAX / 4 / size);
    void *memory = arena_alloc(arena, count * size);
    memset(memory, 0, count * size);
    return memory;
}

void *arena_copy(struct arena *arena, const void *data, size_t size) {
    void *memory = arena_alloc(arena, size);
    if (size > 0) {
        memcpy(memory, data, size);
    }
    return memory;
}
