/*
 * One entry of the log in memory. It is shared by the log in memory, writes on their way and
 * messages being sent; the last to let go frees it. References are counted on the loop's thread
 * only: a write that runs in another thread holds one that is given back on the loop.
 */
#ifndef LEASED_RAFT_LOG_ITEM_H
#define LEASED_RAFT_LOG_ITEM_H

#include "base/bytes.h"

#include <stdint.h>

/* The numbers are stored and sent. */
enum log_item_type {
    LOG_COMMAND = 1, /* for the state machine */
    LOG_BARRIER = 2, /* libraft's own, without bytes */
    LOG_CHANGE = 3   /* a configuration, as libraft encodes it */
};

struct log_item {
    uint64_t index;
    uint64_t term;
    enum log_item_type type;
    uint32_t n_references;
    size_t size;
    uint8_t *bytes; /* from malloc(); owned */
};

/* With one reference. Takes over `bytes` (from malloc(), may be NULL when size is 0). */
struct log_item *log_item_create(enum log_item_type type, uint64_t index, uint64_t term,
                                 uint8_t *bytes, size_t size);
struct log_item *log_item_reference(struct log_item *item);
void log_item_release(struct log_item *item); /* accepts NULL */

#endif
