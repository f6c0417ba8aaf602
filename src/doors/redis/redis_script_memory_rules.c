#include "doors/redis/redis_script_state_rules.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/mman.h>

/*
 * The interpreter lives in one piece of memory at one address. Its whole state can be copied away
 * and put back, which makes a run independent of the runs before it and is faster than a new
 * interpreter; and tables and functions as keys, which Lua hashes by address, behave alike on every
 * replica. The address is low, where neither programs nor libraries nor sanitizers map anything.
 */
#define MEMORY_ADDRESS ((void *)0x20000000)
enum {
    MEMORY_SIZE = 64 * 1024 * 1024, /* of addresses; several times the limit, for fragments */
    MEMORY_KEPT = 1024 * 1024,
    ALIGNMENT = 16,
    SMALL_MAX = 512, /* in classes of ALIGNMENT; above, four classes for each power of two */
    SMALL_CLASSES = SMALL_MAX / ALIGNMENT,
    CLASSES = SMALL_CLASSES + 4 * 18,
};

struct free_block {
    struct free_block *next;
};

struct memory {
    struct redis_script_counters counters;
    size_t used; /* from the beginning; blocks behind it were never given out */
    struct free_block *free[CLASSES];
};

static struct memory *memory;
static size_t used_max; /* since the last trim */

struct redis_script_counters *redis_script_memory_begin(void) {
    if (memory == NULL) {
        int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
        void *address = mmap(MEMORY_ADDRESS, MEMORY_SIZE, PROT_READ | PROT_WRITE,
                             flags | MAP_FIXED_NOREPLACE, -1, 0);
        if (address == MAP_FAILED) {
            /* Then only tables with tables or functions as keys, which cannot be iterated over, may
             * take other amounts of memory here than elsewhere. */
            address = mmap(NULL, MEMORY_SIZE, PROT_READ | PROT_WRITE, flags, -1, 0);
        }
        assert(address != MAP_FAILED);
        memory = address;
    }
    memset(memory, 0, sizeof *memory);
    memory->used = (sizeof *memory + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return &memory->counters;
}

struct redis_script_counters *redis_script_memory_counters(void) {
    return &memory->counters;
}

/* The class of a size and the size that blocks of this class have. */
static size_t class_of(size_t size, size_t *out_size) {
    if (size <= SMALL_MAX) {
        size_t class = (size + ALIGNMENT - 1) / ALIGNMENT - 1;
        *out_size = (class + 1) * ALIGNMENT;
        return class;
    }
    size_t power = SMALL_MAX;
    size_t class = SMALL_CLASSES;
    while (power * 2 < size) {
        power *= 2;
        class += 4;
    }
    size_t quarter = power / 4;
    size_t quarters = (size - power + quarter - 1) / quarter; /* 1 to 4 */
    *out_size = power + quarters * quarter;
    return class + quarters - 1;
}

static void give_back(void *block, size_t size) {
    size_t block_size;
    size_t class = class_of(size, &block_size);
    struct free_block *free_block = block;
    free_block->next = memory->free[class];
    memory->free[class] = free_block;
}

static void *take(size_t size) {
    size_t block_size;
    size_t class = class_of(size, &block_size);
    struct free_block *block = memory->free[class];
    if (block != NULL) {
        memory->free[class] = block->next;
        return block;
    }
    if (block_size > MEMORY_SIZE - memory->used) {
        return NULL;
    }
    block = (struct free_block *)((char *)memory + memory->used);
    memory->used += block_size;
    if (memory->used > used_max) {
        used_max = memory->used;
    }
    return block;
}

/* Whether the run may have so much more. Counted as asked for, never as given. */
static bool may_grow(size_t old_size, size_t new_size) {
    struct redis_script_run *run = redis_script_current();
    struct redis_script_counters *counters = &memory->counters;
    counters->work += 4 + new_size / 32;
    if (run->stopped != STATUS_OK) {
        return false;
    }
    if (counters->work > run->limits.work) {
        run->stopped = STATUS_TOO_MANY_OPERATIONS;
    } else if (new_size > run->limits.memory ||
               counters->live - old_size + new_size > run->limits.memory) {
        run->stopped = STATUS_REQUEST_TOO_LARGE;
    }
    return run->stopped == STATUS_OK;
}

void *redis_script_memory_allocate(void *context, void *block, size_t old_size, size_t new_size) {
    (void)context;
    struct redis_script_counters *counters = &memory->counters;
    size_t old_block = 0;
    size_t new_block = 0;
    old_size = block == NULL ? 0 : old_size;
    if (new_size == 0) {
        if (old_size > 0) {
            give_back(block, old_size);
            counters->live -= old_size;
        }
        return NULL;
    }
    if (new_size > old_size && !may_grow(old_size, new_size)) {
        return NULL;
    }
    void *result = block;
    if (old_size == 0 || class_of(old_size, &old_block) != class_of(new_size, &new_block)) {
        result = take(new_size);
        if (result == NULL) {
            redis_script_current()->stopped = STATUS_REQUEST_TOO_LARGE;
            return NULL;
        }
        if (old_size > 0) {
            memcpy(result, block, old_size < new_size ? old_size : new_size);
            give_back(block, old_size);
        }
    }
    counters->live += new_size - old_size;
    if (counters->live > counters->live_max) {
        counters->live_max = counters->live;
    }
    return result;
}

struct redis_script_image redis_script_memory_save(void) {
    struct redis_script_image image = {.data = malloc(memory->used), .size = memory->used};
    assert(image.data != NULL);
    memcpy(image.data, memory, image.size);
    return image;
}

void redis_script_memory_restore(const struct redis_script_image *image) {
    memcpy(memory, image->data, image->size);
}

void redis_script_memory_trim(void) {
    if (used_max > MEMORY_KEPT) {
        madvise((char *)memory + MEMORY_KEPT, MEMORY_SIZE - MEMORY_KEPT, MADV_DONTNEED);
        used_max = 0;
    }
}
