/*
 * Calls counted by the version that clients say they have ("client-api-version" of clientv3). What
 * a client says becomes a label of a metric, so that only what looks like a version counts as one,
 * and only so many different ones; the rest is "unknown".
 */
#ifndef LEASED_DOORS_ETCD_ETCD_CLIENTS_H
#define LEASED_DOORS_ETCD_ETCD_CLIENTS_H

#include "base/bytes.h"

#include <stddef.h>
#include <stdint.h>

enum { ETCD_CLIENT_VERSIONS_MAX = 16, ETCD_CLIENT_VERSION_SIZE = 16 };

enum etcd_client_kind { ETCD_CLIENT_UNARY, ETCD_CLIENT_STREAM, ETCD_CLIENT_KINDS };

struct etcd_client_version {
    char text[ETCD_CLIENT_VERSION_SIZE];
    uint64_t calls[ETCD_CLIENT_KINDS];
};

/* All zeros: nothing counted. */
struct etcd_clients {
    struct etcd_client_version versions[ETCD_CLIENT_VERSIONS_MAX]; /* the first: unknown */
    size_t n;
};

/* `version` of size 0: the client does not say. */
void etcd_clients_count(struct etcd_clients *clients, struct bytes version,
                        enum etcd_client_kind kind);

#endif
