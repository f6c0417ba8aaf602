/*
 * What the records of the log add up to: replayed batch by batch, so that a batch counts as a whole
 * or not at all. Knows nothing of files; log_open.c hands it the segments in order.
 */
#ifndef LEASED_RAFT_LOG_RECOVERY_H
#define LEASED_RAFT_LOG_RECOVERY_H

#include "base/status.h"
#include "raft/log_index.h"
#include "raft/log_segment.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LOG_PROBLEM_SIZE = 192 };

/* Where the log stands behind a record. */
struct log_position {
    uint64_t generation; /* 0: nowhere, there is no record */
    uint64_t offset;
    uint32_t chain;
    uint64_t sequence;
    uint64_t batch;
};

struct log_pending; /* a record of the batch that is not whole yet */

struct log_recovery {
    uint64_t term_max;
    struct log_index index;    /* as of `whole` */
    struct log_position now;   /* behind the last valid record */
    struct log_position whole; /* behind the last whole batch */
    uint64_t last_batch;       /* where it begins in its segment, or its part in that segment */
    bool is_base_open;         /* what was before the first segment was trimmed: base may sink */
    bool is_sealed;            /* the last whole batch is a seal */
    struct log_pending *pending;
    size_t n_pending;
    size_t pending_capacity;
    /* When it fails: what is wrong, and where. */
    uint64_t problem_generation;
    uint64_t problem_offset;
    char problem[LOG_PROBLEM_SIZE];
};

void log_recovery_init(struct log_recovery *recovery, uint64_t term_max);
/* The index stays the recovery's: it may be moved out before. */
void log_recovery_clear(struct log_recovery *recovery);

/* Replays a segment whose START record is valid. `end`: where the next segment says that this one
 * ends, and everything before must be valid; 0: it is the newest, and ends where records do.
 * STATUS_CORRUPT. */
enum status log_recovery_replay(struct log_recovery *recovery, const struct log_segment *segment,
                                const uint8_t *bytes, uint64_t end);

/* Looks behind the last whole batch for records. Only the batch that follows it may have left any:
 * it was being written in a crash. Any other batch means that what lies between is damaged.
 * STATUS_CORRUPT. `out_is_torn` is set when there are records, and left alone otherwise. */
enum status log_recovery_look_behind(struct log_recovery *recovery,
                                     const struct log_segment *segment, const uint8_t *bytes,
                                     uint64_t offset, bool *out_is_torn);

#endif
