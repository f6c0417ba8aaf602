/*
 * etcd's v3 API over gRPC: KV, Lease, Watch, Maintenance, Cluster and Auth. Translates between the
 * wire and core/service.h; holds no state but calls in flight and watches.
 */
#ifndef LEASED_DOORS_ETCD_ETCD_DOOR_H
#define LEASED_DOORS_ETCD_ETCD_DOOR_H

#include "core/service.h"
#include "doors/door.h"
#include "net/net_server.h"

#include <stdint.h>
#include <uv.h>

/* The version that clients see. Some switch features on by it: kube-apiserver wants
 * 3.5.13 or newer for consistent reads from its cache. */
#define ETCD_VERSION "3.5.21"
/* That of the cluster: major and minor. */
#define ETCD_CLUSTER_VERSION "3.5"

struct etcd_door_options {
    size_t request_size_max;             /* of what writes keys */
    uint64_t progress_interval_ms;       /* of progress notifications to quiet watches */
    size_t watches_per_stream_max;       /* further ones are refused */
    size_t progress_at_once_watches_max; /* a stream of more gets its progress at a tick */
    size_t watch_bytes_per_stream_max;   /* of keys and range ends of all watches of a stream */
    size_t renewals_per_stream_max;      /* waiting for an answer; the stream is ended above */
    size_t renewals_asked_max;           /* of one stream, of the service; others take turns */
    size_t fragment_size;                /* watch answers are split above, when the client agrees */
    /* Of what events of one watch answer tell of before; events beyond come without. */
    size_t previous_bytes_max;
    size_t queued_calls_max; /* for locks and elections, of all clients; further ones are refused */
};
extern const struct etcd_door_options etcd_door_options_default;

/* The table by which the server knows this door. */
extern const struct door etcd_door;

struct authenticator;
struct etcd_door;

/* Loop, service and authenticator outlive the door. `options` may be NULL. */
struct etcd_door *etcd_door_create(uv_loop_t *loop, struct service *service,
                                   struct authenticator *authenticator,
                                   const struct etcd_door_options *options);

/* The door must live until the server has closed all its calls. */
void etcd_door_register(struct etcd_door *door, struct net_scope *scope);

/* After net_server_shutdown() has called back and no request is left with the service. The loop
 * must run once more, to let go of the timer. */
void etcd_door_destroy(struct etcd_door *door);

struct etcd_door_stats {
    size_t watch_streams;
    size_t watches;
    size_t keepalive_streams;
    size_t requests; /* unary requests that wait for the service */
};
void etcd_door_stats(const struct etcd_door *door, struct etcd_door_stats *out_stats);

#endif
