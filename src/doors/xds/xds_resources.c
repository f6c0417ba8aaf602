#include "doors/xds/xds_resources.h"

#include <assert.h>

/* How long a client may take to connect to an endpoint. */
enum { CONNECT_SECONDS = 5 };
/* Of enums. */
enum { DISCOVERY_EDS = 3, API_VERSION_V3 = 2 };

/* Where the other resource comes from: the stream that this one came on. */
static void write_source(struct xds_writer *writer, uint32_t field, const char *name) {
    size_t source = xds_begin(writer, field, name);
    xds_end(writer, xds_begin(writer, 3, "ads"));
    xds_put_enum(writer, 6, "resource_api_version", API_VERSION_V3, "V3");
    xds_end(writer, source);
}

/* Envoy's panic mode, in which unhealthy endpoints get requests after all, is off: what is not
 * serving must not be chosen, and the registry has a guard of its own. */
static void write_cluster(struct xds_writer *writer, struct bytes name) {
    xds_put_text(writer, 1, "name", name);
    xds_put_enum(writer, 2, "type", DISCOVERY_EDS, "EDS");
    size_t eds = xds_begin(writer, 3, "eds_cluster_config");
    write_source(writer, 1, "eds_config");
    xds_put_text(writer, 2, "service_name", name);
    xds_end(writer, eds);
    xds_put_seconds(writer, 4, "connect_timeout", CONNECT_SECONDS);
    size_t balancing = xds_begin(writer, 27, "common_lb_config");
    xds_end(writer, xds_begin(writer, 1, "healthy_panic_threshold"));
    xds_end(writer, balancing);
}

static void write_router(struct xds_writer *writer) {
    xds_array(writer, "http_filters");
    size_t filter = xds_begin(writer, 5, NULL);
    xds_put_text(writer, 1, "name", bytes_from_text("envoy.filters.http.router"));
    struct xds_any config =
        xds_any(writer, 4, "typed_config",
                "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router");
    xds_any_end(writer, &config);
    xds_end(writer, filter);
    xds_array_end(writer);
}

static void write_listener(struct xds_writer *writer, struct bytes name) {
    xds_put_text(writer, 1, "name", name);
    size_t listener = xds_begin(writer, 19, "api_listener");
    struct xds_any manager =
        xds_any(writer, 1, "api_listener",
                "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3."
                "HttpConnectionManager");
    xds_put_text(writer, 2, "stat_prefix", name);
    size_t rds = xds_begin(writer, 3, "rds");
    write_source(writer, 1, "config_source");
    xds_put_text(writer, 2, "route_config_name", name);
    xds_end(writer, rds);
    write_router(writer);
    xds_any_end(writer, &manager);
    xds_end(writer, listener);
}

/* Whatever the authority and the path: to the cluster of the service. */
static void write_route(struct xds_writer *writer, struct bytes name) {
    xds_put_text(writer, 1, "name", name);
    xds_array(writer, "virtual_hosts");
    size_t host = xds_begin(writer, 2, NULL);
    xds_put_text(writer, 1, "name", name);
    xds_array(writer, "domains");
    xds_put_element(writer, 2, bytes_from_text("*"));
    xds_array_end(writer);
    xds_array(writer, "routes");
    size_t route = xds_begin(writer, 3, NULL);
    size_t match = xds_begin(writer, 1, "match");
    xds_put_text(writer, 1, "prefix", bytes_from_text("/"));
    xds_end(writer, match);
    size_t action = xds_begin(writer, 2, "route");
    xds_put_text(writer, 1, "cluster", name);
    xds_end(writer, action);
    xds_end(writer, route);
    xds_array_end(writer);
    xds_end(writer, host);
    xds_array_end(writer);
}

void xds_resource_write(struct xds_writer *writer, enum xds_type type, struct bytes name) {
    switch (type) {
    case XDS_CLUSTERS:
        write_cluster(writer, name);
        break;
    case XDS_LISTENERS:
        write_listener(writer, name);
        break;
    case XDS_ROUTES:
        write_route(writer, name);
        break;
    default:
        assert(false);
    }
}
