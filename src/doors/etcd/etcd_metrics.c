/* What /metrics says of etcd's API, and the names that dashboards and alerts made for etcd look
 * for. */
#include "base/prometheus.h"
#include "doors/etcd/etcd_call.h"

#include <inttypes.h>
#include <stdio.h>

/* A family of one sample that says 1 and means its label. */
static void write_label(struct buffer *buffer, const char *name, const char *help,
                        const char *label_name, const char *label_value) {
    const struct prometheus_label label = {.name = label_name, .value = label_value};
    prometheus_family(buffer, name, PROMETHEUS_GAUGE, help);
    prometheus_sample_u64(buffer, name, "", &label, 1, 1);
}

static void write_door(const struct etcd_door *door, struct buffer *buffer) {
    prometheus_gauge(buffer, "leased_etcd_watch_streams", "Watch streams of etcd's API.",
                     door->stats.watch_streams);
    prometheus_gauge(buffer, "leased_etcd_keepalive_streams", "Keepalive streams of etcd's API.",
                     door->stats.keepalive_streams);
    prometheus_gauge(buffer, "leased_etcd_requests", "Requests of etcd's API being carried out.",
                     door->stats.requests);
}

static void write_etcd_names(struct buffer *buffer, const struct service_info *info,
                             const struct key_store *keys, const struct watch_hub *watches,
                             uint64_t quota_bytes) {
    struct key_store_stats key_stats;
    const struct key_store_stats *stats = &key_stats;
    key_store_stats(keys, &key_stats);
    char id[32];
    snprintf(id, sizeof id, "%" PRIx64, info->member_id);
    write_label(buffer, "etcd_server_version", "The version of etcd's API that is served.",
                "server_version", ETCD_VERSION);
    write_label(buffer, "etcd_server_id", "The id of this member.", "server_id", id);
    prometheus_gauge(buffer, "etcd_server_has_leader", "1 when a leader is known.",
                     info->leader_id != 0);
    prometheus_gauge(buffer, "etcd_server_is_leader", "1 on the leader.",
                     info->leader_id == info->member_id);
    prometheus_gauge(buffer, "etcd_server_is_learner", "1 on a member that does not vote (yet).",
                     info->is_learner);
    prometheus_gauge(buffer, "etcd_server_proposals_applied_total", "The newest entry applied.",
                     info->applied_index);
    prometheus_gauge(buffer, "etcd_server_quota_backend_bytes", "The quota of the key store.",
                     quota_bytes);
    prometheus_gauge(buffer, "etcd_mvcc_db_total_size_in_bytes",
                     "Keys and their history, in memory.", stats->bytes);
    prometheus_gauge(buffer, "etcd_mvcc_db_total_size_in_use_in_bytes",
                     "Newest versions of keys that are alive, in memory.", stats->bytes_live);
    prometheus_gauge(buffer, "etcd_debugging_mvcc_keys_total", "Keys that are alive.", stats->keys);
    prometheus_gauge(buffer, "etcd_debugging_mvcc_current_revision", "The newest revision.",
                     (uint64_t)key_store_revision(keys));
    prometheus_gauge(buffer, "etcd_debugging_mvcc_compact_revision", "The revision compacted to.",
                     (uint64_t)key_store_compacted_revision(keys));
    prometheus_gauge(buffer, "etcd_debugging_mvcc_watcher_total", "Watches.",
                     watch_hub_count(watches));
    prometheus_gauge(buffer, "etcd_debugging_mvcc_slow_watcher_total",
                     "Watches that are being caught up.", watch_hub_lagging_count(watches));
    prometheus_counter(buffer, "etcd_debugging_lease_renewed_total", "Renewals granted.",
                       info->renewals);
    prometheus_counter(buffer, "etcd_server_lease_expired_total", "Leases that ran out.",
                       info->expired);
}

void etcd_metrics_write(const struct etcd_door *door, struct buffer *out) {
    struct service_info info;
    const struct state_view *state = service_view(door->service);
    service_info(door->service, &info);
    write_door(door, out);
    write_etcd_names(out, &info, state_view_keys(state), state_view_watches(state),
                     door->quota_bytes);
}
