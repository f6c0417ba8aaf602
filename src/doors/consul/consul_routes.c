#include "doors/consul/consul_routes.h"

enum {
    BODY_MAX = 1024 * 1024 /* more than any value: what is too large is said in Consul's words */
};
/* Longer than a blocking query may wait, with its jitter. */
#define TIME_MAX_MS ((uint64_t)700 * 1000)

/* Method, path, the right of its caller, handler. */
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
    X("GET", "/v1/status/peers", DOOR_RIGHT_USER, consul_status_peers)

#define ROUTE(verb, path, right, handler)                                                          \
    {.route = {.method = verb,                                                                     \
               .pattern = path,                                                                    \
               .body_max = BODY_MAX,                                                               \
               .time_max_ms = TIME_MAX_MS,                                                         \
               .on_body = consul_call_on_body,                                                     \
               .on_close = consul_call_on_close,                                                   \
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
