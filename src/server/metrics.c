#include "server/metrics.h"

#include "base/prometheus.h"
#include "build_info.h"
#include "core/service_monitor.h"
#include "server/authenticator.h"
#include "server/metrics_grpc.h"
#include "server/process_stats.h"

#include <inttypes.h>
#include <stdio.h>
#include <uv.h>

static void write_build(struct buffer *buffer) {
    const struct prometheus_label labels[] = {
        {.name = "version", .value = LEASED_VERSION},
        {.name = "libraft", .value = LIBRAFT_VERSION},
        {.name = "libuv", .value = uv_version_string()},
        {.name = "nghttp2", .value = LIBNGHTTP2_VERSION},
    };
    prometheus_family(buffer, "leased_build_info", PROMETHEUS_GAUGE,
                      "The versions of leased and its libraries, as labels.");
    prometheus_sample_u64(buffer, "leased_build_info", "", labels, sizeof labels / sizeof labels[0],
                          1);
}

static void write_leases(struct buffer *buffer, const struct service_info *info,
                         const struct lease_table *leases) {
    prometheus_gauge(buffer, "leased_leases", "Leases that are alive.", lease_table_count(leases));
    prometheus_gauge(buffer, "leased_lease_memory_bytes", "Memory of the lease table.",
                     lease_table_bytes(leases));
    prometheus_counter(buffer, "leased_lease_renewals_total", "Renewals granted.", info->renewals);
    prometheus_counter(buffer, "leased_lease_checkpoints_total",
                       "Leases noted in the log because they were not renewed in time.",
                       info->checkpoints);
    prometheus_counter(buffer, "leased_lease_expiries_total", "Leases that ran out.",
                       info->expired);
    prometheus_histogram_ms(
        buffer, "leased_lease_expiry_lateness_seconds",
        "From a lease's deadline until its end was applied.", service_lateness_bounds_ms,
        sizeof service_lateness_bounds_ms / sizeof service_lateness_bounds_ms[0],
        info->lateness_buckets, info->lateness_sum_ms);
}

static void write_keys(struct buffer *buffer, const struct key_store *keys,
                       const struct key_store_stats *stats, const struct watch_hub *watches) {
    prometheus_gauge(buffer, "leased_keys", "Keys that are alive.", stats->keys);
    prometheus_gauge(buffer, "leased_key_records", "Versions and tombstones held.", stats->records);
    prometheus_gauge(buffer, "leased_key_memory_bytes", "Memory of keys and their history.",
                     stats->bytes);
    prometheus_gauge(buffer, "leased_revision", "The newest revision.",
                     (uint64_t)key_store_revision(keys));
    prometheus_gauge(buffer, "leased_compacted_revision", "Older ones cannot be read; 0: all can.",
                     (uint64_t)key_store_compacted_revision(keys));
    prometheus_gauge(buffer, "leased_watchers", "Watches.", watch_hub_count(watches));
    prometheus_gauge(buffer, "leased_watchers_lagging",
                     "Watches that are being caught up from history.",
                     watch_hub_lagging_count(watches));
}

static void write_loop(struct buffer *buffer, const struct service_info *info) {
    prometheus_gauge(buffer, "leased_loop_cpu_milliseconds_max",
                     "CPU time of the longest iteration of the event loop since the start.",
                     info->loop_cpu_ms_max);
    prometheus_counter(buffer, "leased_loop_slow_iterations_total",
                       "Iterations of the event loop that took 100 ms of CPU time or more.",
                       info->slow_iterations);
}

static void write_raft(struct buffer *buffer, const struct service_info *info) {
    prometheus_gauge(buffer, "leased_cluster_version",
                     "The version whose commands all members know.", info->cluster_version);
    prometheus_gauge(buffer, "leased_raft_term", "The current term.", info->term);
    prometheus_gauge(buffer, "leased_raft_last_index", "The newest entry of the log.",
                     info->last_index);
    prometheus_gauge(buffer, "leased_raft_applied_index", "The newest entry applied.",
                     info->applied_index);
    prometheus_gauge(buffer, "leased_raft_has_leader", "1 when a leader is known.",
                     info->leader_id != 0);
    prometheus_gauge(buffer, "leased_raft_is_leader", "1 on the leader.",
                     info->leader_id == info->member_id);
    prometheus_counter(buffer, "leased_raft_proposals_total", "Log entries proposed.",
                       info->entries);
    prometheus_counter(buffer, "leased_raft_commands_total", "Commands in these entries.",
                       info->commands);
    prometheus_counter(buffer, "leased_raft_snapshots_total", "Snapshots taken.", info->snapshots);
    prometheus_gauge(buffer, "leased_raft_log_bytes",
                     "Log entries since the last snapshot, in memory.", info->log_bytes);
    prometheus_gauge(buffer, "leased_disk_bytes", "Log and snapshots on disk.", info->disk_bytes);
}

static void write_auth(struct buffer *buffer, const struct service_info *info,
                       const struct auth *auth, const struct authenticator_stats *stats) {
    prometheus_gauge(buffer, "leased_auth_enabled", "1 while authentication is on.",
                     auth_is_enabled(auth));
    prometheus_counter(buffer, "leased_auth_logins_total", "Passwords that were right.",
                       stats->logins);
    prometheus_counter(buffer, "leased_auth_failures_total",
                       "Passwords and tokens that were wrong.", stats->failures);
    prometheus_counter(buffer, "leased_auth_limited_total",
                       "Passwords that were not looked at, because there were too many attempts.",
                       stats->limited);
    prometheus_counter(buffer, "leased_requests_unauthenticated_total",
                       "Requests refused because their caller is not known.",
                       info->unauthenticated);
    prometheus_counter(buffer, "leased_requests_denied_total",
                       "Requests refused because their caller may not.", info->denied);
}

static void write_net(struct buffer *buffer, const struct net_stats *net) {
    prometheus_gauge(buffer, "leased_connections", "Connections of clients.", net->connections);
    prometheus_gauge(buffer, "leased_connections_max",
                     "Connections of clients allowed, by --max-connections and the open files.",
                     net->connections_max);
    prometheus_counter(buffer, "leased_connections_total", "Connections accepted.",
                       net->connections_total);
    prometheus_counter(buffer, "leased_connections_refused_total",
                       "Connections refused because there were too many.",
                       net->connections_refused);
    prometheus_counter(buffer, "leased_connections_refused_address_total",
                       "Of these, because one address had as many as it may.",
                       net->connections_refused_client);
    prometheus_gauge(buffer, "leased_calls", "Calls that are open.", net->calls);
    prometheus_counter(buffer, "leased_calls_total", "Calls begun.", net->calls_total);
    prometheus_counter(buffer, "leased_protocol_errors_total",
                       "Connections and calls ended for breaking their protocol.",
                       net->protocol_errors);
    prometheus_counter(buffer, "leased_tls_handshakes_total", "TLS connections agreed on.",
                       net->tls_handshakes);
    prometheus_counter(buffer, "leased_tls_failures_total", "TLS handshakes that failed.",
                       net->tls_failures);
    prometheus_counter(buffer, "leased_received_bytes_total", "Bytes read from clients.",
                       net->bytes_received);
    prometheus_counter(buffer, "leased_sent_bytes_total", "Bytes written to clients.",
                       net->bytes_sent);
    prometheus_gauge(buffer, "leased_queued_bytes", "Bytes that wait for clients to read them.",
                     net->queued_bytes + net->unsent_bytes);
}

static void write_latency(struct buffer *buffer, const char *name, const char *help,
                          const struct latency *latency) {
    prometheus_family(buffer, name, PROMETHEUS_HISTOGRAM, help);
    prometheus_latency(buffer, name, NULL, 0, latency);
}

static void write_peer(struct buffer *buffer, const char *name, enum prometheus_type type,
                       const char *help, const struct service_monitor *monitor,
                       uint64_t (*number)(const struct service_peer *peer)) {
    prometheus_family(buffer, name, type, help);
    for (size_t i = 0; i < monitor->n_peers; i++) {
        char id[32];
        snprintf(id, sizeof id, "%" PRIx64, monitor->peers[i].id);
        const struct prometheus_label label = {.name = "member", .value = id};
        prometheus_sample_u64(buffer, name, "", &label, 1, number(&monitor->peers[i]));
    }
}

static uint64_t is_linked(const struct service_peer *peer) {
    return peer->is_linked;
}

static uint64_t sent_bytes(const struct service_peer *peer) {
    return peer->sent_bytes;
}

static uint64_t sent_failures(const struct service_peer *peer) {
    return peer->sent_failures;
}

static uint64_t received_bytes(const struct service_peer *peer) {
    return peer->received_bytes;
}

static void write_peers(struct buffer *buffer, const struct service_monitor *monitor) {
    write_peer(buffer, "leased_peer_linked", PROMETHEUS_GAUGE,
               "1 while this member has a link to that one.", monitor, is_linked);
    write_peer(buffer, "leased_peer_sent_bytes_total", PROMETHEUS_COUNTER,
               "Bytes sent to another member.", monitor, sent_bytes);
    write_peer(buffer, "leased_peer_received_bytes_total", PROMETHEUS_COUNTER,
               "Bytes received from another member.", monitor, received_bytes);
    write_peer(buffer, "leased_peer_send_failures_total", PROMETHEUS_COUNTER,
               "Messages to another member that could not be sent.", monitor, sent_failures);
    const char *name = "leased_peer_round_trip_seconds";
    prometheus_family(buffer, name, PROMETHEUS_HISTOGRAM,
                      "From a ping of the leader to its answer.");
    for (size_t i = 0; i < monitor->n_peers; i++) {
        char id[32];
        snprintf(id, sizeof id, "%" PRIx64, monitor->peers[i].id);
        const struct prometheus_label label = {.name = "member", .value = id};
        prometheus_latency(buffer, name, &label, 1, &monitor->peers[i].round_trips);
    }
}

static void write_monitor(struct buffer *buffer, const struct service_monitor *monitor) {
    write_latency(buffer, "leased_log_sync_seconds", "Syncs of the log.", &monitor->log_syncs);
    write_latency(buffer, "leased_log_write_seconds", "Writes to the log, with their sync.",
                  &monitor->log_writes);
    prometheus_counter(buffer, "leased_log_written_bytes_total", "Bytes written to the log.",
                       monitor->log_written_bytes);
    write_latency(buffer, "leased_commit_seconds",
                  "From the proposal of an entry until it was applied here.", &monitor->commits);
    write_latency(buffer, "leased_apply_seconds", "Applying one entry, with all its commands.",
                  &monitor->applies);
    prometheus_counter(buffer, "leased_apply_slow_total", "Entries that took longer than 100 ms.",
                       monitor->slow_applies);
    write_latency(buffer, "leased_snapshot_seconds", "Snapshots, until they are on disk.",
                  &monitor->snapshots);
    prometheus_counter(buffer, "leased_raft_leader_changes_total",
                       "Leaders that this member has seen elected.", monitor->leader_changes);
    prometheus_gauge(buffer, "leased_raft_commit_index", "The newest entry committed.",
                     monitor->commit_index);
    prometheus_gauge(buffer, "leased_commands_pending", "Commands that wait or are on their way.",
                     monitor->proposals_pending);
    prometheus_counter(buffer, "leased_commands_failed_total",
                       "Commands that could not be committed, or of which that is not known.",
                       monitor->proposals_failed);
    prometheus_counter(buffer, "leased_ping_failures_total",
                       "Pings of the leader that could not be sent.", monitor->ping_failures);
    write_peers(buffer, monitor);
}

static void write_process(struct buffer *buffer) {
    struct process_stats process;
    process_stats_read(&process);
    prometheus_gauge(buffer, "process_resident_memory_bytes", "Resident memory.",
                     process.resident_bytes);
    prometheus_gauge(buffer, "process_virtual_memory_bytes", "Virtual memory.",
                     process.virtual_bytes);
    prometheus_gauge(buffer, "os_fd_used", "Open file descriptors.", process.open_fds);
    prometheus_gauge(buffer, "os_fd_limit", "File descriptors allowed.", process.max_fds);
    prometheus_gauge(buffer, "process_open_fds", "Open file descriptors.", process.open_fds);
    prometheus_gauge(buffer, "process_max_fds", "File descriptors allowed.", process.max_fds);
    prometheus_family(buffer, "process_cpu_seconds_total", PROMETHEUS_COUNTER,
                      "User and system time of all threads.");
    prometheus_sample(buffer, "process_cpu_seconds_total", "", NULL, 0, process.cpu_seconds);
    prometheus_family(buffer, "process_start_time_seconds", PROMETHEUS_GAUGE,
                      "When the process started, in seconds since 1970.");
    prometheus_sample(buffer, "process_start_time_seconds", "", NULL, 0,
                      process.start_time_seconds);
}

void metrics_write(const struct metrics_sources *sources, struct buffer *buffer) {
    struct service_info info;
    struct net_stats net;
    struct key_store_stats stats;
    const struct state_view *state = service_view(sources->service);
    const struct key_store *keys = state_view_keys(state);
    const struct watch_hub *watches = state_view_watches(state);
    service_info(sources->service, &info);
    net_server_stats(sources->net, &net);
    key_store_stats(keys, &stats);

    write_build(buffer);
    write_leases(buffer, &info, state_view_leases(state));
    write_keys(buffer, keys, &stats, watches);
    write_loop(buffer, &info);
    write_raft(buffer, &info);
    struct authenticator_stats authenticator;
    authenticator_stats(sources->authenticator, &authenticator);
    write_auth(buffer, &info, state_view_auth(state), &authenticator);
    struct service_monitor monitor;
    service_monitor(sources->service, &monitor);
    write_monitor(buffer, &monitor);
    write_net(buffer, &net);
    metrics_grpc_write(sources->net, buffer);
    prometheus_counter(buffer, "etcd_server_health_success", "Answers of /health that said yes.",
                       sources->n_healthy);
    prometheus_counter(buffer, "etcd_server_health_failures", "Answers of /health that said no.",
                       sources->n_unhealthy);
    write_process(buffer);
    open_doors_write_metrics(sources->doors, buffer);
}
