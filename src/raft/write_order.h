/*
 * Which writes to the log are under way, and what may be said when one ends: an entry is on disk
 * only if the write that ended carried it and nothing has truncated it since, or replaced the log
 * by a snapshot.
 */
#ifndef LEASED_RAFT_WRITE_ORDER_H
#define LEASED_RAFT_WRITE_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct write_order_span {
    uint64_t first;
    uint64_t last; /* below first: nothing of it counts any more */
};

struct write_order {
    struct write_order_span *spans; /* oldest first, from `begin` on */
    size_t begin;
    size_t n;
    size_t capacity;
    uint64_t stored; /* everything up to this index is on disk and was reported */
};

void write_order_init(struct write_order *order, uint64_t stored);
void write_order_clear(struct write_order *order);

void write_order_begin(struct write_order *order, uint64_t first, uint64_t last);
/* The oldest write has ended. True: `stored` has risen and is to be reported. False also when none
 * was under way. */
bool write_order_end(struct write_order *order);
/* The log is truncated from this index on. */
void write_order_truncate(struct write_order *order, uint64_t from);
/* The log is replaced: no write that is under way counts, and nothing is stored. */
void write_order_void(struct write_order *order);

#endif
