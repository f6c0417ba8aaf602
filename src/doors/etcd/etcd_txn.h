/*
 * etcd's transactions: from the wire to core, and the little that must be remembered of one to
 * answer it.
 */
#ifndef LEASED_DOORS_ETCD_ETCD_TXN_H
#define LEASED_DOORS_ETCD_ETCD_TXN_H

#include "base/arena.h"
#include "base/bytes.h"
#include "core/command.h"
#include "doors/etcd/etcd_error.h"

/* Reads a transaction with all that is nested in it; arrays are in the arena, bytes are borrowed
 * from the message. It has not passed command_check() yet. NULL, or the error to answer with. What
 * it may allocate is bounded by COMMAND_TXN_TOTAL_MAX, whatever the message says.
 * `out_serializable`: every range in it asked to be. */
const struct etcd_error *etcd_txn_request(struct bytes message, struct arena *arena,
                                          struct command *out_command, bool *out_serializable);

/* True when a range somewhere in it wants keys without values: the answer then cannot be written
 * without the request. */
bool etcd_txn_needs_shape(const struct txn_request *txn);

/* A copy of the operations without their bytes, in the arena: types, keys_only and nesting. */
const struct txn_request *etcd_txn_shape(const struct txn_request *txn, struct arena *arena);

#endif
