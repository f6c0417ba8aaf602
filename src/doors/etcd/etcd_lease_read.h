/*
 * Lists of many leases, and of the many keys of one: read by a worker and sent in parts
 * (etcd_long_read.h).
 */
#ifndef LEASED_DOORS_ETCD_ETCD_LEASE_READ_H
#define LEASED_DOORS_ETCD_ETCD_LEASE_READ_H

#include "net/grpc.h"

#include <stdint.h>

/* Answers LeaseLeases, later: leases by id, not by the time they have left. */
void etcd_lease_list_start(struct grpc_call *call);

/* What is already known of a lease whose keys are asked for. */
struct etcd_lease_known {
    int64_t id;
    int64_t ttl;
    int64_t granted_ttl;
};
/* Answers LeaseTimeToLive with its keys, later. */
void etcd_lease_keys_start(struct grpc_call *call, const struct etcd_lease_known *known);

#endif
