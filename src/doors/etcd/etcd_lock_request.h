/*
 * From the bytes of requests of the Lock and Election services to their fields. Pure, as
 * etcd_request.h.
 */
#ifndef LEASED_DOORS_ETCD_ETCD_LOCK_REQUEST_H
#define LEASED_DOORS_ETCD_ETCD_LOCK_REQUEST_H

#include "base/bytes.h"
#include "doors/etcd/etcd_error.h"

#include <stdint.h>

/* Lock, Campaign, Leader, Observe: what they have of this. */
struct etcd_queue_request {
    struct bytes name;
    int64_t lease_id; /* 0: none */
    struct bytes value;
};
const struct etcd_error *etcd_request_queue(struct bytes message,
                                            struct etcd_queue_request *out_request);

struct etcd_unlock_request {
    struct bytes key;
    int64_t revision; /* 0: not given */
};
const struct etcd_error *etcd_request_unlock(struct bytes message,
                                             struct etcd_unlock_request *out_request);

/* Proclaim and Resign: the leadership that a Campaign gave. Without one they are refused. */
struct etcd_leadership_request {
    struct bytes key;
    int64_t revision;
    int64_t lease_id;
    struct bytes value;
};
const struct etcd_error *etcd_request_leadership(struct bytes message,
                                                 struct etcd_leadership_request *out_request);

#endif
