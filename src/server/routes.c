#include "server/routes.h"

#include "base/prometheus.h"
#include "build_info.h"
#include "doors/etcd/etcd_door.h"
#include "net/http.h"

#include <stdio.h>
#include <string.h>

enum { STATUS_200 = 200, STATUS_503 = 503 };

#define JSON "application/json"
#define TEXT "text/plain; charset=utf-8"

static const char *unhealthy_reason(struct service *service) {
    struct service_info info;
    const struct state_view *state = service_view(service);
    service_info(service, &info);
    /* A leader that has not applied an entry of its own term yet does not serve. */
    if (info.leader_id == 0 ||
        (info.leader_id == info.member_id && !lease_table_is_leading(state_view_leases(state)))) {
        return "RAFT NO LEADER";
    }
    struct alarm_entry alarms[STATE_MACHINE_ALARMS_MAX];
    if (state_view_alarms(state, alarms) > 0) {
        return alarms[0].alarm == ALARM_CORRUPT ? "ALARM CORRUPT" : "ALARM NOSPACE";
    }
    return NULL;
}

static unsigned status_of(const char *reason) {
    return reason == NULL ? STATUS_200 : STATUS_503;
}

static void serve_health(struct http_exchange *exchange) {
    const struct metrics_sources *sources = http_context(exchange);
    const char *reason = unhealthy_reason(sources->service);
    char text[128];
    snprintf(text, sizeof text, "{\"health\":\"%s\",\"reason\":\"%s\"}",
             reason == NULL ? "true" : "false", reason == NULL ? "" : reason);
    http_reply(exchange, status_of(reason), JSON, bytes_from_text(text));
}

/* The process lives as long as it answers. */
static void serve_livez(struct http_exchange *exchange) {
    http_reply(exchange, STATUS_200, TEXT, bytes_from_text("ok\n"));
}

static void serve_readyz(struct http_exchange *exchange) {
    const struct metrics_sources *sources = http_context(exchange);
    const char *reason = unhealthy_reason(sources->service);
    char text[128];
    snprintf(text, sizeof text, "%s\n", reason == NULL ? "ok" : reason);
    http_reply(exchange, status_of(reason), TEXT, bytes_from_text(text));
}

static void serve_version(struct http_exchange *exchange) {
    http_reply(exchange, STATUS_200, JSON,
               bytes_from_text("{\"etcdserver\":\"" ETCD_VERSION "\",\"etcdcluster\":\"3.5.0\","
                               "\"leased\":\"" LEASED_VERSION "\"}"));
}

static void serve_metrics(struct http_exchange *exchange) {
    struct buffer body;
    buffer_init(&body);
    metrics_write(http_context(exchange), &body);
    http_reply(exchange, STATUS_200, PROMETHEUS_CONTENT_TYPE, bytes_of(body.data, body.size));
    buffer_clear(&body);
}

enum { VERSION_BODY_MAX = 4096 };

static const struct http_route routes[] = {
    {.method = "GET", .pattern = "/health", .is_public = true, .on_request = serve_health},
    {.method = "GET", .pattern = "/livez", .is_public = true, .on_request = serve_livez},
    {.method = "GET", .pattern = "/readyz", .is_public = true, .on_request = serve_readyz},
    /* Patroni sends "{}" with its GET. */
    {.method = "GET",
     .pattern = "/version",
     .body_max = VERSION_BODY_MAX,
     .on_request = serve_version},
    {.method = "GET", .pattern = "/metrics", .on_request = serve_metrics},
};

const struct door_request routes_requests[] = {
    {"GET /health", DOOR_RIGHT_NONE},  {"GET /livez", DOOR_RIGHT_NONE},
    {"GET /readyz", DOOR_RIGHT_NONE},  {"GET /version", DOOR_RIGHT_USER},
    {"GET /metrics", DOOR_RIGHT_USER}, {NULL, DOOR_RIGHT_NONE},
};
_Static_assert(sizeof routes_requests / sizeof routes_requests[0] ==
                   sizeof routes / sizeof routes[0] + 1,
               "every route is listed with its right");

void routes_register(struct metrics_sources *sources, struct net_server *server) {
    net_server_add_routes(server, routes, sizeof routes / sizeof routes[0], sources);
}
