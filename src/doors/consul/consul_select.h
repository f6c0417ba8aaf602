/* Which instances of a service a read gives: ?tag=, ?node-meta=, ?passing, ?near=, ?filter=. */
#ifndef LEASED_DOORS_CONSUL_CONSUL_SELECT_H
#define LEASED_DOORS_CONSUL_CONSUL_SELECT_H

#include "doors/consul/consul_show.h"

/* Whether the node of an instance has all pairs of ?node-meta=. */
bool consul_select_node_meta(struct consul_call *call, const struct registry_entry *entry);
/* Writes the array of those that are selected, and sets the index. */
void consul_select_show(struct consul_call *call, const struct key_store *keys,
                        struct bytes service,
                        void (*show)(struct consul_call *call, const struct consul_shown *shown));

#endif
