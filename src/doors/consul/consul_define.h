/*
 * Definitions of services and checks, as clients send them, made into those of the registry. What
 * the registry does not model goes into `extra` of the instance as JSON. Texts point into the JSON.
 */
#ifndef LEASED_DOORS_CONSUL_CONSUL_DEFINE_H
#define LEASED_DOORS_CONSUL_CONSUL_DEFINE_H

#include "doors/consul/consul_call.h"
#include "registry/registry_rules.h"

/* The node that a service is put on. */
struct consul_place {
    struct bytes node;
    struct bytes address;
    struct bytes id;      /* of the node, a UUID; may be empty */
    const json_t *meta;   /* NULL: none */
    const json_t *tagged; /* addresses by name; NULL: none */
};

/* Of /v1/agent/service/register, and of "Service" of /v1/catalog/register. False: it was answered.
 */
bool consul_define_service(struct consul_call *call, const json_t *body,
                           const struct consul_place *place, struct registry_instance *out);
/* "Check" and "Checks" of a service, in arena memory. */
bool consul_define_service_checks(struct consul_call *call, const json_t *body,
                                  const struct registry_instance *instance,
                                  struct registry_check **out_checks, size_t *out_n);
/* One check; `fallback_id` and `fallback_name` when it has none. */
bool consul_define_check(struct consul_call *call, const json_t *body, struct bytes fallback_id,
                         struct bytes fallback_name, struct registry_check *out);
/* A check of the catalog: it has a state and nobody who runs it. What it says that others run is
 * kept as its definition. */
bool consul_define_catalog_check(struct consul_call *call, const json_t *body,
                                 struct registry_check *out);
/* The hidden instance that a node is. False: it was answered. */
bool consul_define_node(struct consul_call *call, const struct consul_place *place,
                        struct registry_instance *out);
/* Where services are that are registered at the agent: the client's machine. */
struct consul_place consul_agent_place(struct consul_call *call);

#endif
