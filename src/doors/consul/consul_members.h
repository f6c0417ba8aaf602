/* The members of the cluster, as Consul's servers are shown. */
#ifndef LEASED_DOORS_CONSUL_CONSUL_MEMBERS_H
#define LEASED_DOORS_CONSUL_CONSUL_MEMBERS_H

#include "doors/consul/consul_door_internal.h"
#include "doors/consul/consul_json.h"

enum { CONSUL_MEMBERS_MAX = 64, CONSUL_ADDRESS_SIZE = 128 };

/* Returns how many. */
size_t consul_members(struct consul_door *door, struct service_member out[CONSUL_MEMBERS_MAX]);
/* "10.0.0.1:2380", of its first peer URL. Gives `out`. */
const char *consul_member_address(const struct service_member *member,
                                  char out[CONSUL_ADDRESS_SIZE]);

/* Its id as a UUID, a member of an object. */
void consul_member_show_id(struct consul_json *json, const char *name,
                           const struct service_member *member);

#endif
