/*
 * What must be true of every state of the ZooKeeper API on every node: no ephemeral node without
 * its session, of two twins, which a session creates in one revision, both or none, and no node
 * whose time has passed.
 */
#ifndef LEASED_SIM_ZK_STATE_H
#define LEASED_SIM_ZK_STATE_H

#include <stddef.h>

struct node;

/* Under these: locks, then each kind of twins, then nodes with a TTL. */
enum { ZK_STATE_LOCKS = 2, ZK_STATE_TWINS = 2, ZK_STATE_TIMED = 4, ZK_STATE_PARENTS = 5 };
extern const char *const zk_state_parents[ZK_STATE_PARENTS];

/* How many ephemeral nodes there are. */
size_t zk_state_check(const struct node *node);

#endif
