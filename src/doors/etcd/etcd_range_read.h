/*
 * A Range that looks at many keys, or whose answer is large: read by a worker and sent in parts
 * (etcd_long_read.h).
 */
#ifndef LEASED_DOORS_ETCD_ETCD_RANGE_READ_H
#define LEASED_DOORS_ETCD_ETCD_RANGE_READ_H

#include "core/operation.h"
#include "net/grpc.h"

/* Answers the call, later. The state may be read now; what the request borrows may go. */
void etcd_range_read_start(struct grpc_call *call, const struct range_request *request);

#endif
