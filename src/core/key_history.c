#include "core/key_history.h"

#include <assert.h>
#include <stdlib.h>

enum { CHUNK_RECORDS = 1024, RING_CAPACITY_MIN = 8 };

struct key_history_chunk {
    struct record *records[CHUNK_RECORDS];
};

static void *allocate(size_t size) {
    void *memory = malloc(size);
    if (memory == NULL) {
        abort();
    }
    return memory;
}

static struct key_history_chunk **chunk_slot(const struct key_history *history, uint64_t position) {
    return &history->chunks[position / CHUNK_RECORDS & (history->chunk_capacity - 1)];
}

void key_history_init(struct key_history *history) {
    *history = (struct key_history){0};
}

void key_history_clear(struct key_history *history) {
    uint64_t position = history->first - history->first % CHUNK_RECORDS;
    for (; position < history->end; position += CHUNK_RECORDS) {
        free(*chunk_slot(history, position));
    }
    free(history->chunks);
    key_history_init(history);
}

static void grow_ring(struct key_history *history) {
    struct key_history old = *history;
    history->chunk_capacity = old.chunk_capacity == 0 ? RING_CAPACITY_MIN : old.chunk_capacity * 2;
    size_t size = history->chunk_capacity * sizeof(history->chunks[0]);
    history->chunks = allocate(size);
    uint64_t position = old.first - old.first % CHUNK_RECORDS;
    for (; position < old.end; position += CHUNK_RECORDS) {
        *chunk_slot(history, position) = *chunk_slot(&old, position);
    }
    history->bytes += size - old.chunk_capacity * sizeof(old.chunks[0]);
    free(old.chunks);
}

/* The position starts a chunk. */
static void add_chunk(struct key_history *history, uint64_t position) {
    uint64_t used = position / CHUNK_RECORDS - history->first / CHUNK_RECORDS;
    if (used >= history->chunk_capacity) {
        grow_ring(history);
    }
    *chunk_slot(history, position) = allocate(sizeof(struct key_history_chunk));
    history->bytes += sizeof(struct key_history_chunk);
}

static void free_chunk(struct key_history *history, uint64_t position) {
    free(*chunk_slot(history, position));
    history->bytes -= sizeof(struct key_history_chunk);
}

void key_history_append(struct key_history *history, struct record *record) {
    if (history->end % CHUNK_RECORDS == 0) {
        add_chunk(history, history->end);
    }
    (*chunk_slot(history, history->end))->records[history->end % CHUNK_RECORDS] = record;
    history->end++;
}

struct record *key_history_at(const struct key_history *history, uint64_t position) {
    if (position < history->first || position >= history->end) {
        return NULL;
    }
    return (*chunk_slot(history, position))->records[position % CHUNK_RECORDS];
}

void key_history_pop(struct key_history *history) {
    assert(history->first < history->end);
    history->first++;
    if (history->first % CHUNK_RECORDS == 0) {
        free_chunk(history, history->first - 1);
    }
}

uint64_t key_history_seek(const struct key_history *history, int64_t revision) {
    uint64_t low = history->first;
    uint64_t high = history->end;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (key_history_at(history, middle)->mod_revision < revision) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}
