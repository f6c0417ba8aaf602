/*
 * What applying a command knows besides the state: where in the log it is, and the time.
 */
#ifndef LEASED_CORE_APPLY_CONTEXT_H
#define LEASED_CORE_APPLY_CONTEXT_H

#include <stdint.h>

struct apply_context {
    uint64_t term;   /* of the log entry */
    uint64_t now_ms; /* local monotonic time */
    /* The entry was written before this, though it may be applied much later; 0: before now. */
    uint64_t written_ms;
    uint64_t index;  /* of the entry */
    int64_t wall_ms; /* of the proposer: information only */
};

#endif
