/*
 * TTLs as this wire has them.
 */
#ifndef LEASED_DOORS_ETCD_ETCD_LEASE_H
#define LEASED_DOORS_ETCD_ETCD_LEASE_H

#include <stdint.h>

/* A TTL in whole seconds, never 0, which would say that there is no lease, and never more than
 * etcd's largest. */
int64_t etcd_ttl_seconds(int64_t ttl_ms);

#endif
