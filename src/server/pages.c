#include "server/pages.h"

#include "base/prometheus.h"
#include "build_info.h"
#include "doors/etcd/etcd_door.h"

#include <stdio.h>
#include <string.h>

enum { HTTP_OK = 200, HTTP_UNAVAILABLE = 503 };

static void append_text(struct buffer *body, const char *text) {
    buffer_append(body, text, strlen(text));
}

const char *pages_unhealthy_reason(struct service *service) {
    struct service_info info;
    const struct state_view *state = service_view(service);
    service_info(service, &info);
    /* A leader that has not applied an entry of its own term yet serves nobody. */
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

static unsigned serve_health(void *context, struct buffer *body, const char **out_content_type) {
    const struct metrics_sources *sources = context;
    const char *reason = pages_unhealthy_reason(sources->service);
    char text[128];
    snprintf(text, sizeof text, "{\"health\":\"%s\",\"reason\":\"%s\"}",
             reason == NULL ? "true" : "false", reason == NULL ? "" : reason);
    append_text(body, text);
    *out_content_type = "application/json";
    return reason == NULL ? HTTP_OK : HTTP_UNAVAILABLE;
}

/* The process lives as long as it answers. */
static unsigned serve_livez(void *context, struct buffer *body, const char **out_content_type) {
    (void)context;
    append_text(body, "ok\n");
    *out_content_type = "text/plain; charset=utf-8";
    return HTTP_OK;
}

static unsigned serve_readyz(void *context, struct buffer *body, const char **out_content_type) {
    const struct metrics_sources *sources = context;
    const char *reason = pages_unhealthy_reason(sources->service);
    append_text(body, reason == NULL ? "ok" : reason);
    append_text(body, "\n");
    *out_content_type = "text/plain; charset=utf-8";
    return reason == NULL ? HTTP_OK : HTTP_UNAVAILABLE;
}

static unsigned serve_version(void *context, struct buffer *body, const char **out_content_type) {
    (void)context;
    append_text(body, "{\"etcdserver\":\"" ETCD_VERSION "\",\"etcdcluster\":\"3.5.0\","
                      "\"leased\":\"" LEASED_VERSION "\"}");
    *out_content_type = "application/json";
    return HTTP_OK;
}

static unsigned serve_metrics(void *context, struct buffer *body, const char **out_content_type) {
    metrics_write(context, body);
    *out_content_type = PROMETHEUS_CONTENT_TYPE;
    return HTTP_OK;
}

void pages_register(struct metrics_sources *sources, struct net_server *server) {
    net_server_add_page(server, "/health", serve_health, sources);
    net_server_add_page(server, "/livez", serve_livez, sources);
    net_server_add_page(server, "/readyz", serve_readyz, sources);
    net_server_add_page(server, "/version", serve_version, sources);
    net_server_add_page(server, "/metrics", serve_metrics, sources);
}
