/*
 * Calls that wait in the queue of a lock or an election (etcd_queue_rules.h). The order is in the
 * keys; this is who waits on this member. A call waits for one key, the one before its own, so a
 * hand-over wakes one call; and for its own key, so it is told at once when its lease ends. It
 * waits across changes of the leader and installed snapshots. A call that ends before it is
 * answered takes its key with it.
 *
 * While a call waits with a lease that the server granted for it, the server renews that lease.
 */
#ifndef LEASED_DOORS_ETCD_ETCD_QUEUE_H
#define LEASED_DOORS_ETCD_ETCD_QUEUE_H

#include "core/service.h"
#include "doors/etcd/etcd_call.h"
#include "doors/etcd/etcd_error.h"

/* Of a lease that the server grants for a call without one: etcd's session. */
enum { ETCD_SESSION_TTL_MS = 60 * 1000 };

struct etcd_place; /* of one call in a queue */

/* What a call is told when it is first. */
struct etcd_place_facts {
    struct bytes name;
    struct bytes key;
    int64_t lease_id;
    int64_t create_revision;
    int64_t joined_revision;
    int64_t revision; /* at which it was seen to be first */
};

/* Lock or Campaign. */
struct etcd_place_kind {
    void (*answer)(struct grpc_call *call, const struct etcd_place_facts *facts);
    const struct etcd_error *lost; /* the key is gone: the lease has ended */
    bool keeps_value;              /* see struct etcd_join */
};

struct etcd_queues *etcd_queues_create(struct etcd_door *door, uv_loop_t *loop);
/* No call is open and no request is with the service. The loop must run once more. */
void etcd_queues_destroy(struct etcd_queues *queues);
/* Calls that wait, or whose keys are being taken away. */
size_t etcd_queues_count(const struct etcd_queues *queues);

/* Queues a call; what is borrowed may go when it returns. */
void etcd_queue_enter(struct grpc_call *call, const struct etcd_place_kind *kind, struct bytes name,
                      struct bytes value, int64_t lease_id);
/* on_close of the methods that queue. */
void etcd_queue_closed(struct grpc_call *call);

#endif
