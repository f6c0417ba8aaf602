/*
 * Where each entry of the log is on disk, in memory: 24 bytes an entry. The entries are base + 1 to
 * last without a gap; base is the entry before the first, of which only the term is known.
 */
#ifndef LEASED_RAFT_LOG_INDEX_H
#define LEASED_RAFT_LOG_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct log_place {
    uint64_t term;
    uint32_t generation; /* of the segment */
    uint32_t offset;     /* of the record in it */
    uint32_t size;       /* of the payload */
    uint32_t seed;       /* the chain of the record before */
};

struct log_index {
    uint64_t base;
    uint64_t base_term;
    struct log_place *places; /* the first entry is places[start] */
    size_t start;
    size_t n;
    size_t capacity;
};

void log_index_init(struct log_index *index, uint64_t base, uint64_t base_term);
void log_index_clear(struct log_index *index);

static inline uint64_t log_index_last(const struct log_index *index) {
    return index->base + index->n;
}

/* Of an entry that is there. */
const struct log_place *log_index_at(const struct log_index *index, uint64_t entry);
/* Of an entry that is there, or of base. */
uint64_t log_index_term(const struct log_index *index, uint64_t entry);

/* The entry behind the last. */
void log_index_append(struct log_index *index, const struct log_place *place);
/* `last` is base or an entry that is there. */
void log_index_truncate(struct log_index *index, uint64_t last);
/* No entries any more. */
void log_index_reset(struct log_index *index, uint64_t base, uint64_t base_term);
/* Forgets the entries in segments before this one: entries are in the order of segments. */
void log_index_forget_before(struct log_index *index, uint32_t generation);

#endif
