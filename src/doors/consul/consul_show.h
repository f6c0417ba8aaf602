/*
 * Instances of the registry in Consul's words: services, checks. Instances that other protocols
 * registered are shown in the same way.
 */
#ifndef LEASED_DOORS_CONSUL_CONSUL_SHOW_H
#define LEASED_DOORS_CONSUL_CONSUL_SHOW_H

#include "doors/consul/consul_node.h"

/* An instance and what Consul alone knows of it. */
struct consul_shown {
    const struct registry_entry *entry;
    json_t *extra; /* NULL: none */
    struct consul_node node;
    struct bytes address;        /* of the service; may be empty */
    enum registry_health health; /* worst of its own, its node's and its state's */
};
/* To be cleared. Scratch memory of the call. */
void consul_shown_init(struct consul_shown *shown, struct consul_call *call,
                       const struct key_store *keys, const struct registry_entry *entry);
void consul_shown_clear(struct consul_shown *shown);

/* Objects. */
void consul_show_service(struct consul_call *call, const struct consul_shown *shown);
void consul_show_agent_service(struct consul_call *call, const struct consul_shown *shown);
void consul_show_catalog_service(struct consul_call *call, const struct consul_shown *shown);
void consul_show_check(struct consul_call *call, struct bytes node,
                       const struct registry_instance *instance,
                       const struct registry_check *check);
/* As transactions show it: lists that are empty are null. */
void consul_show_check_record(struct consul_call *call, struct bytes node,
                              const struct registry_instance *instance,
                              const struct registry_check *check);
/* The array of all that concern an instance, the node's among them. */
void consul_show_checks(struct consul_call *call, const struct consul_shown *shown);
/* Those that the server itself adds for an instance that should get no work, or has lost its lease;
 * returns how many were written. */
size_t consul_show_state_checks(struct consul_call *call, const struct consul_shown *shown);
/* The check of the node itself. */
void consul_show_serf(struct consul_call *call, struct bytes node);
/* The service that Consul's servers themselves are, of the one node that there always is. */
struct registry_entry consul_own_service(void);

const char *consul_health_text(enum registry_health health);
bool consul_health_read(struct bytes text, enum registry_health *out_health);
/* "ttl", "http", … */
const char *consul_check_type(const struct registry_check *check);

#endif
