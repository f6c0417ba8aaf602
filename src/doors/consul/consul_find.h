/* Instances and checks found by what Consul's clients name: an id alone (see consul_search.h). */
#ifndef LEASED_DOORS_CONSUL_CONSUL_FIND_H
#define LEASED_DOORS_CONSUL_CONSUL_FIND_H

#include "doors/consul/consul_call.h"
#include "registry/registry_view.h"

/* An instance of an id on a node, of whatever service. */
bool consul_find_instance(struct consul_call *call, const struct key_store *keys, struct bytes node,
                          struct bytes id, struct registry_entry *out_entry);
/* A check of a node: by the service that its id names ("service:ID"), else by looking at all. */
struct consul_found_check {
    struct registry_entry entry; /* whose check it is */
    const struct registry_check *check;
};
bool consul_find_check(struct consul_call *call, const struct key_store *keys, struct bytes node,
                       struct bytes check, struct consul_found_check *out_found);

/* The greatest revision of all services, and of what was deleted. */
void consul_set_registry_index(struct consul_call *call, const struct key_store *keys);
/* That of one service, and, if they are read too, of the checks of nodes. */
void consul_set_service_index(struct consul_call *call, const struct key_store *keys,
                              struct bytes service);
/* The range of all services, for reads and watches. */
void consul_add_registry_range(struct consul_call *call);
void consul_add_service_range(struct consul_call *call, struct bytes service);
/* Beside a service's: the checks of nodes, for those who may read them. */
void consul_add_node_range(struct consul_call *call);

#endif
