/* What both kinds of transactions share: those of keys alone, and those of keys and the catalog. */
#ifndef LEASED_DOORS_CONSUL_CONSUL_TXN_H
#define LEASED_DOORS_CONSUL_CONSUL_TXN_H

#include "doors/consul/consul_call.h"
#include "doors/consul/consul_rules.h"

/* An operation on a key; its texts point into the JSON. False: it was answered. */
bool consul_txn_read_kv(struct consul_call *call, size_t i, const json_t *kv, struct consul_op *op);
/* What is wrong with one operation alone is answered as an operation that failed. Gives false. */
bool consul_txn_fail_op(struct consul_call *call, size_t i, const char *what);
void consul_txn_write_entry(struct consul_json *json, const struct consul_result *result);
void consul_txn_write_failure(struct consul_json *json, size_t position, const struct consul_op *op,
                              const struct consul_result *result);

/* Whether an operation is one of nodes, services or checks. */
bool consul_txn_has_catalog(const json_t *body);
/* Does call->given, a list that has such. */
void consul_txn_with_catalog(struct consul_call *call);

#endif
