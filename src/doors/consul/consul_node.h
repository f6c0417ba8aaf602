/*
 * Nodes: the one that all members are to Consul's clients, and those that clients registered by the
 * catalog. The latter are hidden instances: their service is CONSUL_NODE_SERVICE, their id the name
 * of the node; they are out of service, so nobody is given them. They carry the checks of the node,
 * also of the one that all members are.
 *
 * To Consul an id of a service is unique on its node, to the registry within its service. So on
 * other nodes than the members' own the registry's id is "ID@NODE".
 */
#ifndef LEASED_DOORS_CONSUL_CONSUL_NODE_H
#define LEASED_DOORS_CONSUL_CONSUL_NODE_H

#include "doors/consul/consul_call.h"
#include "registry/registry_view.h"

#define CONSUL_NODE_SERVICE "_node"

struct consul_node {
    struct bytes name;
    struct bytes id;                    /* a UUID; empty: it has none */
    struct bytes address;               /* may be empty */
    bool is_own;                        /* the one that all members are */
    json_t *extra;                      /* what was registered beside; NULL: nothing */
    const struct registry_entry *entry; /* with its checks; NULL: there is none */
};
/* To be cleared. Scratch memory of the call. */
void consul_node_init(struct consul_node *node, struct consul_call *call,
                      const struct key_store *keys, struct bytes name);
void consul_node_clear(struct consul_node *node);

/* The object. */
void consul_node_show(struct consul_call *call, const struct consul_node *node);
/* Members of an object: addresses by name, pairs. */
void consul_node_show_addresses(struct consul_call *call, const struct consul_node *node);
void consul_node_show_meta(struct consul_call *call, const struct consul_node *node,
                           const char *name);
/* Its Meta `zone`; empty: it has none. Lives as long as the node. */
struct bytes consul_node_zone(const struct consul_call *call, const struct consul_node *node);
/* Whether it has all pairs of ?node-meta=. */
bool consul_node_is_asked_for(struct consul_call *call, const struct consul_node *node);

/* --- Names. --- */

bool consul_node_is_own(const struct consul_call *call, struct bytes name);
/* That of the one that all members are, a UUID. In arena memory. On the loop for the first time;
 * then it is known. */
struct bytes consul_node_own_id(struct consul_call *call);
/* The pairs of --consul-node-meta ("key:value,key:value"), a new object; NULL: it is no such list.
 */
json_t *consul_node_read_meta(const char *text);
struct bytes consul_instance_node(const struct consul_call *call,
                                  const struct registry_instance *instance);
/* Of the node that services registered at the agent belong to. In arena memory. On the loop for the
 * first time; then it is known. */
struct bytes consul_node_address(struct consul_call *call);
/* Of a service, as its clients know it, and as the registry does. In arena memory. */
struct bytes consul_service_id(const struct consul_call *call,
                               const struct registry_instance *instance);
struct bytes consul_registry_id(struct consul_call *call, struct bytes node, struct bytes id);

#endif
