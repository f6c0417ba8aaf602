/* What monitors ask for: service_monitor.h. */
#include "replication/monitor.h"

#include "base/clock.h"
#include "base/log.h"
#include "replication/service_internal.h"

enum { SLOW_APPLY_LOG_MS = 1000 };

static struct latency *round_trips_of(struct monitor *monitor, uint64_t id) {
    for (size_t i = 0; i < LINKS_MAX; i++) {
        if (monitor->round_trips[i].id == id || monitor->round_trips[i].id == 0) {
            monitor->round_trips[i].id = id;
            return &monitor->round_trips[i].latency;
        }
    }
    return NULL;
}

void monitor_pinged(struct service *service, uint64_t now_ms) {
    service->monitor.pinged_ms = now_ms;
    service->monitor.pinged_us = clock_stopwatch_us();
}

/* The ping itself carries milliseconds; the newest round is known better. */
void monitor_answered(struct service *service, uint64_t from_id, uint64_t sent_ms) {
    struct monitor *monitor = &service->monitor;
    struct latency *latency = round_trips_of(monitor, from_id);
    if (latency == NULL) {
        return;
    }
    uint64_t now_us = clock_stopwatch_us();
    uint64_t sent_us = sent_ms == monitor->pinged_ms ? monitor->pinged_us : sent_ms * 1000;
    latency_add(latency, now_us > sent_us ? now_us - sent_us : 0);
}

/* Some leader takes the place of another, or of none. */
void monitor_leader_changed(struct service *service, uint64_t leader_id) {
    struct monitor *monitor = &service->monitor;
    if (leader_id == 0) {
        if (monitor->leader_id != 0) {
            log_info("lost leader", LOG_HEX("member", service->options.member_id),
                     LOG_HEX("previous leader", monitor->leader_id),
                     LOG_NUMBER("term", raft_engine_term(service->engine)));
        }
    } else {
        monitor->leader_changes++;
        log_info("elected leader", LOG_HEX("member", service->options.member_id),
                 LOG_HEX("leader", leader_id),
                 LOG_NUMBER("term", raft_engine_term(service->engine)));
    }
    monitor->leader_id = leader_id;
}

void monitor_applied(struct service *service, uint64_t begun_us, uint64_t submitted_us,
                     size_t n_commands) {
    struct monitor *monitor = &service->monitor;
    uint64_t now_us = clock_stopwatch_us();
    uint64_t took_us = now_us - begun_us;
    latency_add(&monitor->applies, took_us);
    if (submitted_us != 0) {
        latency_add(&monitor->commits, now_us - submitted_us);
    }
    if (took_us <= SERVICE_SLOW_APPLY_MS * UINT64_C(1000)) {
        return;
    }
    monitor->slow_applies++;
    uint64_t now_ms = now_us / 1000;
    if (monitor->slow_logged_ms == 0 ||
        clock_elapsed_ms(now_ms, monitor->slow_logged_ms) >= SLOW_APPLY_LOG_MS) {
        monitor->slow_logged_ms = now_ms;
        log_warning("apply request took too long", LOG_NUMBER("took ms", took_us / 1000),
                    LOG_NUMBER("commands", n_commands));
    }
}

static uint64_t commands_in(const struct list *proposals) {
    uint64_t n = 0;
    for (const struct list *node = proposals->next; node != proposals; node = node->next) {
        n += list_entry(node, struct proposal, link)->n_commands;
    }
    return n;
}

static void copy_peers(struct service *service, struct service_monitor *out) {
    const struct members *members = &service->members;
    for (size_t i = 0; i < members->n_linked && out->n_peers < SERVICE_PEERS_MAX; i++) {
        struct service_peer *peer = &out->peers[out->n_peers++];
        struct peers_traffic traffic = {0};
        peer->id = members->linked[i];
        peer->is_linked =
            service->peers != NULL && peers_traffic(service->peers, peer->id, &traffic);
        peer->is_sent_snapshot = raft_node_is_sending_snapshot(service->node, peer->id);
        peer->sends_snapshot = raft_node_is_receiving_snapshot(service->node, peer->id);
        peer->sent_bytes = traffic.sent_bytes;
        peer->sent_failures = traffic.sent_failures;
        peer->received_bytes = traffic.received_bytes;
        const struct latency *latency = round_trips_of(&service->monitor, peer->id);
        if (latency != NULL) {
            peer->round_trips = *latency;
        }
    }
}

void service_monitor(struct service *service, struct service_monitor *out_monitor) {
    const struct monitor *monitor = &service->monitor;
    const struct proposals *proposals = &service->proposals;
    *out_monitor = (struct service_monitor){
        .commits = monitor->commits,
        .applies = monitor->applies,
        .slow_applies = monitor->slow_applies,
        .leader_changes = monitor->leader_changes,
        .commit_index = raft_engine_commit_index(service->engine),
        .proposals_pending = commands_in(&proposals->ready) + commands_in(&proposals->in_flight) +
                             (proposals->open != NULL ? proposals->open->n_commands : 0),
        .proposals_failed = monitor->proposals_failed,
        .ping_failures = monitor->ping_failures,
    };
    raft_node_timing(service->node, &out_monitor->log_writes, &out_monitor->log_syncs,
                     &out_monitor->log_written_bytes, &out_monitor->snapshots);
    copy_peers(service, out_monitor);
}
