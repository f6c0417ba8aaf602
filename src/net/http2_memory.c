#include "net/http2_memory.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* nghttp2 needs no block that comes near this. */
#define BLOCK_SIZE_MAX ((size_t)1 << 30)

enum {
    SIZE_STEP = 64,
    SIZES = 8, /* blocks of 64, 128, … 512 bytes; larger ones are rare and not kept */
    KEPT_BYTES_MAX = 1024 * 1024
};

/* In front of each block. */
union header {
    struct {
        size_t size;        /* of the block behind it */
        union header *next; /* while it waits */
    };
    max_align_t aligned;
};

struct http2_memory {
    nghttp2_mem functions;
    union header *waiting[SIZES];
    size_t kept_bytes;
};

static union header *header_of(void *block) {
    return (union header *)block - 1;
}

static size_t place_of(size_t size) {
    return size / SIZE_STEP - 1;
}

static void *take(size_t size, void *user_data) {
    struct http2_memory *memory = user_data;
    size_t rounded = size > 0 ? (size + SIZE_STEP - 1) / SIZE_STEP * SIZE_STEP : SIZE_STEP;
    union header *header = NULL;
    if (size <= (size_t)SIZES * SIZE_STEP) {
        header = memory->waiting[place_of(rounded)];
        if (header != NULL) {
            memory->waiting[place_of(rounded)] = header->next;
            memory->kept_bytes -= rounded;
            return header + 1;
        }
    } else if (size > BLOCK_SIZE_MAX) {
        return NULL;
    }
    header = malloc(sizeof *header + rounded);
    if (header == NULL) {
        return NULL;
    }
    header->size = rounded;
    return header + 1;
}

static void give_back(void *block, void *user_data) {
    struct http2_memory *memory = user_data;
    if (block == NULL) {
        return;
    }
    union header *header = header_of(block);
    size_t size = header->size;
    if (size > (size_t)SIZES * SIZE_STEP || memory->kept_bytes + size > KEPT_BYTES_MAX) {
        free(header);
        return;
    }
    header->next = memory->waiting[place_of(size)];
    memory->waiting[place_of(size)] = header;
    memory->kept_bytes += size;
}

static void *take_zeroed(size_t n, size_t size, void *user_data) {
    size_t total = 0;
    if (__builtin_mul_overflow(n, size, &total)) {
        return NULL;
    }
    void *block = take(total, user_data);
    if (block != NULL) {
        memset(block, 0, total);
    }
    return block;
}

static void *resize(void *block, size_t size, void *user_data) {
    if (block == NULL) {
        return take(size, user_data);
    }
    size_t had = header_of(block)->size;
    if (size <= had && size > had / 2) {
        return block;
    }
    void *moved = take(size, user_data);
    if (moved != NULL) {
        memcpy(moved, block, had < size ? had : size);
        give_back(block, user_data);
    }
    return moved;
}

struct http2_memory *http2_memory_create(void) {
    struct http2_memory *memory = calloc(1, sizeof *memory);
    if (memory == NULL) {
        abort();
    }
    memory->functions = (nghttp2_mem){.mem_user_data = memory,
                                      .malloc = take,
                                      .free = give_back,
                                      .calloc = take_zeroed,
                                      .realloc = resize};
    return memory;
}

void http2_memory_destroy(struct http2_memory *memory) {
    if (memory == NULL) {
        return;
    }
    for (size_t i = 0; i < SIZES; i++) {
        while (memory->waiting[i] != NULL) {
            union header *header = memory->waiting[i];
            memory->waiting[i] = header->next;
            memory->kept_bytes -= header->size;
            free(header);
        }
    }
    assert(memory->kept_bytes == 0);
    free(memory);
}

nghttp2_mem *http2_memory_functions(struct http2_memory *memory) {
    return &memory->functions;
}

size_t http2_memory_kept_bytes(const struct http2_memory *memory) {
    return memory->kept_bytes;
}
