/*
 * What the service can tell a monitor beyond service_info(): how long things take, and its traffic
 * with the other members. Asked for when metrics are read, not on the way of a request.
 */
#ifndef LEASED_CORE_SERVICE_MONITOR_H
#define LEASED_CORE_SERVICE_MONITOR_H

#include "base/latency.h"
#include "core/service.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SERVICE_PEERS_MAX = 16 };

/* Another member, since this process started. */
struct service_peer {
    uint64_t id;
    bool is_linked;
    bool is_sent_snapshot; /* it is being sent one */
    bool sends_snapshot;   /* one is being received from it */
    uint64_t sent_bytes;
    uint64_t sent_failures; /* messages that could not be sent: the link is down or full */
    uint64_t received_bytes;
    struct latency round_trips; /* of the leader's pings; empty on the others */
};

struct service_monitor {
    struct latency log_writes; /* a write and its sync, of all that gathered */
    struct latency log_syncs;  /* the sync alone */
    uint64_t log_written_bytes;
    struct latency commits;   /* from a proposal to its being applied here */
    struct latency applies;   /* of one entry, all its commands */
    struct latency snapshots; /* until it is on disk */
    uint64_t slow_applies;    /* that took longer than SERVICE_SLOW_APPLY_MS */
    uint64_t leader_changes;  /* seen by this member */
    uint64_t commit_index;
    uint64_t proposals_pending; /* commands that wait or are on their way */
    uint64_t proposals_failed;  /* commands */
    uint64_t ping_failures;     /* pings that could not be sent */
    size_t n_peers;
    struct service_peer peers[SERVICE_PEERS_MAX];
};

enum { SERVICE_SLOW_APPLY_MS = 100 };

void service_monitor(struct service *service, struct service_monitor *out_monitor);

#endif
