/* What /metrics says of this door. */
#include "doors/consul/consul_metrics.h"

#include "base/prometheus.h"
#include "doors/consul/consul_keys.h"

void consul_metrics_write(const void *opaque, struct buffer *out) {
    const struct consul_door *door = opaque;
    const struct key_store *keys = state_view_keys(service_view(door->service));
    prometheus_gauge(
        out, "leased_consul_sessions", "Sessions of the cluster.",
        key_store_count(keys, KEY_SPACE_CONSUL_RECORDS, bytes_of("s", 1), bytes_of("t", 1)));
    prometheus_gauge(
        out, "leased_consul_locks", "Keys of the cluster that sessions hold.",
        key_store_count(keys, KEY_SPACE_CONSUL_RECORDS, bytes_of("m", 1), bytes_of("n", 1)));
    prometheus_gauge(out, "leased_consul_waiting_queries",
                     "Blocking queries on this member that wait.", door->n_waiting);
    prometheus_counter(out, "leased_consul_woken_queries_total",
                       "Blocking queries on this member that a change has woken.", door->n_woken);
    prometheus_counter(out, "leased_consul_requests_total", "Requests to this member.",
                       door->n_requests);
}
