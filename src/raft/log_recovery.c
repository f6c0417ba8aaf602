#include "raft/log_recovery.h"

#include "raft/log_record.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct log_pending {
    struct log_record record;
    uint64_t generation;
    uint64_t offset;
    uint32_t seed;
};

void log_recovery_init(struct log_recovery *recovery, uint64_t term_max) {
    *recovery = (struct log_recovery){.term_max = term_max, .is_sealed = true};
    log_index_init(&recovery->index, 0, 0);
}

void log_recovery_clear(struct log_recovery *recovery) {
    log_index_clear(&recovery->index);
    free(recovery->pending);
    recovery->pending = NULL;
}

__attribute__((format(printf, 4, 5))) static enum status corrupt(struct log_recovery *recovery,
                                                                 uint64_t generation,
                                                                 uint64_t offset,
                                                                 const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(recovery->problem, sizeof recovery->problem, format, arguments);
    va_end(arguments);
    recovery->problem_generation = generation;
    recovery->problem_offset = offset;
    return STATUS_CORRUPT;
}

/* --- what a record does to the log --- */

static enum status apply_entry(struct log_recovery *recovery, const struct log_pending *pending) {
    const struct log_record *record = &pending->record;
    struct log_index *index = &recovery->index;
    uint64_t last = log_index_last(index);
    if (record->index != last + 1) {
        return corrupt(recovery, pending->generation, pending->offset,
                       "entry %" PRIu64 " where entry %" PRIu64 " must follow", record->index,
                       last + 1);
    }
    if (record->term == 0 || record->term < log_index_term(index, last)) {
        return corrupt(recovery, pending->generation, pending->offset,
                       "entry %" PRIu64 " has term %" PRIu64 ", the one before it %" PRIu64,
                       record->index, record->term, log_index_term(index, last));
    }
    if (record->term > recovery->term_max) {
        return corrupt(recovery, pending->generation, pending->offset,
                       "entry %" PRIu64 " has term %" PRIu64
                       ", but the term stored in meta.1 and meta.2 is %" PRIu64,
                       record->index, record->term, recovery->term_max);
    }
    struct log_place place = {
        .term = record->term,
        .generation = (uint32_t)pending->generation,
        .offset = (uint32_t)pending->offset,
        .size = record->size,
        .seed = pending->seed,
    };
    log_index_append(index, &place);
    return STATUS_OK;
}

static enum status apply_truncate(struct log_recovery *recovery,
                                  const struct log_pending *pending) {
    const struct log_record *record = &pending->record;
    struct log_index *index = &recovery->index;
    if (record->index < index->base && recovery->is_base_open) {
        log_index_reset(index, record->index, record->term);
        return STATUS_OK;
    }
    if (record->index < index->base || record->index >= log_index_last(index) ||
        record->term != log_index_term(index, record->index)) {
        return corrupt(recovery, pending->generation, pending->offset,
                       "a truncation to entry %" PRIu64 " of term %" PRIu64
                       ", which the log does not hold",
                       record->index, record->term);
    }
    log_index_truncate(index, record->index);
    return STATUS_OK;
}

static enum status apply_start(struct log_recovery *recovery, const struct log_pending *pending) {
    const struct log_record *record = &pending->record;
    struct log_index *index = &recovery->index;
    if (recovery->whole.generation == 0 && pending == recovery->pending) {
        log_index_reset(index, record->index, record->term);
        return STATUS_OK;
    }
    uint64_t last = log_index_last(index);
    if (record->index != last || record->term != log_index_term(index, last)) {
        return corrupt(recovery, pending->generation, pending->offset,
                       "the segment continues a log up to entry %" PRIu64 ", not %" PRIu64,
                       record->index, last);
    }
    return STATUS_OK;
}

static enum status apply(struct log_recovery *recovery, const struct log_pending *pending) {
    const struct log_record *record = &pending->record;
    switch (record->type) {
    case RECORD_COMMAND:
    case RECORD_BARRIER:
    case RECORD_CHANGE:
        return apply_entry(recovery, pending);
    case RECORD_TRUNCATE:
        return apply_truncate(recovery, pending);
    case RECORD_RESET:
        log_index_reset(&recovery->index, record->index, record->term);
        recovery->is_base_open = false;
        return STATUS_OK;
    case RECORD_START:
        return apply_start(recovery, pending);
    case RECORD_SEAL:
        return STATUS_OK;
    default:
        return corrupt(recovery, pending->generation, pending->offset,
                       "a record of unknown type %u", record->type);
    }
}

static uint64_t begin_of_batch(const struct log_recovery *recovery) {
    size_t i = recovery->n_pending - 1;
    while (i > 0 && recovery->pending[i - 1].generation == recovery->now.generation) {
        i--;
    }
    return recovery->pending[i].offset;
}

static enum status apply_batch(struct log_recovery *recovery) {
    for (size_t i = 0; i < recovery->n_pending; i++) {
        enum status status = apply(recovery, &recovery->pending[i]);
        if (status != STATUS_OK) {
            return status;
        }
    }
    recovery->is_sealed = recovery->pending[recovery->n_pending - 1].record.type == RECORD_SEAL;
    recovery->last_batch = begin_of_batch(recovery);
    recovery->n_pending = 0;
    recovery->whole = recovery->now;
    return STATUS_OK;
}

/* --- segments --- */

static void add_pending(struct log_recovery *recovery, const struct log_pending *pending) {
    if (recovery->n_pending == recovery->pending_capacity) {
        recovery->pending_capacity =
            recovery->pending_capacity == 0 ? 256 : 2 * recovery->pending_capacity;
        recovery->pending =
            realloc(recovery->pending, recovery->pending_capacity * sizeof *recovery->pending);
        if (recovery->pending == NULL) {
            abort();
        }
    }
    recovery->pending[recovery->n_pending++] = *pending;
}

/* The START record ties the segment to the position in the one before. */
static enum status enter(struct log_recovery *recovery, const struct log_segment *segment,
                         const uint8_t *bytes) {
    struct log_record record;
    struct log_start start;
    if (!log_segment_decode_start(segment, bytes, segment->size, &record, &start)) {
        return corrupt(recovery, segment->generation, LOG_SEGMENT_HEADER_SIZE,
                       "its first record is damaged");
    }
    if (recovery->now.generation == 0) {
        recovery->is_base_open = start.previous_generation != 0;
        recovery->now.sequence = record.sequence - 1;
        recovery->now.batch = record.batch;
    } else if (start.previous_generation != recovery->now.generation ||
               start.previous_end != recovery->now.offset ||
               start.previous_chain != recovery->now.chain) {
        return corrupt(recovery, segment->generation, LOG_SEGMENT_HEADER_SIZE,
                       "it does not continue the segment before it");
    }
    recovery->now.generation = segment->generation;
    recovery->now.offset = LOG_SEGMENT_HEADER_SIZE;
    recovery->now.chain = segment->chain;
    return STATUS_OK;
}

enum status log_recovery_replay(struct log_recovery *recovery, const struct log_segment *segment,
                                const uint8_t *bytes, uint64_t end) {
    enum status status = enter(recovery, segment, bytes);
    uint64_t limit = end == 0 ? segment->size : end;
    if (status == STATUS_OK && limit > segment->size) {
        return corrupt(recovery, segment->generation, limit,
                       "the next segment continues it there, but it ends before");
    }
    struct log_position *now = &recovery->now;
    while (status == STATUS_OK && now->offset < limit) {
        struct log_pending pending = {
            .generation = segment->generation, .offset = now->offset, .seed = now->chain};
        if (!log_record_decode(bytes + now->offset, limit - now->offset, segment->life, now->chain,
                               &pending.record) ||
            pending.record.sequence != now->sequence + 1) {
            return end == 0 ? STATUS_OK
                            : corrupt(recovery, segment->generation, now->offset,
                                      "the record there does not match its checksum");
        }
        uint64_t batch = recovery->n_pending > 0 || recovery->whole.generation == 0
                             ? now->batch
                             : recovery->whole.batch + 1;
        if (pending.record.batch != batch) {
            return corrupt(recovery, segment->generation, now->offset,
                           "a record of batch %" PRIu64 " where batch %" PRIu64 " must follow",
                           pending.record.batch, batch);
        }
        *now = (struct log_position){
            .generation = segment->generation,
            .offset = now->offset + log_record_size(pending.record.size),
            .chain = pending.record.chain,
            .sequence = pending.record.sequence,
            .batch = batch,
        };
        add_pending(recovery, &pending);
        if (pending.record.flags & RECORD_LAST_OF_BATCH) {
            status = apply_batch(recovery);
        }
    }
    return status;
}

enum status log_recovery_look_behind(struct log_recovery *recovery,
                                     const struct log_segment *segment, const uint8_t *bytes,
                                     uint64_t offset, bool *out_is_torn) {
    uint64_t torn_batch = recovery->whole.batch + 1;
    struct log_record record;
    for (;;) {
        offset = log_record_find(bytes, offset, segment->size, segment->life, &record);
        if (offset == segment->size) {
            return STATUS_OK;
        }
        if (record.batch != torn_batch) {
            return corrupt(recovery, segment->generation, offset,
                           "a whole record of batch %" PRIu64
                           " lies behind the damage, which is therefore no torn tail",
                           record.batch);
        }
        *out_is_torn = true;
        offset += LOG_RECORD_ALIGNMENT;
    }
}
