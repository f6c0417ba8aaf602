/*
 * One record of the log as bytes: a head of fixed size, the payload, zeros up to a multiple of
 * eight. The head has two sums. `chain` covers the whole record and is seeded with the chain of the
 * record before, so that a record is valid in one place only. `head_sum` covers the head alone: it
 * tells a record from chance where the chain is broken.
 */
#ifndef LEASED_RAFT_LOG_RECORD_H
#define LEASED_RAFT_LOG_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The numbers are stored; the first three are those of enum log_item_type. */
enum log_record_type {
    RECORD_COMMAND = 1,
    RECORD_BARRIER = 2,
    RECORD_CHANGE = 3,
    RECORD_TRUNCATE = 16, /* the log ends with this index and term */
    RECORD_RESET = 17,    /* the log is empty and begins behind this index and term */
    RECORD_SEAL = 18,     /* nothing; it is there so that the batch before has a successor */
    RECORD_START = 19     /* the first of a segment: how it continues the one before */
};

/* The last record of a batch: what one append wrote, and what a crash may tear. */
enum { RECORD_LAST_OF_BATCH = 1 };

enum { LOG_RECORD_HEAD_SIZE = 56, LOG_RECORD_ALIGNMENT = 8 };

struct log_record {
    uint32_t chain;
    uint64_t life; /* of the segment: random, new each time a file is used again */
    uint64_t sequence;
    uint64_t batch;
    uint64_t index;
    uint64_t term;
    uint32_t size; /* of the payload */
    uint8_t type;
    uint8_t flags;
};

/* Zeros behind a payload of this size. */
static inline size_t log_record_padding(size_t payload_size) {
    return -payload_size % LOG_RECORD_ALIGNMENT;
}

static inline uint64_t log_record_size(size_t payload_size) {
    return LOG_RECORD_HEAD_SIZE + (uint64_t)payload_size + log_record_padding(payload_size);
}

/* Sets record->chain and writes the head. */
void log_record_encode(struct log_record *record, uint32_t seed, const void *payload,
                       uint8_t out_head[LOG_RECORD_HEAD_SIZE]);

/* A head of this life whose own sum is right? Of `size` bytes. */
bool log_record_decode_head(const uint8_t *bytes, uint64_t size, uint64_t life,
                            struct log_record *out_record);

/* A whole record that follows the one with this chain? */
bool log_record_decode(const uint8_t *bytes, uint64_t size, uint64_t life, uint32_t seed,
                       struct log_record *out_record);

/* The first head of this life at or behind `offset`, which is aligned. `size`: none. */
uint64_t log_record_find(const uint8_t *bytes, uint64_t offset, uint64_t size, uint64_t life,
                         struct log_record *out_record);

#endif
