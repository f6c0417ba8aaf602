/*
 * When to search for free pages and give them back to the system: the allocator does not by itself
 * where small blocks lie between large ones. Spare memory is what the process has beyond what
 * clients and data account for. Some of it stays (code, caches, the log's tail); a search is due
 * when it has been much more, at two looks, than a search left before. So a burst that came and
 * went between two looks is found. What a search left may have been in use and be free since, which
 * nobody tells: it is searched again after some looks, ever more seldom while that is in vain, and
 * not at all where a search takes long: with many small holes in a large heap it does, and all
 * wait.
 */
#ifndef LEASED_SERVER_SPARE_MEMORY_H
#define LEASED_SERVER_SPARE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* So much more spare memory is worth a search. */
#define SPARE_MEMORY_BYTES ((size_t)16 * 1024 * 1024)
/* A search that took longer is not made again without a new burst. */
#define SPARE_MEMORY_SEARCH_MS 10

struct spare_memory {
    size_t least;      /* since the process began */
    size_t usual;      /* what stays: the least since the last search */
    size_t last;       /* at the last look */
    unsigned n_looks;  /* since the last search, that saw much more than the least */
    unsigned patience; /* so many of them, and a search is due */
    bool is_slow;      /* the last search */
};

void spare_memory_begin(struct spare_memory *spare, size_t resident, size_t held);
/* One look; true: a search is due. `held` is what clients and data account for. */
bool spare_memory_look(struct spare_memory *spare, size_t resident, size_t held);
/* A search was made, it took so long, and so much is there. */
void spare_memory_note_searched(struct spare_memory *spare, uint64_t took_ms, size_t resident,
                                size_t held);

#endif
