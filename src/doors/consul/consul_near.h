/*
 * ?near=: lists in the order of how far their instances are. Consul measures round trips; here the
 * distance is what operators and instances say of themselves:
 *
 *     0   on the node that is named; of "_agent" and "_ip": at the client's own address
 *     1   in the zone of that node; of "_agent" and "_ip": in that of the client's network
 *     2   elsewhere
 *
 * A list is gone through once for each distance, so one of any length is put in order without being
 * kept. Among equals the order is what it is without ?near=.
 */
#ifndef LEASED_DOORS_CONSUL_CONSUL_NEAR_H
#define LEASED_DOORS_CONSUL_CONSUL_NEAR_H

#include "doors/consul/consul_call.h"
#include "doors/consul/consul_node.h"

enum { CONSUL_NEAR_PASSES = 3 };

/* Before the query, on the loop. */
void consul_near_read(struct consul_call *call);
/* Whether what is shown has its turn; always, without ?near=. */
bool consul_near_shows_instance(struct consul_call *call, const struct key_store *keys,
                                const struct registry_instance *instance);
bool consul_near_shows_node(struct consul_call *call, const struct key_store *keys,
                            const struct consul_node *node);
/* The list has been gone through. True: from its beginning, for those that are farther. */
bool consul_near_next_pass(struct consul_call *call);

#endif
