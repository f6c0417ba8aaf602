/* The routes: path, right, handler, in one list. */
#ifndef LEASED_DOORS_CONSUL_CONSUL_ROUTES_H
#define LEASED_DOORS_CONSUL_CONSUL_ROUTES_H

#include "doors/consul/consul_call.h"

struct consul_route {
    struct http_route route; /* first: a route is found again by its address */
    void (*handle)(struct consul_call *call, struct bytes body);
};

const struct consul_route *consul_route_of(const struct http_exchange *exchange);
void consul_routes_add(struct net_scope *scope, struct consul_door *door);
extern const struct door_request consul_request_table[];

/* --- Handlers. --- */

typedef void consul_handler(struct consul_call *call, struct bytes body);
consul_handler consul_kv_get, consul_kv_put, consul_kv_delete, consul_txn;
consul_handler consul_session_create, consul_session_destroy, consul_session_renew;
consul_handler consul_session_info, consul_session_node, consul_session_list;
consul_handler consul_status_leader, consul_status_peers;
consul_handler consul_acl_disabled;
consul_handler consul_agent_check_deregister;
consul_handler consul_agent_check_fail;
consul_handler consul_agent_check_pass;
consul_handler consul_agent_check_register;
consul_handler consul_agent_check_update;
consul_handler consul_agent_check_warn;
consul_handler consul_agent_checks;
consul_handler consul_agent_force_leave;
consul_handler consul_agent_health_id;
consul_handler consul_agent_health_name;
consul_handler consul_agent_join;
consul_handler consul_agent_maintenance;
consul_handler consul_agent_members;
consul_handler consul_agent_metrics;
consul_handler consul_agent_self;
consul_handler consul_agent_service;
consul_handler consul_agent_service_deregister;
consul_handler consul_agent_service_maintenance;
consul_handler consul_agent_service_register;
consul_handler consul_agent_services;
consul_handler consul_catalog_datacenters;
consul_handler consul_catalog_deregister;
consul_handler consul_catalog_node;
consul_handler consul_catalog_node_services;
consul_handler consul_catalog_nodes;
consul_handler consul_catalog_register;
consul_handler consul_catalog_service;
consul_handler consul_catalog_services;
consul_handler consul_connect_disabled;
consul_handler consul_connect_roots;
consul_handler consul_coordinate_datacenters;
consul_handler consul_empty_list;
consul_handler consul_event_fire;
consul_handler consul_event_list;
consul_handler consul_health_checks;
consul_handler consul_health_node;
consul_handler consul_health_service;
consul_handler consul_health_state;
consul_handler consul_raft_configuration;
consul_handler consul_raft_peer;
consul_handler consul_refused;

/* --- What they share. --- */

struct consul_batch;
struct consul_place;
struct registry_check;
struct registry_instance;
/* The value of ?enable=. False: there is none, which was answered. */
bool consul_read_enable(struct consul_call *call, bool *out_enable);
/* The service of the instance that an alias check names. */
void consul_resolve_alias(struct consul_call *call, const struct key_store *keys,
                          struct registry_check *check);
/* An id is unique on a node: an instance of the same under another name goes. */
void consul_batch_end_stale(struct consul_call *call, const struct key_store *keys,
                            struct consul_batch *batch, const struct registry_instance *mine);
/* The instance that carries a node's own checks. */
void consul_batch_node(struct consul_call *call, struct consul_batch *batch,
                       const struct consul_place *place);

#endif
