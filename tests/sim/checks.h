/*
 * What must always be true, and what the simulation looks at to tell. Clients report what they were
 * told, link-time wrappers around a few functions of the product report what it does; nothing here
 * changes what happens.
 */
#ifndef LEASED_SIM_CHECKS_H
#define LEASED_SIM_CHECKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct node;

/* Holders of locks give up this much of a TTL, in parts of a thousand, for clocks that run at
 * different rates: theirs may be as slow as the seed lets them be, and the server's as fast. */
unsigned checks_drift_allowance_permille(void);

/* --- Leases, by what their holder knows. --- */

/* Clocks of leaders stand still: how long leases last is not looked at. */
void checks_leases_stretch(void);
bool checks_leases_are_stretched(void);

/* The holder was told that the lease stands; by its own clock, counted from when it asked, it may
 * rely on it until then (true time). */
void checks_lease_stands(int64_t id, int64_t ttl_ms, uint64_t until_us);
/* The holder was told that there is no such lease. */
void checks_lease_not_found(int64_t id);
/* A renewal that reached the leader's machine at that time was told that there is no such lease. */
void checks_renewal_refused(int64_t id, uint64_t arrived_us);
/* When it expired; 0: not that we know. */
uint64_t checks_lease_ended_us(int64_t id);
/* What is left of a TTL, in microseconds, by the fastest clock, and a little less. */
uint64_t checks_shortest_us(int64_t ttl_ms);
/* The holder ends it itself: whatever happens to it from now on is right. */
void checks_lease_given_up(int64_t id);

/* --- Locks. --- */

/* The first of each kind of clients. */
enum { LOCKS_LEASES = 0, LOCKS_REDIS = 4, LOCKS_ZOOKEEPER = 6, LOCKS_CONSUL = 8, LOCKS_MAX = 10 };
/* Who holds it by its own reckoning, until when (true time). `token`: the newest. */
void checks_lock_held(size_t lock, size_t holder, uint64_t token, uint64_t until_us);
void checks_lock_released(size_t lock, size_t holder);
uint64_t checks_newest_token(size_t lock);
void checks_token(size_t lock, uint64_t token, uint64_t newest_before);

/* --- Ends. --- */

/* A node became leader or ceased to be: to be called whenever that may be. */
void checks_presence(void);

/* From now on nothing is broken any more; leases must end in time. */
void checks_healed(void);
/* Once a second while leases should end in time however often the leader changes. */
void checks_no_lease_is_late(unsigned percent_of_ttl, uint64_t slack_us);
void checks_no_lease_is_left(void);
/* Every node is up and has applied the same: are they equal? */
bool checks_nodes_are_level(void);
void checks_nodes_are_equal(void);

#endif
