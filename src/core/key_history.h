/*
 * Every record of the key store in the order it was written, back to compaction: a queue in chunks,
 * addressed by positions that grow by one a record and never restart. It borrows the records.
 */
#ifndef LEASED_CORE_KEY_HISTORY_H
#define LEASED_CORE_KEY_HISTORY_H

#include "core/record.h"

#include <stddef.h>
#include <stdint.h>

struct key_history_chunk;

struct key_history {
    uint64_t first;                    /* position of the oldest record held */
    uint64_t end;                      /* one past the newest */
    struct key_history_chunk **chunks; /* a ring: chunk c is at c modulo capacity */
    size_t chunk_capacity;             /* a power of two, or 0 */
    size_t bytes;
};

void key_history_init(struct key_history *history);
void key_history_clear(struct key_history *history);

/* The record is newer than all before it. */
void key_history_append(struct key_history *history, struct record *record);
/* NULL outside of [first, end). */
struct record *key_history_at(const struct key_history *history, uint64_t position);
/* Forgets the oldest record; there must be one. */
void key_history_pop(struct key_history *history);
/* Position of the first record held with mod_revision >= revision. */
uint64_t key_history_seek(const struct key_history *history, int64_t revision);

#endif
