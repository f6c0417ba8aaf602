/*
 * The plan for file descriptors. Clients get what is left when the log, the snapshots, the other
 * members and the process itself have theirs, so that no number of clients can take the descriptor
 * that a write to the log needs.
 */
#ifndef LEASED_SERVER_DESCRIPTORS_H
#define LEASED_SERVER_DESCRIPTORS_H

#include "base/status.h"
#include "net/refusal.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /* Standard streams, the event loop, signals, listeners, the lock, /proc for /metrics. */
    DESCRIPTORS_PROCESS = 32,
    /* Segments being written, prepared, removed and read for members that are behind. */
    DESCRIPTORS_LOG = 32,
    /* Written, sent to a member, received from the leader. */
    DESCRIPTORS_SNAPSHOTS = 16,
    /* 16 members, two connections in each direction, and inbound ones not yet authenticated. */
    DESCRIPTORS_PEERS = 96,
    /* Clients that are refused with a message. */
    DESCRIPTORS_REFUSALS = REFUSALS_MAX,
    /* Connections of health checks, however few descriptors there are. */
    DESCRIPTORS_CHECKS_MIN = 16,
    DESCRIPTORS_RESERVE = DESCRIPTORS_PROCESS + DESCRIPTORS_LOG + DESCRIPTORS_SNAPSHOTS +
                          DESCRIPTORS_PEERS + DESCRIPTORS_REFUSALS + DESCRIPTORS_CHECKS_MIN,
    /* And one of so many of the rest, where there are so many, up to a maximum. */
    DESCRIPTORS_CHECKS_SHARE = 16,
    DESCRIPTORS_CHECKS_FROM = 1024,
    DESCRIPTORS_CHECKS_MAX = 2048,
    /* Connections to --listen-metrics-urls, where there are any; refusals there included. */
    DESCRIPTORS_METRICS = 32,
    METRICS_CONNECTIONS_MAX = DESCRIPTORS_METRICS - REFUSALS_MAX,
    /* One address may always have so many connections: a proxy, or a host with many programs. */
    CLIENT_SHARE_MIN = 1024,
    /* With room for fewer clients than this it would not be a server. */
    CLIENT_CONNECTIONS_MIN = 16
};

/* Raises the soft limit to the hard limit and returns the limit that holds then. */
uint64_t descriptors_raise_limit(void);

/* How many connections of clients may be open: at most `wanted`, at most what the limit leaves.
 * STATUS_INVALID with a reason: the limit is too small to work at all. */
enum status descriptors_plan(uint64_t limit, size_t wanted, bool has_metrics_listener,
                             size_t *out_connections_max, char *out_error, size_t error_size);

/* How many connections health checks may have. The plan has left them out. */
size_t descriptors_checks(uint64_t limit);

/* How many of the clients' connections may be of one address: `wanted`, or, when that is 0, three
 * quarters and not fewer than CLIENT_SHARE_MIN. */
size_t descriptors_client_share(size_t connections_max, size_t wanted);

#endif
