/* What /metrics says of this door. */
#include "base/prometheus.h"
#include "doors/xds/xds_state.h"

void xds_metrics_write(const struct xds_door *door, struct buffer *out) {
    const struct xds_stats *stats = &door->stats;
    prometheus_gauge(out, "leased_xds_streams", "Open xDS streams on this member.", stats->streams);
    prometheus_gauge(out, "leased_xds_subscriptions",
                     "Resources that the streams on this member are subscribed to.",
                     stats->subscriptions);
    prometheus_counter(out, "leased_xds_requests_total", "Requests on streams.", stats->requests);
    prometheus_counter(out, "leased_xds_responses_total", "Responses on streams.",
                       stats->responses);
    prometheus_counter(out, "leased_xds_resources_total", "Resources in those responses.",
                       stats->resources);
    prometheus_counter(out, "leased_xds_acknowledged_total", "Responses that clients accepted.",
                       stats->acknowledged);
    prometheus_counter(out, "leased_xds_refused_total",
                       "Responses that clients refused; the log says why.", stats->refused);
    prometheus_counter(out, "leased_xds_ignored_total",
                       "Requests about an older response, or for a type that is not served.",
                       stats->ignored);
    prometheus_counter(out, "leased_xds_fetches_total",
                       "Requests without a stream: Fetch methods and REST.", stats->fetches);
    prometheus_counter(out, "leased_xds_not_modified_total",
                       "REST requests that were told nothing new.", stats->not_modified);
    prometheus_gauge(out, "leased_xds_waiting", "REST requests that wait for a change.",
                     stats->waiting);
    prometheus_counter(out, "leased_xds_encoded_total",
                       "Endpoints of services that were made from the registry.", stats->encoded);
    prometheus_counter(out, "leased_xds_left_out_total",
                       "Instances left out of them: without an IP address or a port, or with "
                       "those of another instance.",
                       stats->left_out);
}
