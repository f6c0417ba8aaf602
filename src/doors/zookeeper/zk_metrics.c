#include "base/prometheus.h"
#include "doors/zookeeper/zk_connection.h"

void zk_metrics_write(const struct zk_door *door, struct buffer *out) {
    const struct zk_counters *counters = &door->counters;
    prometheus_gauge(out, "leased_zookeeper_connections", "Connections of ZooKeeper clients.",
                     door->n_connections);
    prometheus_gauge(out, "leased_zookeeper_sessions", "Sessions with a connection here.",
                     door->sessions.n);
    prometheus_gauge(out, "leased_zookeeper_watches", "Watches of connections here.",
                     door->watches.watches.n);
    prometheus_counter(out, "leased_zookeeper_sessions_opened_total", "Sessions begun here.",
                       counters->sessions_opened);
    prometheus_counter(out, "leased_zookeeper_sessions_resumed_total",
                       "Sessions that a connection here took over.", counters->sessions_resumed);
    prometheus_counter(out, "leased_zookeeper_sessions_refused_total",
                       "Sessions that did not exist any more, or had another password.",
                       counters->sessions_refused);
    prometheus_counter(out, "leased_zookeeper_sessions_moved_total",
                       "Sessions that left a connection here for another one.",
                       counters->sessions_moved);
    prometheus_counter(out, "leased_zookeeper_sessions_expired_total",
                       "Sessions that ended while they had a connection here.",
                       counters->sessions_expired);
    prometheus_counter(out, "leased_zookeeper_events_total", "Watch events sent.",
                       counters->events);
    prometheus_counter(out, "leased_zookeeper_auth_failures_total",
                       "Auth packets with unknown schemes or wrong passwords.",
                       counters->auth_failures);
}
