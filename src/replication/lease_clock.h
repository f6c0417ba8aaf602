/*
 * The clock that leases run out on. It is the node's monotonic clock, except that it stops while
 * nobody could have renewed a lease (safety rule 9): when no leader has been seen for a while. An
 * election is short and counts; an outage does not. It never jumps and never runs faster than the
 * clock it is made from, so on it a lease may end late, never early.
 *
 * Pure: time is an argument.
 */
#ifndef LEASED_REPLICATION_LEASE_CLOCK_H
#define LEASED_REPLICATION_LEASE_CLOCK_H

#include <stdint.h>

struct lease_clock {
    uint64_t patience_ms; /* it runs on for so long after it was last said that a leader is there */
    uint64_t seen_ms;     /* when that was */
    uint64_t stopped_ms;  /* how long it has stood still in all */
};

/* Runs from the start, as if a leader had just been seen. UINT64_MAX: never stops. */
void lease_clock_init(struct lease_clock *clock, uint64_t patience_ms, uint64_t now_ms);
uint64_t lease_clock_read(const struct lease_clock *clock, uint64_t now_ms);
/* A leader is there now. Returns for how long none had been seen. */
uint64_t lease_clock_leader_seen(struct lease_clock *clock, uint64_t now_ms);
/* The cluster became larger than one node, or has shrunk to one. */
void lease_clock_set_patience(struct lease_clock *clock, uint64_t patience_ms, uint64_t now_ms);

#endif
