/*
 * When to search for free pages and give them back to the system: the allocator does not by itself
 * where small blocks lie between large ones. Spare memory is what the process has beyond what
 * clients and data account for. Some of it stays (code, caches, the log's tail); a search is due
 * when it has been much more, at two looks, than a search left before. So a burst that came and
 * went between two looks is found, and memory that is in use is not searched again.
 */
#ifndef LEASED_SERVER_SPARE_MEMORY_H
#define LEASED_SERVER_SPARE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* So much more spare memory is worth a search. */
#define SPARE_MEMORY_BYTES ((size_t)16 * 1024 * 1024)

struct spare_memory {
    size_t usual; /* what stays: the least since the last search */
    size_t last;  /* at the last look */
};

/* One look; true: a search is due. `held` is what clients and data account for. */
bool spare_memory_look(struct spare_memory *spare, size_t resident, size_t held);
/* A search was made, or the process has just begun, and so much is there. */
void spare_memory_note_searched(struct spare_memory *spare, size_t resident, size_t held);

#endif
