#include "server/routes.h"

#include "base/prometheus.h"
#include "build_info.h"
#include "core/service_monitor.h"
#include "doors/etcd/etcd_door.h"
#include "net/http.h"
#include "server/health.h"
#include "server/process_stats.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

enum { STATUS_200 = 200, STATUS_503 = 503 };

#define JSON "application/json"

static void serve_version(struct http_exchange *exchange) {
    http_reply(exchange, STATUS_200, JSON,
               bytes_from_text("{\"etcdserver\":\"" ETCD_VERSION "\",\"etcdcluster\":\"3.5.0\","
                               "\"leased\":\"" LEASED_VERSION "\"}"));
}

static void serve_metrics(struct http_exchange *exchange) {
    struct metrics_sources *sources = http_context(exchange);
    struct metrics_text *kept = &sources->text;
    if (!http_has_spare_room(exchange)) {
        http_reply(exchange, STATUS_503, "text/plain; charset=utf-8",
                   bytes_from_text("too many answers wait for clients to read them: try again\n"));
        return;
    }
    uint64_t begun_ns = uv_hrtime();
    if (metrics_text_is_due(kept, begun_ns)) {
        metrics_write(sources, &kept->text);
        metrics_text_written(kept, uv_hrtime() - begun_ns);
    }
    http_reply(exchange, STATUS_200, PROMETHEUS_CONTENT_TYPE,
               bytes_of(kept->text.data, kept->text.size));
}

/* The variables that etcd shows there and that exist here; the command line is not told. */
static void serve_variables(struct http_exchange *exchange) {
    const struct metrics_sources *sources = http_context(exchange);
    struct service_info info;
    struct service_monitor monitor;
    struct process_stats process;
    service_info(sources->service, &info);
    service_monitor(sources->service, &monitor);
    process_stats_read(&process);
    char text[1024];
    snprintf(text, sizeof text,
             "{\n\"cmdline\": [\"leased\"],\n\"file_descriptor_limit\": %" PRIu64
             ",\n\"memstats\": {\"Sys\":%" PRIu64 ",\"HeapAlloc\":%" PRIu64
             "},\n\"raft.status\": {\"id\":\"%" PRIx64 "\",\"term\":%" PRIu64 ",\"commit\":%" PRIu64
             ",\"lead\":\"%" PRIx64 "\",\"raftState\":\"%s\",\"applied\":%" PRIu64 "}\n}\n",
             (uint64_t)process.max_fds, (uint64_t)process.virtual_bytes,
             (uint64_t)process.resident_bytes, info.member_id, info.term, monitor.commit_index,
             info.leader_id,
             info.leader_id == 0                ? "StateCandidate"
             : info.leader_id == info.member_id ? "StateLeader"
                                                : "StateFollower",
             info.applied_index);
    http_reply(exchange, STATUS_200, JSON, bytes_from_text(text));
}

enum { VERSION_BODY_MAX = 4096 };

static const struct http_route routes[] = {
    {.method = "GET",
     .pattern = "/health",
     .is_public = true,
     .on_request = health_serve,
     .on_close = health_on_close},
    {.method = "GET", .pattern = "/livez", .is_public = true, .on_request = health_serve_livez},
    {.method = "GET",
     .pattern = "/livez/{check}",
     .is_public = true,
     .on_request = health_serve_livez},
    {.method = "GET",
     .pattern = "/readyz",
     .is_public = true,
     .on_request = health_serve_readyz,
     .on_close = health_on_close},
    {.method = "GET",
     .pattern = "/readyz/{check}",
     .is_public = true,
     .on_request = health_serve_readyz,
     .on_close = health_on_close},
    {.method = "GET", .pattern = "/debug/vars", .on_request = serve_variables},
    /* Patroni sends "{}" with its GET. */
    {.method = "GET",
     .pattern = "/version",
     .body_max = VERSION_BODY_MAX,
     .on_request = serve_version},
    {.method = "GET", .pattern = "/metrics", .on_request = serve_metrics},
};

const struct door_request routes_requests[] = {
    {"GET /health", DOOR_RIGHT_NONE},
    {"GET /livez", DOOR_RIGHT_NONE},
    {"GET /livez/{check}", DOOR_RIGHT_NONE},
    {"GET /readyz", DOOR_RIGHT_NONE},
    {"GET /readyz/{check}", DOOR_RIGHT_NONE},
    {"GET /version", DOOR_RIGHT_USER},
    {"GET /metrics", DOOR_RIGHT_USER},
    {"GET /debug/vars", DOOR_RIGHT_USER},
    {NULL, DOOR_RIGHT_NONE},
};
_Static_assert(sizeof routes_requests / sizeof routes_requests[0] ==
                   sizeof routes / sizeof routes[0] + 1,
               "every route is listed with its right");

void routes_register(struct metrics_sources *sources, struct net_server *server) {
    net_server_add_routes(server, routes, sizeof routes / sizeof routes[0], sources);
}
