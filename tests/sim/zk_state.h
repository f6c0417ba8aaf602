/*
 * What must be true of every state of the ZooKeeper API on every node: no ephemeral node without
 * its session, and of two twins, which a session creates in one revision, both or none.
 */
#ifndef LEASED_SIM_ZK_STATE_H
#define LEASED_SIM_ZK_STATE_H

#include <stddef.h>

struct node;

/* Under these: locks, then each kind of twins. */
enum { ZK_STATE_LOCKS = 2, ZK_STATE_TWINS = 2, ZK_STATE_PARENTS = ZK_STATE_LOCKS + ZK_STATE_TWINS };
extern const char *const zk_state_parents[ZK_STATE_PARENTS];

/* How many ephemeral nodes there are. */
size_t zk_state_check(const struct node *node);

#endif
