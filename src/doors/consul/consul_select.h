/* Which instances of a service a read gives: ?tag=, ?node-meta=, ?passing, ?near=, ?filter=. */
#ifndef LEASED_DOORS_CONSUL_CONSUL_SELECT_H
#define LEASED_DOORS_CONSUL_CONSUL_SELECT_H

#include "doors/consul/consul_show.h"

/* Whether a node has all pairs of ?node-meta=. */
bool consul_select_node_meta(struct consul_call *call, const struct key_store *keys,
                             struct bytes name);
/* Of lists (consul_list.h) of the service that the path names: the index, and the array of those
 * that are selected. */
void consul_select_index(struct consul_call *call, const struct key_store *keys);
bool consul_select_part(struct consul_call *call, const struct key_store *keys,
                        void (*show)(struct consul_call *call, const struct consul_shown *shown));

#endif
