/* How a key is shown, by itself and in the answer of a transaction. */
#ifndef LEASED_DOORS_CONSUL_CONSUL_KV_H
#define LEASED_DOORS_CONSUL_CONSUL_KV_H

#include "doors/consul/consul_json.h"
#include "doors/consul/consul_model.h"

void consul_kv_write_entry(struct consul_json *json, const struct consul_entry *entry,
                           bool has_value);

#endif
