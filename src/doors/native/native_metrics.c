/* What /metrics says of this door. */
#include "base/prometheus.h"
#include "doors/native/native_call.h"
#include "doors/native/native_keys.h"
#include "doors/native/native_wait.h"

static size_t count_records(const struct native_door *door, char kind) {
    struct key_range range = native_records(kind);
    return key_store_count(native_keys(door), range.space, range.key, range.range_end);
}

void native_metrics_write(const struct native_door *door, struct buffer *out) {
    const struct native_stats *stats = &door->stats;
    prometheus_gauge(out, "leased_native_sessions", "Sessions of the cluster.",
                     count_records(door, 's'));
    prometheus_gauge(out, "leased_native_acquisitions",
                     "Acquisitions of the cluster, waiting ones included.",
                     count_records(door, 'a'));
    prometheus_gauge(out, "leased_native_waiting_calls",
                     "Calls on this member that wait for an acquisition.",
                     native_waits_count(door->waits));
    prometheus_gauge(out, "leased_native_renew_streams", "Open streams of renewals.",
                     stats->renew_streams);
    prometheus_gauge(out, "leased_native_observers", "Open streams of Observe.", stats->observers);
    prometheus_gauge(out, "leased_native_event_streams", "Open streams of Events.",
                     stats->event_streams);
    prometheus_counter(out, "leased_native_sessions_created_total",
                       "Sessions created through this member by Create.", stats->sessions_created);
    prometheus_counter(out, "leased_native_renewals_total",
                       "Renewals of sessions asked of this member.", stats->renewals);
    prometheus_counter(out, "leased_native_acquired_total",
                       "Acquisitions granted to calls on this member.", stats->acquired);
    prometheus_counter(out, "leased_native_handed_over_total",
                       "Acquisitions granted to calls on this member that had to wait.",
                       stats->acquired - stats->acquired_at_once);
    prometheus_counter(out, "leased_native_released_total",
                       "Acquisitions given back through this member by Release.", stats->released);
    prometheus_counter(out, "leased_native_left_total",
                       "Calls on this member that ended before they were told, or in vain.",
                       stats->left);
    prometheus_family(out, "leased_native_wait_seconds", PROMETHEUS_HISTOGRAM,
                      "Time that calls on this member waited for an acquisition.");
    prometheus_latency(out, "leased_native_wait_seconds", NULL, 0, &stats->wait);
}
