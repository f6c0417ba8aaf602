#include "doors/consul/consul_routes.h"

enum {
    BODY_MAX = 1024 * 1024 /* more than any value: what is too large is said in Consul's words */
};
/* Longer than a blocking query may wait, with its jitter. */
#define TIME_MAX_MS ((uint64_t)700 * 1000)

/* Method, path, the right of its caller, handler. Older clients change things with GET, as Consul
 * before 1.0 let them. */
#define ROUTES(X)                                                                                  \
    X("GET", "/v1/kv/{key...}", DOOR_RIGHT_READ, consul_kv_get)                                    \
    X("PUT", "/v1/kv/{key...}", DOOR_RIGHT_WRITE, consul_kv_put)                                   \
    X("DELETE", "/v1/kv/{key...}", DOOR_RIGHT_WRITE, consul_kv_delete)                             \
    X("PUT", "/v1/txn", DOOR_RIGHT_READ_WRITE, consul_txn)                                         \
    X("PUT", "/v1/session/create", DOOR_RIGHT_USER, consul_session_create)                         \
    X("PUT", "/v1/session/destroy/{id...}", DOOR_RIGHT_USER, consul_session_destroy)               \
    X("PUT", "/v1/session/renew/{id...}", DOOR_RIGHT_USER, consul_session_renew)                   \
    X("GET", "/v1/session/info/{id...}", DOOR_RIGHT_USER, consul_session_info)                     \
    X("GET", "/v1/session/node/{node...}", DOOR_RIGHT_USER, consul_session_node)                   \
    X("GET", "/v1/session/list", DOOR_RIGHT_USER, consul_session_list)                             \
    X("GET", "/v1/status/leader", DOOR_RIGHT_USER, consul_status_leader)                           \
    X("GET", "/v1/status/peers", DOOR_RIGHT_USER, consul_status_peers)                             \
    X("GET", "/v1/agent/self", DOOR_RIGHT_USER, consul_agent_self)                                 \
    X("GET", "/v1/agent/members", DOOR_RIGHT_USER, consul_agent_members)                           \
    X("GET", "/v1/agent/metrics", DOOR_RIGHT_USER, consul_agent_metrics)                           \
    X("GET", "/v1/agent/services", DOOR_RIGHT_READ, consul_agent_services)                         \
    X("GET", "/v1/agent/checks", DOOR_RIGHT_READ, consul_agent_checks)                             \
    X("GET", "/v1/agent/service/{id...}", DOOR_RIGHT_READ, consul_agent_service)                   \
    X("PUT", "/v1/agent/service/register", DOOR_RIGHT_WRITE, consul_agent_service_register)        \
    X("PUT", "/v1/agent/service/deregister/{id...}", DOOR_RIGHT_WRITE,                             \
      consul_agent_service_deregister)                                                             \
    X("PUT", "/v1/agent/service/maintenance/{id...}", DOOR_RIGHT_WRITE,                            \
      consul_agent_service_maintenance)                                                            \
    X("GET", "/v1/agent/health/service/name/{service...}", DOOR_RIGHT_READ,                        \
      consul_agent_health_name)                                                                    \
    X("GET", "/v1/agent/health/service/id/{id...}", DOOR_RIGHT_READ, consul_agent_health_id)       \
    X("PUT", "/v1/agent/check/register", DOOR_RIGHT_WRITE, consul_agent_check_register)            \
    X("PUT", "/v1/agent/check/deregister/{check...}", DOOR_RIGHT_WRITE,                            \
      consul_agent_check_deregister)                                                               \
    X("PUT", "/v1/agent/check/pass/{check...}", DOOR_RIGHT_WRITE, consul_agent_check_pass)         \
    X("PUT", "/v1/agent/check/warn/{check...}", DOOR_RIGHT_WRITE, consul_agent_check_warn)         \
    X("PUT", "/v1/agent/check/fail/{check...}", DOOR_RIGHT_WRITE, consul_agent_check_fail)         \
    X("PUT", "/v1/agent/check/update/{check...}", DOOR_RIGHT_WRITE, consul_agent_check_update)     \
    X("PUT", "/v1/agent/maintenance", DOOR_RIGHT_WRITE, consul_agent_maintenance)                  \
    X("PUT", "/v1/agent/join/{address...}", DOOR_RIGHT_USER, consul_agent_join)                    \
    X("PUT", "/v1/agent/force-leave/{node...}", DOOR_RIGHT_USER, consul_agent_force_leave)         \
    X("PUT", "/v1/agent/leave", DOOR_RIGHT_USER, consul_refused)                                   \
    X("PUT", "/v1/agent/reload", DOOR_RIGHT_USER, consul_refused)                                  \
    X("PUT", "/v1/catalog/register", DOOR_RIGHT_WRITE, consul_catalog_register)                    \
    X("PUT", "/v1/catalog/deregister", DOOR_RIGHT_WRITE, consul_catalog_deregister)                \
    X("GET", "/v1/catalog/datacenters", DOOR_RIGHT_USER, consul_catalog_datacenters)               \
    X("GET", "/v1/catalog/nodes", DOOR_RIGHT_READ, consul_catalog_nodes)                           \
    X("GET", "/v1/catalog/services", DOOR_RIGHT_READ, consul_catalog_services)                     \
    X("GET", "/v1/catalog/service/{service...}", DOOR_RIGHT_READ, consul_catalog_service)          \
    X("GET", "/v1/catalog/node/{node...}", DOOR_RIGHT_READ, consul_catalog_node)                   \
    X("GET", "/v1/catalog/node-services/{node...}", DOOR_RIGHT_READ, consul_catalog_node_services) \
    X("GET", "/v1/health/service/{service...}", DOOR_RIGHT_READ, consul_health_service)            \
    X("GET", "/v1/health/checks/{service...}", DOOR_RIGHT_READ, consul_health_checks)              \
    X("GET", "/v1/health/node/{node...}", DOOR_RIGHT_READ, consul_health_node)                     \
    X("GET", "/v1/health/state/{state...}", DOOR_RIGHT_READ, consul_health_state)                  \
    X("PUT", "/v1/event/fire/{name...}", DOOR_RIGHT_USER, consul_event_fire)                       \
    X("GET", "/v1/event/list", DOOR_RIGHT_USER, consul_event_list)                                 \
    X("GET", "/v1/coordinate/datacenters", DOOR_RIGHT_USER, consul_coordinate_datacenters)         \
    X("GET", "/v1/coordinate/nodes", DOOR_RIGHT_USER, consul_empty_list)                           \
    X("GET", "/v1/coordinate/node/{node...}", DOOR_RIGHT_USER, consul_empty_list)                  \
    X("PUT", "/v1/coordinate/update", DOOR_RIGHT_USER, consul_refused)                             \
    X("GET", "/v1/operator/raft/configuration", DOOR_RIGHT_USER, consul_raft_configuration)        \
    X("GET", "/v1/agent/connect/ca/roots", DOOR_RIGHT_USER, consul_connect_roots)                  \
    X("DELETE", "/v1/operator/raft/peer", DOOR_RIGHT_USER, consul_raft_peer)                       \
    X("GET", "/v1/connect/{rest...}", DOOR_RIGHT_USER, consul_connect_disabled)                    \
    X("GET", "/v1/agent/connect/{rest...}", DOOR_RIGHT_USER, consul_connect_disabled)              \
    X("GET", "/v1/catalog/connect/{service...}", DOOR_RIGHT_USER, consul_connect_disabled)         \
    X("GET", "/v1/health/connect/{service...}", DOOR_RIGHT_USER, consul_connect_disabled)          \
    X("GET", "/v1/config/{rest...}", DOOR_RIGHT_USER, consul_refused)                              \
    X("PUT", "/v1/config", DOOR_RIGHT_USER, consul_refused)                                        \
    X("GET", "/v1/peerings", DOOR_RIGHT_USER, consul_refused)                                      \
    X("GET", "/v1/snapshot", DOOR_RIGHT_USER, consul_refused)                                      \
    X("GET", "/v1/query", DOOR_RIGHT_USER, consul_empty_list)                                      \
    X("POST", "/v1/query", DOOR_RIGHT_USER, consul_refused)                                        \
    X("GET", "/v1/acl/token/self", DOOR_RIGHT_USER, consul_acl_disabled)                           \
    X("GET", "/v1/acl/tokens", DOOR_RIGHT_USER, consul_acl_disabled)                               \
    X("GET", "/v1/acl/policies", DOOR_RIGHT_USER, consul_acl_disabled)                             \
    X("PUT", "/v1/acl/bootstrap", DOOR_RIGHT_USER, consul_acl_disabled)                            \
    X("GET", "/v1/agent/service/deregister/{id...}", DOOR_RIGHT_WRITE,                             \
      consul_agent_service_deregister)                                                             \
    X("GET", "/v1/agent/check/deregister/{check...}", DOOR_RIGHT_WRITE,                            \
      consul_agent_check_deregister)                                                               \
    X("GET", "/v1/agent/check/pass/{check...}", DOOR_RIGHT_WRITE, consul_agent_check_pass)         \
    X("GET", "/v1/agent/check/warn/{check...}", DOOR_RIGHT_WRITE, consul_agent_check_warn)         \
    X("GET", "/v1/agent/check/fail/{check...}", DOOR_RIGHT_WRITE, consul_agent_check_fail)         \
    X("GET", "/v1/agent/join/{address...}", DOOR_RIGHT_USER, consul_agent_join)                    \
    X("GET", "/v1/agent/force-leave/{node...}", DOOR_RIGHT_USER, consul_agent_force_leave)         \
    X("GET", "/v1/query/{id...}", DOOR_RIGHT_USER, consul_refused)                                 \
    X("GET", "/v1/acl/list", DOOR_RIGHT_USER, consul_acl_disabled)                                 \
    X("GET", "/v1/acl/info/{id...}", DOOR_RIGHT_USER, consul_acl_disabled)                         \
    X("PUT", "/v1/acl/create", DOOR_RIGHT_USER, consul_acl_disabled)                               \
    X("PUT", "/v1/acl/login", DOOR_RIGHT_USER, consul_acl_disabled)

#define ROUTE(verb, path, right, handler)                                                          \
    {.route = {.method = verb,                                                                     \
               .pattern = path,                                                                    \
               .body_max = BODY_MAX,                                                               \
               .time_max_ms = TIME_MAX_MS,                                                         \
               .takes_query_token = true,                                                          \
               .on_body = consul_call_on_body,                                                     \
               .on_writable = consul_call_on_writable,                                             \
               .on_close = consul_call_on_close,                                                   \
               .on_input_end = consul_call_on_input_end,                                           \
               .on_refused = consul_call_on_refused},                                              \
     .handle = handler},
#define REQUEST(verb, path, right, handler) {verb " " path, right},

static const struct consul_route routes[] = {ROUTES(ROUTE)};
const struct door_request consul_request_table[] = {ROUTES(REQUEST){NULL, DOOR_RIGHT_NONE}};

const struct consul_route *consul_route_of(const struct http_exchange *exchange) {
    return (const struct consul_route *)(const void *)http_route_of(exchange);
}

void consul_routes_add(struct net_scope *scope, struct consul_door *door) {
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        net_scope_add_routes(scope, &routes[i].route, 1, door);
    }
}
