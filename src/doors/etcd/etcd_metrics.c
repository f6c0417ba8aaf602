/* What /metrics says of etcd's API, and the names that dashboards and alerts made for etcd look
 * for: each stands for a figure that there is here, as docs/monitoring.md says. */
#include "base/prometheus.h"
#include "core/service_monitor.h"
#include "doors/etcd/etcd_call.h"
#include "doors/etcd/etcd_queue.h"
#include "net/grpc_stats.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { ID_SIZE = 32 };

/* Calls that succeeded, of the methods that have counters of their own. */
struct calls {
    uint64_t range;
    uint64_t put;
    uint64_t delete_range;
    uint64_t txn;
    uint64_t grant;
    uint64_t revoke;
};

static void count_calls(void *data, const struct grpc_method *method,
                        const struct grpc_stats *stats) {
    struct calls *calls = data;
    const struct {
        const char *path;
        uint64_t *count;
    } known[] = {
        {"/etcdserverpb.KV/Range", &calls->range},
        {"/etcdserverpb.KV/Put", &calls->put},
        {"/etcdserverpb.KV/DeleteRange", &calls->delete_range},
        {"/etcdserverpb.KV/Txn", &calls->txn},
        {"/etcdserverpb.Lease/LeaseGrant", &calls->grant},
        {"/etcdserverpb.Lease/LeaseRevoke", &calls->revoke},
    };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(method->path, known[i].path) == 0) {
            *known[i].count = stats->handled[GRPC_OK];
        }
    }
}

/* A family of one sample that says 1 and means its label. */
static void write_label(struct buffer *buffer, const char *name, const char *help,
                        const char *label_name, const char *label_value) {
    const struct prometheus_label label = {.name = label_name, .value = label_value};
    prometheus_family(buffer, name, PROMETHEUS_GAUGE, help);
    prometheus_sample_u64(buffer, name, "", &label, 1, 1);
}

static void write_latency(struct buffer *buffer, const char *name, const char *help,
                          const struct latency *latency) {
    prometheus_family(buffer, name, PROMETHEUS_HISTOGRAM, help);
    prometheus_latency(buffer, name, NULL, 0, latency);
}

static void write_door(const struct etcd_door *door, struct buffer *buffer) {
    prometheus_gauge(buffer, "leased_etcd_watch_streams", "Watch streams of etcd's API.",
                     door->stats.watch_streams);
    prometheus_gauge(buffer, "leased_etcd_queued_calls", "Calls that wait for locks and elections.",
                     etcd_queues_count(door->queues));
    prometheus_gauge(buffer, "leased_etcd_keepalive_streams", "Keepalive streams of etcd's API.",
                     door->stats.keepalive_streams);
    prometheus_gauge(buffer, "leased_etcd_requests", "Requests of etcd's API being carried out.",
                     door->stats.requests);
}

static void write_server(struct buffer *buffer, const struct service_info *info,
                         const struct service_monitor *monitor, uint64_t quota_bytes) {
    char id[ID_SIZE];
    snprintf(id, sizeof id, "%" PRIx64, info->member_id);
    write_label(buffer, "etcd_server_version", "The version of etcd's API that is served.",
                "server_version", ETCD_VERSION);
    write_label(buffer, "etcd_cluster_version", "The version of the cluster, as etcd counts.",
                "cluster_version", ETCD_CLUSTER_VERSION);
    write_label(buffer, "etcd_server_id", "The id of this member.", "server_id", id);
    prometheus_gauge(buffer, "etcd_server_has_leader", "1 when a leader is known.",
                     info->leader_id != 0);
    prometheus_gauge(buffer, "etcd_server_is_leader", "1 on the leader.",
                     info->leader_id == info->member_id);
    prometheus_gauge(buffer, "etcd_server_is_learner", "1 on a member that does not vote (yet).",
                     info->is_learner);
    prometheus_counter(buffer, "etcd_server_leader_changes_seen_total",
                       "Leaders that this member has seen elected.", monitor->leader_changes);
    prometheus_gauge(buffer, "etcd_server_proposals_committed_total", "The newest entry committed.",
                     monitor->commit_index);
    prometheus_gauge(buffer, "etcd_server_proposals_applied_total", "The newest entry applied.",
                     info->applied_index);
    prometheus_gauge(buffer, "etcd_server_proposals_pending",
                     "Commands that wait or are on their way.", monitor->proposals_pending);
    prometheus_counter(buffer, "etcd_server_proposals_failed_total",
                       "Commands that could not be committed, or of which that is not known.",
                       monitor->proposals_failed);
    prometheus_counter(buffer, "etcd_server_heartbeat_send_failures_total",
                       "Pings of the leader that could not be sent.", monitor->ping_failures);
    prometheus_counter(buffer, "etcd_server_slow_apply_total",
                       "Entries that took longer than 100 ms to apply.", monitor->slow_applies);
    prometheus_gauge(buffer, "etcd_server_quota_backend_bytes", "The quota of the key store.",
                     quota_bytes);
    prometheus_counter(buffer, "etcd_server_lease_expired_total", "Leases that ran out.",
                       info->expired);
    prometheus_counter(buffer, "etcd_debugging_server_lease_expired_total", "Leases that ran out.",
                       info->expired);
}

static void write_disk(struct buffer *buffer, const struct service_monitor *monitor) {
    write_latency(buffer, "etcd_disk_wal_fsync_duration_seconds", "Syncs of the log.",
                  &monitor->log_syncs);
    write_latency(buffer, "etcd_disk_backend_commit_duration_seconds",
                  "Writes to the log with their sync: leased commits nothing else to disk.",
                  &monitor->log_writes);
    write_latency(buffer, "etcd_disk_wal_write_duration_seconds",
                  "Writes to the log with their sync.", &monitor->log_writes);
    prometheus_gauge(buffer, "etcd_disk_wal_write_bytes_total", "Bytes written to the log.",
                     monitor->log_written_bytes);
    write_latency(buffer, "etcd_disk_backend_snapshot_duration_seconds",
                  "Snapshots, until they are on disk.", &monitor->snapshots);
    write_latency(buffer, "etcd_debugging_snap_save_total_duration_seconds",
                  "Snapshots, until they are on disk.", &monitor->snapshots);
}

static void write_keys(struct buffer *buffer, const struct key_store *keys,
                       const struct watch_hub *watches, const struct etcd_door *door) {
    struct key_store_stats stats;
    key_store_stats(keys, &stats);
    prometheus_gauge(buffer, "etcd_mvcc_db_total_size_in_bytes",
                     "Keys and their history, in memory.", stats.bytes);
    prometheus_gauge(
        buffer, "etcd_mvcc_db_total_size_in_use_in_bytes",
        "The same: history is in use until it is compacted, and nothing is fragmented.",
        stats.bytes);
    prometheus_gauge(buffer, "etcd_debugging_mvcc_keys_total", "Keys that are alive.", stats.keys);
    prometheus_gauge(buffer, "etcd_debugging_mvcc_current_revision", "The newest revision.",
                     (uint64_t)key_store_revision(keys));
    prometheus_gauge(buffer, "etcd_debugging_mvcc_compact_revision", "The revision compacted to.",
                     (uint64_t)key_store_compacted_revision(keys));
    prometheus_gauge(buffer, "etcd_debugging_mvcc_watcher_total", "Watches.", door->stats.watches);
    prometheus_gauge(buffer, "etcd_debugging_mvcc_watch_stream_total", "Watch streams.",
                     door->stats.watch_streams);
    prometheus_gauge(buffer, "etcd_debugging_mvcc_slow_watcher_total",
                     "Watches that are being caught up.", watch_hub_lagging_count(watches));
}

static void write_calls(struct buffer *buffer, const struct calls *calls,
                        const struct service_info *info) {
    const struct {
        const char *name;
        const char *help;
        uint64_t count;
    } counters[] = {
        {"etcd_mvcc_range_total", "Range requests answered.", calls->range},
        {"etcd_mvcc_put_total", "Put requests answered.", calls->put},
        {"etcd_mvcc_delete_total", "Delete requests answered.", calls->delete_range},
        {"etcd_mvcc_txn_total", "Transactions answered.", calls->txn},
        {"etcd_debugging_mvcc_range_total", "Range requests answered.", calls->range},
        {"etcd_debugging_lease_granted_total", "Leases granted through this member.", calls->grant},
        {"etcd_debugging_lease_revoked_total", "Leases revoked through this member.",
         calls->revoke},
        {"etcd_debugging_lease_renewed_total", "Renewals granted.", info->renewals},
    };
    for (size_t i = 0; i < sizeof counters / sizeof counters[0]; i++) {
        prometheus_counter(buffer, counters[i].name, counters[i].help, counters[i].count);
    }
}

static void write_clients(struct buffer *buffer, const struct etcd_clients *clients) {
    static const char name[] = "etcd_server_client_requests_total";
    prometheus_family(buffer, name, PROMETHEUS_COUNTER,
                      "Calls of clients by the version that they say they have.");
    for (size_t i = 0; i < clients->n; i++) {
        const struct etcd_client_version *client = &clients->versions[i];
        for (size_t kind = 0; kind < ETCD_CLIENT_KINDS; kind++) {
            const struct prometheus_label labels[] = {
                {.name = "type", .value = kind == ETCD_CLIENT_UNARY ? "unary" : "stream"},
                {.name = "client_api_version", .value = client->text}};
            prometheus_sample_u64(buffer, name, "", labels, 2, client->calls[kind]);
        }
    }
}

/* One family over all other members. Received failures are not known: a member that cannot send
 * counts them itself. */
static void write_network(struct buffer *buffer, const struct service_info *info,
                          const struct service_monitor *monitor, const struct net_stats *net) {
    prometheus_counter(buffer, "etcd_network_client_grpc_received_bytes_total",
                       "Bytes read from clients.", net->bytes_received);
    prometheus_counter(buffer, "etcd_network_client_grpc_sent_bytes_total",
                       "Bytes written to clients.", net->bytes_sent);
    enum {
        ACTIVE,
        SENT,
        SEND_FAILURES,
        RECEIVED,
        SENDING_SNAPSHOT,
        RECEIVING_SNAPSHOT,
        ROUND_TRIP,
        FAMILIES
    };
    static const struct {
        const char *name;
        const char *help;
        const char *label;
        enum prometheus_type type;
    } families[FAMILIES] = {
        [ACTIVE] = {"etcd_network_active_peers", "1 while there is a link to that member.",
                    "Remote", PROMETHEUS_GAUGE},
        [SENT] = {"etcd_network_peer_sent_bytes_total", "Bytes sent to another member.", "To",
                  PROMETHEUS_COUNTER},
        [SEND_FAILURES] = {"etcd_network_peer_sent_failures_total",
                           "Messages to another member that could not be sent.", "To",
                           PROMETHEUS_COUNTER},
        [RECEIVED] = {"etcd_network_peer_received_bytes_total",
                      "Bytes received from another member.", "From", PROMETHEUS_COUNTER},
        [SENDING_SNAPSHOT] = {"etcd_network_snapshot_send_inflights_total",
                              "1 while another member is sent a snapshot.", "To", PROMETHEUS_GAUGE},
        [RECEIVING_SNAPSHOT] = {"etcd_network_snapshot_receive_inflights_total",
                                "1 while a snapshot of another member is received.", "From",
                                PROMETHEUS_GAUGE},
        [ROUND_TRIP] = {"etcd_network_peer_round_trip_time_seconds",
                        "From a ping of the leader to its answer.", "To", PROMETHEUS_HISTOGRAM},
    };
    char own_id[ID_SIZE];
    snprintf(own_id, sizeof own_id, "%" PRIx64, info->member_id);
    for (size_t f = 0; f < FAMILIES; f++) {
        prometheus_family(buffer, families[f].name, families[f].type, families[f].help);
        for (size_t i = 0; i < monitor->n_peers; i++) {
            const struct service_peer *peer = &monitor->peers[i];
            char id[ID_SIZE];
            snprintf(id, sizeof id, "%" PRIx64, peer->id);
            const struct prometheus_label labels[] = {{.name = families[f].label, .value = id},
                                                      {.name = "Local", .value = own_id}};
            if (f == ROUND_TRIP) {
                prometheus_latency(buffer, families[f].name, labels, 1, &peer->round_trips);
                continue;
            }
            const uint64_t numbers[] = {peer->is_linked,        peer->sent_bytes,
                                        peer->sent_failures,    peer->received_bytes,
                                        peer->is_sent_snapshot, peer->sends_snapshot};
            prometheus_sample_u64(buffer, families[f].name, "", labels, f == ACTIVE ? 2 : 1,
                                  numbers[f]);
        }
    }
}

void etcd_metrics_write(const struct etcd_door *door, struct buffer *out) {
    struct service_info info;
    struct service_monitor monitor;
    struct net_stats net = {0};
    struct calls calls = {0};
    const struct state_view *state = service_view(door->service);
    service_info(door->service, &info);
    service_monitor(door->service, &monitor);
    if (door->net != NULL) {
        net_server_stats(door->net, &net);
        net_server_each_method(door->net, count_calls, &calls);
    }
    write_door(door, out);
    write_server(out, &info, &monitor, door->quota_bytes);
    write_disk(out, &monitor);
    write_keys(out, state_view_keys(state), state_view_watches(state), door);
    write_calls(out, &calls, &info);
    write_clients(out, &door->clients);
    write_network(out, &info, &monitor, &net);
}
