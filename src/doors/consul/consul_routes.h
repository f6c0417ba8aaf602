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

#endif
