#include "raft/log_index.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { CAPACITY_MIN = 1024 };

void log_index_init(struct log_index *index, uint64_t base, uint64_t base_term) {
    *index = (struct log_index){.base = base, .base_term = base_term};
}

void log_index_clear(struct log_index *index) {
    free(index->places);
    *index = (struct log_index){.base = 0};
}

const struct log_place *log_index_at(const struct log_index *index, uint64_t entry) {
    assert(entry > index->base);
    assert(entry <= log_index_last(index));
    return &index->places[index->start + (size_t)(entry - index->base - 1)];
}

uint64_t log_index_term(const struct log_index *index, uint64_t entry) {
    return entry == index->base ? index->base_term : log_index_at(index, entry)->term;
}

static void resize(struct log_index *index, size_t capacity) {
    struct log_place *places = malloc(capacity * sizeof *places);
    if (places == NULL) {
        abort();
    }
    if (index->n > 0) {
        memcpy(places, index->places + index->start, index->n * sizeof *places);
    }
    free(index->places);
    index->places = places;
    index->start = 0;
    index->capacity = capacity;
}

void log_index_append(struct log_index *index, const struct log_place *place) {
    if (index->start + index->n == index->capacity) {
        size_t twice = 2 * index->n;
        resize(index, twice < CAPACITY_MIN ? CAPACITY_MIN : twice);
    }
    index->places[index->start + index->n] = *place;
    index->n++;
}

void log_index_truncate(struct log_index *index, uint64_t last) {
    assert(last >= index->base);
    assert(last <= log_index_last(index));
    index->n = (size_t)(last - index->base);
}

void log_index_reset(struct log_index *index, uint64_t base, uint64_t base_term) {
    log_index_clear(index);
    index->base = base;
    index->base_term = base_term;
}

void log_index_forget_before(struct log_index *index, uint32_t generation) {
    size_t n = 0;
    while (n < index->n && index->places[index->start + n].generation < generation) {
        n++;
    }
    if (n == 0) {
        return;
    }
    index->base_term = index->places[index->start + n - 1].term;
    index->base += n;
    index->start += n;
    index->n -= n;
    /* Memory that a long log took is given back. */
    if (index->n < index->capacity / 4 && index->capacity > CAPACITY_MIN) {
        size_t half = index->capacity / 2;
        resize(index, half < CAPACITY_MIN ? CAPACITY_MIN : half);
    }
}
