/*
 * A transaction that changes nothing and looks at many keys: carried out by a worker, on a view
 * (etcd_long_read.h).
 */
#ifndef LEASED_DOORS_ETCD_ETCD_TXN_READ_H
#define LEASED_DOORS_ETCD_ETCD_TXN_READ_H

#include "base/bytes.h"
#include "core/permission.h"
#include "net/grpc.h"

/* The message has been read once and passed command_check(); it is copied. The ranges are those of
 * its compares and operations, borrowed for the call. Answers the call in any case. */
void etcd_txn_read_start(struct grpc_call *call, struct bytes message,
                         const struct key_range *ranges, size_t n_ranges);

#endif
